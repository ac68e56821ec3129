#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/options.h"

namespace pipesim {

/// The window of a convolution or a pool, rows before columns.
struct Window {
  Sizes kernel;
  std::int64_t stride = 1;
  Sizes pad = {0, 0};

  /// Padded so that stride 1 keeps the image's size; odd kernels only.
  static Window same(std::int64_t kernel, std::int64_t stride = 1) { return same_of(kernel, kernel, stride); }
  static Window same_of(std::int64_t rows, std::int64_t columns, std::int64_t stride = 1) {
    return {{rows, columns}, stride, {rows / 2, columns / 2}};
  }
  static Window unpadded(std::int64_t kernel, std::int64_t stride = 1) {
    return {{kernel, kernel}, stride, {0, 0}};
  }
};

/// An image classifier under construction: options batch, dtype, image, classes and, where it has them,
/// batch_norm and dropout. Images are [batch, channels, rows, columns].
class ImageNetwork {
 public:
  ImageNetwork(const ZooValues& values, std::int64_t channels);

  [[nodiscard]] TensorId image() const { return image_; }
  GraphBuilder& builder() { return builder_; }

  TensorId conv(const std::string& name, TensorId x, std::int64_t out, const Window& window,
                const std::string& activation);
  TensorId batch_norm(const std::string& name, TensorId x, const std::string& activation);
  /// A convolution without bias, "<name>.conv", then batch norm, "<name>.norm".
  TensorId conv_norm(const std::string& name, TensorId x, std::int64_t out, const Window& window,
                     const std::string& activation = "relu");
  /// The convolution alone, for networks that normalise before it.
  TensorId conv_without_bias(const std::string& name, TensorId x, std::int64_t out, const Window& window);
  TensorId pool(const std::string& mode, const std::string& name, TensorId x, const Window& window);
  TensorId global_average(TensorId x);  ///< "average": [n, c, h, w] to [n, c]
  TensorId concat(const std::string& name, const std::vector<TensorId>& parts);
  TensorId dropout(const std::string& name, TensorId x);
  /// Contracts all dimensions but the batch, so that no flatten is needed.
  TensorId linear(const std::string& name, TensorId x, std::int64_t out, const std::string& activation);

  /// A linear to the classes, "<name>", and its cross entropy, "<loss>".
  void classify(TensorId x, const std::string& name = "classifier", const std::string& loss = "loss");
  OperatorGraph build() { return builder_.build(); }

 private:
  GraphBuilder builder_;
  std::int64_t classes_;
  std::string statistics_;
  double dropout_rate_;
  TensorId image_, labels_;
};

/// Options of all networks for ImageNet-like data.
ZooOptions image_options(std::int64_t batch, const std::string& why, std::int64_t image,
                         std::int64_t smallest_image);
ZooOption batch_norm_option();

}  // namespace pipesim
