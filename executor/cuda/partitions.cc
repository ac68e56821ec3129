#include "executor/cuda/partitions.h"

#include <cudaTypedefs.h>

#include <string>

#include "executor/cuda/driver.h"
#include "executor/cuda/errors.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

constexpr int kResources = 12040;  // CUDA that began with green contexts …
constexpr int kStreams = 12050;    // … and with their streams

// Returns how many groups of at least `least` multiprocessors the driver can form, or 0 when it forms none.
unsigned groups_of(const CUdevResource& all, unsigned least, const CudaGpu& gpu) {
  const auto split =
      driver_function<PFN_cuDevSmResourceSplitByCount_v12040>("cuDevSmResourceSplitByCount", kResources, gpu);
  unsigned groups = 0;
  const CUresult error = split(nullptr, &groups, &all, nullptr, 0, least);
  if (error == CUDA_ERROR_INVALID_VALUE || error == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) return 0;
  check(error, "cuDevSmResourceSplitByCount", gpu);
  return groups;
}

std::vector<CUdevResource> divided(const CUdevResource& all, int parts, const CudaGpu& gpu) {
  const unsigned have = all.sm.smCount;
  auto wanted = static_cast<unsigned>(parts);
  // The driver rounds groups up to its own multiples of multiprocessors. This finds the largest groups of
  // which there are still enough.
  unsigned least = have / wanted;
  while (least > 0 && groups_of(all, least, gpu) < wanted) --least;
  if (least == 0)
    throw InputError(gpu.str() + " has " + std::to_string(have) +
                     " multiprocessors, which can be divided into at most " +
                     std::to_string(groups_of(all, 1, gpu)) + " devices, not into " + std::to_string(parts));
  std::vector<CUdevResource> groups(wanted);
  const auto split =
      driver_function<PFN_cuDevSmResourceSplitByCount_v12040>("cuDevSmResourceSplitByCount", kResources, gpu);
  check(split(groups.data(), &wanted, &all, nullptr, 0, least), "cuDevSmResourceSplitByCount", gpu);
  if (wanted != groups.size())
    throw DeviceError(gpu.str() + " was divided into " + std::to_string(wanted) + " parts, not into " +
                      std::to_string(parts));
  return groups;
}

}  // namespace

Partitions::Partitions(const CudaGpu& gpu, int parts) : gpu_(gpu) {
  if (driver_version() < kStreams)
    throw DeviceError("virtual devices on " + gpu.str() +
                      " are green contexts, which need a driver of CUDA " + cuda_version_text(kStreams) +
                      " or newer; this one serves CUDA " + cuda_version_text(driver_version()));
  gpu.use();
  check(cudaFree(nullptr), "cudaFree", gpu);  // makes the primary context
  CUdevice device = 0;
  const auto device_of = driver_function<CUresult (*)(CUdevice*, int)>("cuDeviceGet", 2000, gpu);
  check(device_of(&device, gpu.number), "cuDeviceGet", gpu);
  CUdevResource all{};
  const auto resource_of =
      driver_function<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", kResources, gpu);
  check(resource_of(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource", gpu);

  const auto describe =
      driver_function<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", kResources, gpu);
  const auto create = driver_function<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", kResources, gpu);
  const auto given =
      driver_function<PFN_cuGreenCtxGetDevResource_v12040>("cuGreenCtxGetDevResource", kResources, gpu);
  for (CUdevResource& group : divided(all, parts, gpu)) {
    CUdevResourceDesc description = nullptr;
    check(describe(&description, &group, 1), "cuDevResourceGenerateDesc", gpu);
    Part part;
    check(create(&part.context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate", gpu);
    parts_.push_back(part);
    CUdevResource got{};
    check(given(part.context, &got, CU_DEV_RESOURCE_TYPE_SM), "cuGreenCtxGetDevResource", gpu);
    parts_.back().multiprocessors = static_cast<int>(got.sm.smCount);
  }
}

Partitions::~Partitions() {
  if (parts_.empty()) return;
  try {
    const auto destroy = driver_function<PFN_cuGreenCtxDestroy_v12040>("cuGreenCtxDestroy", kResources, gpu_);
    for (const Part& part : parts_) destroy(part.context);
  } catch (const DeviceError&) {  // a driver that is gone has no contexts left
  }
}

int Partitions::multiprocessors(int part) const {
  return parts_.at(static_cast<std::size_t>(part)).multiprocessors;
}

cudaStream_t Partitions::make_stream(int part, int priority) const {
  const auto create =
      driver_function<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", kStreams, gpu_);
  CUstream stream = nullptr;
  check(create(&stream, parts_.at(static_cast<std::size_t>(part)).context, CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate", gpu_);
  return stream;
}

}  // namespace pipesim::gpu
