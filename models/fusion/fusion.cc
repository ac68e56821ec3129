#include "models/fusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/fusion/passes.h"

namespace pipesim {
namespace {

// Gated products have an attribute of that name, too, for one of their operands.
bool takes_activation(const EditableOperator& op) {
  const AttributeSchema* schema = operator_kind(op.request.kind).find_attribute("activation");
  if (schema == nullptr || schema->fallback != AttributeValue("none")) return false;
  const auto given = op.request.attributes.find("activation");
  return given == op.request.attributes.end() || std::get<std::string>(given->second) == "none";
}

void join_activations(EditableModel& model) {
  const std::vector<std::string> words = activation_attribute().words;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const EditableOperator* activation = model.at(i);
    if (activation == nullptr || activation->request.kind == "none" ||
        std::ranges::find(words, activation->request.kind) == words.end())
      continue;
    const auto place = model.producer(activation->inputs[0]);
    const EditableOperator* product = place ? model.at(*place) : nullptr;
    if (product == nullptr || !takes_activation(*product) || !model.only_reader(activation->inputs[0]))
      continue;
    EditableOperator joined = *product;
    joined.request.attributes["activation"] = activation->request.kind;
    joined.request.outputs = activation->request.outputs;
    model.remove(i);
    model.change(*place, std::move(joined));
  }
}

}  // namespace

OperatorGraph fuse(const OperatorGraph& graph, const std::set<std::string>& causal_masks) {
  EditableModel model(graph);
  join_losses(model);
  join_written_functions(model);
  join_attention(model, causal_masks);
  join_norms(model);
  join_biases(model);
  join_embedding_bags(model);
  join_activations(model);
  return model.changed() ? model.build() : graph;
}

}  // namespace pipesim
