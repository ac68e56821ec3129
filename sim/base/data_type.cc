#include "sim/base/data_type.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

struct TypeRow {
  DataType type;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array kTypes{
    TypeRow{DataType::Float32, "float32", 4}, TypeRow{DataType::TensorFloat32, "tf32", 4},
    TypeRow{DataType::Float16, "float16", 2}, TypeRow{DataType::BFloat16, "bfloat16", 2},
    TypeRow{DataType::Float64, "float64", 8}, TypeRow{DataType::Int64, "int64", 8},
    TypeRow{DataType::Int32, "int32", 4},     TypeRow{DataType::UInt8, "uint8", 1},
    TypeRow{DataType::Float8, "float8", 1},   TypeRow{DataType::Float8Block, "fp8-block", 1},
    TypeRow{DataType::MxFloat8, "mxfp8", 1},  TypeRow{DataType::NvFloat4, "nvfp4", 0}};
constexpr std::size_t kTensorTypes = 8;

struct BlockScales {
  std::int64_t block, bytes;  ///< elements that share a scale, and its size
};

const TypeRow& row(DataType type) { return kTypes[static_cast<std::size_t>(type)]; }

DataType parse(std::string_view name, std::span<const TypeRow> types) {
  std::vector<std::string> names;
  for (const TypeRow& r : types) {
    if (r.name == name) return r.type;
    names.emplace_back(r.name);
  }
  throw InputError(fmt::format("unknown data type \"{}\"{}; allowed: {}", name, did_you_mean(name, names),
                               list_names(names)));
}

}  // namespace

std::int64_t bytes_per_element(DataType type) {
  if (type == DataType::NvFloat4) throw InternalError("elements of nvfp4 have no bytes of their own");
  return row(type).bytes;
}

std::int64_t stored_bytes(DataType type, std::int64_t elements) {
  const auto with_scales = [elements](std::int64_t bytes, BlockScales scales) {
    return bytes + (elements + scales.block - 1) / scales.block * scales.bytes;
  };
  switch (type) {
    case DataType::Float8Block:
      return with_scales(elements, {128, 4});
    case DataType::MxFloat8:
      return with_scales(elements, {32, 1});
    case DataType::NvFloat4:
      return with_scales((elements + 1) / 2, {16, 1});
    default:
      return elements * bytes_per_element(type);
  }
}

std::string_view name_of(DataType type) { return row(type).name; }

DataType parse_data_type(std::string_view name) {
  static_assert(kTypes[kTensorTypes].type == DataType::Float8);
  return parse(name, std::span(kTypes).first(kTensorTypes));
}

DataType parse_rate_type(std::string_view name) { return parse(name, kTypes); }

}  // namespace pipesim
