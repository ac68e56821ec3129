#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/units.h"

namespace pipesim {

/// What updates weights, and in which types it keeps its state of them.
///
/// The state of a weight is its moments and, where the weight is of a 16-bit type, the main weight: what the
/// optimizer changes, so that small changes are not lost in rounding. A kind converts to an optimizer whose
/// types are the usual ones.
struct Optimizer {
  enum class Kind : std::uint8_t {
    Sgd,
    Momentum,   ///< one moment
    Adam,       ///< two moments
    Adam8bit,   ///< two moments of a byte, and a float32 scale for each 256 of them (bitsandbytes'
                ///< block-wise optimizers: optim/optimizer.py, Optimizer2State.init_state)
    Adafactor,  ///< of a matrix the mean square of each row and column (Shazeer and Stern,
                ///< arXiv:1804.04235), of other weights one moment
    Lion,       ///< one moment (Chen et al., arXiv:2302.06675)
    Muon        ///< of a layer's matrix one moment, whose step is made orthogonal (Jordan et al., 2024, in
                ///< Megatron-LM's --optimizer muon); of embeddings, heads and vectors Adam's
  };
  using enum Kind;

  /// What is kept beside a weight of 16 bits. Wider weights are changed themselves.
  enum class Main : std::uint8_t {
    Float32,
    Float16,
    BFloat16,
    Remainder,  ///< the 16 bits of a float32 that a bfloat16 weight lacks, 2 bytes; float32 beside float16
                ///< (store_param_remainders of TransformerEngine's FusedAdam, from 2.1 on)
    None        ///< nothing: the weight itself is changed, and rounded in each step
  };

  Kind kind = Momentum;
  DataType first = DataType::Float32;   ///< of the first moment
  DataType second = DataType::Float32;  ///< of the second, which Adam, Adam8bit, Adafactor and Muon have
  Main main = Main::Float32;

  constexpr Optimizer() = default;
  constexpr Optimizer(Kind k) : kind(k) {}  // NOLINT: a kind stands for its usual types
  constexpr Optimizer(Kind k, DataType moments, Main m = Main::Float32)
      : kind(k), first(moments), second(moments), main(m) {}
  bool operator==(const Optimizer&) const = default;

  /// "adam", "adam,moments=bfloat16,main=none", "adam,moments=float8+float16"; usual types are left out.
  [[nodiscard]] std::string str() const;
};

/// Reads what str() writes. InputError that says what is allowed.
Optimizer parse_optimizer(std::string_view text);
/// The kinds by name, with a few words about each.
struct OptimizerKind {
  Optimizer::Kind kind;
  std::string_view name, summary;
};
const std::vector<OptimizerKind>& optimizer_kinds();

/// A weight, as far as the size of its state depends on it. A type stands for a weight that is no matrix of
/// a layer.
struct WeightShape {
  DataType type = DataType::Float32;
  /// Sizes of a matrix: what its product sums over, and what it makes. Experts have one each. Else 0.
  std::int64_t rows = 0, columns = 0;
  bool in_layer = false;  ///< a matrix that is neither an embedding's nor a head's
  constexpr WeightShape() = default;
  constexpr WeightShape(DataType t) : type(t) {}  // NOLINT
  constexpr WeightShape(DataType t, std::int64_t r, std::int64_t c, bool layer)
      : type(t), rows(r), columns(c), in_layer(layer) {}
  bool operator==(const WeightShape&) const = default;
};

/// Bytes of the state of a part of the weight with so many elements. What belongs to several elements, such
/// as the scale of a block, counts in shares and is rounded down in the end.
Bytes state_bytes(std::int64_t elements, const WeightShape& shape, const Optimizer& optimizer);

/// Bytes of an element of a weight's second moment, also where rows and columns stand for it; 0 where the
/// optimizer has none in a type of its own.
std::int64_t second_moment_bytes(const WeightShape& shape, const Optimizer& optimizer);

/// Whether the state depends on more of a weight than its type.
bool knows_shapes(const Optimizer& optimizer);
/// The type of what is kept beside weights of the type; for a remainder, one of its width. Nothing where
/// nothing is kept.
std::optional<DataType> main_type(DataType weight, const Optimizer& optimizer);
/// Whether the bits that the weights lack are kept beside them.
bool keeps_remainder(DataType weight, const Optimizer& optimizer);
/// The number of moments of a weight that are as large as the weight: 0, 1 or 2.
int num_moments(const Optimizer& optimizer);

}  // namespace pipesim
