#include "taskgraph/memory/memory_changes.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {
namespace {

struct Span {
  Nanoseconds from = 0, until = 0;
  void cover(Nanoseconds begin, Nanoseconds end) {
    from = std::min(from, begin), until = std::max(until, end);
  }
};

// Collects every buffer's life from the wirings and the timeline. What is run again has two lives: until
// forward has read it, and from its second run until backward has.
class BufferLives {
 public:
  BufferLives(const ExpandedStrategy& expanded, const TaskTimes& times)
      : expanded_(expanded),
        contents_(expanded.contents()),
        strategy_(&expanded.strategy()),
        times_(times),
        changes_(contents_.costs().topology().num_devices()),
        output_until_(strategy_->size()),
        again_until_(strategy_->size()) {
    const BoundStrategy& strategy = expanded.strategy();
    const std::span<const Wiring> wirings = expanded.wirings();  // those of a microbatch stand together
    for (; microbatch_ < times.microbatches; ++microbatch_) {
      strategy_ = &contents_.strategy_of(microbatch_, strategy);
      for (std::vector<Nanoseconds>& until : output_until_) until.clear();
      for (std::vector<Nanoseconds>& until : again_until_) until.clear();
      for (std::size_t i = 0; i < strategy.size(); ++i) own_outputs(OperatorId(i));
      for (const Wiring& w : wirings) {
        // Others are alike.
        if (w.microbatch >= contents_.ways()) break;
        if (w.microbatch != way()) continue;
        if (moves_activations(w.kind)) forward(w);
        if (w.kind == TaskKind::BackwardTransfer) backward(w);
        if (w.kind == TaskKind::WeightGather) gathered(w);
        if (w.kind == TaskKind::GradientSync && contents_.options().state_sharding.each_microbatch())
          made_gradients(w);
      }
      for (std::size_t i = 0; i < strategy.size(); ++i) record_outputs(OperatorId(i));
    }
    strategy_ = &strategy;
  }

  [[nodiscard]] MemoryChanges& changes() { return changes_; }

  // A version of weights is kept from the beginning of their next change until the last microbatch that meets
  // it there is through.
  void add_weight_versions() {
    const WeightVersions& versions = contents_.versions();
    const BoundStrategy& all = *strategy_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const OperatorId op(i);
      const std::int32_t stage = contents_.stage_of(op);
      if (contents_.backward().owned_weights(op).empty() || versions.copies(stage) == 1) continue;
      const OwnedUpdates& work = contents_.update_work(op, all);
      for (const auto& [version, users] : last_users(stage)) {
        const TaskId update = expanded_.tasks_of(op, version * versions.every(stage)).update;
        for (std::size_t k = 0; k < work.devices.size(); ++k) {
          const Nanoseconds from = times_.timeline.start[update.index() + k];
          Nanoseconds until = from;
          for (const std::int32_t user : users) {
            strategy_ = &contents_.strategy_of(user, all);
            until = std::max(until, weights_until(op, work.devices[k], user));
          }
          alive(work.devices[k], work.memory[k].weights, MemoryCategory::StashedWeights, {from, until});
        }
      }
    }
    strategy_ = &all;
  }

 private:
  // By version of the stage's weights, the last microbatch that meets it of each replica.
  [[nodiscard]] std::map<std::int32_t, std::vector<std::int32_t>> last_users(std::int32_t stage) const {
    const WeightVersions& versions = contents_.versions();
    const std::int32_t replicas = contents_.options().pipeline->replicas_of(stage);
    std::map<std::int32_t, std::vector<std::int32_t>> users;
    for (std::int32_t m = 0; m < times_.microbatches; ++m) {
      const std::int32_t version = versions.version(stage, m), next = m + replicas;
      if (next >= times_.microbatches || versions.version(stage, next) != version)
        users[version].push_back(m);
    }
    return users;
  }

  // When all on the device that use weights of the operator have done so, in this microbatch.
  [[nodiscard]] Nanoseconds weights_until(OperatorId owner, DeviceId device, std::int32_t microbatch) {
    microbatch_ = microbatch;
    Nanoseconds until = 0;
    for (const TensorId weight : contents_.backward().owned_weights(owner)) {
      for (const UseRef use : contents_.graph().consumers(weight)) {
        const std::int32_t k = (*strategy_)[use.op.index()]->shard_of_device[device.index()];
        if (k >= 0) until = std::max(until, backward_end(use.op, k));
      }
    }
    return until;
  }

  void alive(DeviceId device, Bytes bytes, MemoryCategory category, Span life) {
    if (bytes.value == 0) return;
    changes_[device.index()].emplace_back(life.from, bytes.value, category);
    changes_[device.index()].emplace_back(life.until, -bytes.value, category);
  }

