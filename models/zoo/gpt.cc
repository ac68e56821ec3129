#include <optional>
#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/feed_forward.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

/// What the options choose of a layer.
struct GptLayer {
  std::int64_t hidden = 0, ffn = 0;
  bool bias = true, rotary = false, alibi = false;
  std::optional<ExpertSizes> experts = {};  ///< in place of the feed-forward part
};

/// Norms come before attention and the feed-forward part.
TensorId gpt_layer(TransformerNetwork& net, TensorId x, const GptLayer& layer) {
  TensorId y =
      net.self_attention(net.norm("layer_norm", "attention_norm", x),
                         {.causal = true, .bias = layer.bias, .rotary = layer.rotary, .alibi = layer.alibi});
  x = net.add("attention_add", x, net.dropout("attention_dropout", y));
  y = net.norm("layer_norm", "ffn_norm", x);
  y = layer.experts ? experts_ffn(net, y, *layer.experts)
                    : net.linear("ffn2", net.linear("ffn1", y, layer.ffn, "gelu", layer.bias), layer.hidden,
                                 "none", layer.bias);
  return net.add("ffn_add", x, net.dropout("ffn_dropout", y));
}

/// The layers, and what comes after them.
OperatorGraph finished(TransformerNetwork& net, TensorId x, const ZooValues& values, const GptLayer& layer) {
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.begin_layer(i, values.integer("layers"));
    x = gpt_layer(net, x, layer);
    net.end_layer();
  }
  x = net.norm("layer_norm", "norm", x);
  net.predict_words(x, values.integer("vocab"), values.word("projection") == "tied", false);
  return net.build();
}

GptLayer layer_of(const ZooValues& values) {
  return {.hidden = values.integer("hidden"), .ffn = ffn_width(values)};
}

OperatorGraph gpt(const ZooValues& values) {
  TransformerNetwork net(values);
  GptLayer layer = layer_of(values);
  layer.bias = values.word("bias") == "yes";
  layer.rotary = values.word("position") == "rotary";
  if (values.integer("experts") > 1) {
    layer.experts = expert_sizes(values, layer.ffn);
    layer.experts->style = {.activation = "gelu", .gated = false};
  }
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  if (!layer.rotary) {
    const TensorId positions =
        net.embedding("position_embedding", net.indices("positions"), position_rows(values));
    x = net.add("position_add", x, positions);
  }
  return finished(net, net.dropout("embedding_dropout", x), values, layer);
}

/// Knows positions by the distances in attention alone; the embedding has a norm of its own.
OperatorGraph bloom(const ZooValues& values) {
  TransformerNetwork net(values);
  const TensorId words = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  GptLayer layer = layer_of(values);
  layer.alibi = true;
  return finished(net, net.norm("layer_norm", "embedding_norm", words), values, layer);
}

ZooModel gpt_model(std::string name, std::string description, std::string source, const std::string& dtype,
                   std::int64_t sequence, const TransformerSizes& sizes) {
  ZooOptions options =
      transformer_options(batch_option(64, "4 for each of 16 devices"), dtype, sequence, sizes);
  options.push_back(ffn_option(0));
  options.push_back(vocabulary_option(50257));
  options.push_back(positions_option(sequence));
  options.push_back(dropout_option(0.1));
  options.push_back(attention_option());
  options.push_back(zigzag_option());
  options.push_back(loss_chunks_option());
  options.push_back(document_length_option());
  options.push_back(projection_option("tied"));
  options.push_back(own_heads_option());
  options.push_back(ZooOption::word("bias", {"yes", "no"}, "yes", "of the layers' products"));
  options.push_back(ZooOption::word("position", {"learned", "rotary"}, "learned",
                                    "a table that is added, or queries and keys that are rotated"));
  for (ZooOption& option : experts_options(1, 1)) options.push_back(std::move(option));
  options.push_back(kept_option());
  for (ZooOption& option : products_options()) options.push_back(std::move(option));
  for (ZooOption& option : plain_definition_options()) options.push_back(std::move(option));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {std::move(name), std::move(description), std::move(source), std::move(options), gpt};
}

ZooModel gpt3_model(const std::string& size, std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return gpt_model("gpt3-" + size, "GPT-3 of " + size + " parameters, all layers with dense attention",
                   "Brown et al., NeurIPS 2020, table 2.1; arXiv:2005.14165", "float16", 2048,
                   {.layers = layers, .hidden = hidden, .heads = heads});
}

ZooModel bloom_model() {
  ZooOptions options = transformer_options(batch_option(64, "4 for each of 16 devices"), "bfloat16", 2048,
                                           {.layers = 70, .hidden = 14336, .heads = 112});
  options.push_back(ffn_option(0));
  options.push_back(vocabulary_option(250880));
  options.push_back(dropout_option(0));
  options.push_back(attention_option());
  options.push_back(zigzag_option());
  options.push_back(loss_chunks_option());
  options.push_back(document_length_option());
  options.push_back(projection_option("tied"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {"bloom-176b", "BLOOM: as GPT-3, with slopes by distance (ALiBi) in place of positions",
          "BigScience, 2022, table 3; arXiv:2211.05100", std::move(options), bloom};
}

}  // namespace

std::vector<ZooModel> gpt_models() {
  const std::string source = "Radford et al., OpenAI 2019";
  const TransformerSizes smallest = {.layers = 12, .hidden = 768, .heads = 12};
  return {gpt_model("gpt", "GPT of any size, pre-norm, learned positions", source, "float32", 1024, smallest),
          gpt_model("gpt2", "GPT-2, the smallest of four sizes", source, "float32", 1024, smallest),
          gpt3_model("125m", 12, 768, 12),
          gpt3_model("350m", 24, 1024, 16),
          gpt3_model("760m", 24, 1536, 16),
          gpt3_model("1.3b", 24, 2048, 16),  // the table's 24 heads of 128 do not make 2048
          gpt3_model("2.7b", 32, 2560, 32),
          gpt3_model("6.7b", 32, 4096, 32),
          gpt3_model("13b", 40, 5120, 40),  // the table's 5140 is not 40 heads of 128
          gpt3_model("175b", 96, 12288, 96),
          bloom_model()};
}

}  // namespace pipesim
