#include "search/auto/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "search/auto/auto_checkpoint.h"
#include "search/auto/contributions.h"
#include "search/auto/shared_budget.h"
#include "search/auto/sized_model.h"
#include "search/auto/whole_progress.h"
#include "search/baselines/baselines.h"
#include "search/joint/joint_search.h"
#include "search/mcmc/mcmc.h"
#include "search/planners/planner.h"
#include "search/recipes/expand_recipe.h"
#include "search/search_json.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// Shares of the time that the deadline leaves at the beginning: until when baselines, data parallelism in
// other numbers of microbatches, and planners end. A planner may take two of the shares that are left; it has
// more of them in the number of microbatches that was asked for.
constexpr double kBaselinesEnd = 0.15, kDataParallelEnd = 0.2, kPlannersEnd = 0.5;
// Until when recipes are ranked. Nothing else is asked but the joint search where so many operators, counted
// on each device, make planners and searches over splits slow.
constexpr double kRecipesEnd = 0.6;
constexpr std::size_t kManyOperators = 50'000;
constexpr double kLongestRanking = 600;  // seconds
// Until when those go on that had too little time, where the model is too large for a search over splits.
constexpr double kLatePlannersEnd = 0.85;
constexpr double kSharesOfPlanner = 2, kSharesAsAsked = 4;
// Shares of the searches' budget. Splits are searched in all numbers of microbatches, on in the best half of
// them, and on in the best one until that has had as much as kBestSplits says.
constexpr double kAllSplits = 0.15, kHalfOfSplits = 0.1, kBestSplits = 0.3, kFirstJointly = 0.15;
constexpr double kMostKept = 3;
// What is left goes to the search over splits where its plan is the best and the joint search has hardly
// improved it; to both, where it is nearly the best.
constexpr double kToBestSplits = 0.8, kToNearSplits = 0.5, kHardly = 1e-3, kNearly = 0.03;
constexpr double kShortest = 1e-6;  // seconds; a budget of 0 is none

// All that was planned so far.
class Contest {
 public:
  Contest(const PlanRequest& request, const AutoOptions& options)
      : request_(request),
        how_(options),
        observer_(*request.observer),
        until_(deadline_kept()
                   ? deadline_kept()->with_stop(observer_.interruption())
                   : Deadline(std::numeric_limits<double>::infinity(), {}, observer_.interruption())),
        seconds_(until_.left()),
        subject_{request.graph, request.topology(), request.options, baselines_},
        checkpoints_(options.checkpoint, options.checkpoint_every, subject_),
        candidates_(request.graph, request.topology()),
        evaluator_(SizedModel(request), request.costs, request.options),
        has_recipes_(has_recipes(request.graph) && !options.recomputes_stages),
        only_recipes_(has_recipes_ &&
                      request.graph.operators().size() * request.topology().num_devices() > kManyOperators) {
    observer_.expect(options.budget);
    state_.seed = options.seed;
    state_.chains = options.chains;
  }

  [[nodiscard]] const Deadline& until() const { return until_; }
  /// So much of the time since the beginning is left for a part that ends there; infinity without a limit.
  [[nodiscard]] double left_until(double share) const {
    return until_.limited() ? std::max(0.0, until_.left() - (1 - share) * seconds_) : seconds_;
  }

  // Runs an algorithm, which may refuse, unless the checkpoint has what it found. It is stopped after so many
  // seconds.
  struct Found {
    JointPlan plan;
    std::optional<Evaluation> evaluation = std::nullopt;  // where it is known
    bool as_asked = true;  // recomputation and sharding are those of the request
  };
  using Algorithm = std::function<Found(std::string& note)>;
  // False: it had too little time.
  bool ask(const std::string& name, double seconds, const Algorithm& plan, std::int32_t part = 0) {
    if (entry(name, part)) return true;
    AutoEntry made = run(name, seconds, plan);
    const bool had_time = !made.stopped;
    made.part = part;
    if (!observer_.stop_requested() && !made.stopped) {  // else it may have ended early
      state_.done.push_back(made);
      keep(false);
    }
    found_.add(std::move(made));
    return had_time;
  }

