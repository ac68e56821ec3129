#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/onnx/reader/folding/constant.h"

namespace pipesim {

using FoldInputs = std::vector<const OnnxConstant*>;  ///< nullptr: left out
using Folded = std::optional<OnnxConstant>;

/// How an operator computes with constants; `opset`: version of the standard domain.
struct FoldRule {
  Folded (*fold)(const onnx::NodeProto& node, std::int64_t opset, const FoldInputs& inputs);
  std::size_t needed;  ///< inputs that must be there
};
using FoldRules = std::unordered_map<std::string, FoldRule>;

FoldRules element_folds();  ///< arithmetic, comparisons, functions of elements

inline constexpr std::int64_t kMostFolded = 1LL << 24;  ///< elements of a result that is computed
/// Elements of a shape; nothing where there are more than are computed.
std::optional<std::size_t> folded_size(const OnnxShape& shape);
/// Zeros of x's type.
OnnxConstant empty_like(const OnnxConstant& x, OnnxShape shape, std::size_t size);
void copy_element(OnnxConstant& to, std::size_t at, const OnnxConstant& from, std::size_t source);
std::vector<std::int64_t> strides_of(const OnnxShape& shape);
/// A view of x: the element at an index is that at `start` plus the index's products with `strides`.
Folded strided(const OnnxConstant& x, const OnnxShape& shape, const std::vector<std::int64_t>& strides,
               std::int64_t start = 0);
/// The shape of both together, where dims of length 1 are stretched; nothing where they do not fit.
std::optional<OnnxShape> stretched(const OnnxShape& a, const OnnxShape& b);
Folded stretched_to(const OnnxConstant& x, const OnnxShape& shape);
std::vector<std::int64_t> integers_of(const OnnxConstant& x);

}  // namespace pipesim
