#include "tools/render/accuracy/errors_report_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::string signed_percent(double error) { return fmt::format("{:+.1f} %", 100 * error); }
std::string plain_percent(double error) { return fmt::format("{:.1f} %", 100 * error); }

std::vector<std::string> cells_of(const GroupErrors& g) {
  return {g.group,
          std::to_string(g.runs),
          plain_percent(g.median),
          plain_percent(g.mean),
          signed_percent(g.bias),
          signed_percent(g.worst)};
}

constexpr const char* kHeads[] = {"runs of", "runs", "median", "mean", "bias", "worst"};

std::string_view described(RunFigure figure) {
  switch (figure) {
    case RunFigure::Time:
      return "the time";
    case RunFigure::Undisturbed:
      return "the time without interference";
    case RunFigure::Speedup:
      return "the speedup";
    case RunFigure::Peak:
      return "the peak memory";
    case RunFigure::State:
      return "the state at an iteration's end";
  }
  return "";
}

// Traits that say something.
std::string traits_text(const FigureErrors& errors) {
  constexpr double kLeast = 0.2;
  std::string text;
  for (const auto& [name, correlation] : errors.traits) {
    if (std::abs(correlation) < kLeast) break;
    text += fmt::format("{}{} {:+.2f}", text.empty() ? "" : ", ", name, correlation);
  }
  return text;
}

std::string order_text(const RunOrder& order) {
  std::string text;
  if (order.spearman) text += fmt::format("Spearman {:.3f} over all runs", *order.spearman);
  if (order.workloads == 0) return text;
  return fmt::format(
      "{}{}{} compared, {} in all: the run that is predicted to be the fastest is {} slower than the fastest "
      "on average, {} at worst{}; the best of the first three {} and {}",
      text, text.empty() ? "" : "; ",
      order.workloads == 1 ? "1 workload" : fmt::format("{} workloads", order.workloads),
      order.runs == 1 ? "1 run" : fmt::format("{} runs", order.runs), plain_percent(order.top1_mean),
      plain_percent(order.top1_worst),
      order.top1_worst_workload.empty() ? "" : fmt::format(" ({})", order.top1_worst_workload),
      plain_percent(order.top3_mean), plain_percent(order.top3_worst));
}

std::string verdicts_text(const MemoryVerdicts& v) {
  return fmt::format(
      "{} runs had enough memory, and {} of them are said to fit; {} were short of it, and {} are said not "
      "to "
      "fit",
      v.ran_and_fits + v.ran_but_does_not_fit, v.ran_and_fits, v.short_but_fits + v.short_and_does_not_fit,
      v.short_and_does_not_fit);
}

// Sentences about all runs.
std::vector<std::string> sentences_of(const ErrorsReport& report) {
  std::vector<std::string> sentences;
  for (const FigureErrors& errors : report.errors) {
    if (const std::string text = traits_text(errors); !text.empty())
      sentences.push_back(
          fmt::format("the error of {} goes with (Spearman): {}", described(errors.figure), text));
  }
  if (const std::string text = order_text(report.order); !text.empty()) sentences.push_back(text);
  if (const IntervalsHeld& i = report.intervals; i.runs > 0)
    sentences.push_back(fmt::format(
        "{} of {} measured times lie in the interval in which 90 % are expected ({}), which reaches {} to "
        "either side on average",
        i.held, i.runs, plain_percent(static_cast<double>(i.held) / static_cast<double>(i.runs)),
        plain_percent(i.width)));
  if (report.verdicts.runs() > 0) sentences.push_back(verdicts_text(report.verdicts));
  return sentences;
}

std::string time_text(Seconds time) { return time.value > 0 ? pretty(time) : ""; }

std::string times_text(std::optional<double> times) { return times ? fmt::format("{:.3f}", *times) : ""; }

