#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "search/candidates.h"

namespace pipesim {

/// Numbers the ways to split, so that splits of different operators can be compared. Two splits have the same
/// style when they have equally many replicas in the same place and split the i-th factor of every kind
/// (sample, attribute, parameter, reduction) alike. "The samples in 4" is one style for a convolution and for
/// a linear layer.
class SplitStyles {
 public:
  explicit SplitStyles(const CandidateSet& candidates);

  [[nodiscard]] std::size_t style(OperatorId op, CandidateSet::Position p) const {
    return style_of_[styles_of_operator_[op.index()]][p.size][p.split];
  }
  /// The operator's config of this style on a list; nothing where it can't be split so.
  [[nodiscard]] std::optional<std::size_t> config(OperatorId op, std::size_t size, std::size_t list,
                                                  std::size_t style) const;

 private:
  const CandidateSet& candidates_;
  std::vector<std::size_t> styles_of_operator_;                  // in the next one
  std::vector<std::vector<std::vector<std::size_t>>> style_of_;  // [operators alike][size class][split]
};

}  // namespace pipesim
