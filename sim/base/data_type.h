#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim {

/// Element types of tensors; also the key of a device's peak rate. No tensor is of the types from Float8 on:
/// operands are brought into them before they are multiplied. They differ in what shares a scale: a whole
/// tensor (Float8), 128 elements of the one operand and 128 by 128 of the other (Float8Block, DeepSeek-V3,
/// arXiv:2412.19437, section 3.3), 32 elements (MxFloat8, OCP Microscaling Formats 1.0), or 16 of four bits
/// each (NvFloat4, NVIDIA, arXiv:2509.25149, section 2).
enum class DataType : std::uint8_t {
  Float32,
  TensorFloat32,
  Float16,
  BFloat16,
  Float64,
  Int64,
  Int32,
  UInt8,
  Float8,
  Float8Block,
  MxFloat8,
  NvFloat4
};

std::int64_t bytes_per_element(DataType type);  ///< InternalError for NvFloat4, whose elements share bytes
/// Bytes of that many elements with the scales of their blocks, which last blocks have in full.
std::int64_t stored_bytes(DataType type, std::int64_t elements);
/// No tensor is of it: products alone are.
inline bool is_narrow(DataType type) { return type >= DataType::Float8; }
std::string_view name_of(DataType type);  ///< "float32", "tf32", "float16", "bfloat16", "float64", "int64",
                                          ///< "int32", "uint8", "float8", "fp8-block", "mxfp8", "nvfp4"
/// A type of tensors. InputError with the allowed names and a suggestion.
DataType parse_data_type(std::string_view name);
/// A type that a device may have a rate for: any.
DataType parse_rate_type(std::string_view name);

}  // namespace pipesim
