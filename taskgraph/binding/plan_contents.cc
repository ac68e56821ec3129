#include "taskgraph/binding/plan_contents.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr Bytes kUncut{INT64_MAX / 2};

PlanOptions without_pipeline(PlanOptions options) {
  options.pipeline.reset();
  options.recompute = {};
  return options;
}

bool is_trained(const PlanOptions& options) {
  return WeightVersions(options.pipeline, options.microbatches).trained();
}

}  // namespace

PlanContents::Tables::Tables(const OperatorGraph& g, const CostModel& c, const PlanOptions& o)
    : graph(g),
      costs(&c),
      options(without_pipeline(o)),
      loads(graph, options.imbalance),
      prices([this] { return CommunicationPrices(*costs, groups); }),
      bound(graph, layouts, prices, loads, options.gradient_type),
      plans(layouts, prices, &loads),
      updates(graph, c, options, layouts) {}

PlanContents::PlanContents(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options)
    : PlanContents(std::make_shared<Tables>(graph, costs, options), options,
                   std::make_shared<BackwardUses>(graph, is_trained(options))) {}

namespace {

// Devices and links that stand in the same places. Figures may differ.
bool same_places(const TopologyParts& a, const TopologyParts& b) {
  const auto device = [](const Device& d, const Device& e) { return d.kind == e.kind && d.node == e.node; };
  const auto vertex = [](const Vertex& v, const Vertex& w) { return v.kind == w.kind && v.node == w.node; };
  const auto link = [](const Link& l, const Link& m) {
    return l.a == m.a && l.b == m.b && l.forward == m.forward && l.backward == m.backward;
  };
  return std::ranges::equal(a.devices, b.devices, device) &&
         std::ranges::equal(a.vertices, b.vertices, vertex) && std::ranges::equal(a.links, b.links, link);
}

bool same_but_for_host(Runtime a, const Runtime& b) {
  a.host = b.host;
  a.name = b.name;
  return a == b;
}

}  // namespace

bool PlanContents::reprice(const CostModel& costs) {
  const CostModel& before = *tables_->costs;
  if (!same_places(before.topology().parts(), costs.topology().parts()) ||
      !same_but_for_host(before.runtime(), costs.runtime()))
    return false;
  tables_->costs = &costs;
  tables_->prices.clear();
  const bool compute = !costs.computes_like(before);
  tables_->updates.reprice(costs, compute);
  return tables_->bound.reprice(compute) && tables_->plans.reprice();
}

PlanContents::PlanContents(std::shared_ptr<Tables> tables, PlanOptions options,
                           std::shared_ptr<const BackwardUses> backward)
    : tables_(std::move(tables)),
      options_(std::move(options)),
      versions_(options_.pipeline, options_.microbatches),
      recomputation_(tables_->graph, versions_.trained() ? options_.recompute : Recompute(),
                     options_.pipeline),
      backward_(std::move(backward)),
      ways_(options_.pipeline ? pipesim::ways_of(*options_.pipeline) : 1) {}

PlanContents PlanContents::with(std::optional<Pipeline> pipeline, Recompute recompute) const {
  PlanOptions options = options_;
  options.pipeline = std::move(pipeline);
  options.recompute = std::move(recompute);
  const bool trained = is_trained(options);
  std::shared_ptr<const BackwardUses> backward =
      trained == versions_.trained() ? backward_ : std::make_shared<BackwardUses>(graph(), trained);
  return {tables_, std::move(options), std::move(backward)};
}

bool PlanContents::messages_block() const {
  if (!options_.pipeline) return false;
  const StageMessages usual = usual_messages(costs().runtime().messages, options_.pipeline->schedule);
  return options_.pipeline->messages.value_or(usual) == StageMessages::Blocking;
}

bool PlanContents::is_dispatched(TensorId tensor) const {
  if (costs().runtime().dispatcher == Dispatcher::AsModel) return false;
  const auto has_route = [&](OperatorId op) {
    return op.valid() && std::ranges::any_of(graph().op(op).uses, [&](const TensorUse& use) {
             return use.tensor == tensor && use.route.has_value();
           });
  };
  return has_route(graph().tensor(tensor).producer) ||
         std::ranges::any_of(graph().consumers(tensor), [&](UseRef use) { return has_route(use.op); });
}

bool PlanContents::pairs_passes() const {
  return options_.pipeline && schedule_kind(options_.pipeline->schedule).pairs;
}

