#include <optional>
#include <utility>

#include "models/fusion/learned_tensor.h"
#include "models/fusion/passes.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostDims = 5;  // that group_norm takes

/// A norm, and what stands around it.
struct WrittenNorm {
  EditableOperator op;              ///< as it is to be
  std::size_t last = 0;             ///< the place that it gets
  std::vector<std::size_t> places;  ///< that it replaces, but the last
  std::vector<LearnedTensor> learned;
};

bool is_plain_norm(const EditableOperator* op) {
  if (!is_kind(op, "group_norm") && !is_kind(op, "layer_norm")) return false;
  const auto affine = op->request.attributes.find("affine");
  return affine != op->request.attributes.end() && std::get<std::int64_t>(affine->second) == 0;
}

/// A norm of the view [n, g, …] that is brought back to the shape which the view was made of.
bool take_view(const EditableModel& model, WrittenNorm& norm) {
  const std::string &viewed = norm.op.inputs[0], &result = norm.op.request.outputs[0];
  const auto before = model.producer(viewed), behind = model.only_reader(result);
  if (!before || !behind || !model.only_reader(viewed) || !is_kind(model.at(*before), "reshape") ||
      !is_kind(model.at(*behind), "reshape"))
    return false;
  const std::string &x = model.at(*before)->inputs[0], &y = model.at(*behind)->request.outputs[0];
  const Shape &view = model.shape(viewed), &shape = model.shape(x);
  if (shape != model.shape(y) || shape.size() < 2 || shape.size() > kMostDims || view.size() < 3 ||
      view[0] != shape[0] || shape[1] % view[1] != 0)
    return false;
  // A layer_norm with one row for each index of dim 1 stays: it says more than group_norm.
  const bool by_group = norm.op.request.kind == "layer_norm"
                            ? view.size() == 3 && view[1] < shape[1]
                            : std::get<std::int64_t>(norm.op.request.attributes.at("groups")) == view[1];
  if (!by_group) return false;
  const EditableOperator& last = *model.at(*behind);
  norm.op.request.kind = "group_norm";
  norm.op.request.attributes = {{"groups", view[1]}, {"affine", std::int64_t{0}}};
  norm.op.request.name = last.request.name;
  norm.op.request.repeat = last.request.repeat;
  norm.op.request.outputs = last.request.outputs;
  norm.op.inputs = {x};
  norm.places.insert(norm.places.end(), {*before, norm.last});
  norm.last = *behind;
  return true;
}

/// γ of each channel, or of each element of a row, and β behind it.
bool take_factors(const EditableModel& model, WrittenNorm& norm) {
  const Shape& shape = model.shape(norm.op.request.outputs[0]);
  const std::size_t dim = norm.op.request.kind == "group_norm" ? 1 : shape.size() - 1;
  std::string result = norm.op.request.outputs[0];
  std::vector<std::size_t> places;
  for (const char* kind : {"mul", "add"}) {
    const auto place = model.only_reader(result);
    const EditableOperator* op = place ? model.at(*place) : nullptr;
    if (!is_kind(op, kind) || model.shape(op->request.outputs[0]) != shape) return false;
    const std::string& other = op->inputs[op->inputs[0] == result ? 1 : 0];
    auto learned = learned_tensor(model, other, shape, dim, 1);
    if (!learned || !model.only_reader(other)) return false;
    norm.learned.push_back(std::move(*learned));
    places.push_back(*place);
    result = op->request.outputs[0];
  }
  if (norm.learned[0].frozen != norm.learned[1].frozen) return false;
  const EditableOperator& last = *model.at(places[1]);
  norm.places.insert(norm.places.end(), {norm.last, places[0]});
  norm.last = places[1];
  norm.op.request.attributes["affine"] = std::int64_t{1};
  norm.op.request.name = last.request.name;
  norm.op.request.repeat = last.request.repeat;
  norm.op.request.outputs = last.request.outputs;
  return true;
}

}  // namespace

void join_norms(EditableModel& model) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (!is_plain_norm(model.at(i))) continue;
    WrittenNorm norm{*model.at(i), i, {}, {}};
    const bool viewed = take_view(model, norm), learned = take_factors(model, norm);
    if (!viewed && !learned) continue;
    for (const std::size_t place : norm.places) model.remove(place);
    if (learned) take_weights(model, norm.op, norm.learned);
    model.change(norm.last, std::move(norm.op));
  }
}

}  // namespace pipesim
