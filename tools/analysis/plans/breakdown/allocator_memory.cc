#include "tools/analysis/plans/breakdown/allocator_memory.h"

#include <algorithm>

namespace pipesim {
namespace {

// A plan that does not fit has no limit: how much it would take is what people want to know.
Bytes left_for_allocator(const MemoryOverhead& overhead, const DeviceMemory& of) {
  if (overhead.is_none()) return CachingAllocator::kUnlimited;
  const Bytes left = overhead.installed - overhead.context - of.communicators * overhead.communicator;
  return of.peak > left ? CachingAllocator::kUnlimited : left;
}

}  // namespace

std::vector<ReservedMemory> allocator_memory(const SimulatedPart& part,
                                             const std::vector<DeviceMemory>& peaks,
                                             std::span<const DeviceId> devices) {
  std::vector<AllocatorDevice> replayed;
  for (const DeviceId d : devices) {
    const MemoryOverhead& overhead = part.topology().kind(d).memory_overhead;
    replayed.push_back({part.stands_for(d), left_for_allocator(overhead, peaks[d.index()])});
  }
  const TaskTimes times{part.timeline(), part.expanded().microbatches(),
                        part.expanded().tasks_of_one_microbatch(), part.expanded().block()};
  std::vector<ReservedMemory> reserved = reserved_memory(part.expanded(), times, replayed);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (reserved[i].fits) continue;
    const AllocatorDevice without_limit{replayed[i].device};
    reserved[i] = reserved_memory(part.expanded(), times, std::span(&without_limit, 1)).front();
    reserved[i].fits = false;
  }
  if (part.steady().windows.size() < 2) return reserved;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const double peak = static_cast<double>(peaks[devices[i].index()].peak.value),
                 replayed_peak = static_cast<double>(reserved[i].allocated.value);
    if (peak <= replayed_peak) continue;
    const double all = static_cast<double>(reserved[i].reserved.value) * peak / replayed_peak;
    reserved[i].allocated = peaks[devices[i].index()].peak;
    reserved[i].fits = reserved[i].fits && reserved[i].allocated <= replayed[i].capacity;
    reserved[i].reserved = std::min(Bytes(static_cast<std::int64_t>(all)),
                                    std::max(replayed[i].capacity, reserved[i].allocated));
  }
  return reserved;
}

}  // namespace pipesim
