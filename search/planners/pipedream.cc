#include "search/planners/pipedream.h"

#include <algorithm>
#include <limits>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr double kNoPipeline = std::numeric_limits<double>::infinity();

// How the best pipeline up to a cut, on so many machines, ends.
struct Choice {
  std::int32_t cut = -1;      // behind which its last stage begins; −1: it is one stage
  std::int32_t machines = 0;  // of the last stage
};

// The cells of one row: pipelines that begin where the row does.
struct Row {
  std::vector<double> time;     // [cut · machines + number of machines − 1], seconds
  std::vector<Choice> choices;  // the same; empty where nobody asked for them
};

// One level. A row i holds what begins at the start (0) or behind cut i − 1.
class LevelPlanner {
 public:
  LevelPlanner(std::span<const Cut> cuts, const MachineLevel& level, std::int64_t machines_below,
               const PipeDreamOptions& options, const std::vector<std::vector<double>>* below)
      : cuts_(cuts),
        machines_(static_cast<std::size_t>(level.machines)),
        bandwidth_(level.bandwidth.value),
        machines_below_(static_cast<double>(machines_below)),
        options_(options),
        below_(below) {}

  [[nodiscard]] Row row(std::size_t i, bool with_choices) const {
    Row row;
    row.time.assign(cuts_.size() * machines_, kNoPipeline);
    if (with_choices) row.choices.resize(row.time.size());
    std::vector<double> best(machines_), last(machines_);
    std::vector<Choice> choices(machines_);
    for (std::size_t j = i; j < cuts_.size(); ++j) {
      if (!begins_before(i, j)) continue;
      stop_if_late();
      std::ranges::fill(best, kNoPipeline);
      if (j > i) split(i, j, row, last, best, choices);
      finish(i, j, best, choices, row);
    }
    return row;
  }

  // The row holds pipelines that end at the cut.
  [[nodiscard]] bool begins_before(std::size_t i, std::size_t j) const {
    return i == 0 || std::ranges::binary_search(cuts_[j].inner, static_cast<std::int32_t>(i) - 1);
  }

  // What the level above takes for the time of all between two cuts.
  [[nodiscard]] std::vector<double> times_on_all(std::size_t i) const {
    const Row all = row(i, false);
    std::vector<double> times;
    for (std::size_t j = 0; j < cuts_.size(); ++j) times.push_back(all.time[j * machines_ + machines_ - 1]);
    return times;
  }

  [[nodiscard]] std::size_t machines() const { return machines_; }

 private:
  // Time of the layers between two cuts, on one machine of this level.
  [[nodiscard]] double time(std::size_t i, std::size_t j) const {
    if (below_) return (*below_)[i][j];
    return i == 0 ? cuts_[j].time.value : cuts_[j].time.value - cuts_[i - 1].time.value;
  }
  [[nodiscard]] double parameters(std::size_t i, std::size_t j) const {
    return static_cast<double>(cuts_[j].parameters.value - (i == 0 ? 0 : cuts_[i - 1].parameters.value));
  }
  [[nodiscard]] double kept_per_batch(std::size_t i, std::size_t j, std::size_t own) const {
    return static_cast<double>(cuts_[j].outputs.value - (i == 0 ? 0 : cuts_[i - 1].outputs.value)) +
           parameters(i, j) / (options_.divides_weights ? static_cast<double>(own) : 1);
  }
  // m: machines up to the stage and in it; own: in it.
  [[nodiscard]] bool fits(std::size_t i, std::size_t j, std::size_t m, std::size_t own) const {
    if (!options_.memory_limit) return true;
    const std::size_t in_flight = (machines_ - m + own - 1) / own + (options_.repaired ? 1 : 0);
    return static_cast<double>(in_flight) * kept_per_batch(i, j, own) <=
           static_cast<double>(options_.memory_limit->value);
  }
  [[nodiscard]] double reduction(double bytes, std::size_t machines) const {
    const auto m = static_cast<double>(machines);
    return options_.synchronised * 4 * (m - 1) * bytes / (m * bandwidth_);
  }

