#include "search/exhaustive.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "search/upstream_table.h"

namespace pipesim {
namespace {
using Clock = std::chrono::steady_clock;

class Tree {
 public:
  Tree(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options, const CandidateSet& candidates, UpstreamEffort eff)
      : candidates_(candidates), evaluator_(graph, costs, options), blocks_(chain_of_blocks(graph)), table_(candidates, blocks_, evaluator_.builder(), eff),
        graph_(evaluator_.builder()), n_(graph.operators().size()), settled_(n_, false), perdepth_(blocks_.size()+1,0) {
        for (auto& b : blocks_) configs_.emplace_back(candidates, b);
        for (std::size_t i = 0; i < n_; ++i) strategy_.push_back(evaluator_.builder().bind(OperatorId(i), candidates.config(OperatorId(i), 0)));
        fmt::print("table {}s\n", std::chrono::duration<double>(Clock::now() - began_).count());
        }
  Nanoseconds best = INT64_MAX;
  std::int64_t nodes = 0, leaves = 0;
  Evaluator& evaluator() { return evaluator_; }
  std::size_t num() { return blocks_.size(); }
  std::size_t root_size() { return configs_.back().size(); }
  void search(std::size_t rest, const std::vector<Nanoseconds>& quick) {
    if (rest == 0) { ++leaves; const Evaluation e = evaluator_.evaluate(strategy_); if (e.feasible() && e.time < best) { best = e.time; fmt::print("best {}\n", best);} return; }
    const std::size_t i = rest - 1;
    struct Kid { Nanoseconds b; std::size_t c; std::vector<Nanoseconds> quick; };
    std::vector<Kid> kids;
    for (OperatorId op : blocks_[i]) settled_[op.index()] = true;
    for (std::size_t c = 0; c < configs_[i].size(); ++c) {
      if (quick[c] >= best) continue;
      choose(i, c);
      graph_.build(strategy_, settled_, blocks_[i], &table_.at(i, c));
      ++nodes; ++perdepth_[rest];
      if (nodes % 100000 == 0) { fmt::print("{} nodes {} leaves {:.1f}s :", nodes, leaves, std::chrono::duration<double>(Clock::now() - began_).count()); for(auto d:perdepth_)fmt::print(" {}",d); fmt::print("\n"); fflush(stdout);}
      const Nanoseconds b = graph_.bound();
      if (b >= best) continue;
      Kid kid{b, c, {}};
      if (i > 0) { kid.quick.resize(configs_[i - 1].size()); graph_.bounds_by_origin(kid.quick); }
      kids.push_back(std::move(kid));
    }
    std::sort(kids.begin(), kids.end(), [](auto& a, auto& b) { return std::tie(a.b, a.c) < std::tie(b.b, b.c); });
    if (rest == num()) { fmt::print("{} root children:", kids.size()); for (auto& k: kids) fmt::print(" {}:{}", k.c, k.b); fmt::print("\n"); }
    for (auto& k : kids) { if (k.b >= best) break; choose(i, k.c); search(rest - 1, k.quick); }
    for (OperatorId op : blocks_[i]) settled_[op.index()] = false;
  }
  void choose(std::size_t i, std::size_t c) { for (std::size_t j = 0; j < blocks_[i].size(); ++j) { OperatorId op = blocks_[i][j]; strategy_[op.index()] = evaluator_.builder().bind(op, candidates_.config(op, configs_[i].config(c, j))); } }
 private:
  Clock::time_point began_ = Clock::now();
  const CandidateSet& candidates_;
  Evaluator evaluator_;
  OperatorBlocks blocks_;
  std::vector<BlockConfigs> configs_;
  UpstreamTable table_;
  PartialGraph graph_;
  std::size_t n_;
  std::vector<bool> settled_;
  BoundStrategy strategy_;
  std::vector<std::int64_t> perdepth_;
};
}  // namespace

SearchOutcome exhaustive(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                         const CandidateSet& candidates, const std::vector<SearchStart>& starts,
                         const SearchBudget&, const ProgressCallback&) {
  UpstreamEffort eff; if (getenv("CPO")) eff.choices_per_origin = atoi(getenv("CPO")); if (getenv("CSU")) eff.choices_of_summary = atoi(getenv("CSU"));
  Tree tree(graph, costs, options, candidates, eff);
  for (const SearchStart& s : starts) { auto e = tree.evaluator().evaluate(s.strategy); if (e.feasible()) tree.best = std::min(tree.best, e.time + 0); }
  tree.search(tree.num(), std::vector<Nanoseconds>(tree.root_size(), 0));
  fmt::print("nodes {} leaves {} best {}\n", tree.nodes, tree.leaves, tree.best);
  return {};
}
}  // namespace pipesim
