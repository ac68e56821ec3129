#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "search/baselines/baselines.h"
#include "search/joint/joint_search.h"
#include "search/mcmc.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/inputs.h"
#include "tools/planners/auto_checkpoint.h"
#include "tools/planners/planner.h"
#include "tools/search_checkpoints.h"
#include "tools/search_watch.h"

namespace pipesim {
namespace {

// Of the budget, for plans without a pipeline.
constexpr double kShareOfMcmc = 0.3;
// Planners are asked again for other microbatches while each has taken less than this of the budget; what
// they take comes on top of it.
constexpr double kShareOfPlanners = 0.05;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// For splits alone, and for all; a budget of proposals is spent to the last one.
std::pair<SearchBudget, SearchBudget> parts_of(const SearchBudget& all) {
  SearchBudget splits{all.seconds * kShareOfMcmc, 0}, jointly{all.seconds * (1 - kShareOfMcmc), 0};
  if (all.proposals > 0) {
    splits.proposals = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(all.proposals) * kShareOfMcmc));
    jointly.proposals = all.proposals - splits.proposals;
  }
  return {splits, jointly};
}

// The same samples an iteration, in any number of microbatches that divides them.
class SizedModel {
 public:
  explicit SizedModel(const PlannerCall& call)
      : run_(call.run), batch_(call.graph.batch() * call.run.microbatches) {}

  [[nodiscard]] std::optional<OperatorGraph> operator()(std::int32_t microbatches) const {
    if (batch_ % microbatches != 0) return std::nullopt;
    try {
      return open_model(text(microbatches));
    } catch (const InputError&) {  // its batch is not to be chosen
      return std::nullopt;
    }
  }
  [[nodiscard]] std::string text(std::int32_t microbatches) const {
    return microbatches == run_.microbatches ? run_.model : with_batch(run_.model, batch_ / microbatches);
  }

 private:
  ModelRun run_;
  std::int64_t batch_;
};

// All that was planned so far.
class Contest {
 public:
  Contest(const PlannerCall& call, const SearchBudget& budget)
      : call_(call),
        watch_(call.err, budget, std::nullopt, ""),
        options_(plan_options_of(call.arguments, call.run)),
        subject_{call.graph, call.topology(), options_, baselines_},
        checkpoints_(file_of("checkpoint"), call.arguments.number("checkpoint-every", 0, 1e6), subject_),
        candidates_(call.graph, call.topology()),
        evaluator_(SizedModel(call), call.costs, options_) {
    state_.seed = static_cast<std::uint64_t>(call.arguments.integer("seed", 0, INT64_MAX));
    state_.chains = static_cast<std::size_t>(call.arguments.integer("chains", 1, 1024));
  }

  // Runs an algorithm, which may refuse, unless the checkpoint has what it found.
  using Algorithm = std::function<JointPlan(std::string& note)>;
  void ask(const std::string& name, const Algorithm& plan) {
    if (contribution(name)) return;
    AutoEntry made = run(name, plan);
    if (!watch_.stop_requested()) {  // else it may have ended early
      state_.mcmc.reset();
      state_.done.push_back(made);
      checkpoints_.keep(state_, false);
    }
    note(std::move(made));
  }

  // They show whether a checkpoint is of the same search.
  void ask_baselines() {
    for (const std::string_view name : baseline_names()) {
      AutoEntry made = run(std::string(name), [&](std::string&) {
        starts_.push_back({std::string(name), baseline_strategy(name, call_.graph, call_.costs)});
        return joint_plan(call_.graph, call_.topology(), call_.run.microbatches, starts_.back().strategy,
                          std::nullopt);
      });
      if (made.contribution.evaluation)
        baselines_.push_back(
            {std::string(name), ScoredStrategy{starts_.back().strategy, *made.contribution.evaluation}, ""});
      note(std::move(made));
    }
  }

  void resume() {
    const std::string file = file_of("resume");
    if (!file.empty()) {
      AutoState found = checkpoints_.load(file, candidates_, starts_);
      const Arguments& a = call_.arguments;
      if (a.given("seed")) require_choice(file, "seed", state_.seed, found.seed);
      if (a.given("chains")) require_choice(file, "chains", state_.chains, found.chains);
      state_ = std::move(found);
      for (const AutoEntry& entry : state_.done) note(entry);
    }
    checkpoints_.keep(state_, false);
  }

