#include "tools/accuracy/errors_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "tools/cli/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> error_of(Bytes predicted, Bytes measured) {
  if (measured.value == 0) return std::nullopt;
  return static_cast<double>(predicted.value) / static_cast<double>(measured.value) - 1;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

GroupErrors errors_of(const std::string& group, const std::vector<const JudgedRun*>& runs) {
  GroupErrors errors;
  errors.group = group;
  errors.runs = runs.size();
  std::vector<double> peaks, states;
  for (const JudgedRun* run : runs) {
    const double error = run->peak_error().value_or(0);
    peaks.push_back(std::abs(error));
    errors.mean += std::abs(error) / static_cast<double>(runs.size());
    errors.bias += error / static_cast<double>(runs.size());
    if (std::abs(error) > std::abs(errors.worst)) errors.worst = error, errors.worst_run = run->measured.name;
    if (const auto state = run->state_error()) states.push_back(std::abs(*state));
  }
  errors.median = median_of(std::move(peaks));
  errors.state_median = median_of(std::move(states));
  return errors;
}

std::vector<GroupErrors> by_group(const std::vector<JudgedRun>& runs) {
  std::vector<std::pair<std::string, std::vector<const JudgedRun*>>> groups = {{"all", {}}};
  for (const JudgedRun& run : runs) {
    if (!run.peak_error()) continue;
    groups.front().second.push_back(&run);
    for (const std::string& name : run.measured.groups) {
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
      if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
      group->second.push_back(&run);
    }
  }
  std::vector<GroupErrors> errors;
  for (const auto& [name, members] : groups) errors.push_back(errors_of(name, members));
  return errors;
}

std::vector<std::pair<std::string, std::size_t>> reasons_of(const std::vector<JudgedRun>& runs) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const JudgedRun& run : runs) {
    if (run.reason.empty()) continue;
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == run.reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(run.reason, 1);
    } else {
      ++known->second;
    }
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

JudgedRun judged(MeasuredRun run, RunPredictor& predictor) {
  JudgedRun judged{.measured = std::move(run), .predicted = {}, .reason = {}};
  judged.reason = judged.measured.reason;
  if (!judged.measured.run) return judged;
  try {
    judged.predicted = predictor.predict(*judged.measured.run);
  } catch (const InputError& error) {
    judged.reason = error.what();
  }
  return judged;
}

std::string signed_percent(double error) { return fmt::format("{:+.1f} %", 100 * error); }
std::string plain_percent(double error) { return fmt::format("{:.1f} %", 100 * error); }

std::vector<std::string> cells_of(const GroupErrors& g) {
  return {g.group,
          std::to_string(g.runs),
          plain_percent(g.median),
          plain_percent(g.mean),
          signed_percent(g.bias),
          signed_percent(g.worst),
          plain_percent(g.state_median)};
}

constexpr const char* kHeads[] = {"runs of", "runs", "median", "mean", "bias", "worst", "state, median"};

std::size_t expressed(const ErrorsReport& report) { return report.groups.front().runs; }

}  // namespace

std::optional<double> JudgedRun::peak_error() const {
  return predicted ? error_of(predicted->peak, measured.measured_peak) : std::nullopt;
}

std::optional<double> JudgedRun::state_error() const {
  return predicted ? error_of(predicted->state, measured.measured_state) : std::nullopt;
}

ErrorsReport judge(const std::string& table, std::vector<MeasuredRun> runs) {
  ErrorsReport report{.table = table, .runs = {}, .groups = {}, .reasons = {}};
  RunPredictor predictor;
  for (MeasuredRun& run : runs) report.runs.push_back(judged(std::move(run), predictor));
  report.groups = by_group(report.runs);
  report.reasons = reasons_of(report.runs);
  return report;
}

std::string to_text(const ErrorsReport& report, bool each_row) {
  std::string text = fmt::format("{}: {} runs, {} of them predicted\n\nerrors of the peak memory\n",
                                 report.table, report.runs.size(), expressed(report));
  std::vector<Table::Column> columns;
  for (const char* head : kHeads) columns.push_back({head, columns.empty() ? Align::Left : Align::Right});
  Table groups(columns);
  for (const GroupErrors& g : report.groups) groups.add(cells_of(g));
  text += groups.str(2);
  if (!report.groups.front().worst_run.empty())
    text += fmt::format("\n  worst: {}\n", report.groups.front().worst_run);
  if (!report.reasons.empty()) {
    Table reasons({{"runs", Align::Right}, {"not predicted because of"}});
    for (const auto& [reason, count] : report.reasons) reasons.add({std::to_string(count), reason});
    text += "\n" + reasons.str(2);
  }
  if (!each_row) return text;
  Table rows({{"run"},
              {"measured", Align::Right},
              {"predicted", Align::Right},
              {"peak", Align::Right},
              {"state", Align::Right},
              {""}});
  for (const JudgedRun& run : report.runs) {
    const auto peak = run.peak_error(), state = run.state_error();
    rows.add({run.measured.name, pretty(run.measured.measured_peak),
              run.predicted ? pretty(run.predicted->peak) : "", peak ? signed_percent(*peak) : "",
              state ? signed_percent(*state) : "", run.reason});
  }
  return text + "\n" + rows.str(2);
}

std::string to_markdown(const ErrorsReport& report) {
  std::string text;
  for (const char* head : kHeads) text += fmt::format("| {} ", head);
  text += "|\n|---|" + std::string("---:|---:|---:|---:|---:|---:|\n");
  for (const GroupErrors& g : report.groups) {
    for (const std::string& cell : cells_of(g)) text += fmt::format("| {} ", cell);
    text += "|\n";
  }
  text += "\n| runs | not predicted because of |\n|---:|---|\n";
  for (const auto& [reason, count] : report.reasons) text += fmt::format("| {} | {} |\n", count, reason);
  return text;
}

Json json_of(const ErrorsReport& report) {
  Json groups = Json::array(), reasons = Json::array(), runs = Json::array();
  for (const GroupErrors& g : report.groups) {
    groups.push_back({{"group", g.group},
                      {"runs", g.runs},
                      {"median", g.median},
                      {"mean", g.mean},
                      {"bias", g.bias},
                      {"worst", g.worst},
                      {"worst_run", g.worst_run},
                      {"state_median", g.state_median}});
  }
  for (const auto& [reason, count] : report.reasons) reasons.push_back({{"reason", reason}, {"runs", count}});
  for (const JudgedRun& run : report.runs) {
    Json row{{"name", run.measured.name}};
    if (run.measured.run) {
      row["model"] = run.measured.run->model;
      row["recipe"] = run.measured.run->recipe;
      row["batch"] = run.measured.run->batch;
      row["devices"] = run.measured.run->devices;
      row["workspace_bytes"] = run.measured.run->workspace.value;
    }
    row["measured_peak_bytes"] = run.measured.measured_peak.value;
    row["measured_state_bytes"] = run.measured.measured_state.value;
    if (run.predicted) {
      row["predicted_peak_bytes"] = run.predicted->peak.value;
      row["predicted_state_bytes"] = run.predicted->state.value;
    }
    if (const auto error = run.peak_error()) row["error"] = *error;
    if (!run.reason.empty()) row["reason"] = run.reason;
    runs.push_back(std::move(row));
  }
  return {{"table", report.table}, {"groups", groups}, {"not_predicted", reasons}, {"runs", runs}};
}

}  // namespace pipesim
