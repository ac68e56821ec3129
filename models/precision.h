#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/data_type.h"

namespace pipesim {

/// A way to multiply in fewer bits: the type, and what the kernels do that bring an operand into it, both as
/// it lies and transposed, since the product of another pass reads it transposed.
struct Precision {
  std::string_view name;  ///< of the attribute "products"
  DataType type;
  double reads;    ///< times that the kernels read the operand
  double written;  ///< bytes that they write of an element, scales of blocks included
  double kernels;
  std::string_view description;
};

/// - float8: each tensor has a scale from its own largest magnitude, which a kernel finds first (Transformer
///   Engine's Float8CurrentScaling, torchao's tensorwise recipe);
/// - fp8-delayed: the scale follows from earlier iterations, so that one kernel does it (DelayedScaling);
/// - fp8-block: blocks of 128 (DeepSeek-V3, arXiv:2412.19437, section 3.3; Float8BlockScaling);
/// - mxfp8: blocks of 32 (OCP Microscaling Formats 1.0; MXFP8BlockScaling);
/// - nvfp4: blocks of 16 and a scale of the tensor, for which a kernel finds the largest magnitude; what the
///   weights' gradients read is rotated in a kernel of its own (arXiv:2509.25149, sections 2 and 4).
inline constexpr std::array precisions{
    Precision{"float8", DataType::Float8, 2, 2, 2, "8 bits and a scale for each tensor"},
    Precision{"fp8-delayed", DataType::Float8, 1, 2, 1, "the same with scales of earlier iterations"},
    Precision{"fp8-block", DataType::Float8Block, 1, 2 * (1 + 4.0 / 128), 1,
              "8 bits and a scale for each block of 128"},
    Precision{"mxfp8", DataType::MxFloat8, 1, 2 * (1 + 1.0 / 32), 1,
              "8 bits and a scale for each block of 32"},
    Precision{"nvfp4", DataType::NvFloat4, 3, 2 * (0.5 + 1.0 / 16), 3,
              "4 bits and a scale for each block of 16"}};

/// Null when there is none of that name.
inline const Precision* find_precision(std::string_view name) {
  const auto* found = std::ranges::find(precisions, name, &Precision::name);
  return found == precisions.end() ? nullptr : found;
}

/// A second word for float8, which says what it is beside the others.
inline constexpr std::string_view tensor_scaled = "fp8-tensor";
/// The name that the attribute has for a word of the zoo's option.
inline std::string product_word(const std::string& option) {
  return option == tensor_scaled ? "float8" : option;
}

/// "own" and the names: the values of the attribute "products".
inline std::vector<std::string> product_words() {
  std::vector<std::string> words{"own"};
  for (const Precision& precision : precisions) words.emplace_back(precision.name);
  return words;
}

}  // namespace pipesim
