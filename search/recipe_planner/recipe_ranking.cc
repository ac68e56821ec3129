#include "search/recipe_planner/recipe_ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

namespace pipesim {

double share_of(Bytes memory, Bytes usable) {
  return static_cast<double>(memory.value) / static_cast<double>(std::max<std::int64_t>(1, usable.value));
}

void RatedRecipe::take_memory(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    const Bytes usable = topology.usable_memory(DeviceId(d), peaks[d].communicators);
    peak = std::max(peak, peaks[d].peak);
    share = std::max(share, share_of(peaks[d].peak, usable));
  }
}

const RatedRecipe* RecipeRanking::best() const {
  return rated.empty() || !rated.front().evaluation.feasible() ? nullptr : &rated.front();
}

std::optional<double> RecipeRanking::gap() const {
  if (best() == nullptr || bounded < recipes) return std::nullopt;
  if (left == 0) return 0;
  const auto time = static_cast<double>(best()->evaluation.time);
  return (time - static_cast<double>(least_left)) / time;
}

std::vector<RatedRecipe> RecipeRanking::pareto_front() const {
  std::vector<RatedRecipe> front;
  for (const RatedRecipe& r : rated) {
    if (!r.evaluation.feasible()) break;
    if (front.empty() || r.peak < front.back().peak) front.push_back(r);
  }
  return front;
}

std::string with_separators(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  constexpr std::ptrdiff_t kDigits = 3;
  for (std::ptrdiff_t at = std::ssize(text) - kDigits; at > 0; at -= kDigits)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

}  // namespace pipesim
