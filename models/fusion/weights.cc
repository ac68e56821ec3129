#include <optional>
#include <utility>

#include "models/fusion/learned_tensor.h"
#include "models/fusion/passes.h"

namespace pipesim {
namespace {

/// Whether the product's kernel computes nothing but the product.
bool is_plain_product(const EditableOperator& op) {
  const std::string& kind = op.request.kind;
  if (kind != "linear" && !kind.starts_with("conv")) return false;
  const Attributes& attributes = op.request.attributes;
  return std::get<std::int64_t>(attributes.at("bias")) == 0 &&
         std::get<std::string>(attributes.at("activation")) == "none";
}

/// The parameter, if it has an element for each of the product's outputs.
std::optional<LearnedTensor> bias_of(const EditableModel& model, const EditableOperator& product,
                                     const std::string& added) {
  const Shape& shape = model.shape(product.request.outputs[0]);
  if (product.request.kind != "linear") return learned_tensor(model, added, shape, 1, 1);
  const std::size_t out = std::get<Shape>(product.request.attributes.at("out")).size();
  return learned_tensor(model, added, shape, shape.size() - out, out);
}

}  // namespace

void join_biases(EditableModel& model) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    const EditableOperator* product = model.at(i);
    if (product == nullptr || !is_plain_product(*product)) continue;
    const std::string& result = product->request.outputs[0];
    const auto reader = model.only_reader(result);
    const EditableOperator* sum = reader ? model.at(*reader) : nullptr;
    if (!is_kind(sum, "add") || model.shape(sum->request.outputs[0]) != model.shape(result)) continue;
    const std::string& added = sum->inputs[sum->inputs[0] == result ? 1 : 0];
    const auto bias = bias_of(model, *product, added);
    if (!bias || !model.only_reader(added) || bias->frozen != product->request.frozen) continue;
    EditableOperator joined = *product;
    joined.request.attributes["bias"] = std::int64_t{1};
    joined.request.outputs = sum->request.outputs;
    take_weights(model, joined, {*bias});
    model.remove(*reader);
    model.change(i, std::move(joined));
  }
}

void join_embedding_bags(EditableModel& model) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    const EditableOperator* sum = model.at(i);
    if (!is_kind(sum, "reduce") || std::get<Shape>(sum->request.attributes.at("axes")) != Shape{1}) continue;
    const std::string& mode = std::get<std::string>(sum->request.attributes.at("mode"));
    const auto place = model.producer(sum->inputs[0]);
    const EditableOperator* rows = place ? model.at(*place) : nullptr;
    if (!is_kind(rows, "embedding") || mode == "max" || !model.only_reader(sum->inputs[0]) ||
        model.shape(sum->inputs[0]).size() != 3)
      continue;
    EditableOperator joined = *rows;
    joined.request.kind = "embedding_bag";
    joined.request.attributes["mode"] = mode;
    joined.request.name = sum->request.name;
    joined.request.repeat = sum->request.repeat;
    joined.request.outputs = sum->request.outputs;
    model.remove(*place);
    model.change(i, std::move(joined));
  }
}

}  // namespace pipesim
