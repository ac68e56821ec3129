#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/files.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/plan_set.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/execution/run_setting_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/render/execution/plan_comparison_text.h"
#include "tools/render/inputs/plan_origin_text.h"
#include "tools/render/plans/plan_report_text.h"
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

// What the command line asks for.
struct ComparedRun {
  OperatorGraph graph;
  Topology topology;
  RunSetting setting;
  PlanOptions options;
  std::string calibration;  // a file; "": none
  std::int64_t random;
  std::vector<std::string> plans;  // files
  std::string model_text, topology_text;
  std::string folder;  // for the plans; "": none
  bool json;
};

ComparedRun compared_run_of(const Arguments& a) {
  const std::string model = model_run_of(a).model;
  OperatorGraph graph = open_model(model);
  Topology topology = topology_of(a);
  RunSetting setting = run_setting_of(a, topology);
  require_one_process(setting, "compare");
  setting.sleep = EmulatedPace::Sleep::Never;
  PlanOptions options = plan_options_of(a);
  require_recompute(graph, options.recompute);
  require_imbalance(graph, options.imbalance);
  return {std::move(graph),
          std::move(topology),
          std::move(setting),
          std::move(options),
          text_or_none(a, "calibration"),
          a.integer("random", 0, kMostRandomPlans),
          a.texts("plan"),
          model,
          a.text("topology"),
          text_or_none(a, "save-plans"),
          a.given("json")};
}

PlanSet plans_of(const ComparedRun& run, std::ostream& err) {
  PlanSet set(run.graph, run.topology, run.options, open_calibration(run.calibration, run.topology, err));
  set.add_baselines();
  set.add_random(run.random, run.setting.seed);
  for (const std::string& file : run.plans) set.add_file(file);
  return set;
}

// "random 3" is random-3.json; baselines that are the same plan have one file.
std::string file_name_of(std::string plan) {
  for (char& c : plan) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '-';
  }
  return plan + ".json";
}

// All plans that did not come from a file.
void save_plans(const ComparedRun& run, const std::vector<NamedSubject>& plans) {
  const std::filesystem::path folder(run.folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(fmt::format("{}: cannot be made a folder: {}", run.folder, error.message()));
  for (const NamedSubject& p : plans) {
    if (std::ranges::find(run.plans, p.name) != run.plans.end()) continue;
    Plan plan = p.subject.plan;
    plan.model = run.model_text;
    plan.topology = run.topology_text;
    plan.model_fingerprint = run.graph.fingerprint();
    plan.topology_fingerprint = run.topology.fingerprint();
    write_file(folder / file_name_of(p.name), to_json(plan, run.graph, run.topology));
  }
}

}  // namespace

int run_compare_execution(const Arguments& arguments, Streams& streams) {
  const ComparedRun run = compared_run_of(arguments);
  const PlanSet set = plans_of(run, streams.err);
  if (!run.folder.empty()) save_plans(run, set.plans());
  StatusLine progress(streams.err);
  const PlanComparison comparison = run_comparison(set.plans(), run.setting, streams.err, progress);
  if (run.json) {
    nlohmann::ordered_json json{{"model", run.graph.name()},
                                {"topology", run.topology.name()},
                                {"num_devices", run.topology.num_devices()}};
    json.update(json_of(comparison));
    for (std::size_t i = 0; i < set.plans().size(); ++i) {
      const Subject& subject = set.plans()[i].subject;
      if (!subject.others.empty()) json["plans"][i]["made_for"] = json_of(subject.others);
    }
    give_document(streams, json);
    return 0;
  }
  streams.out << fmt::format("{} on {} ({}), {}\n\n", run.graph.name(), run.topology.name(),
                             devices_text(run.topology), batch_text(run.graph, run.options))
              << origins_text(set.plans()) << to_text(comparison);
  return 0;
}

}  // namespace pipesim
