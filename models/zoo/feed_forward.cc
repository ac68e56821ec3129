#include "models/zoo/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace pipesim {

namespace {

// Attributes of the fused kernel of a gate; silu needs none.
Attributes gate_attributes(const TransformerNetwork& net, const FeedForwardStyle& style) {
  Attributes attributes = net.swiglu_attributes();
  if (style.activation != "silu") attributes.emplace("activation", style.activation);
  return attributes;
}

}  // namespace

TensorId feed_forward(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                      std::int64_t ffn, const FeedForwardStyle& style) {
  const auto linear = [&](const char* name, TensorId in, std::int64_t out, const std::string& activation) {
    return net.linear(prefix + name, in, out, activation, style.bias);
  };
  if (!style.gated) return linear("ffn2", linear("ffn1", x, ffn, style.activation), hidden, "none");
  const bool fused = net.fuses_swiglu(), apart = !fused && net.keeps_as_torch();
  TensorId gate = linear("gate", x, ffn, fused || apart ? "none" : style.activation);
  if (apart) gate = net.builder().add(style.activation, prefix + "gate_" + style.activation, {gate});
  const TensorId up = linear("up", x, ffn, "none");
  const TensorId gated = net.builder().add(fused ? "swiglu" : "mul", prefix + "gated", {gate, up},
                                           fused ? gate_attributes(net, style) : Attributes());
  return linear("down", gated, hidden, "none");
}

ExpertSizes expert_sizes(const ZooValues& values, std::int64_t ffn) {
  ExpertSizes sizes = {.experts = values.integer("experts"),
                       .top_k = values.integer("top_k"),
                       .hidden = values.integer("hidden"),
                       .ffn = ffn};
  if (sizes.top_k > sizes.experts) {
    values.fail("top_k=" + values.word("top_k") + " is more than experts=" + values.word("experts"));
  }
  const std::int64_t sequence = values.integer("sequence");
  sizes.groups = values.integer("token_groups");
  if (sequence % sizes.groups != 0)
    values.fail("token_groups=" + values.word("token_groups") +
                " does not divide sequence=" + values.word("sequence"));
  sizes.tokens = values.word("dispatch");
  sizes.nodes = values.integer("token_nodes");
  const std::int64_t tokens = sequence / sizes.groups;
  const auto even = static_cast<double>(tokens * sizes.top_k) / static_cast<double>(sizes.experts);
  // An expert never gets more than all tokens. 50 · 1.1 comes out a little above 55: that is no 56th token.
  sizes.capacity =
      std::min(tokens, static_cast<std::int64_t>(std::ceil(even * values.real("capacity_factor") - 1e-9)));
  return sizes;
}

