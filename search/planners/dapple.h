#pragma once

#include <cstdint>
#include <vector>

#include "search/pipelines/layer_graph.h"
#include "search/pipelines/pipelined_strategy.h"
#include "search/planners/sharding_traffic.h"

namespace pipesim {

/// The input of DAPPLE's planner: layers, and servers of devices, which may have different numbers of
/// devices.
struct DappleProblem {
  const LayerGraph* layers = nullptr;   ///< measured with `layers_batch` samples; in a topological order
  std::int64_t layers_batch = 1;        ///< samples
  std::vector<std::int32_t> server_of;  ///< by device, from 0
  std::int64_t batch = 1;               ///< samples of an iteration
  std::int64_t microbatch = 1;          ///< samples of a microbatch on each copy of the pipeline
  ShardingTraffic traffic = {};         ///< of the replicas of a stage
  [[nodiscard]] std::int64_t microbatches(std::int64_t copies) const { return batch / microbatch / copies; }
};

struct DappleStage {
  std::int32_t first = 0, last = 0;  ///< layers, both in the stage
  StageGroup devices;                ///< replicas, each of which takes an equal share of a microbatch
  bool operator==(const DappleStage&) const = default;
};

struct DapplePlan {
  Seconds latency;          ///< of an iteration, see dapple_latency()
  std::int64_t copies = 1;  ///< pipelines side by side: all numbers of replicas are multiples of it
  std::vector<DappleStage> stages;
};

/// The iteration time in the published planner's model (Fan et al., DAPPLE, PPoPP 2021, as its published code
/// computes it; section 4.1 of the paper has another formula):
///
///   block·(M − 1)/M + T/(copies·M) + Σ transfers + max(0, max over stages s of AR_s − s·block/M)
///
/// with M microbatches of a copy and T the time of the whole batch on one device. block is the largest of all
/// stages' times divided by their replicas, and of all transfers between stages. A transfer moves the
/// activations of the whole batch, times dapple_activation_factor(). Σ transfers is of one microbatch, each
/// once. AR counts what replicas move once an iteration (DappleProblem::traffic); what they move in every
/// microbatch runs beside it, so that block is at least that, for the whole batch. A byte takes 1/3 ns across
/// servers, 1 ns into one server for the share that comes from outside, 1/25 ns inside. AR, the reduction of
/// a stage's gradients, is divided by half of its replicas inside a server. The activations that cross a cut
/// are Cut::augmented. The formula keeps the published faults: a stage other than the last also counts the
/// parameters of the layer behind it, and copies share no transfer of a block.
Seconds dapple_latency(const DappleProblem& problem, std::int64_t copies,
                       const std::vector<DappleStage>& stages);

/// How many times the block of the published score counts activations that cross a cut: once for two stages,
/// which the published search scores separately, else twice.
int dapple_activation_factor(std::size_t stages);

/// The time of the whole batch on one device. Divided by the latency, it is the speedup that DAPPLE reports.
Seconds time_on_one_device(const DappleProblem& problem);

/// The space of pipelines in which dapple() looks for those of least latency.
struct DappleSearch {
  std::int64_t copies = 1;  ///< must divide the batch by the microbatch
  std::int32_t most_stages = 1;
  Seconds below;  ///< those that take as long are left out
  /// The number of ways to begin that are kept of those that end with one cut and one use of the devices; 0:
  /// all that may lead to the best, which is exact and may take long.
  std::size_t most_kept = 0;
  std::int64_t most_steps = 0;  ///< stages that are added to a beginning; 0: any number
  bool of_each_number = false;  ///< the best of every number of stages, not of all
  bool dividing = false;  ///< replicas of a copy divide the microbatch, so that each takes whole samples
  bool computing_alone =
      false;  ///< transfers do not lengthen the block; nor is `latency` dapple_latency() then
};

/// The best pipelines that use all devices, among all cuts of the layers' order, numbers of replicas, and
/// ways to spread a stage's replicas over servers. Where there are more than 64 such ways, only the published
/// three are tried: untouched servers first, partly used servers first, or one device on each in turn. The
/// last pipeline is the best, or has most stages. `complete`, if given, tells whether the steps sufficed.
/// InternalError without layers or devices, or for an impossible number of copies.
std::vector<DapplePlan> dapple(const DappleProblem& problem, const DappleSearch& search,
                               bool* complete = nullptr);

}  // namespace pipesim