  // They show whether a checkpoint is of the same search.
  void ask_baselines() {
    if (only_recipes_) return;
    const std::size_t all = baseline_names().size();
    for (std::size_t i = 0; i < all; ++i) {
      const std::string name(baseline_names()[i]);
      AutoEntry made = run(name, left_until(kBaselinesEnd) / static_cast<double>(all - i), [&](std::string&) {
        starts_.push_back({name, baseline_strategy(name, request_.graph, request_.costs)});
        return Found{joint_plan(request_.graph, request_.topology(), request_.microbatches(),
                                starts_.back().strategy, std::nullopt)};
      });
      if (made.contribution.evaluation) {
        starts_.back().evaluation = made.contribution.evaluation;
        baselines_.push_back(
            {name, ScoredStrategy{starts_.back().strategy, *made.contribution.evaluation}, ""});
      }
      found_.add(std::move(made));
    }
  }

  void resume() {
    if (const std::string& file = how_.resume; !file.empty()) {
      AutoState found = checkpoints_.load(file, split_searches());
      if (how_.seed_is_asked) require_choice(file, "seed", state_.seed, found.seed);
      if (how_.chains_are_asked) require_choice(file, "chains", state_.chains, found.chains);
      state_ = std::move(found);
      if (!state_.joint)  // then its first part must be done again
        std::erase_if(state_.done, [](const AutoEntry& e) { return e.contribution.name == "joint"; });
      for (const AutoEntry& entry : state_.done) found_.add(entry);
    }
    keep(false);
  }

  // The best of all recipes, with a proof where there is time for it.
  void ask_recipes() {
    if (has_recipes_) rank_recipes();
    if (!only_recipes_ || found_.best() != nullptr) return;
    only_recipes_ = false;
    ask_baselines();
  }
  void rank_recipes() {
    ask("recipes", std::min(kLongestRanking, left_until(kRecipesEnd)), [&](std::string& note) {
      PlannedPipeline planned = propose_recipes(request_, progress_.of("recipes"));
      note = planned.note;
      JointPlan plan = joint_plan(planned.graph, request_.topology(), planned.options.microbatches,
                                  planned.strategy, planned.options.pipeline);
      plan.recompute = planned.options.recompute;
      plan.state_sharding = planned.options.state_sharding;
      plan.gathered_inputs = planned.options.gathered_inputs;
      plan.parts = planned.parts;
      ranking_ = std::move(planned.recipes);
      return Found{std::move(plan), planned.scored, false};
    });
  }

  // Whoever sets no time waits for a proof; what follows has as much as without recipes.
  void begin_search() {
    if (until_.limited() || how_.seconds_of_search == 0) return;
    until_ = until_.within(how_.seconds_of_search);
    seconds_ = until_.left();
  }

  // With the same samples, more microbatches need less memory, and fewer are synchronised less often.
  void ask_data_parallel() {
    if (only_recipes_) return;
    const std::string name = "data-parallel";
    for (const std::int32_t microbatches : other_microbatches(request_.microbatches())) {
      const OperatorGraph* graph = evaluator_.graph(microbatches);
      if (graph == nullptr || until_.passed()) continue;
      ask(name_with(name, microbatches), left_until(kDataParallelEnd), [&](std::string&) {
        return Found{joint_plan(*graph, request_.topology(), microbatches,
                                baseline_strategy(name, *graph, request_.costs), std::nullopt)};
      });
    }
  }

  void ask_recipe() {
    if (!how_.recipe) return;
    ask("recipe " + how_.recipe->str(), left_until(kDataParallelEnd), [&](std::string&) {
      RecipeStrategy made = expand_recipe(*how_.recipe, RecipeModel(request_.graph), request_.topology());
      JointPlan plan = joint_plan(request_.graph, request_.topology(), request_.microbatches(), made.strategy,
                                  made.pipeline);
      return Found{std::move(plan)};
    });
  }

  // With the microbatches that were asked for, then with more and fewer of them.
  void ask_planners() {
    if (only_recipes_) return;
    std::vector<Ask> asks;
    for (const Planner& planner : planners()) asks.push_back({&planner, request_.microbatches()});
    for (const Planner& planner : planners()) {
      for (const std::int32_t microbatches : other_microbatches(request_.microbatches())) {
        if (evaluator_.graph(microbatches) != nullptr) asks.push_back({&planner, microbatches});
      }
    }
    late_ = ask_each(asks, kPlannersEnd);
  }

