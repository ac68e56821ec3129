#include <string>
#include <utility>

#include "models/zoo/decoder/decoder_layers.h"
#include "models/zoo/decoder/further_tokens.h"
#include "models/zoo/decoder/vision_tower.h"
#include "models/zoo/families.h"

namespace pipesim {

namespace {

// The words, behind those of images where there is a tower.
TensorId embedded_words(TransformerNetwork& net, const ZooValues& values) {
  const VisionTower tower = vision_tower(values);
  const std::int64_t sequence = values.integer("sequence");
  TensorId x =
      net.embedding("word_embedding", net.indices("words", sequence - tower.words), values.integer("vocab"));
  if (tower.words > 0) x = with_images(net, tower, x);
  if (values.word("position") != "learned") return x;
  const TensorId positions =
      net.embedding("position_embedding", net.indices("positions"), position_rows(values));
  return net.add("position_add", x, positions);
}

OperatorGraph decoder(const ZooValues& values) {
  TransformerNetwork net(values);
  DecoderLayers layers(net, values);
  TensorId x = net.dropout("embedding_dropout", embedded_words(net, values));
  if (values.word("embedding_norm") == "yes") x = layers.norm("embedding_norm", x);
  for (std::int64_t i = 1; i <= layers.count(); ++i) {
    net.begin_layer(i, layers.count());
    x = layers.layer(i, x);
    net.end_layer();
  }
  net.predict_words(layers.norm("norm", x), values.integer("vocab"), values.word("projection") == "tied",
                    values.word("projection_bias") == "yes");
  FurtherTokens further(net, values);
  for (std::int64_t depth = 1; depth <= values.integer("further_tokens"); ++depth)
    x = further(layers.norm_kind(), depth, x,
                [&](TensorId merged) { return layers.layer(layers.count(), merged); });
  return net.build();
}

}  // namespace

std::vector<ZooModel> decoder_models() {
  return {{"decoder", "a decoder of any layers: attention, windows, scans, experts; by letters of each layer",
           "the papers that its options name; at first as Llama 7B, Touvron et al., 2023", decoder_options(),
           decoder}};
}

}  // namespace pipesim
