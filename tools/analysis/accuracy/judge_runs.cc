#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "tools/analysis/accuracy/errors_report.h"
#include "tools/analysis/accuracy/mixture_time.h"
#include "tools/analysis/accuracy/rank_agreement.h"

namespace pipesim {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

using JudgedRuns = std::vector<const JudgedRun*>;

GroupErrors errors_of(const std::string& group, const JudgedRuns& runs, RunFigure figure) {
  GroupErrors errors;
  errors.group = group;
  errors.runs = runs.size();
  std::vector<double> absolute;
  for (const JudgedRun* run : runs) {
    const double error = run->error(figure).value_or(0);
    absolute.push_back(std::abs(error));
    errors.mean += std::abs(error) / static_cast<double>(runs.size());
    errors.bias += error / static_cast<double>(runs.size());
    if (std::abs(error) > std::abs(errors.worst)) errors.worst = error, errors.worst_run = run->measured.name;
  }
  errors.median = median_of(std::move(absolute));
  return errors;
}

std::vector<std::pair<std::string, double>> traits_of(const JudgedRuns& runs, RunFigure figure) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> values;  // trait and error
  for (const JudgedRun* run : runs) {
    for (const auto& [name, value] : run->measured.traits) {
      values[name].first.push_back(value);
      values[name].second.push_back(run->error(figure).value_or(0));
    }
  }
  std::vector<std::pair<std::string, double>> found;
  for (const auto& [name, both] : values) {
    if (const auto correlation = spearman(both.first, both.second)) found.emplace_back(name, *correlation);
  }
  std::ranges::stable_sort(found, std::ranges::greater(), [](const auto& f) { return std::abs(f.second); });
  return found;
}

// "tp 2" before "tp 16", "8 GPUs" before "16 GPUs".
std::tuple<std::string, std::string, std::int64_t> place_of(const std::string& group) {
  constexpr const char* kDigits = "0123456789";
  const std::size_t begin = std::min(group.find_first_of(kDigits), group.size()),
                    end = std::min(group.find_first_not_of(kDigits, begin), group.size());
  std::int64_t number = 0;
  std::from_chars(group.data() + begin, group.data() + end, number);
  return {group.substr(0, begin), group.substr(end), number};
}

FigureErrors errors_of(const std::vector<JudgedRun>& runs, RunFigure figure) {
  std::vector<std::pair<std::string, JudgedRuns>> groups = {{"all", {}}};
  for (const JudgedRun& run : runs) {
    if (!run.error(figure)) continue;
    groups.front().second.push_back(&run);
    for (const std::string& name : run.measured.groups) {
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
      if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
      group->second.push_back(&run);
    }
  }
  std::ranges::stable_sort(groups.begin() + 1, groups.end(), {},
                           [](const auto& g) { return place_of(g.first); });
  FigureErrors errors{figure, {}, traits_of(groups.front().second, figure)};
  for (const auto& [name, members] : groups) errors.groups.push_back(errors_of(name, members, figure));
  return errors;
}

// By how much the fastest of the `count` runs that are predicted to be the fastest is slower than the
// fastest.
double regret(const JudgedRuns& runs, std::size_t count) {
  JudgedRuns sorted = runs;
  std::ranges::stable_sort(sorted, {}, [](const JudgedRun* r) { return r->predicted->time; });
  const auto measured = [](const JudgedRun* r) { return r->measured.measured_time.value; };
  const auto fastest = [&](std::size_t first) {
    return measured(std::ranges::min(std::span(sorted).first(first), {}, measured));
  };
  return fastest(count) / fastest(sorted.size()) - 1;
}

RunOrder order_of(const std::vector<JudgedRun>& runs) {
  RunOrder order;
  std::vector<double> predicted, measured;
  std::map<std::string, JudgedRuns> workloads;
  for (const JudgedRun& run : runs) {
    if (!run.error(RunFigure::Time)) continue;
    predicted.push_back(run.predicted->time.value);
    measured.push_back(run.measured.measured_time.value);
    if (!run.measured.workload.empty()) workloads[run.measured.workload].push_back(&run);
  }
  order.spearman = spearman(predicted, measured);
  constexpr std::size_t kFew = 3;
  std::size_t larger = 0;
  for (const auto& [name, members] : workloads) {
    if (members.size() < 2) continue;
    ++order.workloads;
    order.runs += members.size();
    const double first = regret(members, 1);
    order.top1_mean += first;
    if (first > order.top1_worst) order.top1_worst = first, order.top1_worst_workload = name;
    if (members.size() <= kFew) continue;
    ++larger;
    const double few = regret(members, kFew);
    order.top3_mean += few;
    order.top3_worst = std::max(order.top3_worst, few);
  }
  if (order.workloads > 0) order.top1_mean /= static_cast<double>(order.workloads);
  if (larger > 0) order.top3_mean /= static_cast<double>(larger);
  return order;
}

