#include "search/intra/solve.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "search/intra/check_answer.h"
#include "search/intra/elimination.h"
#include "search/intra/improver.h"
#include "search/intra/prover.h"
#include "search/intra/reductions.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Entries of a table: at most 80 MB.
constexpr std::size_t kMostEliminatedEntries = 10'000'000;
// Entries of tables that each worker reads in a round: at first a fraction of a millisecond's, so that small
// instances take little, then twice as many each time, to some tens of milliseconds'.
constexpr std::uint64_t kWorkOfFirstRound = 312'500, kMostWorkOfRound = 40'000'000;
constexpr std::size_t kImprovers = 3;

class IntraSolver {
 public:
  IntraSolver(const IntraInstance& instance, const IntraSettings& settings)
      : instance_(instance), settings_(settings) {}

  IntraSolution run() {
    try {
      work();
    } catch (const OutOfTime&) {
      // What was found until now counts.
    }
    return std::move(solution_);
  }

 private:
  void work() {
    for (const IntraInstance::Node& node : instance_.nodes) solution_.bound += std::ranges::min(node.cost);
    for (const IntraInstance::Edge& edge : instance_.edges) solution_.bound += std::ranges::min(edge.cost);
    IntraModel model(instance_);
    reduce(model);
    if (model.infeasible) {
      solution_.proven = true;
      return;
    }
    const IntraCore core(model);
    solution_.nodes = core.nodes.size();
    if (core.nodes.empty()) {
      take(model, core, {});
      prove();
      return;
    }
    if (core.rows() == 0) {
      if (const auto choice = eliminate(core, kMostEliminatedEntries)) {
        take(model, core, *choice);
        prove();
        return;
      }
    }
    search(model, core);
  }

  void search(const IntraModel& model, const IntraCore& core) {
    WorkerThreads threads(settings_.threads);
    Prover prover(model);
    const Rng rng(settings_.seed);
    std::vector<Improver> improvers;
    for (std::size_t k = 0; k < kImprovers; ++k) improvers.emplace_back(core, rng.split(k));
    Improver::Best best;
    std::vector<std::vector<std::uint32_t>> starts;
    std::vector<std::size_t> tasks(1 + kImprovers);
    for (std::size_t t = 0; t < tasks.size(); ++t) tasks[t] = t;
    std::uint64_t work = kWorkOfFirstRound;
    for (; solution_.rounds < settings_.rounds;
         ++solution_.rounds, work = std::min(2 * work, kMostWorkOfRound)) {
      if (is_late()) return;
      const double aim = best.excess == 0 ? best.cost + core.constant : kNever;
      const RowPrices prices = prices_of(prover, core);
      const double bound = prover.bound() - core.constant;
      // The prover solves small instances alone, mostly; an improver helps where it finds no answer that is
      // allowed.
      const bool small = work < kMostWorkOfRound;
      if (small) prover.run(work, aim);
      const std::size_t helpers = small ? (prover.finished() || best.excess == 0 ? 0 : 1) : kImprovers;
      threads.run(tasks, [&](std::size_t task, std::size_t) {
        if (task == 0) {
          if (!small) prover.run(work, aim);
        } else if (!best.choice.empty() && task <= helpers) {
          const std::vector<std::uint32_t>* start =
              starts.empty() ? nullptr : &starts[(task - 1) % starts.size()];
          improvers[task - 1].run(work, prices, best, start, bound);
        }
      });
      const double before = aim;
      if (!best.choice.empty()) {
        for (const Improver& improver : improvers) {
          const Improver::Best& found = improver.best();
          if (!found.choice.empty() && found.better_than(best)) best = found;
        }
      }
      starts.clear();
      for (const RoundedAnswer& rounded : prover.rounded()) {
        std::vector<std::uint32_t> choice = core.choice_of(rounded.answer);
        const Improver::Best found{choice, rounded.cost - core.constant, rounded.excess};
        if (best.choice.empty() || found.better_than(best)) best = found;
        starts.push_back(std::move(choice));
      }
      std::ranges::reverse(starts);  // the newest first
      if (best.excess == 0 && best.cost + core.constant < before) take(model, core, best.choice);
      note_bound(prover);
      if (settings_.progress)
        settings_.progress({solution_.found, solution_.cost, solution_.bound, prover.strategies_left(),
                            solution_.parts, solution_.rounds + 1});
      if (prover.finished() && !is_late()) {
        prove();
        return;
      }
    }
  }

  static RowPrices prices_of(const Prover& prover, const IntraCore& core) {
    std::vector<RowPrices::Price> prices;
    for (const auto& [time, price] : prover.multipliers()) {
      const auto row = std::ranges::lower_bound(core.time, time);
      prices.emplace_back(static_cast<std::uint32_t>(row - core.time.begin()), price);
    }
    return RowPrices(std::move(prices));
  }

  void take(const IntraModel& model, const IntraCore& core, const std::vector<std::uint32_t>& choice) {
    IntraAnswer answer(instance_.nodes.size(), 0);
    core.put(choice, answer);
    model.restore(answer);
    const CheckedAnswer checked = check_answer(instance_, answer);
    if (!checked.feasible()) throw InternalError("the solver's answer breaks a rule: " + checked.broken);
    if (solution_.found && checked.cost >= solution_.cost) return;
    solution_.found = true;
    solution_.answer = std::move(answer);
    solution_.cost = checked.cost;
  }

  void prove() {
    const WideCost inexact = solution_.found ? inexactness() : 0;
    solution_.proven = inexact == 0;
    if (solution_.found) solution_.bound = std::max(solution_.bound, solution_.cost - inexact);
  }

  // By how much sums of costs in doubles may be wrong; 0 where all of them are exact.
  [[nodiscard]] WideCost inexactness() const {
    WideCost most = 0;
    const auto add = [&](const std::vector<std::int64_t>& costs) {
      std::int64_t largest = 0;
      for (const std::int64_t cost : costs) {
        if (cost < kForbidden) largest = std::max(largest, std::abs(cost));
      }
      most += largest;
    };
    for (const IntraInstance::Node& node : instance_.nodes) add(node.cost);
    for (const IntraInstance::Edge& edge : instance_.edges) add(edge.cost);
    constexpr WideCost kExact = WideCost{1} << 53;
    if (most <= kExact) return 0;
    const auto terms = static_cast<WideCost>(2 * (instance_.nodes.size() + instance_.edges.size()));
    return (most / kExact + 1) * terms;
  }

  // Costs are whole numbers.
  void note_bound(const Prover& prover) {
    solution_.parts = prover.parts();
    const double bound = prover.bound();
    if (!(bound > -kNever)) return;
    WideCost whole = solution_.found ? solution_.cost : 0;
    if (bound < kNever) whole = static_cast<WideCost>(std::ceil(bound));
    if (solution_.found) whole = std::min(whole, solution_.cost);
    solution_.bound = std::max(solution_.bound, whole);
  }

  const IntraInstance& instance_;
  const IntraSettings& settings_;
  IntraSolution solution_;
};

}  // namespace

double IntraSolution::gap() const {
  if (!found || cost == bound) return 0;
  return static_cast<double>(cost - bound) / static_cast<double>(cost);
}

IntraSolution solve(const IntraInstance& instance, const IntraSettings& settings) {
  return IntraSolver(instance, settings).run();
}

}  // namespace pipesim
