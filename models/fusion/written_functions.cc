#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "models/fusion/elementary_functions.h"
#include "models/fusion/passes.h"
#include "models/fusion/row_function.h"

namespace pipesim {
namespace {

/// Kinds that written functions end in.
constexpr std::array<std::string_view, 11> kLastKinds{
    "power", "affine", "add", "sub", "mul", "div", "log", "reciprocal", "clip", "maximum", "minimum"};

constexpr std::size_t kMostOfElements = 12, kMostOfRows = 24;  // operators of a function
/// Operators by which a norm can be longer than what is a norm, too: rms_norm(x − mean) is layer_norm(x).
constexpr std::size_t kMostBefore = 5;

/// The first elements tell most functions apart; the others are on either side of every bend.
constexpr RowSamples kElements{-1.3,  0.7,  -30, -8,  -4,  -3.1, -2.9, -0.5,
                               -0.01, 0.02, 1.9, 2.9, 3.1, 5.9,  6.1,  30};
constexpr std::size_t kFirstElements = 2, kRowElements = 8;
constexpr RowSamples kRow{1.3, -0.7, 2.1, 0.4, -1.9, 0.9, -0.2, 3.0};
constexpr RowSamples kSmallRow{0.06, 0.01, -0.04, 0.09, 0.02, -0.03, 0.05, 0.07};
constexpr std::array<RowSamples, 2> kLearned{RowSamples{0.8, 1.3, -0.6, 2.1, 0.9, -1.7, 1.1, 0.5},
                                             RowSamples{0.3, -0.4, 1.2, 0.1, -0.8, 0.6, -1.1, 2.2}};

/// Allows for what rounding leaves of constants that were written with 7 digits.
bool are_close(double got, double expected, double least) {
  constexpr double rounding = 1e-5;
  return std::abs(got - expected) <= rounding * std::max(std::abs(expected), least);
}

/// The activation that the operators make of their root; "" for other functions.
std::string_view activation_of(const RowFunction& written) {
  std::span<const double> x(kElements.data(), kFirstElements);
  auto got = written.values(x, {});
  std::string_view found;
  for (const bool all : {false, true}) {
    if (!got) return {};
    const auto is_function = [&](const ElementFunction& f) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!are_close((*got)[i], f.value(x[i]), 1)) return false;
      }
      return f.joined;
    };
    const auto functions = element_functions();
    const auto function = std::ranges::find_if(functions, is_function);
    if (function == functions.end()) return {};
    found = function->kind;
    if (all) break;
    x = kElements;
    got = written.values(x, {});
  }
  return found;
}

double mean_of(std::span<const double> x) {
  double sum = 0;
  for (const double element : x) sum += element;
  return sum / static_cast<double>(x.size());
}

struct NormForm {
  bool centred = false;               ///< layer_norm, else rms_norm
  const RowSamples* gamma = nullptr;  ///< or none
  const RowSamples* beta = nullptr;
};

/// x̂ · γ + β with x̂ = (x − m) / √(v + ε), m and v being moments of x. Backends choose ε themselves; it is
/// what the first row says, and the second one must agree.
bool is_norm(const RowFunction& written, const NormForm& form) {
  constexpr double most_epsilon = 1.01e-3, least_epsilon = -1e-12;
  double epsilon = 0;
  for (const RowSamples* row : {&kRow, &kSmallRow}) {
    const std::span<const double> x(row->data(), kRowElements);
    const auto got = written.values(x, kLearned);
    if (!got) return false;
    const double mean = form.centred ? mean_of(x) : 0;
    double variance = 0;
    for (const double element : x) variance += (element - mean) * (element - mean) / kRowElements;
    const auto gamma = [&](std::size_t i) { return form.gamma == nullptr ? 1 : (*form.gamma)[i]; };
    const auto beta = [&](std::size_t i) { return form.beta == nullptr ? 0 : (*form.beta)[i]; };
    if (row == &kRow) {
      const double root = gamma(0) * (x[0] - mean) / ((*got)[0] - beta(0));
      epsilon = root * root - variance;
      if (!(root > 0 && epsilon >= least_epsilon && epsilon <= most_epsilon)) return false;
    }
    for (std::size_t i = 0; i < kRowElements; ++i) {
      const double normed = (x[i] - mean) / std::sqrt(variance + epsilon);
      if (!are_close((*got)[i], gamma(i) * normed + beta(i), 1)) return false;
    }
  }
  return true;
}