  // Of the same samples, more microbatches need less memory, and fewer are synchronised less often.
  void ask_data_parallel() {
    const std::string name = "data-parallel";
    for (const std::int32_t microbatches : other_microbatches()) {
      const OperatorGraph* graph = evaluator_.graph(microbatches);
      if (graph == nullptr || watch_.stop_requested()) continue;
      ask(name_with(name, microbatches), [&](std::string&) {
        return joint_plan(*graph, call_.topology(), microbatches,
                          baseline_strategy(name, *graph, call_.costs), std::nullopt);
      });
    }
  }

  // With the microbatches that were asked for, and more and fewer of them.
  void ask_planners(double most_seconds) {
    for (const Planner& planner : planners()) {
      if (planner.searches || watch_.stop_requested()) continue;
      double took = ask_planner(planner, call_);
      for (const std::int32_t microbatches : other_microbatches()) {
        if (took < most_seconds) took += ask_planner(planner, microbatches);
      }
    }
  }

  // A search after an interruption ends at once.
  void search_splits(const SearchBudget& budget) {
    if (watch_.stop_requested()) return;
    McmcOptions options;
    options.budget = budget;
    options.seed = state_.seed;
    options.threads = threads();
    options.chains = static_cast<int>(state_.chains);
    options.resume = state_.mcmc;
    if (checkpoints_.wanted()) {
      options.keep = [&](const SearchState& now, bool last) {
        state_.mcmc = now;
        checkpoints_.keep(state_, last);
      };
    }
    ask("mcmc", [&](std::string& note) {
      const SearchOutcome outcome =
          mcmc(call_.graph, call_.costs, options_, candidates_, starts_, options, watch_.callback());
      note = fmt::format("{} proposals, {} accepted", outcome.proposals, outcome.accepted);
      if (!outcome.best) throw InputError("found no plan that fits");
      return joint_plan(call_.graph, call_.topology(), call_.run.microbatches, outcome.best->strategy,
                        std::nullopt);
    });
  }

  void search_jointly(const SearchBudget& budget) {
    if (watch_.stop_requested() || plans_.empty()) return;
    std::vector<JointPlan> found;
    for (const ScoredJointPlan& p : plans_) found.push_back(p.plan);
    const JointMoves moves(candidates_, kMostMicrobatches);
    JointOptions options;
    options.budget = budget;
    options.seed = state_.seed;
    options.threads = threads();
    options.resume = state_.joint;
    if (checkpoints_.wanted()) {
      options.keep = [&](const JointState& now, bool last) {
        state_.joint = now;
        checkpoints_.keep(state_, last);
      };
    }
    note(run("joint", [&](std::string& note) {
      const JointOutcome outcome =
          pipesim::search_jointly(evaluator_, moves, found, options, watch_.callback());
      std::vector<std::string> helped;
      for (std::size_t k = 0; k < kJointMoveKinds; ++k) {
        if (outcome.improved[k] > 0)
          helped.push_back(fmt::format("{} {}", name_of(static_cast<JointMoveKind>(k)), outcome.improved[k]));
      }
      note = fmt::format("from {}; {} proposals, {} accepted{}{}", names_[outcome.start], outcome.proposals,
                         outcome.accepted, helped.empty() ? "" : "; better by ", fmt::join(helped, ", "));
      return outcome.best.plan;
    }));
  }

  void finish() {
    SearchOutcome told;
    told.seconds = seconds_since(began_);
    watch_.finish(told);
  }

  // What fits first, then the fastest, then who came first.
  PlannedPipeline best() {
    if (plans_.empty()) throw InputError("auto: no algorithm found a plan");
    const JointPlan* best = &std::ranges::min_element(plans_, {}, [](const ScoredJointPlan& p) {
                               return std::pair(p.evaluation.overflow, p.evaluation.time);
                             })->plan;
    ModelRun run{SizedModel(call_).text(best->microbatches), best->microbatches};
    PlannedPipeline planned(std::move(run), *evaluator_.graph(best->microbatches), evaluator_.options(*best),
                            evaluator_.strategy(*best));
    planned.meshes = best->meshes;
    for (std::int32_t s = 0; s < best->pipeline.num_stages(); ++s)
      planned.devices.push_back(static_cast<std::int64_t>(
          best->meshes[static_cast<std::size_t>(s) % best->meshes.size()].devices.size()));
    planned.contributions = contributions_;
    planned.seed = state_.seed;
    return planned;
  }

 private:
  [[nodiscard]] std::string file_of(const std::string& option) const {
    return call_.arguments.has(option) ? call_.arguments.text(option) : "";
  }
  [[nodiscard]] int threads() const { return static_cast<int>(call_.arguments.integer("threads", 1, 1024)); }

