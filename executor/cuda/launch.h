#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace pipesim::gpu {

/// Launches the body of this number in a stream of the current device, for every index below `count` > 0, on
/// so many multiprocessors.
cudaError_t launch_body(std::size_t number, const void* body, std::int64_t count, int multiprocessors,
                        cudaStream_t stream);

}  // namespace pipesim::gpu
