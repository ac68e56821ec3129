#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/named_sizes.h"
#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

using Integers = std::vector<std::int64_t>;

struct SlidingWindow {
  Integers kernel, stride, dilation, before, after;
};

/// Kernel, strides and padding of a convolution or a pool over the dims from 2 on.
std::optional<SlidingWindow> window_of(const OnnxNode& node, Integers kernel) {
  const std::size_t rank = kernel.size();
  if (rank < 1 || rank > 3 || node.rank(0) != rank + 2) return std::nullopt;
  SlidingWindow w{std::move(kernel), node.integers("strides"), node.integers("dilations"), {}, {}};
  if (w.stride.empty()) w.stride.assign(rank, 1);
  if (w.dilation.empty()) w.dilation.assign(rank, 1);
  if (w.stride.size() != rank || w.dilation.size() != rank) return std::nullopt;
  for (const Integers* list : {&w.kernel, &w.stride, &w.dilation}) {
    if (std::ranges::any_of(*list, [](std::int64_t n) { return n < 1 || n > kLargestSize; }))
      return std::nullopt;
  }
  const std::string automatic = node.text("auto_pad", "NOTSET");
  w.before.assign(rank, 0);
  w.after.assign(rank, 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t in = node.in(0).shape[i + 2], out = (in + w.stride[i] - 1) / w.stride[i];
      const std::int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
      const std::int64_t all = std::max<std::int64_t>(0, (out - 1) * w.stride[i] + reach - in);
      w.before[i] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.after[i] = all - w.before[i];
    }
  } else if (const Integers pads = node.integers("pads"); automatic == "NOTSET" && !pads.empty()) {
    if (pads.size() != 2 * rank) return std::nullopt;
    w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
    w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  }
  for (const Integers* list : {&w.before, &w.after}) {
    if (std::ranges::any_of(*list, [](std::int64_t p) { return p < 0 || p > kLargestSize; }))
      return std::nullopt;
  }
  return w;
}

std::string of_rank(const char* kind, std::size_t rank) { return kind + std::to_string(rank) + "d"; }

void add_padding(Attributes& attributes, const SlidingWindow& w) {
  attributes["pad"] = w.before;
  if (w.after != w.before) attributes["pad_end"] = w.after;
}

/// A bias that is no weight of its own, such as one that is computed, is added behind.
void give_convolution(OnnxNode& node, const char* kind, const SlidingWindow& w, Attributes attributes) {
  const std::int64_t out = std::get<std::int64_t>(attributes.at("out"));
  const bool own_bias = node.is_weight(2) && node.in(2).shape == OnnxShape{out};
  attributes["bias"] = own_bias ? 1 : 0;
  std::vector<std::string> weights{node.in(1).name};
  if (own_bias) weights.push_back(node.in(2).name);
  node.name_by_weight(1);
  const OnnxValue result = node.write(of_rank(kind, w.kernel.size()), {node.in(0)}, attributes, "", weights);
  if (!node.has(2) || own_bias) return node.give(result);
  OnnxShape channels(w.kernel.size() + 1, 1);
  channels[0] = out;
  node.give(node.binary("add", result, node.reshaped(node.in(2), channels, "channels"), "bias"));
}

bool write_conv(OnnxNode& node) {
  const OnnxShape weight = node.in(1).shape;
  if (!node.is_weight(1) || weight.size() < 3 || node.in(1).transposed) return false;
  const auto w = window_of(node, Integers(weight.begin() + 2, weight.end()));
  if (!w) return false;
  Attributes attributes{{"out", weight[0]},
                        {"kernel", w->kernel},
                        {"stride", w->stride},
                        {"dilation", w->dilation},
                        {"groups", node.integer("group", 1)}};
  add_padding(attributes, *w);
  give_convolution(node, "conv", *w, attributes);
  return true;
}

