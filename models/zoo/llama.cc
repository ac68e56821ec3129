#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/feed_forward.h"

namespace pipesim {

namespace {

OperatorGraph llama_network(const ZooValues& values, TransformerNetwork::HeadNorm head_norm) {
  TransformerNetwork net(values);
  const std::int64_t hidden = values.integer("hidden"), ffn = ffn_width(values);
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.begin_layer(i, values.integer("layers"));
    x = llama_attention(net, x, head_norm);
    x = net.add("ffn_add", x, feed_forward(net, "", net.norm("rms_norm", "ffn_norm", x), hidden, ffn));
    net.end_layer();
  }
  x = net.norm("rms_norm", "norm", x);
  net.predict_words(x, values.integer("vocab"), values.word("projection") == "tied", false);
  return net.build();
}

OperatorGraph llama(const ZooValues& values) {
  return llama_network(values, TransformerNetwork::HeadNorm::None);
}
OperatorGraph dense_qwen3(const ZooValues& values) {
  return llama_network(values, TransformerNetwork::HeadNorm::Each);
}

ZooModel llama_model(std::string name, std::string description, std::string source, std::int64_t sequence,
                     const TransformerSizes& sizes, std::int64_t vocabulary,
                     const DecoderDefinition& definition) {
  ZooOptions options = llama_options(sequence, sizes, vocabulary, definition);
  options.push_back(projection_option("untied"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {std::move(name), std::move(description), std::move(source), std::move(options), llama};
}

ZooModel llama3_model(const std::string& size, const TransformerSizes& sizes) {
  return llama_model("llama3-" + size, "Llama 3 of " + size + " parameters, grouped-query attention",
                     "Llama team, 2024, table 3; arXiv:2407.21783", 8192, sizes, 128256,
                     {.rotary_base = 500000});
}

ZooModel dense_qwen3_model() {
  ZooOptions options = llama_options(
      4096, {.layers = 36, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 12288, .head_width = 128},
      151936, {.rotary_base = 1e6, .norm_epsilon = 1e-6});
  options.push_back(projection_option("untied"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {"qwen3-8b", "Qwen3 8B: as Llama, with norms of queries and keys",
          "Qwen team, 2025, table 1; arXiv:2505.09388; widths: its config.json", std::move(options),
          dense_qwen3};
}

}  // namespace

std::vector<ZooModel> llama_models() {
  return {llama_model("llama", "Llama of any size, at first the 7b: rotary, RMS norm, gated feed-forward",
                      "Touvron et al., 2023, table 2; arXiv:2302.13971", 2048,
                      {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 32, .ffn = 11008}, 32000,
                      {.norm_epsilon = 1e-6}),
          llama3_model("8b", {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336}),
          llama3_model("70b", {.layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672}),
          llama3_model("405b", {.layers = 126, .hidden = 16384, .heads = 128, .kv_heads = 8, .ffn = 53248}),
          dense_qwen3_model()};
}

}  // namespace pipesim
