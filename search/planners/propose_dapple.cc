#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "search/baselines/baselines.h"
#include "search/baselines/placement.h"
#include "search/evaluator.h"
#include "search/pipelines/layer_clusters.h"
#include "search/pipelines/layer_graph.h"
#include "search/pipelines/listed_stages.h"
#include "search/planners/dapple.h"
#include "search/planners/planner.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// More units of devices than these, each of which a stage may have, take the planner minutes.
constexpr std::int64_t kMostUnits = 64;
constexpr std::size_t kFewKept = 2;
// Steps for one number of copies, which take seconds.
constexpr std::int64_t kMostExactSteps = 3'000'000, kMostQuickSteps = 500'000;
// A model of more operators is planned in clusters of them: by the published score, or for the simulator.
constexpr std::int32_t kMostLayers = 100, kMostSimulatedLayers = 40;
// A plan that DAPPLE's model takes for so much slower than its best is not simulated.
constexpr double kSlowest = 1.5;
constexpr std::size_t kMostSimulated = 24, kMostTried = 12;  // plans; those that all schedules are tried for

DappleProblem problem_of(const PlanRequest& request, const LayerGraph& layers) {
  DappleProblem problem{&layers, request.graph().batch(), {}, 1, 1};
  for (std::size_t d = 0; d < request.topology().num_devices(); ++d)
    problem.server_of.push_back(request.topology().device(DeviceId(d)).node);
  problem.batch = request.samples();
  const auto devices = static_cast<std::int64_t>(request.topology().num_devices());
  problem.microbatch = request.settings.copy_microbatch.value_or(
      largest_divisor(problem.batch, std::max<std::int64_t>(1, request.graph().batch() / devices)));
  if (problem.batch % problem.microbatch != 0)
    throw UsageError(fmt::format("search: a batch of {} does not divide into microbatches of {}",
                                 problem.batch, problem.microbatch));
  problem.traffic = sharding_traffic(request.graph(), request.options());
  return problem;
}

std::vector<std::int64_t> possible_copies(const PlanRequest& request, const DappleProblem& problem,
                                          std::string& note) {
  const auto devices = static_cast<std::int64_t>(problem.server_of.size());
  std::vector<std::int64_t> copies;
  for (std::int64_t c = devices; c >= 1; --c) {
    if (devices % c != 0 || problem.batch % (c * problem.microbatch) != 0 ||
        !request.takes_batch(c * problem.microbatch))
      continue;
    if (devices / c <= kMostUnits) {
      copies.push_back(c);
    } else {
      note = fmt::format("pipelines whose stages share no factor of {} in their replicas were left out",
                         copies.empty() ? c : copies.back());
      break;
    }
  }
  return copies;
}

// Finds the least latency by the published model. A quick search comes first, so that the exact one looks at
// less.
DapplePlan best_by_paper(const DappleProblem& problem, const std::vector<std::int64_t>& copies,
                         bool& complete) {
  DapplePlan best;
  best.latency = Seconds(std::numeric_limits<double>::infinity());
  for (const std::size_t most_kept : {kFewKept, std::size_t{0}}) {
    for (const std::int64_t c : copies) {
      std::vector<DapplePlan> found =
          dapple(problem,
                 {c, static_cast<std::int32_t>(problem.server_of.size()), best.latency, most_kept,
                  most_kept == 0 ? kMostExactSteps : kMostQuickSteps},
                 &complete);
      if (!found.empty()) best = std::move(found.back());
    }
  }
  return best;
}

// What is planned for, and the layer of every operator.
struct LayeredModel {
  DappleProblem problem;
  std::vector<std::int32_t> layer_of;
};

// The model with the batch that runs through so many copies together.
struct Copies {
  OperatorGraph graph;
  PlanOptions options;
  const std::vector<std::int32_t>& layer_of;  // by operator
};

[[noreturn]] void refuse_microbatches(std::int64_t found) {
  throw InputError(fmt::format("dapple: {} microbatches, allowed: up to {}; make --microbatch larger", found,
                               kMostMicrobatches));
}

Copies copies_of(const PlanRequest& request, const LayeredModel& layers, std::int64_t copies) {
  const DappleProblem& problem = layers.problem;
  const std::int64_t microbatches = problem.microbatches(copies);
  if (microbatches > kMostMicrobatches) refuse_microbatches(microbatches);
  Copies made{request.with_batch(problem.microbatch * copies), request.options(), layers.layer_of};
  made.options.microbatches = static_cast<std::int32_t>(microbatches);
  return made;
}

