#include "executor/gpu/machine/emulated_links.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "executor/gpu/bodies/links.h"
#include "sim/base/errors.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim::gpu {
namespace {

// The cost model wants the root first.
std::vector<DeviceId> priced_group(const CollectiveCall& call) {
  std::vector<DeviceId> group(call.group.begin(), call.group.end());
  std::swap(group.front(), group.at(static_cast<std::size_t>(call.root)));
  return group;
}

// Arrays in the devices' memory, which stay.
class LinkMemory {
 public:
  explicit LinkMemory(Machine& machine, DeviceId device)
      : machine_(machine), device_(device), stream_(machine.make_stream(device, StreamUse::Communication)) {}
  ~LinkMemory() {
    stream_.reset();
    for (const auto& [memory, size] : blocks_) machine_.release(device_, memory, size);
  }
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  template <class Element>
  [[nodiscard]] Element* upload(const std::vector<Element>& content) {
    const std::size_t bytes = content.size() * sizeof(Element);
    const Bytes size(static_cast<std::int64_t>(std::max(bytes, sizeof(Element))));
    std::byte* memory = machine_.allocate(device_, size);
    if (memory == nullptr) throw DeviceError("out of memory: times of emulated links");
    blocks_.emplace_back(memory, size);
    stream_->upload(memory, content.data(), bytes);
    stream_->finish();
    return reinterpret_cast<Element*>(memory);
  }

 private:
  Machine& machine_;
  DeviceId device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::pair<std::byte*, Bytes>> blocks_;
};

class EmulatedLinks : public Collectives {
 public:
  EmulatedLinks(Machine& machine, std::unique_ptr<Collectives> collectives, const Topology& topology)
      : machine_(machine), collectives_(std::move(collectives)), costs_(topology), prices_(costs_) {}

  void prepare(std::span<const std::vector<DeviceId>> groups) override { collectives_->prepare(groups); }

  void run(const CollectiveCall& call, std::span<const CollectiveMember> members) override {
    if (call.elements == 0 || call.group.size() < 2) return collectives_->run(call, members);
    // All that is beside the data happens on the first one's stream.
    const std::size_t first = first_of(members);
    Stream& stream = *members[first].stream;
    TakeLinks take = taking(call);
    take.end = reinterpret_cast<std::int64_t*>(stream.scratch(sizeof *take.end));
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m == first) continue;
      members[m].stream->record(event(call, m));
      stream.wait(event(call, m));
    }
    gpu::run(stream, 1, take);
    collectives_->run(call, members);
    gpu::run(stream, 1, WaitUntil{take.end});
    stream.record(event(call, first));
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m != first) members[m].stream->wait(event(call, first));
    }
  }

  void abort(const std::string& reason) noexcept override { collectives_->abort(reason); }
  void require_peers() const override { collectives_->require_peers(); }

 private:
  using Key = std::tuple<Collective, std::vector<DeviceId>, std::int64_t>;

  static std::size_t first_of(std::span<const CollectiveMember> members) {
    return static_cast<std::size_t>(std::ranges::min_element(members, {}, &CollectiveMember::rank) -
                                    members.begin());
  }

  // Recordings find here what the first step has put into device memory.
  const TakeLinks& taking(const CollectiveCall& call) {
    std::vector<DeviceId> group = priced_group(call);
    const Bytes size = size_on_links(call);
    const auto [at, fresh] = taking_.try_emplace(Key(call.kind, group, size.value));
    if (!fresh) return at->second;
    const PricedTask priced = priced_task(call.kind, std::move(group), size, prices_);
    std::vector<LinkHold> holds;
    for (const LaneUse& use : priced.lanes) {
      if (use.lane.index() >= costs_.topology().num_devices())  // devices keep their own lanes themselves
        holds.push_back({use.lane.value, use.hold});
    }
    at->second = {links(call), nullptr, static_cast<std::int64_t>(holds.size()), priced.duration, nullptr};
    at->second.holds = memory_->upload(holds);
    return at->second;
  }

  const LinkTimes& links(const CollectiveCall& call) {
    if (memory_) return links_;
    memory_ = std::make_unique<LinkMemory>(machine_, call.group.front());
    links_.free_at = memory_->upload(std::vector<std::int64_t>(costs_.topology().num_lanes(), 0));
    links_.taken = memory_->upload(std::vector<std::uint32_t>(1, 0));
    return links_;
  }

  Event& event(const CollectiveCall& call, std::size_t member) {
    while (events_.size() <= member) events_.push_back(machine_.make_event(call.group[events_.size()]));
    return *events_[member];
  }

  Machine& machine_;
  std::unique_ptr<Collectives> collectives_;
  CostModel costs_;
  CommunicationPrices prices_;
  std::unique_ptr<LinkMemory> memory_;  // from the first call on
  LinkTimes links_;
  std::map<Key, TakeLinks> taking_;
  std::vector<std::unique_ptr<Event>> events_;  // used again and again
};

}  // namespace

Bytes size_on_links(const CollectiveCall& call) {
  const auto n = static_cast<std::int64_t>(call.group.size());
  const bool blocks = call.kind == Collective::ReduceScatter || call.kind == Collective::AllGather;
  const std::int64_t parts = blocks ? n : call.kind == Collective::AllToAll ? n * n : 1;
  return Bytes(parts * call.elements * bytes_per_element(call.type));
}

std::unique_ptr<Collectives> make_emulated_links(Machine& machine, std::unique_ptr<Collectives> collectives,
                                                 const Topology& topology) {
  return std::make_unique<EmulatedLinks>(machine, std::move(collectives), topology);
}

}  // namespace pipesim::gpu
