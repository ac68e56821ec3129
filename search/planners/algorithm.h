#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "search/planners/planner.h"

namespace pipesim {

/// An algorithm that a search can be asked for by name: how it is listed, which settings it takes, and how it
/// runs. algorithms() in search/auto/algorithms.h are all of them.
struct Algorithm {
  std::string_view name, summary;

  /// Plans a model on a topology. Throws InputError when there is no plan (NoPlanFound where time or memory
  /// is why), Interrupted when the user ended it before there was one, and OutOfTime when the thread's
  /// deadline (sim/base/deadline.h) passed before.
  std::function<PlannerAnswer(const PlanRequest& request)> propose;
  bool splits_alone = false;     ///< without stages it searches the splits of operators, from baselines on
  bool makes_stages = true;      ///< where it is asked to
  bool begins_anywhere = false;  ///< with any recipe that the user names

  /// The names of the settings that `propose` reads, as users write them.
  std::vector<std::string_view> settings = {};
  std::vector<std::string_view> cost_models = {};  ///< that it can minimise, the default first; empty: one

  /// How a user says which stages there are.
  enum class Stages : std::uint8_t { ByNumber, InGroups, Listed };
  Stages stages = Stages::ByNumber;
  std::int32_t usual_layers = 16, most_layers = 1'000;  ///< into which operators are grouped

  bool copies_pipelines = false;  ///< --microbatch counts the samples of each copy of the pipeline
  bool ranks_recipes = false;     ///< and answers with one of them
  bool asks_others = false;       ///< begins with the plans of the other algorithms
  bool reports_progress = false;  ///< needs PlanRequest::observer
  bool keeps_checkpoints = false;

  /// Whether it chooses recipes for models that have any (has_recipes()).
  [[nodiscard]] bool may_rank_recipes() const { return ranks_recipes || asks_others; }
};

/// Asks an algorithm for a plan, and says who found it and in how much time. NoPlanFound when there is none
/// by then.
PlannerAnswer plan(const PlanRequest& request, const Algorithm& algorithm, const Deadline& until);

/// gpipe, pipedream, dapple, alpa: they plan stages by a cost model of their own, and `auto` asks them as
/// well.
std::span<const Algorithm> stage_planners();

}  // namespace pipesim
