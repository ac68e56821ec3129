#include "tools/interop/torchtitan/torchtitan_model.h"

#include <fmt/format.h>

#include "tools/interop/torchtitan/torchtitan.h"

// Positions and norms are fields of RoPE.Config and RMSNorm.Config (torchtitan/models/common) on the main
// branch, and of the arguments of each model (torchtitan/models/*/model/args.py) in 0.2.

namespace pipesim {
namespace {

using Way = RotaryScaling::Way;
constexpr int kToml = 2;

// What is written, or left to torchtitan: how weights start, and what balances experts.
DecoderSizes without_definition(DecoderSizes sizes) {
  sizes.sequence = 0;
  sizes.type = DataType::Float32;
  sizes.norm_epsilon = sizes.init_deviation = sizes.rotary_base = 0;
  sizes.rotary_scaling.reset();
  sizes.further_tokens = 0;
  sizes.partial = false;
  if (sizes.experts) sizes.experts->balance_loss = 0;
  return sizes;
}

bool is_exported(const TorchtitanFlavor& flavor, const FrameworkPlan& plan) {
  if (flavor.zoo.empty() || !flavor.what.empty()) return false;
  return takes_toml(plan) ? !flavor.main_only : !flavor.function.empty();
}

// A number that Python takes as one with a fraction.
std::string python_real(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string rope_fields(const DecoderSizes& s) {
  std::string text = fmt::format("theta={}, max_context_length=length, ", python_real(s.rotary_base));
  if (!s.rotary_scaling) return text + "scaling=\"none\"";
  const RotaryScaling& r = *s.rotary_scaling;
  if (r.way == Way::Llama3)
    return text + fmt::format(
                      "scaling=\"llama\", scaling_factor={}, low_freq_factor={}, high_freq_factor={}, "
                      "original_max_position_embeddings={}",
                      python_real(r.factor), python_real(r.low), python_real(r.high), r.original);
  return text +
         fmt::format("scaling=\"yarn\", rope_factor={}, beta_slow={}, beta_fast={}, original_seq_len={}",
                     python_real(r.factor), python_real(r.low), python_real(r.high), r.original);
}

// A factor of 1 leaves positions as they are.
std::string llama_arguments(const DecoderSizes& s) {
  const RotaryScaling r = s.rotary_scaling.value_or(
      RotaryScaling{.way = Way::Llama3, .factor = 1, .original = 8192, .low = 1, .high = 4});
  return fmt::format(
      "    rope_scaling_args=replace(\n        known.rope_scaling_args,\n        scaling_factor={},\n        "
      "low_freq_factor={},\n        high_freq_factor={},\n        original_max_position_embeddings={},\n    "
      "),\n",
      python_real(r.factor), python_real(r.low), python_real(r.high), r.original);
}

std::string deepseek_arguments(const DecoderSizes& s) {
  if (!s.rotary_scaling) return "    rope_factor=1.0,\n    mscale=0.0,\n";
  const RotaryScaling& r = *s.rotary_scaling;
  return fmt::format(
      "    rope_factor={},\n    beta_slow={},\n    beta_fast={},\n    original_seq_len={},\n    mscale={},\n",
      python_real(r.factor), static_cast<std::int64_t>(r.low), static_cast<std::int64_t>(r.high), r.original,
      python_real(r.mscale));
}

// Its qwen3 stretches no positions.
std::string scaling_arguments(const DecoderSizes& s) {
  if (s.head_norm) return "";
  return s.latent ? deepseek_arguments(s) : llama_arguments(s);
}

void refuse_scaling(const FrameworkPlan& plan, RuleCheck& check) {
  if (!plan.sizes.rotary_scaling || !plan.base.empty()) return;
  const RotaryScaling& r = *plan.sizes.rotary_scaling;
  // Its models stretch positions by one way each, or not at all.
  const bool latent = plan.sizes.latent.has_value();
  const bool takes = !plan.sizes.head_norm && r.way == (latent ? Way::Yarn : Way::Llama3);
  if (!takes)
    check.refuse([&] {
      return Refusal{fmt::format("rotary_scaling={}", r.way == Way::Linear   ? "linear"
                                                      : r.way == Way::Llama3 ? "llama3"
                                                                             : "yarn"),
                     latent                 ? "its deepseek_v3 stretches positions by yarn"
                     : plan.sizes.head_norm ? "its qwen3 stretches no positions"
                                            : "its llama3 stretches positions by llama3",
                     {}};
    });
  if (takes && r.way == Way::Yarn && r.mscale != r.mscale_all)
    check.refuse([&] {
      return Refusal{fmt::format("rotary_mscale={},rotary_mscale_all={}", r.mscale, r.mscale_all),
                     "it has one mscale for both",
                     {}};
    });
  if (takes && r.way == Way::Yarn && takes_toml(plan) && plan.sizes.sequence <= r.original)
    check.refuse([&] {
      return Refusal{
          fmt::format("sequence={} with rotary_scaling=yarn", plan.sizes.sequence),
          fmt::format("torchtitan 0.2 stretches positions only of more than rotary_original={}", r.original),
          {}};
    });
}

void refuse_for_toml(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.tensor > 1 && !r.sequence_parallel)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} without sp", r.tensor),
                     "torchtitan 0.2 divides the sequence wherever there is tp",
                     amend_recipe([](Recipe& recipe) { recipe.sequence_parallel = true; })};
    });
  if (r.pipeline > 1 && plan.sizes.head_norm)
    check.refuse([&] {
      return Refusal{fmt::format("pp{}", r.pipeline), "the qwen3 of torchtitan 0.2 has no pipelines",
                     amend_recipe(leave_out_pipeline)};
    });
  if (r.context > 1 && plan.sizes.latent)
    check.refuse([&] {
      return Refusal{fmt::format("cp{}", r.context),
                     "the flex attention of its deepseek_v3 goes with no context parallelism",
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.context;
                       recipe.context = 1;
                       recipe.ring = false;
                     })};
    });
}