  // Splits and everything, in turns that depend on what they find.
  void search(const SearchBudget& budget) {
    if (until_.passed()) return;
    const double seconds = until_.limited() ? until_.left() : 0;
    SharedBudget shared({seconds, budget.proposals});
    if (only_recipes_) return search_jointly(shared.take(1), kLastPart);
    const std::int32_t best = race_splits(shared);
    if (splits_are_too_slow()) late_ = ask_each(late_, kLatePlannersEnd);
    if (!shared.is_spent()) search_jointly(shared.take(kFirstJointly), 0);
    const double rest =
        budget.proposals > 0 ? shared.share_left() : until_.left() / std::max(kShortest, seconds);
    const double more = splits_are_too_slow() ? 0 : share_of_splits(best) * rest;
    if (more > 0 && !shared.is_spent()) search_splits(best, shared.take(more), kLastPart);
    if (shared.is_spent()) return;
    SearchBudget last = shared.take(1);
    if (until_.limited()) last.seconds = until_.left();
    search_jointly(last, kLastPart);
  }

  void finish() {
    SearchOutcome told;
    told.seconds = time_.seconds();
    observer_.finish(told);
  }

  // What fits first, then the fastest, then who came first.
  PlannedPipeline best() {
    const ScoredJointPlan* found = found_.best();
    if (found == nullptr) throw InputError("auto: no algorithm found a plan");
    const JointPlan* best = &found->plan;
    PlannedPipeline planned(*evaluator_.graph(best->microbatches, best->parts), evaluator_.options(*best),
                            evaluator_.strategy(*best));
    planned.parts = best->parts;
    if (best->microbatches != request_.microbatches()) planned.batch = planned.graph.batch();
    planned.meshes = best->meshes;
    for (std::int32_t s = 0; s < best->pipeline.num_stages(); ++s)
      planned.devices.push_back(static_cast<std::int64_t>(
          best->meshes[mesh_of_stage(best->pipeline, s, best->meshes.size())].devices.size()));
    planned.contributions = found_.all();
    planned.seed = state_.seed;
    planned.scored = found->evaluation;
    planned.note = gain_over_recipes(*found);
    planned.recipes = std::move(ranking_);
    return planned;
  }

 private:
  AutoEntry run(const std::string& name, double seconds, const Algorithm& plan) {
    const Stopwatch time;
    AutoEntry made{{name, std::nullopt, 0, "", 0}, std::nullopt};
    Contribution& told = made.contribution;
    try {
      const Deadline share = until_.within(seconds);
      std::optional<KeepTo> kept(std::in_place, share);
      Found found = plan(told.note);
      if (found.as_asked) {
        found.plan.recompute = request_.options.recompute;
        found.plan.state_sharding = request_.options.state_sharding;
        found.plan.gathered_inputs = request_.options.gathered_inputs;
      }
      const Deadline scored = until_.within(std::max(share.left(), seconds / 2));
      kept.emplace(scored);
      told.evaluation = found.evaluation ? found.evaluation : evaluator_.evaluate(found.plan);
      if (told.evaluation) {
        told.devices_used =
            static_cast<std::int64_t>(devices_used(evaluator_.strategy(found.plan), request_.topology()));
        made.plan = std::move(found.plan);
      } else {
        told.note = "its plan is not legal with these microbatches";
      }
    } catch (const InputError& error) {
      told.note = error.what();
    } catch (const UsageError& error) {  // what it needs was asked for otherwise
      told.note = error.what();
    } catch (const OutOfTime&) {
      made.stopped = true;
      told.note = observer_.stop_requested() ? "interrupted" : kOutOfTime;
    }
    request_.status("");
    told.seconds = time.seconds();
    return made;
  }

  // nullptr: not asked yet.
  [[nodiscard]] const AutoEntry* entry(const std::string& name, std::int32_t part) const {
    const auto found = std::ranges::find_if(
        state_.done, [&](const AutoEntry& e) { return e.contribution.name == name && e.part == part; });
    return found == state_.done.end() ? nullptr : &*found;
  }

