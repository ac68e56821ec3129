#include "search/auto/search_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "search/auto/sized_model.h"
#include "search/joint/joint_search.h"
#include "search/mcmc/mcmc.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Shares of the searches' budget. Splits are searched in all numbers of microbatches, then further in the
// best half of them, and then in the best one until that has had as much as kBestSplits says.
constexpr double kAllSplits = 0.15, kHalfOfSplits = 0.1, kBestSplits = 0.3, kFirstJointly = 0.15;
// The first search over splits ends at this share of all time. Its part has a number that no other part has.
constexpr double kFirstSplitsEnd = 0.55;
constexpr std::int32_t kFirstPart = 50;
constexpr double kMostKept = 3;
// What is left goes to the search over splits where its plan is the best and the joint search has hardly
// improved it; to both, where it is nearly the best.
constexpr double kToBestSplits = 0.8, kToNearSplits = 0.5, kHardly = 1e-3, kNearly = 0.03;
constexpr double kShortest = 1e-6;  // seconds; a budget of 0 is none

}  // namespace

SearchTurns::SearchTurns(Contest& contest, PlannerTurns& planners) : contest_(contest), planners_(planners) {}

void SearchTurns::begin_splits() {
  if (!planners_.begins_with_splits()) return;
  search_splits(contest_.request().microbatches(), {contest_.left_until(kFirstSplitsEnd), 0}, kFirstPart);
}

void SearchTurns::search(const SearchBudget& budget) {
  const auto seconds_left = [&] { return contest_.until().left(); };
  const bool limited = contest_.until().limited();
  if (contest_.until().passed()) return;
  const double seconds = limited ? seconds_left() : 0;
  SharedBudget shared({seconds, budget.proposals});
  if (planners_.only_recipes()) return search_jointly(shared.take(1), Contest::kLastPart);
  const std::int32_t best = race_splits(shared);
  if (splits_are_too_slow()) planners_.ask_late_planners();
  if (!shared.is_spent()) search_jointly(shared.take(kFirstJointly), 0);
  const double rest =
      budget.proposals > 0 ? shared.share_left() : seconds_left() / std::max(kShortest, seconds);
  const double more = splits_are_too_slow() ? 0 : share_of_splits(best) * rest;
  if (more > 0 && !shared.is_spent()) search_splits(best, shared.take(more), Contest::kLastPart);
  if (shared.is_spent()) return;
  SearchBudget last = shared.take(1);
  if (limited) last.seconds = seconds_left();
  search_jointly(last, Contest::kLastPart);
}

