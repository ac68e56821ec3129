#include "executor/gpu/machine/cuda_library.h"

#include "executor/backend/plugins.h"
#include "sim/base/errors.h"

namespace pipesim {

const CudaLibrary& load_cuda_library() {
  constexpr Plugin cuda{"libpipesim_cuda.so", "pipesim_cuda_library",
                        "where the CUDA Toolkit, cuDNN and NCCL are installed",
                        "are the libraries of the CUDA Toolkit, cuDNN and NCCL installed?"};
  const CudaLibrary* library =
      reinterpret_cast<decltype(&pipesim_cuda_library)>(load_plugin(cuda))(CudaLibrary::kVersion);
  if (library == nullptr) throw DeviceError("libpipesim_cuda.so belongs to another version of pipesim");
  return *library;
}

}  // namespace pipesim
