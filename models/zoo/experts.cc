#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/feed_forward.h"

namespace pipesim {

namespace {

/// Llama's layer with experts as its feed-forward part.
OperatorGraph experts(const ZooValues& values, TransformerNetwork::HeadNorm head_norm) {
  TransformerNetwork net(values);
  const ExpertSizes sizes = expert_sizes(values, ffn_width(values));
  const std::int64_t shared_ffn = values.integer("shared_ffn");
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.begin_layer(i, values.integer("layers"));
    x = llama_attention(net, x, head_norm);
    const TensorId normed = net.norm("rms_norm", "ffn_norm", x);
    TensorId y = experts_ffn(net, normed, sizes);
    if (shared_ffn > 0)
      y = net.add("experts_add", y, weighted_shared_expert(net, normed, sizes.hidden, shared_ffn));
    x = net.add("ffn_add", x, y);
    net.end_layer();
  }
  net.predict_words(net.norm("rms_norm", "norm", x), values.integer("vocab"),
                    values.word("projection") == "tied", false);
  return net.build();
}

OperatorGraph mixtral(const ZooValues& values) { return experts(values, TransformerNetwork::HeadNorm::None); }
OperatorGraph expert_qwen3(const ZooValues& values) {
  return experts(values, TransformerNetwork::HeadNorm::Each);
}

ZooOptions all_expert_options(std::int64_t experts, std::int64_t top_k, double balance_loss) {
  ZooOptions options = experts_options(experts, top_k);
  options.push_back(expert_shares_option());
  options.push_back(balance_loss_option(balance_loss));
  options.push_back(ZooOption::integer("shared_ffn", 0, 0, 1 << 19,
                                       "width of an expert that all tokens share, weighted by a gate of its "
                                       "own; 0: none"));
  options.push_back(projection_option("untied"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return options;
}

ZooModel mixtral_model(const std::string& size, const std::string& source, const TransformerSizes& sizes,
                       double balance_loss) {
  ZooOptions options = llama_options(4096, sizes, 32000, {.rotary_base = 1e6});
  for (ZooOption& option : all_expert_options(8, 2, balance_loss)) options.push_back(std::move(option));
  return {"mixtral-" + size, "Mixtral " + size + ", each token to 2 of 8 experts, balanced load", source,
          std::move(options), mixtral};
}

ZooModel expert_qwen3_model() {
  ZooOptions options = llama_options(
      4096, {.layers = 94, .hidden = 4096, .heads = 64, .kv_heads = 4, .ffn = 1536, .head_width = 128},
      151936, {.rotary_base = 1e6, .norm_epsilon = 1e-6});
  for (ZooOption& option : all_expert_options(128, 8, 0.001)) options.push_back(std::move(option));
  return {"qwen3-235b", "Qwen3 235B-A22B, each token to 8 of 128 experts, norms of queries and keys",
          "Qwen team, 2025, table 2; arXiv:2505.09388; widths, positions and balance: its config.json",
          std::move(options), expert_qwen3};
}

}  // namespace

std::vector<ZooModel> experts_models() {
  return {
      mixtral_model("8x7b",
                    "Jiang et al., 2024, table 1; arXiv:2401.04088; rotary base and balance: its config.json",
                    {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336}, 0.02),
      mixtral_model("8x22b", "Mistral AI, 2024; config.json of Mixtral-8x22B-v0.1",
                    {.layers = 56, .hidden = 6144, .heads = 48, .kv_heads = 8, .ffn = 16384}, 0.001),
      expert_qwen3_model()};
}

}  // namespace pipesim
