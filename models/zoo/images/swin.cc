#include <array>
#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"
#include "models/zoo/images/vision_transformer.h"

namespace pipesim {

namespace {

struct SwinSizes {
  std::int64_t channels = 96;
  std::array<int, 4> depths{}, heads{};
};

/// Attention within windows of an image [b, rows, columns, c] (Liu et al., ICCV 2021, section 3.2). Windows
/// are independent of one another, as heads are, so that both are "g" of one attention.
class SwinNetwork {
 public:
  SwinNetwork(const ZooValues& values, const SwinSizes& sizes)
      : builder_(values.name(), values.integer("batch"), values.data_type()),
        sizes_(sizes),
        batch_(values.integer("batch")),
        window_(values.integer("window")),
        classes_(values.integer("classes")),
        side_(values.integer("image") / kPatch) {
    const std::int64_t image = values.integer("image"), step = kPatch * (1 << 3) * window_;
    if (image % step != 0) {
      values.fail("image=" + std::to_string(image) + " is not a multiple of " + std::to_string(step) +
                  ", 32 windows of " + std::to_string(window_));
    }
    images_ = builder_.data("images", {batch_, 3, image, image});
    labels_ = builder_.data("labels", {batch_}, DataType::Int64);
  }

  OperatorGraph build() {
    TensorId x = embed();
    std::int64_t channels = sizes_.channels;
    for (std::size_t stage = 0; stage < sizes_.depths.size(); ++stage) {
      const std::string prefix = "stage" + std::to_string(stage + 1) + ".";
      if (stage > 0) x = merge(prefix, x, channels *= 2);
      for (int block = 0; block < sizes_.depths[stage]; block += 2) {
        builder_.begin_repeat(prefix + "pair", block / 2 + 1);
        x = layer("even.", x, channels, sizes_.heads[stage], false);
        x = layer("odd.", x, channels, sizes_.heads[stage], side_ > window_);
        builder_.end_repeat();
      }
    }
    x = builder_.add("layer_norm", "norm", {x});
    x = builder_.add("reduce", "average", {x}, {{"axes", Sizes{1, 2}}, {"mode", "mean"}});
    builder_.add("cross_entropy", "loss",
                 {builder_.add("linear", "classifier", {x}, {{"out", Sizes{classes_}}}), labels_});
    return builder_.build();
  }

 private:
  static constexpr std::int64_t kPatch = 4;

  TensorId reshape(const std::string& name, TensorId x, Sizes shape) {
    return builder_.add("reshape", name, {x}, {{"shape", std::move(shape)}});
  }
  TensorId transpose(const std::string& name, TensorId x, Sizes order) {
    return builder_.add("transpose", name, {x}, {{"order", std::move(order)}});
  }

  TensorId embed() {
    const TensorId patches = builder_.add(
        "conv2d", "patches", {images_},
        {{"out", sizes_.channels}, {"kernel", Sizes{kPatch, kPatch}}, {"stride", Sizes{kPatch, kPatch}}});
    return builder_.add("layer_norm", "patch_norm", {transpose("channels_last", patches, {0, 2, 3, 1})});
  }

  /// Four neighbours become one token of `channels`.
  TensorId merge(const std::string& prefix, TensorId x, std::int64_t channels) {
    side_ /= 2;
    const std::int64_t c = channels / 2;
    x = reshape(prefix + "neighbours", x, {batch_, side_, 2, side_, 2, c});
    x = transpose(prefix + "together", x, {0, 1, 3, 4, 2, 5});
    x = reshape(prefix + "merged", x, {batch_, side_, side_, 4 * c});
    x = builder_.add("layer_norm", prefix + "merge_norm", {x});
    return builder_.add("linear", prefix + "merge", {x}, {{"out", Sizes{channels}}, {"bias", 0}});
  }

  TensorId roll(const std::string& prefix, TensorId x, std::int64_t shift) {
    x = builder_.add("roll", prefix + "rows", {x}, {{"axis", 1}, {"shift", shift}});
    return builder_.add("roll", prefix + "columns", {x}, {{"axis", 2}, {"shift", shift}});
  }

  TensorId layer(const std::string& prefix, TensorId x, std::int64_t channels, std::int64_t heads,
                 bool shifted) {
    TensorId y = builder_.add("layer_norm", prefix + "attention_norm", {x});
    if (shifted) y = roll(prefix + "shift.", y, side_ - window_ / 2);
    y = attention(prefix, y, channels, heads, shifted);
    if (shifted) y = roll(prefix + "back.", y, window_ / 2);
    x = builder_.add("add", prefix + "attention_add", {x, y});
    y = builder_.add("layer_norm", prefix + "ffn_norm", {x});
    y = builder_.add("linear", prefix + "ffn1", {y}, {{"out", Sizes{4 * channels}}, {"activation", "gelu"}});
    y = builder_.add("linear", prefix + "ffn2", {y}, {{"out", Sizes{channels}}});
    return builder_.add("add", prefix + "ffn_add", {x, y});
  }

