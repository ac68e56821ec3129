#include "taskgraph/binding/bound_operator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "models/backward_need.h"
#include "models/box.h"
#include "sim/base/allocated_bytes.h"
#include "taskgraph/binding/addend_axes.h"
#include "taskgraph/binding/ring.h"

namespace pipesim {
namespace {

bool has_box(const Operator& op, const TensorUse& use, const ShardGrid& grid, std::int64_t shard) {
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    if (grid.split(factor) && !use.follows(factor) && use.lack(factor) == Lack::Once &&
        grid.coordinate(shard, factor) != 0) {
      return false;
    }
  }
  return true;
}

Layout layout_of(const Operator& op, const TensorUse& use, const ParallelConfig& config,
                 const std::vector<FactorIndex>& axes) {
  const ShardGrid grid(op, config);
  std::vector<Layout::Piece> pieces;
  std::vector<Range> ranges;
  for (std::int64_t k = 0; k < grid.num_shards(); ++k) {
    if (!has_box(op, use, grid, k)) continue;
    grid.ranges(k, ranges);
    const Box box = box_of(use, op, ranges);
    if (box.empty()) continue;
    std::int32_t addend = 0;
    for (const FactorIndex f : axes) {
      addend = addend * config.degrees[static_cast<std::size_t>(f)] +
               static_cast<std::int32_t>(grid.coordinate(k, f));
    }
    pieces.push_back({config.devices[static_cast<std::size_t>(k)], box, addend});
  }
  return Layout(pieces);
}

// Adds the statistics between a stage and the next. The tasks of all stages are numbered before them.
void add_statistic(const Operator& op, const InnerStep& step, const ParallelConfig& config,
                   std::int32_t stage, CommunicationPrices& prices, PassWork& work) {
  const ShardGrid grid(op, config);
  const auto shards = static_cast<std::int32_t>(grid.num_shards());
  std::vector<Range> ranges;
  for (std::vector<std::int32_t>& members : grid.groups_along(step.over)) {
    grid.ranges(members.front(), ranges);
    const double elements = evaluate(std::span(&step.elements, 1), ranges);
    std::vector<DeviceId> group;
    const auto exchange = static_cast<std::int32_t>(work.num_stages) * shards +
                          static_cast<std::int32_t>(work.exchanges.size());
    for (const std::int32_t k : members) {
      group.push_back(config.devices[static_cast<std::size_t>(k)]);
      work.waits.push_back({stage * shards + k, exchange});
      work.waits.push_back({exchange, (stage + 1) * shards + k});
    }
    std::sort(group.begin(), group.end());
    const Bytes size(static_cast<std::int64_t>(elements) * step.element_bytes);
    work.exchanges.push_back({InnerExchange::Content::Statistic, stage, std::move(members),
                              priced_task(Collective::AllReduce, std::move(group), size, prices)});
  }
}

// Adds the statistics of inner steps whose factors this config splits; returns the part of the work before
// each, then 1.
std::vector<double> add_statistics(const Operator& op, Pass pass, const ParallelConfig& config,
                                   CommunicationPrices& prices, PassWork& work) {
  const ShardGrid grid(op, config);
  std::vector<const InnerStep*> steps;
  std::vector<double> shares;
  for (const InnerStep& step : op.inner_steps) {
    const bool split =
        std::any_of(step.over.begin(), step.over.end(), [&](FactorIndex f) { return grid.split(f); });
    if (step.pass != pass || !split) continue;
    steps.push_back(&step);
    shares.push_back(step.share_before);
  }
  work.num_stages = steps.size() + 1;
  for (std::size_t i = 0; i < steps.size(); ++i)
    add_statistic(op, *steps[i], config, static_cast<std::int32_t>(i), prices, work);
  shares.push_back(1.0);
  return shares;
}

// Prices shards; equal ranges on equal devices are priced once.
class ShardPrices {
 public:
  ShardPrices(const OperatorGraph& graph, const Operator& op, Pass pass, const CostModel& costs,
              const TokenLoad& load, DataType sums)
      : graph_(graph), op_(op), pass_(pass), costs_(costs), load_(load), sums_(sums) {}
  Seconds operator()(const std::vector<Range>& ranges, DeviceId device) {
    key_.assign(1, costs_.topology().device(device).kind);
    for (const Range& r : ranges) key_.push_back(op_.causal ? r.begin : 0), key_.push_back(r.length());
    // Clipped windows make equal ranges at the border and inside differ in bytes; the border's shard is
    // cheaper by a row at most, but uneven costs would break ties between shards, so the position counts as
    // well.
    for (const TensorUse& use : op_.uses) {
      for (const IndexExpr& dim : use.dims) {
        if (dim.kind != IndexExpr::Kind::Whole && dim.kind != IndexExpr::Kind::Merged) {
          key_.push_back(index_range(dim, op_, ranges).length());
        }
      }
    }
    if (last_ != known_.end() && last_->first == key_) return last_->second;  // most shards are alike
    bool fresh = false;
    std::tie(last_, fresh) = known_.try_emplace(key_);
    if (fresh) last_->second = costs_.operator_time(graph_, op_, pass_, ranges, device, load_, sums_);
    return last_->second;
  }