void refuse_for_main(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.ring)
    check.refuse([&] {
      return Refusal{fmt::format("cp{} with ring", r.context), "context parallelism gathers keys and values",
                     amend_recipe([](Recipe& recipe) { recipe.ring = false; })};
    });
  // The file that ran forward beside backward was removed.
  if (r.pipeline > 1 && r.schedule == "dualpipe-v")
    check.refuse([&] {
      return Refusal{"schedule=dualpipe-v",
                     "forward and backward of a pair run one after the other; torchtitan 0.2 runs them "
                     "side by side",
                     amend_recipe([](Recipe& recipe) { recipe.schedule = "zb-v"; })};
    });
}

}  // namespace

const TorchtitanFlavor* torchtitan_model(const FrameworkPlan& plan) {
  static const std::vector<DecoderSizes> known = [] {
    std::vector<DecoderSizes> sizes;
    for (const TorchtitanFlavor& flavor : torchtitan_flavors())
      sizes.push_back(flavor.zoo.empty() ? DecoderSizes()
                                         : without_definition(decoder_sizes(std::string(flavor.zoo))));
    return sizes;
  }();
  const DecoderSizes asked = without_definition(plan.sizes);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const TorchtitanFlavor& flavor = torchtitan_flavors()[i];
    if (!is_exported(flavor, plan) || known[i] != asked) continue;
    return &flavor;
  }
  return nullptr;
}

const std::vector<FrameworkVersion>& torchtitan_versions() {
  static const std::vector<FrameworkVersion> all{
      {"0.2", "torchtitan 0.2", "v0.2.2", kToml},
      {"main", "torchtitan's main branch", "b5bcd76c6 of August 2026", kToml + 1}};
  return all;
}

const FrameworkVersion& torchtitan_version(const FrameworkPlan& plan) {
  return plan.version.name.empty() ? torchtitan_versions().back() : plan.version;
}

bool takes_toml(const FrameworkPlan& plan) { return torchtitan_version(plan).number == kToml; }