  TensorId attention(const std::string& prefix, TensorId x, std::int64_t channels, std::int64_t heads,
                     bool masked) {
    const std::int64_t across = side_ / window_, windows = across * across, tokens = window_ * window_;
    const std::int64_t width = channels / heads, all_heads = windows * heads;
    x = reshape(prefix + "windows", x, {batch_, across, window_, across, window_, channels});
    x = transpose(prefix + "apart", x, {0, 2, 4, 1, 3, 5});
    x = reshape(prefix + "tokens", x, {batch_, tokens, windows, channels});
    const auto project = [&](const char* name, Sizes shape) {
      const TensorId y = builder_.add("linear", prefix + name, {x}, {{"out", Sizes{heads, width}}});
      return reshape(prefix + name + "_heads", y, std::move(shape));
    };
    const TensorId query = project("query", {batch_, tokens, all_heads, 1, width});
    const TensorId key = project("key", {batch_, tokens, all_heads, width});
    const TensorId value = project("value", {batch_, tokens, all_heads, width});
    const TensorId mixed = builder_.add("biased_attention", prefix + "attention",
                                        {query, key, value, bias(prefix, heads, windows, masked)});
    x = reshape(prefix + "mixed", mixed, {batch_, tokens, windows, channels});
    x = builder_.add("linear", prefix + "output", {x}, {{"out", Sizes{channels}}});
    x = reshape(prefix + "of_windows", x, {batch_, window_, window_, across, across, channels});
    x = transpose(prefix + "in_place", x, {0, 3, 1, 4, 2, 5});
    return reshape(prefix + "image", x, {batch_, side_, side_, channels});
  }

  /// A learned number of each head and distance within a window; in shifted windows also a mask, as tokens
  /// from opposite borders of the image do not see one another.
  TensorId bias(const std::string& prefix, std::int64_t heads, std::int64_t windows, bool masked) {
    const std::int64_t tokens = window_ * window_, distances = (2 * window_ - 1) * (2 * window_ - 1);
    if (!distances_.valid()) distances_ = builder_.data("distances", {tokens, tokens}, DataType::Int64);
    TensorId b =
        builder_.add("embedding", prefix + "bias", {distances_}, {{"rows", distances}, {"width", heads}});
    b = transpose(prefix + "bias_by_head", b, {2, 0, 1});
    b = builder_.add("expand", prefix + "bias_of_windows", {b},
                     {{"shape", Sizes{1, windows, heads, tokens, tokens}}});
    if (masked) b = builder_.add("add", prefix + "mask_add", {b, mask(windows)});
    return reshape(prefix + "bias_heads", b, {windows * heads, 1, tokens, tokens});
  }

  TensorId mask(std::int64_t windows) {
    const std::int64_t tokens = window_ * window_;
    const std::string name = "mask" + std::to_string(windows);
    const TensorId known = builder_.find(name);
    return known.valid() ? known : builder_.data(name, {1, windows, 1, tokens, tokens});
  }

  GraphBuilder builder_;
  SwinSizes sizes_;
  std::int64_t batch_, window_, classes_;
  std::int64_t side_;  ///< rows and columns of tokens
  TensorId images_, labels_, distances_;
};

ZooModel swin_model(const std::string& size, const SwinSizes& sizes) {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, 32);
  options.push_back(ZooOption::integer("window", 7, 1, 64, "rows and columns of a window"));
  return {"swin-" + size, "Swin transformer, attention within windows that shift",
          "Liu et al., ICCV 2021, section 3.3; arXiv:2103.14030, as in torchvision", std::move(options),
          [sizes](const ZooValues& values) { return SwinNetwork(values, sizes).build(); }};
}

}  // namespace

std::vector<ZooModel> swin_models() {
  return {swin_model("t", {96, {2, 2, 6, 2}, {3, 6, 12, 24}}),
          swin_model("s", {96, {2, 2, 18, 2}, {3, 6, 12, 24}}),
          swin_model("b", {128, {2, 2, 18, 2}, {4, 8, 16, 32}}),
          swin_model("l", {192, {2, 2, 18, 2}, {6, 12, 24, 48}})};
}

}  // namespace pipesim
