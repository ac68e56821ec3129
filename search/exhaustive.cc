#include "search/exhaustive.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>

#include "search/upstream_table.h"

namespace pipesim {
namespace {
using Clock = std::chrono::steady_clock;

class Tree {
 public:
  Tree(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options, const CandidateSet& candidates)
      : candidates_(candidates), evaluator_(graph, costs, options), table_(candidates, evaluator_.builder()),
        graph_(evaluator_.builder()), n_(graph.operators().size()), settled_(n_, false), upstream_(n_, nullptr), strategy_(table_.filler()), state_(n_, 0), perdepth_(n_+1,0) {
        fmt::print("table {}s\n", std::chrono::duration<double>(Clock::now() - began_).count());
        }
  Nanoseconds best = INT64_MAX;
  std::vector<std::size_t> best_state;
  std::int64_t nodes = 0, leaves = 0;
  Evaluator& evaluator() { return evaluator_; }
  void search(std::size_t rest, const std::vector<Nanoseconds>& quick) {
    if (rest == 0) { ++leaves; const Evaluation e = evaluator_.evaluate(strategy_); if (e.feasible() && e.time < best) { best = e.time; best_state = state_; fmt::print("best {}\n", best);} return; }
    const std::size_t i = rest - 1; OperatorId op(i);
    std::vector<std::pair<Nanoseconds, std::size_t>> kids; std::vector<std::pair<std::size_t, std::vector<Nanoseconds>>> more;
    settled_[i] = true;
    for (std::size_t c = 0; c < candidates_.size(op); ++c) {
      if (quick[c] >= best) continue;
      choose(op, c);
      graph_.build(strategy_, settled_, upstream_);
      ++nodes; ++perdepth_[rest];
      if (nodes % 100000 == 0) { fmt::print("{} nodes {} leaves {:.1f}s :", nodes, leaves, std::chrono::duration<double>(Clock::now() - began_).count()); for(auto d:perdepth_)fmt::print(" {}",d); fmt::print("\n"); fflush(stdout);}
      const Nanoseconds b = graph_.bound();
      if (b >= best) continue;
      kids.emplace_back(b, c);
      more.emplace_back(c, std::vector<Nanoseconds>());
      if (i > 0) { more.back().second.resize(candidates_.size(OperatorId(i - 1))); graph_.bounds_by_config(OperatorId(i - 1), more.back().second); }
    }
    std::sort(kids.begin(), kids.end());
    if (rest == n_) { fmt::print("root children:"); for (auto& [b,c]: kids) fmt::print(" {}:{}", c, b); fmt::print("\n"); }
    for (auto& [b, c] : kids) { if (b >= best) break; choose(op, c); for (auto& m : more) if (m.first == c) search(rest - 1, m.second); }
    settled_[i] = false; upstream_[i] = nullptr;
  }
  void choose(OperatorId op, std::size_t c) { strategy_[op.index()] = table_.bound(op, c); upstream_[op.index()] = &table_.at(op, c); state_[op.index()] = c; }
 private:
  Clock::time_point began_ = Clock::now();
  const CandidateSet& candidates_;
  Evaluator evaluator_;
  UpstreamTable table_;
  PartialGraph graph_;
  std::size_t n_;
  std::vector<bool> settled_;
  UpstreamBounds upstream_;
  BoundStrategy strategy_;
  std::vector<std::size_t> state_;
  std::vector<std::int64_t> perdepth_;
};
}  // namespace

SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget&, const ProgressCallback&) {
  Tree tree(graph, costs, options, candidates);
  for (const SearchStart& s : starts) { auto e = tree.evaluator().evaluate(s.strategy); if (e.feasible()) tree.best = std::min(tree.best, e.time + 0); }
  tree.search(graph.operators().size(), std::vector<Nanoseconds>(1000, 0));
  fmt::print("nodes {} leaves {} best {}\n", tree.nodes, tree.leaves, tree.best);
  return {};
}
}  // namespace pipesim
