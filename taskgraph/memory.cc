#include "taskgraph/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>

namespace pipesim {

std::string_view name_of(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> names{"weights",          "gradients",
                                                                  "optimizer state",  "activations",
                                                                  "transfer buffers", "activation gradients",
                                                                  "stashed weights"};
  return names[static_cast<std::size_t>(category)];
}

namespace {

/// A buffer's begin or end, in two words, since there are many to sort.
class Change {
 public:
  Change(Nanoseconds at, std::int64_t more, MemoryCategory category)
      : time(at), bytes_and_category_(more * kCategories + static_cast<std::int64_t>(category)) {}
  // Freed before allocated at equal times: negative comes first.
  auto operator<=>(const Change&) const = default;
  [[nodiscard]] std::int64_t bytes() const { return bytes_and_category_ >> kCategoryBits; }
  [[nodiscard]] std::size_t category() const {
    return static_cast<std::size_t>(bytes_and_category_ & (kCategories - 1));
  }
  Nanoseconds time;

 private:
  static constexpr int kCategoryBits = 3;
  static constexpr std::int64_t kCategories = 1 << kCategoryBits;
  static_assert(kMemoryCategories <= kCategories);
  std::int64_t bytes_and_category_;
};

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
  BufferLives(TaskGraphBuilder& builder, const BoundStrategy& strategy, const TaskTimes& times)
      : builder_(builder),
        strategy_(&strategy),
        times_(times),
        changes_(builder.costs().topology().num_devices()),
        output_until_(strategy.size()),
        again_until_(strategy.size()) {
    const std::span<const Wiring> wirings = builder.wirings();  // those of a microbatch stand together
    for (; microbatch_ < times.microbatches; ++microbatch_) {
      strategy_ = &builder.strategy_of(microbatch_, strategy);
      for (std::vector<Nanoseconds>& until : output_until_) until.clear();
      for (std::vector<Nanoseconds>& until : again_until_) until.clear();
      for (std::size_t i = 0; i < strategy.size(); ++i) own_outputs(OperatorId(i));
      for (const Wiring& w : wirings) {
        // Others are alike.
        if (w.microbatch >= builder.ways()) break;
        if (w.microbatch != way()) continue;
        if (moves_activations(w.kind)) forward(w);
        if (w.kind == TaskKind::BackwardTransfer) backward(w);
      }
      for (std::size_t i = 0; i < strategy.size(); ++i) record_outputs(OperatorId(i));
    }
    strategy_ = &strategy;
  }

  [[nodiscard]] std::vector<std::vector<Change>>& changes() { return changes_; }

