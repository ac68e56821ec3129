#include "tools/subject.h"

#include "costmodel/cost_model.h"
#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "tools/inputs.h"
#include "tools/run_settings.h"

namespace pipesim {

std::vector<Option> subject_options(const std::string& verb) {
  std::vector<Option> options{
      {"plan", "FILE", "", "the plan to " + verb + ", as search -o writes it"},
      {"baseline", "NAME", "", verb + " a baseline instead of a plan, with --model and --topology"}};
  for (Option& o : model_and_topology_options()) options.push_back(std::move(o));
  return options;
}

Subject subject_of(const std::string& command, const Arguments& a) {
  if (a.has("plan")) {
    if (a.has("baseline")) throw UsageError(command + ": --plan and --baseline exclude each other");
    const PlanFile file = PlanFile::load(a.text("plan"));
    OperatorGraph graph = open_model(a.has("model") ? a.text("model") : file.model());
    Topology topology = open_topology(a.has("topology") ? a.text("topology") : file.topology());
    Plan plan = file.read(graph, topology);
    return {std::move(graph), std::move(topology), std::move(plan)};
  }
  if (!a.has("baseline"))
    throw UsageError(command + ": --plan FILE is missing, or --model, --topology and --baseline");
  Subject s{open_model(required_text(a, "model")), open_topology(required_text(a, "topology")), {}};
  std::vector<std::string> names;
  for (const std::string_view name : baseline_names()) names.emplace_back(name);
  s.plan.found_by = a.choice("baseline", names);
  s.plan.strategy = baseline_strategy(s.plan.found_by, s.graph, CostModel(s.topology));
  return s;
}

}  // namespace pipesim
