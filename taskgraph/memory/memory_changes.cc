#include "taskgraph/memory/memory_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "taskgraph/memory/life_tasks.h"
#include "taskgraph/memory/runtime_buffers.h"
#include "taskgraph/memory/step_buffers.h"

namespace pipesim {
namespace {

// Devices that are looked at, at one moment of the timeline or, without one, all the while.
struct Watch {
  std::span<const DeviceId> devices;
  std::optional<Nanoseconds> when;
};
using LiveBytes = std::map<std::pair<OperatorId, MemoryCategory>, LiveBuffer>;
void add_live(LiveBytes& live, OperatorId op, MemoryCategory category, Bytes bytes) {
  if (bytes.value == 0) return;
  LiveBuffer& found = live.try_emplace({op, category}, LiveBuffer{op, category, 0, Bytes(0)}).first->second;
  found.count += bytes.value > 0 ? 1 : -1;  // what is released for a while is less than nothing
  found.bytes += bytes;
}

// Collects every buffer's life from the wirings, once for all microbatches that go the same way, and then its
// times from the timeline, for each of them. What is run again has two lives: until forward has read it, and
// from its second run until backward has.
class BufferLives : private LifeTasks {
 public:
  BufferLives(const ExpandedStrategy& expanded, const TaskTimes& times, const Watch& watch = {})
      : LifeTasks(expanded),
        watch_(watch),
        lives_(watch.devices.size()),
        times_(times),
        changes_(contents_.costs().topology().num_devices()),
        output_until_(strategy_->size()),
        again_until_(strategy_->size()) {
    const BoundStrategy& strategy = expanded.strategy();
    const std::span<const Wiring> wirings = expanded.wirings();  // those of a microbatch stand together
    for (; way_ < std::min(contents_.ways(), times.microbatches); ++way_) {
      strategy_ = &contents_.strategy_of(way_, strategy);
      for (std::vector<TaskList>& until : output_until_) until.clear();
      for (std::vector<TaskList>& until : again_until_) until.clear();
      for (std::size_t i = 0; i < strategy.size(); ++i) own_outputs(OperatorId(i));
      for (const Wiring& w : wirings) {
        // Later microbatches are like the first ones of their ways.
        if (w.microbatch >= contents_.ways()) break;
        if (w.microbatch != way_) continue;
        if (moves_activations(w.kind)) forward(w);
        if (w.kind == TaskKind::BackwardTransfer) backward(w);
        if (w.kind == TaskKind::WeightGather) gathered(w);
        if (w.kind == TaskKind::GradientSync && contents_.options().state_sharding.each_microbatch() &&
            contents_.gradient_bucket_elements() == 0)  // else they are made in buckets
          made_gradients(w);
      }
      for (std::size_t i = 0; i < strategy.size(); ++i) record_outputs(OperatorId(i));
      add_changes();
    }
    strategy_ = &strategy;
  }

  [[nodiscard]] MemoryChanges& changes() { return changes_; }
  /// What is live at the moment that was asked for, by operator and category.
  [[nodiscard]] const LiveBytes& live() const { return live_; }
  /// All buffers of each device that was asked for.
  [[nodiscard]] std::vector<std::vector<BufferLife>>& lives() { return lives_; }

  void add(const RuntimeBuffer& b) {
    change({b.device, b.category, b.op, b.bytes, {}, 0, 0}, b.from, b.until);
  }

  // A version of weights is kept from the beginning of their next change until the last microbatch that meets
  // it there is through.
  void add_weight_versions() {
    const WeightVersions& versions = contents_.versions();
    const BoundStrategy& all = *strategy_;
    contents_.for_each_update(all, [&](OperatorId op, const OwnedUpdates& work) {
      const std::int32_t stage = contents_.stage_of(op);
      if (versions.copies(stage) == 1) return;
      for (const auto& [version, users] : last_users(contents_, stage, times_.microbatches)) {
        const TaskId update = expanded_.tasks_of(op, version * versions.every(stage)).update;
        for (std::size_t k = 0; k < work.devices.size(); ++k) {
          const Nanoseconds from = times_.timeline.start[update.index() + k];
          Nanoseconds until = from;
          for (const std::int32_t user : users) {
            strategy_ = &contents_.strategy_of(user, all);
            until = std::max(until, weights_until(op, work.devices[k], user));
          }
          const Bytes bytes = work.memory[k].weights;
          if (bytes.value != 0)
            change({work.devices[k], MemoryCategory::StashedWeights, op, bytes, {}, 0, 0}, from, until);
        }
      }
    });
    strategy_ = &all;
  }