std::string rows_text(const ErrorsReport& report) {
  std::vector<Table::Column> columns{{"run"}};
  for (const FigureErrors& errors : report.errors) {
    const std::string name(name_of(errors.figure));
    columns.push_back({name + " measured", Align::Right});
    columns.push_back({"predicted", Align::Right});
    columns.push_back({"error", Align::Right});
  }
  columns.push_back({""});
  Table rows(columns);
  for (const JudgedRun& run : report.runs) {
    std::vector<std::string> cells{run.measured.name};
    const auto add = [&](const std::string& measured, const std::string& predicted, RunFigure figure) {
      const auto error = run.error(figure);
      cells.insert(cells.end(),
                   {measured, run.predicted ? predicted : "", error ? signed_percent(*error) : ""});
    };
    const PredictedRun none, &predicted = run.predicted ? *run.predicted : none;
    const auto memory = [](Bytes bytes) { return bytes.value > 0 ? pretty(bytes) : ""; };
    for (const FigureErrors& errors : report.errors) {
      const RunFigure figure = errors.figure;
      if (figure == RunFigure::Time)
        add(time_text(run.measured.measured_time), time_text(predicted.time), figure);
      if (figure == RunFigure::Undisturbed)
        add(time_text(run.measured.measured_time), time_text(predicted.undisturbed.value_or(Seconds(0))),
            figure);
      if (figure == RunFigure::Speedup)
        add(times_text(run.measured_speedup), times_text(run.predicted_speedup), figure);
      if (figure == RunFigure::Peak) add(memory(run.measured.measured_peak), memory(predicted.peak), figure);
      if (figure == RunFigure::State)
        add(memory(run.measured.measured_state), memory(predicted.state), figure);
    }
    cells.push_back(run.reason);
    rows.add(cells);
  }
  return rows.str(2);
}

Json json_of(const RunOrder& order) {
  Json json{{"workloads", order.workloads}, {"runs", order.runs}};
  if (order.spearman) json["spearman"] = *order.spearman;
  json["top1_regret"] = {{"mean", order.top1_mean}, {"worst", order.top1_worst}};
  json["top3_regret"] = {{"mean", order.top3_mean}, {"worst", order.top3_worst}};
  return json;
}

Json json_of(const FigureErrors& errors) {
  Json groups = Json::array(), traits = Json::object();
  for (const GroupErrors& g : errors.groups) {
    groups.push_back({{"group", g.group},
                      {"runs", g.runs},
                      {"median", g.median},
                      {"mean", g.mean},
                      {"bias", g.bias},
                      {"worst", g.worst},
                      {"worst_run", g.worst_run}});
  }
  for (const auto& [name, correlation] : errors.traits) traits[name] = correlation;
  return {{"of", name_of(errors.figure)}, {"groups", groups}, {"correlations", traits}};
}

Json json_of(const JudgedRun& run) {
  Json row{{"name", run.measured.name}};
  if (const auto& expressed = run.measured.run) {
    row["model"] = expressed->model;
    row["topology"] = expressed->topology;
    row["recipe"] = expressed->recipe;
    row["batch"] = expressed->batch;
    row["workspace_bytes"] = expressed->workspace.value;
  }
  if (const auto& expressed = run.measured.collective) {
    row["collective"] = name_of(expressed->kind);
    row["topology"] = expressed->topology;
    row["devices"] = expressed->devices;
    row["size_bytes"] = expressed->size.value;
  }
  if (!run.measured.workload.empty()) row["workload"] = run.measured.workload;
  if (run.measured.measured_time.value > 0) row["measured_time_s"] = run.measured.measured_time.value;
  if (run.measured_speedup) row["measured_speedup"] = *run.measured_speedup;
  if (run.predicted_speedup) row["predicted_speedup"] = *run.predicted_speedup;
  if (run.measured.measured_peak.value > 0) row["measured_peak_bytes"] = run.measured.measured_peak.value;
  if (run.measured.measured_state.value > 0) row["measured_state_bytes"] = run.measured.measured_state.value;
  if (run.measured.fitted) row["fitted"] = *run.measured.fitted;
  if (run.predicted) {
    row["predicted_time_s"] = run.predicted->time.value;
    if (const auto& interval = run.predicted->interval)
      row["interval_s"] = {interval->low.value, interval->high.value};
    if (run.measured.run) {
      row["predicted_peak_bytes"] = run.predicted->peak.value;
      row["predicted_state_bytes"] = run.predicted->state.value;
      row["fits"] = run.predicted->fits;
    }
  }
  for (const RunFigure figure : kRunFigures) {
    if (const auto error = run.error(figure)) row[fmt::format("{}_error", name_of(figure))] = *error;
  }
  if (!run.reason.empty()) row["reason"] = run.reason;
  return row;
}

}  // namespace

