#include "search/alpa/alpa.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "models/operator_kind.h"
#include "search/alpa/stage_clusters.h"
#include "search/alpa/submeshes.h"
#include "search/baselines/placement.h"
#include "search/evaluator.h"
#include "taskgraph/memory/memory_changes.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {
namespace {

// What a mesh takes for the clusters, of one microbatch.
struct LayerCosts {
  std::int64_t devices = 1, tensor = 1;
  std::vector<Nanoseconds> forward_until;  // by number of clusters
  std::vector<Nanoseconds> backward_from;  // by cluster: its and all later ones', from the end of forward
  std::vector<Bytes> permanent, made;      // by number of clusters, on the first device; made by forward
  std::vector<Bytes> again;                // part of this that selective recomputation makes again
  std::vector<Bytes> largest_again;        // by cluster: of one operator
  std::vector<Bytes> gathered;             // by cluster: weights, on the first device
  using Loads = std::vector<std::vector<Nanoseconds>>;  // by number of clusters and lane
  Loads synchronising, in_microbatch;  // gradients and divided weights: once, and in every microbatch
};

class AlpaPlanner {
 public:
  AlpaPlanner(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
              const StageClusters& stages)
      : graph_(graph),
        costs_(costs),
        plan_(plan),
        microbatches_(plan.microbatches),
        stages_(stages),
        cluster_of_(stages.cluster_of()),
        clusters_(stages.size()) {
    plan_.pipeline.reset();
    plan_.microbatches = 1;
  }

  // Nothing when the mesh can't be split so.
  std::optional<LayerCosts> costs_of(std::int64_t devices, std::int64_t tensor) {
    StageMesh mesh{{}, tensor};
    for (std::int64_t d = 0; d < devices; ++d) mesh.devices.emplace_back(static_cast<std::size_t>(d));
    const Pipeline one_stage{"1f1b", std::vector<std::int32_t>(graph_.operators().size(), 0)};
    const Strategy strategy = staged_strategy(graph_, topology(), one_stage, {mesh}).strategy;
    if (illegal(graph_, strategy, topology())) return std::nullopt;
    if (tensor > 1 &&
        strategy == staged_strategy(graph_, topology(), one_stage, {{mesh.devices, 1}}).strategy)
      return std::nullopt;
    Evaluator evaluator(graph_, costs_, plan_);
    const BoundStrategy bound = evaluator.contents().bind(strategy);
    const Evaluated evaluated = evaluator.evaluate(bound, {.extent = Extent::All, .part = Labels::Make});
    const SimulatedPart& part = *evaluated.part;
    LayerCosts found = times(part);
    found.devices = devices;
    found.tensor = tensor;
    add_memory(evaluator.contents(), bound, found);
    add_gathered(part.expanded(), found);
    return found;
  }

  [[nodiscard]] StageProblem problem(const std::vector<LayerCosts>& meshes) const {
    StageProblem problem{static_cast<std::int32_t>(clusters_),
                         static_cast<std::int64_t>(topology().num_devices()),
                         microbatches_,
                         {}};
    for (std::size_t first = 0; first < clusters_; ++first) {
      for (std::size_t last = first; last < clusters_; ++last) {
        for (std::size_t m = 0; m < meshes.size(); ++m) {
          StageOption option = option_of(meshes[m], first, last);
          option.submesh = static_cast<std::int32_t>(m);
          if (option.most_successors >= 0) problem.options.push_back(option);
        }
      }
    }
    return problem;
  }

 private:
  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }

  [[nodiscard]] LayerCosts times(const SimulatedPart& part) const {
    LayerCosts found;
    found.forward_until.assign(clusters_ + 1, 0);
    found.backward_from.assign(clusters_ + 1, 0);
    for (LayerCosts::Loads* loads : {&found.synchronising, &found.in_microbatch})
      loads->assign(clusters_ + 1, std::vector<Nanoseconds>(topology().num_lanes(), 0));
    const std::vector<TaskLabel>& labels = part.labels();
    for (std::size_t t = 0; t < labels.size(); ++t) {
      const TaskKind kind = labels[t].kind;
      if (kind == TaskKind::GradientSync || kind == TaskKind::WeightGather) {
        const OperatorId owner = graph_.consumers(labels[t].tensor).front().op;
        const StateSharding& sharding = plan_.state_sharding;
        const bool each =
            kind == TaskKind::WeightGather ? sharding.gathers_to_use() : sharding.each_microbatch();
        auto& lanes = (each ? found.in_microbatch
                            : found.synchronising)[static_cast<std::size_t>(cluster_of_[owner.index()]) + 1];
        for (const LaneUse& use : part.dag().lanes(TaskId(t))) lanes[use.lane.index()] += use.hold;
      }
      if (kind != TaskKind::Forward && kind != TaskKind::BackwardInput && kind != TaskKind::BackwardWeight)
        continue;
      const auto cluster = static_cast<std::size_t>(cluster_of_[labels[t].op.index()]);
      const Nanoseconds end = part.timeline().end[t];
      Nanoseconds& until =
          kind == TaskKind::Forward ? found.forward_until[cluster + 1] : found.backward_from[cluster];
      until = std::max(until, end);
    }
    for (std::size_t c = 0; c < clusters_; ++c) {
      found.forward_until[c + 1] = std::max(found.forward_until[c + 1], found.forward_until[c]);
      for (LayerCosts::Loads* loads : {&found.synchronising, &found.in_microbatch}) {
        for (std::size_t lane = 0; lane < (*loads)[c].size(); ++lane)
          (*loads)[c + 1][lane] += (*loads)[c][lane];
      }
    }
    found.backward_from[clusters_] = found.forward_until[clusters_];
    for (std::size_t c = clusters_; c-- > 0;)
      found.backward_from[c] = std::max(found.backward_from[c], found.backward_from[c + 1]);
    return found;
  }

