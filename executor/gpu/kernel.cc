#include "executor/gpu/kernel.h"

#include <string>

#include "executor/gpu/kernels/families.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

const KernelTable<Kernel>& kernels() {
  static const KernelTable<Kernel> table(kernel_families);
  return table;
}

}  // namespace

Stored stored_as(DataType type) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return Stored::Float32;
    case DataType::BFloat16:
      return Stored::BFloat16;
    case DataType::Float16:
      return Stored::Float16;
    case DataType::Float64:
      return Stored::Float64;
    default:
      throw InternalError("elements of type " + std::string(name_of(type)) +
                          " are no floating-point numbers");
  }
}

Floats Piece::floats() const { return present() ? Floats{memory, stored_as(type)} : Floats{}; }

const Kernel* find_kernel(std::string_view kind) { return kernels().find(kind); }

std::vector<std::string_view> kernel_kinds() { return kernels().kinds(); }

}  // namespace pipesim::gpu
