#include "executor/program/shard_views.h"

#include <algorithm>

#include "models/box.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::vector<Range> shard_ranges(const BoundOperator& bound, std::int32_t shard) {
  std::vector<Range> ranges;
  ShardGrid(*bound.op, bound.config).ranges(shard, ranges);
  return ranges;
}

bool is_wide(DataType type) { return bytes_per_element(type) >= 4; }

}  // namespace

ShardViews::ShardViews(const ExpandedStrategy& expanded, const DeviceKernels& kernels, Program& program)
    : contents_(expanded.contents()),
      graph_(contents_.graph()),
      strategy_(expanded.strategy()),
      kernels_(kernels),
      program_(program),
      buffers_(program.buffers) {
  const auto wirings = expanded.wirings();
  for (std::size_t w = 0; w < wirings.size(); ++w) {
    const Wiring& wiring = wirings[w];
    flows_.push_back(
        std::make_unique<Flow>(wiring, expanded, buffers_, [this, &wiring](UseRef use, std::int32_t shard) {
          const bool again = wiring.kind == TaskKind::RecomputeTransfer;
          return output(use, {shard, wiring.microbatch, again});
        }));
    if (wiring.kind == TaskKind::GradientSync) sync_flow_[{wiring.tensor, wiring.microbatch}] = w;
    auto& flow_of = wiring.kind == TaskKind::ForwardTransfer     ? forward_flow_
                    : wiring.kind == TaskKind::RecomputeTransfer ? again_flow_
                                                                 : backward_flow_;
    for (const UseRef d : wiring.destinations) flow_of[{d.op, d.use, wiring.microbatch}] = w;
    if (moves_activations(wiring.kind)) continue;
    for (std::size_t s = 0; s < wiring.sources.size(); ++s)
      gradient_flow_[{wiring.sources[s].op, wiring.sources[s].use, wiring.microbatch + wiring.way_of(s)}] = {
          w, s};
  }
}

const TensorUse& ShardViews::use_of(UseRef use) const {
  return graph_.op(use.op).uses[static_cast<std::size_t>(use.use)];
}

std::optional<Box> ShardViews::box_of_use(UseRef use, ShardRef at) const {
  const BoundOperator& bound = this->bound(use.op, at.microbatch);
  const auto entries = contents_.layouts()[bound.data_layout[static_cast<std::size_t>(use.use)]].entries_on(
      device_of(use.op, at));
  if (entries.empty()) return std::nullopt;
  return contents_.layouts()[bound.data_layout[static_cast<std::size_t>(use.use)]].box(entries[0]);
}

View ShardViews::loaded(Loaded::Content content, TensorId tensor, std::int32_t microbatch, DeviceId device,
                        const Box& box, DataType type) {
  const auto [it, fresh] = loaded_.try_emplace({content, tensor, microbatch, device, box});
  if (fresh) {
    it->second = buffers_.add(device, box, type, Buffer::Life::Loaded, MemoryCategory::Activations, tensor);
    program_.loaded.push_back({content, tensor, it->second, {}, microbatch});
  }
  return it->second;
}

Flow::Target ShardViews::value(UseRef use, ShardRef at) {
  const TensorUse& u = use_of(use);
  if (u.role == Role::Output) return {output(use, at), {}};
  const DeviceId device = device_of(use.op, at);
  if (u.role == Role::State) {
    const auto [it, fresh] = states_.try_emplace({use.op, use.use, device});
    if (fresh) {
      const BoundOperator& bound = this->bound(use.op, at.microbatch);
      it->second =
          buffers_.add(device, pipesim::box_of(u, *bound.op, shard_ranges(bound, at.shard)),
                       DataType::Float32, Buffer::Life::Forever, MemoryCategory::Activations, u.tensor);
      program_.loaded.push_back({Loaded::Content::State, u.tensor, it->second, {}, 0});
    }
    return {it->second, {}};
  }
  const std::optional<Box> box = box_of_use(use, at);
  if (!box) return {};
  if (u.role == Role::Weight) return weight_value(use, at, device, *box);
  const Tensor& tensor = graph_.tensor(u.tensor);
  if (!tensor.producer.valid())
    return {loaded(Loaded::Content::Data, u.tensor, at.microbatch, device, *box, tensor.type), {}};
  const UseKey key{use.op, use.use, at.microbatch};
  const auto again = at.second_run ? again_flow_.find(key) : again_flow_.end();
  return flows_[again != again_flow_.end() ? again->second : forward_flow_.at(key)]->target(device, *box);
}

