#include "tools/interop/framework/stage_layers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "search/recipes/recipe_model.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

std::optional<std::vector<std::int64_t>> take_stage_layers(Recipe& recipe,
                                                           std::span<const std::int64_t> stages) {
  const std::int64_t layers = std::accumulate(stages.begin(), stages.end(), std::int64_t{0});
  std::vector<std::int64_t> of_group(static_cast<std::size_t>(recipe.pipeline), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto stage = static_cast<std::int64_t>(s);
    of_group[static_cast<std::size_t>(device_of_stage(stage, recipe.pipeline, recipe.in_v()))] += stages[s];
  }
  Recipe even = recipe;
  even.first.reset();
  even.last.reset();
  even.layers.clear();
  Recipe ends = even, groups = even;
  ends.first = of_group.front();
  ends.last = of_group.back();
  groups.layers = of_group;
  std::vector<std::int64_t> taken(stages.begin(), stages.end());
  if (const LayerDivision nearest = divide_layers(groups, layers);
      !std::ranges::equal(nearest.layers, taken)) {
    const bool exact =
        divide_layers(even, layers).layers == taken || divide_layers(ends, layers).layers == taken;
    if (!exact && !nearest.error.empty()) return std::nullopt;
    if (!exact) taken = nearest.layers;
  }
  for (Recipe* tried : {&even, &ends, &groups}) {
    if (divide_layers(*tried, layers).layers != taken) continue;
    recipe = std::move(*tried);
    return taken;
  }
  return std::nullopt;
}

}  // namespace pipesim
