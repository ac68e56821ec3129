#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/backend/backend.h"

namespace pipesim {

/// Memory that a device really allocated.
struct MeasuredMemory {
  Bytes peak;  ///< as the simulator counts: without data inputs and workspace
  std::array<Bytes, kMemoryCategories> at_peak{};  ///< by category; they add up to `peak`
  Bytes workspace_peak;                            ///< of all else
  Bytes arena;  ///< the block that holds all of them; 0: they have memory of their own
};

/// The buffers of a running program. They are allocated at first use and freed after the last use of a step;
/// or they lie at their places in their device's arena (Program::arenas). The measured memory is the same
/// either way.
class BufferTable : public Memory {
 public:
  /// The purpose of a buffer, for messages: "fc6.w on cpu0, whose predicted peak is 1.2 GB".
  using Describe = std::function<std::string(const Buffer&)>;
  /// Text that messages add when a device does not get its arena: "; 3 GB are reported free".
  using Refused = std::function<std::string(DeviceId)>;
  BufferTable(const Program& program, Allocator& allocator, std::size_t num_devices, Describe describe,
              const Refused& refused = {});
  ~BufferTable() override;
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  [[nodiscard]] std::byte* address(BufferId buffer) const override {
    return slots_[buffer.index()].memory.load();
  }
  [[nodiscard]] const Buffer& buffer(BufferId buffer) const override {
    return program_.buffers[buffer.index()];
  }
  /// Makes sure that all these buffers have memory. DeviceError, with the size and the tensor, when there is
  /// none.
  void acquire(DeviceId device, std::span<const BufferId> buffers);
  /// One use of each of these buffers is over.
  void release(DeviceId device, std::span<const BufferId> buffers);
  /// Lets each buffer be used once more in the next step.
  void begin_step();
  [[nodiscard]] MeasuredMemory measured(DeviceId device) const;

 private:
  struct Slot {
    std::atomic<std::byte*> memory = nullptr;
    std::atomic<std::int32_t> uses_left = 0;
  };
  struct Account {
    std::mutex mutex;
    std::array<Bytes, kMemoryCategories> now{};
    Bytes sum, workspace;
    MeasuredMemory measured;
  };
  [[nodiscard]] std::byte* memory_for(BufferId buffer);
  void count(Account& account, const Buffer& buffer, std::int64_t sign) const;

  const Program& program_;
  Allocator& allocator_;
  Describe describe_;
  std::vector<Slot> slots_;
  std::vector<Account> accounts_;   // by device
  std::vector<std::byte*> arenas_;  // by device
};

}  // namespace pipesim