// What is run once has one run to find.
ShardRef ShardViews::run_of(OperatorId op, ShardRef at) const {
  at.second_run = at.second_run && contents_.recomputation().again(op);
  return at;
}

View ShardViews::output(UseRef use, ShardRef at) {
  const auto [it, fresh] = outputs_.try_emplace({use.op, use.use, run_of(use.op, at)});
  if (fresh) {
    if (const std::optional<Box> box = box_of_use(use, at)) {
      const TensorId tensor = use_of(use).tensor;
      it->second = buffers_.add(device_of(use.op, at), *box, graph_.tensor(tensor).type, Buffer::Life::Uses,
                                MemoryCategory::Activations, tensor);
    }
  }
  return it->second;
}

Flow::Target ShardViews::output_gradient(UseRef use, ShardRef at) {
  const BoundOperator& bound = this->bound(use.op, at.microbatch);
  const Layout& layout = contents_.layouts()[bound.gradient_layout[static_cast<std::size_t>(use.use)]];
  const DeviceId device = device_of(use.op, at);
  const auto entries = layout.entries_on(device);
  if (entries.empty()) return {};
  const Box& box = layout.box(entries[0]);
  const auto flow = backward_flow_.find({use.op, use.use, at.microbatch});
  if (flow != backward_flow_.end()) return flows_[flow->second]->target(device, box);
  const TensorId tensor = use_of(use).tensor;
  const bool result = graph_.gets_gradient(tensor) && graph_.consumers(tensor).empty();
  const std::int32_t microbatch = result ? at.microbatch : 0;
  return {loaded(result ? Loaded::Content::OutputGradient : Loaded::Content::Zero, tensor, microbatch, device,
                 box, graph_.tensor(tensor).type),
          {}};
}

Flow::Sink ShardViews::gradient_sink(UseRef use, ShardRef at) {
  if (!contents_.backward().makes_gradient(use)) return {};
  const bool weight = use_of(use).role == Role::Weight;
  const std::int32_t microbatch = weight && !contents_.versions().several() ? -1 : at.microbatch;
  const auto flow = gradient_flow_.find({use.op, use.use, microbatch});
  if (flow == gradient_flow_.end()) return {};
  return flows_[flow->second.first]->gradient(flow->second.second, at.shard);
}

std::vector<View> ShardViews::statistics(OperatorId op, Pass pass, ShardRef at) {
  const auto [it, fresh] = statistics_.try_emplace({op, pass, at});
  if (!fresh) return it->second;
  const BoundOperator& bound = this->bound(op, at.microbatch);
  const std::vector<Range> ranges = shard_ranges(bound, at.shard);
  for (const InnerStep& step : bound.op->inner_steps) {
    if (step.pass != pass) continue;
    const auto elements = static_cast<std::int64_t>(evaluate(std::span(&step.elements, 1), ranges));
    const Range all{0, elements};
    it->second.push_back(buffers_.add(device_of(op, at), Box(std::span(&all, 1)), DataType::Float64,
                                      Buffer::Life::Workspace, MemoryCategory::Activations, {}));
  }
  return it->second;
}

View ShardViews::saved(OperatorId op, ShardRef at) {
  const auto [it, fresh] = saved_.try_emplace({op, run_of(op, at)});
  if (!fresh) return it->second;
  const BoundOperator& bound = this->bound(op, at.microbatch);
  const std::int64_t bytes = kernels_.saved_bytes(*bound.op, shard_ranges(bound, at.shard));
  if (bytes == 0) return {};
  const Range all{0, bytes};
  it->second = buffers_.add(device_of(op, at), Box(std::span(&all, 1)), DataType::UInt8, Buffer::Life::Uses,
                            MemoryCategory::Activations, {});
  return it->second;
}

std::int32_t ShardViews::stage_of(TensorId weight) const {
  return contents_.stage_of(graph_.consumers(weight).front().op);
}

// As Wiring::microbatch says it of GradientSync.
std::int32_t ShardViews::first_of_change(TensorId weight, std::int32_t microbatch) const {
  const WeightVersions& versions = contents_.versions();
  const std::int32_t stage = stage_of(weight);
  return versions.several() ? versions.change(stage, microbatch) * versions.every(stage) : -1;
}