  void add_memory(const PlanContents& contents, const BoundStrategy& strategy, LayerCosts& found) const {
    found.permanent.assign(clusters_ + 1, Bytes(0));
    found.made.assign(clusters_ + 1, Bytes(0));
    found.again.assign(clusters_ + 1, Bytes(0));
    found.largest_again.assign(clusters_, Bytes(0));
    const DeviceId device(0);
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const auto until = static_cast<std::size_t>(cluster_of_[i]) + 1;
      for (const TensorId w : contents.backward().frozen_weights(OperatorId(i))) {
        const Tensor& tensor = contents.graph().tensor(w);
        if (tensor.frozen)
          found.permanent[until] +=
              tensor.stored(contents.layouts()[contents.state_of(w, strategy)].elements_on(device));
      }
      if (!contents.backward().owned_weights(OperatorId(i)).empty()) {
        const OwnedUpdates& work = contents.update_work(OperatorId(i), strategy);
        for (std::size_t j = 0; j < work.holders.size(); ++j) {
          if (work.holders[j] == device)
            found.permanent[until] +=
                work.memory[j].weights + work.memory[j].gradients + work.memory[j].optimizer_state;
        }
      }
      const std::int32_t shard = strategy[i]->shard_of_device[device.index()];
      if (shard < 0) continue;
      const ShardMemory& memory = strategy[i]->memory[static_cast<std::size_t>(shard)];
      const Bytes made = memory.outputs + memory.saved;
      found.made[until] += made;
      if (!is_attention(graph_.operators()[i].kind)) continue;
      found.again[until] += made;
      found.largest_again[until - 1] = std::max(found.largest_again[until - 1], made);
    }
    std::partial_sum(found.permanent.begin(), found.permanent.end(), found.permanent.begin());
    for (std::vector<Bytes>* sums : {&found.made, &found.again})
      std::partial_sum(sums->begin(), sums->end(), sums->begin());
  }

  void add_gathered(const ExpandedStrategy& expanded, LayerCosts& found) const {
    found.gathered.assign(clusters_, Bytes(0));
    if (!plan_.state_sharding.gathers_to_use()) return;
    for (const Wiring& w : expanded.wirings()) {
      if (w.kind != TaskKind::WeightGather || w.read_in == ReadIn::Backward) continue;
      const auto cluster = static_cast<std::size_t>(cluster_of_[w.destinations.front().op.index()]);
      for (const auto& [device, bytes] : gathered_copies(expanded, w)) {
        if (device == DeviceId(0)) found.gathered[cluster] += bytes;
      }
    }
  }

  [[nodiscard]] StageOption option_of(const LayerCosts& mesh, std::size_t first, std::size_t last) const {
    const Nanoseconds forward = mesh.forward_until[last + 1] - mesh.forward_until[first];
    const Nanoseconds backward = mesh.backward_from[first] - mesh.backward_from[last + 1];
    StageOption option{
        static_cast<std::int32_t>(first),
        static_cast<std::int32_t>(last),
        0,
        static_cast<std::int32_t>(mesh.tensor),
        mesh.devices,
        to_seconds(std::max(forward + backward, busiest_lane(mesh.in_microbatch, first, last))) +
            stages_.transfer_time(mesh.devices, last, NextStage::InNode) +
            synchronisation_share(mesh, first, last),
        0};
    const Bytes left =
        topology().usable_memory(DeviceId(0), stages_.communicators(mesh.devices, mesh.tensor)) -
        (mesh.permanent[last + 1] - mesh.permanent[first]);
    auto [kept, at_hand] = activations(mesh, first, last);
    const auto [kept_weights, weights_at_hand] = gathered_weights(mesh, first, last);
    kept += kept_weights;
    at_hand += weights_at_hand;
    constexpr std::int64_t kAny = 1 << 20;
    const Bytes rest = left - at_hand;
    option.most_successors = rest.value < 0    ? -1
                             : kept.value == 0 ? kAny
                                               : std::min(kAny, rest.value / kept.value - 1);
    return option;
  }

  // Returns bytes on the first device: what each microbatch in flight keeps, and what the one that runs again
  // needs.
  [[nodiscard]] std::pair<Bytes, Bytes> activations(const LayerCosts& mesh, std::size_t first,
                                                    std::size_t last) const {
    const Bytes made = mesh.made[last + 1] - mesh.made[first];
    const auto enters = [&](std::size_t cluster) {
      return cluster == 0 ? Bytes(0) : Bytes(stages_.leaving(cluster - 1).value * mesh.tensor / mesh.devices);
    };
    if (plan_.recompute.kind == Recompute::Kind::Stage) return {enters(first), made};
    if (plan_.recompute.kind == Recompute::Kind::Full) {  // as if every cluster were a layer
      Bytes kept, largest;
      for (std::size_t c = first; c <= last; ++c) {
        kept += enters(c);
        largest = std::max(largest, mesh.made[c + 1] - mesh.made[c]);
      }
      return {kept, largest};
    }
    if (plan_.recompute.kind != Recompute::Kind::Modules) return {made, Bytes(0)};
    const auto begin = mesh.largest_again.begin();
    const Bytes at_hand = *std::max_element(begin + static_cast<std::ptrdiff_t>(first),
                                            begin + static_cast<std::ptrdiff_t>(last) + 1);
    return {made - (mesh.again[last + 1] - mesh.again[first]), at_hand};
  }

  // Returns gathered weights on the first device: those that stay, or those of the clusters that are at work.
  [[nodiscard]] std::pair<Bytes, Bytes> gathered_weights(const LayerCosts& mesh, std::size_t first,
                                                         std::size_t last) const {
    Bytes all, largest, next;
    for (std::size_t c = first; c <= last; ++c) {
      const Bytes bytes = mesh.gathered[c];
      all += bytes;
      next = std::max(next, std::min(bytes, largest));
      largest = std::max(largest, bytes);
    }
    if (plan_.state_sharding.keeps_gathered()) return {all, Bytes(0)};
    return {Bytes(0), largest + next};
  }

  [[nodiscard]] static Nanoseconds busiest_lane(const LayerCosts::Loads& loads, std::size_t first,
                                                std::size_t last) {
    Nanoseconds busiest = 0;
    for (std::size_t lane = 0; lane < loads[first].size(); ++lane)
      busiest = std::max(busiest, loads[last + 1][lane] - loads[first][lane]);
    return busiest;
  }

  // What happens once an iteration, divided among all microbatches.
  [[nodiscard]] Seconds synchronisation_share(const LayerCosts& mesh, std::size_t first,
                                              std::size_t last) const {
    return (1 / static_cast<double>(microbatches_)) *
           to_seconds(busiest_lane(mesh.synchronising, first, last));
  }

  const OperatorGraph& graph_;
  const CostModel& costs_;
  PlanOptions plan_;  // of one microbatch
  std::int32_t microbatches_;
  const StageClusters& stages_;
  const std::vector<std::int32_t>& cluster_of_;
  std::size_t clusters_;
};

}  // namespace

