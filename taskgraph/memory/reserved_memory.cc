#include "taskgraph/memory/reserved_memory.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace pipesim {
namespace {

// What happens to a buffer, in the order in which it does at one time.
enum class AllocatorStep : std::uint8_t { Free, AllocateScratch, MakeRoom, Allocate };
struct AllocatorEvent {
  Nanoseconds time = 0;
  AllocatorStep step = AllocatorStep::Free;
  std::size_t buffer = 0;
};

Bytes room_of(const BufferLife& b) { return b.scratch_gives_up.value_or(Bytes(0)); }

std::vector<AllocatorEvent> events_of(const std::vector<BufferLife>& lives) {
  std::vector<AllocatorEvent> events;
  events.reserve(2 * lives.size());
  using enum AllocatorStep;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const BufferLife& b = lives[i];
    if (b.from >= b.until) continue;
    if (b.bytes.value < 0) {
      events.push_back({b.from, Free, i});
      events.push_back({b.until, Allocate, i});
      continue;
    }
    const bool makes_room = room_of(b).value > 0;
    events.push_back({b.from, b.scratch_gives_up ? AllocateScratch : Allocate, i});
    events.push_back({makes_room ? b.from : b.until, makes_room ? MakeRoom : Free, i});
  }
  std::ranges::stable_sort(events, {}, [](const AllocatorEvent& e) { return std::pair(e.time, e.step); });
  return events;
}

// An allocator, and the buffers that it serves.
class AllocatorReplay {
 public:
  AllocatorReplay(const std::vector<BufferLife>& lives, const std::vector<LiveBuffer>& permanent,
                  CachingAllocator allocator)
      : lives_(lives),
        permanent_(permanent),
        events_(events_of(lives)),
        blocks_(lives.size()),
        allocator_(std::move(allocator)) {}

  [[nodiscard]] ReservedMemory run() {
    const bool fits = keep(false) && iterate() && keep(true) && iterate() && iterate();
    return {allocator_.most_allocated(), allocator_.most_reserved(), fits};
  }

 private:
  // Makes the optimizer's state, or all else that is there all the time. Returns whether there was room.
  bool keep(bool state) {
    for (const LiveBuffer& b : permanent_) {
      if ((b.category == MemoryCategory::OptimizerState) != state) continue;
      const Bytes each((b.bytes.value + b.count - 1) / b.count);
      for (std::int64_t i = 0; i < b.count; ++i) {
        const std::optional<CachingAllocator::BlockId> block = allocator_.allocate(each);
        if (!block) return false;
        if (b.category == MemoryCategory::Gradients) gradients_.push_back({*block, each, false});
      }
    }
    return true;
  }

  // Frees gradients, the first of those that are there, until so many bytes are freed; or makes them again.
  bool set_released(Bytes bytes, bool released) {
    for (Gradient& g : gradients_) {
      if (bytes.value <= 0) break;
      if (g.is_released == released) continue;
      g.is_released = released;
      bytes = bytes - g.bytes;
      if (released) {
        allocator_.free(g.block);
        continue;
      }
      const std::optional<CachingAllocator::BlockId> block = allocator_.allocate(g.bytes);
      if (!block) return false;
      g.block = *block;
    }
    return true;
  }

  bool iterate() {
    for (const AllocatorEvent& e : events_) {
      std::optional<CachingAllocator::BlockId>& block = blocks_[e.buffer];
      if (const Bytes bytes = lives_[e.buffer].bytes; bytes.value < 0) {
        if (!set_released(-1 * bytes, e.step == AllocatorStep::Free)) return false;
        continue;
      }
      if (e.step == AllocatorStep::Free || e.step == AllocatorStep::MakeRoom) {
        allocator_.free(*block);
        continue;
      }
      const BufferLife& b = lives_[e.buffer];
      block =
          allocator_.allocate(b.bytes + room_of(b), b.category == MemoryCategory::GatheredWeights ? 1 : 0);
      if (!block) return false;
    }
    return true;
  }

  struct Gradient {
    CachingAllocator::BlockId block;
    Bytes bytes;
    bool is_released;
  };

  const std::vector<BufferLife>& lives_;
  const std::vector<LiveBuffer>& permanent_;
  std::vector<AllocatorEvent> events_;
  std::vector<std::optional<CachingAllocator::BlockId>> blocks_;  ///< by buffer
  std::vector<Gradient> gradients_;  ///< that are there all the time, but for what steps free
  CachingAllocator allocator_;
};

}  // namespace

std::vector<ReservedMemory> reserved_memory(const ExpandedStrategy& expanded, const TaskTimes& times,
                                            std::span<const AllocatorDevice> devices) {
  std::vector<DeviceId> ids;
  for (const AllocatorDevice& d : devices) ids.push_back(d.device);
  const std::vector<std::vector<BufferLife>> lives = buffer_lives(expanded, times, ids);
  const auto segments = expanded.contents().costs().runtime().expandable_segments
                            ? CachingAllocator::Segments::Expandable
                            : CachingAllocator::Segments::Fixed;
  std::vector<ReservedMemory> reserved;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::vector<LiveBuffer> permanent = permanent_buffers(expanded, ids[i]);
    reserved.push_back(
        AllocatorReplay(lives[i], permanent, CachingAllocator(segments, devices[i].capacity)).run());
  }
  return reserved;
}

}  // namespace pipesim