ShardViews::HomeBuffer& ShardViews::home_buffer(TensorId weight, DeviceId device, const Box& box) {
  const auto [it, fresh] = homes_.try_emplace({weight, device, box});
  HomeBuffer& home = it->second;
  if (!fresh) return home;
  using enum MemoryCategory;
  const DataType type = graph_.tensor(weight).type;
  const auto add = [&](DataType t, MemoryCategory category) {
    return buffers_.add(device, box, t, Buffer::Life::Forever, category, weight);
  };
  const bool trained = sync_flow_.contains({weight, first_of_change(weight, 0)});
  home.values.push_back(add(type, Weights));
  const WeightVersions& versions = contents_.versions();
  if (trained && versions.several()) {
    const std::int32_t stage = stage_of(weight);
    const std::int32_t changes = versions.change(stage, contents_.options().microbatches - 1) + 1;
    while (std::ssize(home.values) < std::min(versions.copies(stage), changes))
      home.values.push_back(add(type, StashedWeights));
  }
  const Optimizer optimizer = contents_.options().optimizer;
  if (trained && !is_wide(type)) home.master = add(DataType::Float32, OptimizerState);
  if (trained && optimizer != Optimizer::Sgd) home.first = add(DataType::Float32, OptimizerState);
  if (trained && optimizer == Optimizer::Adam) home.second = add(DataType::Float32, OptimizerState);
  program_.loaded.push_back({Loaded::Content::Weight, weight, home.values.front(), home.master, 0});
  for (const View& state : {home.first, home.second}) {
    if (state.present()) program_.loaded.push_back({Loaded::Content::State, weight, state, {}, 0});
  }
  program_.results.push_back({Program::Result::Content::Weight, weight, home.values.front()});
  return home;
}

// Every use's box lies in one piece of the home, by the home's construction.
Flow::Target ShardViews::weight_value(UseRef use, ShardRef at, DeviceId device, const Box& box) {
  const TensorId weight = use_of(use).tensor;
  const WeightVersions& versions = contents_.versions();
  const std::int32_t version =
      versions.several() ? versions.version(contents_.stage_of(use.op), at.microbatch) : 0;
  const Layout& home = contents_.layouts()[contents_.home_of(weight, strategy_)];
  for (const LayoutEntry& e : home.entries_on(device)) {
    if (!box.inside(home.box(e))) continue;
    const std::vector<View>& values = home_buffer(weight, device, home.box(e)).values;
    const View whole = values[static_cast<std::size_t>(version) % values.size()];
    if (const auto begin = stretch_in(whole.box, box))
      return {{whole.buffer, whole.offset + *begin, box}, {}};
    const auto [it, fresh] = crops_.try_emplace({weight, device, box, version});
    if (fresh) {
      it->second.view = buffers_.add(device, box, graph_.tensor(weight).type, Buffer::Life::Workspace,
                                     MemoryCategory::Weights, weight);
      it->second.moves.moves.push_back({whole, it->second.view, box, false});
    }
    return it->second;
  }
  throw InternalError("no piece of the home of " + graph_.tensor(weight).name + " holds " + box.str());
}

std::vector<ShardViews::HomePiece> ShardViews::home(TensorId weight, DeviceId device,
                                                    std::int32_t microbatch) {
  const Layout& layout = contents_.layouts()[contents_.home_of(weight, strategy_)];
  const WeightVersions& versions = contents_.versions();
  const std::int32_t stage = stage_of(weight);
  const std::int32_t change = versions.several() ? versions.change(stage, microbatch) : 0;
  const bool last =
      !versions.several() || microbatch + versions.every(stage) >= contents_.options().microbatches;
  const std::size_t flow = sync_flow_.at({weight, first_of_change(weight, microbatch)});
  std::vector<HomePiece> pieces;
  for (const LayoutEntry& e : layout.entries_on(device)) {
    const HomeBuffer& home = home_buffer(weight, device, layout.box(e));
    const Flow::Target& gradient = flows_[flow]->target(device, layout.box(e));
    // Gradients that accumulate stay as the weights do.
    if (!versions.several()) buffers_.keep_forever(gradient.view.buffer);
    const auto place = static_cast<std::size_t>(change);
    const View before = home.values[place % home.values.size()],
               after = last ? home.values.front() : home.values[(place + 1) % home.values.size()];
    pieces.push_back({{weight, after, gradient.view, home.master, home.first, home.second},
                      gradient.moves,
                      before.buffer == after.buffer ? View() : before});
    if (last) program_.results.push_back({Program::Result::Content::Gradient, weight, gradient.view});
  }
  return pieces;
}

}  // namespace pipesim