std::int32_t PlanContents::stage_of(OperatorId op) const {
  return options_.pipeline ? options_.pipeline->stage_of[op.index()] : 0;
}

std::int32_t PlanContents::ways_through(OperatorId op) const {
  return ways_ == 1 ? 1 : ways_of(*options_.pipeline, stage_of(op));
}

BoundStrategy PlanContents::bind(const Strategy& strategy) const {
  BoundStrategy bound;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    stop_if_late();
    bound.push_back(bind(OperatorId(i), strategy[i]));
  }
  return bound;
}

const BoundStrategy& PlanContents::strategy_of(std::int32_t microbatch, const BoundStrategy& strategy) const {
  if (ways_ == 1) return strategy;
  const auto way = static_cast<std::size_t>(microbatch % ways_);
  if (!folded_.of_way.empty() && folded_.strategy == strategy) return folded_.of_way[way];
  const bool known = !last_.of_way.empty() && last_.generation == generation() && last_.strategy == strategy;
  if (known) return last_.of_way[way];
  std::vector<ParallelConfig> configs;
  for (const BoundOperator* b : strategy) configs.push_back(b->config);
  Ways now{generation(), BoundStrategy(strategy), {}};
  for (std::int32_t w = 0; w < ways_; ++w) {
    now.of_way.push_back(
        bind(configs_of_way(configs, *options_.pipeline, w, costs().topology().num_devices())));
  }
  last_ = std::move(now);
  return last_.of_way[way];
}

void PlanContents::know_ways(const BoundStrategy& strategy, std::vector<BoundStrategy> of_way) const {
  folded_ = {generation(), strategy, std::move(of_way)};
}

PipelineOrder PlanContents::order_of(const BoundStrategy& strategy, std::int32_t microbatches) const {
  const std::size_t devices = costs().topology().num_devices();
  if (!options_.pipeline) return order_without_stages(microbatches, devices);
  std::vector<const ParallelConfig*> configs;
  for (const BoundOperator* b : strategy) configs.push_back(&b->config);
  return pipeline_order(configs, *options_.pipeline, microbatches, devices, &tables_->schedules);
}

void PlanContents::list_gradient_terms(TensorId tensor, const BoundStrategy& strategy, LayoutIds& out) const {
  out.clear();
  // Every microbatch uses the weights, whichever way it goes.
  const std::int32_t all = graph().tensor(tensor).kind == TensorKind::Weight ? ways_ : 1;
  for (std::int32_t way = 0; way < all; ++way) {
    const BoundStrategy& used = all == 1 ? strategy : strategy_of(way, strategy);
    for (const UseRef maker : backward_->gradient_makers(tensor)) {
      if (way < ways_through(maker.op)) add_distinct(out, gradient_layout(maker, used));
    }
  }
}

CommunicationPlans::Setting PlanContents::transfer_setting(TensorId tensor, Moved moved) const {
  CommunicationPlans::Setting setting =
      setting_of(graph(), tensor, moved, kUncut, costs().runtime().dispatcher);
  setting.experts = tables_->loads.dimension(tensor);
  return setting;
}

CommunicationPlans::Setting PlanContents::sync_setting() const {
  return {bytes_per_element(options_.gradient_type), options_.gradient_piece};
}

const CommunicationPlan& PlanContents::transfer_plan(TensorId tensor, std::span<const LayoutId> terms,
                                                     LayoutId target, Moved moved) const {
  return tables_->plans.between(terms, target, transfer_setting(tensor, moved));
}

const CommunicationPlan& PlanContents::sync_plan(TensorId weight, const BoundStrategy& strategy) const {
  LayoutIds terms;
  list_gradient_terms(weight, strategy, terms);
  const bool whole =
      costs().runtime().sums_whole && options_.state_sharding.kind == StateSharding::Kind::Optimizer;
  const LayoutId target = whole ? home_of(weight, strategy) : state_of(weight, strategy);
  return tables_->plans.between(terms, target, sync_setting());
}

LayoutId PlanContents::home_of(TensorId weight, const BoundStrategy& strategy) const {
  LayoutIds needed;
  for (std::int32_t way = 0; way < ways_; ++way) {
    const BoundStrategy& used = strategy_of(way, strategy);
    for (const UseRef use : graph().consumers(weight)) {
      if (way < ways_through(use.op)) add_distinct(needed, data_layout(use, used));
    }
  }
  return tables_->plans.home(needed);
}

