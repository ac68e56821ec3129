#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

constexpr std::int64_t token_types = 2;

TensorId embed(TransformerNetwork& net, const ZooValues& values) {
  const TensorId words = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  const TensorId positions =
      net.embedding("position_embedding", net.indices("positions"), position_rows(values));
  const TensorId types = net.embedding("type_embedding", net.indices("types"), token_types);
  const TensorId sum = net.add("type_add", net.add("position_add", words, positions), types);
  return net.dropout("embedding_dropout", net.norm("layer_norm", "embedding_norm", sum));
}

/// Norms follow the residual additions.
TensorId bert_layer(TransformerNetwork& net, TensorId x, std::int64_t hidden, std::int64_t ffn) {
  TensorId y = net.dropout("attention_dropout", net.self_attention(x, {}));
  x = net.norm("layer_norm", "attention_norm", net.add("attention_add", x, y));
  y = net.linear("ffn2", net.linear("ffn1", x, ffn, "gelu"), hidden);
  return net.norm("layer_norm", "ffn_norm", net.add("ffn_add", x, net.dropout("ffn_dropout", y)));
}

/// Masked words at every position: a transform, then a projection tied to the word embedding with a bias of
/// its own.
void predict_masked_words(TransformerNetwork& net, TensorId x, const ZooValues& values) {
  x = net.linear("transform", x, values.integer("hidden"), "gelu");
  net.predict_words(net.norm("layer_norm", "transform_norm", x), values.integer("vocab"), true, true);
}

/// The pooler reads the first token; its classifier says whether the second sentence follows the first.
void predict_next_sentence(TransformerNetwork& net, TensorId x, const ZooValues& values) {
  const std::int64_t batch = values.integer("batch"), sequence = values.integer("sequence");
  const std::int64_t hidden = values.integer("hidden");
  if (sequence > 1) {
    x = net.builder().add_all("split", "first_token", {x},
                              {{"axis", 1}, {"sizes", Sizes{1, sequence - 1}}})[0];
  }
  x = net.builder().add("reshape", "first_row", {x}, {{"shape", Sizes{batch, hidden}}});
  x = net.linear("next_sentence", net.linear("pooler", x, hidden, "tanh"), 2);
  const TensorId labels = net.builder().data("next_sentence_labels", {batch}, DataType::Int64);
  net.builder().add("cross_entropy", "next_sentence_loss", {x, labels});
}

OperatorGraph bert(const ZooValues& values) {
  TransformerNetwork net(values);
  const std::int64_t ffn = ffn_width(values);
  TensorId x = embed(net, values);
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.builder().begin_repeat("layer", i);
    x = bert_layer(net, x, values.integer("hidden"), ffn);
    net.builder().end_repeat();
  }
  predict_masked_words(net, x, values);
  if (values.word("objective") == "both") predict_next_sentence(net, x, values);
  return net.build();
}

ZooModel bert_model(std::string name, std::string description, std::string source, const ZooOption& batch,
                    const TransformerSizes& sizes) {
  ZooOptions options = transformer_options(batch, "float32", 512, sizes);
  options.push_back(ffn_option(sizes.ffn));
  options.push_back(vocabulary_option(30522));
  options.push_back(positions_option(512));
  options.push_back(dropout_option(0.1));
  options.push_back(attention_option());
  options.push_back(loss_chunks_option());
  options.push_back(ZooOption::word("objective", {"words", "both"}, "words",
                                    "masked words only, or also the pooler and the next sentence"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {std::move(name), std::move(description), std::move(source), std::move(options), bert};
}

ZooModel published_bert(const std::string& size, const TransformerSizes& sizes) {
  return bert_model("bert-" + size, "BERT-" + size + ", uncased, pre-training on masked words",
                    "Devlin et al., NAACL 2019; arXiv:1810.04805",
                    batch_option(256, "16 for each of 16 devices, as in the paper"), sizes);
}

}  // namespace

std::vector<ZooModel> bert_models() {
  return {
      published_bert("base", {.layers = 12, .hidden = 768, .heads = 12}),
      published_bert("large", {.layers = 24, .hidden = 1024, .heads = 16}),
      bert_model("bert48", "BERT of 48 layers as wide as BERT-large's, for pipelines",
                 "Fan et al. (DAPPLE), PPoPP 2021, table 1; arXiv:2007.01045",
                 batch_option(64, "4 for each of 16 devices"), {.layers = 48, .hidden = 1024, .heads = 16})};
}

}  // namespace pipesim
