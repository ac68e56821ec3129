#include "taskgraph/memory/runtime_buffers.h"

#include <algorithm>
#include <span>

namespace pipesim {
namespace {

// A gradient that a device takes part in reducing.
struct ReducedGradient {
  Nanoseconds from = 0, until = 0;
  std::int64_t elements = 0, bytes = 0;
};

// What a device reduces at the end of a microbatch, or of the iteration.
struct ReducedByDevice {
  std::vector<ReducedGradient> gradients;
  std::int64_t part = 0;  // elements of the state that it keeps of these weights
};

bool copies_buckets(const PlanContents& contents) {
  return contents.costs().runtime().copies_buckets && contents.gradient_bucket_elements() > 0 &&
         !contents.versions().several();
}

// Whether the wiring reduces gradients in buckets, the first ones of their way.
bool reduces_in_buckets(const PlanContents& contents, const Wiring& w) {
  if (w.kind != TaskKind::GradientSync || w.plan->tasks.empty()) return false;
  const bool each = contents.options().state_sharding.each_microbatch();
  return each ? w.microbatch >= 0 && w.microbatch < contents.ways() : w.microbatch < 0;
}

// By device: elements of the gradient before it is reduced.
std::vector<std::int64_t> elements_before(const ExpandedStrategy& expanded, const Wiring& w) {
  const PlanContents& contents = expanded.contents();
  std::vector<std::int64_t> elements(contents.costs().topology().num_devices(), 0);
  for (const LayoutId term : expanded.terms_of(w)) {
    const Layout& made = contents.layouts()[term];
    for (const LayoutEntry& e : made.entries()) elements[e.device.index()] += made.box(e).elements();
  }
  return elements;
}

void add_reduced(const ExpandedStrategy& expanded, const TaskTimes& times, const Wiring& w,
                 std::size_t behind, std::vector<ReducedByDevice>& reduced) {
  const PlanContents& contents = expanded.contents();
  const std::vector<std::int64_t> elements = elements_before(expanded, w);
  const Layout& state = contents.layouts()[contents.state_of(w.tensor, expanded.strategy())];
  const std::int64_t bytes = bytes_per_element(contents.graph().tensor(w.tensor).type);
  std::vector<ReducedGradient> gradients(elements.size(), {INT64_MAX, 0, 0, bytes});
  for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
    const std::size_t task = behind + w.task(i).index();
    for (const DeviceId d : contributors(w.plan->tasks[i].kind, w.plan->tasks[i].group)) {
      ReducedGradient& gradient = gradients[d.index()];
      gradient.from = std::min(gradient.from, times.timeline.start[task]);
      gradient.until = std::max(gradient.until, times.timeline.end[task]);
    }
  }
  for (std::size_t d = 0; d < elements.size(); ++d) {
    if (elements[d] == 0 || gradients[d].from == INT64_MAX) continue;
    gradients[d].elements = elements[d];
    reduced[d].gradients.push_back(gradients[d]);
    reduced[d].part += state.elements_on(DeviceId(d));
  }
}

// Fills buckets of so many elements, and lists the copies.
void add_copies(ReducedByDevice& reduced, std::int64_t bucket, bool has_parts_of_all, DeviceId device,
                std::vector<RuntimeBuffer>& copies) {
  std::ranges::stable_sort(reduced.gradients, {}, &ReducedGradient::from);
  const auto of_several = [&](std::int64_t begin, std::int64_t end, std::size_t gradients) {
    if (has_parts_of_all) return gradients > 1;
    return reduced.part > 0 && begin / reduced.part != (end - 1) / reduced.part;
  };
  std::int64_t begin = 0, end = 0;  // elements before the bucket, and with what is in it
  Bytes bytes;
  std::size_t held = 0;
  for (std::size_t g = 0; g < reduced.gradients.size(); ++g) {
    const ReducedGradient& gradient = reduced.gradients[g];
    end += gradient.elements, bytes += Bytes(gradient.elements * gradient.bytes), ++held;
    const bool last = g + 1 == reduced.gradients.size();
    if (!last && end + reduced.gradients[g + 1].elements - begin <= bucket) continue;
    if (of_several(begin, end, held))
      copies.push_back({device, MemoryCategory::Gradients, {}, bytes, gradient.from, gradient.until});
    begin = end, bytes = Bytes(0), held = 0;
  }
}

void add_bucket_copies(const ExpandedStrategy& expanded, const TaskTimes& times,
                       std::vector<RuntimeBuffer>& copies) {
  const PlanContents& contents = expanded.contents();
  const StateSharding& sharding = contents.options().state_sharding;
  const std::int32_t rounds = sharding.each_microbatch() ? times.microbatches : 1;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::int32_t way = sharding.each_microbatch() ? round % contents.ways() : -1;
    const std::size_t behind = way < 0 ? 0 : times.behind_first(round, contents.ways());
    std::vector<ReducedByDevice> reduced(contents.costs().topology().num_devices());
    for (const Wiring& w : expanded.wirings()) {
      if (w.microbatch == way && reduces_in_buckets(contents, w))
        add_reduced(expanded, times, w, behind, reduced);
    }
    for (std::size_t d = 0; d < reduced.size(); ++d)
      add_copies(reduced[d], contents.costs().runtime().bucket, sharding.kind == StateSharding::Kind::Weights,
                 DeviceId(d), copies);
  }
}

