#include "models/fusion/row_function.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/fusion/elementary_functions.h"

namespace pipesim {
namespace {

/// Whether a bound is far outside of the values that functions are recognised by, yet below what stands for
/// no bound.
bool has_far_bound(const EditableOperator& op) {
  constexpr double least = 20, none = 1e37;
  const auto far = [&](const char* name) {
    const double bound = std::abs(std::get<double>(op.request.attributes.at(name)));
    return bound > least && bound < none;
  };
  return far("low") || far("high");
}

const Shape& integers_of(const EditableOperator& op, const char* attribute) {
  return std::get<Shape>(op.request.attributes.at(attribute));
}

}  // namespace

RowFunction::RowFunction(const EditableModel& model, std::size_t end)
    : model_(model), end_(end), full_(model.shape(model.at(end)->request.outputs[0])), places_{end} {
  open(*model.at(end));
}

void RowFunction::open(const EditableOperator& op) {
  for (const std::string& input : op.inputs) {
    if (std::ranges::find(open_, input) != open_.end() ||
        std::ranges::find(learned_, input, &LearnedTensor::tensor) != learned_.end())
      continue;
    auto learned = full_.empty() ? std::nullopt : learned_tensor(model_, input, full_, full_.size() - 1, 1);
    if (learned) {
      learned_.push_back(std::move(*learned));
    } else {
      open_.push_back(input);
    }
  }
}

bool RowFunction::takes(const EditableOperator& op) {
  const std::string& kind = op.request.kind;
  if (kind == "clip") return !has_far_bound(op);
  return is_elementary(kind) || kind == "reduce" || kind == "reshape" || kind == "expand";
}

bool RowFunction::reads_alone(const std::string& tensor) const {
  return std::ranges::all_of(model_.readers(tensor), [&](std::size_t reader) {
    return std::ranges::find(places_, reader) != places_.end();
  });
}

// Any other tensor that is read was made before, so it cannot lead to the one that was made last: that one is
// taken in, or is the root.
bool RowFunction::grow() {
  std::optional<std::size_t> last;
  for (const std::string& tensor : open_) {
    if (const auto place = model_.producer(tensor); place && (!last || *place > *last)) last = place;
  }
  if (!last) return false;
  const EditableOperator& op = *model_.at(*last);
  if (!takes(op) || !reads_alone(op.request.outputs[0])) return false;
  places_.push_back(*last);
  reduces_ = reduces_ || op.request.kind == "reduce";
  std::erase(open_, op.request.outputs[0]);
  open(op);
  return true;
}

const std::string* RowFunction::root() const {
  const bool found = open_.size() == 1 && model_.shape(open_[0]) == full_ && !full_.empty();
  return found ? &open_[0] : nullptr;
}

bool RowFunction::shares_learned() const {
  return !std::ranges::all_of(learned_, [&](const LearnedTensor& one) { return reads_alone(one.tensor); });
}

std::optional<RowFunction::Form> RowFunction::form_of(const EditableOperator& op,
                                                      std::span<const Value* const> inputs) const {
  const Form x = inputs[0]->form;
  const std::string& kind = op.request.kind;
  Shape kept = full_;
  kept.back() = 1;
  if (kind == "reduce") {
    const bool over_rows = x == Form::Row && integers_of(op, "axes") == Shape{std::ssize(full_) - 1};
    return over_rows ? std::optional(Form::Dropped) : std::nullopt;
  }
  if (kind == "reshape" || kind == "expand") {
    const Shape& to = integers_of(op, "shape");
    if (x == Form::Row) return to == full_ ? std::optional(x) : std::nullopt;
    if (kind == "expand") {
      // Where the last dim was dropped, rows would run along another one.
      if (x != Form::Kept) return std::nullopt;
      return to == full_ ? std::optional(Form::Row) : to == kept ? std::optional(x) : std::nullopt;
    }
    if (x == Form::Learned) return std::nullopt;
    if (to == kept) return Form::Kept;
    kept.pop_back();
    return to == kept ? std::optional(Form::Dropped) : std::nullopt;
  }
  if (inputs.size() == 1) return x;
  const Form y = inputs[1]->form;
  if (x == y)
    return model_.shape(*inputs[0]->tensor) == model_.shape(*inputs[1]->tensor) ? std::optional(x)
                                                                                : std::nullopt;
  return x == Form::Row && y != Form::Dropped ? std::optional(x) : std::nullopt;
}

std::optional<RowSamples> RowFunction::values(std::span<const double> x,
                                              std::span<const RowSamples> learned) const {
  const std::size_t count = x.size();
  std::vector<Value> made;
  made.reserve(places_.size() + learned_.size() + 1);
  made.push_back({&open_[0], Form::Row, {}});
  std::ranges::copy(x, made[0].elements.begin());
  for (std::size_t i = 0; i < learned_.size(); ++i) {
    const Form form = model_.shape(learned_[i].tensor) == full_ ? Form::Row : Form::Learned;
    made.push_back({&learned_[i].tensor, form, learned[i]});
  }
  std::vector<std::size_t> in_order = places_;
  std::ranges::sort(in_order);
  for (const std::size_t place : in_order) {
    const EditableOperator& op = *model_.at(place);
    std::vector<const Value*> inputs;
    for (const std::string& input : op.inputs) {
      inputs.push_back(&*std::ranges::find_if(made, [&](const Value& v) { return *v.tensor == input; }));
    }
    const auto form = form_of(op, inputs);
    if (!form) return std::nullopt;
    Value value{&op.request.outputs[0], *form, inputs[0]->elements};
    const std::span<double> elements(value.elements.data(), count);
    if (op.request.kind == "reduce") {
      const std::string& mode = std::get<std::string>(op.request.attributes.at("mode"));
      const double mean = std::accumulate(elements.begin(), elements.end(), 0.0) / static_cast<double>(count);
      const double result = mode == "max"   ? *std::ranges::max_element(elements)
                            : mode == "sum" ? mean * static_cast<double>(width())
                                            : mean;
      std::ranges::fill(elements, result);
    } else if (is_elementary(op.request.kind)) {
      const std::size_t second = inputs.size() - 1;
      compute_elements(op.request.kind, op.request.attributes, {inputs[0]->elements.data(), count},
                       {inputs[second]->elements.data(), count}, elements);
    }
    made.push_back(value);
  }
  if (made.back().form != Form::Row) return std::nullopt;
  return made.back().elements;
}

}  // namespace pipesim