  // Time of what crosses a cut, forward and backward, into or out of so many machines.
  [[nodiscard]] double transfer(std::size_t cut, std::size_t machines) const {
    const Bytes bytes = options_.repaired ? cuts_[cut].crossing : cuts_[cut].augmented;
    return 2 * static_cast<double>(bytes.value) /
           (bandwidth_ * static_cast<double>(machines) * *options_.activation_compression);
  }
  [[nodiscard]] double output(std::size_t j, std::size_t machines) const {
    return j + 1 < cuts_.size() ? transfer(j, machines) : 0;
  }
  [[nodiscard]] double transfers(std::size_t k, std::size_t j, std::size_t machines) const {
    if (!options_.activation_compression) return 0;
    return std::max(transfer(k, machines), output(j, machines));
  }
  // One stage from the start of a row.
  [[nodiscard]] double whole(std::size_t i, std::size_t j, std::size_t m) const {
    const double gradients = reduction(parameters(i, j), m) / (options_.repaired ? 1 : machines_below_);
    const double computing = (time(i, j) + gradients) / static_cast<double>(m);
    if (!options_.repaired || !options_.activation_compression) return computing;
    return std::max(computing, i > 0 ? transfers(i - 1, j, m) : output(j, m));
  }

  // The best way to end with a stage behind an inner cut, for each number of machines.
  void split(std::size_t i, std::size_t j, const Row& row, std::vector<double>& last,
             std::vector<double>& best, std::vector<Choice>& choices) const {
    for (const std::int32_t inner : cuts_[j].inner) {
      const auto k = static_cast<std::size_t>(inner);
      if (!begins_before(i, k)) continue;
      const double alone = time(k + 1, j);
      if (alone == kNoPipeline) continue;
      const std::size_t most = options_.straight ? 1 : machines_ - 1;
      for (std::size_t own = 1; own <= most && own < machines_; ++own) {
        last[own] = std::max((alone + reduction(parameters(k + 1, j), own)) / static_cast<double>(own),
                             transfers(k, j, own));
      }
      if (row.choices.empty() && !options_.memory_limit) {
        for (std::size_t own = 1; own <= most && own < machines_; ++own) {
          const double* before = &row.time[k * machines_];
          for (std::size_t m = own + 1; m <= machines_; ++m)
            best[m - 1] = std::min(best[m - 1], std::max(before[m - own - 1], last[own]));
        }
        continue;
      }
      for (std::size_t m = 2; m <= machines_; ++m) {
        for (std::size_t own = 1; own <= std::min(most, m - 1); ++own) {
          const double time = std::max(row.time[k * machines_ + m - own - 1], last[own]);
          if (time >= best[m - 1] || !fits(k + 1, j, m, own)) continue;
          best[m - 1] = time;
          choices[m - 1] = {inner, static_cast<std::int32_t>(own)};
        }
      }
    }
  }

  void finish(std::size_t i, std::size_t j, const std::vector<double>& split,
              const std::vector<Choice>& split_choices, Row& row) const {
    for (std::size_t m = 1; m <= machines_; ++m) {
      double& best = row.time[j * machines_ + m - 1];
      Choice choice{-1, static_cast<std::int32_t>(m)};
      if ((m == 1 || !options_.straight) && fits(i, j, m, m)) best = whole(i, j, m);
      if (options_.fewer_machines && m > 1 && row.time[j * machines_ + m - 2] < best) {
        best = row.time[j * machines_ + m - 2];
        if (!row.choices.empty()) choice = row.choices[j * machines_ + m - 2];
      }
      if (split[m - 1] < best) {
        best = split[m - 1];
        choice = split_choices[m - 1];
      }
      if (!row.choices.empty()) row.choices[j * machines_ + m - 1] = choice;
    }
  }

  std::span<const Cut> cuts_;
  std::size_t machines_;
  double bandwidth_, machines_below_;
  const PipeDreamOptions& options_;
  const std::vector<std::vector<double>>* below_;  // by row and cut; nullptr at the innermost level
};

