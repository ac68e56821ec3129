#include "models/onnx/writer/kinds.h"

namespace pipesim {
namespace {

std::string sliced(OnnxOperator& o, std::int64_t begin, std::int64_t end, std::int64_t step) {
  return o.add("Slice", {o.input(0), o.draft.integers({begin}), o.draft.integers({end}),
                         o.draft.integers({o.integer("axis")}), o.draft.integers({step})});
}

void put_reshape(OnnxOperator& o) { o.give(o.reshape(o.input(0), o.result_shape())); }
void put_transpose(OnnxOperator& o) { o.give(o.transpose(o.input(0), o.list("order"))); }

void put_concat(OnnxOperator& o) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < o.inputs(); ++i) parts.push_back(o.input(i));
  o.give(o.add("Concat", parts, {{"axis", o.integer("axis")}}));
}

void put_split(OnnxOperator& o) {
  const auto parts = o.add_several("Split", {o.input(0), o.draft.integers(o.list("sizes"))}, o.results(),
                                   {{"axis", o.integer("axis")}});
  for (std::size_t i = 0; i < parts.size(); ++i) o.give(parts[i], i);
}

void put_expand(OnnxOperator& o) {
  o.give(o.add("Expand", {o.input(0), o.draft.integers(o.result_shape())}));
}

void put_broadcast(OnnxOperator& o) {
  const std::string x = o.unsqueeze(o.input(0), {o.integer("axis")});
  o.give(o.add("Expand", {x, o.draft.integers(o.result_shape())}));
}

void put_slice(OnnxOperator& o) {
  const std::int64_t start = o.integer("start"), step = o.integer("step");
  o.give(sliced(o, start, start + (o.integer("length") - 1) * step + 1, step));
}

void put_pad(OnnxOperator& o) {
  OnnxDims pads = o.list("before");
  const OnnxDims after = o.list("after");
  pads.insert(pads.end(), after.begin(), after.end());
  const std::string mode = o.word("mode");
  o.give(o.add("Pad", {o.input(0), o.draft.integers(pads)}, {{"mode", mode == "zeros" ? "constant" : mode}}));
}

void put_roll(OnnxOperator& o) {
  const std::int64_t extent = o.shape(0)[static_cast<std::size_t>(o.integer("axis"))];
  const std::int64_t shift = o.integer("shift") % extent;
  if (shift == 0) return o.give(o.input(0));
  const std::string front = sliced(o, extent - shift, extent, 1), back = sliced(o, 0, extent - shift, 1);
  o.give(o.add("Concat", {front, back}, {{"axis", o.integer("axis")}}));
}

void put_gather(OnnxOperator& o) {
  const bool narrow = o.input_type(1) == DataType::UInt8;
  const std::string indices = narrow ? o.cast(o.input(1), DataType::Int64) : o.input(1);
  o.give(o.add("Gather", {o.input(0), indices}, {{"axis", o.integer("axis")}}));
}

}  // namespace

OnnxKinds onnx_shape_kinds() {
  return {{"broadcast", put_broadcast}, {"concat", put_concat},      {"expand", put_expand},
          {"flatten", put_reshape},     {"gather", put_gather},      {"pad", put_pad},
          {"reshape", put_reshape},     {"roll", put_roll},          {"slice", put_slice},
          {"split", put_split},         {"transpose", put_transpose}};
}

}  // namespace pipesim
