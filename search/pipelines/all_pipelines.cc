#include "search/pipelines/all_pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kIllegal = std::numeric_limits<Nanoseconds>::max();

// So many groups, each with so many stages.
struct PipelineSize {
  std::int32_t groups = 1, chunks = 1;
  bool in_v = false;                   // see device_of_stage()
  std::vector<std::string> schedules;  // that suit it
  [[nodiscard]] std::int32_t stages() const { return groups * chunks; }
};

// Why the schedule can't be made for the shape, or is that of another one; "" where it suits.
std::string unsuited(const std::string& schedule, const PipelineShape& shape) {
  const bool one_stage = shape.devices == 1 && shape.chunks == 1;
  const bool takes_chunks = schedule_kind(schedule).takes_chunks;
  if (!one_stage && !lies_in_v(schedule) && takes_chunks != (shape.chunks > 1))
    return fmt::format("schedule \"{}\": found {} a group of devices, allowed: {}", schedule,
                       counted(shape.chunks, "stage"), takes_chunks ? "2 or more" : "1");
  try {
    require_shape(schedule, shape);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::int32_t num_layers(const PipelineSpace& space) { return *std::ranges::max_element(space.layer_of) + 1; }

// `refusal`: why the first that is left out is.
std::vector<PipelineSize> sizes_of(const PipelineSpace& space, std::int32_t microbatches,
                                   std::string& refusal) {
  std::vector<PipelineSize> sizes;
  for (std::int32_t stages = 1; stages <= num_layers(space); ++stages) {
    if (space.stages != 0 && stages != space.stages) continue;
    for (std::int32_t chunks = 1; chunks <= stages; ++chunks) {
      if (stages % chunks != 0) continue;
      PipelineSize round{stages / chunks, chunks, false, {}}, in_v{stages / chunks, chunks, true, {}};
      for (const std::string& schedule : space.schedules) {
        const std::string reason = unsuited(schedule, {round.groups, microbatches, chunks});
        if (reason.empty()) (lies_in_v(schedule) ? in_v : round).schedules.push_back(schedule);
        if (refusal.empty()) refusal = reason;
      }
      for (PipelineSize& size : std::array{std::move(round), std::move(in_v)}) {
        if (!size.schedules.empty()) sizes.push_back(std::move(size));
      }
    }
  }
  return sizes;
}

// Every way to cut so many layers into so many stages: the last layer of each.
std::vector<std::vector<std::int32_t>> cuts_into(std::int32_t layers, std::int32_t stages) {
  std::vector<std::vector<std::int32_t>> cuts;
  std::vector<std::int32_t> last(static_cast<std::size_t>(stages), layers - 1);
  const auto extend = [&](const auto& self, std::int32_t stage, std::int32_t first) -> void {
    if (stage == stages - 1) return cuts.push_back(last);
    for (std::int32_t l = first; l < layers - (stages - 1 - stage); ++l) {
      last[static_cast<std::size_t>(stage)] = l;
      self(self, stage + 1, l + 1);
    }
  };
  extend(extend, 0, 0);
  return cuts;
}

// Devices that a row of the group may have.
std::vector<std::int64_t> rows_of(const StageGroup& group) {
  std::vector<std::int64_t> tensors;
  for (std::size_t tensor = 1; tensor <= group.size(); ++tensor) {
    if (group.size() % tensor == 0) tensors.push_back(static_cast<std::int64_t>(tensor));
  }
  return tensors;
}

// Every way to divide the groups into rows: by group, the number of a mesh in `known`.
class Meshes {
 public:
  [[nodiscard]] std::vector<std::vector<std::size_t>> of(const std::vector<StageGroup>& groups) {
    std::vector<std::vector<std::size_t>> all(1);
    for (const StageGroup& group : groups) {
      std::vector<std::vector<std::size_t>> longer;
      for (const std::int64_t tensor : rows_of(group)) {
        const std::size_t mesh = number_of({group, tensor});
        for (const std::vector<std::size_t>& begun : all) {
          longer.push_back(begun);
          longer.back().push_back(mesh);
        }
      }
      all = std::move(longer);
    }
    return all;
  }
  [[nodiscard]] const StageMesh& mesh(std::size_t number) const { return meshes_[number]; }

 private:
  std::size_t number_of(StageMesh mesh) {
    const auto [found, is_new] = numbers_.try_emplace({mesh.devices, mesh.tensor}, meshes_.size());
    if (is_new) meshes_.push_back(std::move(mesh));
    return found->second;
  }

  std::map<std::pair<StageGroup, std::int64_t>, std::size_t> numbers_;
  std::vector<StageMesh> meshes_;
};

// Layers that run on a mesh: first and last of each of its stages.
using LayersOfMesh = std::vector<std::pair<std::int32_t, std::int32_t>>;

// Cut and divided, but under no schedule yet.
struct UnscheduledPipeline {
  Nanoseconds bound = 0;  // no schedule is shorter
  std::size_t size, cut, meshes;
};

using GoOn = std::function<bool(const PipelineOptimum&)>;

class PipelineTrials {
 public:
  PipelineTrials(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                 const PipelineSpace& space, const GoOn& go_on)
      : graph_(graph),
        costs_(costs),
        space_(space),
        go_on_(go_on),
        options_(without_pipeline(options)),
        trained_(std::ranges::none_of(
            space.schedules,
            [](const std::string& s) { return schedule_kind(s).weights == WeightChange::Never; })),
        evaluator_(graph, costs, options_) {}

  // Some of them where it is stopped.
  void list_all(const Placements& placements) {
    sizes_ = sizes_of(space_, options_.microbatches, outcome_.refusal);
    if (!sizes_.empty()) outcome_.refusal.clear();
    std::map<std::int32_t, std::vector<std::size_t>> meshes_of;  // by number of groups
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      const PipelineSize& size = sizes_[s];
      const auto [found, is_new] = meshes_of.try_emplace(size.groups);
      if (is_new) {
        for (const std::vector<StageGroup>& groups : placements.list(size.groups)) {
          for (std::vector<std::size_t>& numbers : meshes_.of(groups)) {
            found->second.push_back(chosen_.size());
            chosen_.push_back(std::move(numbers));
          }
        }
      }
      if (found->second.empty() && outcome_.refusal.empty())
        outcome_.refusal =
            fmt::format("found {}, which is too few for {}",
                        counted(static_cast<std::int64_t>(costs_.topology().num_devices()), "device"),
                        counted(size.groups, "group") + " of them");
      cuts_.push_back(cuts_into(num_layers(space_), size.stages()));
      for (std::size_t cut = 0; cut < cuts_.back().size() && !stopped_; ++cut) {
        for (const std::size_t meshes : found->second)
          all_.push_back({bound_of(size, cuts_.back()[cut], chosen_[meshes]), s, cut, meshes});
      }
      outcome_.pipelines +=
          static_cast<std::int64_t>(cuts_.back().size() * found->second.size() * size.schedules.size());
    }
    std::erase_if(all_, [](const UnscheduledPipeline& p) { return p.bound == kIllegal; });
    if (all_.empty() && outcome_.refusal.empty()) outcome_.refusal = of_operators_;
    std::ranges::stable_sort(all_, {}, &UnscheduledPipeline::bound);
  }

  PipelineOptimum try_all(LeaveOut leave_out) {
    if (stopped_) return std::move(outcome_);
    for (const UnscheduledPipeline& p : all_) {
      const bool can_be_better = !outcome_.best || p.bound < outcome_.best->evaluation.time;
      if (leave_out == LeaveOut::ByBounds && !can_be_better) break;
      if (!try_schedules(p)) return std::move(outcome_);
    }
    outcome_.ended = true;
    return std::move(outcome_);
  }

  // The best of those that were tried until it was stopped.
  [[nodiscard]] PipelineOptimum so_far() { return std::move(outcome_); }

 private:
  // Field by field: g++ 12 takes a pipeline that was reset for one that may be uninitialized.
  static PlanOptions without_pipeline(const PlanOptions& options) {
    PlanOptions plain;
    plain.optimizer = options.optimizer;
    plain.gradient_type = options.gradient_type;
    plain.gradient_piece = options.gradient_piece;
    plain.microbatches = options.microbatches;
    plain.set_policies(options);
    plain.imbalance = options.imbalance;
    return plain;
  }

  // A device computes one thing at a time: all its passes of all microbatches.
  Nanoseconds bound_of(const PipelineSize& size, const std::vector<std::int32_t>& cut,
                       const std::vector<std::size_t>& meshes) {
    Nanoseconds bound = 0;
    for (std::int32_t g = 0; g < size.groups; ++g) {
      LayersOfMesh layers;
      for (std::int32_t chunk = 0; chunk < size.chunks; ++chunk) {
        const auto stage = static_cast<std::size_t>(stage_of_chunk(g, chunk, size.groups, size.in_v));
        layers.emplace_back(stage == 0 ? 0 : cut[stage - 1] + 1, cut[stage]);
      }
      const std::size_t mesh = meshes[static_cast<std::size_t>(g)];
      const auto [found, is_new] = busiest_.try_emplace({mesh, std::move(layers)}, 0);
      if (is_new) {
        found->second = busiest(meshes_.mesh(mesh), found->first.second);
        ask_to_go_on();
      }
      bound = std::max(bound, found->second);
    }
    // Every second microbatch may run another stage here.
    const auto turns = [](const std::string& schedule) { return schedule_kind(schedule).both_ways; };
    if (bound != kIllegal && std::ranges::any_of(size.schedules, turns)) bound /= 2;
    return bound;
  }

  // What the busiest device of a mesh computes in an iteration.
  Nanoseconds busiest(const StageMesh& mesh, const LayersOfMesh& layers) {
    const Topology& topology = costs_.topology();
    const auto here = [&](std::size_t op) {
      return std::ranges::any_of(layers, [layer = space_.layer_of[op]](const auto& run) {
        return run.first <= layer && layer <= run.second;
      });
    };
    Pipeline alone;  // the others on any device
    for (std::size_t i = 0; i < space_.layer_of.size(); ++i) alone.stage_of.push_back(here(i) ? 0 : 1);
    const Strategy strategy =
        staged_strategy(graph_, topology, std::move(alone), {mesh, {{DeviceId(0)}, 1}}).strategy;
    std::map<LaneId, Nanoseconds> loads;
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      if (!here(i)) continue;
      if (const auto reason = illegal(graph_.operators()[i], strategy[i], topology)) {
        if (of_operators_.empty()) of_operators_ = *reason;
        return kIllegal;
      }
      const BoundOperator& bound = *evaluator_.contents().bind(OperatorId(i), strategy[i]);
      if (trained_) {
        for (const LaneUse& use : bound.loads) loads[use.lane] += use.hold;
      } else {
        for (std::size_t k = 0; k < bound.forward.durations.size(); ++k)
          loads[topology.compute_lane(bound.config.devices[k % bound.config.devices.size()])] +=
              bound.forward.durations[k];
      }
    }
    Nanoseconds most = 0;
    for (const DeviceId d : mesh.devices)
      most = std::max(most, loads[topology.compute_lane(d)] * options_.microbatches);
    return most;
  }

  void ask_to_go_on() { stopped_ = stopped_ || (go_on_ && !go_on_(outcome_)); }

  // False where it was stopped before the last one.
  bool try_schedules(const UnscheduledPipeline& p) {
    std::vector<StageMesh> meshes;
    for (const std::size_t number : chosen_[p.meshes]) meshes.push_back(meshes_.mesh(number));
    Pipeline pipeline{sizes_[p.size].schedules.front(),
                      stages_of_layers(space_.layer_of, cuts_[p.size][p.cut])};
    PipelinedStrategy made = staged_strategy(graph_, costs_.topology(), std::move(pipeline), meshes);
    for (const std::string& schedule : sizes_[p.size].schedules) {
      made.pipeline.schedule = schedule;
      PlanOptions now = options_;
      now.pipeline = made.pipeline;
      if (const auto reason = illegal(graph_, made.strategy, now, costs_.topology())) {
        if (outcome_.refusal.empty()) outcome_.refusal = *reason;
        continue;
      }
      if (stopped_) return false;
      constexpr Bytes kMostBytes(500'000'000);
      evaluator_.forget(kMostBytes);
      const Evaluation evaluation =
          evaluator_.with(std::move(now.pipeline), std::move(now.recompute)).evaluate(made.strategy);
      if (outcome_.simulated++ == 0 || evaluation.overflow < outcome_.least_overflow)
        outcome_.least_overflow = evaluation.overflow;
      outcome_.estimated += evaluation.proven ? 0 : 1;
      if (evaluation.feasible() && (!outcome_.best || evaluation.time < outcome_.best->evaluation.time))
        outcome_.best = {made, evaluation};
      ask_to_go_on();
    }
    return true;
  }

  const OperatorGraph& graph_;
  const CostModel& costs_;
  const PipelineSpace& space_;
  const GoOn& go_on_;
  bool stopped_ = false;
  PlanOptions options_;
  bool trained_;  // by all schedules: backward counts, too
  Evaluator evaluator_;
  std::vector<PipelineSize> sizes_;
  std::vector<std::vector<std::vector<std::int32_t>>> cuts_;  // by size
  Meshes meshes_;
  std::vector<std::vector<std::size_t>> chosen_;  // by group, numbers of meshes
  std::map<std::pair<std::size_t, LayersOfMesh>, Nanoseconds> busiest_;
  std::vector<UnscheduledPipeline> all_;
  std::string of_operators_;  // why one can't be split so
  PipelineOptimum outcome_;
};

}  // namespace