class Hierarchy {
 public:
  Hierarchy(std::span<const Cut> cuts, std::span<const MachineLevel> levels, const PipeDreamOptions& options)
      : cuts_(cuts), times_(levels.size()) {
    for (std::size_t l = 0; l < levels.size(); ++l) {
      planners_.emplace_back(cuts, levels[l], l == 0 ? 1 : levels[l - 1].machines, options,
                             l == 0 ? nullptr : &times_[l - 1]);
      if (l + 1 == levels.size()) break;
      for (std::size_t i = 0; i < cuts.size(); ++i) times_[l].push_back(planners_[l].times_on_all(i));
    }
  }

  std::optional<PipeDreamPlan> plan() {
    PipeDreamPlan plan;
    const std::size_t top = planners_.size() - 1, machines = planners_[top].machines();
    const Row row = planners_[top].row(0, true);
    plan.period = Seconds(row.time[cuts_.size() * machines - 1]);
    if (plan.period.value == kNoPipeline) return std::nullopt;
    append(top, 0, row, cuts_.size() - 1, machines, {0}, plan.stages);
    return plan;
  }

 private:
  // The stages of a row's cell, on so many machines of the level from each of the devices `first_devices` on.
  void append(std::size_t level, std::size_t i, const Row& row, std::size_t j, std::size_t machines,
              const std::vector<std::int64_t>& first_devices, std::vector<PipelineStage>& stages) const {
    const Choice choice = row.choices[j * planners_[level].machines() + machines - 1];
    std::size_t first = i;
    if (choice.cut >= 0) {
      const auto cut = static_cast<std::size_t>(choice.cut);
      append(level, i, row, cut, machines - static_cast<std::size_t>(choice.machines), first_devices, stages);
      first = cut + 1;
    }
    std::int64_t below = 1;  // devices of one machine
    for (std::size_t l = 0; l < level; ++l) below *= static_cast<std::int64_t>(planners_[l].machines());
    std::vector<std::int64_t> devices;
    for (const std::int64_t begin : first_devices) {
      for (std::int64_t m = static_cast<std::int64_t>(machines) - choice.machines;
           m < static_cast<std::int64_t>(machines); ++m)
        devices.push_back(begin + m * below);
    }
    if (level == 0) {
      stages.push_back({between(first, j), std::move(devices)});
    } else {
      const Row inside = planners_[level - 1].row(first, true);
      append(level - 1, first, inside, j, planners_[level - 1].machines(), devices, stages);
    }
  }

  [[nodiscard]] std::vector<std::int32_t> between(std::size_t i, std::size_t j) const {
    std::vector<std::int32_t> layers;
    for (std::size_t v = 0; v < cuts_[j].before.size(); ++v) {
      if (cuts_[j].before[v] && !(i > 0 && cuts_[i - 1].before[v]))
        layers.push_back(static_cast<std::int32_t>(v));
    }
    return layers;
  }

  std::span<const Cut> cuts_;
  std::vector<std::vector<std::vector<double>>> times_;  // by level, row and cut
  std::vector<LevelPlanner> planners_;
};

}  // namespace

std::optional<PipeDreamPlan> pipedream(std::span<const Cut> cuts, std::span<const MachineLevel> levels,
                                       const PipeDreamOptions& options) {
  const auto is_level = [](const MachineLevel& l) { return l.machines >= 1 && l.bandwidth.value > 0; };
  const bool compresses = !options.activation_compression || *options.activation_compression > 0;
  if (cuts.empty() || levels.empty() || !std::ranges::all_of(levels, is_level) || !compresses)
    throw InternalError("PipeDream's planner needs cuts, machines, bandwidths and a compression above 0");
  return Hierarchy(cuts, levels, options).plan();
}

double pipedream_steps(std::span<const Cut> cuts, std::span<const MachineLevel> levels) {
  double pairs = 0, chains = 0;  // of a cut and an inner one; of a pair and one before both
  for (const Cut& cut : cuts) {
    pairs += 1 + static_cast<double>(cut.inner.size());
    for (const std::int32_t inner : cut.inner)
      chains += 1 + static_cast<double>(cuts[static_cast<std::size_t>(inner)].inner.size());
  }
  double steps = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const auto machines = static_cast<double>(levels[l].machines);
    steps += (l + 1 < levels.size() ? chains : pairs) * (1 + machines * (machines - 1) / 2);
  }
  return steps;
}

}  // namespace pipesim
