#include "executor/cuda/convolutions.h"

#include <limits>

#include "executor/cuda/errors.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{256} << 20;  // bytes, where an algorithm needs no more

cudnnDataType_t image_type(Stored stored) {
  switch (stored) {
    case Stored::Float32:
      return CUDNN_DATA_FLOAT;
    case Stored::BFloat16:
      return CUDNN_DATA_BFLOAT16;
    case Stored::Float16:
      return CUDNN_DATA_HALF;
    default:
      return CUDNN_DATA_DOUBLE;
  }
}

int narrow(std::int64_t value) {
  if (value > std::numeric_limits<int>::max())
    throw DeviceError("cuDNN takes no side of " + std::to_string(value) + " elements");
  return static_cast<int>(value);
}

}  // namespace

// A handle belongs to the device (context) that is current when it is made, and cudnnSetStream() refuses a
// stream that does not match it (cuDNN's API reference). Whether a green context's stream matches is not
// documented, so cuDNN is asked.
Convolutions::Convolutions(const CudaGpu& gpu, cudaStream_t stream, bool tf32, int part)
    : gpu_(gpu), tf32_(tf32) {
  gpu.use();
  cudnnHandle_t made = nullptr;
  check(cudnnCreate(&made), "cudnnCreate", gpu);
  library_.reset(made);
  try {
    check(cudnnSetStream(made, stream), "cudnnSetStream", gpu);
  } catch (const DeviceError& error) {
    if (part < 0) throw;
    throw DeviceError(std::string(error.what()) + "; this cuDNN takes no stream of part " +
                      std::to_string(part) +
                      " of the GPU: convolutions need whole GPUs, without --virtual-devices");
  }
}

Convolutions::~Convolutions() { cudaSetDevice(gpu_.number); }

void Convolutions::convolve(const Convolution& c, const std::function<std::byte*(std::size_t)>& scratch) {
  const Problem problem = problem_of(c);
  auto at = ways_.find(problem);
  if (at == ways_.end()) at = ways_.emplace(problem, find_way(c)).first;
  const Way& way = at->second;
  std::byte* workspace = way.workspace > 0 ? scratch(way.workspace) : nullptr;
  run(c, way, workspace);
}

Convolutions::Problem Convolutions::problem_of(const Convolution& c) {
  Problem problem{static_cast<std::int64_t>(c.wanted),
                  static_cast<std::int64_t>(c.x.stored),
                  c.samples,
                  c.groups,
                  c.in,
                  c.out};
  std::size_t next = 6;
  for (const auto& pair : {c.image, c.result, c.kernel, c.stride, c.dilation, c.pad_low}) {
    for (const std::int64_t value : pair) problem.at(next++) = value;
  }
  return problem;
}

void Convolutions::describe(const Convolution& c, Way& way) const {
  const cudnnDataType_t type = image_type(c.x.stored);
  const auto make = [&](auto& owned, auto create, const char* call) {
    typename std::remove_reference_t<decltype(owned)>::pointer made = nullptr;
    check(create(&made), call, gpu_);
    owned.reset(made);
  };
  make(way.x, cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  make(way.y, cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  make(way.w, cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor");
  make(way.windows, cudnnCreateConvolutionDescriptor, "cudnnCreateConvolutionDescriptor");
  const auto tensor = [&](cudnnTensorDescriptor_t t, std::int64_t channels,
                          const std::array<std::int64_t, 2>& size) {
    check(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, type, narrow(c.samples),
                                     narrow(c.groups * channels), narrow(size[0]), narrow(size[1])),
          "cudnnSetTensor4dDescriptor", gpu_);
  };
  tensor(way.x.get(), c.in, c.image);
  tensor(way.y.get(), c.out, c.result);
  check(cudnnSetFilter4dDescriptor(way.w.get(), type, CUDNN_TENSOR_NCHW, narrow(c.groups * c.out),
                                   narrow(c.in), narrow(c.kernel[0]), narrow(c.kernel[1])),
        "cudnnSetFilter4dDescriptor", gpu_);
  check(cudnnSetConvolution2dDescriptor(way.windows.get(), narrow(c.pad_low[0]), narrow(c.pad_low[1]),
                                        narrow(c.stride[0]), narrow(c.stride[1]), narrow(c.dilation[0]),
                                        narrow(c.dilation[1]), CUDNN_CROSS_CORRELATION,
                                        c.x.stored == Stored::Float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor", gpu_);
  check(cudnnSetConvolutionGroupCount(way.windows.get(), narrow(c.groups)), "cudnnSetConvolutionGroupCount",
        gpu_);
  // The default is TensorFloat32 where the GPU has it.
  const cudnnMathType_t math =
      c.x.stored == Stored::Float32 ? (tf32_ ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH) : CUDNN_TENSOR_OP_MATH;
  check(cudnnSetConvolutionMathType(way.windows.get(), math), "cudnnSetConvolutionMathType", gpu_);
}

Convolutions::Way Convolutions::find_way(const Convolution& c) const {
  Way way;
  describe(c, way);
  auto *x = way.x.get(), *y = way.y.get();
  auto* w = way.w.get();
  auto* windows = way.windows.get();
  auto* library = library_.get();
  switch (c.wanted) {
    case Convolution::Wanted::Result:
      choose<cudnnConvolutionFwdAlgoPerf_t>(
          c, way, "cudnnGetConvolutionForwardAlgorithm_v7",
          [&](int wanted, int* count, auto* found) {
            return cudnnGetConvolutionForwardAlgorithm_v7(library, x, w, windows, y, wanted, count, found);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(library, x, w, windows, y, algorithm, bytes);
          });
      break;
    case Convolution::Wanted::InputGradient:
      choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          c, way, "cudnnGetConvolutionBackwardDataAlgorithm_v7",
          [&](int wanted, int* count, auto* found) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(library, w, y, windows, x, wanted, count,
                                                               found);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardDataWorkspaceSize(library, w, y, windows, x, algorithm, bytes);
          });
      break;
    case Convolution::Wanted::WeightGradient:
      choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          c, way, "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
          [&](int wanted, int* count, auto* found) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library, x, y, windows, w, wanted, count,
                                                                 found);
          },
          [&](auto algorithm, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(library, x, y, windows, w, algorithm,
                                                                  bytes);
          });
  }
  return way;
}

