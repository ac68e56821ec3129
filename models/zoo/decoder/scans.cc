#include "models/zoo/decoder/scans.h"

#include <utility>

namespace pipesim {
namespace {

/// Operators of a mixer, with names that begin with its prefix.
class MixerOperators {
 public:
  MixerOperators(GraphBuilder& builder, std::string prefix) : builder_(builder), prefix_(std::move(prefix)) {}

  TensorId add(const std::string& kind, const std::string& name, const std::vector<TensorId>& inputs,
               const Attributes& attributes = {}) const {
    return builder_.add(kind, prefix_ + name, inputs, attributes);
  }
  TensorId linear(const std::string& name, TensorId x, Sizes out, std::int64_t contract = 1) const {
    return add("linear", name, {x}, {{"out", std::move(out)}, {"bias", 0}, {"contract", contract}});
  }
  TensorId convolution(const std::string& name, TensorId x, std::int64_t kernel, bool bias) const {
    return add("causal_convolution", name, {x}, {{"kernel", kernel}, {"bias", bias ? 1 : 0}, {"silu", 1}});
  }
  /// Returns x by silu(gate).
  TensorId gated(const std::string& name, TensorId x, TensorId gate) const {
    return add("mul", name, {x, add("silu", name + "_silu", {gate})});
  }
  [[nodiscard]] const Sizes& shape(TensorId x) const { return builder_.shape(x); }

 private:
  GraphBuilder& builder_;
  std::string prefix_;
};

}  // namespace

DeltaSizes delta_sizes(const ZooValues& values) {
  const DeltaSizes sizes{.key_heads = values.integer("delta_key_heads"),
                         .value_heads = values.integer("delta_value_heads"),
                         .key_width = values.integer("delta_key_width"),
                         .value_width = values.integer("delta_value_width"),
                         .kernel = values.integer("delta_kernel"),
                         .decay_by_channel = values.word("delta_decay") == "channel",
                         .decay_latent = values.integer("delta_decay_latent"),
                         .gate_latent = values.integer("delta_gate_latent")};
  static_cast<void>(values.quotient("delta_value_heads", "delta_key_heads"));
  return sizes;
}

TensorId delta_mixer(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                     const DeltaSizes& sizes) {
  const MixerOperators of(net.builder(), prefix);
  const std::int64_t g = sizes.key_heads, r = sizes.value_heads / g;
  const auto through = [&](const std::string& name, std::int64_t latent, Sizes out) {
    const TensorId from = latent > 0 ? of.linear(name + "_latent", x, {latent}) : x;
    return of.linear(name, from, std::move(out));
  };
  const auto convolved = [&](const std::string& name, Sizes out) {
    return of.convolution(name + "_conv", of.linear(name, x, std::move(out)), sizes.kernel, false);
  };
  const TensorId query = convolved("query", {g, sizes.key_width}),
                 key = convolved("key", {g, sizes.key_width}),
                 value = convolved("value", {g, r, sizes.value_width});
  const TensorId step = sizes.decay_by_channel ? through("decay", sizes.decay_latent, {g, r, sizes.key_width})
                                               : of.linear("decay", x, {g, r});
  const TensorId beta = of.add("sigmoid", "beta_share", {of.linear("beta", x, {g, r})});
  const TensorId mixed = of.add("gated_delta_rule", "delta", {query, key, value, step, beta});
  const TensorId gate = through("gate", sizes.gate_latent, {g, r, sizes.value_width});
  const TensorId normed = net.norm("rms_norm", prefix + "norm", mixed);
  return of.linear("output", of.gated("gated", normed, gate), {hidden}, 3);
}

StateSpaceSizes state_space_sizes(const ZooValues& values) {
  const StateSpaceSizes sizes{.heads = values.integer("ssm_heads"),
                              .head_width = values.integer("ssm_head_width"),
                              .groups = values.integer("ssm_groups"),
                              .states = values.integer("ssm_states"),
                              .kernel = values.integer("ssm_kernel"),
                              .chunk = values.integer("ssm_chunk")};
  static_cast<void>(values.quotient("ssm_heads", "ssm_groups"));
  return sizes;
}

TensorId state_space_mixer(TransformerNetwork& net, const std::string& prefix, TensorId x,
                           std::int64_t hidden, const StateSpaceSizes& sizes) {
  const MixerOperators of(net.builder(), prefix);
  const std::int64_t g = sizes.groups, r = sizes.heads / g, p = sizes.head_width;
  const auto convolved = [&](const std::string& name, Sizes out) {
    return of.convolution(name + "_conv", of.linear(name, x, std::move(out)), sizes.kernel, true);
  };
  const TensorId gate = of.linear("gate", x, {g, r, p});
  const TensorId read = convolved("in", {g, r, p}), written = convolved("state_in", {g, sizes.states}),
                 selected = convolved("state_out", {g, sizes.states});
  const TensorId scanned =
      of.add("state_space_scan", "scan", {read, of.linear("step", x, {g, r}), written, selected},
             {{"chunk", sizes.chunk}});
  const TensorId gated = of.gated("gated", scanned, gate);
  const Sizes shape = of.shape(gated);
  const TensorId row = of.add("reshape", "row", {gated}, {{"shape", Sizes{shape[0], shape[1], g * r * p}}});
  Attributes groups;
  if (g > 1) groups.emplace("groups", g);
  return of.linear("output", of.add("rms_norm", "norm", {row}, groups), {hidden});
}

TensorId selective_mixer(GraphBuilder& builder, const std::string& prefix, TensorId x,
                         const SelectiveSizes& sizes) {
  const MixerOperators of(builder, prefix);
  const auto split = [&](const std::string& name, TensorId in, const Sizes& parts) {
    return builder.add_all("split", prefix + name, {in}, {{"axis", 2}, {"sizes", parts}});
  };
  const auto normed = [&](const std::string& name, TensorId in) {
    return sizes.norms ? of.add("rms_norm", name, {in}) : in;
  };
  const auto halves = split("halves", of.linear("in", x, {2 * sizes.inner}), {sizes.inner, sizes.inner});
  const TensorId y = of.convolution("conv", halves[0], sizes.kernel, true);
  const auto selected = split("selected", of.linear("select", y, {sizes.rank + 2 * sizes.states}),
                              {sizes.rank, sizes.states, sizes.states});
  const TensorId wide = of.add("linear", "step_in", {normed("step_norm", selected[0])},
                               {{"out", Sizes{sizes.inner}}, {"bias", 1}});
  const TensorId delta = of.add("softplus", "step", {wide});
  const TensorId scanned =
      of.add("selective_scan", "scan",
             {y, delta, normed("state_in_norm", selected[1]), normed("state_out_norm", selected[2])});
  return of.linear("out", of.gated("gate", scanned, halves[1]), {sizes.hidden});
}

}  // namespace pipesim