 private:
  const OperatorGraph& graph_;
  const Operator& op_;
  Pass pass_;
  const CostModel& costs_;
  TokenLoad load_;
  DataType sums_;
  std::vector<std::int64_t> key_;
  std::map<std::vector<std::int64_t>, Seconds> known_;
  std::map<std::vector<std::int64_t>, Seconds>::iterator last_ = known_.end();
};

// Returns the time to add gradients of a block that arrive: two are read and one is written.
Seconds time_of_sum(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config,
                    const DeviceKind& kind) {
  const DataType type = operand_type(graph, op);
  const auto bytes = static_cast<double>(ring_block(graph, op, config).gradients.value);
  const double elements = bytes / static_cast<double>(bytes_per_element(type));
  return analytic_time({elements, 3 * bytes, {}}, type, kind);
}

// Where gradients go round, the first member that works on another member's block begins their sum. Later
// members add to what arrives, and so does the owner in the end.
void add_sum_times(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config,
                   const Topology& topology, std::vector<Nanoseconds>& durations) {
  const RingStages stages = ring_stages(graph, op, Pass::BackwardInput, config);
  constexpr std::int32_t kFirstSum = 3;
  const std::size_t shards = config.devices.size();
  for (std::size_t k = 0; k < shards; ++k) {
    const Nanoseconds sum = to_nanoseconds(time_of_sum(graph, op, config, topology.kind(config.devices[k])));
    for (std::int32_t stage = kFirstSum; stage < stages.stages(); ++stage) {
      Nanoseconds& duration = durations[static_cast<std::size_t>(stage) * shards + k];
      const bool passes_on = stages.works(stage) && duration <= 1;  // it sees nothing of the block
      if (!passes_on) duration += sum;
    }
  }
}

// The passes of a ring work on one block after the other. One that no query sees is left out.
std::vector<Nanoseconds> block_times(const Operator& op, const ParallelConfig& config, ShardPrices& price,
                                     std::size_t stages) {
  const ShardGrid grid(op, config);
  const auto shards = static_cast<std::size_t>(grid.num_shards());
  std::vector<Nanoseconds> durations(stages * shards,
                                     1);  // what does nothing takes a moment, see find_folding()
  std::vector<Range> ranges;
  for (std::size_t k = 0; k < shards; ++k) {
    for (std::int64_t block = 0; block < grid.blocks(); ++block) {
      grid.block_ranges(static_cast<std::int64_t>(k), block, ranges);
      if (visible_share(op, ranges) == 0) continue;
      Nanoseconds& duration = durations[static_cast<std::size_t>(block + 1) * shards + k];
      duration = std::max<Nanoseconds>(1, to_nanoseconds(price(ranges, config.devices[k])));
    }
  }
  return durations;
}

PassWork pass_work(const OperatorGraph& graph, const Operator& op, Pass pass, const ParallelConfig& config,
                   CommunicationPrices& prices, const TokenLoad& load, DataType sums) {
  const ShardGrid grid(op, config);
  PassWork work;
  work.present = true;
  ShardPrices price(graph, op, pass, prices.costs(), load, sums);
  if (config.ring) {
    add_ring(graph, op, pass, config, prices, work);
    std::vector<Nanoseconds> durations = block_times(op, config, price, work.stages());
    if (pass == Pass::BackwardInput && ring_stages(graph, op, pass, config).gradients)
      add_sum_times(graph, op, config, prices.topology(), durations);
    work.durations = std::move(durations);
    return work;
  }
  const std::vector<double> shares = add_statistics(op, pass, config, prices, work);
  const auto shards = static_cast<std::size_t>(grid.num_shards());
  std::vector<Nanoseconds> durations(work.stages() * shards);
  std::vector<Range> ranges;
  for (std::size_t k = 0; k < shards; ++k) {
    grid.ranges(static_cast<std::int64_t>(k), ranges);
    const Seconds whole = price(ranges, config.devices[k]);
    Nanoseconds done = 0;
    for (std::size_t stage = 0; stage < work.stages(); ++stage) {
      const Nanoseconds until = to_nanoseconds(whole * shares[stage]);
      durations[stage * shards + k] = until - done;
      done = until;
    }
  }
  work.durations = std::move(durations);
  return work;
}

std::vector<LaneUse> loads_of(const BoundOperator& bound, std::size_t num_lanes) {
  const std::vector<DeviceId>& devices = bound.config.devices;
  std::vector<LaneUse> uses;
  for (const PassWork* work : {&bound.forward, &bound.backward_input, &bound.backward_weight}) {
    for (std::size_t i = 0; i < work->durations.size(); ++i)
      uses.push_back({LaneId(devices[i % devices.size()].value), work->durations[i]});
    for (const InnerExchange& e : work->exchanges)
      uses.insert(uses.end(), e.task.lanes.begin(), e.task.lanes.end());
  }
  return added_up(uses, num_lanes);
}

// All messages are those of its rings.
Communicators communicators_of(const BoundOperator& bound, DeviceGroupTable& groups) {
  CommunicatorList needed(groups);
  for (const PassWork* work : {&bound.forward, &bound.backward_input, &bound.backward_weight}) {
    for (const InnerExchange& e : work->exchanges) {
      if (e.content == InnerExchange::Content::Statistic) needed.add(e.task.kind, e.task.group);
    }
  }
  if (!bound.config.ring) return needed.list();
  const ShardGrid grid(*bound.op, bound.config);
  for (const std::vector<std::int32_t>& members :
       grid.groups_along(std::span(&bound.op->rotation->first, 1))) {
    std::vector<DeviceId> ring;
    for (const std::int32_t k : members) ring.push_back(bound.config.devices[static_cast<std::size_t>(k)]);
    needed.add_ring(std::move(ring));
  }
  return needed.list();
}

Bytes scratch_tensor(const Workspace& workspace, std::span<const Range> ranges) {
  const auto of = [&](const ProductTerm& term) { return evaluate(std::span(&term, 1), ranges); };
  const double rows = std::ceil(of(workspace.rows) / static_cast<double>(workspace.parts));
  return Bytes(static_cast<std::int64_t>(rows * of(workspace.row_bytes)));
}

void set_scratch(const Operator& op, std::span<const Range> ranges, ShardMemory& memory) {
  const Workspace& workspace = *op.workspace;
  const Bytes tensor = scratch_tensor(workspace, ranges);
  const auto is_split = [&](FactorIndex f) {
    const auto i = static_cast<std::size_t>(f);
    return ranges[i].length() < op.factors[i].size;
  };
  const std::int64_t more = workspace.one_more_if_split && is_split(*workspace.one_more_if_split) ? 1 : 0;
  memory.forward_scratch = {tensor, workspace.forward + more, Bytes(0)};
  memory.backward_scratch = {tensor, workspace.backward + more, Bytes(0)};
  if (workspace.makes_room) memory.backward_scratch.given_up = std::min(tensor, memory.input_gradients);
}

std::vector<ShardMemory> shard_memory(const OperatorGraph& graph, const Operator& op,
                                      const ParallelConfig& config, bool backward, const ExpertLoads& loads,
                                      const TokenLoad& load) {
  const ShardGrid grid(op, config);
  std::vector<ShardMemory> memory(static_cast<std::size_t>(grid.num_shards()));
  const RingBlock block = config.ring ? ring_block(graph, op, config) : RingBlock();
  std::vector<Range> ranges;
  for (std::size_t k = 0; k < memory.size(); ++k) {
    grid.ranges(static_cast<std::int64_t>(k), ranges);
    for (const TensorUse& use : op.uses) {
      const double times = loads.dimension(use.tensor) >= 0 ? load.times : 1;
      const std::int64_t elements = box_of(use, op, ranges).elements();
      const Bytes size(loaded(elements * bytes_per_element(graph.tensor(use.tensor).type), times));
      if (use.role == Role::Output) memory[k].outputs += size;
      if (backward && use.role == Role::Output && op.casts && !op.casts->gradient.empty())
        memory[k].gradient_copy += Bytes(loaded(stored_bytes(op.casts->type, elements), times));
      if (graph.tensor(use.tensor).storage != WeightStorage::Own) memory[k].unpacked += size;
      if (backward && use.role == Role::Input && graph.wants_gradient(use.tensor))
        memory[k].input_gradients += size;
      if (backward && use.saved_as)
        memory[k].input_copy += Bytes(loaded(stored_bytes(*use.saved_as, elements), times));
    }
    if (op.workspace) set_scratch(op, ranges, memory[k]);
    if (backward) memory[k].saved = Bytes(static_cast<std::int64_t>(evaluate(op.saved_extra_bytes, ranges)));
    if (!config.ring) continue;
    memory[k].forward_blocks = 2 * block.values;
    memory[k].backward_blocks = 2 * block.values + 4 * block.gradients;
  }
  return memory;
}

}  // namespace

