#include "executor/backend.h"

#include "executor/thread_execution.h"

namespace pipesim {

DataType Backend::kernel_type(DataType stored) const {
  switch (stored) {
    case DataType::Int64:
    case DataType::Int32:
    case DataType::UInt8:
      return DataType::Int64;
    default:
      return DataType::Float32;
  }
}

std::unique_ptr<Execution> ThreadBackend::make_execution(const ExecutionParts& parts) {
  return std::make_unique<ThreadExecution>(*this, parts);
}

}  // namespace pipesim