  void keep(bool last) { checkpoints_.keep(state_, last, split_searches()); }
  [[nodiscard]] AutoCheckpoints::SplitSearchOf split_searches() {
    return [this](std::int32_t microbatches) { return splits(microbatches); };
  }

  // nullptr: the model can't have so many microbatches.
  SplitSearch* splits(std::int32_t microbatches) {
    const auto known = splits_.find(microbatches);
    if (known != splits_.end()) return known->second.get();
    const OperatorGraph* graph =
        microbatches == request_.microbatches() ? &request_.graph : evaluator_.graph(microbatches);
    if (graph == nullptr) return nullptr;
    PlanOptions options = request_.options;
    options.microbatches = microbatches;
    auto made = std::make_unique<SplitSearch>(*graph, request_.topology(), options);
    if (graph == &request_.graph) {
      made->starts = starts_;
      made->baselines = baselines_;
      const auto is_late = [](const SearchStart& s) { return !s.evaluation; };
      if (until_.limited() && !checkpoints_.wanted() && how_.resume.empty() &&
          !std::ranges::all_of(starts_, is_late))
        std::erase_if(made->starts, is_late);
    } else {
      for (const std::string_view name : baseline_names())
        made->starts.push_back({std::string(name), baseline_strategy(name, *graph, request_.costs)});
    }
    return splits_.emplace(microbatches, std::move(made)).first->second.get();
  }

  static constexpr std::int32_t kLastPart = 100;  // whose result is not kept: a larger budget goes on with it

  // Goes on with a search over splits until it has had this part of the budget more.
  void search_splits(std::int32_t microbatches, const SearchBudget& more, std::int32_t part) {
    if (until_.passed()) return;
    const std::string name = name_with("mcmc", microbatches);
    SearchBudget& so_far = given_[microbatches];
    so_far.proposals += more.proposals;
    const double seconds = until_.limited() ? more.seconds : std::numeric_limits<double>::infinity();
    const Algorithm algorithm = [&](std::string& note) {
      const SplitSearch& search = *splits(microbatches);
      McmcOptions options;
      options.seed = state_.seed;
      options.threads = how_.threads;
      options.chains = static_cast<int>(state_.chains);
      if (const auto before = state_.mcmc.find(microbatches); before != state_.mcmc.end())
        options.resume = before->second;
      options.budget.proposals = so_far.proposals;
      if (until_.limited())
        options.budget.seconds =
            std::max(kShortest, more.seconds) + (options.resume ? options.resume->seconds : 0);
      options.keep = [&](const SearchState& now, bool last) {
        if (!checkpoints_.wanted() && !last) return;
        state_.mcmc.insert_or_assign(microbatches, now);
        if (checkpoints_.wanted()) keep(last);
      };
      const SearchOutcome outcome = mcmc(search.graph, request_.costs, search.options, search.candidates,
                                         search.starts, options, progress_.of(name));
      if (outcome.proposals > 0) splits_proposed_ = true;
      note = fmt::format("{} proposals, {} accepted", outcome.proposals, outcome.accepted);
      if (!outcome.best) throw InputError(note + "; found no plan that fits");
      return Found{
          joint_plan(search.graph, request_.topology(), microbatches, outcome.best->strategy, std::nullopt),
          outcome.best->evaluation};
    };
    if (part == kLastPart) {
      found_.add(run(name, seconds, algorithm));
    } else {
      ask(name, seconds, algorithm, part);
    }
  }

  // The best that a search over splits has found, of what fits first.
  [[nodiscard]] std::pair<Bytes, Nanoseconds> best_of_splits(std::int32_t microbatches) const {
    return found_.best_of(name_with("mcmc", microbatches));
  }