Bytes copy_of_input(const BoundOperator& bound, std::size_t use, std::size_t shard) {
  const std::vector<TensorUse>& uses = bound.op->uses;
  if (!uses[use].saved_as) return Bytes(0);
  const Bytes all = bound.memory[shard].input_copy;
  const auto copied = [](const TensorUse& u) { return u.saved_as.has_value(); };
  if (std::ranges::count_if(uses, copied) == 1) return all;
  std::vector<Range> ranges;
  ShardGrid(*bound.op, bound.config).ranges(static_cast<std::int64_t>(shard), ranges);
  // What is in front of the use, and with it: so parts add up to all.
  std::int64_t before = 0, with = 0, whole = 0;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    if (!copied(uses[u])) continue;
    const std::int64_t bytes = stored_bytes(*uses[u].saved_as, box_of(uses[u], *bound.op, ranges).elements());
    whole += bytes;
    if (u < use) before += bytes;
    if (u <= use) with += bytes;
  }
  if (whole == 0) return Bytes(0);
  const auto part = [&](std::int64_t bytes) {
    return static_cast<std::int64_t>(static_cast<double>(all.value) * static_cast<double>(bytes) /
                                     static_cast<double>(whole));
  };
  return Bytes((with == whole ? all.value : part(with)) - part(before));
}

