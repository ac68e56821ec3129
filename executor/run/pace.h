#pragma once

#include "executor/communication/communicator.h"
#include "executor/program/program.h"
#include "sim/base/units.h"

namespace pipesim {

/// Determines when instructions begin and end: by the machine's clock, or by another one.
class Pace {
 public:
  virtual ~Pace() = default;
  /// Called before any list of a step begins.
  virtual void begin_step() = 0;
  /// Called when everything that the instruction waits for is done, at `ready`. Returns when the instruction
  /// begins.
  virtual Nanoseconds begin(DeviceId device, const Instruction& instruction, Nanoseconds ready,
                            Communicator& world, std::int64_t tag) = 0;
  /// Called when the instruction's work is done. Returns when the instruction ends.
  virtual Nanoseconds end(DeviceId device, const Instruction& instruction, Nanoseconds begun) = 0;
  /// The time to record for an instruction that has just begun or ended at `time`.
  [[nodiscard]] virtual Nanoseconds observed(Nanoseconds time) const { return time; }
  /// Whether times are longer when the system takes the processor away.
  [[nodiscard]] virtual bool interruptible() const { return true; }
};

/// The machine's steady clock, in nanoseconds since the step began.
class RealPace : public Pace {
 public:
  void begin_step() override;
  Nanoseconds begin(DeviceId device, const Instruction& instruction, Nanoseconds ready, Communicator& world,
                    std::int64_t tag) override;
  Nanoseconds end(DeviceId device, const Instruction& instruction, Nanoseconds begun) override;

 private:
  [[nodiscard]] Nanoseconds now() const;
  std::int64_t origin_ = 0;
};

}  // namespace pipesim