bool write_conv_transpose(OnnxNode& node) {
  const OnnxShape weight = node.in(1).shape;
  if (!node.is_weight(1) || weight.size() < 3 || node.in(1).transposed || node.given("output_shape"))
    return false;
  if (node.text("auto_pad", "NOTSET").starts_with("SAME")) return false;
  const auto w = window_of(node, Integers(weight.begin() + 2, weight.end()));
  if (!w) return false;
  Integers more = node.integers("output_padding");
  if (more.empty()) more.assign(w->kernel.size(), 0);
  if (more.size() != w->kernel.size()) return false;
  // Fewer zeros after than before it leave more of the result.
  for (std::size_t i = 0; i < more.size(); ++i) {
    more[i] += w->before[i] - w->after[i];
    if (more[i] < 0) return false;
  }
  const std::int64_t groups = node.integer("group", 1);
  const Attributes attributes{{"out", weight[1] * groups}, {"kernel", w->kernel}, {"stride", w->stride},
                              {"dilation", w->dilation},   {"groups", groups},    {"pad", w->before},
                              {"output_pad", more}};
  give_convolution(node, "conv_transpose", *w, attributes);
  return true;
}

bool write_pool(OnnxNode& node) {
  const auto w = window_of(node, node.integers("kernel_shape"));
  if (!w || std::ranges::any_of(w->dilation, [](std::int64_t d) { return d != 1; })) return false;
  if (node.wanted(1)) return false;
  const bool average = node.op() == "AveragePool";
  Attributes attributes{{"mode", average ? "avg" : "max"}, {"kernel", w->kernel}, {"stride", w->stride}};
  add_padding(attributes, *w);
  if (node.integer("ceil_mode", 0) != 0) attributes["ceil"] = 1;
  if (average && node.integer("count_include_pad", 0) == 0) attributes["exclude_pad"] = 1;
  node.give(node.write(of_rank("pool", w->kernel.size()), {node.in(0)}, attributes));
  return true;
}

bool write_global_pool(OnnxNode& node) {
  const std::size_t rank = node.rank();
  if (rank < 3) return false;
  Integers axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 2);
  node.give(node.reduced(node.in(0), axes, node.op() == "GlobalAveragePool" ? "mean" : "max", true));
  return true;
}

bool write_resize(OnnxNode& node) {
  const OnnxShape& own = node.in(0).shape;
  if (own.size() < 3 || own.size() > 5) return false;
  const bool sized = node.op() == "Resize";
  Integers out(own.begin() + 2, own.end());
  // Resize-10 and Upsample have their factors second, later ones have a region there.
  const std::size_t factors = sized && node.opset() >= 11 ? 2 : 1;
  std::vector<double> scales;
  if (const auto sizes = sized && node.opset() >= 11 ? node.values(3) : std::nullopt;
      sizes && !sizes->empty()) {
    if (node.given("axes") || sizes->size() != own.size() || (*sizes)[0] != own[0] || (*sizes)[1] != own[1])
      return false;
    out.assign(sizes->begin() + 2, sizes->end());
  } else if (node.has(factors)) {
    const OnnxValue& given = node.in(factors);
    if (!given.constant) return false;
    for (std::size_t i = 0; i < given.constant->size(); ++i) scales.push_back(given.constant->real(i));
  } else if (const auto* list = node.given("scales") ? &node.proto() : nullptr) {
    for (const auto& attribute : list->attribute()) {
      if (attribute.name() == "scales") scales.assign(attribute.floats().begin(), attribute.floats().end());
    }
  }
  if (!scales.empty()) {
    if (node.given("axes") || scales.size() != own.size() || scales[0] != 1 || scales[1] != 1) return false;
    if (std::ranges::any_of(scales, [](double s) { return !(s > 0 && s < 65536); })) return false;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int64_t>(std::floor(static_cast<double>(out[i]) * scales[i + 2]));
  }
  const std::string mode = node.text("mode", "nearest"),
                    places = node.text("coordinate_transformation_mode", "half_pixel");
  if (places == "tf_crop_and_resize") return false;
  node.give(node.write("resize", {node.in(0)},
                       {{"out", out},
                        {"mode", mode == "cubic" || mode == "linear" ? mode : "nearest"},
                        {"align_corners", places == "align_corners" ? 1 : 0}}));
  return true;
}

}  // namespace

OnnxRules image_rules() {
  return {{"Conv", write_conv},
          {"ConvTranspose", write_conv_transpose},
          {"MaxPool", write_pool},
          {"AveragePool", write_pool},
          {"GlobalAveragePool", write_global_pool},
          {"GlobalMaxPool", write_global_pool},
          {"Resize", write_resize},
          {"Upsample", write_resize}};
}

}  // namespace pipesim