  // A version of weights is kept from the beginning of their next change until the last microbatch that meets
  // it there is through.
  void add_weight_versions(TaskGraphBuilder& builder) {
    const WeightVersions& versions = builder.versions();
    const BoundStrategy& all = *strategy_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const OperatorId op(i);
      const std::int32_t stage = builder.stage_of(op);
      if (builder.backward().owned_weights(op).empty() || versions.copies(stage) == 1) continue;
      const OwnedUpdates& work = builder.update_work(op, all);
      for (const auto& [version, users] : last_users(stage)) {
        const TaskId update = builder.tasks_of(op, version * versions.every(stage)).update;
        for (std::size_t k = 0; k < work.devices.size(); ++k) {
          const Nanoseconds from = times_.timeline.start[update.index() + k];
          Nanoseconds until = from;
          for (const std::int32_t user : users) {
            strategy_ = &builder.strategy_of(user, all);
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
    const WeightVersions& versions = builder_.versions();
    const std::int32_t replicas = builder_.options().pipeline->replicas_of(stage);
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
    for (const TensorId weight : builder_.backward().owned_weights(owner)) {
      for (const UseRef use : builder_.graph().consumers(weight)) {
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
  [[nodiscard]] std::int32_t way() const { return microbatch_ % builder_.ways(); }
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op) const { return builder_.tasks_of(op, way()); }

  // In this microbatch, of a task of that.
  [[nodiscard]] std::size_t place(TaskId t) const {
    return static_cast<std::size_t>(microbatch_ / times_.block.microbatches) * times_.block.tasks +
           (builder_.ways() > 1 ? 0 : static_cast<std::size_t>(microbatch_ % times_.block.microbatches)) *
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

  // Of the first run or the second.
  [[nodiscard]] Nanoseconds forward_end(OperatorId op, std::int32_t shard, bool again = false) const {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const OperatorTasks& tasks = tasks_of(op);
    return end(
        task(again ? tasks.recompute : tasks.forward, b.forward, SIZE_MAX, b.config.devices.size(), shard));
  }

  // A consumer reads its input in forward, when that is run again, and in backward if it saves it: all of
  // this where `kind` brings it, except that what is made again is not read in the first run, nor what is
  // made first later on.
  [[nodiscard]] Nanoseconds read_until(UseRef use, std::int32_t shard, TaskKind kind) const {
    const Recomputation& recomputation = builder_.recomputation();
    const bool first = kind == TaskKind::ForwardTransfer;
    const Nanoseconds forward = first ? forward_end(use.op, shard) : 0;
    if (first && recomputation.reads_again(use)) return forward;
    const bool saved = builder_.graph().op(use.op).uses[static_cast<std::size_t>(use.use)].saved;
    return std::max({forward, recomputation.again(use.op) ? forward_end(use.op, shard, true) : 0,
                     saved ? backward_end(use.op, shard) : 0});
  }

  void own_outputs(OperatorId op) {
    const BoundOperator& b = *(*strategy_)[op.index()];
    const std::vector<TensorUse>& uses = b.op->uses;
    const bool saved = std::any_of(uses.begin(), uses.end(),
                                   [](const TensorUse& u) { return u.role == Role::Output && u.saved; });
    const bool again = builder_.recomputation().again(op);
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
    }
  }

  void forward(const Wiring& w) {
    const UseRef source = w.sources.front();
    const BoundOperator& producer = *(*strategy_)[source.op.index()];
    std::vector<Nanoseconds>& until =
        (w.kind == TaskKind::ForwardTransfer ? output_until_ : again_until_)[source.op.index()];
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
      if (k >= 0) until = std::max(until, read_until(c, k, w.kind));
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
    for (std::size_t s = 0; s < w.sources.size(); ++s) {
      const auto first = std::find(w.source_terms.begin(), w.source_terms.end(), w.source_terms[s]);
      if (first == w.source_terms.begin() + static_cast<std::ptrdiff_t>(s))
        gradient_buffers(w, w.source_terms[s], producer);
    }
  }

  // Consumers of one term add into the same buffer: it lives from the first one's start until it was sent, or
  // used there by the producer.
  void gradient_buffers(const Wiring& w, std::int32_t term, OperatorId producer) {
    std::vector<UseRef> consumers;
    for (std::size_t s = 0; s < w.sources.size(); ++s) {
      if (w.source_terms[s] == term) consumers.push_back(w.sources[s]);
    }
    const BoundOperator& one = *(*strategy_)[consumers.front().op.index()];
    const Layout& made =
        builder_.layouts()[one.gradient_layout[static_cast<std::size_t>(consumers.front().use)]];
    const std::int64_t element = bytes_per_element(builder_.graph().tensor(w.tensor).type);
    for (const DeviceId d : one.config.devices) {
      for (const LayoutEntry& e : made.entries_on(d)) {
        alive(d, Bytes(made.box(e).elements() * element), MemoryCategory::ActivationGradients,
              gradient_life(w, consumers, d, producer));
      }
    }
  }

  [[nodiscard]] Span gradient_life(const Wiring& w, const std::vector<UseRef>& consumers, DeviceId device,
                                   OperatorId producer) const {
    Span life{INT64_MAX, 0};
    for (const UseRef c : consumers) {
      const BoundOperator& consumer = *(*strategy_)[c.op.index()];
      const std::int32_t k = consumer.shard_of_device[device.index()];
      const TaskId first = tasks_of(c.op).backward_input;
      const std::size_t shards = consumer.config.devices.size();
      life.cover(start(task(first, consumer.backward_input, 0, shards, k)),
                 end(task(first, consumer.backward_input, SIZE_MAX, shards, k)));
    }
    for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
      const auto from = contributors(w.plan->tasks[i].kind, w.plan->tasks[i].group);
      if (std::find(from.begin(), from.end(), device) != from.end()) {
        life.cover(life.from, end(TaskId(w.first_task.index() + i)));
      }
    }
    const std::int32_t p = (*strategy_)[producer.index()]->shard_of_device[device.index()];
    const auto& local = w.plan->local;
    if (p >= 0 && std::binary_search(local.begin(), local.end(), device))
      life.cover(life.from, backward_end(producer, p));
    return life;
  }

  TaskGraphBuilder& builder_;
  const BoundStrategy* strategy_;  // of the microbatch
  TaskTimes times_;
  std::int32_t microbatch_ = 0;                         // whose buffers are looked at
  std::vector<std::vector<Change>> changes_;            // per device
  std::vector<std::vector<Nanoseconds>> output_until_;  // per operator and shard, of the microbatch
  std::vector<std::vector<Nanoseconds>> again_until_;   // the same of the second run, where there is one
};

DeviceMemory peak_of(std::vector<Change>& changes, const WeightMemory& permanent) {
  std::sort(changes.begin(), changes.end());
  std::array<Bytes, kMemoryCategories> now{permanent.weights, permanent.gradients, permanent.optimizer_state};
  Bytes sum = permanent.weights + permanent.gradients + permanent.optimizer_state;
  DeviceMemory memory{sum, 0, now};
  for (const Change& c : changes) {
    now[c.category()] += Bytes(c.bytes());
    sum += Bytes(c.bytes());
    if (sum > memory.peak) memory = {sum, c.time, now};
  }
  return memory;
}

}  // namespace

namespace {

void add_all_versions(TaskGraphBuilder& builder, const BoundStrategy& strategy, std::vector<Bytes>& bytes) {
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const OperatorId op(i);
    if (builder.backward().owned_weights(op).empty()) continue;
    const OwnedUpdates& work = builder.update_work(op, strategy);
    const std::int64_t older = builder.versions().copies(builder.stage_of(op)) - 1;
    for (std::size_t k = 0; k < work.devices.size(); ++k)
      bytes[work.devices[k].index()] += older * work.memory[k].weights;
  }
}

}  // namespace

std::vector<Bytes> allocated_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy) {
  std::vector<Bytes> bytes(builder.costs().topology().num_devices());
  const std::vector<WeightMemory> permanent = builder.permanent_memory(strategy);
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    bytes[d] = permanent[d].weights + permanent[d].gradients + permanent[d].optimizer_state;
  }
  const std::int64_t microbatches = std::max(builder.options().microbatches, builder.built_microbatches());
  const std::int32_t ways = builder.ways();
  const auto of_way = [&](std::int32_t way) { return (microbatches - way + ways - 1) / ways; };
  for (std::int32_t way = 0; way < ways; ++way) {
    const BoundStrategy& used = builder.strategy_of(way, strategy);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const BoundOperator& b = *used[i];
      const std::int64_t runs = builder.recomputation().again(OperatorId(i)) ? 2 : 1;
      for (std::size_t k = 0; k < b.memory.size(); ++k) {
        const ShardMemory& m = b.memory[k];
        bytes[b.config.devices[k].index()] +=
            of_way(way) * (runs * (m.outputs + m.saved) + m.input_gradients);
      }
    }
  }
  if (builder.versions().several()) add_all_versions(builder, strategy, bytes);
  for (const Wiring& w : builder.wirings()) {
    // Others are alike; gradients of weights are reduced in place.
    if (w.microbatch < 0 || w.microbatch >= ways || w.kind == TaskKind::GradientSync) continue;
    for (const auto& [device, received] : w.plan->received)
      bytes[device.index()] += of_way(w.microbatch) * received;
  }
  return bytes;
}