std::string to_text(const ErrorsReport& report, bool each_row) {
  std::string text =
      fmt::format("{}: {} runs, {} of them predicted\n", report.table, report.runs.size(), report.predicted);
  for (const FigureErrors& errors : report.errors) {
    text += fmt::format("\nerrors of {}\n", described(errors.figure));
    std::vector<Table::Column> columns;
    for (const char* head : kHeads) columns.push_back({head, columns.empty() ? Align::Left : Align::Right});
    Table groups(columns);
    for (const GroupErrors& g : errors.groups) groups.add(cells_of(g));
    text += groups.str(2);
    text += fmt::format("\n  worst: {}\n", errors.groups.front().worst_run);
  }
  const std::vector<std::string> sentences = sentences_of(report);
  if (!sentences.empty()) text += "\n";
  for (const std::string& sentence : sentences) text += fmt::format("  {}\n", sentence);
  if (!report.reasons.empty()) {
    Table reasons({{"runs", Align::Right}, {"not predicted because of"}});
    for (const auto& [reason, count] : report.reasons) reasons.add({std::to_string(count), reason});
    text += "\n" + reasons.str(2);
  }
  return each_row ? text + "\n" + rows_text(report) : text;
}

std::string to_markdown(const ErrorsReport& report) {
  std::string text;
  for (const FigureErrors& errors : report.errors) {
    text += fmt::format("Errors of {}:\n\n", described(errors.figure));
    for (const char* head : kHeads) text += fmt::format("| {} ", head);
    text += "|\n|---|" + std::string("---:|---:|---:|---:|---:|\n");
    for (const GroupErrors& g : errors.groups) {
      for (const std::string& cell : cells_of(g)) text += fmt::format("| {} ", cell);
      text += "|\n";
    }
    text += "\n";
  }
  for (const std::string& sentence : sentences_of(report)) text += fmt::format("- {}\n", sentence);
  if (report.reasons.empty()) return text;
  text += "\n| runs | not predicted because of |\n|---:|---|\n";
  for (const auto& [reason, count] : report.reasons) text += fmt::format("| {} | {} |\n", count, reason);
  return text;
}

Json json_of(const ErrorsReport& report) {
  Json errors = Json::array(), reasons = Json::array(), runs = Json::array();
  for (const FigureErrors& e : report.errors) errors.push_back(json_of(e));
  for (const auto& [reason, count] : report.reasons) reasons.push_back({{"reason", reason}, {"runs", count}});
  for (const JudgedRun& run : report.runs) runs.push_back(json_of(run));
  Json json{{"table", report.table}, {"predicted", report.predicted}, {"errors", errors}};
  if (report.order.spearman) json["order"] = json_of(report.order);
  if (const MemoryVerdicts& v = report.verdicts; v.runs() > 0)
    json["memory_verdicts"] = {{"ran_and_fits", v.ran_and_fits},
                               {"ran_but_does_not_fit", v.ran_but_does_not_fit},
                               {"short_but_fits", v.short_but_fits},
                               {"short_and_does_not_fit", v.short_and_does_not_fit}};
  if (const IntervalsHeld& i = report.intervals; i.runs > 0)
    json["intervals"] = {{"runs", i.runs}, {"held", i.held}, {"mean_half_width", i.width}};
  json["not_predicted"] = reasons;
  json["runs"] = runs;
  return json;
}

}  // namespace pipesim
