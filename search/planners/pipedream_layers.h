#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/planners/pipedream.h"

namespace pipesim {

/// The result of pipedream() for a model, and the cuts that it used.
struct PipeDreamOfLayers {
  std::optional<PipeDreamPlan> plan;  ///< nothing as of pipedream()
  std::size_t cuts = 0;               ///< that it chose among, in all rounds together
  bool all = true;                    ///< these are all, so the plan is the best by PipeDream's model
  std::string chosen;                 ///< "" or which cuts were looked at, where they were not all
  double steps = 0;                   ///< see pipedream_steps()
};

struct PipeDreamEffort {
  std::size_t most_cuts = 3'000;  ///< that are listed
  double most_steps = 1e9;        ///< of all cuts together, or only some of them are looked at
  double most_round_steps = 1e8;  ///< of those
  std::size_t most_round_cuts = 800;
  std::int32_t most_rounds = 12;
};

/// Partitions layers by pipedream(). `together`: lists of layers that no cut may separate
/// (inseparable_layers()).
///
/// Uses all cuts if that takes few enough steps. Otherwise it uses a selection, taken from all cuts; or from
/// those that separate no compressed branch (compressed_branches()); or, where these are too many as well,
/// from three orders of the layers (as they come, each branch to its end, all branches in step). The
/// selection prefers cuts that little data crosses, evenly over the model. Repeated blocks are cut at equal
/// places, since the same data crosses there. Then it repeats with the cuts of the plan and those around
/// them, one layer more or less at a time, until nothing improves. OutOfTime when the deadline passes before
/// there is a plan; later, the plan so far is the result.
PipeDreamOfLayers pipedream_of_layers(const LayerGraph& layers,
                                      const std::vector<std::vector<std::int32_t>>& together,
                                      std::span<const MachineLevel> levels, const PipeDreamOptions& options,
                                      const PipeDreamEffort& effort = {});

}  // namespace pipesim
