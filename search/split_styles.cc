#include "search/split_styles.h"

#include <algorithm>
#include <array>
#include <map>

namespace pipesim {
namespace {

// Copies, where they are, and for every split factor its kind, its place among those of the kind, and its
// degree.
using Description = std::vector<std::int32_t>;

Description describe(const Operator& op, const CandidateSet::Split& split) {
  Description d{split.replicas, split.replicas_fastest ? 1 : 0};
  std::array<std::int32_t, 4> seen{};
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    const auto kind = static_cast<std::int32_t>(op.factors[f].kind);
    const std::int32_t place = seen[static_cast<std::size_t>(kind)]++;
    if (split.degrees[f] > 1) d.insert(d.end(), {kind, place, split.degrees[f]});
  }
  return d;
}

}  // namespace

SplitStyles::SplitStyles(const CandidateSet& candidates)
    : candidates_(candidates), style_of_(candidates.graph().operators().size()) {
  std::map<Description, std::size_t> numbers;
  for (std::size_t i = 0; i < style_of_.size(); ++i) {
    const OperatorId op(i);
    for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
      style_of_[i].emplace_back();
      for (const CandidateSet::Split& split : candidates.splits(op, size)) {
        const Description d = describe(candidates.graph().op(op), split);
        style_of_[i].back().push_back(numbers.try_emplace(d, numbers.size()).first->second);
      }
    }
  }
}

std::optional<std::size_t> SplitStyles::config(OperatorId op, std::size_t size, std::size_t list,
                                               std::size_t style) const {
  const std::vector<std::size_t>& styles = style_of_[op.index()][size];
  const auto it = std::find(styles.begin(), styles.end(), style);
  if (it == styles.end()) return std::nullopt;
  return candidates_.index(op, {size, list, static_cast<std::size_t>(it - styles.begin())});
}

}  // namespace pipesim
