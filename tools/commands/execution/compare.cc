#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/commands/execution/run_setting_options.h"
#include "tools/commands/execution_commands.h"
#include "tools/commands/options/shared_options.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/plan_set.h"
#include "tools/reports/plan_report.h"
#include "tools/running/plan_comparison.h"

namespace pipesim {
namespace {

std::string origins_text(const std::vector<NamedSubject>& plans) {
  std::string text;
  for (const NamedSubject& p : plans) {
    if (!p.subject.others.empty()) text += fmt::format("{}:\n{}\n", p.name, to_text(p.subject.others));
  }
  return text;
}

}  // namespace

int run_compare_execution(const Arguments& arguments, Streams& streams) {
  const OperatorGraph graph = open_model(model_run_of(arguments).model);
  const Topology topology = topology_of(arguments);
  RunSetting setting = run_setting_of(arguments, topology);
  require_one_process(setting, "compare");
  setting.sleep = EmulatedPace::Sleep::Never;
  const PlanOptions options = plan_options_of(arguments);
  require_recompute(graph, options.recompute);
  PlanSet set(graph, topology, options,
              open_calibration(text_or_none(arguments, "calibration"), topology, streams.err));
  set.add_baselines();
  set.add_random(arguments.integer("random", 0, kMostRandomPlans), setting.seed);
  for (const std::string& file : arguments.texts("plan")) set.add_file(file);
  const PlanComparison comparison = run_comparison(set.plans(), setting, streams.err);
  if (arguments.given("json")) {
    nlohmann::ordered_json json{
        {"model", graph.name()}, {"topology", topology.name()}, {"num_devices", topology.num_devices()}};
    json.update(json_of(comparison));
    for (std::size_t i = 0; i < set.plans().size(); ++i) {
      const Subject& subject = set.plans()[i].subject;
      if (!subject.others.empty()) json["plans"][i]["made_for"] = json_of(subject.others);
    }
    streams.out << json.dump(2) << "\n";
    return 0;
  }
  streams.out << fmt::format("{} on {} ({}), {}\n\n", graph.name(), topology.name(), devices_text(topology),
                             batch_text(graph, options))
              << origins_text(set.plans()) << to_text(comparison);
  return 0;
}

}  // namespace pipesim
