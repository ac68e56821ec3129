#include "models/fusion/learned_tensor.h"

#include <algorithm>

namespace pipesim {
namespace {

/// Without dims of length 1.
Shape squeezed(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

}  // namespace

std::optional<LearnedTensor> learned_tensor(const EditableModel& model, const std::string& tensor,
                                            const Shape& full, std::size_t first, std::size_t count) {
  const auto begin = full.begin() + static_cast<std::ptrdiff_t>(first);
  const Shape own(begin, begin + static_cast<std::ptrdiff_t>(count));
  LearnedTensor result;
  result.tensor = tensor;
  std::string source = tensor;
  const auto producer = [&]() -> const EditableOperator* {
    const auto place = model.producer(source);
    if (!place || (source != tensor && !model.only_reader(source))) return nullptr;
    return model.at(*place);
  };
  const auto pass = [&](const EditableOperator& op) {
    result.places.push_back(*model.producer(source));
    source = op.inputs[0];
  };
  const EditableOperator* op = producer();
  if (!is_kind(op, "parameter") && !is_kind(op, "reshape") && !is_kind(op, "expand")) return std::nullopt;
  if (is_kind(op, "expand") && model.shape(source) == full) {
    pass(*op);
    op = producer();
  }
  Shape stretched = model.shape(source);
  if (stretched.size() > full.size()) return std::nullopt;
  stretched.insert(stretched.begin(), full.size() - stretched.size(), 1);
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (stretched[d] != (d >= first && d < first + count ? full[d] : 1)) return std::nullopt;
  }
  for (; is_kind(op, "reshape"); op = producer()) pass(*op);
  if (!is_kind(op, "parameter") || squeezed(model.shape(source)) != squeezed(own)) return std::nullopt;
  result.places.push_back(*model.producer(source));
  result.weight = op->request.weights[0];
  result.frozen = op->request.frozen;
  if (model.shape(source) != own && model.shared(result.weight)) return std::nullopt;
  return result;
}

void take_weights(EditableModel& model, EditableOperator& op, const std::vector<LearnedTensor>& learned) {
  for (const LearnedTensor& one : learned) {
    for (const std::size_t place : one.places) model.remove(place);
    op.request.weights.push_back(one.weight);
    op.request.frozen = one.frozen;
  }
}

}  // namespace pipesim
