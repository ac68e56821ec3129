#include "executor/program/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "executor/program/buffer_uses.h"
#include "executor/program/gradient_sums.h"
#include "executor/program/ring_views.h"
#include "executor/program/shard_views.h"
#include "executor/program/task_order.h"
#include "executor/program/task_roles.h"
#include "models/box.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// More transfers of a device at once would only wait for the same links.
constexpr std::int32_t most_streams = 8;

// Which tasks each device does, and in which of its lists: 0 is compute, then the streams. A device that does
// not overlap has one list for everything, in the order in which the simulator gives its lane away: side by
// side, transfers would slow down kernels that the simulator lets finish first.
class DeviceLists {
 public:
  DeviceLists(const RoleTable& roles, std::span<const TaskId> order, const Timeline& simulated,
              const Topology& topology)
      : lists_(topology.num_devices()), number_(topology.num_devices()) {
    const std::size_t num_devices = topology.num_devices();
    std::vector<std::vector<StreamedTask>> streamed(num_devices);
    for (auto& n : number_) n.assign(order.size(), -1);
    for (const TaskId t : order) {
      for (const DeviceId d : roles[t].devices) {
        if (lists_[d.index()].empty()) lists_[d.index()].emplace_back();
        if (is_communication(roles[t].kind) && topology.kind(d).overlap) {
          streamed[d.index()].push_back({t, simulated.start[t.index()], simulated.end[t.index()]});
        } else {
          add(d, t, 0);
        }
      }
    }
    for (std::size_t d = 0; d < num_devices; ++d) {
      const std::vector<std::int32_t> streams = assign_streams(streamed[d], most_streams);
      for (std::size_t i = 0; i < streams.size(); ++i)
        add(DeviceId(d), streamed[d][i].task, static_cast<std::size_t>(streams[i]) + 1);
    }
  }

  [[nodiscard]] const std::vector<std::vector<TaskId>>& of(DeviceId d) const { return lists_[d.index()]; }
  [[nodiscard]] std::int32_t number(DeviceId d, TaskId t) const { return number_[d.index()][t.index()]; }
  [[nodiscard]] const std::vector<std::vector<std::vector<TaskId>>>& all() const { return lists_; }

 private:
  void add(DeviceId d, TaskId t, std::size_t list) {
    auto& lists = lists_[d.index()];
    if (lists.size() <= list) lists.resize(list + 1);
    lists[list].push_back(t);
    number_[d.index()][t.index()] = static_cast<std::int32_t>(list);
  }
  std::vector<std::vector<std::vector<TaskId>>> lists_;  // [device][list]
  std::vector<std::vector<std::int32_t>> number_;        // [device][task]: list, or −1
};

DataType type_of_width(std::int64_t bytes) {
  return bytes == 8 ? DataType::Float64 : bytes == 4 ? DataType::Float32 : DataType::BFloat16;
}

class Compiler {
 public:
  Compiler(const ExpandedStrategy& expanded, const DeviceKernels& kernels, const RoleTable& roles,
           Program& program)
      : expanded_(expanded),
        contents_(expanded.contents()),
        graph_(expanded.contents().graph()),
        roles_(roles),
        program_(program),
        kernels_(kernels),
        views_(expanded, kernels, program),
        rings_(graph_, views_),
        sums_(expanded, roles, program.order, views_) {}

  Instruction instruction(TaskId task, DeviceId device) {
    const TaskRole& role = roles_[task];
    Instruction out;
    out.task = task;
    if (role.kind == TaskKind::InnerReduce) {
      add_reduce(role, device, out);
    } else if (role.kind == TaskKind::Rotation) {
      RingViews::Message message = rings_.message(pass_of(role, device), *role.exchange, device);
      out.work = std::move(message.work);
      out.before = std::move(message.before);
    } else if (is_communication(role.kind)) {
      add_transfer(role, task, device, out);
    } else if (role.kind == TaskKind::Update) {
      add_update(role, device, out);
    } else if (role.kind == TaskKind::Barrier) {
      add_barrier(role, device, out);
    } else {
      add_compute(role, out);
    }
    sums_.after(task, device, out);
    return out;
  }

