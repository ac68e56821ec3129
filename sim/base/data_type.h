#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim {

/// Element types of tensors; also the key of a device's peak rate. No tensor is of float8: operands are
/// brought into it before they are multiplied.
enum class DataType : std::uint8_t {
  Float32,
  TensorFloat32,
  Float16,
  BFloat16,
  Float64,
  Int64,
  Int32,
  UInt8,
  Float8
};

std::int64_t bytes_per_element(DataType type);
std::string_view name_of(DataType type);  ///< "float32", "tf32", "float16", "bfloat16", "float64", "int64",
                                          ///< "int32", "uint8", "float8"
/// A type of tensors. InputError with the allowed names and a suggestion.
DataType parse_data_type(std::string_view name);
/// A type that a device may have a rate for: one of tensors, or float8.
DataType parse_rate_type(std::string_view name);

}  // namespace pipesim
