#include "search/exhaustive/exhaustive.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "search/exhaustive/upstream_table.h"
#include "search/incremental_evaluator.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr Bytes kMostPlanBytes(500'000'000);
constexpr std::size_t kMostJointConfigs = 2'000;  // of a block; the table grows with the square
constexpr UpstreamEffort kEffort{64, 1024};
constexpr std::size_t kManyJointConfigs = 100;
constexpr UpstreamEffort kEffortForMany{2, 16};

// Counts what was done and says when to stop.
class Meter {
 public:
  Meter(const SearchBudget& budget, const ProgressCallback& progress)
      : budget_(budget), progress_(progress) {}

  void count() { ++proposals_; }
  [[nodiscard]] std::int64_t proposals() const { return proposals_; }
  [[nodiscard]] double seconds() const { return time_.seconds(); }
  [[nodiscard]] bool stopped() const { return stopped_; }
  void stop() { stopped_ = true; }

  bool go_on(Nanoseconds best) {
    const double now = seconds();
    stopped_ = stopped_ || budget_.spent(proposals_, now);
    if (!stopped_ && progress_ && report_due(now)) {
      reported_ = proposals_;
      reported_at_ = now;
      stopped_ = !progress_({proposals_, 0, now, best == INT64_MAX ? 0 : best});
    }
    return !stopped_;
  }

 private:
  // By time as well: nothing is proposed while the table is filled, which may take long.
  [[nodiscard]] bool report_due(double now) const {
    constexpr std::int64_t kReportEvery = 1024;
    constexpr double kMostSilence = 0.1;
    return proposals_ >= reported_ + kReportEvery || now >= reported_at_ + kMostSilence;
  }

  SearchBudget budget_;
  const ProgressCallback& progress_;
  Stopwatch time_;
  std::int64_t proposals_ = 0, reported_ = 0;
  double reported_at_ = 0;
  bool stopped_ = false;
};

OperatorBlocks single_operators(std::size_t count) {
  OperatorBlocks blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back({OperatorId(i)});
  return blocks;
}

class Tree {
 public:
  Tree(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
       const CandidateSet& candidates, Meter& meter)
      : candidates_(candidates),
        evaluator_(graph, costs, options),
        graph_(evaluator_.contents()),
        meter_(meter),
        settled_(graph.operators().size(), false) {
    for (std::size_t i = 0; i < settled_.size(); ++i) {
      const OperatorId op(i);
      configs_.emplace_back();
      for (std::size_t c = 0; c < candidates.size(op); ++c) {
        stop_if_late();
        configs_[i].push_back(evaluator_.contents().bind(op, candidates.config(op, c)));
      }
      strategy_.push_back(configs_[i].front());
    }
  }

  void start_with(const SearchStart& start) {
    const Evaluation e = evaluator_.evaluate(start.strategy);
    meter_.count();
    if (e.feasible() && e.time < limit_) take(start.strategy, e, start.name);
  }

  void search() {
    plan_blocks();
    std::vector<Nanoseconds> nothing_known(blocks_.back().size(), 0);
    if (!meter_.stopped()) expand(blocks_.size(), nothing_known);
  }

  SearchOutcome finish() {
    outcome_.proposals = meter_.proposals();
    outcome_.seconds = meter_.seconds();
    outcome_.proven = !meter_.stopped();
    return std::move(outcome_);
  }

 private:
  // A joint config of a block that may lead to something better.
  struct Branch {
    Nanoseconds bound;
    std::size_t joint;
    std::vector<Nanoseconds> by_origin;  // the same by the joint configs of the block before
  };

  void plan_blocks() {
    OperatorBlocks blocks = chain_of_blocks(candidates_.graph());
    for (const std::vector<OperatorId>& ops : blocks) blocks_.emplace_back(candidates_, ops);
    std::size_t most = 0;
    for (const BlockConfigs& b : blocks_) most = std::max(most, b.size());
    if (most <= kMostJointConfigs) {
      table_ = std::make_unique<UpstreamTable>(candidates_, blocks, evaluator_.contents(),
                                               most > kManyJointConfigs ? kEffortForMany : kEffort,
                                               [this] { return meter_.go_on(limit_); });
      return;
    }
    blocks_.clear();
    for (const std::vector<OperatorId>& ops : single_operators(settled_.size()))
      blocks_.emplace_back(candidates_, ops);
  }

