#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "search/baselines/baselines.h"
#include "search/exhaustive/exhaustive.h"
#include "search/lower_bound/lower_bound.h"
#include "search/mcmc/mcmc.h"
#include "search/mcmc/search_checkpoints.h"
#include "search/planners/planner.h"
#include "search/recipes/expand_recipe.h"
#include "search/search_json.h"

namespace pipesim {
namespace {

constexpr double kForBaselines = 0.5, kForLowerBound = 0.1;  // at most, of the time
constexpr double kShortestSearch = 1e-6;                     // of a budget in seconds, where 0 is none

// What a search over splits begins with, and the time that it has for each part.
class SplitsRequest {
 public:
  explicit SplitsRequest(const PlanRequest& asked)
      : request(asked),
        observer(*asked.observer),
        whole(deadline_with_stop(observer)),
        seconds_(asked.settings.budget.seconds) {}

  const PlanRequest& request;
  SearchObserver& observer;
  const Deadline whole;
  std::vector<Baseline> baselines;  // and the recipe to begin with

  // Scores the baselines. How long that took tells how long a report may take, for which more time is left.
  void score() {
    const double before = whole.left();
    {
      const Deadline until = part(kForBaselines);
      const KeepTo keep(until);
      Evaluator evaluator(request.graph(), request.costs, request.options());
      baselines = score_baselines(evaluator);
      if (request.settings.chains.recipe)
        baselines.push_back(scored(*request.settings.chains.recipe, evaluator));
    }
    constexpr double kReports = 2, kKept = 0.1, kLongest = 0.3;
    if (is_limited())
      for_report_ = std::clamp(kReports * (before - whole.left()), kKept * seconds_, kLongest * seconds_) -
                    kKept * seconds_;
  }

  [[nodiscard]] std::optional<Nanoseconds> bound() const {
    if (request.costs.calibrated()) return std::nullopt;  // measured durations may be shorter
    const Deadline until = part(kForLowerBound);
    const KeepTo keep(until);
    try {
      return lower_bound(request.graph(), request.costs, request.options());
    } catch (const OutOfTime&) {
      return std::nullopt;
    }
  }

  [[nodiscard]] bool is_limited() const { return seconds_ > 0; }
  [[nodiscard]] Deadline search() const {
    return is_limited() ? whole.within(std::max(0.0, whole.left() - for_report_)) : whole;
  }
  [[nodiscard]] SearchBudget budget(const Deadline& until) const {
    SearchBudget budget = request.settings.budget;
    if (is_limited()) budget.seconds = std::max(kShortestSearch, until.left());
    return budget;
  }

 private:
  [[nodiscard]] Deadline part(double share) const {
    return is_limited() ? whole.within(share * seconds_) : whole;
  }

  [[nodiscard]] Baseline scored(const Recipe& recipe, Evaluator& evaluator) const {
    Strategy strategy = expand_recipe(recipe, RecipeModel(request.graph()), request.topology()).strategy;
    const Evaluated found = evaluator.evaluate(strategy, {.peaks = true});
    return {recipe.str(), Scored<Strategy>{std::move(strategy), *found.cost},
            memory_shortage(found.peaks, request.topology()).value_or("")};
  }

