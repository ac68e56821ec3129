#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/zoo/transformer.h"

namespace pipesim {

/// down(silu(gate(x)) · up(x)) without biases; its operators are "<prefix>gate", "<prefix>up" and so on.
TensorId gated_ffn(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                   std::int64_t ffn);

/// Sizes of a layer of experts; a sample is one or more groups of tokens, each with a capacity of its own.
struct ExpertSizes {
  std::int64_t experts = 0, top_k = 0, hidden = 0, ffn = 0;
  std::int64_t groups = 1;       ///< of neighbouring tokens in a sample
  std::int64_t capacity = 0;     ///< tokens of a group that one expert takes
  std::string tokens = "own";    ///< type in which they travel: own, float8
  std::int64_t nodes = 0;        ///< NodeRoute::nodes
  std::string gate = "softmax";  ///< the kind of operator that makes weights of a router's scores
};

/// From the options of experts_options(), hidden and sequence. `ffn`: the width of an expert.
ExpertSizes expert_sizes(const ZooValues& values, std::int64_t ffn);

/// Tokens by expert, and the weights of each token's experts. Networks that keep as Megatron-LM does (from
/// 0.13 on) weigh what enters an expert's last product, not what leaves it, so that nothing that experts
/// return is kept for backward: `slot_weights` are those of the tokens' slots then.
struct RoutedTokens {
  TensorId tokens, weights;
  std::optional<TensorId> slot_weights = {};
};
/// Operators "router", "router_weights" and "dispatch".
RoutedTokens route_tokens(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes);
/// The operator "combine": adds up what experts made of the tokens.
TensorId combine_experts(TransformerNetwork& net, TensorId results, const RoutedTokens& routed,
                         const ExpertSizes& sizes);

/// Routes each token to its top_k experts, each a gated feed-forward part, and adds up by router weight.
TensorId experts_ffn(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes);

/// `experts` 1: a model that has none unless told otherwise. Options experts, top_k, capacity_factor,
/// token_groups, dispatch, token_nodes.
ZooOptions experts_options(std::int64_t experts, std::int64_t top_k);

}  // namespace pipesim
