#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "executor/operators/attributes.h"
#include "executor/operators/device_code.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// Where one choice of one token goes.
struct TokenRoute {
  std::int32_t expert = -1, slot = -1;  ///< slot −1: the expert was full, the token is dropped there
};

/// Whether a token chooses expert i, of probability a, before expert j, of probability b. Among equals the
/// lower expert goes first; NaN goes last.
PIPESIM_DEVICE constexpr bool chosen_before(float a, std::int64_t i, float b, std::int64_t j) {
  constexpr float last = -std::numeric_limits<float>::infinity();
  const float x = a == a ? a : last, y = b == b ? b : last;
  return x > y || (x == y && i < j);
}

/// A shard of the operators that send tokens to experts and bring them back: p[groups, tokens, experts], use
/// 1, and z[groups, own experts from `first` on, capacity, width]. Where samples have several groups, z has a
/// dimension more, and these groups follow one another in all tensors alike. Every token goes to its top_k
/// experts, whose slots are filled in token order, per group. Every shard computes the same assignment.
struct RoutingSizes {
  RoutingSizes(const Operator& op, std::span<const Range> ranges, std::size_t use_of_z) {
    const Box p = box_of(op.uses[1], op, ranges), z = box_of(op.uses[use_of_z], op, ranges);
    const std::size_t dim = z.dims() - 3;  // of the experts
    groups = volume(z, 0, dim), tokens = volume(p, 0, 2) / groups;
    experts = p[2].length(), top_k = integer_of(op, "top_k");
    first = z[dim].begin, own = z[dim].length(), capacity = z[dim + 1].length(), width = z[dim + 2].length();
  }
  std::int64_t groups, tokens, experts, top_k, first, own, capacity, width;

  [[nodiscard]] constexpr std::int64_t rows() const { return groups * tokens; }
  [[nodiscard]] constexpr std::int64_t routes() const { return rows() * top_k; }
  [[nodiscard]] constexpr std::int64_t slots() const { return groups * own * capacity; }
  /// The row of z[groups, own, capacity] of a route of that group; −1 where it leads out of the shard.
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t slot_row(std::int64_t group,
                                                               const TokenRoute& route) const {
    const std::int64_t expert = route.expert - first;
    if (route.slot < 0 || expert < 0 || expert >= own) return -1;
    return (group * own + expert) * capacity + route.slot;
  }
};

/// A shard of z[g, e, c, h] · w[e, h, f] + b[e, f] = y[g, e, c, f], where there are biases. g counts all
/// groups of all samples.
struct ExpertLinearSizes {
  ExpertLinearSizes(const Operator& op, std::span<const Range> ranges) {
    const Box z = box_of(op.uses[0], op, ranges), y = box_of(op.uses.back(), op, ranges);
    const std::size_t dim = z.dims() - 3;  // of the experts
    g = volume(z, 0, dim), e = z[dim].length(), c = z[dim + 1].length(), h = z[dim + 2].length();
    f = y[dim + 2].length();
  }
  std::int64_t g, e, c, h, f;
};

/// Biases are use 2. Where h is split, one shard has them.
inline bool has_expert_biases(const Operator& op) { return op.attributes.contains("bias"); }

}  // namespace pipesim
