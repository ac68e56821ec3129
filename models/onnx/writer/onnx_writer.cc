#include "models/onnx/onnx_writer.h"

#include "models/onnx/writer/kinds.h"

namespace pipesim {
namespace {

const OnnxKinds& all_onnx_kinds() {
  static const OnnxKinds kinds = [] {
    OnnxKinds all;
    for (const auto& family : {onnx_pointwise_kinds(), onnx_product_kinds(), onnx_attention_kinds(),
                               onnx_image_kinds(), onnx_norm_kinds(), onnx_shape_kinds()})
      all.insert(family.begin(), family.end());
    return all;
  }();
  return kinds;
}

}  // namespace

std::string to_onnx(const OperatorGraph& graph) {
  OnnxDraft draft(graph);
  for (const Operator& op : graph.operators()) {
    OnnxOperator written(graph, op, draft);
    const auto found = all_onnx_kinds().find(op.kind);
    if (found == all_onnx_kinds().end()) {
      written.give_as_own_kind();
    } else {
      found->second(written);
    }
  }
  return draft.finish(graph);
}

}  // namespace pipesim