PlannedModel planned_of(const PlanRequest& request, const Copies& copies, const DapplePlan& plan,
                        const std::string& schedule) {
  std::vector<StageGroup> groups;
  std::vector<std::int32_t> last_layers;
  for (const DappleStage& stage : plan.stages) {
    groups.push_back(stage.devices);
    last_layers.push_back(stage.last);
  }
  PlannedModel planned(
      copies.graph, copies.options,
      data_parallel_stages(copies.graph, request.topology(),
                           {schedule, stages_of_layers(copies.layer_of, last_layers)}, groups));
  planned.batch = copies.graph.batch();
  for (const DappleStage& stage : plan.stages)
    planned.devices.push_back(static_cast<std::int64_t>(stage.devices.size()));
  return planned;
}

PlannerObjective objective_of(const DappleProblem& problem, const DapplePlan& plan) {
  const double speedup = time_on_one_device(problem) / plan.latency;
  PlannerObjective objective{"times", speedup, fmt::format("{:.6f} times as fast as one device", speedup)};
  if (plan.stages.size() == 1) return objective;
  const int factor = dapple_activation_factor(plan.stages.size());
  objective.activation_factor = factor;
  objective.text += fmt::format(", with activations counted {} where they hold up the pipeline",
                                factor == 1 ? "once" : "twice");
  return objective;
}

PlannerAnswer propose_by_paper(const PlanRequest& request, const LayeredModel& layers,
                               const std::vector<std::int64_t>& copies) {
  const DappleProblem& problem = layers.problem;
  bool complete = true;
  const DapplePlan plan = best_by_paper(problem, copies, complete);
  PlannerAnswer answer{
      planned_of(request, copies_of(request, layers, plan.copies), plan, request.settings.schedule)};
  if (!complete) answer.note = "looking was cut short: the score may allow a better plan";
  answer.objective = objective_of(problem, plan);
  return answer;
}

std::vector<ListedStage> wanted_stages(const PlanRequest& request) {
  if (!request.settings.listed.empty()) return request.settings.listed;
  const auto devices = static_cast<std::int64_t>(request.topology().num_devices());
  const std::int64_t stages = request.settings.stages;
  if (devices % stages != 0)
    throw InputError(
        fmt::format("dapple: {} do not divide {}", counted(stages, "stage"), counted(devices, "device")));
  return std::vector<ListedStage>(static_cast<std::size_t>(stages), {devices / stages, ""});
}

// Stages as they were asked for, in as many copies as the published score likes best.
PlannerAnswer propose_stages(const PlanRequest& request, const LayeredModel& layers,
                             const std::vector<std::int64_t>& possible, bool by_paper) {
  const DappleProblem& problem = layers.problem;
  const std::vector<ListedStage> stages = wanted_stages(request);
  const std::vector<StageGroup> groups = stage_devices(request.topology(), stages);
  // Layers come in the order of operators, but for those that were left out, which take no time.
  std::vector<double> seconds;
  std::vector<std::int32_t> layers_until;  // by operator: up to and with it
  std::int32_t next = 0;
  for (const Operator& op : request.graph().operators()) {
    const bool is_layer =
        next < static_cast<std::int32_t>(problem.layers->size()) && (*problem.layers)[next].name == op.name;
    seconds.push_back(is_layer ? ((*problem.layers)[next].forward + (*problem.layers)[next].backward).value
                               : 0);
    if (is_layer) ++next;
    layers_until.push_back(next);
  }
  DapplePlan plan;
  std::int32_t first = 0;
  for (const std::int32_t last : last_operators(request.graph(), seconds, stages)) {
    const std::int32_t end = layers_until[static_cast<std::size_t>(last)];
    if (end == first)
      throw InputError(
          fmt::format("dapple: stage {} holds nothing but inputs, which get no stage; it ends with \"{}\"",
                      plan.stages.size(), request.graph().operators()[static_cast<std::size_t>(last)].name));
    plan.stages.push_back({first, end - 1, groups[plan.stages.size()]});
    first = end;
  }
  for (const std::int64_t c : possible) {
    if (std::ranges::any_of(stages, [&](const ListedStage& s) { return s.devices % c != 0; })) continue;
    const Seconds latency = dapple_latency(problem, c, plan.stages);
    if (plan.latency.value > 0 && latency >= plan.latency) continue;
    plan.latency = latency;
    plan.copies = c;
  }
  if (plan.latency.value == 0)
    throw InputError("dapple: the stages' devices and the batch suit no number of copies");
  PlannerAnswer answer{
      planned_of(request, copies_of(request, layers, plan.copies), plan, request.settings.schedule)};
  answer.objective = objective_of(problem, plan);
  if (!by_paper && plan.stages.size() > 1) choose_schedule(request, answer);
  return answer;
}

