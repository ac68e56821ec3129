#include "taskgraph/drawing/loop_nest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "models/backward_need.h"
#include "models/box.h"
#include "models/causal_mask.h"
#include "taskgraph/binding/addend_axes.h"
#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/binding/ring.h"

namespace pipesim {
namespace {

class LoopNestWriter {
 public:
  LoopNestWriter(const OperatorGraph& graph, const Operator& op, ParallelConfig config)
      : graph_(graph), op_(op), config_(on_devices(std::move(config))), grid_(op, config_) {}

  LoopNest write() {
    add_loops();
    add_body();
    add_traffic();
    return std::move(nest_);
  }

 private:
  static ParallelConfig on_devices(ParallelConfig config) {
    config.devices.clear();
    for (std::int64_t k = 0; k < config.num_shards(); ++k)
      config.devices.emplace_back(static_cast<std::size_t>(k));
    return config;
  }
  [[nodiscard]] const Factor& factor(FactorIndex f) const { return op_.factors[static_cast<std::size_t>(f)]; }
  [[nodiscard]] std::int64_t degree(FactorIndex f) const {
    return config_.degrees[static_cast<std::size_t>(f)];
  }
  [[nodiscard]] std::vector<FactorIndex> factors() const {
    std::vector<FactorIndex> all(op_.factors.size());
    std::iota(all.begin(), all.end(), FactorIndex{0});
    return all;
  }

  // Row-major.
  static std::string numbered(const std::string& major, std::int64_t extent, const std::string& minor) {
    const bool simple = major.find(' ') == std::string::npos;
    return fmt::format("{}{}{} * {} + {}", simple ? "" : "(", major, simple ? "" : ")", extent, minor);
  }

  void add_loops() {
    std::string device;
    const auto add_parallel = [&](const std::string& variable, std::int64_t extent, bool reduces) {
      nest_.loops.push_back({variable, {extent}, true, reduces});
      device = device.empty() ? variable : numbered(device, extent, variable);
    };
    if (config_.replicas > 1) add_parallel(kCopy, config_.replicas, false);
    for (const FactorIndex f : factors()) {
      if (degree(f) > 1) add_parallel(factor(f).name + "0", degree(f), reduces(f));
    }
    nest_.device = device.empty() ? "0" : device;
    for (const bool reducing : {false, true}) {
      for (const FactorIndex f : factors()) {
        if (reduces(f) == reducing) add_inner(f);
      }
    }
  }

  void add_inner(FactorIndex f) {
    const std::string& name = factor(f).name;
    if (degree(f) == 1) {
      nest_.loops.push_back({name, {factor(f).size}, false, reduces(f)});
      return;
    }
    std::set<std::int64_t> lengths;
    std::vector<std::int64_t> begins;
    for (std::int64_t k = 0; k < degree(f); ++k) {
      const Range part = cut(factor(f), degree(f), k);
      lengths.insert(part.length());
      begins.push_back(part.begin);
    }
    nest_.loops.push_back({name + "1", {lengths.begin(), lengths.end()}, false, reduces(f)});
    const std::string begin = lengths.size() == 1 ? fmt::format("{}0 * {}", name, *lengths.begin())
                                                  : fmt::format("[{}][{}0]", fmt::join(begins, ", "), name);
    (reduces(f) ? nest_.reduced_indices : nest_.indices)
        .push_back(fmt::format("{} = {} + {}1", name, begin, name));
  }

  // The results do not follow it.
  [[nodiscard]] bool reduces(FactorIndex f) const {
    return std::ranges::none_of(
        op_.uses, [&](const TensorUse& use) { return use.role == Role::Output && use.follows(f); });
  }

  [[nodiscard]] std::string index_text(const IndexExpr& dim) const {
    if (dim.kind == IndexExpr::Kind::Whole) return dim.extent == 1 ? "0" : ":";
    const std::string& first = factor(dim.factors.front()).name;
    const auto offset = [](std::int64_t by) {
      return by == 0 ? "" : by > 0 ? fmt::format(" + {}", by) : fmt::format(" - {}", -by);
    };
    if (dim.kind == IndexExpr::Kind::Axis) return first + offset(dim.offset);
    if (dim.kind == IndexExpr::Kind::Window) {
      const std::string at = dim.stride == 1 ? first : fmt::format("{} * {}", first, dim.stride);
      if (dim.kernel == 1) return at + offset(-dim.pad);
      const std::int64_t end = dim.dilation * (dim.kernel - 1) + 1 - dim.pad;
      return fmt::format("{}{}:{}{}{}", at, offset(-dim.pad), at, offset(end),
                         dim.dilation > 1 ? fmt::format(":{}", dim.dilation) : "");
    }
    std::string text = first;
    for (std::size_t i = 1; i < dim.factors.size(); ++i) {
      const Factor& next = factor(dim.factors[i]);
      text = numbered(text, next.size, next.name);
    }
    return text;
  }

