#include "search/auto/planner_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "search/auto/sized_model.h"
#include "search/baselines/baselines.h"
#include "search/recipes/expand_recipe.h"

namespace pipesim {
namespace {

// Baselines, data parallelism in other numbers of microbatches, planners, and splits of least sum end at
// these shares of the time that the deadline leaves at the beginning. A planner may take two of the shares
// that are left; it has more of them in the number of microbatches that was asked for.
constexpr double kBaselinesEnd = 0.15, kDataParallelEnd = 0.2, kPlannersEnd = 0.5, kIntraEnd = 0.6;
// The last two where a search over splits comes before them.
constexpr double kPlannersEndBehind = 0.75, kIntraEndBehind = 0.8;
constexpr double kSharesOfPlanner = 2, kSharesAsAsked = 4;
// Recipes are ranked until these shares of the time, where all else is asked too and where it is not, but for
// no longer than kLongestRanking.
constexpr double kRecipesEnd = 0.6, kRecipesAloneEnd = 1;
constexpr double kLongestRanking = 600;  // seconds
constexpr std::size_t kManyOperators = 50'000;
// Planners that had too little time go on until this share, where the model is too large for a search over
// splits.
constexpr double kLatePlannersEnd = 0.85;

}  // namespace

PlannerTurns::PlannerTurns(Contest& contest)
    : contest_(contest),
      request_(contest.request()),
      has_recipes_(pipesim::has_recipes(request_.graph()) && !contest.chains().recomputes_stages),
      only_recipes_(has_recipes_ && request_.graph().operators().size() * request_.topology().num_devices() >
                                        kManyOperators) {}

void PlannerTurns::ask_baselines() {
  if (only_recipes_) return;
  const auto names = baseline_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    contest_.ask_baseline(std::string(names[i]),
                          contest_.left_until(kBaselinesEnd) / static_cast<double>(names.size() - i));
}

void PlannerTurns::ask_recipes() {
  if (has_recipes_) rank_recipes();
  if (!only_recipes_ || contest_.found().best() != nullptr) return;
  only_recipes_ = false;
  ask_baselines();
}

void PlannerTurns::rank_recipes() {
  const double seconds =
      std::min(kLongestRanking, contest_.left_until(only_recipes_ ? kRecipesAloneEnd : kRecipesEnd));
  std::string none_left;
  contest_.ask("recipes", seconds, [&](std::string& note) {
    PlannerAnswer answer = ranked(none_left);
    note = answer.note;
    const PlannedModel& planned = answer.plan;
    JointPlan plan = joint_plan(planned.graph, request_.topology(), planned.options.microbatches,
                                planned.strategy, planned.options.pipeline);
    plan.set_policies(planned.options);
    plan.sequence = planned.sequence;
    ranking_ = std::move(answer.recipes);
    return Contest::Found{std::move(plan), answer.scored, false};
  });
  // A user who asks for some recipes wants no other plan where there are none of them.
  if (!none_left.empty() && request_.settings.recipes_are_asked) throw InputError(none_left);
}

// Throws where conditions leave no recipe, and sets `none_left` to the reason.
PlannerAnswer PlannerTurns::ranked(std::string& none_left) {
  try {
    return propose_recipes(request_, contest_.progress_of("recipes"));
  } catch (const NoRecipeLeft& none) {
    none_left = none.what();
    throw;
  }
}

bool PlannerTurns::begins_with_splits() const {
  return contest_.until().limited() && request_.settings.budget.proposals == 0 && !has_recipes_;
}

void PlannerTurns::ask_simple_plans() {
  ask_data_parallel();
  ask_recipe();
}

// With the same samples, more microbatches need less memory, and fewer are synchronised less often.
void PlannerTurns::ask_data_parallel() {
  if (only_recipes_) return;
  const std::string name = "data-parallel";
  for (const std::int32_t microbatches : other_microbatches(request_.microbatches())) {
    const OperatorGraph* graph = contest_.evaluator().graph(microbatches);
    if (graph == nullptr || contest_.until().passed()) continue;
    contest_.ask(
        contest_.name_with(name, microbatches), contest_.left_until(kDataParallelEnd), [&](std::string&) {
          return Contest::Found{joint_plan(*graph, request_.topology(), microbatches,
                                           baseline_strategy(name, *graph, request_.costs), std::nullopt)};
        });
  }
}

void PlannerTurns::ask_recipe() {
  if (!contest_.chains().recipe) return;
  const Recipe& recipe = *contest_.chains().recipe;
  contest_.ask("recipe " + recipe.str(), contest_.left_until(kDataParallelEnd), [&](std::string&) {
    const RecipeStrategy made = expand_recipe(recipe, RecipeModel(request_.graph()), request_.topology());
    return Contest::Found{joint_plan(request_.graph(), request_.topology(), request_.microbatches(),
                                     made.strategy, made.pipeline)};
  });
}

// With the microbatches that were asked for, then with more and fewer of them.
void PlannerTurns::ask_planners() {
  if (only_recipes_) return;
  std::vector<Ask> asks;
  std::vector<std::int32_t> numbers;
  for (const std::int32_t microbatches : other_microbatches(request_.microbatches())) {
    if (contest_.evaluator().graph(microbatches) != nullptr) numbers.push_back(microbatches);
  }
  for (const Algorithm& planner : stage_planners()) asks.push_back({&planner, request_.microbatches()});
  for (const Algorithm& planner : stage_planners()) {
    for (const std::int32_t microbatches : numbers) asks.push_back({&planner, microbatches});
  }
  late_ = ask_each(asks, begins_with_splits() ? kPlannersEndBehind : kPlannersEnd);
}

void PlannerTurns::ask_intra() {
  if (only_recipes_) return;
  contest_.ask(
      "intra", contest_.left_until(begins_with_splits() ? kIntraEndBehind : kIntraEnd), [&](std::string&) {
        const PlannerAnswer answer = propose_intra(request_);
        return Contest::Found{joint_plan(request_.graph(), request_.topology(), request_.microbatches(),
                                         answer.plan.strategy, std::nullopt),
                              answer.scored};
      });
}

void PlannerTurns::ask_late_planners() { late_ = ask_each(late_, kLatePlannersEnd); }

// Asks until this share of the time has passed. Returns those that had too little time.
std::vector<PlannerTurns::Ask> PlannerTurns::ask_each(const std::vector<Ask>& asks, double end) {
  const auto shares = [&](const Ask& ask) {
    return ask.microbatches == request_.microbatches() ? kSharesAsAsked : 1;
  };
  double shares_left = 0;
  for (const Ask& ask : asks) shares_left += shares(ask);
  std::vector<Ask> late;
  for (const Ask& ask : asks) {
    const double left = contest_.left_until(end),
                 share = std::min(1.0, kSharesOfPlanner * shares(ask) / shares_left);
    shares_left -= shares(ask);
    if (left <= 0 || contest_.until().passed() || !ask_planner(*ask.planner, ask.microbatches, share * left))
      late.push_back(ask);
  }
  return late;
}

// Returns what is asked for, in so many microbatches, which the model can have.
const Problem& PlannerTurns::problem_with(std::int32_t microbatches) {
  if (microbatches == request_.microbatches()) return request_.problem;
  const auto [at, is_new] = problems_.try_emplace(microbatches, request_.problem);
  if (is_new) {
    at->second.graph = *contest_.evaluator().graph(microbatches);
    at->second.options.microbatches = microbatches;
  }
  return at->second;
}

// False: it had too little time.
bool PlannerTurns::ask_planner(const Algorithm& planner, std::int32_t microbatches, double seconds) {
  const Problem& problem = problem_with(microbatches);
  const auto ask_one = [&](const std::string& name, std::optional<std::int64_t> copy_microbatch) {
    return contest_.ask(name, seconds, [&](std::string&) {
      PlanRequest sized{problem,           request_.costs, request_.with_batch, request_.takes_batch,
                        request_.settings, request_.status};
      sized.settings.copy_microbatch = copy_microbatch;
      PlannedModel planned = planner.propose(sized).plan;
      JointPlan plan{{},
                     planned.options.microbatches,
                     *std::move(planned.options.pipeline),
                     std::move(planned.meshes),
                     {}};
      plan.scheduled = plan.pipeline.num_stages() == 1;
      plan.own =
          own_configs(planned.graph, request_.topology(), plan.pipeline, plan.meshes, planned.strategy);
      return Contest::Found{std::move(plan)};
    });
  };
  const bool had_time = ask_one(contest_.name_with(planner.name, microbatches), std::nullopt);
  const std::optional<std::int64_t> of_copy = request_.settings.copy_microbatch;
  if (planner.copies_pipelines && of_copy && microbatches == request_.microbatches())
    ask_one(fmt::format("{}, --microbatch a copy", planner.name), of_copy);
  return had_time;
}

}  // namespace pipesim
