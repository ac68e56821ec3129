#include "models/fusion/editable_model.h"

#include <algorithm>
#include <utility>

namespace pipesim {
namespace {

EditableOperator editable(const OperatorGraph& graph, const Operator& op) {
  EditableOperator result;
  OperatorRequest& request = result.request;
  request.kind = op.kind;
  request.name = op.name;
  request.attributes = op.attributes;
  request.repeat = op.repeat;
  for (const TensorUse& use : op.uses) {
    const Tensor& tensor = graph.tensor(use.tensor);
    if (use.role == Role::Input || use.role == Role::Index) result.inputs.push_back(tensor.name);
    if (use.role == Role::Weight) request.weights.push_back(tensor.name);
    if (use.role == Role::Output) request.outputs.push_back(tensor.name);
    request.frozen = request.frozen || tensor.frozen;
  }
  return result;
}

}  // namespace

EditableModel::EditableModel(const OperatorGraph& graph) : graph_(graph) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    tensors_.emplace(graph.tensors()[t].name, t);
    names_.insert(graph.tensors()[t].name);
  }
  places_.resize(graph.operators().size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    set(i, {editable(graph, graph.operators()[i])});
    names_.insert(graph.operators()[i].name);
  }
}

void EditableModel::set(std::size_t place, std::vector<EditableOperator> operators) {
  for (const EditableOperator& op : places_[place].operators) {
    for (const std::string& input : op.inputs) {
      std::vector<std::size_t>& readers = readers_[input];
      readers.erase(std::ranges::find(readers, place));
    }
  }
  places_[place].operators = std::move(operators);
  for (const EditableOperator& op : places_[place].operators) {
    for (const std::string& input : op.inputs) readers_[input].push_back(place);
    for (const std::string& output : op.request.outputs) producers_[output] = place;
  }
}

std::string EditableModel::new_name(const std::string& name) {
  std::string result = name;
  for (int i = 2; !names_.insert(result).second; ++i) result = name + "_" + std::to_string(i);
  return result;
}

const EditableOperator* EditableModel::at(std::size_t place) const {
  return places_[place].original ? &places_[place].operators[0] : nullptr;
}

std::optional<std::size_t> EditableModel::producer(const std::string& tensor) const {
  const auto found = producers_.find(tensor);
  if (found == producers_.end() || !places_[found->second].original) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> EditableModel::only_reader(const std::string& tensor) const {
  const auto found = readers_.find(tensor);
  if (found == readers_.end() || found->second.size() != 1 || !places_[found->second[0]].original)
    return std::nullopt;
  return found->second[0];
}

const std::vector<std::size_t>& EditableModel::readers(const std::string& tensor) const {
  static const std::vector<std::size_t> none;
  const auto found = readers_.find(tensor);
  return found == readers_.end() ? none : found->second;
}

bool EditableModel::shared(const std::string& weight) const {
  return graph_.consumers(tensors_.at(weight)).size() > 1;
}

const std::vector<std::int64_t>& EditableModel::shape(const std::string& tensor) const {
  return graph_.tensor(tensors_.at(tensor)).shape;
}

void EditableModel::replace(std::size_t place, std::vector<EditableOperator> others) {
  set(place, std::move(others));
  places_[place].original = false;
  changed_ = true;
}

void EditableModel::change(std::size_t place, EditableOperator changed) {
  set(place, {std::move(changed)});
  changed_ = true;
}

bool EditableModel::is_read(const std::string& tensor) const {
  const auto found = readers_.find(tensor);
  return found != readers_.end() && !found->second.empty();
}

void EditableModel::remove_unread() {
  for (std::size_t i = places_.size(); i-- > 0;) {
    if (!places_[i].original) continue;
    const std::vector<std::string>& outputs = places_[i].operators[0].request.outputs;
    const bool result = std::ranges::any_of(outputs, [&](const std::string& name) {
      const auto tensor = tensors_.find(name);
      return tensor == tensors_.end() || graph_.consumers(tensor->second).empty() || is_read(name);
    });
    if (!result) remove(i);
  }
}

OperatorGraph EditableModel::build() {
  remove_unread();
  GraphBuilder builder(graph_.name(), graph_.batch(), graph_.type_of_results());
  for (const Tensor& t : graph_.tensors()) {
    if (t.kind == TensorKind::Data && is_read(t.name)) builder.data(t.name, t.shape, t.type);
  }
  for (Place& place : places_) {
    for (EditableOperator& op : place.operators) {
      for (const std::string& input : op.inputs) op.request.inputs.push_back(builder.find(input));
      builder.add_operator(op.request);
    }
  }
  return builder.build();
}

}  // namespace pipesim