LayoutId PlanContents::needed_in(std::int32_t stage, TensorId weight, const BoundStrategy& strategy) const {
  LayoutIds needed;
  for (std::int32_t way = 0; way < ways_; ++way) {
    const BoundStrategy& used = strategy_of(way, strategy);
    for (const UseRef use : graph().consumers(weight)) {
      if (stage_of(use.op) == stage && way < ways_through(use.op))
        add_distinct(needed, data_layout(use, used));
    }
  }
  return tables_->plans.home(needed);
}

// A frozen weight is divided among the copies that would make parts of its gradient.
void PlanContents::list_dividing_terms(TensorId weight, const BoundStrategy& strategy, LayoutIds& out) const {
  for (std::int32_t way = 0; way < ways_; ++way) {
    const BoundStrategy& used = strategy_of(way, strategy);
    for (const UseRef use : graph().consumers(weight)) {
      if (way < ways_through(use.op)) add_distinct(out, gradient_layout(use, used));
    }
  }
}

LayoutId PlanContents::state_of(TensorId weight, LayoutId home, const BoundStrategy& strategy) const {
  const StateSharding& sharding = options_.state_sharding;
  const bool frozen = graph().tensor(weight).frozen;
  if (frozen ? !sharding.gathers_to_use() : !sharding.any()) return home;
  LayoutIds terms;
  if (frozen) {
    list_dividing_terms(weight, strategy, terms);
  } else {
    list_gradient_terms(weight, strategy, terms);
  }
  return tables_->plans.divided_home(home, terms, sharding.group, holding_stages(weight, strategy));
}

// Counts the stages that hold a weight on devices of their own. As in frameworks, each of them divides the
// state among its copies: the gradients tie the embeddings at both ends of a pipeline. Where microbatches go
// both ways, the copies of a stage are those of both ways, and stages that take over each other's devices are
// not apart.
std::int32_t PlanContents::holding_stages(TensorId weight, const BoundStrategy& strategy) const {
  const std::span<const UseRef> uses = graph().consumers(weight);
  std::vector<std::array<const Layout*, 2>> apart;
  std::vector<std::int32_t> met;
  const bool both_ways = ways_ > 1 && schedule_kind(options_.pipeline->schedule).both_ways;
  for (const UseRef use : uses) {
    const std::int32_t stage = stage_of(use.op);
    if (std::ranges::find(met, stage) != met.end()) continue;
    met.push_back(stage);
    const Layout& layout = layouts()[data_layout(use, strategy)];
    const Layout& back = both_ways ? layouts()[data_layout(use, strategy_of(1, strategy))] : layout;
    const DeviceId first = layout.entries().front().device;
    const auto shares_devices = [&](const std::array<const Layout*, 2>& other) {
      return std::ranges::any_of(other, [&](const Layout* l) { return !l->entries_on(first).empty(); });
    };
    if (std::ranges::none_of(apart, shares_devices)) apart.push_back({&layout, &back});
  }
  return static_cast<std::int32_t>(std::max<std::size_t>(1, apart.size()));
}

// Gradients whose state is not divided accumulate where they are made.
bool PlanContents::syncs_each_microbatch(TensorId weight, const BoundStrategy& strategy) const {
  if (!options_.state_sharding.each_microbatch()) return false;
  const LayoutId home = home_of(weight, strategy);
  return state_of(weight, home, strategy) != home;
}

LayoutId PlanContents::gathered_from(TensorId weight, LayoutId target, const BoundStrategy& strategy) const {
  const LayoutId state = state_of(weight, strategy);
  return holding_stages(weight, strategy) > 1 ? tables_->plans.held_there(state, target) : state;
}

const CommunicationPlan& PlanContents::gather_plan(TensorId weight, LayoutId target,
                                                   const BoundStrategy& strategy) const {
  const LayoutId from = gathered_from(weight, target, strategy);
  const Tensor& tensor = graph().tensor(weight);
  const DataType type = tensor.frozen ? tensor.type : options_.state_sharding.gather_type(tensor.type);
  const std::int64_t bytes = bytes_per_element(type);
  const double packed =
      tensor.storage == WeightStorage::Own ? 1 : tensor.stored_bits() / static_cast<double>(8 * bytes);
  return tables_->plans.between(
      std::span(&from, 1), target,
      {bytes, kUncut, -1, gathers_by(costs().runtime(), options_.state_sharding), packed});
}

bool PlanContents::copies_to_use(TensorId weight) const {
  const Tensor& tensor = graph().tensor(weight);
  return !tensor.frozen && options_.state_sharding.copies_to_use(tensor.type);
}

