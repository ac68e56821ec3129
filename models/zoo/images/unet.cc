#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/families.h"
#include "models/zoo/images/vision_transformer.h"
#include "models/zoo/options.h"

namespace pipesim {

namespace {

/// A level of the network: an image of some size.
struct UnetLevel {
  std::int64_t channels = 0;
  std::int64_t transformers = 0;  ///< layers of each of its transformers; 0: none
};

struct UnetSizes {
  std::vector<UnetLevel> levels;  ///< from the largest image on
  std::int64_t heads = 0;         ///< of attention; 0: as many as have head_width
  std::int64_t head_width = 0;
  std::int64_t context = 0;      ///< width of the text's tokens
  std::int64_t added = 0;        ///< width of what is known beside the text; 0: nothing
  bool projects_tokens = false;  ///< transformers project tokens, not the image
};

/// The network that predicts the noise in a latent image (Rombach et al., CVPR 2022, section 3).
class Unet {
 public:
  Unet(const ZooValues& values, UnetSizes sizes)
      : builder_(values.name(), values.integer("batch"), values.data_type()),
        sizes_(std::move(sizes)),
        batch_(values.integer("batch")),
        image_(values.integer("latent")),
        blocks_(values.integer("blocks")) {
    const std::int64_t step = std::int64_t{1} << (sizes_.levels.size() - 1);
    if (image_ % step != 0)
      values.fail("latent=" + std::to_string(image_) + " is not a multiple of " + std::to_string(step));
    if (values.integer("channels") % kStep != 0)
      values.fail("channels must be a multiple of " + std::to_string(kStep));
    for (UnetLevel& level : sizes_.levels)
      level.channels = level.channels / kChannels * values.integer("channels");
    text_ = builder_.data("text", {batch_, values.integer("tokens"), sizes_.context});
  }

  OperatorGraph build() {
    const std::size_t last = sizes_.levels.size() - 1;
    TensorId x = builder_.data("latents", {batch_, kLatents, image_, image_});
    time_ = embed_time();
    x = convolve("stem", x, sizes_.levels.front().channels);
    passed_ = {x};
    for (std::size_t level = 0; level <= last; ++level) x = go_down(x, level);
    x = middle(x);
    for (std::size_t level = last + 1; level-- > 0;) x = go_up(x, level);
    x = builder_.add("silu", "silu", {normalise("norm", x)});
    x = convolve("noise", x, kLatents);
    builder_.add("squared_error", "loss",
                 {x, builder_.data("added_noise", {batch_, kLatents, image_, image_})});
    return builder_.build();
  }

 private:
  static constexpr std::int64_t kLatents = 4, kGroups = 32, kChannels = 320, kStep = 64;

  TensorId normalise(const std::string& name, TensorId x) {
    return builder_.add("group_norm", name, {x}, {{"groups", kGroups}});
  }
  TensorId convolve(const std::string& name, TensorId x, std::int64_t out, std::int64_t kernel = 3,
                    std::int64_t stride = 1) {
    return builder_.add("conv2d", name, {x},
                        {{"out", out},
                         {"kernel", Sizes{kernel, kernel}},
                         {"stride", Sizes{stride, stride}},
                         {"pad", Sizes{kernel / 2, kernel / 2}}});
  }
  TensorId linear(const std::string& name, TensorId x, std::int64_t out,
                  const std::string& activation = "none") {
    return builder_.add("linear", name, {x}, {{"out", Sizes{out}}, {"activation", activation}});
  }

  /// Sines and cosines of the step come with the data.
  TensorId embed_time() {
    const std::int64_t base = sizes_.levels.front().channels, width = 4 * base;
    TensorId time =
        linear("time2", linear("time1", builder_.data("steps", {batch_, base}), width, "silu"), width);
    if (sizes_.added == 0) return time;
    const TensorId added = linear("added1", builder_.data("added", {batch_, sizes_.added}), width, "silu");
    return builder_.add("add", "time_add", {time, linear("added2", added, width)});
  }

  TensorId residual(const std::string& prefix, TensorId x, std::int64_t out) {
    const std::int64_t in = builder_.shape(x)[1];
    TensorId y = builder_.add("silu", prefix + "silu1", {normalise(prefix + "norm1", x)});
    y = convolve(prefix + "conv1", y, out);
    TensorId time = linear(prefix + "time", builder_.add("silu", prefix + "time_silu", {time_}), out);
    time = builder_.add("reshape", prefix + "time_image", {time}, {{"shape", Sizes{batch_, out, 1, 1}}});
    y = builder_.add("add", prefix + "time_add", {y, time});
    y = builder_.add("silu", prefix + "silu2", {normalise(prefix + "norm2", y)});
    y = convolve(prefix + "conv2", y, out);
    if (in != out) x = convolve(prefix + "shortcut", x, out, 1);
    return builder_.add("add", prefix + "add", {x, y});
  }

  /// Attention of the image's places to one another, then to the text.
  TensorId transformer(const std::string& prefix, TensorId x, const UnetLevel& level) {
    const Sizes shape = builder_.shape(x);
    TensorId y = normalise(prefix + "norm", x);
    if (!sizes_.projects_tokens) y = convolve(prefix + "in", y, level.channels, 1);
    y = as_tokens(builder_, prefix, y);
    if (sizes_.projects_tokens) y = linear(prefix + "in", y, level.channels);
    for (std::int64_t i = 1; i <= level.transformers; ++i) {
      builder_.begin_repeat(prefix + "layer", i);
      y = layer(y, level);
      builder_.end_repeat();
    }
    if (sizes_.projects_tokens) y = linear(prefix + "out", y, level.channels);
    y = builder_.add("transpose", prefix + "channels", {y}, {{"order", Sizes{0, 2, 1}}});
    y = builder_.add("reshape", prefix + "image", {y}, {{"shape", shape}});
    if (!sizes_.projects_tokens) y = convolve(prefix + "out", y, level.channels, 1);
    return builder_.add("add", prefix + "add", {x, y});
  }

