#include <optional>
#include <utility>

#include "models/fusion/passes.h"

namespace pipesim {
namespace {

/// Walks back from a mean over all elements.
class LossFinder {
 public:
  LossFinder(EditableModel& model, std::size_t mean) : model_(model), mean_(mean) {}

  void join() {
    const EditableOperator* op = model_.at(mean_);
    if (!is_kind(op, "reduce") || std::get<std::string>(op->request.attributes.at("mode")) != "mean") return;
    if (model_.is_read(op->request.outputs[0])) return;
    if (std::get<Shape>(op->request.attributes.at("axes")).size() != model_.shape(op->inputs[0]).size())
      return;
    if (const EditableOperator* end = own_producer(op->inputs[0])) {
      if (!squared(*end)) entropy(*end);
    }
  }

 private:
  [[nodiscard]] const EditableOperator* producer(const std::string& tensor) const {
    const auto place = model_.producer(tensor);
    return place ? model_.at(*place) : nullptr;
  }
  [[nodiscard]] const EditableOperator* own_producer(const std::string& tensor) const {
    return model_.only_reader(tensor) ? producer(tensor) : nullptr;
  }
  /// Only what comes in gets no gradient from a loss.
  [[nodiscard]] bool comes_in(const std::string& tensor) const { return !model_.producer(tensor); }

  static bool is_line(const EditableOperator* op, double factor, double offset) {
    if (!is_kind(op, "affine")) return false;
    const auto number = [&](const char* name, double fallback) {
      const auto found = op->request.attributes.find(name);
      return found == op->request.attributes.end() ? fallback : std::get<double>(found->second);
    };
    return number("factor", 1) == factor && number("offset", 0) == offset;
  }

  /// (x − target)², or the same the other way round.
  bool squared(const EditableOperator& end) {
    const bool power =
        end.request.kind == "power" && std::get<double>(end.request.attributes.at("exponent")) == 2;
    const EditableOperator* difference = power ? own_producer(end.inputs[0]) : nullptr;
    if (!is_kind(difference, "sub")) return false;
    std::string x = difference->inputs[0], target = difference->inputs[1];
    if (!comes_in(target)) std::swap(x, target);
    if (!comes_in(target) || model_.shape(x) != model_.shape(target)) return false;
    write("squared_error", x, target);
    return true;
  }

  /// −(t · ln σ(x) + (1 − t) · ln(1 − σ(x))).
  void entropy(const EditableOperator& end) {
    const EditableOperator* sum = is_line(&end, -1, 0) ? own_producer(end.inputs[0]) : nullptr;
    if (!is_kind(sum, "add")) return;
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      const auto yes = term(sum->inputs[first]), no = term(sum->inputs[1 - first]);
      if (!yes || !no || !comes_in(yes->weight)) continue;
      const EditableOperator *other = producer(no->weight), *rest = own_producer(no->logarithm);
      if (!is_line(other, -1, 1) || other->inputs[0] != yes->weight) continue;
      if (!is_line(rest, -1, 1) || rest->inputs[0] != yes->logarithm) continue;
      const EditableOperator* sigmoid = producer(yes->logarithm);
      if (!is_kind(sigmoid, "sigmoid")) continue;
      write("binary_cross_entropy", sigmoid->inputs[0], yes->weight);
      return;
    }
  }

  /// A product of a weight and the logarithm of a tensor, which may be reshaped behind it.
  struct Term {
    std::string weight, logarithm;
  };
  [[nodiscard]] std::optional<Term> term(const std::string& tensor) const {
    const EditableOperator* product = own_producer(tensor);
    if (!is_kind(product, "mul")) return std::nullopt;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const EditableOperator* log = own_producer(product->inputs[i]);
      if (is_kind(log, "reshape")) log = own_producer(log->inputs[0]);
      if (is_kind(log, "log")) return Term{product->inputs[1 - i], log->inputs[0]};
    }
    return std::nullopt;
  }

  void write(const std::string& kind, const std::string& x, const std::string& target) {
    EditableOperator loss = *model_.at(mean_);
    loss.request.kind = kind;
    loss.request.attributes.clear();
    loss.inputs = {x, target};
    std::vector<EditableOperator> operators;
    if (model_.shape(x) != model_.shape(target)) {
      EditableOperator rows = loss;
      rows.request.kind = "reshape";
      rows.request.name = model_.new_name(loss.request.name + "_rows");
      rows.request.outputs = {rows.request.name};
      rows.request.attributes = {{"shape", model_.shape(target)}};
      rows.inputs = {x};
      loss.inputs[0] = rows.request.name;
      operators.push_back(std::move(rows));
    }
    operators.push_back(std::move(loss));
    model_.replace(mean_, std::move(operators));
  }

  EditableModel& model_;
  std::size_t mean_;
};

}  // namespace

void join_losses(EditableModel& model) {
  for (std::size_t i = 0; i < model.size(); ++i) LossFinder(model, i).join();
}

}  // namespace pipesim