// The first, fastest, that is deterministic and needs little memory, or else the one that needs least.
template <class Found, class Ask, class Workspace>
void Convolutions::choose(const Convolution& c, Way& way, const char* call, Ask ask,
                          Workspace workspace) const {
  std::array<Found, 16> found{};
  int count = 0;
  check(ask(static_cast<int>(found.size()), &count, found.data()), call, gpu_);
  const bool fixed = c.x.stored == Stored::Float32 && !tf32_;  // to CUDNN_FMA_MATH, by describe()
  const Found* best = nullptr;
  for (const Found& f : found) {
    if (&f - found.data() >= count) break;
    const bool exact = !fixed || f.mathType == CUDNN_FMA_MATH || f.mathType == CUDNN_DEFAULT_MATH;
    if (f.status != CUDNN_STATUS_SUCCESS || f.determinism != CUDNN_DETERMINISTIC || !exact) continue;
    if (best == nullptr || (best->memory > kMostWorkspace && f.memory < best->memory)) best = &f;
  }
  if (best == nullptr)
    throw DeviceError(std::string(call) + " on " + gpu_.str() +
                      ": cuDNN has no deterministic algorithm for " + std::to_string(c.samples) +
                      " images of " + std::to_string(c.image[0]) + " x " + std::to_string(c.image[1]) +
                      ", kernel " + std::to_string(c.kernel[0]) + " x " + std::to_string(c.kernel[1]));
  if (!fixed)
    check(cudnnSetConvolutionMathType(way.windows.get(), best->mathType), "cudnnSetConvolutionMathType",
          gpu_);
  way.algorithm = static_cast<int>(best->algo);
  check(workspace(best->algo, &way.workspace), "cudnnGetConvolutionWorkspaceSize", gpu_);
}

void Convolutions::run(const Convolution& c, const Way& way, std::byte* workspace) const {
  const double wide[] = {1, 0};
  const float slim[] = {1, 0};
  const bool double_sums = c.x.stored == Stored::Float64;
  const void* one = double_sums ? static_cast<const void*>(&wide[0]) : &slim[0];
  const void* zero = double_sums ? static_cast<const void*>(&wide[1]) : &slim[1];
  auto* library = library_.get();
  switch (c.wanted) {
    case Convolution::Wanted::Result:
      check(cudnnConvolutionForward(library, one, way.x.get(), c.x.memory, way.w.get(), c.w.memory,
                                    way.windows.get(), static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm),
                                    workspace, way.workspace, zero, way.y.get(), c.y.memory),
            "cudnnConvolutionForward", gpu_);
      return;
    case Convolution::Wanted::InputGradient:
      check(cudnnConvolutionBackwardData(library, one, way.w.get(), c.w.memory, way.y.get(), c.y.memory,
                                         way.windows.get(),
                                         static_cast<cudnnConvolutionBwdDataAlgo_t>(way.algorithm), workspace,
                                         way.workspace, zero, way.x.get(), c.x.memory),
            "cudnnConvolutionBackwardData", gpu_);
      return;
    case Convolution::Wanted::WeightGradient:
      check(cudnnConvolutionBackwardFilter(library, one, way.x.get(), c.x.memory, way.y.get(), c.y.memory,
                                           way.windows.get(),
                                           static_cast<cudnnConvolutionBwdFilterAlgo_t>(way.algorithm),
                                           workspace, way.workspace, zero, way.w.get(), c.w.memory),
            "cudnnConvolutionBackwardFilter", gpu_);
  }
}

}  // namespace pipesim::gpu
