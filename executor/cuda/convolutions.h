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

/// Convolutions of a stream by cuDNN. Which of its algorithms computes a problem is asked of the library's
/// heuristics once and kept; only algorithms that give the same bits each time are taken.
class Convolutions {
 public:
  /// `tf32`: as MachineSetting. `part`: that of the GPU whose stream it is, −1: the whole GPU. DeviceError
  /// when cuDNN does not take the stream; whether it takes a part's is not documented.
  Convolutions(const CudaGpu& gpu, cudaStream_t stream, bool tf32, int part);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;
  /// Of those with same_with_equal_padding(); operands aligned to 16. `scratch` gives memory of so many
  /// bytes.
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
