#include <array>
#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

namespace {

/// Bottleneck blocks of each stage: table 1 of the paper.
using ResNetDepths = std::array<int, 4>;

/// Channels after each convolution of a block.
struct BlockWidth {
  std::int64_t first = 0, second = 0, outer = 0;
};

/// A stage with a plain width of `channels`.
BlockWidth block_width(const ZooValues& values, std::int64_t channels) {
  if (!values.has("width")) return {channels, channels, 4 * channels};
  const std::int64_t wide = values.integer("width") * channels;
  return {values.word("widened") == "both" ? wide : channels, wide, 4 * channels};
}

/// The stride stands at the 3x3 convolution ("v1.5"), as torchvision and the published FLOPs have it; the
/// paper has it at the first 1x1. A projected shortcut changes width or size, the others are the identity.
TensorId bottleneck(ImageNetwork& net, const std::string& prefix, TensorId x, const BlockWidth& width,
                    std::int64_t stride, bool projected) {
  TensorId y = net.conv_norm(prefix + "conv1", x, width.first, Window::same(1));
  y = net.conv_norm(prefix + "conv2", y, width.second, Window::same(3, stride));
  y = net.conv_norm(prefix + "conv3", y, width.outer, Window::same(1), "none");
  if (projected) x = net.conv_norm(prefix + "shortcut", x, width.outer, Window::same(1, stride), "none");
  return net.builder().add("relu", prefix + "relu", {net.builder().add("add", prefix + "add", {y, x})});
}

OperatorGraph resnet(const ZooValues& values, const ResNetDepths& depths) {
  ImageNetwork net(values, 3);
  const std::int64_t channels = values.has("channels") ? values.integer("channels") : 64;
  TensorId x = net.conv_norm("stem", net.image(), channels, Window::same(7, 2));
  x = net.pool("max", "stem.pool", x, Window::same(3, 2));
  for (int s = 0; s < 4; ++s) {
    const std::string stage = "stage" + std::to_string(s + 1);
    const BlockWidth width = block_width(values, channels << s);
    x = bottleneck(net, stage + ".block1.", x, width, s == 0 ? 1 : 2, true);
    // The first block changes the shape, so it is no repeat of the others.
    for (int block = 2; block <= depths[s]; ++block) {
      net.builder().begin_repeat(stage + ".block", block);
      x = bottleneck(net, "", x, width, 1, false);
      net.builder().end_repeat();
    }
  }
  net.classify(net.global_average(x));
  return net.build();
}

ZooModel resnet_model(const std::string& depth, const ResNetDepths& depths) {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, 32);
  options.push_back(batch_norm_option());
  return {"resnet" + depth, "ResNet-" + depth + ", bottleneck blocks with shortcuts",
          "He et al., CVPR 2016, table 1; arXiv:1512.03385; strides as in torchvision", std::move(options),
          [depths](const ZooValues& values) { return resnet(values, depths); }};
}

/// Only the channels within blocks grow, not those between them. The models of Alpa's evaluation widen the
/// 3x3 convolutions only, and have more channels throughout.
ZooModel wide_resnet_model(const std::string& depth, const ResNetDepths& depths) {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, 32);
  options.push_back(batch_norm_option());
  options.push_back(
      ZooOption::integer("channels", 64, 1, 4096, "channels of the stem, doubled stage by stage"));
  options.push_back(ZooOption::integer("width", 2, 1, 64, "factor of the channels within blocks"));
  options.push_back(ZooOption::word("widened", {"both", "3x3"}, "both",
                                    "both inner convolutions of a block, or the 3x3 alone"));
  return {"wide-resnet" + depth + "-2", "Wide ResNet-" + depth + "-2, bottlenecks of twice the channels",
          "Zagoruyko and Komodakis, BMVC 2016; arXiv:1605.07146, as in torchvision", std::move(options),
          [depths](const ZooValues& values) { return resnet(values, depths); }};
}

}  // namespace

std::vector<ZooModel> resnet_models() {
  const ResNetDepths depths50 = {3, 4, 6, 3}, depths101 = {3, 4, 23, 3};
  return {resnet_model("50", depths50), resnet_model("101", depths101), resnet_model("152", {3, 8, 36, 3}),
          wide_resnet_model("50", depths50), wide_resnet_model("101", depths101)};
}

}  // namespace pipesim
