#include "models/onnx/reader/folding/constant.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using onnx::TensorProto;

double half_value(std::uint16_t bits) {
  constexpr int bias = 15, digits = 10;
  const int exponent = (bits >> digits) & 0x1f, fraction = bits & 0x3ff;
  double value = exponent == 0      ? std::ldexp(fraction, 1 - bias - digits)
                 : exponent == 0x1f ? (fraction == 0 ? INFINITY : NAN)
                                    : std::ldexp(fraction + (1 << digits), exponent - bias - digits);
  return (bits & 0x8000U) != 0 ? -value : value;
}

double bfloat_value(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16U;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <class Stored, class Result, class Convert>
std::vector<Result> unpacked(const std::string& bytes, Convert convert) {
  std::vector<Result> values(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored one{};
    std::memcpy(&one, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Result>(convert(one));
  }
  return values;
}

const auto kSame = [](auto value) { return value; };

/// What "raw_data" holds.
OnnxConstant from_bytes(const TensorProto& tensor) {
  using Integer = std::int64_t;
  OnnxConstant result;
  const std::string& bytes = tensor.raw_data();
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      result.values = unpacked<float, double>(bytes, kSame);
      break;
    case TensorProto::DOUBLE:
      result.values = unpacked<double, double>(bytes, kSame);
      break;
    case TensorProto::FLOAT16:
      result.values = unpacked<std::uint16_t, double>(bytes, half_value);
      break;
    case TensorProto::BFLOAT16:
      result.values = unpacked<std::uint16_t, double>(bytes, bfloat_value);
      break;
    case TensorProto::BOOL:
    case TensorProto::UINT8:
      result.values = unpacked<std::uint8_t, Integer>(bytes, kSame);
      break;
    case TensorProto::INT8:
      result.values = unpacked<std::int8_t, Integer>(bytes, kSame);
      break;
    case TensorProto::INT16:
      result.values = unpacked<std::int16_t, Integer>(bytes, kSame);
      break;
    case TensorProto::UINT16:
      result.values = unpacked<std::uint16_t, Integer>(bytes, kSame);
      break;
    case TensorProto::INT32:
      result.values = unpacked<std::int32_t, Integer>(bytes, kSame);
      break;
    case TensorProto::UINT32:
      result.values = unpacked<std::uint32_t, Integer>(bytes, kSame);
      break;
    default:
      result.values = unpacked<std::int64_t, Integer>(bytes, kSame);
  }
  return result;
}

template <class Result, class List>
std::vector<Result> listed(const List& list) {
  return {list.begin(), list.end()};
}

/// What the typed lists hold.
OnnxConstant from_lists(const TensorProto& tensor) {
  OnnxConstant result;
  const auto halves = [&](auto convert) {
    std::vector<double> values;
    for (const std::int32_t bits : tensor.int32_data())
      values.push_back(convert(static_cast<std::uint16_t>(bits)));
    return values;
  };
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      result.values = listed<double>(tensor.float_data());
      break;
    case TensorProto::DOUBLE:
      result.values = listed<double>(tensor.double_data());
      break;
    case TensorProto::FLOAT16:
      result.values = halves(half_value);
      break;
    case TensorProto::BFLOAT16:
      result.values = halves(bfloat_value);
      break;
    case TensorProto::INT64:
      result.values = listed<std::int64_t>(tensor.int64_data());
      break;
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      result.values = listed<std::int64_t>(tensor.uint64_data());
      break;
    default:
      result.values = listed<std::int64_t>(tensor.int32_data());
  }
  return result;
}

bool has_readable_type(int type) { return is_floating_type(type) || is_integer_type(type); }

}  // namespace

std::int64_t OnnxConstant::integer(std::size_t i) const {
  if (!floating()) return std::get<0>(values)[i];
  constexpr double most = 9.2e18;
  const double value = std::get<1>(values)[i];
  return std::isnan(value) ? 0 : static_cast<std::int64_t>(std::min(std::max(value, -most), most));
}

std::optional<std::int64_t> onnx_elements(const OnnxShape& shape) {
  constexpr std::int64_t most = 1LL << 62;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && elements > most / extent)) return std::nullopt;
    elements *= extent;
  }
  return elements;
}

std::optional<std::size_t> onnx_axis(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

std::optional<OnnxShape> reshaped_shape(const OnnxShape& own, OnnxShape asked, bool zero_is_a_length) {
  std::optional<std::size_t> unknown;
  OnnxShape others;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == 0 && !zero_is_a_length) {
      if (i >= own.size()) return std::nullopt;
      asked[i] = own[i];
    }
    if (asked[i] >= 0) {
      others.push_back(asked[i]);
    } else if (unknown) {
      return std::nullopt;
    } else {
      unknown = i;
    }
  }
  const auto elements = onnx_elements(own), known = onnx_elements(others);
  if (!elements || !known || (unknown && *known == 0)) return std::nullopt;
  if (unknown) asked[*unknown] = *elements / *known;
  if (onnx_elements(asked) != elements) return std::nullopt;
  return asked;
}

std::optional<OnnxShape> squeezed_shape(const OnnxShape& own,
                                        const std::optional<std::vector<std::int64_t>>& axes) {
  std::vector<bool> gone(own.size(), !axes);
  for (const std::int64_t given : axes.value_or(std::vector<std::int64_t>())) {
    const auto axis = onnx_axis(given, own.size());
    if (!axis) return std::nullopt;
    gone[*axis] = true;
  }
  OnnxShape kept;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!gone[i] || own[i] != 1) kept.push_back(own[i]);
  }
  return kept;
}

