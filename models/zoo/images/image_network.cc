#include "models/zoo/images/image_network.h"

namespace pipesim {

ImageNetwork::ImageNetwork(const ZooValues& values, std::int64_t channels)
    : builder_(values.name(), values.integer("batch"), values.data_type()),
      classes_(values.integer("classes")),
      statistics_(values.has("batch_norm") ? values.word("batch_norm") : "synchronised"),
      dropout_rate_(values.has("dropout") ? values.real("dropout") : 0) {
  const std::int64_t size = values.integer("image");
  image_ = builder_.data("images", {values.integer("batch"), channels, size, size});
  labels_ = builder_.data("labels", {values.integer("batch")}, DataType::Int64);
}

TensorId ImageNetwork::conv(const std::string& name, TensorId x, std::int64_t out, const Window& window,
                            const std::string& activation) {
  return builder_.add("conv2d", name, {x},
                      {{"out", out},
                       {"kernel", window.kernel},
                       {"stride", Sizes{window.stride, window.stride}},
                       {"pad", window.pad},
                       {"activation", activation}});
}

TensorId ImageNetwork::conv_without_bias(const std::string& name, TensorId x, std::int64_t out,
                                         const Window& window) {
  return builder_.add("conv2d", name, {x},
                      {{"out", out},
                       {"kernel", window.kernel},
                       {"stride", Sizes{window.stride, window.stride}},
                       {"pad", window.pad},
                       {"bias", 0}});
}

TensorId ImageNetwork::batch_norm(const std::string& name, TensorId x, const std::string& activation) {
  return builder_.add("batch_norm", name, {x}, {{"statistics", statistics_}, {"activation", activation}});
}

TensorId ImageNetwork::conv_norm(const std::string& name, TensorId x, std::int64_t out, const Window& window,
                                 const std::string& activation) {
  return batch_norm(name + ".norm", conv_without_bias(name + ".conv", x, out, window), activation);
}

TensorId ImageNetwork::pool(const std::string& mode, const std::string& name, TensorId x,
                            const Window& window) {
  return builder_.add("pool2d", name, {x},
                      {{"mode", mode},
                       {"kernel", window.kernel},
                       {"stride", Sizes{window.stride, window.stride}},
                       {"pad", window.pad}});
}

TensorId ImageNetwork::global_average(TensorId x) {
  return builder_.add("reduce", "average", {x}, {{"axes", Sizes{2, 3}}, {"mode", "mean"}});
}

TensorId ImageNetwork::concat(const std::string& name, const std::vector<TensorId>& parts) {
  return builder_.add("concat", name, parts, {{"axis", 1}});
}

TensorId ImageNetwork::dropout(const std::string& name, TensorId x) {
  if (dropout_rate_ == 0) return x;
  return builder_.add("dropout", name, {x}, {{"rate", dropout_rate_}});
}

TensorId ImageNetwork::linear(const std::string& name, TensorId x, std::int64_t out,
                              const std::string& activation) {
  const auto contracted = static_cast<std::int64_t>(builder_.shape(x).size()) - 1;
  return builder_.add("linear", name, {x},
                      {{"out", Sizes{out}}, {"contract", contracted}, {"activation", activation}});
}

void ImageNetwork::classify(TensorId x, const std::string& name, const std::string& loss) {
  builder_.add("cross_entropy", loss, {linear(name, x, classes_, "none"), labels_});
}

ZooOptions image_options(std::int64_t batch, const std::string& why, std::int64_t image,
                         std::int64_t smallest_image) {
  return {batch_option(batch, why), dtype_option(),
          ZooOption::integer("image", image, smallest_image, 2048, "rows and columns of an image"),
          ZooOption::integer("classes", 1000, 2, 1000000, "labels")};
}

ZooOption batch_norm_option() {
  return ZooOption::word("batch_norm", {"synchronised", "local"}, "synchronised",
                         "statistics over the batch, as unsplit, or over each shard (another model)");
}

}  // namespace pipesim
