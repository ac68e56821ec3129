#include "executor/cuda/machine.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "executor/cuda/errors.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

Nanoseconds elapsed(cudaEvent_t from, cudaEvent_t to, const CudaGpu& gpu) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime", gpu);
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

// Returns the time on the host's clock at which an event of a GPU was over. It is measured back from a new
// event that the host waits for; of several tries, the quickest counts.
Nanoseconds host_time(const CudaEvent& event) {
  using Clock = std::chrono::steady_clock;
  constexpr int tries = 5;
  event.gpu.use();
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", event.gpu);
  const CudaEvent now(event.gpu);
  Nanoseconds best = std::numeric_limits<Nanoseconds>::max(), time = 0;
  for (int i = 0; i < tries; ++i) {
    const Clock::time_point asked = Clock::now();
    check(cudaEventRecord(now.event, stream), "cudaEventRecord", event.gpu);
    check(cudaEventSynchronize(now.event), "cudaEventSynchronize", event.gpu);
    const Clock::time_point answered = Clock::now();
    const Nanoseconds took = std::chrono::nanoseconds(answered - asked).count();
    if (took >= best) continue;
    best = took;
    const Nanoseconds middle = std::chrono::nanoseconds(asked.time_since_epoch()).count() + took / 2;
    time = middle - elapsed(event.event, now.event, event.gpu);
  }
  cudaStreamDestroy(stream);
  return time;
}

}  // namespace

CudaMachine::CudaMachine(const MachineSetting& setting) : first_device_(setting.first_device) {
  std::string why;
  const int gpus = count_gpus(why);
  if (gpus == 0) throw DeviceError("no GPU to run on: " + why);
  const auto several = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  if (setting.gpu < 0 || setting.gpu >= gpus)
    throw InputError("there is no gpu" + std::to_string(setting.gpu) + ": this machine has " +
                     several(gpus, "GPU") + ", from gpu0 on");
  if (setting.devices < 1) throw InputError("a machine of " + several(setting.devices, "device"));
  if (!setting.virtual_devices && setting.gpu + setting.devices > gpus)
    throw InputError("the plan needs " + several(setting.devices, "device") + " and this machine has " +
                     several(gpus, "GPU") +
                     (setting.gpu > 0 ? ", of which gpu" + std::to_string(setting.gpu) + " is the first used"
                                      : std::string()) +
                     "; add --virtual-devices to divide " + (gpus == 1 ? "it" : "one"));
  if (setting.virtual_devices && setting.devices > 1) {
    const CudaGpu gpu = gpu_to_use(setting.gpu);
    partitions_ = std::make_unique<Partitions>(gpu, setting.devices);
    for (int part = 0; part < setting.devices; ++part)
      add_device(gpu, part, partitions_->multiprocessors(part), setting.tf32);
    return;
  }
  for (int i = 0; i < setting.devices; ++i) {
    const CudaGpu gpu = gpu_to_use(setting.gpu + i);
    add_device(gpu, -1, gpu.multiprocessors, setting.tf32);
  }
  open_ways_between_gpus();
}

CudaMachine::~CudaMachine() { devices_.clear(); }

void CudaMachine::add_device(const CudaGpu& gpu, int part, int multiprocessors, bool tf32) {
  constexpr int first_with_tf32 = 80;
  auto device = std::make_unique<CudaDevice>();
  device->gpu = gpu;
  device->part = part;
  device->multiprocessors = multiprocessors;
  device->tf32 = tf32 && gpu.capability >= first_with_tf32;
  device->products = std::make_unique<Products>(gpu, part < 0 ? 0 : multiprocessors, device->tf32);
  devices_.push_back(std::move(device));
}

// Without one, copies go through the host's memory.
void CudaMachine::open_ways_between_gpus() const {
  for (const auto& from : devices_) {
    for (const auto& to : devices_) {
      int possible = 0;
      if (from == to || cudaDeviceCanAccessPeer(&possible, from->gpu.number, to->gpu.number) != cudaSuccess ||
          possible == 0)
        continue;
      from->gpu.use();
      const cudaError_t error = cudaDeviceEnablePeerAccess(to->gpu.number, 0);
      if (error == cudaErrorPeerAccessAlreadyEnabled || error == cudaErrorTooManyPeers) {
        cudaGetLastError();  // told
      } else {
        check(error, "cudaDeviceEnablePeerAccess", from->gpu);
      }
    }
  }
}