// Those of the weights that an operator owns, on one of their holders.
Bytes own_gradients(const OwnedUpdates& work, std::size_t holder) {
  return Bytes(work.elements[holder] * bytes_per_element(DataType::BFloat16));
}

// The begin of the first pass on the device that makes a gradient of a weight that the operator owns.
Nanoseconds first_gradient(const ExpandedStrategy& expanded, const TaskTimes& times, OperatorId owner,
                           DeviceId device) {
  const PlanContents& contents = expanded.contents();
  Nanoseconds first = INT64_MAX;
  for (std::int32_t way = 0; way < std::min(contents.ways(), times.microbatches); ++way) {
    const BoundStrategy& strategy = contents.strategy_of(way, expanded.strategy());
    for (const TensorId weight : contents.backward().owned_weights(owner)) {
      for (const UseRef maker : contents.backward().gradient_makers(weight)) {
        const std::int32_t k = strategy[maker.op.index()]->shard_of_device[device.index()];
        if (k < 0) continue;
        const OperatorTasks& tasks = expanded.tasks_of(maker.op, way);
        const TaskId pass = tasks.backward_weight.valid() ? tasks.backward_weight : tasks.backward_input;
        first = std::min(first, times.timeline.start[pass.index() + static_cast<std::size_t>(k)]);
      }
    }
  }
  return first;
}

void add_own_gradients(const ExpandedStrategy& expanded, const TaskTimes& times,
                       std::vector<RuntimeBuffer>& buffers) {
  const PlanContents& contents = expanded.contents();
  std::vector<Nanoseconds> updated(contents.costs().topology().num_devices(), 0);
  contents.for_each_update(expanded.strategy(), [&](OperatorId op, const OwnedUpdates& work) {
    for (std::size_t k = 0; k < work.devices.size(); ++k) {
      Nanoseconds& end = updated[work.devices[k].index()];
      end = std::max(end, times.timeline.end[expanded.tasks_of(op, 0).update.index() + k]);
    }
  });
  contents.for_each_update(expanded.strategy(), [&](OperatorId op, const OwnedUpdates& work) {
    for (std::size_t k = 0; k < work.holders.size(); ++k) {
      const DeviceId device = work.holders[k];
      const Nanoseconds from = first_gradient(expanded, times, op, device);
      if (from < updated[device.index()])
        buffers.push_back(
            {device, MemoryCategory::Gradients, op, own_gradients(work, k), from, updated[device.index()]});
    }
  });
}

}  // namespace

std::vector<RuntimeBuffer> runtime_buffers(const ExpandedStrategy& expanded, const TaskTimes& times) {
  std::vector<RuntimeBuffer> buffers;
  if (expanded.contents().keeps_own_gradients()) add_own_gradients(expanded, times, buffers);
  if (copies_buckets(expanded.contents())) add_bucket_copies(expanded, times, buffers);
  return buffers;
}

std::vector<Bytes> released_in_steps(const PlanContents& contents, const BoundStrategy& strategy) {
  const bool kept = contents.options().state_sharding.kind == StateSharding::Kind::Weights;
  if (kept || contents.gradient_bucket_elements() == 0 || contents.versions().several())
    return std::vector<Bytes>(contents.costs().topology().num_devices());
  return contents.gradient_buckets(strategy);
}

std::vector<Bytes> most_of_runtime_buffers(const ExpandedStrategy& expanded) {
  const PlanContents& contents = expanded.contents();
  std::vector<Bytes> most(contents.costs().topology().num_devices());
  if (contents.keeps_own_gradients()) {
    contents.for_each_update(expanded.strategy(), [&](OperatorId, const OwnedUpdates& work) {
      for (std::size_t k = 0; k < work.holders.size(); ++k)
        most[work.holders[k].index()] += own_gradients(work, k);
    });
  }
  if (!copies_buckets(contents)) return most;
  const std::int64_t times = contents.options().state_sharding.each_microbatch()
                                 ? std::max(contents.options().microbatches, expanded.microbatches())
                                 : 1;
  for (const Wiring& w : expanded.wirings()) {
    if (!reduces_in_buckets(contents, w)) continue;
    const std::vector<std::int64_t> elements = elements_before(expanded, w);
    for (std::size_t d = 0; d < most.size(); ++d)
      most[d] += Bytes(times * elements[d] * bytes_per_element(contents.graph().tensor(w.tensor).type));
  }
  return most;
}

}  // namespace pipesim