 private:
  // Returns when all operators on the device have used the owner's weights in this microbatch.
  [[nodiscard]] Nanoseconds weights_until(OperatorId owner, DeviceId device, std::int32_t microbatch) {
    way_ = microbatch % contents_.ways();
    const std::size_t behind = behind_first(microbatch);
    Nanoseconds until = 0;
    for (const TensorId weight : contents_.backward().owned_weights(owner)) {
      for (const UseRef use : contents_.graph().consumers(weight)) {
        const std::int32_t k = (*strategy_)[use.op.index()]->shard_of_device[device.index()];
        if (k < 0) continue;
        for (const TaskId t : backward_end(use.op, k)) until = std::max(until, end(t, behind));
      }
    }
    return until;
  }

  struct Buffer {
    DeviceId device;
    MemoryCategory category;
    OperatorId op;  ///< LiveBuffer::op
    Bytes bytes;
    std::optional<Bytes> scratch_gives_up;  ///< BufferLife
    std::uint32_t starts, ends;             ///< in life_tasks_, where the starts begin, and where the ends do
  };

  void alive(DeviceId device, OperatorId op, Bytes bytes, MemoryCategory category, const LifeSpan& life,
             std::optional<Bytes> scratch_gives_up = {}) {
    if (bytes + scratch_gives_up.value_or(Bytes(0)) == Bytes(0)) return;
    Buffer& b = buffers_.emplace_back(Buffer{device, category, op, bytes, scratch_gives_up, 0, 0});
    b.starts = static_cast<std::uint32_t>(life_tasks_.size());
    life_tasks_.insert(life_tasks_.end(), life.starts.begin(), life.starts.end());
    b.ends = static_cast<std::uint32_t>(life_tasks_.size());
    life_tasks_.insert(life_tasks_.end(), life.ends.begin(), life.ends.end());
  }

  // In all microbatches that go this way. Forgets the buffers.
  void add_changes() {
    std::vector<std::size_t> of_device(changes_.size(), 0);
    for (const Buffer& b : buffers_) of_device[b.device.index()] += 2;
    const std::int32_t ways = contents_.ways(), microbatches = (times_.microbatches - way_ + ways - 1) / ways;
    for (std::size_t d = 0; d < of_device.size(); ++d)
      changes_[d].reserve(changes_[d].size() + of_device[d] * static_cast<std::size_t>(microbatches));
    buffers_.push_back(
        {{}, {}, {}, {}, {}, static_cast<std::uint32_t>(life_tasks_.size()), 0});  // closes the last
    for (std::int32_t m = way_; m < times_.microbatches; m += ways) add_changes(m);
    buffers_.clear();
    life_tasks_.clear();
  }

  void add_changes(std::int32_t microbatch) {
    const std::size_t behind = behind_first(microbatch);
    for (std::size_t i = 0; i + 1 < buffers_.size(); ++i) {
      const Buffer& b = buffers_[i];
      Nanoseconds from = INT64_MAX;
      for (std::size_t t = b.starts; t < b.ends; ++t) from = std::min(from, start(life_tasks_[t], behind));
      Nanoseconds until = from;
      for (std::size_t t = b.ends; t < buffers_[i + 1].starts; ++t)
        until = std::max(until, end(life_tasks_[t], behind));
      change(b, from, until);
    }
  }

  void change(const Buffer& b, Nanoseconds from, Nanoseconds until) {
    if (!watch_.devices.empty()) {
      const auto watched = std::ranges::find(watch_.devices, b.device);
      if (watched == watch_.devices.end()) return;
      if (!watch_.when) {
        return lives_[static_cast<std::size_t>(watched - watch_.devices.begin())].push_back(
            {from, until, b.bytes, b.scratch_gives_up, b.category});
      }
      // At equal times memory is freed first.
      if (from <= *watch_.when && until > *watch_.when) add_live(live_, b.op, b.category, b.bytes);
      return;
    }
    changes_[b.device.index()].emplace_back(from, b.bytes.value, b.category);
    changes_[b.device.index()].emplace_back(until, -b.bytes.value, b.category);
  }