bool is_softmax(const RowFunction& written) {
  const std::span<const double> x(kRow.data(), kRowElements);
  const auto got = written.values(x, {});
  if (!got) return false;
  double sum = 0;
  for (const double element : x) sum += std::exp(element) / kRowElements;
  sum *= static_cast<double>(written.width());
  for (std::size_t i = 0; i < kRowElements; ++i) {
    if (!are_close((*got)[i], std::exp(x[i]) / sum, 0)) return false;
  }
  return true;
}

/// An operator that can stand for those that a function is written in.
struct Joined {
  std::string_view kind;  ///< "" where there is no such kind: layer_norm with gamma and without beta
  std::string root;
  std::vector<std::size_t> places;
  std::vector<LearnedTensor> learned;  ///< in the order of the kind's weights
};

std::optional<Joined> row_function_of(const RowFunction& written) {
  std::vector<LearnedTensor> learned = written.learned();
  if (written.width() < 2 || learned.size() > kLearned.size() || written.shares_learned())
    return std::nullopt;
  const auto joined = [&](std::string_view kind) {
    return Joined{kind, *written.root(), written.places(), learned};
  };
  const RowSamples *first = &kLearned[0], *second = &kLearned[1];
  if (learned.empty()) {
    if (is_softmax(written)) return joined("softmax");
    if (is_norm(written, {true})) return joined("layer_norm");
  } else if (learned.size() == 1) {
    if (is_norm(written, {true, first})) return joined("");
    if (is_norm(written, {false, first})) return joined("rms_norm");
  } else {
    bool found = is_norm(written, {true, first, second});
    if (!found && is_norm(written, {true, second, first})) {
      std::swap(learned[0], learned[1]);
      found = true;
    }
    if (found) return joined(learned[0].frozen == learned[1].frozen ? "layer_norm" : "");
  }
  return std::nullopt;
}

/// Whether what was found with more operators says more. Not every norm that is larger does: a factor before
/// a norm changes nothing but ε, and can be the end of another function.
bool replaces(const Joined& larger, const std::optional<Joined>& smaller) {
  if (!smaller) return true;
  return smaller->kind == "softmax" ? larger.kind == "softmax"
                                    : smaller->kind == "rms_norm" && larger.kind != "rms_norm";
}

std::optional<Joined> function_that_ends_at(const EditableModel& model, std::size_t end) {
  const EditableOperator* op = model.at(end);
  if (op == nullptr || std::ranges::find(kLastKinds, op->request.kind) == kLastKinds.end() ||
      model.shape(op->request.outputs[0]).empty())
    return std::nullopt;
  RowFunction written(model, end);
  if (!RowFunction::takes(*op)) return std::nullopt;
  std::optional<Joined> found;
  do {
    if (written.root() == nullptr) continue;
    if (!written.reduces()) {
      if (!written.learned().empty()) continue;
      const std::string_view kind = activation_of(written);
      if (kind.empty()) continue;
      if (written.places().size() == 1 && kind == op->request.kind) return std::nullopt;
      return Joined{kind, *written.root(), written.places(), {}};
    }
    if (auto joined = row_function_of(written); joined && replaces(*joined, found)) found = std::move(joined);
    if (found &&
        (found->kind == "layer_norm" || written.places().size() > found->places.size() + kMostBefore))
      break;
  } while (written.places().size() < (written.reduces() ? kMostOfRows : kMostOfElements) && written.grow());
  return found && !found->kind.empty() ? found : std::nullopt;
}

void join(EditableModel& model, std::size_t end, const Joined& joined) {
  EditableOperator op = *model.at(end);
  op.request.kind = joined.kind;
  op.request.attributes.clear();
  if (joined.kind == "layer_norm") op.request.attributes["affine"] = joined.learned.empty() ? 0 : 1;
  op.inputs = {joined.root};
  for (const std::size_t place : joined.places) {
    if (place != end) model.remove(place);
  }
  take_weights(model, op, joined.learned);
  model.change(end, std::move(op));
}

}  // namespace

// From the end, so that x · sigmoid(x) is found before what it is made of is joined.
void join_written_functions(EditableModel& model) {
  for (std::size_t i = model.size(); i-- > 0;) {
    if (const auto joined = function_that_ends_at(model, i)) join(model, i, *joined);
  }
}

}  // namespace pipesim
