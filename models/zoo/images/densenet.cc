#include <string>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

namespace {

constexpr std::int64_t growth = 32;                    // k of the paper
constexpr std::int64_t bottleneck_width = 4 * growth;  // width of the 1x1 convolutions
constexpr int block_layers[] = {6, 12, 24, 16};        // table 1, DenseNet-121

/// Norm and relu come before each convolution. Appending to the running concatenation gives the same channels
/// as concatenating all earlier layers anew.
TensorId dense_layer(ImageNetwork& net, const std::string& prefix, TensorId x) {
  TensorId y = net.batch_norm(prefix + "norm1", x, "relu");
  y = net.conv_without_bias(prefix + "conv1", y, bottleneck_width, Window::same(1));
  y = net.batch_norm(prefix + "norm2", y, "relu");
  y = net.conv_without_bias(prefix + "conv2", y, growth, Window::same(3));
  return net.concat(prefix + "concat", {x, y});
}

/// Halves the channels and the image.
TensorId transition(ImageNetwork& net, const std::string& prefix, TensorId x) {
  const std::int64_t channels = net.builder().shape(x)[1];
  TensorId y = net.batch_norm(prefix + "norm", x, "relu");
  y = net.conv_without_bias(prefix + "conv", y, channels / 2, Window::same(1));
  return net.pool("avg", prefix + "pool", y, Window::unpadded(2, 2));
}

OperatorGraph densenet121(const ZooValues& values) {
  ImageNetwork net(values, 3);
  TensorId x = net.conv_norm("stem", net.image(), 2 * growth, Window::same(7, 2));
  x = net.pool("max", "stem.pool", x, Window::same(3, 2));
  for (int block = 1; block <= 4; ++block) {
    const std::string prefix = "block" + std::to_string(block) + ".";
    for (int layer = 1; layer <= block_layers[block - 1]; ++layer) {
      x = dense_layer(net, prefix + "layer" + std::to_string(layer) + ".", x);
    }
    if (block < 4) x = transition(net, "transition" + std::to_string(block) + ".", x);
  }
  net.classify(net.global_average(net.batch_norm("norm", x, "relu")));
  return net.build();
}

ZooOptions options() {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, 32);
  options.push_back(batch_norm_option());
  return options;
}

}  // namespace

std::vector<ZooModel> densenet_models() {
  return {{"densenet121", "DenseNet-121, every layer reads all earlier ones of its block",
           "Huang et al., CVPR 2017, table 1; arXiv:1608.06993", options(), densenet121}};
}

}  // namespace pipesim
