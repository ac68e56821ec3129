#include "search/auto/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/auto/sized_model.h"
#include "search/baselines/baselines.h"
#include "search/search_json.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

Contest::Contest(const PlanRequest& request)
    : request_(request),
      observer_(*request.observer),
      until_(deadline_with_stop(observer_)),
      seconds_(until_.left()),
      subject_{request.graph(), request.topology(), request.options(), baselines_},
      checkpoints_(chains().checkpoint, chains().checkpoint_every, subject_),
      candidates_(request.graph(), request.topology()),
      evaluator_(SizedModel(request), request.costs, request.options()),
      progress_(observer_.callback(), found_) {
  observer_.expect(request.settings.budget, std::nullopt);
  state_.seed = chains().seed;
  state_.chains = chains().chains;
}

double Contest::left_until(double share) const {
  return until_.limited() ? std::max(0.0, until_.left() - (1 - share) * seconds_) : seconds_;
}

const CandidateSet& Contest::candidates_of(const JointPlan& plan) {
  const std::int64_t groups = plan.sequence.token_groups;
  const auto known = with_groups_.find(groups);
  if (known != with_groups_.end()) return known->second;
  const OperatorGraph& graph = *evaluator_.graph(plan.microbatches, plan.sequence);
  return with_groups_.try_emplace(groups, graph, request_.topology()).first->second;
}

bool Contest::ask(const std::string& name, double seconds, const Turn& plan, std::int32_t part) {
  if (entry(name, part) != nullptr) return true;
  AutoEntry made = run(name, seconds, plan);
  const bool had_time = !made.stopped;
  made.part = part;
  const bool ended = !observer_.stop_requested() && had_time;  // else it may have found more
  if (ended && part != kLastPart) {
    state_.done.push_back(made);
    keep(false);
  }
  found_.add(std::move(made));
  return had_time;
}

void Contest::ask_baseline(const std::string& name, double seconds) {
  AutoEntry made = run(name, seconds, [&](std::string&) {
    starts_.push_back({name, baseline_strategy(name, request_.graph(), request_.costs)});
    return Found{joint_plan(request_.graph(), request_.topology(), request_.microbatches(),
                            starts_.back().strategy, std::nullopt)};
  });
  if (made.contribution.evaluation) {
    starts_.back().evaluation = made.contribution.evaluation;
    baselines_.push_back({name, Scored<Strategy>{starts_.back().strategy, *made.contribution.evaluation},
                          made.contribution.evaluation->feasible() ? "" : "does not fit into memory"});
  }
  found_.add(std::move(made));
}

AutoEntry Contest::run(const std::string& name, double seconds, const Turn& plan) {
  const Stopwatch time;
  AutoEntry made{{name, std::nullopt, 0, "", 0}, std::nullopt};
  Contribution& told = made.contribution;
  try {
    const Deadline share = until_.within(seconds);
    std::optional<KeepTo> kept(std::in_place, share);
    Found found = plan(told.note);
    if (found.as_asked) found.plan.set_policies(request_.options());
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

const AutoEntry* Contest::entry(const std::string& name, std::int32_t part) const {
  const auto found = std::ranges::find_if(
      state_.done, [&](const AutoEntry& e) { return e.contribution.name == name && e.part == part; });
  return found == state_.done.end() ? nullptr : &*found;
}

std::string Contest::name_with(std::string_view algorithm, std::int32_t microbatches) const {
  return microbatches == request_.microbatches()
             ? std::string(algorithm)
             : fmt::format("{}, {}", algorithm, counted(microbatches, "microbatch"));
}

void Contest::resume() {
  if (const std::string& file = chains().resume; !file.empty()) {
    AutoState found = checkpoints_.load(file, split_searches(), [&](const SequenceDivision& sequence) {
      return evaluator_.graph(request_.microbatches(), sequence);
    });
    if (chains().seed_is_asked) require_choice(file, "seed", state_.seed, found.seed);
    if (chains().chains_are_asked) require_choice(file, "chains", state_.chains, found.chains);
    state_ = std::move(found);
    if (!state_.joint)  // then its first part must be done again
      std::erase_if(state_.done, [](const AutoEntry& e) { return is_joint(e.contribution); });
    for (const AutoEntry& entry : state_.done) found_.add(entry);
  }
  keep(false);
}

void Contest::keep(bool last) { checkpoints_.keep(state_, last, split_searches()); }

AutoCheckpoints::SplitSearchOf Contest::split_searches() {
  return [this](std::int32_t microbatches) { return splits(microbatches); };
}

SplitSearch* Contest::splits(std::int32_t microbatches) {
  const auto known = splits_.find(microbatches);
  if (known != splits_.end()) return known->second.get();
  const OperatorGraph* graph =
      microbatches == request_.microbatches() ? &request_.graph() : evaluator_.graph(microbatches);
  if (graph == nullptr) return nullptr;
  PlanOptions options = request_.options();
  options.microbatches = microbatches;
  auto made = std::make_unique<SplitSearch>(*graph, request_.topology(), options);
  if (graph == &request_.graph()) {
    made->starts = starts_;
    made->baselines = baselines_;
    const auto is_late = [](const SearchStart& s) { return !s.evaluation; };
    if (until_.limited() && !checkpoints_.wanted() && chains().resume.empty() &&
        !std::ranges::all_of(starts_, is_late))
      std::erase_if(made->starts, is_late);
  } else {
    for (const std::string_view name : baseline_names())
      made->starts.push_back({std::string(name), baseline_strategy(name, *graph, request_.costs)});
  }
  return splits_.emplace(microbatches, std::move(made)).first->second.get();
}

void Contest::finish() {
  SearchOutcome told;
  told.seconds = time_.seconds();
  observer_.finish(told);
}

}  // namespace pipesim
