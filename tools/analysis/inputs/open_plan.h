#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"
#include "search/problem.h"
#include "taskgraph/plan/plan_json.h"

namespace pipesim {

/// A plan with the model and the topology that it is for. It is legal, and never changes.
struct OpenPlan {
  std::shared_ptr<const OperatorGraph> graph;
  std::shared_ptr<const Topology> topology;
  Plan plan;
};

/// A plan of a plan file's text, with the model and topology that it names. `source` names the text in
/// errors. InputError as PlanFile::read().
OpenPlan open_plan(std::string_view text, const std::string& source);
/// The same plan for the problem's topology, which must have devices of the same names. InputError where the
/// plan's model is another: it has other operators, or an iteration of the plan has another number of
/// samples.
OpenPlan open_plan(const std::shared_ptr<const Problem>& problem, std::string_view text,
                   const std::string& source);
/// InputError where open_plan() refuses the plan, or it was made for another topology.
void require_plan_of(const Problem& problem, const OpenPlan& plan);

/// A baseline of the problem, by its name (search/baselines). InputError on another name.
OpenPlan baseline_plan(const std::shared_ptr<const Problem>& problem, const CostModel& costs,
                       std::string_view name);
/// The plan of a recipe, "dp2,tp4,sp,mbs2", with as many samples in an iteration as the problem has. Without
/// mbs, a microbatch has one sample on each copy of the model. `local_dispatch`: see Recipe::shape().
/// InputError where the recipe can't be read, or
/// does not suit the model or the topology.
OpenPlan recipe_plan(const std::shared_ptr<const Problem>& problem, const std::string& recipe,
                     bool local_dispatch);
/// The plan that an algorithm found (plan_of()).
OpenPlan plan_on(const std::shared_ptr<const Problem>& problem, const OperatorGraph& graph, Plan plan);

/// How an operator is split: a number of parts by factor, 1 where there is none; the other members are those
/// of ParallelConfig.
struct NamedConfig {
  std::map<std::string, std::int64_t> splits;
  std::vector<std::string> devices;
  std::int64_t copies = 1;
  bool ring = false;
};
/// The same plan with another config of one operator. InputError where the plan is not legal with it.
OpenPlan with_config(const OpenPlan& plan, OperatorId op, ParallelConfig config);
/// InputError for an unknown operator, factor or device, too.
OpenPlan with_config(const OpenPlan& plan, std::string_view op, const NamedConfig& config);

/// The operator of this name. InputError with "did you mean" where there is none.
OperatorId operator_named(const OperatorGraph& graph, std::string_view name);

/// The text of a plan file. It has the plan's recipe, or the nearest one.
std::string plan_file_of(const OpenPlan& plan);

}  // namespace pipesim