  // Searches in all numbers of microbatches, then longer in the better ones (successive halving); returns the
  // best number.
  std::int32_t race_splits(SharedBudget& shared) {
    std::vector<std::int32_t> numbers{request_.microbatches()};
    for (const std::int32_t other : other_microbatches(request_.microbatches())) {
      if (evaluator_.graph(other) != nullptr) numbers.push_back(other);
    }
    const auto search_each = [&](double share, std::int32_t part) {
      for (const std::int32_t microbatches : numbers) {
        if (shared.is_spent() || until_.passed()) break;
        search_splits(microbatches, shared.take(share), part);
      }
      std::ranges::stable_sort(numbers, {}, [&](std::int32_t m) { return best_of_splits(m); });
    };
    const double each = kAllSplits / static_cast<double>(numbers.size());
    search_each(each, 0);
    numbers.resize(std::min(static_cast<std::size_t>(kMostKept), (numbers.size() + 1) / 2));
    if (splits_are_too_slow()) return numbers.front();
    const double again = kHalfOfSplits / static_cast<double>(numbers.size());
    search_each(again, 1);
    numbers.resize(1);
    std::erase_if(state_.mcmc, [&](const auto& m) { return m.first != numbers.front(); });
    search_each(std::max(0.0, kBestSplits - each - again), 2);
    return numbers.front();
  }

