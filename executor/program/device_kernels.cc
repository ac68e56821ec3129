#include "executor/program/device_kernels.h"

namespace pipesim {

DataType DeviceKernels::kernel_type(DataType stored) const {
  switch (stored) {
    case DataType::Int64:
    case DataType::Int32:
    case DataType::UInt8:
      return DataType::Int64;
    default:
      return DataType::Float32;
  }
}

}  // namespace pipesim
