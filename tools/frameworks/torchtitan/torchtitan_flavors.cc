#include "tools/frameworks/torchtitan/torchtitan_flavors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/suggest.h"
#include "tools/frameworks/settings/toml_settings.h"

// Sizes are those of torchtitan/models/*/__init__.py, of v0.2.2 and of the main branch, which agree.

namespace pipesim {
namespace {

constexpr std::string_view kNoQueryLatent = "attention whose queries have no latent can't be expressed";
constexpr std::string_view kEverySecond = "experts in every second layer can't be expressed";
constexpr std::string_view kNoPositions = "layers without positions are taken with them";
constexpr std::string_view kGated =
    "shared experts have a gate of their own, and weights of experts are applied behind them";

constexpr std::array kFlavors = std::to_array<TorchtitanFlavor>({
    {"llama3", "debugmodel", "llama3-8b:layers=6,hidden=256,heads=16,kv_heads=16,ffn=768,vocab=2048", ""},
    {"llama3", "1B", "llama3-8b:layers=16,hidden=2048,heads=32,kv_heads=8,ffn=8192,projection=tied", ""},
    {"llama3", "3B", "llama3-8b:layers=28,hidden=3072,heads=24,kv_heads=8,ffn=8192,projection=tied", ""},
    {"llama3", "8B", "llama3-8b", ""},
    {"llama3", "70B", "llama3-70b", ""},
    {"llama3", "405B", "llama3-405b", ""},
    {"llama4", "debugmodel", "", kEverySecond},
    {"llama4", "17bx16e",
     "mixtral-8x7b:layers=48,hidden=5120,heads=40,kv_heads=8,ffn=8192,vocab=202048,experts=16,top_k=1,"
     "shared_ffn=8192,balance_loss=0,rotary_base=500000",
     kGated},
    {"llama4", "17bx128e", "", kEverySecond},
    {"deepseek_v3", "debugmodel", "", kNoQueryLatent},
    {"deepseek_v3", "16B", "", kNoQueryLatent},
    {"deepseek_v3", "236B",
     "deepseek-v3:layers=60,hidden=5120,heads=128,ffn=12288,expert_ffn=1536,experts=160,shared_experts=2,top_"
     "k=6,"
     "dense_layers=1,router_groups=8,router_top_groups=3,router_scale=16,vocab=102400",
     "scores of experts are sigmoids"},
    {"deepseek_v3", "671B", "deepseek-v3", ""},
    {"qwen3", "debugmodel",
     "qwen3-8b:layers=8,hidden=256,heads=16,kv_heads=8,head_width=128,ffn=3072,vocab=2048,projection=tied",
     ""},
    {"qwen3", "0.6B",
     "qwen3-8b:layers=28,hidden=1024,heads=16,kv_heads=8,head_width=128,ffn=3072,projection=tied", ""},
    {"qwen3", "1.7B",
     "qwen3-8b:layers=28,hidden=2048,heads=16,kv_heads=8,head_width=128,ffn=6144,projection=tied", ""},
    {"qwen3", "4B",
     "qwen3-8b:layers=36,hidden=2560,heads=32,kv_heads=8,head_width=128,ffn=9728,projection=tied", ""},
    {"qwen3", "8B", "qwen3-8b", ""},
    {"qwen3", "14B", "qwen3-8b:layers=40,hidden=5120,heads=40,kv_heads=8,head_width=128,ffn=17408", ""},
    {"qwen3", "32B", "qwen3-8b:layers=64,hidden=5120,heads=64,kv_heads=8,head_width=128,ffn=25600", ""},
    {"qwen3", "debugmodel_moe",
     "qwen3-235b:layers=8,hidden=256,heads=16,kv_heads=8,head_width=128,ffn=768,experts=64,top_k=8,vocab="
     "2048,"
     "balance_loss=0",
     ""},
    {"qwen3", "30B-A3B",
     "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,head_width=128,ffn=768,experts=128,top_k=8,"
     "balance_loss=0",
     ""},
    {"qwen3", "235B-A22B", "qwen3-235b:rotary_base=5e6,balance_loss=0", ""},
    {"gpt_oss", "", "", "windows of attention with sinks can't be expressed"},
    {"flux", "", "", "a model of images is no decoder of words"},
    {"vlm", "", "", "a model of images and words can't be expressed"},
    {"qwen3_5", "", "", "linear attention between layers can't be expressed"},
    {"kimi_k2_7", "", "", "models of images and words, or other routers, can't be expressed"},
    {"muse_glimmer", "", "", "its layers can't be expressed"},
    {"transformers_modeling_backend", "", "",
     "the model is one of Hugging Face, whose sizes are not in the file"},
    {"deepseek_v2", "", "", kNoQueryLatent},
});

// What a flavor's name adds to one that is known: how attention is computed.
std::string_view without_kernel(std::string_view flavor) {
  for (const std::string_view end :
       {"_flex_attn", "_varlen_attn", "_flex", "_varlen", "_irope", "_non_fused_qkv"}) {
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  }
  return flavor;
}

struct KnownConfiguration {
  std::string_view function, toml;
};

// torchtitan/models/*/config_registry.py at b5bcd76c6; what is not set is torchtitan's default.
constexpr std::array kConfigurations = std::to_array<KnownConfiguration>({
    {"llama3_debugmodel",
     "model.name='llama3'\nmodel.flavor='debugmodel'\ntraining.num_tokens_per_microbatch_per_dp_rank=16384\n"
     "training.max_context_length=2048\nparallelism.pipeline_parallel_schedule='Interleaved1F1B'\n"},
    {"llama3_8b",
     "model.name='llama3'\nmodel.flavor='8B'\ntraining.num_tokens_per_microbatch_per_dp_rank=8192\n"
     "training.max_context_length=8192\n"},
    {"llama3_70b",
     "model.name='llama3'\nmodel.flavor='70B'\ntraining.num_tokens_per_microbatch_per_dp_rank=65536\n"
     "training.max_context_length=8192\nparallelism.tensor_parallel_degree=8\n"
     "activation_checkpoint='FullAC.Config'\n"},
    {"llama3_405b",
     "model.name='llama3'\nmodel.flavor='405B'\nmodel_spec.converters='Float8LinearConverter.Config'\n"
     "training.num_tokens_per_microbatch_per_dp_rank=16384\ntraining.max_context_length=8192\n"
     "parallelism.tensor_parallel_degree=8\nactivation_checkpoint='FullAC.Config'\ncompile.enable=true\n"
     "compile.enable_async_tensor_parallel=true\n"},
    {"deepseek_v3_671b",
     "model.name='deepseek_v3'\nmodel.flavor='671B'\ntraining.num_tokens_per_microbatch_per_dp_rank=16384\n"
     "training.max_context_length=4096\nparallelism.pipeline_parallel_schedule='Interleaved1F1B'\n"
     "parallelism.expert_parallel_degree=2\ncompile.enable=true\ncompile.components=['loss']\n"},
    {"qwen3_0_6b",
     "model.name='qwen3'\nmodel.flavor='0.6B'\ntraining.num_tokens_per_microbatch_per_dp_rank=16384\n"
     "training.max_context_length=4096\n"},
    {"qwen3_1_7b",
     "model.name='qwen3'\nmodel.flavor='1.7B'\ntraining.num_tokens_per_microbatch_per_dp_rank=16384\n"
     "training.max_context_length=4096\n"},
    {"qwen3_14b",
     "model.name='qwen3'\nmodel.flavor='14B'\ntraining.num_tokens_per_microbatch_per_dp_rank=16384\n"
     "training.max_context_length=4096\nactivation_checkpoint='FullAC.Config'\n"},
    {"qwen3_30b_a3b",
     "model.name='qwen3'\nmodel.flavor='30B-A3B'\ntraining.num_tokens_per_microbatch_per_dp_rank=8192\n"
     "training.max_context_length=4096\nactivation_checkpoint='FullAC.Config'\n"},
    {"qwen3_32b",
     "model.name='qwen3'\nmodel.flavor='32B'\ntraining.num_tokens_per_microbatch_per_dp_rank=8192\n"
     "training.max_context_length=4096\nactivation_checkpoint='FullAC.Config'\n"},
});

}  // namespace

const TorchtitanFlavor& torchtitan_flavor(const Settings& settings, std::string_view main_module) {
  const std::string module = settings.text("model.name").value_or(std::string(main_module));
  const std::string flavor = settings.text("model.flavor").value_or("debugmodel");
  std::vector<std::string> modules, flavors;
  for (const TorchtitanFlavor& known : kFlavors) {
    modules.emplace_back(known.module);
    if (known.module != module) continue;
    flavors.emplace_back(known.flavor);
    if (!known.flavor.empty() && known.flavor != without_kernel(flavor)) continue;
    if (known.zoo.empty())
      settings.fail(
          known.flavor.empty() ? "model.name" : "model.flavor",
          fmt::format("found \"{}\": {}", known.flavor.empty() ? module : module + " " + flavor, known.what));
    return known;
  }
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  if (flavors.empty())
    settings.fail("model.name", fmt::format("found \"{}\"{}, allowed: {}", module,
                                            did_you_mean(module, modules), list_names(modules)));
  settings.fail("model.flavor", fmt::format("found \"{}\"{}, allowed for {}: {}", flavor,
                                            did_you_mean(flavor, flavors), module, list_names(flavors)));
}

bool is_torchtitan_module(std::string_view name) {
  return std::ranges::find(kFlavors, name, &TorchtitanFlavor::module) != kFlavors.end();
}

std::optional<Settings> torchtitan_configuration(std::string_view function) {
  const auto known = std::ranges::find(kConfigurations, function, &KnownConfiguration::function);
  if (known == kConfigurations.end()) return std::nullopt;
  return toml_settings(known->toml, std::string(function));
}

std::vector<std::string> torchtitan_configurations() {
  std::vector<std::string> names;
  for (const KnownConfiguration& known : kConfigurations) names.emplace_back(known.function);
  return names;
}

}  // namespace pipesim