std::vector<Bytes> bytes_of_outputs(const OperatorGraph& graph, const BoundOperator& maker,
                                    std::size_t shard) {
  std::vector<Bytes> parts;
  if (std::ranges::count(maker.op->uses, Role::Output, &TensorUse::role) == 1) {
    parts.push_back(maker.memory[shard].outputs);
    return parts;
  }
  std::vector<Range> ranges;
  ShardGrid(*maker.op, maker.config).ranges(static_cast<std::int64_t>(shard), ranges);
  Bytes whole;
  for (const TensorUse& use : maker.op->uses) {
    if (use.role != Role::Output) continue;
    parts.push_back(
        Bytes(box_of(use, *maker.op, ranges).elements() * bytes_per_element(graph.tensor(use.tensor).type)));
    whole += parts.back();
  }
  if (parts.empty()) return parts;
  Bytes left = maker.memory[shard].outputs;
  const double load =
      whole.value == 0 ? 1 : static_cast<double>(left.value) / static_cast<double>(whole.value);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    parts[i] = std::min(Bytes(loaded(parts[i].value, load)), left);
    left = left - parts[i];
  }
  parts.back() = left;
  return parts;
}

Bytes BoundOperator::bytes() const {
  std::size_t sum = sizeof *this + allocated_bytes(config.degrees, config.devices, data_layout,
                                                   gradient_layout, communicators.groups);
  if (first_alike == nullptr) sum += loads.bytes() + memory.bytes() + shard_of_device.bytes();
  for (const PassWork* work : {&forward, &backward_input, &backward_weight}) {
    sum += allocated_bytes(work->waits, work->exchanges);
    if (first_alike == nullptr) sum += work->durations.bytes();
    for (const InnerExchange& e : work->exchanges)
      sum += allocated_bytes(e.shards, e.task.lanes, e.task.group);
  }
  return Bytes(static_cast<std::int64_t>(sum));
}