double number_of_pipelines(const PipelineSpace& space, const Placements& placements,
                           std::int32_t microbatches, double most) {
  std::string unused;
  const std::vector<PipelineSize> sizes = sizes_of(space, microbatches, unused);
  const auto total = [&](const std::function<double(std::int32_t)>& divided_devices) {
    double sum = 0;
    for (const PipelineSize& size : sizes) {
      double cuts = 1;
      for (std::int32_t i = 1; i < size.stages(); ++i) cuts = cuts * (num_layers(space) - i) / i;
      sum += cuts * divided_devices(size.groups) * static_cast<double>(size.schedules.size());
    }
    return sum;
  };
  const double data_parallel = total([&](std::int32_t groups) { return placements.count(groups); });
  if (data_parallel > most) return data_parallel;
  return total([&](std::int32_t groups) {
    double ways = 0;
    for (const std::vector<StageGroup>& placement : placements.list(groups)) {
      double product = 1;
      for (const StageGroup& group : placement) product *= static_cast<double>(rows_of(group).size());
      ways += product;
    }
    return ways;
  });
}

PipelineOptimum best_pipeline(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                              const PipelineSpace& space, const Placements& placements, LeaveOut leave_out,
                              const std::function<bool(const PipelineOptimum&)>& go_on) {
  PipelineTrials trials(graph, costs, options, space, go_on);
  try {
    trials.list_all(placements);
    return trials.try_all(leave_out);
  } catch (const OutOfTime&) {
    return trials.so_far();
  }
}

}  // namespace pipesim