std::vector<DeviceMemory> peak_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                      const Timeline& timeline) {
  const std::vector<WeightMemory> permanent = builder.permanent_memory(strategy);
  BufferLives lives(
      builder, strategy,
      {timeline, builder.built_microbatches(), builder.tasks_of_one_microbatch(), builder.block()});
  if (builder.versions().several()) lives.add_weight_versions(builder);
  std::vector<DeviceMemory> peaks;
  for (std::size_t d = 0; d < permanent.size(); ++d)
    peaks.push_back(peak_of(lives.changes()[d], permanent[d]));
  return peaks;
}

namespace {

// By device: what the microbatches that come in addition keep between their ways forward and back.
std::vector<std::vector<Change>> kept_in_addition(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                                  const TaskTimes& few, const SteadyState& steady) {
  const SteadyWindow &up = steady.windows.front(), &down = steady.windows.back();
  BufferLives of_window(builder, strategy, {few.timeline, up.microbatches, few.of_one});
  std::vector<std::vector<Change>> kept;
  for (const std::vector<Change>& changes : of_window.changes()) {
    std::array<std::int64_t, kMemoryCategories> bytes{};
    for (const Change& c : changes) {
      if (c.time <= up.end) bytes[c.category()] += steady.repeats * c.bytes();
    }
    std::vector<Change>& all = kept.emplace_back();
    for (std::size_t c = 0; c < kMemoryCategories; ++c) {
      if (bytes[c] == 0) continue;
      all.push_back({up.begin, bytes[c], static_cast<MemoryCategory>(c)});
      all.push_back({down.end, -bytes[c], static_cast<MemoryCategory>(c)});
    }
  }
  return kept;
}

}  // namespace

