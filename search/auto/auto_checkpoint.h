#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/annealing/checkpoint_file.h"
#include "search/joint/joint_json.h"
#include "search/joint/joint_state.h"
#include "search/mcmc/mcmc.h"
#include "search/mcmc/search_state_json.h"
#include "search/planners/planner.h"

namespace pipesim {

/// The result of an algorithm that auto has run.
struct AutoEntry {
  Contribution contribution;
  std::optional<JointPlan> plan;  ///< where it has one
  std::int32_t part = 0;          ///< of a search that goes on later: which part this was
  bool stopped = false;           ///< before it had a plan: not kept, since more time may find one
};

/// The name of the joint search from the plans of all other algorithms, in tables and checkpoints.
inline constexpr std::string_view kJointSearch = "joint";
inline bool is_joint(const Contribution& contribution) { return contribution.name == kJointSearch; }

/// A search over splits, without stages, in one number of microbatches.
struct SplitSearch {
  std::int32_t microbatches;
  const OperatorGraph& graph;  ///< with the samples of a microbatch
  PlanOptions options;
  CandidateSet candidates;
  std::vector<SearchStart> starts;
  std::vector<Baseline> baselines;  ///< of the search's subject; may be empty

  SplitSearch(const OperatorGraph& model, const Topology& topology, const PlanOptions& plan)
      : microbatches(plan.microbatches), graph(model), options(plan), candidates(model, topology) {}
  [[nodiscard]] SearchSubject subject() const { return {graph, candidates.topology(), options, baselines}; }
};

/// The state from which auto continues.
struct AutoState {
  std::uint64_t seed = 1;
  std::size_t chains = 8;
  std::vector<AutoEntry> done;               ///< but baselines
  std::map<std::int32_t, SearchState> mcmc;  ///< by microbatches: of searches that may go on
  std::optional<JointState> joint;           ///< while it runs
};

/// The checkpoints of one run of auto.
class AutoCheckpoints {
 public:
  /// Writes nothing when `file` is "". `subject` must outlive it.
  AutoCheckpoints(std::string file, double seconds_between, const SearchSubject& subject);

  [[nodiscard]] bool wanted() const { return file_.wanted(); }
  /// The search over splits in a number of microbatches; nullptr when there is none.
  using SplitSearchOf = std::function<const SplitSearch*(std::int32_t microbatches)>;
  /// Writes the file when it is time to, at the first call, and whenever `last` is true.
  void keep(const AutoState& state, bool last, const SplitSearchOf& splits);
  /// InputError when it is no checkpoint of this search.
  [[nodiscard]] AutoState load(const std::string& file, const SplitSearchOf& splits,
                               const DividedGraphs& graphs) const;

 private:
  CheckpointFile file_;
  const SearchSubject& subject_;
};

}  // namespace pipesim
