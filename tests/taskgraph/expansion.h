#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph_builder.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "topologies/presets/presets.h"

namespace pipesim {

/// A config as a test writes it down: splits by name; what is not listed is whole.
struct Split {
  std::vector<std::pair<std::string, std::int32_t>> degrees;
  std::vector<std::int32_t> devices;  ///< shard order: replicas slowest, then the operator's factors
  std::int32_t replicas = 1;
  bool ring = false;
};

/// Devices first, first + 1, …, in order.
inline std::vector<std::int32_t> devices_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> devices;
  for (std::int32_t d = first; d < first + count; ++d) devices.push_back(d);
  return devices;
}

inline ParallelConfig config_of(const Operator& op, const Split& split) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), split.replicas, {}};
  for (const auto& [name, degree] : split.degrees)
    config.degrees[static_cast<std::size_t>(op.factor(name))] = degree;
  for (const std::int32_t d : split.devices) config.devices.emplace_back(d);
  config.ring = split.ring;
  return config;
}

/// The task graph of a small model under configs written by hand, and its communication in words.
class Expansion {
 public:
  Expansion(OperatorGraph model, std::string_view topology_name, const std::map<std::string, Split>& splits,
            const PlanOptions& plan_options = {})
      : Expansion([&](const OperatorGraph& g, const Topology&) { return strategy_of(g, splits); },
                  std::move(model), topology_name, plan_options) {}
  using MakeStrategy = std::function<Strategy(const OperatorGraph&, const Topology&)>;
  Expansion(const MakeStrategy& make_strategy, OperatorGraph model, std::string_view topology_name,
            const PlanOptions& plan_options = {})
      : graph(std::move(model)),
        topology(make_topology(topology_name)),
        options(plan_options),
        strategy(make_strategy(graph, topology)) {
    if (const auto reason = illegal(graph, strategy, topology)) throw std::invalid_argument(*reason);
    bound = contents.bind(strategy);
    expanded.expand(bound, {.labels = Labels::Make});
  }
  static Strategy strategy_of(const OperatorGraph& graph, const std::map<std::string, Split>& splits) {
    Strategy strategy;
    std::size_t used = 0;
    for (const Operator& op : graph.operators()) {
      const auto it = splits.find(op.name);
      strategy.push_back(it == splits.end() ? single_device(op, DeviceId(0)) : config_of(op, it->second));
      used += it != splits.end() ? 1 : 0;
    }
    if (used != splits.size()) throw std::invalid_argument("a split of no operator");
    return strategy;
  }
  Expansion(const Expansion&) = delete;
  Expansion& operator=(const Expansion&) = delete;

  /// One line per collective or message, "forward x: all-reduce 0,1 of 64 B"; sizes as bytes_on_links counts
  /// them. Inner reduces as "forward fc1 inside: …". In the order of forward, backward, synchronisation.
  [[nodiscard]] std::vector<std::string> traffic() const {
    std::vector<std::string> lines;
    for (const BoundOperator* b : bound) add_inner(*b, "forward", b->forward, lines);
    add_wirings(TaskKind::ForwardTransfer, "forward", lines);
    for (const BoundOperator* b : bound) add_inner(*b, "backward", b->backward_input, lines);
    add_wirings(TaskKind::BackwardTransfer, "backward", lines);
    add_wirings(TaskKind::GradientSync, "sync", lines);
    return lines;
  }

  /// Bytes on links of all communication tasks of a kind, from the labels.
  [[nodiscard]] std::int64_t bytes_of(TaskKind kind) const {
    std::int64_t sum = 0;
    for (const TaskLabel& l : tasks.labels) {
      if (l.kind == kind && is_communication(kind)) sum += bytes_on_links(l.collective, l.group_size, l.size);
    }
    return sum;
  }
  [[nodiscard]] std::int64_t bytes_of_everything() const {
    return bytes_of(TaskKind::ForwardTransfer) + bytes_of(TaskKind::BackwardTransfer) +
           bytes_of(TaskKind::GradientSync) + bytes_of(TaskKind::InnerReduce) + bytes_of(TaskKind::Rotation);
  }

  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  PlanOptions options;
  Strategy strategy;
  PlanContents contents{graph, costs, options};
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
  const TaskGraph& tasks = expanded.graph();

 private:
  template <class Task>  // CommunicationTask or PricedTask
  static std::string line(std::string_view what, const std::string& of, const Task& t) {
    std::vector<std::int32_t> group;
    for (const DeviceId d : t.group) group.push_back(d.value);
    return fmt::format("{} {}: {} {} of {} B", what, of, name_of(t.kind), fmt::join(group, ","),
                       bytes_on_links(t.kind, static_cast<std::int64_t>(group.size()), t.size));
  }
  static void add_inner(const BoundOperator& b, std::string_view pass, const PassWork& work,
                        std::vector<std::string>& lines) {
    for (const InnerExchange& e : work.exchanges) lines.push_back(line(pass, b.op->name + " inside", e.task));
  }
  void add_wirings(TaskKind kind, std::string_view what, std::vector<std::string>& lines) const {
    for (const Wiring& w : expanded.wirings()) {
      if (w.kind != kind) continue;
      for (const CommunicationTask& t : w.plan->tasks)
        lines.push_back(line(what, graph.tensor(w.tensor).name, t));
    }
  }
};

}  // namespace pipesim
