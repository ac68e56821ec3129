#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/partitions.h"
#include "executor/cuda/stream.h"
#include "executor/gpu/machine/machine.h"
#include "executor/gpu/machine/machine_setting.h"

namespace pipesim::gpu {

/// GPUs, or equal parts of one. Work should have run once before it is recorded, because libraries load their
/// kernels at their first use.
class CudaMachine : public Machine {
 public:
  /// Throws the errors of CudaLibrary::machine().
  explicit CudaMachine(const MachineSetting& setting);
  ~CudaMachine() override;
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string why_not(DataType type) const override;
  [[nodiscard]] Bytes free_memory(DeviceId device) const override;
  [[nodiscard]] GpuShare share() const override;
  [[nodiscard]] bool shares_memory() const override { return partitions_ != nullptr; }
  [[nodiscard]] std::byte* allocate(DeviceId device, Bytes size) override;
  void release(DeviceId device, std::byte* memory, Bytes size) override;
  [[nodiscard]] std::unique_ptr<Stream> make_stream(DeviceId device, StreamUse use) override;
  [[nodiscard]] std::unique_ptr<Event> make_event(DeviceId device) override;
  /// Times between GPUs are exact to some microseconds only, because each GPU has its own clock.
  [[nodiscard]] Nanoseconds time_between(const Event& from, const Event& to) override;
  void begin_recording(Stream& first) override;
  [[nodiscard]] std::unique_ptr<Recording> end_recording(Stream& first) override;

  [[nodiscard]] const CudaGpu& gpu_of(DeviceId id) const { return device(id).gpu; }

 private:
  [[nodiscard]] const CudaDevice& device(DeviceId id) const {
    return *devices_.at(id.index() - first_device_.index());
  }
  void add_device(const CudaGpu& gpu, int part, int multiprocessors, bool tf32);
  void open_ways_between_gpus() const;

  DeviceId first_device_;
  std::unique_ptr<Partitions> partitions_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  CudaRecordingNow now_;
  std::unique_ptr<CudaRecording> recording_;
};

}  // namespace pipesim::gpu
