#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/graph_reader.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;

std::string reason(const std::string& message) { return message.empty() ? "" : " (" + message + ")"; }

/// Axes as the attribute that they were before version 18, for rules of older versions.
NodeProto with_axes_attribute(const NodeProto& node, const OnnxConstant& axes) {
  NodeProto older = node;
  while (older.input_size() > 1) older.mutable_input()->RemoveLast();
  auto* attribute = older.add_attribute();
  attribute->set_name("axes");
  attribute->set_type(onnx::AttributeProto::INTS);
  for (std::size_t i = 0; i < axes.size(); ++i) attribute->add_ints(axes.integer(i));
  return older;
}

}  // namespace

std::optional<std::vector<OnnxType>> OnnxReader::inferred(const NodeProto& node,
                                                          const std::vector<OnnxValue>& inputs) const {
  std::vector<InferredInput> seen;
  for (const OnnxValue& input : inputs)
    seen.push_back({input.form != OnnxForm::None, {input.type, input.shape}, input.constant.get()});
  constexpr std::int64_t axes_as_input = 18;
  const bool reduction = node.op_type().starts_with("Reduce") && node.op_type() != "ReduceSum";
  if (is_standard(node) && reduction && opset(node) >= axes_as_input && inputs.size() > 1 &&
      inputs[1].constant) {
    seen.resize(1);
    return infer_types(with_axes_attribute(node, *inputs[1].constant), opset(node), seen);
  }
  return infer_types(node, opset(node), seen);
}

std::vector<OnnxType> OnnxReader::result_types(const NodeProto& node,
                                               const std::vector<OnnxValue>& inputs) const {
  const auto count = static_cast<std::size_t>(node.output_size());
  const bool newer = is_standard(node) && opset(node) > newest_known_opset();
  std::optional<std::vector<OnnxType>> types;
  std::string why;
  try {
    types = inferred(node, inputs);
  } catch (const InputError& error) {
    if (!newer) throw;
    why = error.what();
  }
  if (!types) types.emplace(count);
  types->resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = node.output(static_cast<int>(i));
    OnnxType& type = (*types)[i];
    // What a file says counts where the library does not know it, or knows an older form of the operator.
    const auto told = prefix_.empty() ? told_.find(name) : told_.end();
    if (told != told_.end() && told->second.complete() && (newer || !type.complete())) {
      const int element = type.element;
      type = told->second;
      if (type.element == TensorProto::UNDEFINED) type.element = element;
    }
    if (name.empty() || type.complete()) continue;
    if (!type.shape && type.element == TensorProto::UNDEFINED && types->size() == 1 && newer)
      throw InputError(fmt::format(
          "operator set {} is newer than {}, which is known, and the file has no shape of its result \"{}\"",
          opset(node), newest_known_opset(), name));
    if (!type.shape)
      throw InputError(
          fmt::format("the shape of its result \"{}\" is not known{}; write it into the file's value_info",
                      name, reason(why)));
    const auto dim = std::ranges::find(*type.shape, -1) - type.shape->begin();
    throw InputError(fmt::format(
        "dimension {} of its result \"{}\" is not known: it depends on values, and the file does not say it",
        dim, name));
  }
  return std::move(*types);
}

void OnnxReader::check_shapes(const NodeProto& node, const std::vector<OnnxValue>& inputs,
                              const std::vector<OnnxValue>& results) const {
  if (opset(node) > newest_known_opset() || depth_ > 0) return;
  std::optional<std::vector<OnnxType>> types;
  try {
    types = inferred(node, inputs);
  } catch (const InputError&) {
    return;  // an attribute that ONNX does not know, which the rule did not need
  }
  if (!types) return;
  for (std::size_t i = 0; i < results.size() && i < types->size(); ++i) {
    if (results[i].loss || results[i].form == OnnxForm::None || !(*types)[i].complete()) continue;
    if (results[i].shape != *(*types)[i].shape) {
      throw InputError(fmt::format("its result \"{}\" has shape {} by ONNX and {} by pipesim",
                                   node.output(static_cast<int>(i)), to_text(*(*types)[i].shape),
                                   to_text(results[i].shape)));
    }
  }
}

}  // namespace pipesim