bool PlanContents::gathers(TensorId weight, LayoutId target, const BoundStrategy& strategy) const {
  return target != state_of(weight, strategy) || copies_to_use(weight);
}

const OwnedUpdates& PlanContents::update_work(OperatorId owner, const BoundStrategy& strategy) const {
  const std::span<const TensorId> weights = backward_->owned_weights(owner);
  WeightHomes homes;
  for (const TensorId w : weights) {
    homes.whole.push_back(home_of(w, strategy));
    if (options_.state_sharding.any()) homes.state.push_back(state_of(w, homes.whole.back(), strategy));
  }
  return tables_->updates.of(homes, weights);
}

DataType PlanContents::trained_type() const {
  for (const Tensor& t : graph().tensors()) {
    if (t.kind == TensorKind::Weight && !t.frozen) return t.type;
  }
  return DataType::Float32;
}

bool PlanContents::keeps_own_gradients() const {
  return costs().runtime().keeps_own_gradients &&
         options_.state_sharding.kind == StateSharding::Kind::Optimizer && !versions_.several() &&
         options_.gradient_type == DataType::Float32 && trained_type() == DataType::BFloat16;
}

std::int64_t PlanContents::gradient_bucket_elements() const {
  const Runtime& runtime = costs().runtime();
  const StateSharding& sharding = options_.state_sharding;
  if (runtime.bucket == 0 || !sharding.any()) return 0;
  if (!sharding.each_microbatch() &&
      bytes_per_element(options_.gradient_type) > bytes_per_element(trained_type()))
    return 0;
  const bool turns =
      runtime.overlap != ReductionOverlap::Never && sharding.kind != StateSharding::Kind::Weights;
  return runtime.bucket * (turns ? 2 : 1);
}

std::vector<Bytes> PlanContents::gradient_buckets(const BoundStrategy& strategy) const {
  const std::int64_t most = gradient_bucket_elements();
  std::vector<std::int64_t> elements(costs().topology().num_devices(), 0);
  if (most > 0) {
    for_each_update(strategy, [&](OperatorId, const OwnedUpdates& work) {
      for (std::size_t j = 0; j < work.holders.size(); ++j)
        elements[work.holders[j].index()] += work.elements[j];
    });
  }
  std::vector<Bytes> bytes;
  for (const std::int64_t filled : elements)
    bytes.emplace_back(std::min(most, filled) * bytes_per_element(trained_type()));
  return bytes;
}

std::vector<WeightMemory> PlanContents::permanent_memory(const BoundStrategy& strategy) const {
  std::vector<WeightMemory> memory(costs().topology().num_devices());
  std::unordered_map<const OwnedUpdates*, std::int64_t> times;  // layers share them
  for_each_update(strategy, [&](OperatorId, const OwnedUpdates& work) { ++times[&work]; });
  for (const auto& [work, n] : times) {
    for (std::size_t j = 0; j < work->holders.size(); ++j) {
      WeightMemory& sum = memory[work->holders[j].index()];
      sum.weights += n * work->memory[j].weights;
      sum.gradients += n * work->memory[j].gradients;
      sum.optimizer_state += n * work->memory[j].optimizer_state;
    }
  }
  for (const TensorId w : backward_->frozen_weights()) {
    const Layout& home = layouts()[state_of(w, strategy)];
    for (const LayoutEntry& e : home.entries())
      memory[e.device.index()].weights += graph().tensor(w).stored(home.box(e).elements());
  }
  if (gradient_bucket_elements() == 0) return memory;
  const std::vector<Bytes> buckets = gradient_buckets(strategy);
  for (std::size_t d = 0; d < memory.size(); ++d) memory[d].gradients += buckets[d];
  return memory;
}

Bytes PlanContents::bytes() const {
  return tables_->plans.bytes() + tables_->layouts.bytes() + tables_->bound.bytes();
}

bool PlanContents::forget(Bytes most) {
  if (bytes() <= most) return false;
  tables_->bound.clear();
  tables_->plans.clear();
  tables_->layouts.clear();
  tables_->groups->clear();
  forget_derived();
  return true;
}

bool PlanContents::forget_plans(Bytes most) {
  if (tables_->plans.bytes() <= most) return false;
  tables_->plans.clear();
  forget_derived();
  return true;
}

void PlanContents::forget_derived() {
  tables_->updates.clear();
  ++tables_->generation;
}

}  // namespace pipesim