std::string CudaMachine::name() const {
  const CudaDevice& first = *devices_.front();
  const std::string count = std::to_string(devices_.size());
  if (first.part >= 0)
    return first.gpu.name + " as " + count + " devices of " + std::to_string(first.multiprocessors) +
           " multiprocessors";
  bool alike = true;
  std::string all;
  for (const auto& device : devices_) {
    alike = alike && device->gpu.name == first.gpu.name;
    all += (all.empty() ? "" : ", ") + device->gpu.name;
  }
  return devices_.size() == 1 || !alike ? all : count + " x " + first.gpu.name;
}

std::string CudaMachine::why_not(DataType type) const {
  constexpr int first_with_both = 80;
  for (const auto& device : devices_) {
    const CudaGpu& gpu = device->gpu;
    const bool for_ampere = type == DataType::BFloat16 || type == DataType::TensorFloat32;
    if (for_ampere && gpu.capability < first_with_both)
      return gpu.str() + " has no " + std::string(name_of(type)) + ": its compute capability is " +
             std::to_string(gpu.capability / 10) + "." + std::to_string(gpu.capability % 10) +
             ", 8.0 is needed";
    if (type == DataType::TensorFloat32 && !device->tf32)
      return gpu.str() + " may not form products of tf32 without --tf32";
  }
  return {};
}

Bytes CudaMachine::free_memory(DeviceId id) const {
  std::size_t free = 0, total = 0;
  device(id).gpu.use();
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device(id).gpu);
  return Bytes(static_cast<std::int64_t>(free));
}

GpuShare CudaMachine::share() const {
  const CudaDevice& first = *devices_.front();
  return {first.part < 0 ? 1 : static_cast<int>(devices_.size()), first.multiprocessors,
          first.gpu.multiprocessors};
}

std::byte* CudaMachine::allocate(DeviceId id, Bytes size) {
  return allocate_on(device(id).gpu, static_cast<std::size_t>(size.value));
}

void CudaMachine::release(DeviceId id, std::byte* memory, Bytes /*size*/) {
  release_on(device(id).gpu, memory);
}

std::unique_ptr<Stream> CudaMachine::make_stream(DeviceId id, StreamUse use) {
  const CudaDevice& of = device(id);
  const RelaxedRecording relaxed;
  of.gpu.use();
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", of.gpu);
  const int priority = use == StreamUse::Communication ? greatest : least;
  if (of.part >= 0) {
    stream = partitions_->make_stream(of.part, priority);
  } else {
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
          "cudaStreamCreateWithPriority", of.gpu);
  }
  return std::make_unique<CudaStream>(of, stream, now_);
}

std::unique_ptr<Event> CudaMachine::make_event(DeviceId id) {
  return std::make_unique<CudaEvent>(device(id).gpu);
}

Nanoseconds CudaMachine::time_between(const Event& from, const Event& to) {
  const auto &a = dynamic_cast<const CudaEvent&>(from), &b = dynamic_cast<const CudaEvent&>(to);
  a.gpu.use();
  if (a.gpu.number == b.gpu.number) return elapsed(a.event, b.event, a.gpu);
  return host_time(b) - host_time(a);
}

void CudaMachine::begin_recording(Stream& first) {
  recording_ = std::make_unique<CudaRecording>(dynamic_cast<CudaStream&>(first));
  now_.recording = recording_.get();
  ++now_.number;
}

std::unique_ptr<Recording> CudaMachine::end_recording(Stream& first) {
  if (recording_ == nullptr) throw InternalError("a recording ends that has not begun");
  now_.recording = nullptr;
  std::unique_ptr<CudaRecording> recording = std::move(recording_);
  recording->end(dynamic_cast<CudaStream&>(first));
  return recording;
}

}  // namespace pipesim::gpu
