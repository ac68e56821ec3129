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

PlannerSettings settings_for(const Problem& problem, const Algorithm& algorithm, const PlanQuestion& asked) {
  require_taken(algorithm, "proposals", asked.proposals.has_value());
  require_taken(algorithm, "seed", asked.seed.has_value());
  require_taken(algorithm, "threads", asked.threads.has_value());
  if (!(asked.seconds >= 0))
    throw UsageError(fmt::format("seconds: found {}, allowed: 0 (no limit) and more", asked.seconds));
  if (asked.proposals.value_or(1) < 1 || asked.threads.value_or(1) < 1)
    throw UsageError("proposals, threads: allowed: from 1 on");
  PlannerSettings settings;
  settings.schedules = plan_schedules();
  settings.layers = algorithm.usual_layers;
  settings.pipedream.repaired = true;
  settings.pipedream.activation_compression = 1;
  settings.tries_pipelines = !algorithm.splits_alone || problem.options.microbatches > 1;
  settings.budget = {asked.seconds, asked.proposals.value_or(0)};
  settings.threads = asked.threads.value_or(available_cores());
  settings.chains.seed = asked.seed.value_or(settings.chains.seed);
  settings.chains.threads = std::min(settings.threads, static_cast<int>(settings.chains.chains));
  if (!settings.tries_pipelines && algorithm.makes_stages && problem.runtime != Runtime())
    throw UsageError(fmt::format("runtime {} with the algorithm {}, allowed: pipesim, other algorithms",
                                 problem.runtime.name, algorithm.name));
  if (algorithm.splits_alone) require_room(problem.graph, problem.topology, problem.options);
  return settings;
}

}  // namespace

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
  Runtime runtime = problem_->runtime;
  if (algorithm_.ranks_recipes || (algorithm_.asks_others && has_recipes(problem_->graph))) {
    settings_.recipes = recipe_filter_of(nullptr, std::nullopt, problem_->model, {}, problem_->runtime);
    runtime = with_overlap_of(std::move(runtime), settings_.recipes);
  }
  const CostModel costs(problem_->topology, calibration_.get(), runtime);
  PlanRequest request = request_of(*problem_, settings_, costs);
  Watch watch(*this);
  request.status = [&](std::string_view text) { watch.show(text); };
  request.observer = &watch;
  const double seconds =
      settings_.budget.seconds > 0 ? settings_.budget.seconds : std::numeric_limits<double>::infinity();
  const Deadline until(seconds, {}, watch.interruption());
  try {
    const PlannerAnswer answer = plan(request, algorithm_, until);
    if (const Recipe* recipe = recipe_of_plan(*problem_, answer))
      runtime = with_policies(problem_->runtime, *recipe);
    Plan made = plan_of(*problem_, answer, std::move(runtime));
    FoundPlan& found = found_.emplace();
    found.found_by = answer.found_by;
    found.note = answer.note;
    found.proven = answer.proven;
    found.seconds = answer.seconds;
    found.lower_bound = answer.lower_bound;
    const CostModel costs_of_plan(problem_->topology, calibration_.get(), made.runtime);
    try {
      if (!found.lower_bound && has_bound(costs_of_plan, made.options))
        found.lower_bound = lower_bound(answer.plan.graph, costs_of_plan, made.options);
    } catch (const OutOfTime&) {  // the plan is told without it
    }
    found.plan = std::make_shared<OpenPlan>(plan_on(problem_, answer.plan.graph, std::move(made)));
  } catch (const NoPlanFound&) {
    if (!stop_requested()) throw;
    throw Interrupted(fmt::format("{}: ended before it had a plan", algorithm_.name));
  }
}

}  // namespace pipesim