MemoryVerdicts verdicts_of(const std::vector<JudgedRun>& runs) {
  MemoryVerdicts verdicts;
  for (const JudgedRun& run : runs) {
    if (!run.predicted || !run.measured.fitted) continue;
    if (*run.measured.fitted) {
      ++(run.predicted->fits ? verdicts.ran_and_fits : verdicts.ran_but_does_not_fit);
    } else {
      ++(run.predicted->fits ? verdicts.short_but_fits : verdicts.short_and_does_not_fit);
    }
  }
  return verdicts;
}

IntervalsHeld intervals_of(const std::vector<JudgedRun>& runs) {
  IntervalsHeld intervals;
  for (const JudgedRun& run : runs) {
    const Seconds measured = run.measured.measured_time;
    if (!run.predicted || !run.predicted->interval || measured.value == 0) continue;
    const PredictionInterval& interval = *run.predicted->interval;
    ++intervals.runs;
    if (interval.holds(measured)) ++intervals.held;
    intervals.width += (interval.high - interval.low).value / 2 / run.predicted->time.value;
  }
  if (intervals.runs > 0) intervals.width /= static_cast<double>(intervals.runs);
  return intervals;
}

// `recipe "tp2,pp8": …; the nearest that is possible: tp2,pp4` is the same reason as that of other recipes.
std::string without_recipes(std::string reason) {
  if (reason.starts_with("recipe \"")) reason.erase(0, reason.find("\": ") + 3);
  return reason.substr(0, reason.find("; the nearest "));
}

std::vector<std::pair<std::string, std::size_t>> reasons_of(const std::vector<JudgedRun>& runs) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const JudgedRun& run : runs) {
    if (run.reason.empty()) continue;
    const std::string reason = without_recipes(run.reason);
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

std::optional<double> error_of(double predicted, double measured) {
  if (measured == 0) return std::nullopt;
  return predicted / measured - 1;
}

// Sets speedups.
void compare(std::vector<JudgedRun>& runs) {
  for (JudgedRun& run : runs) {
    if (run.measured.compared_with.empty() || !run.error(RunFigure::Time)) continue;
    for (const JudgedRun& other : runs) {
      if (other.measured.name != run.measured.compared_with || !other.error(RunFigure::Time)) continue;
      run.measured_speedup = other.measured.measured_time / run.measured.measured_time;
      run.predicted_speedup = other.predicted->time / run.predicted->time;
      break;
    }
  }
}

double number_of(Bytes b) { return static_cast<double>(b.value); }

}  // namespace

std::string_view name_of(RunFigure figure) {
  switch (figure) {
    case RunFigure::Time:
      return "time";
    case RunFigure::Undisturbed:
      return "undisturbed";
    case RunFigure::Speedup:
      return "speedup";
    case RunFigure::Peak:
      return "peak";
    case RunFigure::State:
      return "state";
  }
  return "";
}

std::optional<double> JudgedRun::error(RunFigure figure) const {
  if (!predicted) return std::nullopt;
  if (figure == RunFigure::Time) return error_of(predicted->time.value, measured.measured_time.value);
  if (figure == RunFigure::Undisturbed) {
    if (!predicted->undisturbed) return std::nullopt;
    return error_of(predicted->undisturbed->value, measured.measured_time.value);
  }
  if (figure == RunFigure::Speedup)
    return error_of(predicted_speedup.value_or(0), measured_speedup.value_or(0));
  if (figure == RunFigure::Peak)
    return error_of(number_of(predicted->peak), number_of(measured.measured_peak));
  return error_of(number_of(predicted->state), number_of(measured.measured_state));
}

ErrorsReport judge(const std::string& table, std::vector<MeasuredRun> runs, const Calibration* calibration,
                   const std::function<void(std::size_t done)>& predicted) {
  std::vector<ExpressedRun> expressed;
  for (const MeasuredRun& run : runs) {
    if (run.run) expressed.push_back(*run.run);
  }
  const std::vector<PredictedRun> found = predict_runs(expressed, calibration, predicted);
  ErrorsReport report;
  report.table = table;
  auto next = found.begin();
  for (MeasuredRun& run : runs) {
    JudgedRun judged{.measured = std::move(run), .predicted = {}, .reason = {}};
    judged.reason = judged.measured.reason;
    std::optional<PredictedRun> said;
    if (judged.measured.run) said = *next++;
    if (judged.measured.collective) said = predict_collective(*judged.measured.collective, calibration);
    if (judged.measured.mixture) said = predict_mixture(*judged.measured.mixture);
    if (said && said->error.empty()) {
      judged.predicted = said;
      ++report.predicted;
    } else if (said) {
      judged.reason = said->error;
    }
    report.runs.push_back(std::move(judged));
  }
  compare(report.runs);
  for (const RunFigure figure : kRunFigures) {
    FigureErrors errors = errors_of(report.runs, figure);
    if (errors.groups.front().runs > 0) report.errors.push_back(std::move(errors));
  }
  report.order = order_of(report.runs);
  report.verdicts = verdicts_of(report.runs);
  report.intervals = intervals_of(report.runs);
  report.reasons = reasons_of(report.runs);
  return report;
}

}  // namespace pipesim
