#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

/// Sizes of a layer of experts; a sample is one group of tokens with a capacity of its own.
struct ExpertSizes {
  std::int64_t experts = 0, top_k = 0, hidden = 0, ffn = 0;
  std::int64_t capacity = 0;  ///< tokens of a group that one expert takes
};

ExpertSizes expert_sizes(const ZooValues& values) {
  ExpertSizes sizes = {.experts = values.integer("experts"),
                       .top_k = values.integer("top_k"),
                       .hidden = values.integer("hidden"),
                       .ffn = ffn_width(values)};
  if (sizes.top_k > sizes.experts) {
    values.fail("top_k=" + values.word("top_k") + " is more than experts=" + values.word("experts"));
  }
  const std::int64_t sequence = values.integer("sequence");
  const auto even = static_cast<double>(sequence * sizes.top_k) / static_cast<double>(sizes.experts);
  // An expert never gets more than all tokens. 50 · 1.1 comes out a little above 55: that is no 56th token.
  sizes.capacity =
      std::min(sequence, static_cast<std::int64_t>(std::ceil(even * values.real("capacity_factor") - 1e-9)));
  return sizes;
}

/// Routes each token to its top_k experts, each a gated feed-forward part, and adds up by router weight.
TensorId experts_ffn(TransformerNetwork& net, TensorId x, const ExpertSizes& sizes) {
  GraphBuilder& builder = net.builder();
  const auto expert_linear = [&](const char* name, TensorId z, std::int64_t out, const char* activation) {
    return builder.add("expert_linear", name, {z}, {{"out", out}, {"activation", activation}});
  };
  const TensorId scores =
      builder.add("linear", "router", {x}, {{"out", Sizes{sizes.experts}}, {"bias", 0}, {"router", 1}});
  const TensorId weights = builder.add("softmax", "router_weights", {scores});
  const TensorId z = builder.add("moe_dispatch", "dispatch", {x, weights},
                                 {{"top_k", sizes.top_k}, {"capacity", sizes.capacity}});
  const TensorId gate = expert_linear("gate", z, sizes.ffn, "silu");
  const TensorId up = expert_linear("up", z, sizes.ffn, "none");
  const TensorId down = expert_linear("down", builder.add("mul", "gated", {gate, up}), sizes.hidden, "none");
  return builder.add("moe_combine", "combine", {down, weights}, {{"top_k", sizes.top_k}});
}

OperatorGraph mixtral(const ZooValues& values) {
  TransformerNetwork net(values);
  const ExpertSizes sizes = expert_sizes(values);
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.builder().begin_repeat("layer", i);
    x = llama_attention(net, x);
    x = net.add("ffn_add", x, experts_ffn(net, net.norm("rms_norm", "ffn_norm", x), sizes));
    net.builder().end_repeat();
  }
  net.predict_words(net.norm("rms_norm", "norm", x), values.integer("vocab"), false, false);
  return net.builder().build();
}

ZooOptions mixtral_options() {
  ZooOptions options =
      llama_options(4096, {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336}, 32000);
  options.push_back(ZooOption::integer("experts", 8, 1, 256, "experts of a layer"));
  options.push_back(ZooOption::integer("top_k", 2, 1, 256, "experts that a token goes to; at most experts"));
  options.push_back(ZooOption::real("capacity_factor", 1, 0.01, 256,
                                    "tokens an expert takes, in shares of a perfectly balanced load"));
  return options;
}

}  // namespace

std::vector<ZooModel> experts_models() {
  return {{"mixtral-8x7b", "Mixtral 8x7b, each token to 2 of 8 experts, balanced load",
           "Jiang et al., 2024, table 1; arXiv:2401.04088", mixtral_options(), mixtral}};
}

}  // namespace pipesim
