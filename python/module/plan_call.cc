#include "python/module/plan_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "search/lower_bound/lower_bound.h"
#include "sim/base/cores.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/searching/plan_request.h"
#include "tools/interop/framework/open_run.h"

namespace pipesim {
namespace {

const Algorithm& asked_algorithm(const std::string& name) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) names.emplace_back(algorithm.name);
  if (std::ranges::find(names, name) == names.end())
    throw UsageError(fmt::format("algorithm: found \"{}\"{}, allowed: {}", name, did_you_mean(name, names),
                                 list_names(names)));
  return algorithm_named(name);
}

void require_taken(const Algorithm& algorithm, const char* setting, bool asked) {
  if (asked && std::ranges::find(algorithm.settings, setting) == algorithm.settings.end())
    throw UsageError(fmt::format("{}: does not go with the algorithm {}", setting, algorithm.name));
}

// What an algorithm that ranks recipes among others may answer with.
std::vector<RecipeCondition> conditions_of(const PlanOptions& options, const Algorithm& algorithm) {
  std::vector<RecipeCondition> conditions;
  if (!algorithm.asks_others) return conditions;
  const Recompute::Kind again = options.recompute.kind;
  if (again != Recompute::Kind::None && again != Recompute::Kind::Stage)
    conditions.push_back(parse_recipe_condition("recompute=" + options.recompute.str(), false));
  if (options.state_sharding.any())
    conditions.push_back(
        parse_recipe_condition(fmt::format("zero={}", static_cast<int>(options.state_sharding.kind)), false));
  return conditions;
}

PlannerSettings settings_for(const Problem& problem, const Algorithm& algorithm, const PlanQuestion& asked) {
  require_taken(algorithm, "proposals", asked.proposals.has_value());
  require_taken(algorithm, "seed", asked.seed.has_value());
  require_taken(algorithm, "threads", asked.threads.has_value());
  if (!(asked.seconds >= 0))
    throw UsageError(fmt::format("seconds: found {}, allowed: 0 (no limit) and more", asked.seconds));
  if (algorithm.ranks_recipes) refuse_parts_of_recipes(problem.options);
  const Recompute& recompute = problem.options.recompute;
  const bool of_stages = recompute.kind == Recompute::Kind::Stage;
  PlannerSettings settings;
  settings.schedules = plan_schedules();
  settings.layers = algorithm.usual_layers;
  settings.pipedream.repaired = true;
  settings.pipedream.activation_compression = 1;
  settings.tries_pipelines = !algorithm.splits_alone || problem.options.microbatches > 1;
  settings.budget = {asked.seconds, asked.proposals.value_or(0)};
  settings.threads = asked.threads.value_or(available_cores());
  settings.chains.recomputes_stages = of_stages;
  settings.chains.seed = asked.seed.value_or(settings.chains.seed);
  settings.chains.threads = std::min(settings.threads, static_cast<int>(settings.chains.chains));
  if (!settings.tries_pipelines && algorithm.makes_stages && problem.runtime != Runtime())
    throw UsageError(fmt::format("runtime {} with the algorithm {}, allowed: pipesim, other algorithms",
                                 problem.runtime.name, algorithm.name));
  if (of_stages && !(settings.tries_pipelines && algorithm.makes_stages))
    throw UsageError(
        fmt::format("recompute: found \"stage\", allowed with the algorithm {}, which makes no stages: none, "
                    "selective, full",
                    algorithm.name));
  if (algorithm.splits_alone) require_room(problem.graph, problem.topology, problem.options);
  return settings;
}

}  // namespace

void refuse_parts_of_recipes(const PlanOptions& options) {
  const auto refuse = [](const char* name, const std::string& found, const char* allowed) {
    throw UsageError(
        fmt::format("{}: found \"{}\", allowed: \"{}\", since recipes choose that", name, found, allowed));
  };
  if (options.recompute.kind != Recompute::Kind::None)
    refuse("recompute", in_words(options.recompute), "none");
  if (options.state_sharding.any()) refuse("state_sharding", options.state_sharding.str(), "none");
  if (options.gathered_inputs != GatheredInputs::Keep)
    refuse("gathered_inputs", std::string(name_of(options.gathered_inputs)), "keep");
}

