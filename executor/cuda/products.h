#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "executor/cuda/gpus.h"
#include "executor/gpu/machine/library_calls.h"

namespace pipesim::gpu {

inline constexpr std::size_t kProductWorkspace = std::size_t{32} << 20;  ///< bytes, aligned to 256

/// Matrix products of a device by cuBLASLt. For each problem (shape, types, strides and alignment) the
/// library's heuristics are asked once for an algorithm, and the answer is kept. So equal calls are computed
/// in the same way.
class Products {
 public:
  /// `multiprocessors`: of a part of a GPU; 0: all. `tf32`: as MachineSetting.
  Products(const CudaGpu& gpu, int multiprocessors, bool tf32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  /// Returns false, with nothing done, when the library can't compute the epilogue at these addresses, or
  /// these types. Neither rows, columns nor inner may be 0.
  bool multiply(const MatrixProduct& product, cudaStream_t stream, std::byte* workspace);

 private:
  // All that the library's choice depends on.
  using Problem = std::array<std::int64_t, 24>;
  struct Way {
    bool exists = false;
    cublasLtMatmulDescOpaque_t product{};
    cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};
    cublasLtMatmulAlgo_t algorithm{};
  };
  [[nodiscard]] static Problem problem_of(const MatrixProduct& p);
  [[nodiscard]] Way find_way(const MatrixProduct& p) const;
  void describe(const MatrixProduct& p, Way& way) const;
  void set_addresses(const MatrixProduct& p, Way& way) const;
  [[nodiscard]] bool computes(const MatrixProduct& p) const;

  CudaGpu gpu_;
  int multiprocessors_;
  bool tf32_;
  cublasLtHandle_t library_ = nullptr;
  std::map<Problem, Way> ways_;
};

}  // namespace pipesim::gpu
