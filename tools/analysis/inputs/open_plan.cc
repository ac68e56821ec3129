#include "tools/analysis/inputs/open_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/plan_origin.h"
#include "tools/analysis/inputs/recipe_run.h"

namespace pipesim {
namespace {

std::shared_ptr<const OperatorGraph> graph_of(const std::shared_ptr<const Problem>& problem) {
  return {problem, &problem->graph};
}

std::shared_ptr<const Topology> topology_of_problem(const std::shared_ptr<const Problem>& problem) {
  return {problem, &problem->topology};
}

// The problem's model with the samples of a microbatch that `text` says, opened once where they are equal.
std::shared_ptr<const OperatorGraph> graph_of_text(const std::shared_ptr<const Problem>& problem,
                                                   const std::string& text) {
  return text == problem->model ? graph_of(problem) : std::make_shared<const OperatorGraph>(open_model(text));
}

// What a plan of the problem is, but for what its maker decides.
Plan plan_for(const Problem& problem, const std::string& model, const OperatorGraph& graph,
              std::string found_by) {
  Plan plan;
  plan.model = model;
  plan.topology = problem.topology_text;
  plan.model_fingerprint = graph.fingerprint();
  plan.topology_fingerprint = problem.topology.fingerprint();
  plan.options = problem.options;
  plan.found_by = std::move(found_by);
  plan.runtime = problem.runtime;
  return plan;
}

// The file may have been made for what has changed since, or say nothing.
void name_prints(OpenPlan& open) {
  open.plan.model_fingerprint = open.graph->fingerprint();
  open.plan.topology_fingerprint = open.topology->fingerprint();
}

void require_legal(const OpenPlan& open) {
  if (const auto reason = illegal(*open.graph, open.plan.strategy, open.plan.options, *open.topology))
    throw InputError(*reason);
}

// Sizes may follow the samples of a microbatch. Operators of experts have one factor more where a recipe
// divides their tokens into groups, so their sizes are not compared then.
bool same_sizes(const Operator& a, const Operator& b, std::int64_t batch_of_a, std::int64_t batch_of_b) {
  if (!std::ranges::equal(a.factors, b.factors, {}, &Factor::name, &Factor::name)) return true;
  return std::ranges::equal(a.factors, b.factors, [&](const Factor& x, const Factor& y) {
    return x.size == y.size || x.size * batch_of_b == y.size * batch_of_a;
  });
}

// Whether a sample of both has as much data, such as tokens or pixels.
bool same_samples(const OperatorGraph& a, const OperatorGraph& b) {
  const auto data_of_sample = [](const OperatorGraph& graph, std::int64_t batch_of_other) {
    std::vector<std::int64_t> elements;
    for (const Tensor& t : graph.tensors()) {
      if (t.kind == TensorKind::Data) elements.push_back(t.elements() * batch_of_other);
    }
    return elements;
  };
  return data_of_sample(a, b.batch()) == data_of_sample(b, a.batch());
}

bool same_model(const OperatorGraph& a, const OperatorGraph& b) {
  return a.parameter_count() == b.parameter_count() && same_samples(a, b) &&
         std::ranges::equal(a.operators(), b.operators(), [&](const Operator& x, const Operator& y) {
           return x.name == y.name && x.kind == y.kind && same_sizes(x, y, a.batch(), b.batch());
         });
}

void require_model_of(const Problem& problem, const OperatorGraph& graph, const std::string& model) {
  if (&graph == &problem.graph || same_model(graph, problem.graph)) return;
  throw InputError(
      fmt::format("the plan is for model \"{}\", the model of the problem is \"{}\"", model, problem.model));
}

void require_samples_of(const Problem& problem, const OperatorGraph& graph, const PlanOptions& options) {
  const std::int64_t samples = samples_per_iteration(graph, options);
  const std::int64_t asked = samples_per_iteration(problem.graph, problem.options);
  if (samples != asked)
    throw InputError(fmt::format("an iteration of the plan has {}, one of the problem has {}",
                                 counted(samples, "sample"), counted(asked, "sample")));
}

std::string prefixed(const Operator& op, const std::string& text) {
  return fmt::format("operator \"{}\": {}", op.name, text);
}

std::int32_t parts(const Operator& op, const std::string& what, std::int64_t number) {
  constexpr std::int64_t kMost = 1 << 30;
  if (number < 1 || number > kMost)
    throw InputError(prefixed(op, fmt::format("found {} {}, allowed: from 1 on", number, what)));
  return static_cast<std::int32_t>(number);
}

ParallelConfig config_of(const Operator& op, const NamedConfig& named, const Topology& topology) {
  ParallelConfig config;
  config.degrees.assign(op.factors.size(), 1);
  config.replicas = parts(op, "copies", named.copies);
  config.ring = named.ring;
  for (const auto& [factor, degree] : named.splits) {
    const auto known = std::ranges::find(op.factors, factor, &Factor::name);
    if (known == op.factors.end()) {
      std::vector<std::string> names;
      for (const Factor& f : op.factors) names.push_back(f.name);
      throw InputError(
          prefixed(op, fmt::format("unknown factor \"{}\", allowed: {}", factor, list_names(names))));
    }
    config.degrees[static_cast<std::size_t>(known - op.factors.begin())] =
        parts(op, fmt::format("parts of factor \"{}\"", factor), degree);
  }
  for (const std::string& device : named.devices) config.devices.push_back(topology.device_named(device));
  return config;
}

}  // namespace

OpenPlan open_plan(std::string_view text, const std::string& source) {
  const PlanFile file = PlanFile::parse(text, source);
  OpenPlan open{std::make_shared<const OperatorGraph>(open_model(file.model())),
                std::make_shared<const Topology>(open_topology(file.topology())),
                {}};
  std::vector<OtherOrigin> others;
  open.plan = read_plan(file, *open.graph, *open.topology, others);
  name_prints(open);
  return open;
}

OpenPlan open_plan(const std::shared_ptr<const Problem>& problem, std::string_view text,
                   const std::string& source) {
  const PlanFile file = PlanFile::parse(text, source);
  const bool same = file.model_fingerprint() == problem->graph.fingerprint();
  OpenPlan open{
      same ? graph_of(problem) : graph_of_text(problem, file.model()), topology_of_problem(problem), {}};
  require_model_of(*problem, *open.graph, file.model());
  std::vector<OtherOrigin> others;
  open.plan = read_plan(file, *open.graph, *open.topology, others);
  require_samples_of(*problem, *open.graph, open.plan.options);
  open.plan.topology = problem->topology_text;
  name_prints(open);
  return open;
}

void require_plan_of(const Problem& problem, const OpenPlan& open) {
  require_model_of(problem, *open.graph, open.plan.model);
  require_samples_of(problem, *open.graph, open.plan.options);
  if (open.topology.get() != &problem.topology &&
      open.topology->fingerprint() != problem.topology.fingerprint())
    throw InputError(
        fmt::format("the plan is for topology \"{}\", the topology of the problem is \"{}\"; opened for the "
                    "problem, a plan uses its devices of the same names",
                    open.plan.topology, problem.topology_text));
}

OpenPlan baseline_plan(const std::shared_ptr<const Problem>& problem, const CostModel& costs,
                       std::string_view name) {
  OpenPlan open{graph_of(problem), topology_of_problem(problem),
                plan_for(*problem, problem->model, problem->graph, std::string(name))};
  open.plan.strategy = baseline_strategy(name, problem->graph, costs);
  require_legal(open);
  return open;
}

OpenPlan recipe_plan(const std::shared_ptr<const Problem>& problem, const std::string& text,
                     bool local_dispatch) {
  Recipe recipe = parse_recipe(text);
  const BatchRequest asked{
      .batch = samples_per_iteration(problem->graph, problem->options), .microbatch = {}, .microbatches = {}};
  ModelRun run = run_of_recipe(problem->model, static_cast<std::int64_t>(problem->topology.num_devices()),
                               asked, recipe);
  if (local_dispatch) run.model = with_token_groups(run.model, recipe.shape(true).sequence.token_groups);
  OpenPlan open{graph_of_text(problem, run.model), topology_of_problem(problem), {}};
  open.plan = plan_for(*problem, run.model, *open.graph, "recipe");
  open.plan.options.microbatches = run.microbatches;
  open.plan.runtime = with_policies(problem->runtime, recipe);
  apply_recipe(recipe, RecipeModel(*open.graph), *open.topology, open.plan);
  return open;
}

OpenPlan plan_on(const std::shared_ptr<const Problem>& problem, const OperatorGraph& graph, Plan plan) {
  const bool same = plan.model_fingerprint == problem->graph.fingerprint();
  return {same ? graph_of(problem) : std::make_shared<const OperatorGraph>(graph),
          topology_of_problem(problem), std::move(plan)};
}

OperatorId operator_named(const OperatorGraph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.operators(), name, &Operator::name);
  if (found != graph.operators().end())
    return OperatorId(static_cast<std::size_t>(found - graph.operators().begin()));
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  const std::string nearest = did_you_mean(name, names);
  throw InputError(
      fmt::format("unknown operator \"{}\"{}; allowed: {}", name, nearest, list_names(names, 4)));
}

OpenPlan with_config(const OpenPlan& open, OperatorId op, ParallelConfig config) {
  const Operator& changes = open.graph->operators()[op.index()];
  if (const auto reason = illegal(changes, config, *open.topology))
    throw InputError(prefixed(changes, *reason));
  OpenPlan changed = open;
  changed.plan.strategy[op.index()] = std::move(config);
  changed.plan.found_by = "";
  changed.plan.recipe = "";
  const PlanOptions& options = open.plan.options;  // which may ask for more than that the config is legal
  if (options.pipeline || options.state_sharding.any() || options.recompute.kind != Recompute::Kind::None)
    require_legal(changed);
  return changed;
}

OpenPlan with_config(const OpenPlan& open, std::string_view name, const NamedConfig& config) {
  const OperatorId op = operator_named(*open.graph, name);
  return with_config(open, op, config_of(open.graph->operators()[op.index()], config, *open.topology));
}

std::string plan_file_of(const OpenPlan& open) {
  Plan plan = open.plan;
  plan.recipe =
      recognised_recipe(plan.strategy, plan.options, RecipeModel(*open.graph), *open.topology, plan.runtime);
  return to_json(plan, *open.graph, *open.topology);
}

}  // namespace pipesim