  AutoEntry run(const std::string& name, const Algorithm& plan) {
    const Clock::time_point began = Clock::now();
    AutoEntry made{{name, std::nullopt, 0, ""}, std::nullopt};
    Contribution& told = made.contribution;
    try {
      JointPlan found = plan(told.note);
      if (name != "joint") found.recompute = options_.recompute.kind;
      told.evaluation = evaluator_.evaluate(found);
      if (told.evaluation) {
        made.plan = std::move(found);
      } else {
        told.note = "its plan is not legal with these microbatches";
      }
    } catch (const InputError& error) {
      told.note = error.what();
    } catch (const UsageError& error) {  // what it needs was asked for otherwise
      told.note = error.what();
    }
    told.seconds = seconds_since(began);
    return made;
  }

  void note(AutoEntry made) {
    if (made.plan) {
      plans_.push_back({*std::move(made.plan), *made.contribution.evaluation});
      names_.push_back(made.contribution.name);
    }
    contributions_.push_back(std::move(made.contribution));
  }

  // nullptr: not asked yet.
  [[nodiscard]] const Contribution* contribution(const std::string& name) const {
    const auto found = std::ranges::find(contributions_, name, &Contribution::name);
    return found == contributions_.end() ? nullptr : &*found;
  }

  // More than were asked for, then fewer.
  [[nodiscard]] std::vector<std::int32_t> other_microbatches() const {
    constexpr std::int32_t kMostTimes = 16;
    const std::int32_t asked = call_.run.microbatches;
    std::vector<std::int32_t> others;
    for (std::int32_t times = 2; times <= std::min(kMostTimes, kMostMicrobatches / asked); times *= 2)
      others.push_back(asked * times);
    for (std::int32_t times = 2; times <= kMostTimes && asked % times == 0; times *= 2)
      others.push_back(asked / times);
    return others;
  }
  [[nodiscard]] std::string name_with(std::string_view algorithm, std::int32_t microbatches) const {
    return microbatches == call_.run.microbatches
               ? std::string(algorithm)
               : fmt::format("{}, {}", algorithm, counted(microbatches, "microbatch"));
  }

  // Seconds that it took.
  double ask_planner(const Planner& planner, const PlannerCall& call) {
    const std::string name = name_with(planner.name, call.run.microbatches);
    ask(name, [&](std::string&) {
      PlannedPipeline planned = planner.propose(call);
      return JointPlan{planned.options.microbatches,
                       Recompute::Kind::None,
                       *std::move(planned.options.pipeline),
                       std::move(planned.meshes),
                       {}};
    });
    return contribution(name)->seconds;
  }
  double ask_planner(const Planner& planner, std::int32_t microbatches) {
    if (planner.name == "dapple") return 0;  // tries several numbers itself
    const SizedModel model(call_);
    const std::optional<OperatorGraph> graph = model(microbatches);
    if (!graph) return 0;
    return ask_planner(
        planner, {call_.arguments, {model.text(microbatches), microbatches}, *graph, call_.costs, call_.err});
  }

  const PlannerCall& call_;
  Clock::time_point began_ = Clock::now();
  SearchWatch watch_;  // from the first planner on: an interruption loses nothing
  PlanOptions options_;
  std::vector<Baseline> baselines_;
  std::vector<SearchStart> starts_;  // of MCMC
  SearchSubject subject_;
  AutoCheckpoints checkpoints_;
  CandidateSet candidates_;
  JointEvaluator evaluator_;
  AutoState state_;
  std::vector<ScoredJointPlan> plans_;
  std::vector<std::string> names_;  // of the plans
  std::vector<Contribution> contributions_;
};

PlannedPipeline propose_auto(const PlannerCall& call) {
  const SearchBudget budget = search_budget_of(call.arguments);
  Contest contest(call, budget);
  contest.ask_baselines();
  contest.resume();
  const double all = budget.seconds > 0 ? budget.seconds : std::numeric_limits<double>::infinity();
  contest.ask_data_parallel();
  contest.ask_planners(kShareOfPlanners * all);
  const auto [splits, jointly] = parts_of(budget);
  contest.search_splits(splits);
  if (budget.proposals != 1) contest.search_jointly(jointly);
  contest.finish();
  return contest.best();
}

}  // namespace

Planner auto_planner() {
  return {"auto", "all of these, then a search that may change anything of their plans", {}, {}, propose_auto,
          true};
}

}  // namespace pipesim