  [[nodiscard]] std::size_t behind_first(std::int32_t microbatch) const {
    return times_.behind_first(microbatch, contents_.ways());
  }
  [[nodiscard]] Nanoseconds start(TaskId t, std::size_t behind) const {
    return times_.timeline.start[behind + t.index()];
  }
  [[nodiscard]] Nanoseconds end(TaskId t, std::size_t behind) const {
    return times_.timeline.end[behind + t.index()];
  }

  // The outputs of an operator die one by one, each after its last reader.
  void own_outputs(OperatorId op) {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const bool again = contents_.recomputation().again(op),
               stored = contents_.recomputation().stores_results(op);
    for (const TensorUse& use : b.op->uses) {
      if (use.role != Role::Output) continue;
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(b.memory.size()); ++k) {
        TaskList& until = output_until_[op.index()].emplace_back(forward_end(op, k));
        if (again) again_until_[op.index()].push_back(forward_end(op, k, true));
        if (use.saved || stored) append(again ? again_until_[op.index()].back() : until, backward_end(op, k));
      }
    }
  }

  // The place in output_until_ of what a shard makes.
  static std::size_t place_of(const BoundOperator& maker, std::int32_t use, std::int32_t shard) {
    const auto before = std::span(maker.op->uses).first(static_cast<std::size_t>(use));
    const auto outputs = std::ranges::count(before, Role::Output, &TensorUse::role);
    return static_cast<std::size_t>(outputs) * maker.memory.size() + static_cast<std::size_t>(shard);
  }

  void record_outputs(OperatorId op) {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const OperatorTasks& tasks = tasks_of(op);
    const bool again = tasks.recompute.valid();
    for (std::size_t k = 0; k < b.memory.size(); ++k) {
      const auto shard = static_cast<std::int32_t>(k);
      const DeviceId d = b.config.devices[k];
      const TaskList back = backward_end(op, shard);
      const std::vector<Bytes> outputs = bytes_of_outputs(contents_.graph(), b, k);
      const auto record = [&](TaskId begin, const std::vector<TaskList>& until, const TaskList& saved_until) {
        for (std::size_t i = 0; i < outputs.size(); ++i)
          alive(d, op, outputs[i], MemoryCategory::Activations, {{begin}, until[i * b.memory.size() + k]});
        alive(d, op, b.memory[k].saved, MemoryCategory::Activations, {{begin}, saved_until});
      };
      record(task_at(tasks.forward, shard), output_until_[op.index()], again ? forward_end(op, shard) : back);
      if (again) record(task_at(tasks.recompute, shard), again_until_[op.index()], back);
      record_in_passes(op, b, tasks, shard);
    }
  }

  // What is in use while a pass runs: blocks that arrive and leave in a ring, and its workspace; and what one
  // backward pass leaves for the other.
  void record_in_passes(OperatorId op, const BoundOperator& b, const OperatorTasks& tasks,
                        std::int32_t shard) {
    const ShardMemory& memory = b.memory[static_cast<std::size_t>(shard)];
    const std::size_t shards = b.config.devices.size();
    const DeviceId device = b.config.devices[static_cast<std::size_t>(shard)];
    const auto record = [&](TaskId first, const PassWork& work, Bytes blocks, const Scratch& scratch) {
      if (!first.valid()) return;
      const LifeSpan life{{task(first, work, 0, shards, shard)},
                          {task(first, work, SIZE_MAX, shards, shard)}};
      alive(device, op, blocks, MemoryCategory::Transfers, life);
      alive(device, op, memory.unpacked, MemoryCategory::Activations, life);
      for (std::int64_t left = scratch.count; left > 0; --left) {
        const Bytes given_up = left == 1 ? scratch.given_up : Bytes(0);
        alive(device, op, scratch.tensor - given_up, MemoryCategory::Activations, life, given_up);
      }
    };
    record(tasks.forward, b.forward, memory.forward_blocks, memory.forward_scratch);
    record(tasks.recompute, b.forward, memory.forward_blocks, memory.forward_scratch);
    record(tasks.backward_input, b.backward_input, memory.backward_blocks, memory.backward_scratch);
    record(tasks.backward_weight, b.backward_weight, Bytes(0), memory.backward_scratch);
    if (copies_gradient(op))
      alive(device, op, memory.gradient_copy, MemoryCategory::ActivationGradients,
            {{task(tasks.backward_input, b.backward_input, 0, shards, shard)},
             {task(tasks.backward_weight, b.backward_weight, SIZE_MAX, shards, shard)}});
  }

