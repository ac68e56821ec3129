#include "tools/analysis/plans/operator_groups.h"

#include <algorithm>
#include <map>

namespace pipesim {

std::vector<OperatorGroup> group_operators(std::span<const std::string> words,
                                           std::span<const Nanoseconds> compute) {
  std::map<std::string, OperatorGroup> by_words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].empty()) continue;
    OperatorGroup& group = by_words[words[i]];
    group.operators.emplace_back(i);
    group.compute += compute[i];
  }
  std::vector<OperatorGroup> groups;
  for (auto& [text, group] : by_words) {
    group.words = text;
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const OperatorGroup& a, const OperatorGroup& b) { return a.compute > b.compute; });
  return groups;
}

std::string some_names(const OperatorGraph& graph, const OperatorGroup& group, std::size_t most) {
  std::string names;
  for (std::size_t i = 0; i < std::min(most, group.operators.size()); ++i)
    names += (i > 0 ? ", " : "") + graph.op(group.operators[i]).name;
  return group.operators.size() > most ? names + ", …" : names;
}

}  // namespace pipesim
