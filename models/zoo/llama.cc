#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

TensorId gated_ffn(TransformerNetwork& net, TensorId x, std::int64_t hidden, std::int64_t ffn) {
  const TensorId gate = net.linear_without_bias("gate", x, ffn, "silu");
  const TensorId up = net.linear_without_bias("up", x, ffn);
  return net.linear_without_bias("down", net.builder().add("mul", "gated", {gate, up}), hidden);
}

OperatorGraph llama(const ZooValues& values) {
  TransformerNetwork net(values);
  const std::int64_t hidden = values.integer("hidden"), ffn = ffn_width(values);
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.builder().begin_repeat("layer", i);
    x = llama_attention(net, x);
    x = net.add("ffn_add", x, gated_ffn(net, net.norm("rms_norm", "ffn_norm", x), hidden, ffn));
    net.builder().end_repeat();
  }
  x = net.norm("rms_norm", "norm", x);
  net.predict_words(x, values.integer("vocab"), values.word("projection") == "tied", false);
  return net.builder().build();
}

ZooModel llama_model(std::string name, std::string description, std::string source, std::int64_t sequence,
                     const TransformerSizes& sizes, std::int64_t vocabulary) {
  ZooOptions options = llama_options(sequence, sizes, vocabulary);
  options.push_back(projection_option("untied"));
  return {std::move(name), std::move(description), std::move(source), std::move(options), llama};
}

ZooModel llama3_model(const std::string& size, const TransformerSizes& sizes) {
  return llama_model("llama3-" + size, "Llama 3 of " + size + " parameters, grouped-query attention",
                     "Llama team, 2024, table 3; arXiv:2407.21783", 8192, sizes, 128256);
}

}  // namespace

std::vector<ZooModel> llama_models() {
  return {llama_model("llama", "Llama of any size, at first the 7b: rotary, RMS norm, gated feed-forward",
                      "Touvron et al., 2023, table 2; arXiv:2302.13971", 2048,
                      {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 32, .ffn = 11008}, 32000),
          llama3_model("8b", {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336}),
          llama3_model("70b", {.layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672}),
          llama3_model("405b", {.layers = 126, .hidden = 16384, .heads = 128, .kv_heads = 8, .ffn = 53248})};
}

}  // namespace pipesim
