#include "models/onnx/writer/kinds.h"
#include "models/operators/adaptive_window.h"

namespace pipesim {
namespace {

OnnxDims both_ends(const OnnxDims& begin, const OnnxDims& end) {
  OnnxDims all = begin;
  all.insert(all.end(), end.begin(), end.end());
  return all;
}

/// Pads before the first element of each dim, then those behind the last.
OnnxDims pads_of(const OnnxOperator& o) {
  const OnnxDims pad = o.list("pad"), end = o.list("pad_end");
  return both_ends(pad, end.empty() ? pad : end);
}

Attributes convolution_attributes(const OnnxOperator& o) {
  return {{"kernel_shape", o.list("kernel")},
          {"strides", o.list("stride")},
          {"dilations", o.list("dilation")},
          {"group", o.integer("groups")}};
}

void put_convolution_as(OnnxOperator& o, const std::string& type, const Attributes& attributes) {
  std::vector<std::string> operands{o.input(0), o.weight(0)};
  if (o.flag("bias")) operands.push_back(o.weight(1));
  o.give_activated(o.add(type, operands, attributes));
}

void put_convolution(OnnxOperator& o) {
  Attributes attributes = convolution_attributes(o);
  attributes["pads"] = pads_of(o);
  put_convolution_as(o, "Conv", attributes);
}

void put_transposed_convolution(OnnxOperator& o) {
  Attributes attributes = convolution_attributes(o);
  attributes["pads"] = both_ends(o.list("pad"), o.list("pad"));
  attributes["output_padding"] = o.list("output_pad");
  put_convolution_as(o, "ConvTranspose", attributes);
}

/// A window that would begin behind the last element is none here, but is one in ONNX: padding at the end
/// then says how many there are.
void put_pool(OnnxOperator& o) {
  const OnnxDims kernel = o.list("kernel"), pads = pads_of(o);
  const OnnxDims stride = o.list("stride").empty() ? kernel : o.list("stride");
  bool ceil = false;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t room = o.shape(0)[2 + i] + pads[i] + pads[kernel.size() + i] - kernel[i];
    ceil = ceil || o.result_shape()[2 + i] > room / stride[i] + 1;
  }
  const bool average = o.word("mode") == "avg";
  Attributes attributes{{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}};
  if (ceil) attributes["ceil_mode"] = 1;
  if (average) attributes["count_include_pad"] = o.flag("exclude_pad") ? 0 : 1;
  o.give(o.add(average ? "AveragePool" : "MaxPool", {o.input(0)}, attributes));
}

/// Windows of several lengths, one dim after the other.
std::string pool_windows(OnnxOperator& o, std::string x, bool max) {
  for (std::size_t d = 2; d < o.shape(0).size(); ++d) {
    const AdaptiveWindows windows{o.shape(0)[d], o.result_shape()[d]};
    const auto axis = static_cast<std::int64_t>(d);
    std::vector<std::string> results;
    for (std::int64_t r = 0; r < windows.out; ++r) {
      const Range window = windows.window(r);
      const std::string part = o.add("Slice", {x, o.draft.integers({window.begin}),
                                               o.draft.integers({window.end}), o.draft.integers({axis})});
      results.push_back(
          o.add(max ? "ReduceMax" : "ReduceMean", {part}, {{"axes", OnnxDims{axis}}, {"keepdims", 1}}));
    }
    x = results.size() == 1 ? results[0] : o.add("Concat", results, {{"axis", axis}});
  }
  return x;
}

void put_adaptive_pool(OnnxOperator& o) {
  const bool max = o.word("mode") == "max";
  bool global = true, equal = true;
  OnnxDims kernel;
  for (std::size_t d = 2; d < o.shape(0).size(); ++d) {
    const std::int64_t extent = o.shape(0)[d], out = o.result_shape()[d];
    global = global && out == 1;
    equal = equal && extent % out == 0;
    kernel.push_back(extent / out);
  }
  if (global) return o.give(o.add(max ? "GlobalMaxPool" : "GlobalAveragePool", {o.input(0)}));
  if (!equal) return o.give(pool_windows(o, o.input(0), max));
  o.give(
      o.add(max ? "MaxPool" : "AveragePool", {o.input(0)}, {{"kernel_shape", kernel}, {"strides", kernel}}));
}

void put_resize(OnnxOperator& o) {
  const std::string mode = o.word("mode");
  Attributes attributes{{"mode", mode}};
  attributes["coordinate_transformation_mode"] = std::string(mode == "nearest"         ? "asymmetric"
                                                             : o.flag("align_corners") ? "align_corners"
                                                                                       : "half_pixel");
  if (mode == "nearest") attributes["nearest_mode"] = "floor";
  if (mode == "cubic") attributes["cubic_coeff_a"] = -0.75;
  o.give(o.add("Resize", {o.input(0), "", "", o.draft.integers(o.result_shape())}, attributes));
}

}  // namespace

OnnxKinds onnx_image_kinds() {
  OnnxKinds kinds = {{"adaptive_pool", put_adaptive_pool}, {"resize", put_resize}};
  for (const char* dims : {"1d", "2d", "3d"}) {
    kinds[std::string("conv") + dims] = put_convolution;
    kinds[std::string("conv_transpose") + dims] = put_transposed_convolution;
    kinds[std::string("pool") + dims] = put_pool;
  }
  return kinds;
}

}  // namespace pipesim
