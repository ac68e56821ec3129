#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/images/vision_transformer.h"

namespace pipesim {

namespace {

constexpr std::int64_t kLatents = 4, kFrequencies = 256;

/// A diffusion transformer (Peebles and Xie, ICCV 2023, section 3.2): layers whose norms are shifted and
/// scaled, and whose parts are gated, by the step and the class.
class DiffusionTransformer {
 public:
  explicit DiffusionTransformer(const ZooValues& values)
      : builder_(values.name(), values.integer("batch"), values.data_type()),
        batch_(values.integer("batch")),
        image_(values.integer("latent")),
        patch_(values.integer("patch")),
        side_(values.quotient("latent", "patch")),
        hidden_(values.integer("hidden")),
        heads_{values.integer("heads"), values.quotient("hidden", "heads")},
        layers_(values.integer("layers")),
        classes_(values.integer("classes")) {}

  OperatorGraph build() {
    TensorId x = embed();
    known_ = condition();
    for (std::int64_t i = 1; i <= layers_; ++i) {
      builder_.begin_repeat("layer", i);
      x = layer(x);
      builder_.end_repeat();
    }
    predict(x);
    return builder_.build();
  }

 private:
  TensorId linear(const std::string& name, TensorId x, std::int64_t out,
                  const std::string& activation = "none") {
    return builder_.add("linear", name, {x}, {{"out", Sizes{out}}, {"activation", activation}});
  }

  /// Patches as tokens; the positions' sines and cosines are not learned.
  TensorId embed() {
    const TensorId latents = builder_.data("latents", {batch_, kLatents, image_, image_});
    const TensorId patches = builder_.add(
        "conv2d", "patches", {latents},
        {{"out", hidden_}, {"kernel", Sizes{patch_, patch_}}, {"stride", Sizes{patch_, patch_}}});
    const TensorId positions = builder_.add_operator(
        {"parameter", "positions", {}, {{"shape", Sizes{side_ * side_, hidden_}}}, {}, {}, "", true})[0];
    return builder_.add("add", "position_add", {as_tokens(builder_, "patch_", patches), positions});
  }

  /// What each sample's step and class say, [b, hidden]. One more class stands for none.
  TensorId condition() {
    const TensorId steps = builder_.data("steps", {batch_, kFrequencies});
    const TensorId step = linear("step2", linear("step1", steps, hidden_, "silu"), hidden_);
    const TensorId classes =
        builder_.add("embedding", "class", {builder_.data("classes", {batch_}, DataType::Int64)},
                     {{"rows", classes_ + 1}, {"width", hidden_}});
    return builder_.add("add", "condition", {step, classes});
  }

  /// `count` tensors [b, 1, hidden] made from the condition.
  std::vector<TensorId> modulation(const std::string& prefix, std::int64_t count) {
    TensorId all =
        linear(prefix + "modulation", builder_.add("silu", prefix + "silu", {known_}), count * hidden_);
    all = builder_.add("reshape", prefix + "of_all_tokens", {all},
                       {{"shape", Sizes{batch_, 1, count * hidden_}}});
    return builder_.add_all("split", prefix + "modulations", {all},
                            {{"axis", 2}, {"sizes", Sizes(static_cast<std::size_t>(count), hidden_)}});
  }

  TensorId modulated(const std::string& prefix, TensorId x, TensorId shift, TensorId scale) {
    const TensorId normed = builder_.add("layer_norm", prefix + "norm", {x}, {{"affine", 0}});
    const TensorId factor = builder_.add("affine", prefix + "factor", {scale}, {{"offset", 1.0}});
    const TensorId scaled = builder_.add("mul", prefix + "scale", {normed, factor});
    return builder_.add("add", prefix + "shift", {scaled, shift});
  }

  TensorId layer(TensorId x) {
    const std::vector<TensorId> m = modulation("", 6);
    const auto add_gated = [&](const std::string& prefix, TensorId y, TensorId gate) {
      x = builder_.add("add", prefix + "add", {x, builder_.add("mul", prefix + "gate", {y, gate})});
    };
    TensorId y = modulated("attention_", x, m[0], m[1]);
    add_gated("attention_", attend(builder_, "", y, y, heads_, hidden_), m[2]);
    y = modulated("ffn_", x, m[3], m[4]);
    add_gated("ffn_", linear("ffn2", linear("ffn1", y, 4 * hidden_, "gelu"), hidden_), m[5]);
    return x;
  }

  /// Noise and its variance for every place; the loss here is that of the noise alone.
  void predict(TensorId x) {
    const std::vector<TensorId> m = modulation("final_", 2);
    x = modulated("final_", x, m[0], m[1]);
    constexpr std::int64_t results = 2 * kLatents;
    x = linear("noise", x, patch_ * patch_ * results);
    x = builder_.add("reshape", "places", {x},
                     {{"shape", Sizes{batch_, side_, side_, patch_, patch_, results}}});
    x = builder_.add("transpose", "in_place", {x}, {{"order", Sizes{0, 5, 1, 3, 2, 4}}});
    x = builder_.add("reshape", "image", {x}, {{"shape", Sizes{batch_, results, image_, image_}}});
    x = builder_.add("slice", "noise_alone", {x}, {{"axis", 1}, {"length", kLatents}});
    builder_.add("squared_error", "loss",
                 {x, builder_.data("added_noise", {batch_, kLatents, image_, image_})});
  }

  GraphBuilder builder_;
  std::int64_t batch_, image_, patch_, side_, hidden_;
  HeadSizes heads_;
  std::int64_t layers_, classes_;
  TensorId known_;
};

}  // namespace

std::vector<ZooModel> dit_models() {
  ZooOptions options = {batch_option(256, "16 for each of 16 devices; the paper has 256"),
                        dtype_option(),
                        ZooOption::integer("latent", 32, 2, 1024, "rows and columns of the latent image"),
                        ZooOption::integer("patch", 2, 1, 64, "rows and columns of a patch; divides latent"),
                        ZooOption::integer("layers", 28, 1, 1000, "transformer layers"),
                        ZooOption::integer("hidden", 1152, 1, 1 << 17, "width of the residual stream"),
                        ZooOption::integer("heads", 16, 1, 1 << 12, "attention heads; divides hidden"),
                        ZooOption::integer("classes", 1000, 1, 1000000, "classes of images")};
  return {{"dit-xl", "diffusion transformer DiT-XL/2, which predicts the noise in a latent image",
           "Peebles and Xie, ICCV 2023, table 1; arXiv:2212.09748", std::move(options),
           [](const ZooValues& values) { return DiffusionTransformer(values).build(); }}};
}

}  // namespace pipesim