  void forward(const Wiring& w) {
    const UseRef source = w.sources.front();
    const BoundOperator& producer = *(*strategy_)[source.op.index()];
    const bool made_again =
        w.kind == TaskKind::RecomputeTransfer && contents_.recomputation().again(source.op);
    std::vector<TaskList>& until = (made_again ? again_until_ : output_until_)[source.op.index()];
    const auto keep = [&](DeviceId d, const TaskList& readers) {
      const std::int32_t k = producer.shard_of_device[d.index()];
      if (k >= 0) append(until[place_of(producer, source.use, k)], readers);
    };
    const bool pieces = std::ranges::all_of(w.destinations, [&](UseRef c) { return copied_in_pieces(c, w); });
    for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
      const CommunicationTask& t = w.plan->tasks[i];
      for (const DeviceId d : contributors(t.kind, t.group)) {
        if (!pieces || !reads_on(w, d)) keep(d, {w.task(i)});
      }
    }
    // What is received is whole: the device's own part is copied to it when it is first read.
    for (const DeviceId d : w.plan->local) {
      const auto reads_it = [&](UseRef c) { return !copied_in_pieces(c, w); };
      keep(d, w.plan->receives(d) ? first_read_until(w, d) : consumers_until(w, d, reads_it));
    }
    for (const auto& [d, bytes] : w.plan->received) {
      alive(d, source.op, bytes, MemoryCategory::Transfers,
            {first_arrival(w, d), consumers_until(w, d, [](UseRef) { return true; })});
    }
    for (const InputCopy& copy : input_copies(w))
      alive(copy.device, source.op, copy.bytes, MemoryCategory::Activations, copy.life);
  }

  void backward(const Wiring& w) {
    const OperatorId producer = w.destinations.front().op;
    const auto& shard_of = (*strategy_)[producer.index()]->shard_of_device;
    for (const auto& [d, bytes] : w.plan->received) {
      alive(d, producer, bytes, MemoryCategory::ActivationGradients,
            {first_arrival(w, d), gradient_read_end(producer, shard_of[d.index()])});
    }
    visit_terms(w, [&](const std::vector<UseRef>& consumers) {
      gradient_buffers(w, consumers, contents_.graph().tensor(w.tensor).type,
                       MemoryCategory::ActivationGradients);
    });
  }

  // Gradients of weights live until they are reduced to the parts that devices keep.
  void made_gradients(const Wiring& w) {
    visit_terms(w, [&](const std::vector<UseRef>& consumers) {
      gradient_buffers(w, consumers, contents_.options().gradient_type, MemoryCategory::Gradients);
    });
  }

  // Copies of what a device keeps anyway are made when they are first read.
  void gathered(const Wiring& w) {
    for (const auto& [d, bytes] : gathered_copies(expanded_, w)) {
      LifeSpan life{first_arrival(w, d), {}};
      for (const UseRef use : w.destinations) {
        const std::int32_t k = (*strategy_)[use.op.index()]->shard_of_device[d.index()];
        if (k < 0) continue;
        life.cover(first_read(use.op, k, w.read_in), forward_end(use.op, k));
        if (w.read_in != ReadIn::Forward) append(life.ends, backward_end(use.op, k));
      }
      alive(d, w.destinations.front().op, bytes, MemoryCategory::GatheredWeights, life);
    }
  }

  // Consumers of one term add into the same buffer: it lives from the first one's start until it was sent, or
  // used there by the producer.
  void gradient_buffers(const Wiring& w, const std::vector<UseRef>& consumers, DataType type,
                        MemoryCategory category) {
    const BoundOperator& one = *(*strategy_)[consumers.front().op.index()];
    const Layout& made =
        contents_.layouts()[one.gradient_layout[static_cast<std::size_t>(consumers.front().use)]];
    const std::int64_t element = bytes_per_element(type);
    const std::int32_t experts = contents_.loads().dimension(w.tensor);
    const double load = experts < 0 ? 1 : contents_.loads().of(experts, made);
    const OperatorId made_for = w.destinations.empty() ? consumers.front().op : w.destinations.front().op;
    for (const DeviceId d : one.config.devices) {
      for (const LayoutEntry& e : made.entries_on(d))
        alive(d, made_for, Bytes(loaded(made.box(e).elements() * element, load)), category,
              gradient_life(w, consumers, d));
    }
  }

