#include "tools/interop/torchtitan/known_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/suggest.h"
#include "tools/interop/settings/toml_settings.h"

namespace pipesim {
namespace {

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
  for (const TorchtitanFlavor& known : torchtitan_flavors()) {
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
  return std::ranges::find(torchtitan_flavors(), name, &TorchtitanFlavor::module) !=
         torchtitan_flavors().end();
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
