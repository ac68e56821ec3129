#include "models/zoo/images/vision_transformer.h"

#include <fmt/format.h>

#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

TensorId attend(GraphBuilder& builder, const std::string& prefix, TensorId x, TensorId read,
                const HeadSizes& heads, std::int64_t out) {
  const auto project = [&](const char* name, TensorId from, Sizes to) {
    return builder.add("linear", prefix + name, {from},
                       {{"out", std::move(to)}, {"bias", heads.bias ? 1 : 0}});
  };
  const TensorId query = project("query", x, {heads.heads, 1, heads.width});
  const TensorId key = project("key", read, {heads.heads, heads.width});
  const TensorId value = project("value", read, {heads.heads, heads.width});
  const TensorId mixed = builder.add("attention", prefix + "attention", {query, key, value});
  return builder.add("linear", prefix + "output", {mixed}, {{"out", Sizes{out}}, {"contract", 3}});
}

TensorId add_feed_forward(GraphBuilder& builder, TensorId x, std::int64_t width, std::int64_t ffn) {
  const TensorId normed = builder.add("layer_norm", "ffn_norm", {x});
  const TensorId inner =
      builder.add("linear", "ffn1", {normed}, {{"out", Sizes{ffn}}, {"activation", "gelu"}});
  return builder.add("add", "ffn_add", {x, builder.add("linear", "ffn2", {inner}, {{"out", Sizes{width}}})});
}

TensorId as_tokens(GraphBuilder& builder, const std::string& prefix, TensorId x) {
  const Sizes shape = builder.shape(x);
  const TensorId rows = builder.add("reshape", prefix + "rows", {x},
                                    {{"shape", Sizes{shape[0], shape[1], shape[2] * shape[3]}}});
  return builder.add("transpose", prefix + "tokens", {rows}, {{"order", Sizes{0, 2, 1}}});
}

VisionTransformer::VisionTransformer(const ZooValues& values)
    : builder_(values.name(), values.integer("batch"), values.data_type()),
      batch_(values.integer("batch")),
      side_(values.quotient("image", "patch")),
      patch_(values.integer("patch")),
      classes_(values.integer("classes")) {
  const std::int64_t image = values.integer("image");
  images_ = builder_.data("images", {batch_, 3, image, image});
  labels_ = builder_.data("labels", {batch_}, DataType::Int64);
}

TensorId VisionTransformer::embed(std::int64_t hidden) {
  const TensorId patches =
      builder_.add("conv2d", "patches", {images_},
                   {{"out", hidden}, {"kernel", Sizes{patch_, patch_}}, {"stride", Sizes{patch_, patch_}}});
  const TensorId token = builder_.add("parameter", "class_token", {}, {{"shape", Sizes{1, 1, hidden}}});
  const TensorId tokens =
      builder_.add("expand", "class_tokens", {token}, {{"shape", Sizes{batch_, 1, hidden}}});
  const TensorId all =
      builder_.add("concat", "tokens", {tokens, as_tokens(builder_, "patch_", patches)}, {{"axis", 1}});
  const TensorId positions =
      builder_.add("parameter", "positions", {}, {{"shape", Sizes{side_ * side_ + 1, hidden}}});
  return builder_.add("add", "position_add", {all, positions});
}

TensorId VisionTransformer::layer(TensorId x, const VisionSizes& sizes) {
  const TensorId normed = builder_.add("layer_norm", "attention_norm", {x});
  const HeadSizes heads{sizes.heads, sizes.hidden / sizes.heads};
  x = builder_.add("add", "attention_add", {x, attend(builder_, "", normed, normed, heads, sizes.hidden)});
  return add_feed_forward(builder_, x, sizes.hidden, sizes.ffn);
}

void VisionTransformer::classify(TensorId x, std::int64_t hidden) {
  x = builder_.add("layer_norm", "norm", {x});
  x = builder_.add("slice", "first_token", {x}, {{"axis", 1}, {"length", 1}});
  x = builder_.add("reshape", "first_row", {x}, {{"shape", Sizes{batch_, hidden}}});
  builder_.add("cross_entropy", "loss",
               {builder_.add("linear", "classifier", {x}, {{"out", Sizes{classes_}}}), labels_});
}

ZooOptions vision_options(std::int64_t patch) {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, patch);
  options.push_back(ZooOption::integer("patch", patch, 1, 256, "rows and columns of a patch; divides image"));
  return options;
}

namespace {

OperatorGraph vit(const ZooValues& values) {
  VisionTransformer net(values);
  const VisionSizes sizes{values.integer("layers"), values.integer("hidden"), values.integer("heads"),
                          values.integer("ffn")};
  static_cast<void>(values.quotient("hidden", "heads"));
  TensorId x = net.embed(sizes.hidden);
  for (std::int64_t i = 1; i <= sizes.layers; ++i) {
    net.builder().begin_repeat("layer", i);
    x = net.layer(x, sizes);
    net.builder().end_repeat();
  }
  net.classify(x, sizes.hidden);
  return net.build();
}

ZooModel vit_model(const std::string& size, const std::string& source, std::int64_t patch,
                   const VisionSizes& sizes) {
  ZooOptions options = vision_options(patch);
  options.push_back(ZooOption::integer("layers", sizes.layers, 1, 1000, "transformer layers"));
  options.push_back(ZooOption::integer("hidden", sizes.hidden, 1, 1 << 17, "width of the residual stream"));
  options.push_back(ZooOption::integer("heads", sizes.heads, 1, 1 << 12, "attention heads; divides hidden"));
  options.push_back(ZooOption::integer("ffn", sizes.ffn, 1, 1 << 19, "width of the feed-forward part"));
  return {fmt::format("vit-{}{}", size, patch),
          fmt::format("vision transformer, patches of {} by {}", patch, patch), source, std::move(options),
          vit};
}

}  // namespace

std::vector<ZooModel> vision_models() {
  const std::string vit = "Dosovitskiy et al., ICLR 2021, table 1; arXiv:2010.11929, as in torchvision";
  const std::string deit = "Touvron et al. (DeiT), ICML 2021, table 1; arXiv:2012.12877";
  return {vit_model("ti", deit, 16, {12, 192, 3, 768}), vit_model("s", deit, 16, {12, 384, 6, 1536}),
          vit_model("b", vit, 16, {12, 768, 12, 3072}), vit_model("l", vit, 16, {24, 1024, 16, 4096}),
          vit_model("h", vit, 14, {32, 1280, 16, 5120})};
}

}  // namespace pipesim