std::string torchtitan_definition(const FrameworkPlan& plan) {
  const DecoderSizes& sizes = plan.sizes;
  const TorchtitanFlavor& flavor = *torchtitan_model(plan);
  const std::string model =
      flavor.assets.empty()
          ? ""
          : fmt::format(
                "    config.model_spec = model_registry(\"{}\")\n    config.hf_assets_path = "
                "\"./assets/hf/{}\"\n",
                flavor.flavor, flavor.assets);
  return model + fmt::format(
                     "    # Positions and norms of the plan's model.\n    model = config.model_spec.model\n  "
                     "  length = "
                     "max(model.max_context_length, {})\n    for layer in model.layers:\n        "
                     "layer.attention.rope = "
                     "replace(\n            layer.attention.rope, {}\n        )\n    for _, norm, _, _ in "
                     "model.traverse(RMSNorm.Config):\n        norm.eps = {}\n",
                     sizes.sequence, rope_fields(sizes), python_real(sizes.norm_epsilon));
}

std::string torchtitan_module(const FrameworkPlan& plan) {
  const DecoderSizes& s = plan.sizes;
  const TorchtitanFlavor& model = *torchtitan_model(plan);
  const FrameworkVersion& version = torchtitan_version(plan);
  return fmt::format(
      "# {0}\n# The plan's model for {1} ({2}), which imports this file as "
      "experimental.custom_import.\n\nfrom "
      "dataclasses import replace\n\nfrom torchtitan.models.{3} import get_train_spec\nfrom "
      "torchtitan.protocols.train_spec import register_train_spec\n\nspec = get_train_spec()\nknown = "
      "spec.model_args[\"{4}\"]\nmodel = replace(\n    known,\n    rope_theta={5},\n{6}    norm_eps={7},\n)\n"
      "register_train_spec(\"{8}\", replace(spec, model_args={{\"plan\": model}}))\n",
      plan.recipe.str(), version.title, version.source, model.module, model.flavor,
      python_real(s.rotary_base), scaling_arguments(s), python_real(s.norm_epsilon), kTorchtitanConfig);
}

void leave_out_pipeline(Recipe& recipe) {
  recipe.data *= recipe.pipeline;
  recipe.pipeline = recipe.chunks = 1;
  recipe.schedule.clear();
  recipe.first.reset(), recipe.last.reset(), recipe.layers.clear();
}

void refuse_torchtitan_definition(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.base.empty() && torchtitan_model(plan) == nullptr)
    check.refuse([&] {
      std::string all;
      std::string_view module;
      for (const TorchtitanFlavor& flavor : torchtitan_flavors()) {
        if (!is_exported(flavor, plan)) continue;
        all += flavor.module == module
                   ? fmt::format(", {}", flavor.flavor)
                   : fmt::format("{}{} {}", all.empty() ? "" : "; ", flavor.module, flavor.flavor);
        module = flavor.module;
      }
      return Refusal{fmt::format("model \"{}\"", plan.model),
                     fmt::format("it has {}, with any sequence{}", all,
                                 takes_toml(plan) ? "" : "; --base names one of yours"),
                     {}};
    });
  if (const auto refusal = partial_model(plan); refusal && plan.base.empty())
    check.refuse([&] { return *refusal; });
  if (const auto refusal = adapted_model(plan); refusal && plan.base.empty())
    check.refuse([&] { return *refusal; });
  if (plan.sizes.further_tokens > 0 && plan.base.empty())
    check.refuse([&] {
      return Refusal{fmt::format("further_tokens={}", plan.sizes.further_tokens),
                     "its configurations predict one token; further_tokens=0 leaves them out",
                     {}};
    });
  refuse_scaling(plan, check);
  if (takes_toml(plan) && !plan.base.empty())
    check.refuse([&] {
      return Refusal{"--base " + plan.base, "torchtitan 0.2 has no functions that return configurations", {}};
    });
}

void refuse_torchtitan_version(const FrameworkPlan& plan, RuleCheck& check) {
  if (takes_toml(plan)) {
    refuse_for_toml(plan, check);
  } else {
    refuse_for_main(plan, check);
  }
}

}  // namespace pipesim
