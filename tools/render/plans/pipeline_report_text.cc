#include "tools/render/plans/pipeline_report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/base/suggest.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {

std::string devices_text(std::int64_t devices, std::int32_t replicas) {
  return replicas > 1 ? fmt::format("{}x{}", replicas, devices / replicas) : fmt::format("{}", devices);
}

namespace {

// Only of letters that are drawn.
std::string legend(const PipelineReport& report) {
  const std::array<std::pair<char, std::string_view>, kActivities.size()> meanings{
      {{'F', "F forward"},
       {'R', "R forward again"},
       {'B', report.weights_apart ? "B backward of inputs" : "B backward"},
       {'W', "W backward of weights"},
       {'U', "U update of weights"},
       {'-', "- idle while data travel"}}};
  std::string text = "        ";
  for (const auto& [mark, meaning] : meanings) {
    const auto drawn = [m = mark](const std::string& row) { return row.find(m) != std::string::npos; };
    if (std::ranges::any_of(report.strip.rows, drawn)) text += fmt::format("{}, ", meaning);
  }
  text += fmt::format(". idle; {} a column\n", pretty(to_seconds(report.strip.column)));
  for (const LeftOut& out : report.strip.left_out) {
    text += fmt::format("        ~ {} left out, from {} to {}: devices are idle {} of it\n",
                        pretty(to_seconds(out.end - out.begin)), pretty(to_seconds(out.begin)),
                        pretty(to_seconds(out.end)), percent(out.idle));
  }
  for (const SteadyWindow& w : report.strip.steady.windows) {
    text += fmt::format("        |…| {} of {}, which come {} times, from {} on\n",
                        pretty(to_seconds(w.length())), counted(w.microbatches, "microbatch"),
                        report.strip.steady.repeats + 1, pretty(to_seconds(w.begin)));
  }
  if (report.both_ways)
    text +=
        "        rows name the stages of even and of odd microbatches; in flight are those of one "
        "direction\n";
  return text;
}

}  // namespace

std::string to_text(const PipelineReport& report) {
  std::string text = fmt::format("  pipeline {}: {}, {}, {}, devices idle {}\n", report.schedule,
                                 counted(static_cast<std::int64_t>(report.stages.size()), "stage"),
                                 counted(report.microbatches, "microbatch"),
                                 report.messages_block ? "waits for messages" : "messages beside compute",
                                 percent(report.idle));
  Table table({{"stage", Align::Right},
               {"devices", Align::Right},
               {"operators", Align::Right},
               {"compute", Align::Right},
               {"in flight", Align::Right},
               {"peak memory", Align::Right}});
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    const StageReport& stage = report.stages[s];
    const std::string devices = devices_text(static_cast<std::int64_t>(stage.devices.size()), stage.replicas);
    table.add({fmt::format("{}", s), devices, fmt::format("{}", stage.operators),
               pretty(to_seconds(stage.compute)), fmt::format("{}", stage.in_flight),
               pretty(stage.peak_memory)});
  }
  text += table.str(2) + "\n";
  for (std::size_t row = 0; row < report.strip.rows.size(); ++row) {
    text += fmt::format("  {:>5} {}\n", report.stages_of_row(row), report.strip.rows[row]);
  }
  return text + legend(report);
}

nlohmann::ordered_json json_of(const PipelineReport& report) {
  using Json = nlohmann::ordered_json;
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    stages.push_back({{"devices", stage.devices.size()},
                      {"operators", stage.operators},
                      {"compute_s", seconds(stage.compute)},
                      {"in_flight", stage.in_flight},
                      {"peak_memory_bytes", stage.peak_memory.value}});
    if (stage.replicas > 1) stages.back()["replicas"] = stage.replicas;
  }
  return Json{{"schedule", report.schedule},
              {"microbatches", report.microbatches},
              {"messages", name_of(report.messages_block ? StageMessages::Blocking : StageMessages::Beside)},
              {"idle", report.idle},
              {"stages", std::move(stages)}};
}

}  // namespace pipesim
