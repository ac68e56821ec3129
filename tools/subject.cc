#include "tools/subject.h"

#include <fmt/format.h>

#include "costmodel/cost_model.h"
#include "search/baselines/baselines.h"
#include "search/planners/gpipe.h"
#include "sim/base/errors.h"
#include "tools/calibration_use.h"
#include "tools/inputs.h"
#include "tools/run_settings.h"

namespace pipesim {
namespace {

// Of a baseline: the plan's options and strategy.
void make_pipeline(const std::string& command, const Arguments& a, Subject& s, const CostModel& costs) {
  if (s.plan.found_by != "data-parallel")
    throw UsageError(command + ": --stages makes a pipeline of --baseline data-parallel only");
  const bool listed = lists_stages(a);
  PipelinedStrategy made = listed ? listed_stages(s.graph, costs, stage_list_of(a), schedule_of(a))
                                  : gpipe_strategy(s.graph, costs, pipeline_demand_of(a));
  s.plan.found_by = listed ? "hand" : "gpipe";
  s.plan.strategy = std::move(made.strategy);
  s.plan.options.pipeline = std::move(made.pipeline);
  if (const auto reason = illegal(s.graph, s.plan.strategy, s.plan.options, s.topology))
    throw InputError(*reason);
}

}  // namespace

std::vector<Option> subject_options(const std::string& verb) {
  std::vector<Option> options{
      {"plan", "FILE", "", "the plan to " + verb + ", as search -o writes it"},
      {"baseline", "NAME", "", verb + " a baseline instead of a plan, with --model and --topology"},
      {"microbatches", "N", "", "of a baseline (1 if not given): " + std::string(kMicrobatchesHelp)},
      {"recompute", "WHAT", "none", "of a baseline: " + std::string(kRecomputeHelp)},
      {"stages", "N|LIST", "",
       "run the data-parallel baseline as a pipeline: N stages of about equal compute time, each on its own "
       "equal share of the devices; or a list of DEVICES or DEVICES@LAST_OPERATOR of each stage, such as "
       "8@layer12.ffn_add,8 (without operators cut where the longest stage takes the least time a device); "
       "4x2 instead of DEVICES: 4 replicas of 2 devices each, which take whole microbatches in turn "
       "(schedules pipedream, pipedream-vertical-sync, inference)"},
      {"chunks", "N", "1", "so many stages share their devices (schedule interleaved)"},
      {"schedule", "NAME", "1f1b", "the order of a pipeline's steps: " + plan_schedule_names()}};
  for (Option& o : batch_options()) options.push_back(std::move(o));
  for (Option& o : model_and_topology_options()) options.push_back(std::move(o));
  options.push_back(memory_margin_option());
  options.push_back(calibration_option());
  return options;
}

Subject subject_of(const std::string& command, const Arguments& a, std::ostream& err) {
  if (a.has("plan")) {
    if (a.has("baseline")) throw UsageError(command + ": --plan and --baseline exclude each other");
    for (const char* option : {"microbatches", "recompute", "batch", "microbatch", "profile-batch", "stages",
                               "chunks", "schedule"}) {
      if (a.given(option))
        throw UsageError(
            fmt::format("{}: --plan and --{} exclude each other: the plan tells them", command, option));
    }
    const PlanFile file = PlanFile::load(a.text("plan"));
    OperatorGraph graph = open_model(a.has("model") ? a.text("model") : file.model());
    Topology topology = topology_of(a, a.has("topology") ? a.text("topology") : file.topology());
    Plan plan = file.read(graph, topology);
    std::optional<Calibration> calibration = open_calibration(a, topology, err);
    return {std::move(graph), std::move(topology), std::move(plan), std::move(calibration),
            profile_note(a.has("model") ? a.text("model") : file.model())};
  }
  if (!a.has("baseline"))
    throw UsageError(command + ": --plan FILE is missing, or --model, --topology and --baseline");
  const ModelRun run = model_run_of(a);
  Subject s{open_model(run.model), topology_of(a), {}, {}};
  s.calibration = open_calibration(a, s.topology, err);
  s.profile_note = profile_note_of(a);
  std::vector<std::string> names;
  for (const std::string_view name : baseline_names()) names.emplace_back(name);
  s.plan.options.microbatches = microbatches_of(run);
  s.plan.options.recompute = recompute_of(a);
  require_recompute(s.graph, s.plan.options.recompute);
  s.plan.found_by = a.choice("baseline", names);
  const CostModel costs(s.topology, pointer_to(s.calibration));
  if (a.has("stages")) {
    make_pipeline(command, a, s, costs);
    return s;
  }
  for (const char* option : {"chunks", "schedule"}) {
    if (a.given(option)) throw UsageError(fmt::format("{}: --{} needs --stages", command, option));
  }
  s.plan.strategy = baseline_strategy(s.plan.found_by, s.graph, costs);
  return s;
}

}  // namespace pipesim