  // The last `rest` blocks but one are settled; `known` bounds this block's joint configs.
  void expand(std::size_t rest, const std::vector<Nanoseconds>& known) {
    if (rest == 0) return evaluate();
    const BlockConfigs& block = blocks_[rest - 1];
    for (const OperatorId op : block.ops()) settled_[op.index()] = true;
    for (const Branch& branch : branches(rest - 1, known)) {
      if (branch.bound >= limit_ || meter_.stopped()) break;
      choose(block, branch.joint);
      expand(rest - 1, branch.by_origin);
    }
    for (const OperatorId op : block.ops()) settled_[op.index()] = false;
  }

  std::vector<Branch> branches(std::size_t b, const std::vector<Nanoseconds>& known) {
    std::vector<Branch> open;
    Branch branch{0, 0, std::vector<Nanoseconds>(b == 0 ? 1 : blocks_[b - 1].size())};
    for (branch.joint = 0; branch.joint < blocks_[b].size() && meter_.go_on(limit_); ++branch.joint) {
      if (known[branch.joint] >= limit_) continue;
      choose(blocks_[b], branch.joint);
      evaluator_.forget_plans(kMostPlanBytes);
      graph_.build(strategy_, settled_, blocks_[b].ops(), table_ ? &table_->at(b, branch.joint) : nullptr);
      meter_.count();
      branch.bound = graph_.bound(limit_, branch.by_origin);
      if (branch.bound < limit_) open.push_back(branch);
    }
    std::sort(open.begin(), open.end(), [](const Branch& x, const Branch& y) {
      return std::tie(x.bound, x.joint) < std::tie(y.bound, y.joint);
    });
    return open;
  }

  void choose(const BlockConfigs& block, std::size_t joint) {
    for (std::size_t i = 0; i < block.ops().size(); ++i) {
      const OperatorId op = block.ops()[i];
      strategy_[op.index()] = configs_[op.index()][block.config(joint, i)];
    }
  }

  void evaluate() {
    const Evaluation e = *evaluator_.evaluate(strategy_, {.extent = Extent::All}).cost;
    meter_.count();
    if (!e.feasible() || e.time >= limit_) return;
    Strategy strategy;
    for (const BoundOperator* bound : strategy_) strategy.push_back(bound->config);
    take(std::move(strategy), e, "exhaustive");
  }

  void take(Strategy strategy, const Evaluation& evaluation, const std::string& found_by) {
    limit_ = evaluation.time;
    outcome_.best = Scored<Strategy>{std::move(strategy), evaluation};
    outcome_.found_by = found_by;
    ++outcome_.accepted;
    outcome_.history.push_back({meter_.seconds(), meter_.proposals(), evaluation.time, 0});
  }

  const CandidateSet& candidates_;
  Evaluator evaluator_;
  PartialGraph graph_;
  Meter& meter_;
  std::vector<std::vector<const BoundOperator*>> configs_;  // per operator
  std::vector<BlockConfigs> blocks_;
  std::unique_ptr<UpstreamTable> table_;
  BoundStrategy strategy_;
  std::vector<bool> settled_;
  Nanoseconds limit_ = INT64_MAX;  // time of the best so far
  SearchOutcome outcome_;
};

}  // namespace

SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget& budget, const ProgressCallback& progress) {
  if (evaluates_in_full(options, costs.runtime()))
    throw InternalError("exhaustive() searches plans of one microbatch, without stages and recomputation");
  Meter meter(budget, progress);
  std::optional<Tree> tree;
  try {
    tree.emplace(graph, costs, options, candidates, meter);
    for (const SearchStart& start : starts) tree->start_with(start);
    tree->search();
  } catch (const OutOfTime&) {
    meter.stop();
  }
  return tree ? tree->finish() : SearchOutcome{};
}

}  // namespace pipesim
