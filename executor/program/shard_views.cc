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
    flows_.push_back(std::make_unique<Flow>(wiring, expanded, buffers_, held_by(wiring)));
    if (wiring.kind == TaskKind::WeightGather) {
      if (wiring.destinations.empty()) updated_gather_[wiring.tensor] = w;
      for (const UseRef d : wiring.destinations) {
        const UseKey key{d.op, d.use, std::max(0, wiring.microbatch)};
        if (wiring.read_in != ReadIn::Backward) forward_gather_[key] = w;
        if (wiring.read_in != ReadIn::Forward) backward_gather_[key] = w;
      }
      continue;
    }
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

// What the wiring's producer made, or what a device keeps of a weight.
Flow::HeldView ShardViews::held_by(const Wiring& wiring) {
  if (wiring.kind == TaskKind::WeightGather) {
    return [this, &wiring](DeviceId device, const Box& box) {
      const WeightBuffer& buffer = with_state(wiring.tensor, device, box);
      const DataType type = graph_.tensor(wiring.tensor).type;
      const bool wide = contents_.options().state_sharding.gather_type(type) != type;
      if (wide && buffer.master.present() && !keeps_remainder(type, contents_.options().optimizer))
        return buffer.master;
      if (gathered_in_next_step(wiring.tensor))
        return stored_around(wiring.tensor, device, box).values.front();
      return buffer.updated.present() ? buffer.updated : buffer.values.front();
    };
  }
  return [this, &wiring](DeviceId device, const Box&) {
    const UseRef producer = wiring.sources.front();
    const std::int32_t shard = bound(producer.op, wiring.microbatch).shard_of_device[device.index()];
    return output(producer, {shard, wiring.microbatch, wiring.kind == TaskKind::RecomputeTransfer});
  };
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

// An operator that does not run again has its first run only.
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
  const bool of_all = weight && !contents_.versions().several() &&
                      !contents_.syncs_each_microbatch(use_of(use).tensor, strategy_);
  const auto flow = gradient_flow_.find({use.op, use.use, of_all ? -1 : at.microbatch});
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

// Returns the first microbatch whose gradients the change takes in, or −1 for all, like Wiring::microbatch.
std::int32_t ShardViews::first_of_change(TensorId weight, std::int32_t microbatch) const {
  const WeightVersions& versions = contents_.versions();
  const std::int32_t stage = stage_of(weight);
  return versions.several() ? versions.change(stage, microbatch) * versions.every(stage) : -1;
}

bool ShardViews::is_trained(TensorId weight) const {
  const std::int32_t first =
      contents_.syncs_each_microbatch(weight, strategy_) ? 0 : first_of_change(weight, 0);
  return sync_flow_.contains({weight, first});
}

// Where a weight is between two steps.
LayoutId ShardViews::stored_layout(TensorId weight) const {
  const bool kept = is_trained(weight) || graph_.tensor(weight).frozen;
  const bool divided = contents_.options().state_sharding.gathers_to_use() && kept;
  return divided ? contents_.state_of(weight, strategy_) : contents_.home_of(weight, strategy_);
}

DataType ShardViews::stored_type(TensorId weight) const {
  const DataType type = graph_.tensor(weight).type;
  return is_trained(weight) ? contents_.options().state_sharding.kept_type(type) : type;
}

// After a step, each device has updated its own part of the home alone.
bool ShardViews::gathered_in_next_step(TensorId weight) const {
  return contents_.options().state_sharding.gathers_in_forward() && is_trained(weight) &&
         contents_.state_of(weight, strategy_) != contents_.home_of(weight, strategy_);
}

ShardViews::WeightBuffer& ShardViews::stored(TensorId weight, DeviceId device, const Box& box) {
  WeightBuffer& buffer = weights_[{weight, device, box}];
  if (!buffer.values.empty()) return buffer;
  const DataType type = stored_type(weight);
  const auto add = [&](MemoryCategory category) {
    return buffers_.add(device, box, type, Buffer::Life::Forever, category, weight);
  };
  buffer.values.push_back(add(MemoryCategory::Weights));
  const WeightVersions& versions = contents_.versions();
  if (is_trained(weight) && versions.several()) {
    const std::int32_t stage = stage_of(weight);
    const std::int32_t changes = versions.change(stage, contents_.options().microbatches - 1) + 1;
    while (std::ssize(buffer.values) < std::min(versions.copies(stage), changes))
      buffer.values.push_back(add(MemoryCategory::StashedWeights));
  }
  program_.loaded.push_back({Loaded::Content::Weight, weight, buffer.values.front(), {}, 0});
  if (!gathered_in_next_step(weight))
    program_.results.push_back({Program::Result::Content::Weight, weight, buffer.values.front(), box});
  return buffer;
}

ShardViews::WeightBuffer& ShardViews::with_state(TensorId weight, DeviceId device, const Box& box) {
  WeightBuffer& buffer = weights_[{weight, device, box}];
  if (buffer.has_state) return buffer;
  buffer.has_state = true;
  const DataType type = stored_type(weight);
  if (contents_.layouts()[stored_layout(weight)].holds(device, box)) {
    (void)stored(weight, device, box);
  } else {
    buffer.updated =
        buffers_.add(device, box, type, Buffer::Life::Workspace, MemoryCategory::Weights, weight);
    if (gathered_in_next_step(weight)) {
      const View home = stored_around(weight, device, box).values.front();
      program_.results.push_back({Program::Result::Content::Weight, weight, home, box});
    }
  }
  const auto add = [&](DataType kept) {
    return buffers_.add(device, box, kept, Buffer::Life::Forever, MemoryCategory::OptimizerState, weight);
  };
  const Optimizer& optimizer = contents_.options().optimizer;
  if (const auto main = main_type(type, optimizer)) buffer.master = add(*main);
  if (num_moments(optimizer) > 0) buffer.first = add(optimizer.first);
  if (num_moments(optimizer) > 1) buffer.second = add(optimizer.second);
  if (buffer.master.present()) {
    const bool lacks_bits = keeps_remainder(type, optimizer);  // none: the weight as it is rounded
    program_.loaded.push_back(
        {lacks_bits ? Loaded::Content::Zero : Loaded::Content::Weight, weight, buffer.master, {}, 0});
  }
  for (const View& state : {buffer.first, buffer.second}) {
    if (state.present()) program_.loaded.push_back({Loaded::Content::State, weight, state, {}, 0});
  }
  return buffer;
}

Flow::Target ShardViews::cropped(const Flow::Target& whole, TensorId weight, DeviceId device, const Box& box,
                                 std::int32_t copy) {
  const DataType type = graph_.tensor(weight).type;
  const auto begin = stretch_in(whole.view.box, box);
  if (begin && buffers_[whole.view.buffer].type == type)
    return {{whole.view.buffer, whole.view.offset + *begin, box}, whole.moves, whole.part};
  const auto [it, fresh] = crops_.try_emplace({weight, device, box, copy});
  if (fresh) {
    it->second.moves = whole.moves;
    it->second.view =
        buffers_.add(device, box, type, Buffer::Life::Workspace, MemoryCategory::Weights, weight);
    it->second.moves.moves.push_back({whole.view, it->second.view, box, false});
  }
  return it->second;
}

// The step's first reader in the stage puts the whole piece where later ones find it.
Flow::Target ShardViews::brought_home(Flow& flow, UseRef use, DeviceId device, const Box& box) {
  const TensorId weight = use_of(use).tensor;
  const Wiring& wiring = flow.wiring();
  const View home = stored_around(weight, device, box).values.front();
  Flow::Target brought{home, {}, 1 + wiring.ordinal};
  const Layout& gathered = contents_.layouts()[wiring.plan->target];
  for (const LayoutEntry& e : gathered.entries_on(device)) {
    if (!box.inside(gathered.box(e))) continue;
    const Flow::Target& got = flow.target(device, gathered.box(e));
    brought.moves = got.moves;
    if (got.view.buffer != home.buffer)
      brought.moves.moves.push_back({got.view, home, gathered.box(e), false});
  }
  return cropped(brought, weight, device, box, -1 - wiring.ordinal);
}

// Every use's box lies in one piece of what was gathered for its stage.
Flow::Target ShardViews::gathered_value(Flow& flow, UseRef use, ShardRef at, DeviceId device,
                                        const Box& box) {
  if (flow.wiring().microbatch < 0) return brought_home(flow, use, device, box);
  const Layout& gathered = contents_.layouts()[flow.wiring().plan->target];
  for (const LayoutEntry& e : gathered.entries_on(device)) {
    if (!box.inside(gathered.box(e))) continue;
    const std::int32_t copy = 2 * at.microbatch + (at.second_run ? 1 : 0);
    return cropped(flow.target(device, gathered.box(e)), use_of(use).tensor, device, box, copy);
  }
  throw InternalError("no gathered piece of " + graph_.tensor(use_of(use).tensor).name + " holds " +
                      box.str());
}

// The stored piece that holds the box.
ShardViews::WeightBuffer& ShardViews::stored_around(TensorId weight, DeviceId device, const Box& box) {
  const Layout& layout = contents_.layouts()[stored_layout(weight)];
  for (const LayoutEntry& e : layout.entries_on(device)) {
    if (box.inside(layout.box(e))) return stored(weight, device, layout.box(e));
  }
  throw InternalError("no piece of the home of " + graph_.tensor(weight).name + " holds " + box.str());
}

// Every use's box lies in one piece of the home, by the home's construction.
Flow::Target ShardViews::weight_value(UseRef use, ShardRef at, DeviceId device, const Box& box) {
  const auto& gathers = at.second_run ? backward_gather_ : forward_gather_;
  const auto gather = gathers.find({use.op, use.use, at.microbatch});
  if (gather != gathers.end()) return gathered_value(*flows_[gather->second], use, at, device, box);
  const TensorId weight = use_of(use).tensor;
  const WeightVersions& versions = contents_.versions();
  const std::int32_t version =
      versions.several() ? versions.version(contents_.stage_of(use.op), at.microbatch) : 0;
  const std::vector<View>& values = stored_around(weight, device, box).values;
  return cropped({values[static_cast<std::size_t>(version) % values.size()], {}}, weight, device, box,
                 version);
}

std::vector<ShardViews::GradientPiece> ShardViews::gradient_pieces(TensorId weight, DeviceId device,
                                                                   std::int32_t microbatch) {
  const Layout& layout = contents_.layouts()[contents_.state_of(weight, strategy_)];
  std::vector<GradientPiece> pieces;
  for (const LayoutEntry& e : layout.entries_on(device)) {
    WeightBuffer& buffer = with_state(weight, device, layout.box(e));
    if (!buffer.gradient.present()) {
      buffer.gradient = buffers_.add(device, layout.box(e), contents_.options().gradient_type,
                                     Buffer::Life::Forever, MemoryCategory::Gradients, weight);
    }
    Flow& flow = *flows_[sync_flow_.at({weight, microbatch})];
    pieces.push_back({buffer.gradient, flow.target(device, layout.box(e))});
  }
  return pieces;
}

MoveList ShardViews::bring_home(TensorId weight, DeviceId device) {
  MoveList all;
  const auto gather = updated_gather_.find(weight);
  if (gather == updated_gather_.end()) return all;
  const Layout& home = contents_.layouts()[contents_.home_of(weight, strategy_)];
  for (const LayoutEntry& e : home.entries_on(device)) {
    const Flow::Target& got = flows_[gather->second]->target(device, home.box(e));
    all.append(got.moves);
    all.moves.push_back({got.view, stored(weight, device, home.box(e)).values.front(), home.box(e), false});
  }
  return all;
}

std::vector<ShardViews::StatePiece> ShardViews::state(TensorId weight, DeviceId device,
                                                      std::int32_t microbatch) {
  const Layout& layout = contents_.layouts()[contents_.state_of(weight, strategy_)];
  const WeightVersions& versions = contents_.versions();
  const std::int32_t stage = stage_of(weight);
  const std::int32_t change = versions.several() ? versions.change(stage, microbatch) : 0;
  const bool last =
      !versions.several() || microbatch + versions.every(stage) >= contents_.options().microbatches;
  const bool summed = contents_.syncs_each_microbatch(weight, strategy_);
  std::vector<StatePiece> pieces;
  for (const LayoutEntry& e : layout.entries_on(device)) {
    const Box& box = layout.box(e);
    const WeightBuffer& buffer = with_state(weight, device, box);
    Flow::Target gradient{buffer.gradient, {}};
    if (!summed) {
      gradient = flows_[sync_flow_.at({weight, first_of_change(weight, microbatch)})]->target(device, box);
      // Gradients that accumulate stay as the weights do.
      if (!versions.several()) buffers_.keep_forever(gradient.view.buffer);
    }
    View before, after = buffer.updated, home;
    if (after.present()) {
      if (gathered_in_next_step(weight)) home = stored_around(weight, device, box).values.front();
      before = stored_around(weight, device, box).values.front();
    } else {
      const auto place = static_cast<std::size_t>(change);
      before = buffer.values[place % buffer.values.size()];
      after = last ? buffer.values.front() : buffer.values[(place + 1) % buffer.values.size()];
    }
    const bool lacks_bits = keeps_remainder(stored_type(weight), contents_.options().optimizer);
    pieces.push_back({{weight, after, gradient.view, buffer.master, buffer.first, buffer.second, lacks_bits},
                      gradient.moves,
                      before.buffer == after.buffer ? View() : before,
                      home});
    if (last) program_.results.push_back({Program::Result::Content::Gradient, weight, gradient.view, box});
  }
  return pieces;
}

}  // namespace pipesim