  [[nodiscard]] std::string element_text(const TensorUse& use) const {
    std::vector<std::string> indices;
    for (const IndexExpr& dim : use.dims) indices.push_back(index_text(dim));
    const std::string& name = graph_.tensor(use.tensor).name;
    return indices.empty() ? name : fmt::format("{}[{}]", name, fmt::join(indices, ", "));
  }

  // Elements of operands that stand in no slice are multiplied.
  [[nodiscard]] bool is_product() const {
    const bool one = op_.matrix && !op_.matrix->fused && op_.products_forward.empty();
    return one && std::ranges::none_of(op_.uses, [](const TensorUse& use) {
             return std::ranges::any_of(use.dims, [](const IndexExpr& dim) {
               return (dim.kind == IndexExpr::Kind::Whole && dim.extent > 1) ||
                      (dim.kind == IndexExpr::Kind::Window && dim.kernel > 1);
             });
           });
  }

  void add_body() {
    std::vector<std::string> operands, once;
    std::string condition;  // of what is added once
    for (const TensorUse& use : op_.uses) {
      if (use.role == Role::Output || use.role == Role::State) continue;
      bool is_once = false;
      for (const auto& [f, lack] : use.lacks) {
        // A scan does not add its skip as it is.
        if (lack != Lack::Once || op_.kind.ends_with("_scan")) continue;
        is_once = true;
        if (degree(f) > 1) condition = fmt::format("if {}0 == 0: ", factor(f).name);
      }
      (is_once ? once : operands).push_back(element_text(use));
    }
    const bool adds = std::ranges::any_of(factors(), [&](FactorIndex f) { return reduces(f); });
    for (const TensorUse& use : op_.uses) {
      if (use.role != Role::Output) continue;
      const std::string result = element_text(use), assign = adds ? "+=" : "=";
      nest_.body.push_back(
          is_product() ? fmt::format("{} {} {}", result, assign, fmt::join(operands, " * "))
                       : fmt::format("{} {} {}({})", result, assign, op_.kind, fmt::join(operands, ", ")));
      for (const std::string& operand : once)
        nest_.after.push_back(fmt::format("{}{} += {}", condition, result, operand));
    }
    if (op_.causal) nest_.body.front() += "  # where " + mask_text();
  }

  // "t <= s", or "s - 4 < t <= s" where a window narrows it.
  [[nodiscard]] std::string mask_text() const {
    const std::string &query = factor(op_.causal->first).name, &key = factor(op_.causal->second).name;
    const std::int64_t window = attention_window(op_);
    return fmt::format("{}{} <= {}", window > 0 ? fmt::format("{} - {} < ", query, window) : "", key, query);
  }

  // Describes traffic along those parallel loops that `wanted` selects.
  template <class Wanted>
  [[nodiscard]] SplitTraffic among(SplitTraffic::When when, SplitTraffic::What what, std::string tensor,
                                   Wanted wanted) const {
    SplitTraffic t{when, what, std::move(tensor), {}, 1, 1, {}};
    for (const FactorIndex f : factors()) {
      if (degree(f) == 1 || !wanted(f)) continue;
      t.over.push_back(factor(f).name + "0");
      t.members *= degree(f);
    }
    t.groups = config_.num_shards() / t.members;
    return t;
  }

  [[nodiscard]] Bytes largest_part(const Layout& layout, TensorId tensor) const {
    std::int64_t most = 0;
    for (const Box& box : layout.boxes()) most = std::max(most, box.elements());
    return most * Bytes(bytes_per_element(graph_.tensor(tensor).type));
  }

  void add(SplitTraffic t, Bytes size) {
    if (t.members == 1) return;
    t.size = size;
    nest_.traffic.push_back(std::move(t));
  }

  // What passes round a ring comes back as the shard's own part.
  [[nodiscard]] bool goes_round(const TensorUse& use, FactorIndex f) const {
    return config_.ring && f == op_.rotation->first && use.follows(op_.rotation->second);
  }
  [[nodiscard]] bool sums(const TensorUse& use, FactorIndex f) const {
    return std::ranges::count(addend_axes(op_, use, config_), f) > 0;
  }
  [[nodiscard]] bool copies(const TensorUse& use, FactorIndex f) const {
    if (use.follows(f) || goes_round(use, f)) return false;
    return use.role == Role::Output ? use.lack(f) == Lack::Same : use.lack(f) != Lack::Once;
  }