// Passes the search's progress on, and asks it to end.
class PlanCall::Watch final : public SearchObserver {
 public:
  explicit Watch(PlanCall& call) : call_(call) {}
  void expect(const SearchBudget& budget, std::optional<Nanoseconds> lower_bound) override {
    budget_ = budget;
    lower_bound_ = lower_bound;
  }
  [[nodiscard]] ProgressCallback callback() override {
    return [this](const SearchProgress& progress) {
      if (is_due()) call_.report(progress_of(progress, budget_, lower_bound_));
      return !stop_requested();
    };
  }
  void finish(const SearchOutcome& /*outcome*/) override {}
  [[nodiscard]] bool interrupted() const override { return call_.stop_requested(); }
  bool stop_requested() override { return interrupted(); }
  [[nodiscard]] std::function<bool()> interruption() const override {
    return [this] { return call_.stop_requested(); };
  }
  void show(std::string_view status) {
    if (!status.empty() && is_due()) call_.report({std::string(status), {}, {}});
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due() {
    constexpr std::chrono::milliseconds kBetween{100};
    const Clock::duration now = Clock::now().time_since_epoch();
    if (now < Clock::duration(next_.load())) return false;
    next_ = (now + kBetween).count();
    return true;
  }

  PlanCall& call_;
  SearchBudget budget_;
  std::optional<Nanoseconds> lower_bound_;
  std::atomic<Clock::rep> next_ = 0;
};

PlanCall::PlanCall(std::shared_ptr<const Problem> problem, std::shared_ptr<const Calibration> calibration,
                   const PlanQuestion& question)
    : problem_(std::move(problem)),
      calibration_(std::move(calibration)),
      algorithm_(asked_algorithm(question.algorithm)),
      settings_(settings_for(*problem_, algorithm_, question)) {}

void PlanCall::work() {
  if (algorithm_.ranks_recipes || (algorithm_.asks_others && has_recipes(problem_->graph)))
    settings_.recipes = recipe_filter_of(nullptr, std::nullopt, problem_->model,
                                         conditions_of(problem_->options, algorithm_), problem_->runtime);
  const CostModel costs(problem_->topology, calibration_.get(), problem_->runtime);
  PlanRequest request = request_of(*problem_, settings_, costs);
  Watch watch(*this);
  request.status = [&](std::string_view text) { watch.show(text); };
  request.observer = &watch;
  const double seconds =
      settings_.budget.seconds > 0 ? settings_.budget.seconds : std::numeric_limits<double>::infinity();
  const Deadline until(seconds, {}, watch.interruption());
  try {
    const PlannerAnswer answer = plan(request, algorithm_, until);
    found_ = told_of(answer, costs);
  } catch (const NoPlanFound&) {
    if (!stop_requested()) throw;
    throw Interrupted(fmt::format("{}: ended before it had a plan", algorithm_.name));
  }
}

// Who asked the search to stop wants what it found: the plan is made without a deadline, the bound is not.
FoundPlan PlanCall::told_of(const PlannerAnswer& answer, const CostModel& costs) const {
  FoundPlan found{nullptr, answer.found_by, answer.note, answer.proven, answer.lower_bound, answer.seconds};
  try {
    if (!found.lower_bound && has_bound(costs, answer.plan.options))
      found.lower_bound = lower_bound(answer.plan.graph, costs, answer.plan.options);
  } catch (const OutOfTime&) {  // the plan is told without it
  }
  const KeepTo no_deadline(static_cast<const Deadline*>(nullptr));
  found.plan = std::make_shared<OpenPlan>(
      plan_on(problem_, answer.plan.graph, plan_of(*problem_, answer, problem_->runtime)));
  return found;
}

}  // namespace pipesim
