#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "search/additive/intra_costs.h"
#include "search/alpa/alpa.h"
#include "search/alpa/stage_clusters.h"

namespace pipesim {

/// Plans a pipeline as Alpa does (Zheng et al., OSDI 2022, sections 4 to 6): for each run of clusters and
/// each submesh, the splits whose compute, transfers and synchronisation add up to least (search/additive),
/// within the memory that its place in the pipeline leaves, by the solver of search/intra; then the dynamic
/// program over stages. Splits are over all devices of the submesh, as any logical mesh of them. Runs of
/// clusters with the same operators are solved once, and layers are split alike. Gradients are synchronised
/// once an iteration, of which a microbatch counts its share. The transfer of a stage's outputs to the next
/// submesh counts too.
class SolvedStages {
 public:
  /// The arguments are those of alpa(). They must outlive it.
  SolvedStages(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
               std::int32_t clusters, std::string schedule);

  /// Every device keeps `spare` bytes for what sums do not know: what passes need while they run. `looked_at`
  /// is called with the number of devices before every submesh. See partitions_of().
  std::vector<AlpaPlan> plans(Bytes spare, const std::function<void(std::int64_t)>& looked_at);

 private:
  struct Answer {
    IntraSolution solution;
    std::int64_t most_successors = -1;
  };
  struct Submesh {
    std::int64_t devices = 1;
    std::unique_ptr<IntraCosts> costs;
    Bytes usable;                                                       // less the spare bytes
    std::map<std::pair<AdditiveCounts, std::int64_t>, Answer> answers;  // and successors, or kWithoutLimit
  };
  // Where the splits of an option are.
  struct Choice {
    Submesh* mesh = nullptr;
    const IntraSolution* solution = nullptr;
  };

  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }
  std::unique_ptr<IntraCosts> costs_on(std::int64_t devices) const;
  const Answer& solved(Submesh& mesh, const AdditiveCounts& part, std::int64_t successors);
  [[nodiscard]] Answer judged(Submesh& mesh, const AdditiveCounts& part, IntraSolution solution) const;
  [[nodiscard]] AdditiveCounts part_of(const Submesh& mesh, std::size_t first, std::size_t last) const;
  [[nodiscard]] std::int64_t most_behind(const Submesh& mesh, std::size_t last) const;
  template <class Visit>
  void for_each_run(const std::function<void(std::int64_t)>& looked_at, Visit visit);
  void solve_without_limit(Submesh& mesh, std::size_t first, std::size_t last);
  void solve_within_limits(Submesh& mesh, std::size_t first, std::size_t last, Seconds most);
  void add_option(Submesh& mesh, std::size_t first, std::size_t last, const Answer& answer);

  const OperatorGraph& graph_;
  const CostModel& costs_;
  PlanOptions plan_;
  std::string schedule_;
  StageClusters clusters_;
  std::vector<Submesh> meshes_;
  StageProblem problem_;
  std::vector<Choice> choices_;  // by config of an option
};

}  // namespace pipesim
