#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

/// Norms come before each part and have no shift; nothing has a bias but the scores of self-attention, by
/// distance: all layers of a side share them.
class T5Side {
 public:
  T5Side(TransformerNetwork& net, const ZooValues& values, bool decoder)
      : net_(net), hidden_(values.integer("hidden")), ffn_(ffn_width(values)), decoder_(decoder) {}

  /// The decoder also reads what the encoder made.
  TensorId layer(TensorId x, TensorId encoded) {
    x = attend("self_", x, {},
               {.causal = decoder_,
                .bias = false,
                .relative = decoder_ ? "decoder.relative.w" : "encoder.relative.w"});
    if (decoder_) x = attend("cross_", x, encoded, {.bias = false});
    TensorId y = net_.norm("rms_norm", "ffn_norm", x);
    y = net_.dropout("ffn_inner_dropout", net_.linear_without_bias("ffn1", y, ffn_, "relu"));
    y = net_.linear_without_bias("ffn2", y, hidden_);
    return net_.add("ffn_add", x, net_.dropout("ffn_dropout", y));
  }

 private:
  /// `read` not valid: of x itself.
  TensorId attend(const std::string& prefix, TensorId x, TensorId read,
                  const TransformerNetwork::AttentionStyle& style) {
    const TensorId normed = net_.norm("rms_norm", prefix + "norm", x);
    const TensorId y = net_.attention(prefix, normed, read.valid() ? read : normed, style);
    return net_.add(prefix + "add", x, net_.dropout(prefix + "dropout", y));
  }

  TransformerNetwork& net_;
  std::int64_t hidden_, ffn_;
  bool decoder_;
};

/// The encoder and the decoder read words through one embedding.
TensorId t5_side(TransformerNetwork& net, const ZooValues& values, const std::string& name, TensorId words,
                 TensorId encoded) {
  T5Side side(net, values, encoded.valid());
  TensorId x = net.builder().add("embedding", name + ".embedding", {words},
                                 {{"rows", values.integer("vocab")}, {"width", values.integer("hidden")}},
                                 {"word_embedding.w"});
  x = net.dropout(name + ".embedding_dropout", x);
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.builder().begin_repeat(name + ".layer", i);
    x = side.layer(x, encoded);
    net.builder().end_repeat();
  }
  return net.dropout(name + ".dropout", net.norm("rms_norm", name + ".norm", x));
}

OperatorGraph t5(const ZooValues& values) {
  TransformerNetwork net(values);
  const TensorId encoded = t5_side(net, values, "encoder", net.indices("words"), {});
  const TensorId targets = net.indices("targets", values.integer("target"));
  const TensorId decoded = t5_side(net, values, "decoder", targets, encoded);
  net.predict_words(decoded, values.integer("vocab"), true, false);
  return net.build();
}

ZooModel t5_model(const std::string& size, const TransformerSizes& sizes) {
  ZooOptions options =
      transformer_options(batch_option(64, "4 for each of 16 devices"), "float32", 512, sizes);
  options.push_back(ZooOption::integer("target", 512, 1, 1 << 24, "tokens of a target"));
  options.push_back(ffn_option(sizes.ffn));
  options.push_back(vocabulary_option(32128));
  options.push_back(dropout_option(0.1));
  options.push_back(attention_option());
  options.push_back(loss_chunks_option());
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {"t5-" + size, "T5 of size " + size + ", encoder and decoder, biases by distance",
          "Raffel et al., JMLR 21, 2020, section 3.7; arXiv:1910.10683", std::move(options), t5};
}

}  // namespace

std::vector<ZooModel> t5_models() {
  return {t5_model("base", {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .head_width = 64}),
          t5_model("large", {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .head_width = 64}),
          t5_model("3b", {.layers = 24, .hidden = 1024, .heads = 32, .ffn = 16384, .head_width = 128}),
          t5_model("11b", {.layers = 24, .hidden = 1024, .heads = 128, .ffn = 65536, .head_width = 128})};
}

}  // namespace pipesim