std::optional<OnnxShape> unsqueezed_shape(const OnnxShape& own, const std::vector<std::int64_t>& axes) {
  std::vector<bool> added(own.size() + axes.size());
  for (const std::int64_t given : axes) {
    const auto axis = onnx_axis(given, added.size());
    if (!axis || added[*axis]) return std::nullopt;
    added[*axis] = true;
  }
  OnnxShape shape = own;
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (added[i]) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(i), 1);
  }
  return shape;
}

std::optional<OnnxShape> flattened_shape(const OnnxShape& own, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(own.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return std::nullopt;
  OnnxShape shape{1, 1};
  for (std::int64_t i = 0; i < rank; ++i) shape[i < axis ? 0 : 1] *= own[static_cast<std::size_t>(i)];
  return shape;
}

bool is_floating_type(int type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 ||
         type == TensorProto::BFLOAT16;
}

bool is_integer_type(int type) {
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return true;
    default:
      return false;
  }
}

std::optional<OnnxConstant> constant_of(const TensorProto& tensor) {
  if (!has_readable_type(tensor.data_type()) || tensor.has_segment()) return std::nullopt;
  if (tensor.data_location() == TensorProto::EXTERNAL || tensor.external_data_size() > 0) return std::nullopt;
  const OnnxShape shape(tensor.dims().begin(), tensor.dims().end());
  const auto elements = onnx_elements(shape);
  if (!elements) throw InputError(fmt::format("tensor \"{}\" has no possible shape", tensor.name()));
  OnnxConstant constant = tensor.has_raw_data() ? from_bytes(tensor) : from_lists(tensor);
  const auto found = static_cast<std::int64_t>(constant.size());
  if (found == 0 && *elements > 0) return std::nullopt;
  if (found != *elements) {
    throw InputError(
        fmt::format("tensor \"{}\" has {} values, its shape asks for {}", tensor.name(), found, *elements));
  }
  constant.shape = shape;
  constant.type = tensor.data_type();
  return constant;
}

TensorProto tensor_of(const OnnxConstant& constant) {
  TensorProto tensor;
  for (const std::int64_t extent : constant.shape) tensor.add_dims(extent);
  tensor.set_data_type(constant.type);
  for (std::size_t i = 0; i < constant.size(); ++i) {
    switch (constant.type) {
      case TensorProto::FLOAT:
        tensor.add_float_data(static_cast<float>(constant.real(i)));
        break;
      case TensorProto::DOUBLE:
        tensor.add_double_data(constant.real(i));
        break;
      case TensorProto::INT64:
        tensor.add_int64_data(constant.integer(i));
        break;
      case TensorProto::UINT32:
      case TensorProto::UINT64:
        tensor.add_uint64_data(static_cast<std::uint64_t>(constant.integer(i)));
        break;
      default:
        tensor.add_int32_data(static_cast<std::int32_t>(constant.integer(i)));
    }
  }
  return tensor;
}

OnnxConstant integer_constant(OnnxShape shape, std::vector<std::int64_t> values) {
  return {std::move(shape), TensorProto::INT64, std::move(values)};
}

namespace {

/// Whether values with keys up to the query pass one test, and all others the other.
template <class Seen, class Hidden>
bool is_lower_triangle(const OnnxConstant& constant, const Seen& seen, const Hidden& hidden) {
  const OnnxShape& shape = constant.shape;
  if (shape.size() < 2 || shape.back() < 2 || shape.back() != shape[shape.size() - 2]) return false;
  const std::int64_t length = shape.back();
  if (static_cast<std::int64_t>(constant.size()) != length * length) return false;
  for (std::int64_t query = 0; query < length; ++query) {
    for (std::int64_t key = 0; key < length; ++key) {
      const double value = constant.real(static_cast<std::size_t>(query * length + key));
      if (key <= query ? !seen(value) : !hidden(value)) return false;
    }
  }
  return true;
}

}  // namespace

bool is_causal_mask(const OnnxConstant& constant) {
  constexpr double masked = -1e4;
  return is_lower_triangle(
      constant, [](double v) { return v == 0; }, [](double v) { return v <= masked; });
}

bool is_triangle_of_ones(const OnnxConstant& constant) {
  return is_lower_triangle(
      constant, [](double v) { return v == 1; }, [](double v) { return v == 0; });
}

bool is_score_mask(const OnnxConstant& constant) {
  constexpr double masked = -100;  // as windows that are shifted have it
  bool any = false;
  for (std::size_t i = 0; i < constant.size(); ++i) {
    const double value = constant.real(i);
    if (value != 0 && !(value <= masked)) return false;
    any = any || value != 0;
  }
  return any && constant.size() > 1;
}

bool is_wave_table(const OnnxConstant& constant) {
  if (constant.shape.size() < 2 || !constant.floating()) return false;
  const auto width = static_cast<std::size_t>(constant.shape.back());
  if (width < 2 || constant.size() < 2 * width) return false;
  for (std::size_t i = 0; i < width; ++i) {
    if (const double value = constant.real(i); value != 0 && value != 1) return false;
  }
  // The first frequency is 1. Numbers of 16 bits are this near.
  constexpr double near = 4e-3;
  const double first = constant.real(width);
  return std::abs(first - std::sin(1.0)) < near || std::abs(first - std::cos(1.0)) < near;
}

}  // namespace pipesim
