#include "executor/gpu/steps/kernel_call.h"

#include <string>

#include "sim/base/errors.h"

namespace pipesim::gpu {
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

}  // namespace pipesim::gpu
