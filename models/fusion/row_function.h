#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/fusion/learned_tensor.h"

namespace pipesim {

inline constexpr std::size_t most_samples = 16;
/// Elements of a row. A row of h elements is taken to have each of them equally often: then means, sums and
/// maxima over it are known from few.
using RowSamples = std::array<double, most_samples>;

/// Operators that make one tensor [d…, h] of another of that shape, the root, row by row: of every element
/// alone, or of the elements of its row, with parameters [h]. Nobody else reads what they make in between.
/// It starts with one operator, and grows backwards.
class RowFunction {
 public:
  /// Whether it can consist of such operators.
  static bool takes(const EditableOperator& op);
  RowFunction(const EditableModel& model, std::size_t end);

  /// Takes in the operator before it that stands last; false where there is none that it could take.
  bool grow();
  /// The tensor that it is a function of; none as long as there are several.
  [[nodiscard]] const std::string* root() const;
  /// Returns what it makes of the elements `x` of a row. Nothing where its operators do other things to rows.
  [[nodiscard]] std::optional<RowSamples> values(std::span<const double> x,
                                                 std::span<const RowSamples> learned) const;

  [[nodiscard]] std::size_t end() const { return end_; }
  [[nodiscard]] std::int64_t width() const { return full_.back(); }
  [[nodiscard]] bool reduces() const { return reduces_; }
  [[nodiscard]] const std::vector<std::size_t>& places() const { return places_; }  ///< the end's first
  [[nodiscard]] const std::vector<LearnedTensor>& learned() const { return learned_; }
  /// Whether others read one of the parameters.
  [[nodiscard]] bool shares_learned() const;

 private:
  /// What a tensor has for each row: its elements; one number, with a dim of length 1 or without; or as many
  /// elements that are the same for all rows.
  enum class Form : std::uint8_t { Row, Kept, Dropped, Learned };
  struct Value {
    const std::string* tensor;
    Form form;
    RowSamples elements;
  };

  void open(const EditableOperator& op);
  [[nodiscard]] bool reads_alone(const std::string& tensor) const;
  [[nodiscard]] std::optional<Form> form_of(const EditableOperator& op,
                                            std::span<const Value* const> inputs) const;

  const EditableModel& model_;
  std::size_t end_;
  Shape full_;
  bool reduces_ = false;
  std::vector<std::size_t> places_;
  std::vector<std::string> open_;  ///< tensors that are read and not made by its operators
  std::vector<LearnedTensor> learned_;
};

}  // namespace pipesim
