#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

namespace {

OperatorGraph mlp(const ZooValues& values) {
  const std::int64_t batch = values.integer("batch");
  GraphBuilder builder(values.name(), batch, values.data_type());
  TensorId x = builder.data("features", {batch, values.integer("features")});
  const TensorId labels = builder.data("labels", {batch}, DataType::Int64);
  const Attributes hidden = {{"out", Sizes{values.integer("hidden")}}, {"activation", "relu"}};
  x = builder.add("linear", "layer1.linear", {x}, hidden);
  // The first layer has another input width, so it is no repeat of the others.
  for (std::int64_t layer = 2; layer <= values.integer("layers"); ++layer) {
    builder.begin_repeat("layer", layer);
    x = builder.add("linear", "linear", {x}, hidden);
    builder.end_repeat();
  }
  x = builder.add("linear", "classifier", {x}, {{"out", Sizes{values.integer("classes")}}});
  builder.add("cross_entropy", "loss", {x, labels});
  return builder.build();
}

OperatorGraph lenet(const ZooValues& values) {
  ImageNetwork net(values, 1);
  const Window window2 = Window::unpadded(2, 2);
  TensorId x = net.conv("conv1", net.image(), 6, Window::same(5), "tanh");
  x = net.pool("avg", "pool1", x, window2);
  x = net.conv("conv2", x, 16, Window::unpadded(5), "tanh");
  x = net.pool("avg", "pool2", x, window2);
  x = net.linear("linear1", x, 120, "tanh");
  x = net.linear("linear2", x, 84, "tanh");
  net.classify(x);
  return net.build();
}

OperatorGraph alexnet(const ZooValues& values) {
  ImageNetwork net(values, 3);
  const Window overlapping = Window::unpadded(3, 2);
  TensorId x = net.conv("conv1", net.image(), 64, {{11, 11}, 4, {2, 2}}, "relu");
  x = net.pool("max", "pool1", x, overlapping);
  x = net.conv("conv2", x, 192, Window::same(5), "relu");
  x = net.pool("max", "pool2", x, overlapping);
  x = net.conv("conv3", x, 384, Window::same(3), "relu");
  x = net.conv("conv4", x, 256, Window::same(3), "relu");
  x = net.conv("conv5", x, 256, Window::same(3), "relu");
  x = net.pool("max", "pool3", x, overlapping);
  x = net.linear("linear1", net.dropout("dropout1", x), 4096, "relu");
  x = net.linear("linear2", net.dropout("dropout2", x), 4096, "relu");
  net.classify(x);
  return net.build();
}

/// Convolutions of each stage: table 1 of the paper, columns D and E.
using VggDepths = std::array<int, 5>;

OperatorGraph vgg(const ZooValues& values, const VggDepths& convolutions) {
  ImageNetwork net(values, 3);
  TensorId x = net.image();
  std::int64_t width = 64;
  for (std::size_t s = 0; s < convolutions.size(); ++s) {
    const std::string stage = "stage" + std::to_string(s + 1);
    x = net.conv(stage + ".layer1.conv", x, width, Window::same(3), "relu");
    for (int layer = 2; layer <= convolutions[s]; ++layer) {
      net.builder().begin_repeat(stage + ".layer", layer);
      x = net.conv("conv", x, width, Window::same(3), "relu");
      net.builder().end_repeat();
    }
    x = net.pool("max", stage + ".pool", x, Window::unpadded(2, 2));
    width = std::min<std::int64_t>(2 * width, 512);
  }
  x = net.dropout("dropout1", net.linear("linear1", x, 4096, "relu"));
  x = net.dropout("dropout2", net.linear("linear2", x, 4096, "relu"));
  net.classify(x);
  return net.build();
}

ZooModel vgg_model(const std::string& depth, const VggDepths& convolutions) {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 224, 32);
  options.push_back(dropout_option(0.5));
  return {"vgg" + depth, "VGG-" + depth + ", " + depth + " layers of 3x3 convolutions and wide linears",
          "Simonyan and Zisserman, ICLR 2015, table 1; arXiv:1409.1556", std::move(options),
          [convolutions](const ZooValues& values) { return vgg(values, convolutions); }};
}

ZooOptions mlp_options() {
  return {batch_option(1024, "64 for each of 16 devices"),
          dtype_option(),
          ZooOption::integer("features", 784, 1, 1 << 18, "width of the input"),
          ZooOption::integer("layers", 4, 1, 1000, "hidden layers"),
          ZooOption::integer("hidden", 1024, 1, 1 << 18, "width of the hidden layers"),
          ZooOption::integer("classes", 10, 2, 1000000, "labels")};
}

ZooOptions lenet_options() {
  return {batch_option(64, "for one device, the network is small"), dtype_option(),
          ZooOption::integer("image", 28, 12, 2048, "rows and columns of an image, one channel"),
          ZooOption::integer("classes", 10, 2, 1000000, "labels")};
}

ZooOptions alexnet_options() {
  ZooOptions options = image_options(4096, "256 for each of 16 devices", 224, 63);
  options.push_back(dropout_option(0.5));
  return options;
}

}  // namespace

std::vector<ZooModel> plain_models() {
  return {{"mlp", "multilayer perceptron, equal hidden layers with relu",
           "Rumelhart, Hinton and Williams, Nature 323, 1986", mlp_options(), mlp},
          {"lenet", "LeNet-5 for 28x28 grey images", "LeCun et al., Proceedings of the IEEE 86(11), 1998",
           lenet_options(), lenet},
          {"alexnet", "AlexNet in one column, without local response normalisation",
           "Krizhevsky, 2014, arXiv:1404.5997, as in torchvision", alexnet_options(), alexnet},
          vgg_model("16", {2, 2, 3, 3, 3}),
          vgg_model("19", {2, 2, 4, 4, 4})};
}

}  // namespace pipesim