  TensorId layer(TensorId x, const UnetLevel& level) {
    const std::int64_t count = sizes_.heads > 0 ? sizes_.heads : level.channels / sizes_.head_width;
    const HeadSizes heads{count, level.channels / count, false};
    const auto attention = [&](const std::string& prefix, bool of_text) {
      const TensorId y = builder_.add("layer_norm", prefix + "norm", {x});
      const TensorId mixed = attend(builder_, prefix, y, of_text ? text_ : y, heads, level.channels);
      x = builder_.add("add", prefix + "add", {x, mixed});
    };
    attention("self_", false);
    attention("text_", true);
    const TensorId y = builder_.add("layer_norm", "ffn_norm", {x});
    const std::int64_t inner = 4 * level.channels;
    const auto halves = builder_.add_all("split", "ffn_halves", {linear("ffn1", y, 2 * inner)},
                                         {{"axis", 2}, {"sizes", Sizes{inner, inner}}});
    const TensorId gated =
        builder_.add("mul", "ffn_gate", {halves[0], builder_.add("gelu", "ffn_gelu", {halves[1]})});
    return builder_.add("add", "ffn_add", {x, linear("ffn2", gated, level.channels)});
  }

  /// A residual block, and a transformer where the level has them.
  TensorId block(const std::string& prefix, TensorId x, const UnetLevel& level) {
    x = residual(prefix + "residual.", x, level.channels);
    return level.transformers > 0 ? transformer(prefix + "transformer.", x, level) : x;
  }

  TensorId go_down(TensorId x, std::size_t level) {
    const std::string prefix = "down" + std::to_string(level + 1) + ".";
    for (std::int64_t i = 1; i <= blocks_; ++i) {
      x = block(prefix + "block" + std::to_string(i) + ".", x, sizes_.levels[level]);
      passed_.push_back(x);
    }
    if (level + 1 == sizes_.levels.size()) return x;
    x = convolve(prefix + "smaller", x, sizes_.levels[level].channels, 3, 2);
    passed_.push_back(x);
    return x;
  }

  /// Its transformer is as deep as that of the smallest image that has one.
  TensorId middle(TensorId x) {
    UnetLevel level = sizes_.levels.back();
    for (const UnetLevel& other : sizes_.levels) {
      if (level.transformers == 0 && other.transformers > 0) level.transformers = other.transformers;
    }
    x = residual("middle.residual1.", x, level.channels);
    x = transformer("middle.transformer.", x, level);
    return residual("middle.residual2.", x, level.channels);
  }

  TensorId go_up(TensorId x, std::size_t level) {
    const std::string prefix = "up" + std::to_string(level + 1) + ".";
    for (std::int64_t i = 1; i <= blocks_ + 1; ++i) {
      const std::string name = prefix + "block" + std::to_string(i) + ".";
      x = builder_.add("concat", name + "join", {x, passed_.back()}, {{"axis", 1}});
      passed_.pop_back();
      x = block(name, x, sizes_.levels[level]);
    }
    if (level == 0) return x;
    const std::int64_t side = 2 * builder_.shape(x)[2];
    x = builder_.add("resize", prefix + "larger", {x}, {{"out", Sizes{side, side}}});
    return convolve(prefix + "conv", x, sizes_.levels[level].channels);
  }

  GraphBuilder builder_;
  UnetSizes sizes_;
  std::int64_t batch_, image_, blocks_;
  TensorId text_, time_;
  std::vector<TensorId> passed_;  ///< results on the way down that the way up reads, the last first
};

ZooModel unet_model(const std::string& name, const std::string& description, const std::string& source,
                    std::int64_t latent, const UnetSizes& sizes) {
  ZooOptions options = {
      batch_option(64, "4 for each of 16 devices"),
      dtype_option("float16"),
      ZooOption::integer("latent", latent, 8, 1024, "rows and columns of the latent image"),
      ZooOption::integer("tokens", 77, 1, 1 << 16, "tokens of the text"),
      ZooOption::integer("blocks", 2, 1, 16, "residual blocks of each level on the way down"),
      ZooOption::integer("channels", 320, 64, 320 * 16,
                         "of the first level, in steps of 64; others grow with it")};
  return {name, description, source, std::move(options),
          [sizes](const ZooValues& values) { return Unet(values, sizes).build(); }};
}

}  // namespace

std::vector<ZooModel> unet_models() {
  return {unet_model("unet-sd15", "UNet of Stable Diffusion 1.5, which predicts the noise in a latent image",
                     "Rombach et al., CVPR 2022; arXiv:2112.10752, sizes of Stable Diffusion 1.5", 64,
                     {{{320, 1}, {640, 1}, {1280, 1}, {1280, 0}}, 8, 0, 768, 0, false}),
          unet_model("unet-sdxl", "UNet of Stable Diffusion XL",
                     "Podell et al., ICLR 2024, table 1; arXiv:2307.01952", 128,
                     {{{320, 0}, {640, 2}, {1280, 10}}, 0, 64, 2048, 2816, true})};
}

}  // namespace pipesim