  // The share of what is left of the budget after the first part of the joint search.
  [[nodiscard]] double share_of_splits(std::int32_t best) const {
    const auto [overflow, time] = best_of_splits(best);
    const ScoredJointPlan* fastest = found_.best();
    if (fastest == nullptr || fastest->evaluation.overflow < overflow) return 0;
    const double behind =
        static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, fastest->evaluation.time)) -
        1;
    return behind < kHardly ? kToBestSplits : behind < kNearly ? kToNearSplits : 0;
  }

  void search_jointly(const SearchBudget& more, std::int32_t part) {
    if (until_.passed() || found_.plans().empty()) return;
    given_jointly_ += more.proposals;
    std::vector<JointPlan> found;
    std::vector<std::string> names;
    for (const auto& [name, scored] : found_.plans()) {
      if (name == "joint") continue;
      found.push_back(scored.plan);
      names.push_back(name);
    }
    const JointMoves moves(candidates_, kMostMicrobatches);
    JointOptions options;
    options.budget.proposals = given_jointly_;
    options.seed = state_.seed;
    options.threads = how_.threads;
    options.resume = state_.joint;
    if (until_.limited())
      options.budget.seconds =
          std::max(kShortest, more.seconds) + (options.resume ? options.resume->seconds : 0);
    options.keep = [&](const JointState& now, bool last) {
      if (!checkpoints_.wanted() && !last) return;
      state_.joint = now;
      if (checkpoints_.wanted()) keep(last);
    };
    const double seconds = until_.limited() ? more.seconds : std::numeric_limits<double>::infinity();
    const Algorithm algorithm = [&](std::string& note) {
      const JointOutcome outcome =
          pipesim::search_jointly(evaluator_, moves, found, options, progress_.of("joint"));
      const std::string helped = improving_moves(outcome);
      note = fmt::format("from {}; {} proposals, {} accepted{}{}", names[outcome.start], outcome.proposals,
                         outcome.accepted, helped.empty() ? "" : "; better by ", helped);
      return Found{outcome.best.plan, outcome.best.evaluation, false};
    };
    if (part == kLastPart) {
      found_.add(run("joint", seconds, algorithm));
    } else {
      ask("joint", seconds, algorithm, part);
    }
  }

  // What the best plan is better than the best recipe by; "" where no recipe was found.
  [[nodiscard]] std::string gain_over_recipes(const ScoredJointPlan& best) const {
    const auto [overflow, time] = found_.best_of("recipes");
    const AutoEntry* recipes = entry("recipes", 0);
    if (recipes == nullptr || !recipes->contribution.evaluation || overflow.value > 0) return "";
    const double gain =
        static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, best.evaluation.time)) - 1;
    constexpr double kPercent = 100, kTold = 5e-4;
    const std::string found = gain < kTold
                                  ? "no search over other plans found a faster one"
                                  : fmt::format("{:.1f} % faster than the best recipe", kPercent * gain);
    return fmt::format("{}; recipes: {}", found, recipes->contribution.note);
  }

  [[nodiscard]] std::string name_with(std::string_view algorithm, std::int32_t microbatches) const {
    return microbatches == request_.microbatches()
               ? std::string(algorithm)
               : fmt::format("{}, {}", algorithm, counted(microbatches, "microbatch"));
  }

  struct Ask {
    const Planner* planner;
    std::int32_t microbatches;
  };

  // Until so much of the time has passed. Returns those that had too little.
  std::vector<Ask> ask_each(const std::vector<Ask>& asks, double end) {
    const auto shares = [&](const Ask& ask) {
      return ask.microbatches == request_.microbatches() ? kSharesAsAsked : 1;
    };
    double shares_left = 0;
    for (const Ask& ask : asks) shares_left += shares(ask);
    std::vector<Ask> late;
    for (const Ask& ask : asks) {
      const double left = left_until(end),
                   share = std::min(1.0, kSharesOfPlanner * shares(ask) / shares_left);
      shares_left -= shares(ask);
      if (left <= 0 || until_.passed() || !ask_planner(*ask.planner, ask.microbatches, share * left))
        late.push_back(ask);
    }
    return late;
  }

  // False: it had too little time.
  bool ask_planner(const Planner& planner, std::int32_t microbatches, double seconds) {
    const OperatorGraph& graph =
        microbatches == request_.microbatches() ? request_.graph : *evaluator_.graph(microbatches);
    const auto ask_one = [&](const std::string& name, std::optional<std::int64_t> copy_microbatch) {
      return ask(name, seconds, [&](std::string&) {
        PlanRequest sized{graph,
                          request_.costs,
                          request_.options,
                          request_.with_batch,
                          request_.takes_batch,
                          request_.settings,
                          request_.status};
        sized.options.microbatches = microbatches;
        sized.settings.copy_microbatch = copy_microbatch;
        PlannedPipeline planned = planner.propose(sized);
        JointPlan plan{planned.options.microbatches,
                       {},
                       *std::move(planned.options.pipeline),
                       std::move(planned.meshes),
                       {}};
        plan.scheduled = plan.pipeline.num_stages() == 1;
        return Found{std::move(plan)};
      });
    };
    const bool had_time = ask_one(name_with(planner.name, microbatches), std::nullopt);
    const bool has_own = planner.name == "dapple" && how_.copy_microbatch;
    if (has_own && microbatches == request_.microbatches())
      ask_one("dapple, --microbatch a copy", how_.copy_microbatch);
    return had_time;
  }

  // Not one change could be tried: time helps planners more.
  [[nodiscard]] bool splits_are_too_slow() const { return until_.limited() && !splits_proposed_; }

  const PlanRequest& request_;
  const AutoOptions& how_;
  SearchObserver& observer_;  // from the first planner on: an interruption loses nothing
  Stopwatch time_;
  Deadline until_;
  double seconds_;  // until then, at the beginning
  std::vector<Baseline> baselines_;
  std::vector<SearchStart> starts_;  // of MCMC
  SearchSubject subject_;
  AutoCheckpoints checkpoints_;
  CandidateSet candidates_;
  JointEvaluator evaluator_;
  AutoState state_;
  std::map<std::int32_t, std::unique_ptr<SplitSearch>> splits_;  // by microbatches
  std::map<std::int32_t, SearchBudget> given_;                   // to them, in all parts
  std::int64_t given_jointly_ = 0;                               // proposals
  Contributions found_;
  WholeProgress progress_{observer_.callback(), found_};
  bool has_recipes_;   // that may be ranked
  bool only_recipes_;  // are asked, and a joint search from the best
  std::optional<RecipeRanking> ranking_;
  std::vector<Ask> late_;         // planners that had too little time
  bool splits_proposed_ = false;  // a search over splits tried a change
};

}  // namespace

PlannedPipeline search_auto(const PlanRequest& request, const AutoOptions& options) {
  Contest contest(request, options);
  {
    const KeepTo keep(contest.until());
    contest.ask_baselines();
    contest.resume();
    contest.ask_recipes();
  }
  contest.begin_search();
  const KeepTo keep(contest.until());
  contest.ask_data_parallel();
  contest.ask_recipe();
  contest.ask_planners();
  contest.search(options.budget);
  contest.finish();
  return contest.best();
}

}  // namespace pipesim
