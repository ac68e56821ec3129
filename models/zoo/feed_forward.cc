#include "models/zoo/feed_forward.h"

#include <algorithm>
#include <cmath>

namespace pipesim {

TensorId gated_ffn(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                   std::int64_t ffn) {
  const bool fused = net.fuses_swiglu(), apart = !fused && net.keeps_as_torch();
  TensorId gate = net.linear_without_bias(prefix + "gate", x, ffn, fused || apart ? "none" : "silu");
  if (apart) gate = net.builder().add("silu", prefix + "gate_silu", {gate});
  const TensorId up = net.linear_without_bias(prefix + "up", x, ffn);
  const TensorId gated =
      net.builder().add(fused ? "swiglu" : "mul", prefix + "gated", {gate, up}, net.swiglu_attributes());
  return net.linear_without_bias(prefix + "down", gated, hidden);
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

RoutedTokens route_tokens(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes) {
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
    return {builder.add("moe_dispatch", "dispatch", {x, weights}, attributes), weights};
  attributes.emplace("weights", 1);
  const std::vector<TensorId> slots = builder.add_all("moe_dispatch", "dispatch", {x, weights}, attributes);
  return {slots[0], weights, slots[1]};
}

TensorId combine_experts(TransformerNetwork& net, TensorId results, const RoutedTokens& routed,
                         const ExpertSizes& sizes) {
  Attributes attributes{{"top_k", sizes.top_k}, {"tokens", sizes.tokens}, {"nodes", sizes.nodes}};
  if (routed.slot_weights) attributes.emplace("unweighted", 1);
  return net.builder().add("moe_combine", "combine", {results, routed.weights}, attributes);
}

TensorId experts_ffn(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes) {
  GraphBuilder& builder = net.builder();
  const RoutedTokens routed = route_tokens(net, x, sizes);
  const bool fused = net.fuses_swiglu();
  const bool apart = !fused && net.keeps_as_torch();
  TensorId gate = net.expert_product("gate", routed.tokens, sizes.ffn, fused || apart ? "none" : "silu");
  if (apart) gate = builder.add("silu", "gate_silu", {gate});
  std::vector<TensorId> factors{gate, net.expert_product("up", routed.tokens, sizes.ffn)};
  if (fused && routed.slot_weights) factors.push_back(*routed.slot_weights);
  TensorId gated = builder.add(fused ? "swiglu" : "mul", "gated", factors, net.swiglu_attributes());
  if (!fused && routed.slot_weights) gated = builder.add("mul", "weighted", {gated, *routed.slot_weights});
  return combine_experts(net, net.expert_product("down", gated, sizes.hidden), routed, sizes);
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