// A plan of each number of copies and stages, judged by the simulator.
struct DappleTrial {
  DapplePlan plan;
  std::string schedule;
  Evaluation evaluation;
  std::size_t devices_used = 0;
};

PlannerTrials told(const std::vector<DappleTrial>& trials, bool stopped) {
  PlannerTrials all;
  all.of = PlannerTrials::Of::ReplicatedStages;
  all.some_not_simulated = stopped;
  for (const DappleTrial& t : trials) {
    PlannerTrial& trial = all.tried.emplace_back();
    trial.schedule = t.schedule;
    trial.evaluation = t.evaluation;
    trial.devices_used = t.devices_used;
    trial.copies = t.plan.copies;
    for (const DappleStage& stage : t.plan.stages) trial.replicas.push_back(stage.devices.size());
  }
  return all;
}

// The models of all numbers of copies that were asked for; what is bound once serves all plans and schedules.
class CopiedModels {
 public:
  CopiedModels(const PlanRequest& request, const LayeredModel& layers) : request_(request), layers_(layers) {}

  const Copies& of(std::int64_t copies) {
    const auto known = models_.find(copies);
    return known != models_.end()
               ? known->second
               : models_.emplace(copies, copies_of(request_, layers_, copies)).first->second;
  }

  void try_schedule(const DapplePlan& plan, const std::string& schedule, std::vector<DappleTrial>& trials) {
    PlannedModel planned = planned_of(request_, of(plan.copies), plan, schedule);
    if (auto reason = illegal(planned.graph, planned.strategy, planned.options, request_.topology())) {
      if (refusal_.empty())
        refusal_ = fmt::format("of {}: {}", counted(static_cast<std::int64_t>(plan.stages.size()), "stage"),
                               *reason);
      return;
    }
    const auto [at, is_new] =
        evaluators_.try_emplace(plan.copies, of(plan.copies).graph, request_.costs, planned.options);
    constexpr Bytes kMostBound(500'000'000);
    at->second.forget(kMostBound);
    const Evaluation evaluation =
        at->second.with(std::move(planned.options.pipeline), std::move(planned.options.recompute))
            .evaluate(planned.strategy);
    trials.push_back({plan, schedule, evaluation, devices_used(planned.strategy, request_.topology())});
  }
  // Says why the first plan that was left out is illegal; of those left out, the score likes it most.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  const PlanRequest& request_;
  const LayeredModel& layers_;
  std::map<std::int64_t, Copies> models_;
  std::map<std::int64_t, Evaluator> evaluators_;
  std::string refusal_;
};

// Returns what DAPPLE's model takes for the fastest, for every number of copies and stages: of all plans,
// then of those whose replicas divide a microbatch, since others will use fewer devices than the model
// believes. Where transfers hold up the pipeline it leaves out what the simulator likes, so it runs again
// without that.
std::vector<DapplePlan> most_promising(const DappleProblem& problem,
                                       const std::vector<std::int64_t>& possible) {
  DappleSearch search;
  search.most_stages = static_cast<std::int32_t>(problem.server_of.size());
  search.most_kept = kFewKept;
  search.most_steps = kMostQuickSteps;  // what comes of it is simulated anyway
  std::vector<DapplePlan> all;
  for (const bool computing_alone : {false, true}) {
    search.computing_alone = computing_alone;
    search.of_each_number = search.dividing = false;
    search.below = Seconds(std::numeric_limits<double>::infinity());
    for (const std::int64_t c : possible) {
      search.copies = c;
      for (const DapplePlan& best : dapple(problem, search)) search.below = best.latency;
    }
    search.below = kSlowest * search.below;
    search.of_each_number = true;
    for (const bool dividing : {false, true}) {
      search.dividing = dividing;
      std::vector<DapplePlan> plans;
      for (const std::int64_t c : possible) {
        search.copies = c;
        std::ranges::move(dapple(problem, search), std::back_inserter(plans));
      }
      std::ranges::stable_sort(plans, {}, &DapplePlan::latency);
      std::erase_if(plans, [&](const DapplePlan& plan) {
        return std::ranges::any_of(
            all, [&](const DapplePlan& p) { return p.copies == plan.copies && p.stages == plan.stages; });
      });
      if (plans.size() > kMostSimulated) plans.resize(kMostSimulated);
      std::ranges::move(plans, std::back_inserter(all));
    }
  }
  return all;
}

