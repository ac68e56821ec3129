#include "executor/cuda/launch.h"

#include <algorithm>
#include <array>

#include "executor/gpu/bodies/all.h"

namespace pipesim::gpu {
namespace {

constexpr int kThreads = 256;  // of a block; enough registers for each, and full occupancy
constexpr int kWarp = 32;
constexpr int kBlocksPerMultiprocessor = 2048 / kThreads;

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};
// NaN where one is.
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// For all threads of a warp, in the same order each time.
template <class Number, class Combine>
__device__ Number combined_in_warp(Number x, Combine combine) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) x = combine(x, __shfl_xor_sync(~0U, x, apart));
  return x;
}

// The threads of a block.
class BlockTeam {
 public:
  __device__ explicit BlockTeam(double* slots) : slots_(slots) {}
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return kThreads; }
  __device__ double sum(double x) const { return combined(x, Sum()); }
  __device__ float max(float x) const { return combined(x, Largest()); }
  __device__ void barrier() const { __syncthreads(); }

 private:
  // Within each warp, then over the warps' results, always in the same order.
  template <class Number, class Combine>
  __device__ Number combined(Number x, Combine combine) const {
    x = combined_in_warp(x, combine);
    auto* warps = reinterpret_cast<Number*>(slots_);
    __syncthreads();  // the last result has been read
    if (rank() % kWarp == 0) warps[rank() / kWarp] = x;
    __syncthreads();
    x = warps[0];
    for (int w = 1; w < kThreads / kWarp; ++w) x = combine(x, warps[w]);
    return x;
  }
  double* slots_;
};

// The threads of a warp.
class WarpTeam {
 public:
  __device__ int rank() const { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ int size() const { return kWarp; }
  __device__ double sum(double x) const { return combined_in_warp(x, Sum()); }
  __device__ float max(float x) const { return combined_in_warp(x, Largest()); }
  __device__ void barrier() const { __syncwarp(); }
};

template <class Body>
__global__ void __launch_bounds__(kThreads) run_each(Body body, std::int64_t count) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += threads)
    body(i);
}

template <class Body>
__global__ void __launch_bounds__(kThreads) run_teams(Body body, std::int64_t count) {
  __shared__ double slots[kThreads / kWarp];
  BlockTeam team(slots);
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) body(team, i);
}

template <class Body>
__global__ void __launch_bounds__(kThreads) run_small_teams(Body body, std::int64_t count) {
  constexpr int teams = kThreads / kWarp;  // of a block
  const WarpTeam team;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * teams + threadIdx.x / kWarp; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * teams)
    body(team, i);
}

using Launcher = void (*)(const void* body, std::int64_t count, int multiprocessors, cudaStream_t stream);

template <class Body>
void launch(const void* body, std::int64_t count, int multiprocessors, cudaStream_t stream) {
  const Body& typed = *static_cast<const Body*>(body);
  const auto most = static_cast<std::int64_t>(multiprocessors) * kBlocksPerMultiprocessor;
  const auto blocks = [&](std::int64_t wanted) { return static_cast<unsigned>(std::min(wanted, most)); };
  if constexpr (runs_in_small_teams<Body>) {
    constexpr int teams = kThreads / kWarp;
    run_small_teams<<<blocks((count + teams - 1) / teams), kThreads, 0, stream>>>(typed, count);
  } else if constexpr (runs_in_teams<Body>) {
    run_teams<<<blocks(count), kThreads, 0, stream>>>(typed, count);
  } else {
    run_each<<<blocks((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(typed, count);
  }
}

template <class... Body>
constexpr std::array<Launcher, sizeof...(Body)> launchers_of(BodyList<Body...> /*all*/) {
  return {&launch<Body>...};
}

}  // namespace

cudaError_t launch_body(std::size_t number, const void* body, std::int64_t count, int multiprocessors,
                        cudaStream_t stream) {
  static constexpr auto launchers = launchers_of(AllBodies());
  launchers.at(number)(body, count, multiprocessors, stream);
  return cudaGetLastError();
}

}  // namespace pipesim::gpu