  void add_traffic() {
    using When = SplitTraffic::When;
    using What = SplitTraffic::What;
    for (const TensorUse& use : op_.uses) {
      if (use.role == Role::State) continue;
      const bool output = use.role == Role::Output;
      const Layout layout = output ? produced_layout(op_, use, config_) : required_layout(op_, use, config_);
      SplitTraffic shared = among(When::Forward, What::Copies, graph_.tensor(use.tensor).name,
                                  [&](FactorIndex f) { return copies(use, f); });
      if (config_.replicas > 1) {
        shared.over.insert(shared.over.begin(), kCopy);
        shared.members *= config_.replicas;
        shared.groups /= config_.replicas;
      }
      add(std::move(shared), largest_part(layout, use.tensor));
      if (!output) continue;
      add(among(When::Forward, What::Addends, graph_.tensor(use.tensor).name,
                [&](FactorIndex f) { return sums(use, f); }),
          largest_part(layout, use.tensor));
    }
    add_inner_traffic(Pass::Forward, When::Forward);
    const auto index = static_cast<std::size_t>(&op_ - graph_.operators().data());
    const BackwardNeed need = backward_need(graph_, OperatorId(index));
    if (!need.input_pass && !need.weight_pass) return;
    add_inner_traffic(Pass::BackwardInput, When::Backward);
    for (const Role role : {Role::Input, Role::Weight}) {
      for (const TensorUse& use : op_.uses) {
        if (use.role != role || !graph_.wants_gradient(use.tensor)) continue;
        add(among(role == Role::Input ? When::Backward : When::Update, What::Addends,
                  graph_.tensor(use.tensor).name, [&](FactorIndex f) { return sums(use, f); }),
            largest_part(gradient_layout(op_, use, config_), use.tensor));
      }
    }
  }

  void add_inner_traffic(Pass pass, SplitTraffic::When when) {
    std::vector<Range> ranges;
    grid_.ranges(0, ranges);
    for (const InnerStep& step : op_.inner_steps) {
      if (step.pass != pass) continue;
      const auto elements = static_cast<std::int64_t>(evaluate(std::span(&step.elements, 1), ranges));
      add(among(when, SplitTraffic::What::Statistic, step.reduce == InnerStep::Reduce::Max ? "max" : "sum",
                [&](FactorIndex f) { return std::ranges::find(step.over, f) != step.over.end(); }),
          elements * Bytes(step.element_bytes));
    }
    if (!config_.ring) return;
    const RingBlock block = ring_block(graph_, op_, config_);
    add(among(when, SplitTraffic::What::Blocks,
              pass == Pass::Forward ? "keys and values" : "keys, values and their gradients",
              [&](FactorIndex f) { return f == op_.rotation->first; }),
        pass == Pass::Forward ? block.values : block.values + block.gradients);
  }

  static constexpr const char* kCopy = "copy";
  const OperatorGraph& graph_;
  const Operator& op_;
  const ParallelConfig config_;
  const ShardGrid grid_;
  LoopNest nest_;
};

}  // namespace

LoopNest loop_nest(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config) {
  return LoopNestWriter(graph, op, config).write();
}

std::string text_of(const LoopNest& nest, std::string_view shard) {
  std::string text, indent;
  const auto line = [&](const std::string& what) { text += indent + what + "\n"; };
  const auto deeper = [&](const std::string& loop) {
    line(loop);
    indent += "  ";
  };
  for (const FactorLoop& loop : nest.loops) {
    if (loop.parallel) deeper(fmt::format("for {} in parallel({}):", loop.variable, loop.extents.front()));
  }
  line(fmt::format("# on device {}{}{}", nest.device, shard.empty() ? "" : ": ", shard));
  const auto loops = [&](bool reducing) {
    std::vector<std::string> variables, extents;
    for (const FactorLoop& loop : nest.loops) {
      if (loop.parallel || loop.reduces != reducing) continue;
      variables.push_back(loop.variable);
      extents.push_back(fmt::format("{}", fmt::join(loop.extents, " or ")));
    }
    if (!variables.empty())
      deeper(fmt::format("for {} in {}({}):", fmt::join(variables, ", "), reducing ? "reduce" : "grid",
                         fmt::join(extents, ", ")));
  };
  loops(false);
  for (const std::string& index : nest.indices) line(index);
  const std::string of_results = indent;
  loops(true);
  for (const std::string& index : nest.reduced_indices) line(index);
  for (const std::string& statement : nest.body) line(statement);
  indent = of_results;
  for (const std::string& statement : nest.after) line(statement);
  return text;
}

}  // namespace pipesim