  void add_results(OperatorId op, std::int32_t microbatch, std::span<const std::int32_t> position) {
    const BoundOperator& bound = views_.bound(op, microbatch);
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
      if (position[bound.config.devices[k].index()] >= 0)
        add_results(bound, op, {static_cast<std::int32_t>(k), microbatch});
    }
  }

 private:
  void add_results(const BoundOperator& bound, OperatorId op, ShardRef at) {
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const TensorUse& use = bound.op->uses[u];
      if (use.role != Role::Output || !graph_.consumers(use.tensor).empty() ||
          !graph_.gets_gradient(use.tensor))
        continue;
      const Layout& layout = contents_.layouts()[bound.data_layout[u]];
      const auto entries = layout.entries_on(views_.device_of(op, at));
      // Among copies the one on the first device counts.
      const auto first =
          std::find_if(layout.entries().begin(), layout.entries().end(), [&](const LayoutEntry& e) {
            return !entries.empty() && e.box == entries[0].box && e.addend == entries[0].addend;
          });
      if (entries.empty() || first->device != entries[0].device) continue;
      const View view = views_.output({op, static_cast<std::int32_t>(u)}, at);
      program_.results.push_back({Program::Result::Content::Output, use.tensor, view, view.box});
    }
  }

  enum class Purpose : std::uint8_t { Value, Gradient };
  using StagingKey = std::tuple<OperatorId, Pass, ShardRef, std::size_t, Purpose>;

  struct StageSpan {
    std::size_t stages, first_segment, end_segment;
    [[nodiscard]] bool last(std::int32_t stage) const {
      return static_cast<std::size_t>(stage) + 1 == stages;
    }
  };

  // Positions, among the pass's inner steps, of those that the config splits.
  [[nodiscard]] std::vector<std::size_t> active_steps(const BoundOperator& bound, Pass pass,
                                                      std::size_t& all) const {
    const ShardGrid grid(*bound.op, bound.config);
    std::vector<std::size_t> active;
    all = 0;
    for (const InnerStep& step : bound.op->inner_steps) {
      if (step.pass != pass) continue;
      if (std::any_of(step.over.begin(), step.over.end(), [&](FactorIndex f) { return grid.split(f); }))
        active.push_back(all);
      ++all;
    }
    return active;
  }

  [[nodiscard]] const BoundOperator& bound(const TaskRole& role) const {
    return views_.bound(role.op, role.microbatch);
  }

  [[nodiscard]] StageSpan stage_span(const TaskRole& role) const {
    std::size_t all = 0;
    const std::vector<std::size_t> active = active_steps(bound(role), role.pass, all);
    const auto stage = static_cast<std::size_t>(role.stage);
    return {active.size() + 1, stage == 0 ? 0 : active[stage - 1] + 1,
            stage == active.size() ? all + 1 : active[stage] + 1};
  }

  // Which stages have a block of a ring, see OperatorKernel.
  [[nodiscard]] StageSpan ring_span(const TaskRole& role, const RingStages& ring) const {
    const auto stages = static_cast<std::size_t>(ring.stages());
    if (!ring.works(role.stage)) return {stages, 0, 0};
    if (role.pass == Pass::Forward) return {stages, 0, 1};
    std::size_t steps = 0;
    (void)active_steps(bound(role), role.pass, steps);
    return {stages, role.stage == 1 ? 0 : steps, steps + 1};
  }

  [[nodiscard]] RingViews::PassOfShard pass_of(const TaskRole& role, DeviceId device) const {
    return {
        role.op, role.pass, {bound(role).shard_of_device[device.index()], role.microbatch, role.second_run}};
  }

  [[nodiscard]] DataType type_of(const View& view) { return views_.buffers()[view.buffer].type; }

  [[nodiscard]] static ShardRef shard_of(const TaskRole& role) {
    return {role.shard, role.microbatch, role.second_run};
  }

  // A float32 or int64 twin of a view, kept over all stages of the pass.
  View staging(const TaskRole& role, std::size_t use, Purpose purpose, const View& view) {
    const auto [it, fresh] = staging_.try_emplace({role.op, role.pass, shard_of(role), use, purpose});
    if (fresh) {
      const Buffer& like = views_.buffers()[view.buffer];
      it->second = views_.buffers().add(like.device, view.box, kernels_.kernel_type(like.type),
                                        Buffer::Life::Workspace, like.category, like.tensor);
    }
    return it->second;
  }

  void put_together(const Flow::Target& target, Instruction& out) {
    if (target.moves.empty() || !put_together_.insert({target.view.buffer, target.part}).second) return;
    out.before.append(target.moves);
  }

  // A value to read, as the kernel wants it.
  View readable(const TaskRole& role, std::size_t use, Purpose purpose, const Flow::Target& target,
                Instruction& out) {
    if (!target.view.present()) return {};
    put_together(target, out);
    if (type_of(target.view) == kernels_.kernel_type(type_of(target.view))) return target.view;
    const View twin = staging(role, use, purpose, target.view);
    if (role.stage == 0) out.before.moves.push_back({target.view, twin, twin.box, false});
    return twin;
  }

  View filled_output(const TaskRole& role, std::size_t use, bool last, Instruction& out) {
    const View view = views_.output({role.op, static_cast<std::int32_t>(use)}, shard_of(role));
    if (!view.present() || type_of(view) == kernels_.kernel_type(type_of(view))) return view;
    const View twin = staging(role, use, Purpose::Value, view);
    if (last) out.after.moves.push_back({twin, view, view.box, false});
    return twin;
  }

  // Where the kernel writes a gradient. Writers of one sum after the first have it added.
  View filled_gradient(const TaskRole& role, std::size_t use, const StageSpan& span, Instruction& out) {
    const Flow::Sink sink = views_.gradient_sink({role.op, static_cast<std::int32_t>(use)}, shard_of(role));
    if (!sink.view.present()) return {};
    const bool last = span.last(role.stage);
    const bool written = written_.contains(sink.view.buffer);
    const bool direct = type_of(sink.view) == kernels_.kernel_type(type_of(sink.view)) &&
                        (sink.writers == 1 || (span.stages == 1 && !written));
    if (last) written_.insert(sink.view.buffer);
    if (direct) return sink.view;
    const View twin = staging(role, use, Purpose::Gradient, sink.view);
    if (last) out.after.moves.push_back({twin, sink.view, sink.view.box, written});
    return twin;
  }

  // A twin for one instruction alone.
  View kernel_view(const View& view, DeviceId device) {
    const Buffer& like = views_.buffers()[view.buffer];
    return views_.buffers().add(device, view.box, kernels_.kernel_type(like.type), Buffer::Life::Workspace,
                                like.category, like.tensor);
  }

  // In place of the own part of keys and values, and of their gradients, what a stage of a ring works on.
  void add_block(const TaskRole& role, const RingStages& ring, ComputeWork& work, Instruction& out) {
    const BoundOperator& bound = this->bound(role);
    const DeviceId device = role.devices.front();
    const RingViews::PassOfShard pass = pass_of(role, device);
    if (ring.works(role.stage)) {
      work.block = role.stage - 1;
      ShardGrid(*bound.op, bound.config).block_ranges(role.shard, work.block, work.ranges);
    }
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      if (!rotates(*bound.op, bound.op->uses[u])) continue;
      if (work.block > 0) {
        const View came = rings_.arrived(pass, role.stage - 2, u);
        work.values[u] = came;
        if (type_of(came) != kernels_.kernel_type(type_of(came))) {
          work.values[u] = kernel_view(came, device);
          out.before.moves.push_back({came, work.values[u], came.box, false});
        }
      }
      if (!ring.gradients || !rings_.gives_gradient(pass, u)) continue;
      if (work.block > 0) {
        const View made = rings_.made(pass, role.stage, u);
        work.gradients[u] = made;
        if (type_of(made) != kernels_.kernel_type(type_of(made))) {
          work.gradients[u] = kernel_view(made, device);
          out.after.moves.push_back({work.gradients[u], made, made.box, false});
        }
      } else if (ring.adds(role.stage) && work.gradients[u].present()) {
        const View came = rings_.arrived_gradient(pass, ring.steps() - 1, u);
        out.before.moves.push_back({came, work.gradients[u], came.box, true});
      }
    }
  }

  void add_compute(const TaskRole& role, Instruction& out) {
    const BoundOperator& bound = this->bound(role);
    std::optional<RingStages> ring;
    if (bound.config.ring) ring = rings_.stages(pass_of(role, role.devices.front()));
    const StageSpan span = ring ? ring_span(role, *ring) : stage_span(role);
    ComputeWork work;
    work.op = role.op;
    work.pass = role.pass;
    work.microbatch = role.microbatch;
    work.shard = role.shard;
    ShardGrid(*bound.op, bound.config).ranges(role.shard, work.ranges);
    work.first_segment = span.first_segment;
    work.end_segment = span.end_segment;
    const bool forward = role.pass == Pass::Forward;
    const Pass weight_pass = bound.backward_weight.present ? Pass::BackwardWeight : Pass::BackwardInput;
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const TensorUse& use = bound.op->uses[u];
      const UseRef ref{role.op, static_cast<std::int32_t>(u)};
      const bool awaits_weights = role.pass == Pass::BackwardInput && reads_for_weights_alone(bound, u);
      View value, gradient;
      if (forward && use.role == Role::Output) {
        value = filled_output(role, u, span.last(role.stage), out);
      } else if (forward || use.role == Role::Weight || (use.read_in_backward() && !awaits_weights)) {
        // Running statistics take in every sample once.
        if (use.role != Role::State || role.kind == TaskKind::Forward)
          value = readable(role, u, Purpose::Value, views_.value(ref, shard_of(role)), out);
      }
      if (!forward && use.role == Role::Output) {
        gradient = readable(role, u, Purpose::Gradient, views_.output_gradient(ref, shard_of(role)), out);
      } else if (!forward && role.pass == (use.role == Role::Weight ? weight_pass : Pass::BackwardInput)) {
        gradient = filled_gradient(role, u, span, out);
      }
      work.values.push_back(value);
      work.gradients.push_back(gradient);
    }
    if (ring) add_block(role, *ring, work, out);
    work.statistics = views_.statistics(role.op, role.pass, shard_of(role));
    work.saved = views_.saved(role.op, shard_of(role));
    out.work = std::move(work);
  }

  void add_update(const TaskRole& role, DeviceId device, Instruction& out) {
    UpdateWork work;
    const WeightVersions& versions = contents_.versions();
    if (versions.several()) {
      const std::int32_t stage = contents_.stage_of(role.op);
      work.change = versions.change(stage, role.microbatch);
      work.changes = versions.change(stage, contents_.options().microbatches - 1) + 1;
      work.averaged = versions.every(stage);
    }
    for (const TensorId weight : contents_.backward().owned_weights(role.op)) {
      sums_.before_update(weight, device, out);
      for (ShardViews::StatePiece& piece : views_.state(weight, device, role.microbatch)) {
        put_together({piece.update.gradient, std::move(piece.moves), 0}, out);
        if (piece.before.present())
          out.before.moves.push_back({piece.before, piece.update.value, piece.update.value.box, false});
        if (piece.home.present())
          out.after.moves.push_back({piece.update.value, piece.home, piece.update.value.box, false});
        const View wire = piece.update.gradient;
        if (type_of(wire) != kernels_.kernel_type(type_of(wire))) {
          piece.update.gradient =
              views_.buffers().add(device, wire.box, kernels_.kernel_type(type_of(wire)),
                                   Buffer::Life::Workspace, MemoryCategory::Gradients, weight);
          out.before.moves.push_back({wire, piece.update.gradient, wire.box, false});
        }
        work.weights.push_back(piece.update);
      }
    }
    out.work = std::move(work);
  }

  void add_transfer(const TaskRole& role, TaskId task, DeviceId device, Instruction& out) {
    const CommunicationTask& planned = expanded_.wirings()[role.wiring].plan->tasks[role.index];
    const auto rank = std::find(planned.group.begin(), planned.group.end(), device) - planned.group.begin();
    Flow::Member member = views_.flow(role.wiring).member(role.index, static_cast<std::size_t>(rank));
    const auto [packer, first] =
        packers_.try_emplace({role.wiring, planned.term, planned.step, device}, task);
    if (first) {
      out.before = std::move(member.before);
    } else if (!member.before.empty()) {
      out.waits.push_back(packer->second);
    }
    out.work = std::move(member.work);
  }

  void add_barrier(const TaskRole& role, DeviceId device, Instruction& out) {
    out.work = BarrierWork();
    if (!role.op.valid()) return;
    for (const TensorId weight : contents_.backward().owned_weights(role.op))
      out.before.append(views_.bring_home(weight, device));
  }

  // A statistic travels in the width that the operator declares, and is float64 before and after.
  void add_reduce(const TaskRole& role, DeviceId device, Instruction& out) {
    const BoundOperator& bound = this->bound(role);
    std::size_t all = 0;
    const std::size_t position = active_steps(bound, role.pass, all)[static_cast<std::size_t>(role.stage)];
    const InnerStep& step = nth_step(*bound.op, role.pass, position);
    const std::int32_t shard = bound.shard_of_device[device.index()];
    const View statistic =
        views_.statistics(role.op, role.pass, {shard, role.microbatch, role.second_run})[position];
    CommunicationWork work;
    work.kind = Collective::AllReduce;
    work.reduce = step.reduce == InnerStep::Reduce::Max ? ReduceOperation::Max : ReduceOperation::Sum;
    work.group = role.devices;
    work.rank = static_cast<std::int32_t>(std::find(work.group.begin(), work.group.end(), device) -
                                          work.group.begin());
    work.type = type_of_width(step.element_bytes);
    work.block = statistic.box.elements();
    work.part = {0, work.block};
    View wire = statistic;
    if (work.type != DataType::Float64) {
      wire = views_.buffers().add(device, statistic.box, work.type, Buffer::Life::Workspace,
                                  MemoryCategory::Activations, {});
      out.before.moves.push_back({statistic, wire, wire.box, false});
      out.after.moves.push_back({wire, statistic, wire.box, false});
    }
    work.give = work.get = wire;
    out.work = std::move(work);
  }

  [[nodiscard]] static const InnerStep& nth_step(const Operator& op, Pass pass, std::size_t n) {
    for (const InnerStep& step : op.inner_steps) {
      if (step.pass == pass && n-- == 0) return step;
    }
    throw InternalError("operator " + op.name + " has fewer inner steps than stages");
  }

  const ExpandedStrategy& expanded_;
  const PlanContents& contents_;
  const OperatorGraph& graph_;
  const RoleTable& roles_;
  Program& program_;
  const DeviceKernels& kernels_;
  ShardViews views_;
  RingViews rings_;
  GradientSums sums_;
  std::map<StagingKey, View> staging_;
  std::set<std::pair<BufferId, std::int32_t>> put_together_;  // and which part of the buffer
  std::set<BufferId> written_;
  std::map<std::tuple<std::size_t, std::int32_t, std::int32_t, DeviceId>, TaskId> packers_;
};