  double seconds_, for_report_ = 0;
};

// FlexFlow begins with data parallelism alone.
std::vector<SearchStart> starts_of(const std::vector<Baseline>& baselines, bool flexflow_moves) {
  std::vector<SearchStart> starts;
  for (const Baseline& b : baselines) {
    if (b.scored) starts.push_back({b.name, b.scored->plan, b.scored->evaluation});
  }
  const auto is_first = [](const SearchStart& s) { return s.name == "data-parallel"; };
  if (flexflow_moves && std::ranges::any_of(starts, is_first)) std::erase_if(starts, std::not_fn(is_first));
  return starts;
}

// Takes the fastest baseline as the result where it fits and nothing faster was found.
void prefer_baseline(const std::vector<Baseline>& baselines, SearchOutcome& outcome) {
  const Baseline* baseline = fastest_baseline(baselines);
  if (baseline && (!outcome.best || baseline->scored->evaluation.time <= outcome.best->evaluation.time)) {
    outcome.best = baseline->scored;
    outcome.found_by = baseline->name;
  }
}

// Checkpoints number configs of the starts, too.
void require_all_scored(const std::vector<Baseline>& baselines, const std::string& file) {
  for (const Baseline& b : baselines) {
    if (!b.scored)
      throw InputError(
          fmt::format("{}: going on needs all baselines, and there was no time to score {}; allow "
                      "more --seconds",
                      file, b.name));
  }
}

[[noreturn]] void refuse_time(const PlanRequest& request) {
  throw InputError(fmt::format(
      "no plan was scored in the {} s of --seconds; allow more, or ask for --proposals without --seconds",
      request.settings.budget.seconds));
}

[[noreturn]] void refuse(const SplitsRequest& splits) {
  const PlanRequest& request = splits.request;
  const bool interrupted = splits.observer.interrupted();
  const Baseline* b = nearest_baseline(splits.baselines);
  if (!interrupted && !b) refuse_time(request);
  const std::string nearest =
      b ? fmt::format("; the nearest baseline is {} ({})", b->name, b->infeasible) : "";
  const bool late = std::ranges::any_of(splits.baselines, [](const Baseline& x) { return !x.scored; });
  const std::string time = late && !interrupted ? fmt::format(
                                                      "; not all baselines were scored in the {} s of "
                                                      "--seconds, so more may help",
                                                      request.settings.budget.seconds)
                                                : "";
  const MemoryMargin& margin = request.topology().memory_margin();
  const std::string text =
      fmt::format("no plan for model \"{}\" that fits the memory of topology \"{}\"{} was found{}{}",
                  request.graph().name(), request.topology().name(),
                  margin.is_none() ? "" : fmt::format(" with a margin of {}", margin.str()), nearest, time);
  if (interrupted) throw Interrupted(text);
  throw NothingFits(text, *b);
}

PlannerAnswer answer_of(SplitsRequest splits, SearchOutcome outcome) {
  if (!outcome.best) refuse(splits);
  const PlanRequest& request = splits.request;
  PlannerAnswer answer{PlannedModel(request.graph(), request.options(), std::move(outcome.best->plan))};
  answer.scored = outcome.best->evaluation;
  answer.found_by = outcome.found_by;
  answer.proven = outcome.proven;
  answer.seed = request.settings.chains.seed;
  answer.baselines = std::move(splits.baselines);
  answer.record = std::move(outcome);
  return answer;
}

using SearchSplits =
    std::function<SearchOutcome(const SplitsRequest& splits, const CandidateSet& candidates,
                                const std::vector<SearchStart>& starts, const SearchBudget& budget)>;

// Scores the baselines and searches from them on.
PlannerAnswer propose_splits(const PlanRequest& request, const SearchSplits& search) {
  SplitsRequest splits(request);
  try {
    const KeepTo keep_all(splits.whole);
    const CandidateSet candidates(request.graph(), request.topology());
    splits.score();
    const std::optional<Nanoseconds> bound = splits.bound();
    const std::vector<SearchStart> starts =
        starts_of(splits.baselines, request.settings.chains.flexflow_moves);
    SearchOutcome outcome;
    if (const Deadline until = splits.search(); !starts.empty() && !until.passed()) {
      const KeepTo keep(until);
      const SearchBudget budget = splits.budget(until);
      splits.observer.expect(budget, bound);
      outcome = search(splits, candidates, starts, budget);
    }
    prefer_baseline(splits.baselines, outcome);
    static_cast<void>(splits.observer.stop_requested());
    splits.observer.finish(outcome);
    PlannerAnswer answer = answer_of(std::move(splits), std::move(outcome));
    answer.lower_bound = bound;
    return answer;
  } catch (const OutOfTime&) {
    if (!splits.observer.stop_requested()) refuse_time(request);
    splits.observer.finish({});
    throw Interrupted("no plan was scored yet");
  }
}

}  // namespace

PlannerAnswer propose_mcmc(const PlanRequest& request) {
  const ChainSettings& chains = request.settings.chains;
  McmcOptions options;
  options.seed = chains.seed;
  options.threads = chains.threads;
  options.chains = static_cast<int>(chains.chains);
  options.flexflow_moves = chains.flexflow_moves;
  const auto search = [&](const SplitsRequest& splits, const CandidateSet& candidates,
                          const std::vector<SearchStart>& starts, const SearchBudget& budget) {
    options.budget = budget;
    SearchCheckpoints checkpoints(
        chains.checkpoint, chains.checkpoint_every,
        {request.graph(), request.topology(), request.options(), splits.baselines, chains.flexflow_moves});
    if (const std::string& file = chains.resume; !file.empty()) {
      require_all_scored(splits.baselines, file);
      options.resume = checkpoints.load(file, candidates, starts);
      const SearchState& state = *options.resume;
      if (splits.is_limited()) options.budget.seconds += state.seconds;
      if (chains.seed_is_asked) require_choice(file, "seed", chains.seed, state.seed);
      if (chains.chains_are_asked) require_choice(file, "chains", chains.chains, state.chains.size());
      options.seed = state.seed;
      options.chains = static_cast<int>(state.chains.size());
    }
    options.keep = checkpoints.keeper();
    return mcmc(request.graph(), request.costs, request.options(), candidates, starts, options,
                splits.observer.callback());
  };
  PlannerAnswer answer = propose_splits(request, search);
  answer.seed = options.seed;
  return answer;
}

PlannerAnswer propose_all_splits(const PlanRequest& request) {
  return propose_splits(request, [&](const SplitsRequest& splits, const CandidateSet& candidates,
                                     const std::vector<SearchStart>& starts, const SearchBudget& budget) {
    return exhaustive(request.graph(), request.costs, request.options(), candidates, starts, budget,
                      splits.observer.callback());
  });
}

PlannerAnswer propose_baseline(const PlanRequest& request, std::string_view name) {
  SplitsRequest splits(request);
  const KeepTo keep(splits.whole);
  splits.score();
  const auto found = std::ranges::find(splits.baselines, name, &Baseline::name);
  if (!found->infeasible.empty()) throw InputError(fmt::format("{}: {}", name, found->infeasible));
  const std::optional<Nanoseconds> bound = splits.bound();
  SearchOutcome outcome;
  outcome.best = found->scored;
  outcome.found_by = name;
  PlannerAnswer answer = answer_of(std::move(splits), std::move(outcome));
  answer.lower_bound = bound;
  return answer;
}

}  // namespace pipesim