  // What the first microbatch that goes the same way has.
  [[nodiscard]] std::int32_t way() const { return microbatch_ % contents_.ways(); }
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op) const { return expanded_.tasks_of(op, way()); }

  // In this microbatch, of a task of that.
  [[nodiscard]] std::size_t place(TaskId t) const {
    return static_cast<std::size_t>(microbatch_ / times_.block.microbatches) * times_.block.tasks +
           (contents_.ways() > 1 ? 0 : static_cast<std::size_t>(microbatch_ % times_.block.microbatches)) *
               times_.of_one +
           t.index();
  }
  [[nodiscard]] Nanoseconds start(TaskId t) const { return times_.timeline.start[place(t)]; }
  [[nodiscard]] Nanoseconds end(TaskId t) const { return times_.timeline.end[place(t)]; }

  [[nodiscard]] TaskId task(TaskId first, const PassWork& work, std::size_t stage, std::size_t shards,
                            std::int32_t shard) const {
    return TaskId(first.index() + std::min(stage, work.stages() - 1) * shards +
                  static_cast<std::size_t>(shard));
  }

  // End of the last backward task of a shard; 0 without backward.
  [[nodiscard]] Nanoseconds backward_end(OperatorId op, std::int32_t shard) const {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const OperatorTasks& t = tasks_of(op);
    const std::size_t shards = b.config.devices.size();
    Nanoseconds last = 0;
    if (t.backward_input.valid())
      last = end(task(t.backward_input, b.backward_input, SIZE_MAX, shards, shard));
    if (t.backward_weight.valid()) {
      last = std::max(last, end(task(t.backward_weight, b.backward_weight, SIZE_MAX, shards, shard)));
    }
    return last;
  }

  // When the first run, or the second, ends.
  [[nodiscard]] Nanoseconds forward_end(OperatorId op, std::int32_t shard, bool again = false) const {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const OperatorTasks& tasks = tasks_of(op);
    return end(
        task(again ? tasks.recompute : tasks.forward, b.forward, SIZE_MAX, b.config.devices.size(), shard));
  }

  // A consumer reads its input in forward, when that is run again, and in backward if it saves it: all of
  // this where the wiring brings it, except that what is brought again is not read in the first run, nor what
  // is brought first later on.
  [[nodiscard]] Nanoseconds read_until(UseRef use, std::int32_t shard, const Wiring& wiring) const {
    const Recomputation& recomputation = contents_.recomputation();
    const bool first = wiring.kind == TaskKind::ForwardTransfer;
    const Nanoseconds forward = first ? forward_end(use.op, shard) : 0;
    if (first && (recomputation.reads_again(use) || wiring.read_in == ReadIn::Forward)) return forward;
    const bool saved = contents_.graph().op(use.op).uses[static_cast<std::size_t>(use.use)].saved;
    return std::max({forward, recomputation.again(use.op) ? forward_end(use.op, shard, true) : 0,
                     saved ? backward_end(use.op, shard) : 0});
  }

  void own_outputs(OperatorId op) {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const std::vector<TensorUse>& uses = b.op->uses;
    const bool saved = std::any_of(uses.begin(), uses.end(),
                                   [](const TensorUse& u) { return u.role == Role::Output && u.saved; });
    const bool again = contents_.recomputation().again(op);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(b.memory.size()); ++k) {
      const Nanoseconds back = saved ? backward_end(op, k) : 0;
      output_until_[op.index()].push_back(std::max(forward_end(op, k), again ? 0 : back));
      if (again) again_until_[op.index()].push_back(std::max(forward_end(op, k, true), back));
    }
  }

  void record_outputs(OperatorId op) {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const OperatorTasks& tasks = tasks_of(op);
    const bool again = tasks.recompute.valid();
    for (std::size_t k = 0; k < b.memory.size(); ++k) {
      const auto shard = static_cast<std::int32_t>(k);
      const DeviceId d = b.config.devices[k];
      const Nanoseconds from = start(TaskId(tasks.forward.index() + k));
      const Nanoseconds back = backward_end(op, shard);
      const auto record = [&](Nanoseconds begin, Nanoseconds outputs_until, Nanoseconds saved_until) {
        alive(d, b.memory[k].outputs, MemoryCategory::Activations, {begin, outputs_until});
        alive(d, b.memory[k].saved, MemoryCategory::Activations, {begin, std::max(begin, saved_until)});
      };
      record(from, output_until_[op.index()][k], again ? forward_end(op, shard) : back);
      if (again) record(start(TaskId(tasks.recompute.index() + k)), again_until_[op.index()][k], back);
      record_in_passes(b, tasks, shard);
    }
  }

  // What is in use while a pass runs: blocks that arrive and leave in a ring, and its workspace.
  void record_in_passes(const BoundOperator& b, const OperatorTasks& tasks, std::int32_t shard) {
    const ShardMemory& memory = b.memory[static_cast<std::size_t>(shard)];
    const std::size_t shards = b.config.devices.size();
    const DeviceId device = b.config.devices[static_cast<std::size_t>(shard)];
    const auto record = [&](TaskId first, const PassWork& work, Bytes blocks) {
      if (!first.valid() || (blocks.value == 0 && memory.workspace.value == 0)) return;
      const Span life{start(task(first, work, 0, shards, shard)),
                      end(task(first, work, SIZE_MAX, shards, shard))};
      alive(device, blocks, MemoryCategory::Transfers, life);
      alive(device, memory.workspace, MemoryCategory::Activations, life);
    };
    record(tasks.forward, b.forward, memory.forward_blocks);
    record(tasks.recompute, b.forward, memory.forward_blocks);
    record(tasks.backward_input, b.backward_input, memory.backward_blocks);
    record(tasks.backward_weight, b.backward_weight, Bytes(0));
  }

  void forward(const Wiring& w) {
    const UseRef source = w.sources.front();
    const BoundOperator& producer = *(*strategy_)[source.op.index()];
    const bool made_again =
        w.kind == TaskKind::RecomputeTransfer && contents_.recomputation().again(source.op);
    std::vector<Nanoseconds>& until = (made_again ? again_until_ : output_until_)[source.op.index()];
    const auto keep = [&](DeviceId d, Nanoseconds time) {
      const std::int32_t k = producer.shard_of_device[d.index()];
      if (k >= 0) until[static_cast<std::size_t>(k)] = std::max(until[static_cast<std::size_t>(k)], time);
    };
    for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
      const CommunicationTask& t = w.plan->tasks[i];
      for (const DeviceId d : contributors(t.kind, t.group)) keep(d, end(TaskId(w.first_task.index() + i)));
    }
    for (const DeviceId d : w.plan->local) keep(d, consumers_until(w, d));
    for (const auto& [d, bytes] : w.plan->received) {
      const Nanoseconds from = first_arrival(w, d);
      alive(d, bytes, MemoryCategory::Transfers, {from, std::max(from, consumers_until(w, d))});
    }
  }

  [[nodiscard]] Nanoseconds consumers_until(const Wiring& w, DeviceId d) const {
    Nanoseconds until = 0;
    for (const UseRef c : w.destinations) {
      const std::int32_t k = (*strategy_)[c.op.index()]->shard_of_device[d.index()];
      if (k >= 0) until = std::max(until, read_until(c, k, w));
    }
    return until;
  }

  [[nodiscard]] Nanoseconds first_arrival(const Wiring& w, DeviceId device) const {
    Nanoseconds first = INT64_MAX;
    for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
      const auto to = receivers(w.plan->tasks[i].kind, w.plan->tasks[i].group);
      if (std::find(to.begin(), to.end(), device) == to.end()) continue;
      first = std::min(first, start(TaskId(w.first_task.index() + i)));
    }
    return first;
  }

  void backward(const Wiring& w) {
    const OperatorId producer = w.destinations.front().op;
    const auto& shard_of = (*strategy_)[producer.index()]->shard_of_device;
    for (const auto& [d, bytes] : w.plan->received) {
      const Nanoseconds from = first_arrival(w, d);
      alive(d, bytes, MemoryCategory::ActivationGradients,
            {from, std::max(from, backward_end(producer, shard_of[d.index()]))});
    }
    visit_terms(w, [&](const std::vector<UseRef>& consumers) {
      gradient_buffers(w, consumers, contents_.graph().tensor(w.tensor).type,
                       MemoryCategory::ActivationGradients);
    });
  }

  // visit(the consumers that make it) of each term.
  template <class Visit>
  void visit_terms(const Wiring& w, Visit visit) {
    for (std::size_t s = 0; s < w.sources.size(); ++s) {
      const auto first = std::find(w.source_terms.begin(), w.source_terms.end(), w.source_terms[s]);
      if (first != w.source_terms.begin() + static_cast<std::ptrdiff_t>(s)) continue;
      std::vector<UseRef> consumers;
      for (std::size_t other = s; other < w.sources.size(); ++other) {
        if (w.source_terms[other] == w.source_terms[s]) consumers.push_back(w.sources[other]);
      }
      visit(consumers);
    }
  }

  // Of weights, until they are reduced to the parts that devices keep.
  void made_gradients(const Wiring& w) {
    visit_terms(w, [&](const std::vector<UseRef>& consumers) {
      gradient_buffers(w, consumers, contents_.options().gradient_type, MemoryCategory::Gradients);
    });
  }

  // Copies of what a device keeps anyway are made when they are first read.
  void gathered(const Wiring& w) {
    for (const auto& [d, bytes] : gathered_copies(expanded_, w)) {
      Span life{first_arrival(w, d), 0};
      for (const UseRef use : w.destinations) {
        const std::int32_t k = (*strategy_)[use.op.index()]->shard_of_device[d.index()];
        if (k < 0) continue;
        life.cover(first_read(use.op, k, w.read_in), forward_end(use.op, k));
        if (w.read_in != ReadIn::Forward) life.until = std::max(life.until, backward_end(use.op, k));
      }
      alive(d, bytes, MemoryCategory::GatheredWeights, {life.from, std::max(life.from, life.until)});
    }
  }

  [[nodiscard]] Nanoseconds first_read(OperatorId op, std::int32_t shard, ReadIn passes) const {
    const OperatorTasks& tasks = tasks_of(op);
    if (passes != ReadIn::Backward) return start(task_at(tasks.forward, shard));
    Nanoseconds first = INT64_MAX;
    for (const TaskId pass : {tasks.recompute, tasks.backward_input, tasks.backward_weight}) {
      if (pass.valid()) first = std::min(first, start(task_at(pass, shard)));
    }
    return first;
  }

  // Consumers of one term add into the same buffer: it lives from the first one's start until it was sent, or
  // used there by the producer.
  void gradient_buffers(const Wiring& w, const std::vector<UseRef>& consumers, DataType type,
                        MemoryCategory category) {
    const BoundOperator& one = *(*strategy_)[consumers.front().op.index()];
    const Layout& made =
        contents_.layouts()[one.gradient_layout[static_cast<std::size_t>(consumers.front().use)]];
    const std::int64_t element = bytes_per_element(type);
    for (const DeviceId d : one.config.devices) {
      for (const LayoutEntry& e : made.entries_on(d))
        alive(d, Bytes(made.box(e).elements() * element), category, gradient_life(w, consumers, d));
    }
  }

  [[nodiscard]] Span gradient_life(const Wiring& w, const std::vector<UseRef>& consumers,
                                   DeviceId device) const {
    Span life{INT64_MAX, 0};
    for (const UseRef c : consumers) {
      const BoundOperator& consumer = *(*strategy_)[c.op.index()];
      const std::int32_t k = consumer.shard_of_device[device.index()];
      const OperatorTasks& tasks = tasks_of(c.op);
      const bool apart = w.kind == TaskKind::GradientSync && tasks.backward_weight.valid();
      const TaskId first = apart ? tasks.backward_weight : tasks.backward_input;
      const PassWork& work = apart ? consumer.backward_weight : consumer.backward_input;
      const std::size_t shards = consumer.config.devices.size();
      life.cover(start(task(first, work, 0, shards, k)), end(task(first, work, SIZE_MAX, shards, k)));
    }
    for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
      const auto from = contributors(w.plan->tasks[i].kind, w.plan->tasks[i].group);
      if (std::find(from.begin(), from.end(), device) != from.end()) {
        life.cover(life.from, end(TaskId(w.first_task.index() + i)));
      }
    }
    if (w.destinations.empty()) return life;
    const OperatorId producer = w.destinations.front().op;
    const std::int32_t p = (*strategy_)[producer.index()]->shard_of_device[device.index()];
    const auto& local = w.plan->local;
    if (p >= 0 && std::binary_search(local.begin(), local.end(), device))
      life.cover(life.from, backward_end(producer, p));
    return life;
  }

  const ExpandedStrategy& expanded_;
  const PlanContents& contents_;
  const BoundStrategy* strategy_;  // of the microbatch
  TaskTimes times_;
  std::int32_t microbatch_ = 0;                         // whose buffers are looked at
  MemoryChanges changes_;                               // per device
  std::vector<std::vector<Nanoseconds>> output_until_;  // per operator and shard, of the microbatch
  std::vector<std::vector<Nanoseconds>> again_until_;   // the same of the second run, where there is one
};

}  // namespace

std::vector<std::pair<DeviceId, Bytes>> gathered_copies(const ExpandedStrategy& expanded,
                                                        const Wiring& gather) {
  const PlanContents& contents = expanded.contents();
  const DataType type = contents.graph().tensor(gather.tensor).type;
  if (!contents.options().state_sharding.copies_to_use(type)) return gather.plan->received;
  std::vector<std::pair<DeviceId, Bytes>> copies = gather.plan->received;
  const Layout& target = contents.layouts()[gather.plan->target];
  for (const DeviceId d : gather.plan->local) {
    if (std::ranges::any_of(gather.plan->received, [&](const auto& got) { return got.first == d; })) continue;
    copies.emplace_back(d, Bytes(target.elements_on(d) * bytes_per_element(type)));
  }
  return copies;
}

MemoryChanges memory_changes(const ExpandedStrategy& expanded, const TaskTimes& times) {
  BufferLives lives(expanded, times);
  if (expanded.contents().versions().several()) lives.add_weight_versions();
  return std::move(lives.changes());
}

}  // namespace pipesim
