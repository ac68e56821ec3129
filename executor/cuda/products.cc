#include "executor/cuda/products.h"

#include <algorithm>
#include <bit>

#include "executor/cuda/errors.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

cudaDataType_t product_type(Stored stored) {
  switch (stored) {
    case Stored::Float32:
      return CUDA_R_32F;
    case Stored::BFloat16:
      return CUDA_R_16BF;
    case Stored::Float16:
      return CUDA_R_16F;
    default:
      return CUDA_R_64F;
  }
}

std::int64_t alignment_of(const void* memory) {
  constexpr int most = std::countr_zero(256U);
  return std::int64_t{1} << std::min(most, std::countr_zero(reinterpret_cast<std::uintptr_t>(memory)));
}

// A matrix of one row may be said to have any distance to the next.
std::int64_t row_of(const MatrixProduct::Matrix& m, std::int64_t width) { return std::max(m.row, width); }

cublasLtMatrixLayoutOpaque_t layout(const MatrixProduct::Matrix& m, std::int64_t kept_rows,
                                    std::int64_t width, std::int64_t batch, const CudaGpu& gpu) {
  // A row-major matrix is a column-major one of swapped sides.
  if (kept_rows > 1 && m.row < width)
    throw InternalError("rows of " + std::to_string(width) + " elements overlap, " + std::to_string(m.row) +
                        " apart");
  cublasLtMatrixLayoutOpaque_t described;
  check(
      cublasLtMatrixLayoutInit(&described, product_type(m.elements.stored), static_cast<std::uint64_t>(width),
                               static_cast<std::uint64_t>(kept_rows), row_of(m, width)),
      "cublasLtMatrixLayoutInit", gpu);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check(cublasLtMatrixLayoutSetAttribute(&described, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute", gpu);
  };
  if (batch > 1) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch);
  }
  return described;
}

}  // namespace

Products::Products(const CudaGpu& gpu, int multiprocessors, bool tf32)
    : gpu_(gpu), multiprocessors_(multiprocessors), tf32_(tf32) {
  gpu.use();
  check(cublasLtCreate(&library_), "cublasLtCreate", gpu);
}

Products::~Products() {
  cudaSetDevice(gpu_.number);
  cublasLtDestroy(library_);
}

bool Products::multiply(const MatrixProduct& p, cudaStream_t stream, std::byte* workspace) {
  if (!computes(p)) return false;
  const Problem problem = problem_of(p);
  auto at = ways_.find(problem);
  if (at == ways_.end()) at = ways_.emplace(problem, find_way(p)).first;
  Way& way = at->second;
  if (!way.exists) return false;
  set_addresses(p, way);
  const double wide[] = {static_cast<double>(p.scale), p.accumulate ? 1.0 : 0.0};
  const float narrow[] = {p.scale, p.accumulate ? 1.0F : 0.0F};
  const bool double_sums = p.a.elements.stored == Stored::Float64;
  const auto factor = [&](std::size_t i) {
    return double_sums ? static_cast<const void*>(&wide[i]) : static_cast<const void*>(&narrow[i]);
  };
  // d = a · b is kept as its transpose, which is that of b times that of a.
  void* d = p.d.elements.memory;
  check(cublasLtMatmul(library_, &way.product, factor(0), p.b.elements.memory, &way.b, p.a.elements.memory,
                       &way.a, factor(1), d, &way.d, d, &way.d, &way.algorithm, workspace, kProductWorkspace,
                       stream),
        "cublasLtMatmul", gpu_);
  return true;
}

// Which types of operands and results go together, and what epilogues need of addresses.
bool Products::computes(const MatrixProduct& p) const {
  using enum MatrixProduct::Epilogue;
  const Stored in = p.a.elements.stored, out = p.d.elements.stored;
  const bool wider = out == Stored::Float32 && (in == Stored::BFloat16 || in == Stored::Float16);
  if (in != out && !wider) return false;
  if (p.epilogue == None) return true;
  // How exact gelu is, the library does not say: good enough for 16 bits only.
  if (p.epilogue == BiasGelu && out == Stored::Float32) return false;
  constexpr std::int64_t step = 8, aligned = 16;
  const bool bias = p.bias.stored == out && alignment_of(p.bias.memory) >= aligned;
  const bool gaps_fit = row_of(p.d, p.columns) % step == 0 && (p.batch == 1 || p.d.batch % step == 0);
  return bias && (p.epilogue == Bias ||
                  (p.before.stored == out && gaps_fit && alignment_of(p.before.memory) >= aligned));
}

Products::Problem Products::problem_of(const MatrixProduct& p) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  Problem problem{p.rows, p.columns, p.inner, p.batch, number(p.accumulate), number(p.epilogue)};
  std::size_t next = 6;
  for (const MatrixProduct::Matrix* m : {&p.a, &p.b, &p.d}) {
    for (const std::int64_t value : {number(m->elements.stored), number(m->transposed), m->row, m->batch,
                                     alignment_of(m->elements.memory)})
      problem.at(next++) = value;
  }
  problem.at(next++) = alignment_of(p.bias.memory);
  problem.at(next++) = alignment_of(p.before.memory);
  return problem;
}

Products::Way Products::find_way(const MatrixProduct& p) const {
  Way way;
  describe(p, way);
  set_addresses(p, way);
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit", gpu_);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", gpu_);
  };
  const auto alignment = [](const MatrixProduct::Matrix& m) {
    return static_cast<std::uint32_t>(alignment_of(m.elements.memory));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kProductWorkspace});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.d));
  // Parts of a sum are added in float32, also where the result has 16 bits.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library_, &way.product, &way.b, &way.a, &way.d,
                                                               &way.d, &preference, 1, &found, &count);
  way.exists = status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
  // What it does not support it also calls invalid.
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED &&
      status != CUBLAS_STATUS_INVALID_VALUE)
    throw_error(status, "cublasLtMatmulAlgoGetHeuristic", gpu_);
  way.algorithm = found.algo;
  return way;
}

void Products::describe(const MatrixProduct& p, Way& way) const {
  using enum MatrixProduct::Epilogue;
  const Stored in = p.a.elements.stored;
  const bool tf32 = in == Stored::Float32 && tf32_;
  const cublasComputeType_t sums = in == Stored::Float64 ? CUBLAS_COMPUTE_64F
                                   : tf32                ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&way.product, sums, in == Stored::Float64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescInit", gpu_);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulDescSetAttribute(&way.product, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", gpu_);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (multiprocessors_ > 0)
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(multiprocessors_));
  if (p.epilogue != None)
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        p.epilogue == Bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  if (p.epilogue == BiasGelu) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, row_of(p.d, p.columns));
    if (p.batch > 1) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, p.d.batch);
  }
  way.a = p.a.transposed ? layout(p.a, p.inner, p.rows, p.batch, gpu_)
                         : layout(p.a, p.rows, p.inner, p.batch, gpu_);
  way.b = p.b.transposed ? layout(p.b, p.columns, p.inner, p.batch, gpu_)
                         : layout(p.b, p.inner, p.columns, p.batch, gpu_);
  way.d = layout(p.d, p.rows, p.columns, p.batch, gpu_);
}

void Products::set_addresses(const MatrixProduct& p, Way& way) const {
  using enum MatrixProduct::Epilogue;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* address) {
    check(cublasLtMatmulDescSetAttribute(&way.product, attribute, &address, sizeof address),
          "cublasLtMatmulDescSetAttribute", gpu_);
  };
  if (p.epilogue != None) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.memory);
  if (p.epilogue == BiasGelu) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.before.memory);
}

}  // namespace pipesim::gpu
