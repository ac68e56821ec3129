#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>

#include "executor/cuda/gpus.h"
#include "executor/gpu/machine/library_calls.h"

namespace pipesim::gpu {

/// Convolutions of a stream by cuDNN. For each problem the library's heuristics are asked once for an
/// algorithm, and the answer is kept. Only algorithms that give the same bits each time are used.
class Convolutions {
 public:
  /// `tf32`: as in MachineSetting. `part`: the part of the GPU that the stream belongs to; −1: the whole GPU.
  /// DeviceError when cuDNN does not accept the stream; its documentation does not say whether it accepts a
  /// part's.
  Convolutions(const CudaGpu& gpu, cudaStream_t stream, bool tf32, int part);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;
  /// Computes a convolution with same_with_equal_padding(); operands are aligned to 16. `scratch` returns
  /// memory of the given number of bytes.
  void convolve(const Convolution& convolution, const std::function<std::byte*(std::size_t)>& scratch);

 private:
  using Problem = std::array<std::int64_t, 20>;
  template <auto destroy>
  struct Destroy {
    template <class T>
    void operator()(T* described) const {
      destroy(described);
    }
  };
  template <class Descriptor, auto destroy>
  using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy<destroy>>;
  struct Way {
    Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> x, y;
    Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> w;
    Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> windows;
    int algorithm = 0;
    std::size_t workspace = 0;
  };
  [[nodiscard]] static Problem problem_of(const Convolution& c);
  [[nodiscard]] Way find_way(const Convolution& c) const;
  void describe(const Convolution& c, Way& way) const;
  template <class Found, class Ask, class Workspace>
  void choose(const Convolution& c, Way& way, const char* call, Ask ask, Workspace workspace) const;
  void run(const Convolution& c, const Way& way, std::byte* workspace) const;

  CudaGpu gpu_;
  bool tf32_;
  Owned<cudnnHandle_t, cudnnDestroy> library_;
  std::map<Problem, Way> ways_;
};

}  // namespace pipesim::gpu