  Watch watch_;  // where this is asked for, and no changes
  LiveBytes live_;
  std::vector<std::vector<BufferLife>> lives_;
  TaskTimes times_;
  MemoryChanges changes_;                            // per device
  std::vector<std::vector<TaskList>> output_until_;  // per operator: of its outputs, by shard, of the way
  std::vector<std::vector<TaskList>> again_until_;   // the same of the second run, where there is one
  std::vector<Buffer> buffers_;                      // of the way
  std::vector<TaskId> life_tasks_;                   // by buffer: those whose starts, and whose ends count
};

}  // namespace

std::vector<std::pair<DeviceId, Bytes>> gathered_copies(const ExpandedStrategy& expanded,
                                                        const Wiring& gather) {
  const PlanContents& contents = expanded.contents();
  const DataType type = contents.graph().tensor(gather.tensor).type;
  if (!contents.copies_to_use(gather.tensor)) return gather.plan->received;
  std::vector<std::pair<DeviceId, Bytes>> copies = gather.plan->received;
  const Layout& target = contents.layouts()[gather.plan->target];
  for (const DeviceId d : gather.plan->local) {
    if (gather.plan->receives(d)) continue;
    copies.emplace_back(d, Bytes(target.elements_on(d) * bytes_per_element(type)));
  }
  return copies;
}

namespace {

void add_in_steps(BufferLives& lives, const ExpandedStrategy& expanded, const TaskTimes& times) {
  const PlanContents& contents = expanded.contents();
  if (contents.versions().several()) lives.add_weight_versions();
  for (const RuntimeBuffer& b : step_buffers(expanded, times)) lives.add(b);
  for (const RuntimeBuffer& b : runtime_buffers(expanded, times)) lives.add(b);
}

std::vector<LiveBuffer> listed(const LiveBytes& live) {
  std::vector<LiveBuffer> buffers;
  for (const auto& [key, buffer] : live) {
    if (buffer.bytes.value != 0) buffers.push_back(buffer);
  }
  return buffers;
}

// Adds what is on the device all the time.
void add_permanent(const ExpandedStrategy& expanded, DeviceId device, LiveBytes& live) {
  const PlanContents& contents = expanded.contents();
  contents.for_each_update(expanded.strategy(), [&](OperatorId op, const OwnedUpdates& work) {
    for (std::size_t k = 0; k < work.holders.size(); ++k) {
      if (work.holders[k] != device) continue;
      add_live(live, op, MemoryCategory::Weights, work.memory[k].weights);
      add_live(live, op, MemoryCategory::Gradients, work.memory[k].gradients);
      add_live(live, op, MemoryCategory::OptimizerState, work.memory[k].optimizer_state);
    }
  });
  if (contents.gradient_bucket_elements() > 0)
    add_live(live, {}, MemoryCategory::Gradients,
             contents.gradient_buckets(expanded.strategy())[device.index()]);
  for (const TensorId w : contents.backward().frozen_weights()) {
    const Layout& home = contents.layouts()[contents.state_of(w, expanded.strategy())];
    for (const LayoutEntry& e : home.entries_on(device))
      add_live(live, contents.graph().consumers(w).front().op, MemoryCategory::Weights,
               contents.graph().tensor(w).stored(home.box(e).elements()));
  }
}

}  // namespace

std::vector<LiveBuffer> live_buffers(const ExpandedStrategy& expanded, const TaskTimes& times,
                                     DeviceId device, Nanoseconds when) {
  BufferLives lives(expanded, times, {std::span(&device, 1), when});
  add_in_steps(lives, expanded, times);
  LiveBytes all = lives.live();
  add_permanent(expanded, device, all);
  return listed(all);
}

std::vector<LiveBuffer> permanent_buffers(const ExpandedStrategy& expanded, DeviceId device) {
  LiveBytes all;
  add_permanent(expanded, device, all);
  return listed(all);
}

std::vector<std::vector<BufferLife>> buffer_lives(const ExpandedStrategy& expanded, const TaskTimes& times,
                                                  std::span<const DeviceId> devices) {
  if (devices.empty()) return {};
  BufferLives lives(expanded, times, {devices, std::nullopt});
  add_in_steps(lives, expanded, times);
  return std::move(lives.lives());
}

MemoryChanges memory_changes(const ExpandedStrategy& expanded, const TaskTimes& times) {
  BufferLives lives(expanded, times);
  add_in_steps(lives, expanded, times);
  return std::move(lives.changes());
}

}  // namespace pipesim
