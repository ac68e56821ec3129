#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/transformer.h"

namespace pipesim {

/// What a feed-forward part and an expert have between their products.
struct FeedForwardStyle {
  std::string activation = "silu";
  bool gated = true;  ///< down(activation(gate(x)) · up(x)), or ffn2(activation(ffn1(x)))
  bool bias = false;  ///< of all products
};

/// Operators "<prefix>gate", "<prefix>up", "<prefix>gated" and "<prefix>down", or "<prefix>ffn1" and
/// "<prefix>ffn2".
TensorId feed_forward(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                      std::int64_t ffn, const FeedForwardStyle& style = {});

/// Sizes of a layer of experts; a sample is one or more groups of tokens, each with a capacity of its own.
struct ExpertSizes {
  std::int64_t experts = 0, top_k = 0, hidden = 0, ffn = 0;
  std::int64_t groups = 1;       ///< of neighbouring tokens in a sample
  std::int64_t capacity = 0;     ///< tokens of a group that one expert takes
  std::string tokens = "own";    ///< type in which they travel: own, float8
  std::int64_t nodes = 0;        ///< NodeRoute::nodes
  std::string gate = "softmax";  ///< the kind of operator that makes weights of a router's scores
  FeedForwardStyle style = {};
  std::int64_t latent = 0;  ///< width in which tokens travel and experts read and write; 0: hidden
};

/// From the options of experts_options(), hidden and sequence. `ffn`: the width of an expert.
ExpertSizes expert_sizes(const ZooValues& values, std::int64_t ffn);

/// Routes each token to its top_k experts, each a feed-forward part, and adds up by router weight: "router",
/// "router_weights", "dispatch", products as those of feed_forward(), "combine". With a latent "latent_down"
/// comes before the dispatch and "latent_up" behind all (NVIDIA, 2025, "Nemotron 3", LatentMoE).
TensorId experts_ffn(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes);

/// An expert that all tokens share, "shared_gate" and so on, weighted by a sigmoid of its own (Qwen team,
/// 2024, "Qwen1.5-MoE"): "shared_router", "shared_weight" and "shared_weighted".
TensorId weighted_shared_expert(TransformerNetwork& net, TensorId x, std::int64_t hidden, std::int64_t ffn,
                                const FeedForwardStyle& style = {});

/// `experts` 1: a model that has none unless told otherwise. Options experts, top_k, capacity_factor,
/// token_groups, dispatch, token_nodes.
ZooOptions experts_options(std::int64_t experts, std::int64_t top_k);

}  // namespace pipesim
