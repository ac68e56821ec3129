#pragma once

#include <string>

#include "search/auto/algorithms.h"
#include "tools/analysis/searching/plan_request.h"
#include "tools/cli/base/arguments.h"
#include "tools/cli/options/planner_options.h"
#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What a command line asks an algorithm for.
struct SearchRun : Problem {
  const Algorithm& algorithm;
  PlannerSettings settings = {};
  bool of_splits = false;             ///< splits of operators are searched, without stages
  std::string output = {}, log = {};  ///< files; "": none
  bool json = false;
  const Framework* framework = nullptr;          ///< of --for
  bool by_recipes = false;                       ///< recipes are ranked
  bool runtime_is_asked = false;                 ///< by --runtime
  Runtime base_runtime = {};                     ///< the runtime before recipes say what overlaps
  std::string model_note = {};                   ///< model_note_of()
  std::vector<std::string> model_left_out = {};  ///< left_out_of_config()
  std::string stands_in_because = {};            ///< a sentence where recipes stand in for another algorithm

  /// Whether the algorithm reads the setting of this name.
  [[nodiscard]] bool takes(std::string_view setting) const;
  /// The threads that it works on, where it takes "threads".
  [[nodiscard]] int threads() const;
};

/// The algorithm that --algorithm names, with its model, topology and settings. UsageError where options do
/// not fit together; InputError where a file, the model or the topology is at fault.
SearchRun search_run_of(const Arguments& arguments);

/// Returns the runtime of the plan, with the policies of its recipe. The runtime of the search overlaps
/// whatever any of the recipes overlaps.
Runtime runtime_of_plan(const SearchRun& run, const Recipe* recipe);

}  // namespace pipesim