// Simulates plans under one schedule, and the best of them under all.
PlannerAnswer propose_by_simulation(const PlanRequest& request, const LayeredModel& layers,
                                    const std::vector<std::int64_t>& possible) {
  const DappleProblem& problem = layers.problem;
  std::vector<DappleTrial> trials;
  std::int64_t too_many = 0;  // microbatches
  CopiedModels models(request, layers);
  const auto rank = [&] {
    std::ranges::stable_sort(trials, {}, [](const DappleTrial& t) {
      return std::tuple(t.evaluation.overflow, t.evaluation.time);
    });
  };
  bool stopped = false;
  const auto in_time = [&](const auto& simulate_one) {
    try {
      if (!stopped) simulate_one();
    } catch (const OutOfTime&) {
      if (trials.empty()) throw;
      stopped = true;
    }
    return !stopped;
  };
  for (const DapplePlan& plan : most_promising(problem, possible)) {
    if (problem.microbatches(plan.copies) > kMostMicrobatches) {
      too_many = problem.microbatches(plan.copies);
      continue;
    }
    if (!in_time([&] { models.try_schedule(plan, request.settings.schedule, trials); })) break;
    request.status(fmt::format("{} pipelines were simulated", trials.size()));
  }
  if (trials.empty() && too_many > 0) refuse_microbatches(too_many);
  if (trials.empty())
    throw InputError(fmt::format("dapple: no pipeline that the score likes suits; {}", models.refusal()));
  rank();
  const std::vector<DappleTrial> best(
      trials.begin(), trials.begin() + static_cast<std::ptrdiff_t>(std::min(trials.size(), kMostTried)));
  for (const DappleTrial& t : best) {
    for (const std::string& schedule : request.settings.schedules) {
      if (schedule == t.schedule || schedule_kind(schedule).takes_chunks || t.plan.stages.size() == 1)
        continue;
      if (!in_time([&] { models.try_schedule(t.plan, schedule, trials); })) break;
    }
  }
  rank();
  PlannerAnswer answer{planned_of(request, models.of(trials.front().plan.copies), trials.front().plan,
                                  trials.front().schedule)};
  answer.trials = told(trials, stopped);
  return answer;
}

void add_sentence(std::string& note, const std::string& sentence) {
  if (!note.empty() && !sentence.empty()) note += "; ";
  note += sentence;
}

}  // namespace

PlannerAnswer propose_dapple(const PlanRequest& request) {
  LayerGraph graph = without_inputs(layers_of(request.graph(), request.costs, DeviceId(0)));
  if (graph.size() == 0)
    throw InputError(fmt::format("dapple: model \"{}\" has no layers but inputs", request.graph().name()));
  std::vector<std::int32_t> cluster_of(graph.size());
  std::iota(cluster_of.begin(), cluster_of.end(), 0);
  std::string note;
  const PlannerSettings& settings = request.settings;
  const bool by_paper = settings.published_cost;
  const bool as_asked = settings.stages > 0 || !settings.listed.empty();
  const std::int32_t most_layers = by_paper ? kMostLayers : kMostSimulatedLayers;
  if (!as_asked && graph.size() > static_cast<std::size_t>(most_layers)) {
    cluster_of = cluster_layers(graph, most_layers);
    note = fmt::format("{} operators in {} clusters were planned for", graph.size(), most_layers);
  }
  LayeredModel layers{{}, of_operators(request.graph(), graph, cluster_of)};
  if (!note.empty()) graph = clustered(graph, cluster_of);
  layers.problem = problem_of(request, graph);
  const std::vector<std::int64_t> copies = possible_copies(request, layers.problem, note);
  if (copies.empty())
    throw InputError(
        "dapple: no number of copies divides devices and microbatches and gives the model a batch that it "
        "can have");
  PlannerAnswer answer = as_asked   ? propose_stages(request, layers, copies, by_paper)
                         : by_paper ? propose_by_paper(request, layers, copies)
                                    : propose_by_simulation(request, layers, copies);
  if (answer.plan.options.microbatches != request.microbatches())
    add_sentence(note, fmt::format("the planner chose {} microbatches", answer.plan.options.microbatches));
  add_sentence(note, answer.note);
  answer.note = std::move(note);
  return answer;
}

}  // namespace pipesim
