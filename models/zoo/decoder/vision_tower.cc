#include "models/zoo/decoder/vision_tower.h"

#include <string>
#include <utility>
#include <vector>

#include "models/zoo/images/vision_transformer.h"

namespace pipesim {
namespace {

/// The tower under construction.
class TowerNetwork {
 public:
  TowerNetwork(GraphBuilder& builder, const VisionTower& tower, std::int64_t batch, std::int64_t out)
      : builder_(builder), tower_(tower), batch_(batch), out_(out) {}

  TensorId embed() {
    const std::int64_t patches = tower_.words * tower_.merged * tower_.pooled;
    const TensorId images = builder_.data("images", {batch_, patches, tower_.patch_values});
    TensorId x = builder_.add("linear", "vision_patches", {images}, {{"out", Sizes{tower_.hidden}}});
    if (tower_.positions == 0) return x;
    const TensorId places = builder_.data("image_positions", {batch_, patches}, DataType::Int64);
    const TensorId rows = builder_.add("embedding", "vision_positions", {places},
                                       {{"rows", tower_.positions}, {"width", tower_.hidden}});
    return builder_.add("add", "vision_position_add", {x, rows});
  }

  TensorId layer(TensorId x) {
    const TensorId normed = norm("attention_norm", x);
    const HeadSizes heads{tower_.heads, tower_.head_width};
    x = builder_.add("add", "attention_add", {x, attend(builder_, "", normed, normed, heads, tower_.hidden)});
    return tower_.gated ? gated_feed_forward(x) : add_feed_forward(builder_, x, tower_.hidden, tower_.ffn);
  }

  /// Words of merged patches. Means go through one product, patches side by side through two.
  TensorId merge(const std::string& prefix, TensorId x) {
    const std::int64_t width = tower_.hidden * tower_.merged;
    x = norm(prefix + "norm", pooled(prefix, x));
    if (tower_.pooled > 1 && tower_.merged == 1)
      return builder_.add("linear", prefix + "outer", {x}, {{"out", Sizes{out_}}, {"bias", 0}});
    x = builder_.add("reshape", prefix + "patches", {x}, {{"shape", Sizes{batch_, tower_.words, width}}});
    x = builder_.add("linear", prefix + "inner", {x}, {{"out", Sizes{width}}, {"activation", "gelu"}});
    return builder_.add("linear", prefix + "outer", {x}, {{"out", Sizes{out_}}});
  }

 private:
  TensorId pooled(const std::string& prefix, TensorId x) {
    if (tower_.pooled == 1) return x;
    const TensorId squares =
        builder_.add("reshape", prefix + "squares", {x},
                     {{"shape", Sizes{batch_, tower_.words * tower_.merged, tower_.pooled, tower_.hidden}}});
    return builder_.add("reduce", prefix + "means", {squares}, {{"axes", Sizes{2}}, {"mode", "mean"}});
  }
  TensorId norm(const std::string& name, TensorId x) {
    return builder_.add(tower_.gated ? "rms_norm" : "layer_norm", name, {x});
  }
  TensorId gated_feed_forward(TensorId x) {
    const auto linear = [&](const char* name, TensorId in, std::int64_t out, const char* activation) {
      return builder_.add("linear", name, {in}, {{"out", Sizes{out}}, {"activation", activation}});
    };
    const TensorId normed = norm("ffn_norm", x);
    const TensorId gate = linear("gate", normed, tower_.ffn, "silu"),
                   up = linear("up", normed, tower_.ffn, "none");
    const TensorId down = linear("down", builder_.add("mul", "gated", {gate, up}), tower_.hidden, "none");
    return builder_.add("add", "ffn_add", {x, down});
  }

  GraphBuilder& builder_;
  const VisionTower& tower_;
  std::int64_t batch_, out_;
};

}  // namespace

VisionTower vision_tower(const ZooValues& values) {
  VisionTower tower{.words = values.integer("vision_words"),
                    .layers = values.integer("vision_layers"),
                    .hidden = values.integer("vision_hidden"),
                    .heads = values.integer("vision_heads"),
                    .head_width = values.integer("vision_head_width"),
                    .ffn = values.integer("vision_ffn"),
                    .patch_values = values.integer("vision_patch_values"),
                    .positions = values.integer("vision_positions"),
                    .merged = values.integer("vision_merged"),
                    .pooled = values.integer("vision_pooled"),
                    .gated = values.word("vision_gated") == "yes",
                    .mergers = values.integer("vision_mergers")};
  if (tower.words == 0) return tower;
  if (tower.head_width == 0) tower.head_width = values.quotient("vision_hidden", "vision_heads");
  if (tower.words >= values.integer("sequence"))
    values.fail("vision_words=" + values.word("vision_words") +
                " leaves no word of sequence=" + values.word("sequence"));
  if (tower.mergers > tower.layers)
    values.fail("vision_mergers=" + values.word("vision_mergers") +
                " is more than vision_layers=" + values.word("vision_layers"));
  return tower;
}

TensorId with_images(TransformerNetwork& net, const VisionTower& tower, TensorId words) {
  GraphBuilder& builder = net.builder();
  const Sizes shape = builder.shape(words);
  TowerNetwork network(builder, tower, shape[0], shape[2]);
  TensorId x = network.embed();
  std::vector<TensorId> inner;
  for (std::int64_t i = 1; i <= tower.layers; ++i) {
    builder.begin_repeat("vision", i);
    x = network.layer(x);
    builder.end_repeat();
    if (static_cast<std::int64_t>(inner.size()) + 1 < tower.mergers) inner.push_back(x);
  }
  TensorId images = network.merge("vision_merger_", x);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::string prefix = "vision_merger" + std::to_string(i + 2) + "_";
    images = builder.add("add", prefix + "add", {images, network.merge(prefix, inner[i])});
  }
  return builder.add("concat", "image_words", {images, words}, {{"axis", 1}});
}

ZooOptions vision_tower_options() {
  constexpr std::int64_t kWidest = 1 << 17;
  return {
      ZooOption::integer("vision_words", 0, 0, 1 << 24,
                         "words of each sample that a vision tower makes of images; 0: there is no tower"),
      ZooOption::integer("vision_layers", 27, 1, 1000, "layers of the vision tower"),
      ZooOption::integer("vision_hidden", 1152, 1, kWidest, "width of the vision tower"),
      ZooOption::integer("vision_heads", 16, 1, 1 << 12, "its attention heads; divides vision_hidden"),
      ZooOption::integer("vision_head_width", 0, 0, 1 << 12,
                         "width of such a head; 0 is vision_hidden by heads"),
      ZooOption::integer("vision_ffn", 4304, 1, 1 << 19, "width of its feed-forward part"),
      ZooOption::integer("vision_patch_values", 1536, 1, kWidest,
                         "values of a patch: channels by rows by columns by frames"),
      ZooOption::integer("vision_positions", 2304, 0, 1 << 24, "rows of its table of positions; 0: none"),
      ZooOption::integer("vision_merged", 4, 1, 1024, "patches that become a word"),
      ZooOption::integer("vision_pooled", 1, 1, 1024, "patches whose mean is taken before they are merged"),
      ZooOption::word("vision_gated", {"yes", "no"}, "no",
                      "whether its feed-forward parts are gated, with RMS norms"),
      ZooOption::integer("vision_mergers", 1, 1, 64,
                         "products that merge patches: of the last layer, and beyond one of inner layers")};
}

}  // namespace pipesim
