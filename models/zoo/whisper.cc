#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

/// x + attention(norm(x)), of x itself or of what `read` gives; norms come before each part.
TensorId whisper_attention(TransformerNetwork& net, const std::string& prefix, TensorId x, TensorId read,
                           bool causal) {
  const TensorId normed = net.norm("layer_norm", prefix + "norm", x);
  const TensorId y = net.attention(prefix, normed, read.valid() ? read : normed, {.causal = causal});
  return net.add(prefix + "add", x, net.dropout(prefix + "dropout", y));
}

TensorId whisper_feed_forward(TransformerNetwork& net, TensorId x, std::int64_t hidden, std::int64_t ffn) {
  const TensorId normed = net.norm("layer_norm", "ffn_norm", x);
  const TensorId y = net.linear("ffn2", net.linear("ffn1", normed, ffn, "gelu"), hidden);
  return net.add("ffn_add", x, net.dropout("ffn_dropout", y));
}

/// Two convolutions along time, the second of which halves the frames, and positions that are not trained.
TensorId whisper_frames(TransformerNetwork& net, const ZooValues& values) {
  GraphBuilder& builder = net.builder();
  const std::int64_t frames = values.integer("frames"), hidden = values.integer("hidden");
  if (frames % 2 != 0)
    values.fail("frames=" + values.word("frames") + " must be even, since they are halved");
  const auto convolution = [&](const char* name, TensorId x, std::int64_t stride) {
    return builder.add(
        "conv1d", name, {x},
        {{"out", hidden}, {"kernel", 3}, {"stride", stride}, {"pad", 1}, {"activation", "gelu"}});
  };
  const TensorId spectrum =
      builder.data("spectrum", {values.integer("batch"), values.integer("mels"), frames});
  const TensorId rows = convolution("encoder.conv2", convolution("encoder.conv1", spectrum, 1), 2);
  const TensorId x = builder.add("transpose", "encoder.rows", {rows}, {{"order", Sizes{0, 2, 1}}});
  builder.freeze(true);
  const TensorId positions =
      builder.add("parameter", "encoder.positions", {}, {{"shape", Sizes{frames / 2, hidden}}});
  builder.freeze(net.freezes());
  return net.add("encoder.position_add", x, positions);
}

OperatorGraph whisper(const ZooValues& values) {
  TransformerNetwork net(values);
  GraphBuilder& builder = net.builder();
  const std::int64_t hidden = values.integer("hidden"), ffn = ffn_width(values);
  TensorId encoded = net.dropout("encoder.embedding_dropout", whisper_frames(net, values));
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    builder.begin_repeat("encoder.layer", i);
    encoded = whisper_feed_forward(net, whisper_attention(net, "self_", encoded, {}, false), hidden, ffn);
    builder.end_repeat();
  }
  encoded = net.norm("layer_norm", "encoder.norm", encoded);
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  x = net.add("position_add", x,
              net.embedding("position_embedding", net.indices("positions"), position_rows(values)));
  x = net.dropout("embedding_dropout", x);
  for (std::int64_t i = 1; i <= values.integer("decoder_layers"); ++i) {
    builder.begin_repeat("decoder.layer", i);
    x = whisper_attention(net, "self_", x, {}, true);
    x = whisper_feed_forward(net, whisper_attention(net, "cross_", x, encoded, false), hidden, ffn);
    builder.end_repeat();
  }
  net.predict_words(net.norm("layer_norm", "norm", x), values.integer("vocab"), true, false);
  return net.build();
}

ZooModel whisper_model(const std::string& size, std::int64_t mels, const TransformerSizes& sizes) {
  ZooOptions options =
      transformer_options(batch_option(256, "16 for each of 16 devices"), "float32", 448, sizes);
  options.push_back(ZooOption::integer("decoder_layers", sizes.layers, 1, 1000,
                                       "layers of the decoder; layers has the encoder's"));
  options.push_back(
      ZooOption::integer("frames", 3000, 2, 1 << 24, "frames of sound; the encoder sees half as many"));
  options.push_back(ZooOption::integer("mels", mels, 1, 1 << 12, "values of a frame"));
  options.push_back(ffn_option(0));
  options.push_back(vocabulary_option(51865));
  options.push_back(positions_option(448));
  options.push_back(dropout_option(0));
  options.push_back(attention_option());
  options.push_back(loss_chunks_option());
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return {"whisper-" + size, "Whisper " + size + ": words of sound, encoder and decoder",
          "Radford et al., 2022, table 1; arXiv:2212.04356", std::move(options), whisper};
}

}  // namespace

std::vector<ZooModel> whisper_models() {
  return {whisper_model("base", 80, {.layers = 6, .hidden = 512, .heads = 8}),
          whisper_model("large", 80, {.layers = 32, .hidden = 1280, .heads = 20})};
}

}  // namespace pipesim
