#include <array>
#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/image_network.h"

namespace pipesim {

namespace {

/// Bottleneck blocks of each stage: table 1 of the paper.
using ResNetDepths = std::array<int, 4>;

/// The stride stands at the 3x3 convolution ("v1.5"), as torchvision and the published FLOPs have it; the
/// paper has it at the first 1x1. A projected shortcut changes width or size, the others are the identity.
TensorId bottleneck(ImageNetwork& net, const std::string& prefix, TensorId x, std::int64_t width,
                    std::int64_t stride, bool projected) {
  TensorId y = net.conv_norm(prefix + "conv1", x, width, Window::same(1));
  y = net.conv_norm(prefix + "conv2", y, width, Window::same(3, stride));
  y = net.conv_norm(prefix + "conv3", y, 4 * width, Window::same(1), "none");
  if (projected) x = net.conv_norm(prefix + "shortcut", x, 4 * width, Window::same(1, stride), "none");
  return net.builder().add("relu", prefix + "relu", {net.builder().add("add", prefix + "add", {y, x})});
}

OperatorGraph resnet(const ZooValues& values, const ResNetDepths& depths) {
  ImageNetwork net(values, 3);
  TensorId x = net.conv_norm("stem", net.image(), 64, Window::same(7, 2));
  x = net.pool("max", "stem.pool", x, Window::same(3, 2));
  for (int s = 0; s < 4; ++s) {
    const std::string stage = "stage" + std::to_string(s + 1);
    const std::int64_t width = std::int64_t{64} << s;
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

}  // namespace

std::vector<ZooModel> resnet_models() {
  return {resnet_model("50", {3, 4, 6, 3}), resnet_model("101", {3, 4, 23, 3}),
          resnet_model("152", {3, 8, 36, 3})};
}

}  // namespace pipesim
