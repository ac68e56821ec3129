#include "search/split_styles.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/base/deadline.h"

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

SplitStyles::SplitStyles(const CandidateSet& candidates) : candidates_(candidates) {
  std::map<Description, std::size_t> numbers;
  // Operators with the same splits and kinds of factors have the same styles.
  std::map<std::pair<std::size_t, std::vector<FactorKind>>, std::size_t> alike;
  for (std::size_t i = 0; i < candidates.graph().operators().size(); ++i) {
    const OperatorId op(i);
    std::vector<FactorKind> kinds;
    for (const Factor& f : candidates.graph().op(op).factors) kinds.push_back(f.kind);
    const auto [known, is_new] = alike.try_emplace({candidates.class_of(op), kinds}, style_of_.size());
    styles_of_operator_.push_back(known->second);
    if (!is_new) continue;
    auto& styles = style_of_.emplace_back();
    for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
      stop_if_late();
      styles.emplace_back();
      for (const CandidateSet::Split& split : candidates.splits(op, size)) {
        const Description d = describe(candidates.graph().op(op), split);
        styles.back().push_back(numbers.try_emplace(d, numbers.size()).first->second);
      }
    }
  }
}

std::optional<std::size_t> SplitStyles::config(OperatorId op, std::size_t size, std::size_t list,
                                               std::size_t style) const {
  const std::vector<std::size_t>& styles = style_of_[styles_of_operator_[op.index()]][size];
  const auto it = std::find(styles.begin(), styles.end(), style);
  if (it == styles.end()) return std::nullopt;
  return candidates_.index(op, {size, list, static_cast<std::size_t>(it - styles.begin())});
}

}  // namespace pipesim