// Searches in all numbers of microbatches, then longer in the better ones (successive halving); returns the
// best number.
std::int32_t SearchTurns::race_splits(SharedBudget& shared) {
  const std::int32_t asked = contest_.request().microbatches();
  std::vector<std::int32_t> numbers{asked};
  for (const std::int32_t other : other_microbatches(asked)) {
    if (contest_.evaluator().graph(other) != nullptr) numbers.push_back(other);
  }
  const auto search_each = [&](double share, std::int32_t part) {
    for (const std::int32_t microbatches : numbers) {
      if (shared.is_spent() || contest_.until().passed()) break;
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
  std::erase_if(contest_.state().mcmc, [&](const auto& m) { return m.first != numbers.front(); });
  search_each(std::max(0.0, kBestSplits - each - again), 2);
  return numbers.front();
}

// Goes on with a search over splits until it has had this part of the budget more.
void SearchTurns::search_splits(std::int32_t microbatches, const SearchBudget& more, std::int32_t part) {
  if (contest_.until().passed()) return;
  const std::string name = contest_.name_with("mcmc", microbatches);
  std::int64_t& so_far = given_[microbatches];
  so_far += more.proposals;
  contest_.ask(
      name, seconds_of(more),
      [&](std::string& note) {
        const SplitSearch& search = *contest_.splits(microbatches);
        AutoState& state = contest_.state();
        McmcOptions options;
        options.seed = state.seed;
        options.threads = contest_.chains().threads;
        options.chains = static_cast<int>(state.chains);
        if (const auto before = state.mcmc.find(microbatches); before != state.mcmc.end())
          options.resume = before->second;
        options.budget.proposals = so_far;
        options.budget.seconds = seconds_after(options.resume ? options.resume->seconds : 0, more);
        options.keep = [&](const SearchState& now, bool last) {
          contest_.keep_state(last, [&] { state.mcmc.insert_or_assign(microbatches, now); });
        };
        const SearchOutcome outcome =
            mcmc(search.graph, contest_.request().costs, search.options, search.candidates, search.starts,
                 options, contest_.progress_of(name));
        if (outcome.proposals > 0) splits_proposed_ = true;
        note = fmt::format("{} proposals, {} accepted", outcome.proposals, outcome.accepted);
        if (!outcome.best) throw InputError(note + "; found no plan that fits");
        return Contest::Found{joint_plan(search.graph, contest_.request().topology(), microbatches,
                                         outcome.best->plan, std::nullopt),
                              outcome.best->evaluation};
      },
      part);
}

// Searches from all plans that were found but its own.
void SearchTurns::search_jointly(const SearchBudget& more, std::int32_t part) {
  if (contest_.until().passed() || contest_.found().plans().empty()) return;
  given_jointly_ += more.proposals;
  std::vector<JointPlan> found;
  std::vector<std::string> names;
  for (const auto& [name, scored] : contest_.found().plans()) {
    if (name == kJointSearch) continue;
    found.push_back(scored.plan);
    names.push_back(name);
  }
  contest_.ask(
      std::string(kJointSearch), seconds_of(more),
      [&](std::string& note) {
        JointMoves moves(contest_.candidates(), kMostMicrobatches);
        for (const JointPlan& plan : found) {
          if (plan.sequence.token_groups > 0)
            moves.add(plan.sequence.token_groups, contest_.candidates_of(plan));
        }
        AutoState& state = contest_.state();
        JointOptions options;
        // Other numbers of microbatches stand behind a comma, see Contest::name_with().
        for (const std::string& n : names) options.algorithms.push_back(n.substr(0, n.find(',')));
        options.budget.proposals = given_jointly_;
        options.seed = state.seed;
        options.threads = contest_.chains().threads;
        options.resume = state.joint;
        options.budget.seconds = seconds_after(options.resume ? options.resume->seconds : 0, more);
        options.keep = [&](const JointState& now, bool last) {
          contest_.keep_state(last, [&] { state.joint = now; });
        };
        const JointOutcome outcome = pipesim::search_jointly(contest_.evaluator(), moves, found, options,
                                                             contest_.progress_of(std::string(kJointSearch)));
        const std::string helped = improving_moves(outcome);
        note = fmt::format("from {}; {} proposals, {} accepted{}{}", names[outcome.start], outcome.proposals,
                           outcome.accepted, helped.empty() ? "" : "; better by ", helped);
        return Contest::Found{outcome.best.plan, outcome.best.evaluation, false};
      },
      part);
}

// For how long a part is run.
double SearchTurns::seconds_of(const SearchBudget& more) const {
  return contest_.until().limited() ? more.seconds : std::numeric_limits<double>::infinity();
}

// The budget of a search that has run for so long before; 0 where time is not limited.
double SearchTurns::seconds_after(double before, const SearchBudget& more) const {
  return contest_.until().limited() ? std::max(kShortest, more.seconds) + before : 0;
}

// The best that a search over splits has found, of what fits first.
std::pair<Bytes, Nanoseconds> SearchTurns::best_of_splits(std::int32_t microbatches) const {
  return contest_.found().best_of(contest_.name_with("mcmc", microbatches));
}

// Returns the share of the search over splits in the budget that the first part of the joint search leaves.
double SearchTurns::share_of_splits(std::int32_t best) const {
  const auto [overflow, time] = best_of_splits(best);
  const Scored<JointPlan>* fastest = contest_.found().best();
  if (fastest == nullptr || fastest->evaluation.overflow < overflow) return 0;
  const double behind =
      static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, fastest->evaluation.time)) - 1;
  return behind < kHardly ? kToBestSplits : behind < kNearly ? kToNearSplits : 0;
}

// Not one change could be tried: time helps planners more.
bool SearchTurns::splits_are_too_slow() const { return contest_.until().limited() && !splits_proposed_; }

}  // namespace pipesim