Layout required_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config) {
  return layout_of(op, use, config, {});
}

Layout produced_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config) {
  return layout_of(op, use, config, addend_axes(op, use, config));
}

Layout required_gradient_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config) {
  return layout_of(op, use, config, {});
}

Layout gradient_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config) {
  return layout_of(op, use, config, addend_axes(op, use, config));
}

namespace {

bool take_times(PassWork& work, const PassWork& from) {
  const bool same = work.present == from.present && work.durations.size() == from.durations.size() &&
                    work.exchanges.size() == from.exchanges.size();
  if (!same) return false;
  work.durations = from.durations;
  for (std::size_t i = 0; i < work.exchanges.size(); ++i) {
    if (!pipesim::take_times(work.exchanges[i].task, from.exchanges[i].task)) return false;
  }
  return true;
}

}  // namespace

bool take_times(BoundOperator& bound, const BoundOperator& from) {
  bound.loads = from.loads;
  return take_times(bound.forward, from.forward) && take_times(bound.backward_input, from.backward_input) &&
         take_times(bound.backward_weight, from.backward_weight);
}

bool reprice(BoundOperator& bound, const OperatorGraph& graph, OperatorId id, CommunicationPrices& prices,
             const ExpertLoads& loads, DataType sums) {
  const Operator& op = graph.op(id);
  const TokenLoad load = loads.of(id, op, bound.config);
  const auto again = [&](Pass pass, PassWork& work) {
    return !work.present || take_times(work, pass_work(graph, op, pass, bound.config, prices, load, sums));
  };
  if (!again(Pass::Forward, bound.forward) || !again(Pass::BackwardInput, bound.backward_input) ||
      !again(Pass::BackwardWeight, bound.backward_weight))
    return false;
  bound.loads = loads_of(bound, prices.topology().num_lanes());
  return true;
}

BoundOperator bind(const OperatorGraph& graph, OperatorId id, const ParallelConfig& config,
                   CommunicationPrices& prices, LayoutTable& layouts, const ExpertLoads& loads,
                   DataType sums) {
  const Operator& op = graph.op(id);
  const TokenLoad load = loads.of(id, op, config);
  BoundOperator bound;
  bound.op = &op;
  bound.config = config;
  for (const TensorUse& use : op.uses) {
    if (use.role == Role::State) {
      bound.data_layout.emplace_back();
      bound.gradient_layout.emplace_back();
      continue;
    }
    // An output's data is a sum where an input's gradient is, and the other way round; without addends they
    // are equal.
    const LayoutId complete = layouts.intern(layout_of(op, use, config, {}));
    const std::vector<FactorIndex> axes = addend_axes(op, use, config);
    const LayoutId sum = axes.empty() ? complete : layouts.intern(layout_of(op, use, config, axes));
    const bool output = use.role == Role::Output;
    bound.data_layout.push_back(output ? sum : complete);
    bound.gradient_layout.push_back(output ? complete : sum);
  }
  const BackwardNeed need = backward_need(graph, id);
  bound.forward = pass_work(graph, op, Pass::Forward, config, prices, load, sums);
  if (need.input_pass)
    bound.backward_input = pass_work(graph, op, Pass::BackwardInput, config, prices, load, sums);
  if (need.weight_pass)
    bound.backward_weight = pass_work(graph, op, Pass::BackwardWeight, config, prices, load, sums);
  bound.loads = loads_of(bound, prices.topology().num_lanes());
  bound.communicators = communicators_of(bound, prices.groups());
  bound.memory = shard_memory(graph, op, config, need.input_pass || need.weight_pass, loads, load);
  std::vector<std::int32_t> shard_of_device(prices.topology().num_devices(), -1);
  for (std::size_t k = 0; k < config.devices.size(); ++k) {
    shard_of_device[config.devices[k].index()] = static_cast<std::int32_t>(k);
  }
  bound.shard_of_device = std::move(shard_of_device);
  return bound;
}

}  // namespace pipesim