std::vector<std::vector<TaskId>> predecessors(const TaskDag& dag) {
  std::vector<std::vector<TaskId>> before(dag.num_tasks());
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    for (const TaskId next : dag.successors(TaskId(t))) before[next.index()].emplace_back(t);
  }
  return before;
}

void require_order(const DeviceLists& lists, const ExpandedStrategy& expanded) {
  ListOrder order(expanded.dag());
  for (const auto& device : lists.all()) {
    for (const std::vector<TaskId>& list : device) order.add_list(list);
  }
  if (const auto stuck = order.why_stuck())
    throw InternalError("the devices' lists of tasks never end: " +
                        describe_deadlock(*stuck, expanded.graph(), expanded.contents().graph(),
                                          expanded.contents().costs().topology()));
}

}  // namespace

Program compile(const ExpandedStrategy& expanded, const Timeline& simulated, const DeviceKernels& kernels,
                std::span<const DeviceId> local) {
  const BoundStrategy& strategy = expanded.strategy();
  for (const BoundOperator* bound : strategy) {
    kernels.require_kernel(*bound->op);
    if (bound->config.ring) kernels.require_ring(*bound->op);
  }
  if (expanded.contents().versions().trained())
    kernels.require_optimizer(expanded.contents().options().optimizer);
  Program program;
  program.order = dispatch_order(expanded.dag(), simulated);
  const Topology& topology = expanded.contents().costs().topology();
  const std::size_t num_devices = topology.num_devices();
  const RoleTable roles(expanded);
  const DeviceLists lists(roles, program.order, simulated, topology);
  require_order(lists, expanded);
  const std::vector<std::vector<TaskId>> before = predecessors(expanded.dag());
  Compiler compiler(expanded, kernels, roles, program);
  std::vector<std::int32_t> position(num_devices, -1);  // among program.devices
  for (const DeviceId d : local) {
    if (lists.of(d).empty()) continue;
    position[d.index()] = static_cast<std::int32_t>(program.devices.size());
    program.devices.push_back({d, {}, std::vector<std::vector<Instruction>>(lists.of(d).size() - 1)});
  }
  // In dispatch order over all devices, because the first reader or writer of a buffer has more to do.
  for (const TaskId task : program.order) {
    for (const DeviceId d : roles[task].devices) {
      if (position[d.index()] < 0) continue;
      Instruction made = compiler.instruction(task, d);
      const std::int32_t list = lists.number(d, task);
      for (const TaskId p : before[task.index()]) {
        if (lists.number(d, p) >= 0) made.waits.push_back(p);
      }
      count_uses(made, program);
      DeviceProgram& device = program.devices[static_cast<std::size_t>(position[d.index()])];
      (list == 0 ? device.compute : device.streams[static_cast<std::size_t>(list) - 1])
          .push_back(std::move(made));
    }
  }
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    for (std::int32_t m = 0; m < expanded.contents().options().microbatches; ++m)
      compiler.add_results(OperatorId(i), m, position);
  }
  for (const Program::Result& r : program.results) ++program.buffers[r.view.buffer.index()].num_uses;
  return program;
}

}  // namespace pipesim