namespace {

// Tokens by expert, and the weights of each token's experts. Networks that keep as Megatron-LM does (from
// 0.13 on) weigh what enters an expert's last product, not what leaves it, so that nothing that experts
// return is kept for backward: `slot_weights` are those of the tokens' slots then.
struct RoutedTokens {
  TensorId tokens, weights;
  std::optional<TensorId> slot_weights = {};
};

// `travelling`: what is sent of each token, x or its latent.
RoutedTokens route_tokens(TransformerNetwork& net, TensorId x, TensorId travelling,
                          const ExpertSizes& sizes) {
  GraphBuilder& builder = net.builder();
  const TensorId scores = builder.add(
      "linear", "router", {x},
      {{"out", Sizes{sizes.experts}}, {"bias", 0}, {"router", 1}, {"router_groups", sizes.groups}});
  const TensorId weights = builder.add(sizes.gate, "router_weights", {scores});
  Attributes attributes{{"top_k", sizes.top_k},
                        {"capacity", sizes.capacity},
                        {"groups", sizes.groups},
                        {"tokens", sizes.tokens},
                        {"nodes", sizes.nodes}};
  if (!net.keeps_as_megatron())
    return {builder.add("moe_dispatch", "dispatch", {travelling, weights}, attributes), weights};
  attributes.emplace("weights", 1);
  const std::vector<TensorId> slots =
      builder.add_all("moe_dispatch", "dispatch", {travelling, weights}, attributes);
  return {slots[0], weights, slots[1]};
}

// Adds up what experts made of the tokens.
TensorId combine_experts(TransformerNetwork& net, TensorId results, const RoutedTokens& routed,
                         const ExpertSizes& sizes) {
  Attributes attributes{{"top_k", sizes.top_k}, {"tokens", sizes.tokens}, {"nodes", sizes.nodes}};
  if (routed.slot_weights) attributes.emplace("unweighted", 1);
  return net.builder().add("moe_combine", "combine", {results, routed.weights}, attributes);
}

TensorId gated_expert(TransformerNetwork& net, const RoutedTokens& routed, const ExpertSizes& sizes,
                      std::int64_t width) {
  GraphBuilder& builder = net.builder();
  const FeedForwardStyle& style = sizes.style;
  const bool fused = net.fuses_swiglu(), apart = !fused && net.keeps_as_torch();
  TensorId gate = net.expert_product("gate", routed.tokens, sizes.ffn,
                                     fused || apart ? "none" : style.activation, style.bias);
  if (apart) gate = builder.add(style.activation, "gate_" + style.activation, {gate});
  std::vector<TensorId> factors{gate, net.expert_product("up", routed.tokens, sizes.ffn, "none", style.bias)};
  if (fused && routed.slot_weights) factors.push_back(*routed.slot_weights);
  TensorId gated = builder.add(fused ? "swiglu" : "mul", "gated", factors,
                               fused ? gate_attributes(net, style) : Attributes());
  if (!fused && routed.slot_weights) gated = builder.add("mul", "weighted", {gated, *routed.slot_weights});
  return net.expert_product("down", gated, width, "none", style.bias);
}

TensorId plain_expert(TransformerNetwork& net, const RoutedTokens& routed, const ExpertSizes& sizes,
                      std::int64_t width) {
  const FeedForwardStyle& style = sizes.style;
  TensorId inner = net.expert_product("ffn1", routed.tokens, sizes.ffn, style.activation, style.bias);
  if (routed.slot_weights) inner = net.builder().add("mul", "weighted", {inner, *routed.slot_weights});
  return net.expert_product("ffn2", inner, width, "none", style.bias);
}

}  // namespace

TensorId experts_ffn(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes) {
  const TensorId travelling = sizes.latent > 0 ? net.linear_without_bias("latent_down", x, sizes.latent) : x;
  const RoutedTokens routed = route_tokens(net, x, travelling, sizes);
  const std::int64_t width = sizes.latent > 0 ? sizes.latent : sizes.hidden;
  const TensorId results =
      sizes.style.gated ? gated_expert(net, routed, sizes, width) : plain_expert(net, routed, sizes, width);
  const TensorId combined = combine_experts(net, results, routed, sizes);
  return sizes.latent > 0 ? net.linear_without_bias("latent_up", combined, sizes.hidden) : combined;
}

TensorId weighted_shared_expert(TransformerNetwork& net, TensorId x, std::int64_t hidden, std::int64_t ffn,
                                const FeedForwardStyle& style) {
  GraphBuilder& builder = net.builder();
  const TensorId score = builder.add("linear", "shared_router", {x}, {{"out", Sizes{1}}, {"bias", 0}});
  const TensorId weight = builder.add("sigmoid", "shared_weight", {score});
  return builder.add("mul", "shared_weighted", {feed_forward(net, "shared_", x, hidden, ffn, style), weight});
}

ZooOptions experts_options(std::int64_t experts, std::int64_t top_k) {
  return {
      ZooOption::integer("experts", experts, 1, 1024, "experts of a layer"),
      ZooOption::integer("top_k", top_k, 1, 1024, "experts that a token goes to; at most experts"),
      ZooOption::real("capacity_factor", 1, 0.01, 256,
                      "tokens an expert takes, in shares of a perfectly balanced load"),
      ZooOption::integer("token_groups", 1, 1, 1 << 20,
                         "groups of neighbouring tokens in a sample, each with its own capacity"),
      ZooOption::word("dispatch", {"own", "float8"}, "own",
                      "type in which tokens travel to experts, and gradients of their results: dtype, or "
                      "float8 with a scale for each 128 elements"),
      ZooOption::integer("token_nodes", 0, 0, 1 << 20,
                         "nodes that a token's experts are on at most, each of which it reaches once and is "
                         "handed on there; 0: it is sent to each of its experts by itself")};
}

}  // namespace pipesim
