#include "tools/analysis/inputs/calibration_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "costmodel/calibration_store.h"
#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "tools/base/split.h"

namespace pipesim {

namespace {

std::size_t index_of(DurationSource source) { return static_cast<std::size_t>(source); }

// Asks the cost model about every task again, on all devices: a report may have simulated some of them.
class UseCounter {
 public:
  UseCounter(const PlanContents& contents, const BoundStrategy& strategy)
      : expanded_(contents), contents_(contents), costs_(contents_.costs()), strategy_(strategy) {
    expanded_.expand(strategy);
  }

  CalibrationUse count() {
    for (std::int32_t m = 0; m < contents_.options().microbatches; ++m) {
      for (std::size_t i = 0; i < strategy_.size(); ++i) {
        const BoundOperator* bound = strategy_[i];
        const int runs = contents_.recomputation().again(OperatorId(i)) ? 2 : 1;
        for (int run = 0; run < runs; ++run) add_pass(*bound, Pass::Forward, bound->forward);
        add_pass(*bound, Pass::BackwardInput, bound->backward_input);
        add_pass(*bound, Pass::BackwardWeight, bound->backward_weight);
      }
    }
    for (const Wiring& wiring : expanded_.wirings()) {
      for (const CommunicationTask& task : wiring.plan->tasks) add_transfer(task);
    }
    add_updates();
    return finish();
  }

 private:
  void add(const std::string& key, DurationSource source, double seconds) {
    if (seconds <= 0) return;
    whole_ += seconds;
    ++use_.tasks[index_of(source)];
    use_.share[index_of(source)] += seconds;
    if (source == DurationSource::Measured) return;
    Guess& guess = guesses_[key];
    guess.source = source;
    ++guess.tasks;
    guess.share += seconds;
  }

  void add_pass(const BoundOperator& bound, Pass pass, const PassWork& work) {
    if (!work.present) return;
    const ShardGrid grid(*bound.op, bound.config);
    std::vector<Range> ranges;
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
      const DeviceId device = bound.config.devices[k];
      for (std::int64_t block = 0; block < grid.blocks(); ++block) {
        grid.block_ranges(static_cast<std::int64_t>(k), block, ranges);
        const Estimate e = costs_.operator_estimate(contents_.graph(), *bound.op, pass, ranges, device,
                                                    contents_.options().gradient_type);
        add(operator_key(contents_.graph(), *bound.op, pass, ranges, place(device),
                         costs_.busy_neighbours(device))
                .str(),
            e.source, e.time.value);
      }
    }
    for (const InnerExchange& e : work.exchanges) add_transfer(e.task);
  }

  template <class Task>  // CommunicationTask or PricedTask
  void add_transfer(const Task& task) {
    auto [plan, fresh] = plans_.try_emplace({task.kind, {task.group.begin(), task.group.end()}});
    if (fresh) plan->second.emplace(costs_.plan_collective(task.kind, task.group));
    const std::string links = link_class(costs_.topology(), task.group);
    const auto devices = static_cast<std::int64_t>(task.group.size());
    add(transfer_key(task.kind, devices, task.size, DataType::Float32, links).str(),
        plan->second->source_at(task.size), to_seconds(task.duration).value);
  }

  // One update for each device that has a part of a weight that an operator owns, as expansion makes them.
  void add_updates() {
    const OperatorGraph& graph = contents_.graph();
    const Optimizer& optimizer = contents_.options().optimizer;
    std::map<std::pair<OperatorId, DeviceId>, UpdatedWeights> updates;
    for (const Wiring& wiring : expanded_.wirings()) {
      if (wiring.kind != TaskKind::GradientSync || wiring.microbatch > 0) continue;
      const OperatorId owner = graph.consumers(wiring.tensor).front().op;
      const Layout& state = contents_.layouts()[contents_.state_of(wiring.tensor, strategy_)];
      const DataType kept = contents_.options().state_sharding.kept_type(graph.tensor(wiring.tensor).type);
      const WeightShape shape = shape_of_weight(graph, wiring.tensor, kept);
      for (const LayoutEntry& e : state.entries()) {
        const std::pair where(owner, e.device);
        updates.try_emplace(where, optimizer, kept).first->second.add(state.box(e).elements(), shape);
      }
    }
    for (const auto& [where, updated] : updates) {
      const Estimate e = costs_.update_estimate(updated, where.second);
      add(update_key(optimizer, updated.elements, updated.type, place(where.second),
                     costs_.busy_neighbours(where.second))
              .str(),
          e.source, e.time.value);
    }
  }

  [[nodiscard]] std::string place(DeviceId device) const {
    const std::string_view measured = costs_.calibrated_place(device);
    return measured.empty() ? costs_.topology().kind(device).name : std::string(measured);
  }

  CalibrationUse finish() {
    if (whole_ <= 0) return use_;
    for (double& share : use_.share) share /= whole_;
    for (auto& [key, guess] : guesses_) {
      guess.key = key;
      guess.share /= whole_;
      use_.guesses.push_back(guess);
    }
    std::stable_sort(use_.guesses.begin(), use_.guesses.end(),
                     [](const Guess& a, const Guess& b) { return a.share > b.share; });
    return use_;
  }

  ExpandedStrategy expanded_;
  const PlanContents& contents_;
  const CostModel& costs_;
  const BoundStrategy& strategy_;
  CalibrationUse use_;
  double whole_ = 0;
  std::map<std::string, Guess> guesses_;
  std::map<std::pair<Collective, std::vector<DeviceId>>, std::optional<CollectivePlan>> plans_;
};

// Other JSON is refused as a calibration.
bool holds_constants(const std::string& file) {
  std::ifstream in(file);
  if (in.get() != '{') return false;
  const JsonValue root = JsonDocument::load(file);
  return root.is_object() && root.find(kConstantsKey);
}

}  // namespace

Calibration load_calibrations(const std::string& files) {
  std::optional<Calibration> durations;
  std::optional<ClusterConstants> constants;
  for (const std::string& file : split(files, ",")) {
    if (holds_constants(file)) {
      if (constants) throw InputError(fmt::format("{}: a second file of constants", file));
      constants = parse_constants(read_file(file), file);
    } else {
      if (durations) throw InputError(fmt::format("{}: a second file of durations", file));
      durations = load_calibration(file);
    }
  }
  Calibration both = durations ? std::move(*durations) : Calibration();
  both.constants = std::move(constants);
  return both;
}

std::optional<Calibration> open_calibration(const std::string& file, const Topology& topology,
                                            std::ostream& err) {
  if (file.empty()) return std::nullopt;
  Calibration calibration = load_calibrations(file);
  try {
    warn_of_differences(calibration, file, topology, err);
  } catch (const InputError& error) {  // constants of another device
    throw InputError(fmt::format("{}: {}", file, error.what()));
  }
  return calibration;
}

void warn_of_differences(const Calibration& calibration, const std::string& file, const Topology& topology,
                         std::ostream& err) {
  std::vector<std::string> warnings = CostModel(topology, &calibration).calibration_warnings();
  const HostDescription here = this_host();
  for (const CalibrationRun& run : calibration.runs) {
    for (std::string& text : differences(run.host, here)) {
      if (std::find(warnings.begin(), warnings.end(), text) == warnings.end())
        warnings.push_back(std::move(text));
    }
  }
  for (const std::string& text : warnings) err << fmt::format("pipesim: warning: {}: {}\n", file, text);
}

CalibrationUse calibration_use(Evaluator& evaluator, const BoundStrategy& strategy) {
  return UseCounter(evaluator.contents(), strategy).count();
}

}  // namespace pipesim
