#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace pipesim {

using OnnxShape = std::vector<std::int64_t>;

/// A tensor whose values are known: shapes, positions, masks, scales.
struct OnnxConstant {
  OnnxShape shape;
  int type = onnx::TensorProto::INT64;  ///< onnx::TensorProto::DataType
  /// Integers and booleans, or floating-point numbers, in row-major order.
  std::variant<std::vector<std::int64_t>, std::vector<double>> values;

  [[nodiscard]] bool floating() const { return values.index() == 1; }
  [[nodiscard]] std::size_t size() const {
    return floating() ? std::get<1>(values).size() : std::get<0>(values).size();
  }
  [[nodiscard]] double real(std::size_t i) const {
    return floating() ? std::get<1>(values)[i] : static_cast<double>(std::get<0>(values)[i]);
  }
  [[nodiscard]] std::int64_t integer(std::size_t i) const;
};

/// Elements of a shape; nothing where there are more than 2⁶², or where a dim is negative.
std::optional<std::int64_t> onnx_elements(const OnnxShape& shape);

/// Returns the dim, which may be counted from the end, as a number from 0 to below the rank; nothing for
/// others.
std::optional<std::size_t> onnx_axis(std::int64_t axis, std::size_t rank);
/// The shape that Reshape, Squeeze (of all dims of length 1 without axes), Unsqueeze and Flatten give.
/// Nothing where the request does not fit.
std::optional<OnnxShape> reshaped_shape(const OnnxShape& own, OnnxShape asked, bool zero_is_a_length);
std::optional<OnnxShape> squeezed_shape(const OnnxShape& own,
                                        const std::optional<std::vector<std::int64_t>>& axes);
std::optional<OnnxShape> unsqueezed_shape(const OnnxShape& own, const std::vector<std::int64_t>& axes);
std::optional<OnnxShape> flattened_shape(const OnnxShape& own, std::int64_t axis);

bool is_floating_type(int type);  ///< of an onnx::TensorProto::DataType
bool is_integer_type(int type);   ///< booleans, too

/// Returns nothing where the values are not in the file: they are weights, or lie in a file of their own, or
/// are texts or complex numbers. InputError where there are fewer values than the shape says, or more.
std::optional<OnnxConstant> constant_of(const onnx::TensorProto& tensor);

/// For shape inference, which reads integers and floats.
onnx::TensorProto tensor_of(const OnnxConstant& constant);

OnnxConstant integer_constant(OnnxShape shape, std::vector<std::int64_t> values);

/// Whether it is what is added to scores: 0 where a key does not come after its query, very negative or −∞
/// elsewhere. Its last two dims are equal; others have length 1.
bool is_causal_mask(const OnnxConstant& constant);
/// The same for a mask that is 1 there and 0 elsewhere.
bool is_triangle_of_ones(const OnnxConstant& constant);
/// Whether it is what is added to scores: 0 or very negative, in any order.
bool is_score_mask(const OnnxConstant& constant);
/// Whether it is a table of sines and cosines of positions: its first row is that of position 0.
bool is_wave_table(const OnnxConstant& constant);

}  // namespace pipesim