std::vector<AlpaPlan> alpa(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
                           std::int32_t clusters, const std::function<void(std::int64_t)>& looked_at,
                           const std::string& schedule) {
  const StageClusters stages(graph, costs, clusters, schedule);
  AlpaPlanner planner(graph, costs, plan, stages);
  std::vector<LayerCosts> meshes;
  const std::int64_t node = smallest_node(costs.topology());
  for (const std::int64_t devices : submesh_sizes(costs.topology())) {
    for (std::int64_t tensor = 1; tensor <= std::min(devices, node); tensor *= 2) {
      if (devices % tensor != 0) continue;
      if (auto found = planner.costs_of(devices, tensor)) meshes.push_back(std::move(*found));
    }
    if (looked_at) looked_at(devices);
  }
  return partitions_of(planner.problem(meshes), stages, schedule);
}

std::vector<AlpaPlan> partitions_of(const StageProblem& problem, const StageClusters& clusters,
                                    const std::string& schedule) {
  std::vector<AlpaPlan> plans;
  StageProblem across = problem;
  across.options = clusters.across_nodes(problem.options);
  for (const StageProblem* p : {&problem, &std::as_const(across)}) {
    auto partition = partition_for(schedule, *p);
    const auto is_same = [&](const AlpaPlan& plan) { return plan.partition.stages == partition->stages; };
    if (!partition || std::ranges::any_of(plans, is_same)) continue;
    plans.push_back({*std::move(partition), p->options, clusters.cluster_of(), {}, false});
  }
  return plans;
}

std::optional<StagePartition> partition_for(const std::string& schedule, const StageProblem& problem) {
  if (!schedule_kind(schedule).both_ways) return partition_stages(problem);
  std::optional<StagePartition> best;
  for (std::int64_t stages = 2; stages <= problem.devices; stages += 2) {
    if (problem.devices % stages != 0) continue;
    StageProblem alike = problem;
    alike.options.clear();
    std::vector<std::size_t> numbers;  // in `problem`
    for (std::size_t i = 0; i < problem.options.size(); ++i) {
      if (problem.options[i].devices != problem.devices / stages) continue;
      alike.options.push_back(problem.options[i]);
      numbers.push_back(i);
    }
    std::optional<StagePartition> found = partition_stages(alike);
    if (!found || (best && best->total <= found->total)) continue;
    for (std::size_t& stage : found->stages) stage = numbers[stage];
    best = std::move(found);
  }
  return best;
}

}  // namespace pipesim
