// The library: what the machine has, asked of CUDA's runtime and of the driver's management library, and
// devices to run on.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cupti_version.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "executor/cuda/activity_collector.h"
#include "executor/cuda/gpu_links.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/machine.h"
#include "executor/cuda/nccl_collectives.h"
#include "executor/gpu/machine/cuda_library.h"

namespace pipesim {
namespace {

// 130100 is 13.1.0 (cuBLAS).
std::string dotted(std::size_t version, std::size_t major) {
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

Gpu gpu_number(int number) {
  Gpu gpu;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) return gpu;
  std::array<char, 32> bus_id{};
  cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), number);
  gpu.name = properties.name;
  gpu.bus_id = bus_id.data();
  gpu.capability = 10 * properties.major + properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  return gpu;
}

// NVML knows it without a context of CUDA, which takes some 500 MB of a GPU that is another process's, or is
// refused where a GPU is for one process only. A part of a GPU (MIG) has no more than its own.
std::int64_t free_memory_of(int number, const Gpu& gpu, std::int64_t told) {
  if (told >= 0) return std::min(told, gpu.memory);
  std::size_t free = 0, total = 0;
  const bool answered = cudaSetDevice(number) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess;
  if (!answered) cudaGetLastError();  // shows as 0
  return static_cast<std::int64_t>(free);
}

// Streams share the driver's ways to a GPU, 8 unless that is set before its first call (CUDA C++ Programming
// Guide, "CUDA Environment Variables"); on one way a stream's work also waits for that of others before it.
bool open_more_ways_to_gpus() { return setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0; }

class Library : public CudaLibrary {
 public:
  [[nodiscard]] GpuInventory inventory() const override {
    GpuInventory found;
    int version = gpu::driver_version();
    if (version > 0) found.driver = gpu::cuda_version_text(version);
    if (cudaRuntimeGetVersion(&version) == cudaSuccess) found.runtime = gpu::cuda_version_text(version);
    constexpr std::size_t ten_thousand = 10'000;
    found.cublas = dotted(cublasLtGetVersion(), ten_thousand);
    found.cudnn = dotted(cudnnGetVersion(), ten_thousand);
    if (ncclGetVersion(&version) == ncclSuccess)
      found.nccl = dotted(static_cast<std::size_t>(version), ten_thousand);
    std::uint32_t cupti = 0;
    if (cuptiGetVersion(&cupti) == CUPTI_SUCCESS) found.cupti = std::to_string(cupti);
    add_gpus(found);
    cudaGetLastError();  // what was not told is no error of the next launch
    return found;
  }
  [[nodiscard]] std::unique_ptr<ActivityCollector> activity_collector() const override {
    return make_activity_collector();
  }
  [[nodiscard]] std::unique_ptr<gpu::Machine> machine(const gpu::MachineSetting& setting) const override {
    return std::make_unique<gpu::CudaMachine>(setting);
  }
  [[nodiscard]] std::unique_ptr<gpu::Collectives> collectives(
      gpu::Machine& machine, const gpu::Processes& processes) const override {
    return gpu::make_nccl_collectives(machine, processes);
  }

 private:
  static void add_gpus(GpuInventory& found) {
    const int count = gpu::count_gpus(found.no_gpus);
    if (!found.no_gpus.empty()) return;
    for (int i = 0; i < count; ++i) found.gpus.push_back(gpu_number(i));
    const GpuLinks links = links_of(found.gpus);
    for (std::size_t g = 0; g < found.gpus.size(); ++g) {
      Gpu& gpu = found.gpus[g];
      gpu.pcie = links.pcie[g];
      gpu.free_memory = free_memory_of(static_cast<int>(g), gpu, links.free_memory[g]);
    }
    found.switch_nvlinks = links.to_switches;
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) {
        int there = 0, back = 0;
        cudaDeviceCanAccessPeer(&there, a, b);
        cudaDeviceCanAccessPeer(&back, b, a);
        const auto between = links.between.find({a, b});
        found.pairs.push_back(
            {a, b, there != 0 && back != 0, between == links.between.end() ? 0 : between->second});
      }
    }
  }
};

}  // namespace
}  // namespace pipesim

extern "C" __attribute__((visibility("default"))) const pipesim::CudaLibrary* pipesim_cuda_library(
    int version) {
  static const pipesim::Library library;
  static const bool ways_open = pipesim::open_more_ways_to_gpus();
  static_cast<void>(ways_open);
  return version == pipesim::CudaLibrary::kVersion ? &library : nullptr;
}