// With one window, what a device holds at a moment of the few's timeline it holds whenever the window comes
// again. With two, microbatches that come in addition keep their part all the while that the numbers of
// others are larger by theirs, which is where a device holds most.
std::vector<DeviceMemory> peak_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                      const TaskTimes& few, const SteadyState& steady) {
  const std::vector<WeightMemory> permanent = builder.permanent_memory(strategy);
  BufferLives lives(builder, strategy, few);
  std::vector<std::vector<Change>> kept(permanent.size());
  if (steady.windows.size() > 1) kept = kept_in_addition(builder, strategy, few, steady);
  std::vector<DeviceMemory> peaks;
  for (std::size_t d = 0; d < permanent.size(); ++d) {
    std::vector<Change>& changes = lives.changes()[d];
    changes.insert(changes.end(), kept[d].begin(), kept[d].end());
    DeviceMemory& peak = peaks.emplace_back(peak_of(changes, permanent[d]));
    const SteadyWindow first = steady.windows.empty() ? SteadyWindow() : steady.windows.front();
    const bool grows = !kept[d].empty() && peak.when >= first.begin && peak.when < first.end;
    peak.when = grows ? peak.when + steady.repeats * first.length() : steady.time_of(peak.when);
  }
  return peaks;
}

std::optional<std::string> memory_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  std::string text;
  std::size_t more = 0;
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    const Bytes usable = topology.usable_memory(DeviceId(d));
    if (peaks[d].peak <= usable) continue;
    if (!text.empty()) {
      ++more;
    } else {
      const Bytes memory = topology.kind(DeviceId(d)).memory;
      text = fmt::format("{} needs {}, has {}", topology.device(DeviceId(d)).name, pretty(peaks[d].peak),
                         pretty(memory));
      if (usable < memory) text += fmt::format(" less a margin of {}", pretty(memory - usable));
    }
  }
  if (text.empty()) return std::nullopt;
  return more == 0 ? text : fmt::format("{} (and {} more device{})", text, more, more == 1 ? "" : "s");
}

Bytes memory_overflow(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  Bytes sum;
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    sum += std::max(Bytes(0), peaks[d].peak - topology.usable_memory(DeviceId(d)));
  }
  return sum;
}

}  // namespace pipesim
