#include "tools/cli/planning/stage_costs_report.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/planning/planned_text.h"
#include "tools/render/base/table.h"

namespace pipesim {

int report_stage_costs(const Arguments& a, Streams& streams) {
  for (const char* option :
       {"topology", "output", "batch", "microbatch", "microbatches", "profile-batch", "recompute", "layers",
        "calibration", "optimizer", "gradient-type", "gradient-piece", "schedule", "memory-margin"}) {
    if (a.given(option)) throw UsageError(fmt::format("search: --{} needs --model", option));
  }
  const std::string& file = a.text("stage-costs");
  const StageCosts costs = read_stage_costs(read_file(file), file);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const StagePartition partition = partition_of(costs.problem, file, a.text("schedule"));
  const double planned_s = std::chrono::duration<double>(Clock::now() - began).count();
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  Table table({{"layers"}, {"nodes x devices"}, {"config", Align::Right}, {"microbatch", Align::Right}});
  for (const std::size_t number : partition.stages) {
    const StageOption& o = costs.problem.options[number];
    const auto [nodes, each] = costs.submeshes[static_cast<std::size_t>(o.submesh)];
    table.add({fmt::format("{} to {}", o.first, o.last), fmt::format("{} x {}", nodes, each),
               fmt::format("{}", o.config), pretty(o.time)});
    stages.push_back({{"layers", {o.first, o.last}},
                      {"submesh", {nodes, each}},
                      {"config", o.config},
                      {"time_s", o.time.value}});
  }
  const PlannerObjective objective = objective_of(partition);
  if (a.given("json")) {
    const nlohmann::ordered_json json{{"objective", json_of(objective)},
                                      {"wall_time_s", planned_s},
                                      {"microbatches", costs.problem.microbatches},
                                      {"stages", std::move(stages)}};
    give_document(streams, json);
  } else {
    streams.out << fmt::format("{}: {} layers on {} devices, {} microbatches, planned by alpa in {}\n\n",
                               a.text("stage-costs"), costs.problem.layers, costs.problem.devices,
                               costs.problem.microbatches, pretty(Seconds(planned_s)))
                << table.str(2) << fmt::format("\n  {}, say the costs\n", objective.text);
  }
  return 0;
}

}  // namespace pipesim
