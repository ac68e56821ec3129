#include "search/alpa/stage_partition.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr double kNoPartition = std::numeric_limits<double>::infinity();

class StagePartitioner {
 public:
  explicit StagePartitioner(const StageProblem& problem)
      : problem_(problem),
        layers_(static_cast<std::size_t>(problem.layers)),
        devices_(static_cast<std::size_t>(problem.devices)),
        options_of_(layers_) {
    for (std::size_t i = 0; i < problem.options.size(); ++i)
      options_of_[static_cast<std::size_t>(problem.options[i].first)].push_back(i);
    for (std::vector<std::size_t>& options : options_of_) keep_useful(options);
    for (const std::vector<std::size_t>& options : options_of_) {
      for (const std::size_t i : options) limits_.push_back(problem.options[i].time.value);
    }
    std::ranges::sort(limits_);
    limits_.erase(std::unique(limits_.begin(), limits_.end()), limits_.end());
  }

  std::optional<StagePartition> solve() {
    const auto feasible = [&](double limit) { return sum_within(limit) < kNoPartition; };
    const auto first = std::ranges::partition_point(limits_, [&](double limit) { return !feasible(limit); });
    if (first == limits_.end()) return std::nullopt;
    const auto least = static_cast<std::size_t>(first - limits_.begin());
    const double lowest = look_at(limits_.size() - 1);
    look_at(least);
    search(least, limits_.size() - 1, lowest);
    return best_;
  }

 private:
  // With two options on as many devices, the one that takes no longer and suits as many successors serves as
  // well.
  void keep_useful(std::vector<std::size_t>& options) const {
    const auto key = [&](std::size_t i) {
      const StageOption& o = problem_.options[i];
      return std::tuple(o.last, o.devices, o.time, -o.most_successors, i);
    };
    std::ranges::sort(options, {}, key);
    std::vector<std::size_t> useful;
    for (const std::size_t i : options) {
      const StageOption& o = problem_.options[i];
      const StageOption* before = useful.empty() ? nullptr : &problem_.options[useful.back()];
      const bool same = before && before->last == o.last && before->devices == o.devices;
      if (!same || o.most_successors > before->most_successors) useful.push_back(i);
    }
    options = std::move(useful);
  }

  // Searches between two limits. The larger allows the sum `lowest`, and no limit between them allows less.
  void search(std::size_t from, std::size_t to, double lowest) {
    if (from + 1 >= to || lowest + rest_of(limits_[from + 1]) >= best_->total.value) return;
    const std::size_t middle = from + (to - from) / 2;
    const double sum = look_at(middle);
    search(from, middle, sum);
    search(middle, to, lowest);
  }

  [[nodiscard]] double rest_of(double longest) const {
    return static_cast<double>(problem_.microbatches - 1) * longest;
  }

  // Solves for a limit, notes the partition if it is the best, and returns its sum.
  double look_at(std::size_t limit) {
    const double sum = sum_within(limits_[limit]);
    const StagePartition found = partition(limits_[limit]);
    if (!best_ || found.total.value < best_->total.value) best_ = found;
    return sum;
  }

  [[nodiscard]] std::size_t at(std::size_t stages, std::size_t layer, std::size_t devices) const {
    return (stages * (layers_ + 1) + layer) * (devices_ + 1) + devices;
  }

  // Least sum of times of stages from each layer to the last one, by number of stages and devices.
  double sum_within(double limit) {
    const std::size_t most_stages = std::min(layers_, devices_);
    sums_.assign(at(most_stages, layers_, devices_) + 1, kNoPartition);
    sums_[at(0, layers_, 0)] = 0;
    double least = kNoPartition;
    for (std::size_t s = 1; s <= most_stages; ++s) {
      for (std::size_t i = 0; i < layers_; ++i) {
        stop_if_late();
        for (const std::size_t number : options_of_[i]) {
          const StageOption& o = problem_.options[number];
          if (!usable(o, s, limit)) continue;
          const double* behind = &sums_[at(s - 1, static_cast<std::size_t>(o.last) + 1, 0)];
          double* here = &sums_[at(s, i, static_cast<std::size_t>(o.devices))];
          const std::size_t rest = devices_ - static_cast<std::size_t>(o.devices);
          for (std::size_t d = 0; d <= rest; ++d) here[d] = std::min(here[d], behind[d] + o.time.value);
        }
      }
      least = std::min(least, sums_[at(s, 0, devices_)]);
    }
    return least;
  }

  [[nodiscard]] bool usable(const StageOption& o, std::size_t stages, double limit) const {
    return o.time.value <= limit && o.most_successors + 1 >= static_cast<std::int64_t>(stages) &&
           o.devices <= problem_.devices;
  }

  // Along the sums of the last sum_within().
  [[nodiscard]] StagePartition partition(double limit) const {
    std::size_t stages = 1, layer = 0, devices = devices_;
    for (std::size_t s = 1; s <= std::min(layers_, devices_); ++s) {
      if (sums_[at(s, 0, devices_)] < sums_[at(stages, 0, devices_)]) stages = s;
    }
    StagePartition result{Seconds(sums_[at(stages, 0, devices_)]), {}};
    double longest = 0;
    for (; stages > 0; --stages) {
      const auto leads_on = [&](std::size_t number) {
        const StageOption& o = problem_.options[number];
        const auto own = static_cast<std::size_t>(o.devices);
        return usable(o, stages, limit) && own <= devices &&
               sums_[at(stages - 1, static_cast<std::size_t>(o.last) + 1, devices - own)] + o.time.value ==
                   sums_[at(stages, layer, devices)];
      };
      const std::size_t number = *std::ranges::find_if(options_of_[layer], leads_on);
      const StageOption& o = problem_.options[number];
      result.stages.push_back(number);
      longest = std::max(longest, o.time.value);
      layer = static_cast<std::size_t>(o.last) + 1;
      devices -= static_cast<std::size_t>(o.devices);
    }
    result.total += Seconds(rest_of(longest));
    return result;
  }

  const StageProblem& problem_;
  std::size_t layers_, devices_;
  std::vector<std::vector<std::size_t>> options_of_;  // by first layer: that may be in a best partition
  std::vector<double> limits_;                        // that the longest stage may have, ascending
  std::vector<double> sums_;                          // see at()
  std::optional<StagePartition> best_;
};

}  // namespace

std::optional<StagePartition> partition_stages(const StageProblem& problem) {
  const auto is_valid = [&](const StageOption& o) {
    return 0 <= o.first && o.first <= o.last && o.last < problem.layers && o.devices >= 1 &&
           o.time.value >= 0;
  };
  if (problem.layers < 1 || problem.devices < 1 || problem.microbatches < 1 ||
      !std::ranges::all_of(problem.options, is_valid))
    throw InternalError("a stage outside the layers, or a count or time that can't be");
  return StagePartitioner(problem).solve();
}

}  // namespace pipesim
