#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

enum class MemoryCategory : std::uint8_t {
  Weights,
  Gradients,  ///< of weights, accumulated
  OptimizerState,
  Activations,  ///< outputs and what is saved for backward
  Transfers,    ///< receive buffers
  ActivationGradients,
  StashedWeights,  ///< older versions, which microbatches under way still need
  GatheredWeights  ///< of which the device itself keeps a part (StateSharding)
};
constexpr std::size_t kMemoryCategories = 8;
std::string_view name_of(MemoryCategory category);

/// Which tasks of a timeline belong to which microbatch: task number i of the first microbatch is task m ·
/// of_one + i in microbatch m. Where weights change between microbatches, the same holds for blocks of
/// microbatches.
struct TaskTimes {
  const Timeline& timeline;
  std::int32_t microbatches = 1;  ///< the first of them that are looked at, or:
  std::size_t of_one = 0;
  TaskBlock block = {1, of_one};
  /// By how much the ids of a microbatch's tasks are larger than in the first one that goes the same way.
  [[nodiscard]] std::size_t behind_first(std::int32_t microbatch, std::int32_t ways) const {
    return static_cast<std::size_t>(microbatch / block.microbatches) * block.tasks +
           (ways > 1 ? 0 : static_cast<std::size_t>(microbatch % block.microbatches) * of_one);
  }
};
/// The begin of a buffer, or its end (negative bytes), in two words, since there are many to sort.
class MemoryChange {
 public:
  MemoryChange(Nanoseconds at, std::int64_t more, MemoryCategory category)
      : time(at), bytes_and_category_(more * kCategories + static_cast<std::int64_t>(category)) {}
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
using MemoryChanges = std::vector<std::vector<MemoryChange>>;  ///< by device, in no order

/// The begins and ends of these microbatches' buffers (engine rule 8, see peak_memory()).
MemoryChanges memory_changes(const ExpandedStrategy& expanded, const TaskTimes& times);

/// A buffer that is there at some moment, or several of one operator.
struct LiveBuffer {
  /// That made it, reads it in this pass, or owns the weight. Not valid: buckets and copies of gradients,
  /// which all weights share, and the optimizer's intermediates, which count as its state.
  OperatorId op;
  MemoryCategory category = MemoryCategory::Activations;
  std::int64_t count = 1;
  Bytes bytes;  ///< of all of them
};

/// A buffer that is not there all the time; or, of negative size, a part of what else is, which is freed
/// meanwhile.
struct BufferLife {
  Nanoseconds from = 0, until = 0;
  Bytes bytes;
  /// Scratch tensors alone have this, which are there before the results of their pass: how many more bytes
  /// one has at its begin, which results take over (Scratch::given_up).
  std::optional<Bytes> scratch_gives_up;
  MemoryCategory category = MemoryCategory::Activations;
};

/// Lists the buffers of each of some devices in these microbatches. Those that one task makes stand in the
/// order in which it makes them, but for scratch tensors, which stand behind results.
std::vector<std::vector<BufferLife>> buffer_lives(const ExpandedStrategy& expanded, const TaskTimes& times,
                                                  std::span<const DeviceId> devices);

/// Lists what is on the device at this moment of the timeline, with what is there all the time: one entry for
/// an operator and a category. Their bytes add up to what peak_memory() counts then.
std::vector<LiveBuffer> live_buffers(const ExpandedStrategy& expanded, const TaskTimes& times,
                                     DeviceId device, Nanoseconds when);

/// Lists what is on the device all the time, in the same form: weights, their gradients, optimizer state.
std::vector<LiveBuffer> permanent_buffers(const ExpandedStrategy& expanded, DeviceId device);

/// Lists the copies of a weight that devices hold while it is used: first on devices that receive it, then on
/// devices that make a copy of what they keep. A device makes none where passes read what it keeps.
std::vector<std::pair<DeviceId, Bytes>> gathered_copies(const ExpandedStrategy& expanded,
                                                        const Wiring& gather);

}  // namespace pipesim
