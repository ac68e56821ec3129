#include <string>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

namespace {

struct Conv {
  std::int64_t out = 0;
  Window window;
};

const Window one = Window::same(1), three = Window::same(3), halving3 = Window::unpadded(3, 2);
const Window row_of_7 = Window::same_of(1, 7), column_of_7 = Window::same_of(7, 1);
const Window row_of_3 = Window::same_of(1, 3), column_of_3 = Window::same_of(3, 1);

/// A branch: "<name>1", "<name>2", …
TensorId chain(ImageNetwork& net, const std::string& name, TensorId x, const std::vector<Conv>& convs) {
  int i = 0;
  for (const Conv& conv : convs) x = net.conv_norm(name + std::to_string(++i), x, conv.out, conv.window);
  return x;
}

TensorId pooled(ImageNetwork& net, const std::string& prefix, TensorId x, std::int64_t out) {
  return chain(net, prefix + "pooled", net.pool("avg", prefix + "pool", x, three), {{out, one}});
}

/// Figure 5 of the paper.
TensorId block_5x5(ImageNetwork& net, const std::string& prefix, TensorId x, std::int64_t pool_width) {
  return net.concat(prefix + "concat",
                    {chain(net, prefix + "single", x, {{64, one}}),
                     chain(net, prefix + "five", x, {{48, one}, {64, Window::same(5)}}),
                     chain(net, prefix + "double", x, {{64, one}, {96, three}, {96, three}}),
                     pooled(net, prefix, x, pool_width)});
}

/// Figure 10: 35x35 to 17x17.
TensorId reduction_to_17(ImageNetwork& net, const std::string& prefix, TensorId x) {
  return net.concat(prefix + "concat",
                    {chain(net, prefix + "three", x, {{384, halving3}}),
                     chain(net, prefix + "double", x, {{64, one}, {96, three}, {96, halving3}}),
                     net.pool("max", prefix + "pool", x, halving3)});
}

/// Figure 6 with n = 7; `width` grows with depth.
TensorId block_7x7(ImageNetwork& net, const std::string& prefix, TensorId x, std::int64_t width) {
  return net.concat(
      prefix + "concat",
      {chain(net, prefix + "single", x, {{192, one}}),
       chain(net, prefix + "seven", x, {{width, one}, {width, row_of_7}, {192, column_of_7}}),
       chain(net, prefix + "double", x,
             {{width, one}, {width, column_of_7}, {width, row_of_7}, {width, column_of_7}, {192, row_of_7}}),
       pooled(net, prefix, x, 192)});
}

/// 17x17 to 8x8.
TensorId reduction_to_8(ImageNetwork& net, const std::string& prefix, TensorId x) {
  return net.concat(
      prefix + "concat",
      {chain(net, prefix + "three", x, {{192, one}, {320, halving3}}),
       chain(net, prefix + "seven", x, {{192, one}, {192, row_of_7}, {192, column_of_7}, {192, halving3}}),
       net.pool("max", prefix + "pool", x, halving3)});
}

/// Figure 7: two branches end in a row and a column side by side.
TensorId block_wide(ImageNetwork& net, const std::string& prefix, TensorId x) {
  const TensorId three_stem = chain(net, prefix + "three", x, {{384, one}});
  const TensorId double_stem = chain(net, prefix + "double", x, {{448, one}, {384, three}});
  return net.concat(
      prefix + "concat",
      {chain(net, prefix + "single", x, {{320, one}}),
       net.conv_norm(prefix + "three.row", three_stem, 384, row_of_3),
       net.conv_norm(prefix + "three.column", three_stem, 384, column_of_3),
       net.conv_norm(prefix + "double.row", double_stem, 384, row_of_3),
       net.conv_norm(prefix + "double.column", double_stem, 384, column_of_3), pooled(net, prefix, x, 192)});
}

TensorId stem(ImageNetwork& net) {
  TensorId x = chain(net, "stem.a", net.image(), {{32, halving3}, {32, Window::unpadded(3)}, {64, three}});
  x = net.pool("max", "stem.pool1", x, halving3);
  x = chain(net, "stem.b", x, {{80, one}, {192, Window::unpadded(3)}});
  return net.pool("max", "stem.pool2", x, halving3);
}

/// The auxiliary classifier. Its loss counts in full where training recipes weigh it less: the work is the
/// same.
void auxiliary_classifier(ImageNetwork& net, TensorId x) {
  x = net.pool("avg", "auxiliary.pool", x, Window::unpadded(5, 3));
  x = chain(net, "auxiliary.conv", x, {{128, one}, {768, Window::unpadded(5)}});
  x = net.builder().add("reduce", "auxiliary.average", {x}, {{"axes", Sizes{2, 3}}, {"mode", "mean"}});
  net.classify(x, "auxiliary.classifier", "auxiliary.loss");
}

OperatorGraph inception_v3(const ZooValues& values) {
  ImageNetwork net(values, 3);
  TensorId x = stem(net);
  x = block_5x5(net, "mixed5.block1.", x, 32);
  x = block_5x5(net, "mixed5.block2.", x, 64);
  x = block_5x5(net, "mixed5.block3.", x, 64);
  x = reduction_to_17(net, "mixed6.block1.", x);
  x = block_7x7(net, "mixed6.block2.", x, 128);
  for (const int block : {3, 4}) {  // the only two of equal shapes
    net.builder().begin_repeat("mixed6.block", block);
    x = block_7x7(net, "", x, 160);
    net.builder().end_repeat();
  }
  x = block_7x7(net, "mixed6.block5.", x, 192);
  if (values.word("auxiliary") == "yes") auxiliary_classifier(net, x);
  x = reduction_to_8(net, "mixed7.block1.", x);
  x = block_wide(net, "mixed7.block2.", x);
  x = block_wide(net, "mixed7.block3.", x);
  net.classify(net.dropout("dropout", net.global_average(x)));
  return net.build();
}

ZooOptions inception_options() {
  ZooOptions options = image_options(1024, "64 for each of 16 devices", 299, 75);
  options.push_back(batch_norm_option());
  options.push_back(dropout_option(0.5));
  options.push_back(
      ZooOption::word("auxiliary", {"no", "yes"}, "no", "the auxiliary classifier and its loss"));
  return options;
}

}  // namespace

std::vector<ZooModel> inception_models() {
  return {{"inception-v3", "Inception-v3, factorised convolutions in parallel branches",
           "Szegedy et al., CVPR 2016; arXiv:1512.00567; widths as in torchvision", inception_options(),
           inception_v3}};
}

}  // namespace pipesim
