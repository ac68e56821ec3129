#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"
#include "executor/operators/device_code.h"
#include "models/causal_mask.h"

namespace pipesim {

/// Lengths of a shard's factors of attention: samples, queries, key-value heads, query heads of each, keys;
/// d is the length of queries and keys, e of values.
struct AttentionSizes {
  AttentionSizes(const Operator& op, std::span<const Range> ranges)
      : order(zigzag_of(op)), mask(causal_mask_of(op, op.uses[1].dims[1].extent)) {
    const Box q = box_of(op.uses[0], op, ranges), v = box_of(op.uses[2], op, ranges);
    b = q[0].length(), s = q[1].length(), g = q[2].length(), r = q[3].length(), d = q[4].length();
    t = v[1].length(), e = v[3].length();
    first_query = q[1].begin, first_key = v[1].begin;
    causal = integer_of(op, "causal") != 0;
    scale = 1 / std::sqrt(static_cast<float>(d));
    if (op.attributes.contains("cap")) cap = static_cast<float>(real_of(op, "cap"));
  }
  std::int64_t b = 0, s = 0, g = 0, r = 0, t = 0, d = 0, e = 0;
  std::int64_t first_query = 0, first_key = 0;  ///< where s and t begin in the whole
  bool causal = false;
  float scale = 1;
  float cap = 0;      ///< of scores; 0: none
  ZigzagOrder order;  ///< of positions; a shard has all keys unless they come as they are
  CausalMask mask;    ///< of positions

  /// The position of a query of this shard in the whole sequence.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t position(std::int64_t query) const {
    return order.position(first_query + query);
  }
  /// The number of keys of this shard up to its query's position; they are the first ones in the order of
  /// positions.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t seen(std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(position(query) - first_key + 1, 0, t) : t;
  }
  /// The number of these that the query doesn't see, since documents or a window leave them out.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t left_out(std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(mask.first(position(query)) - first_key, 0, seen(query)) : 0;
  }
  /// The number of keys that any of the queries sees. There must be at least one query.
  [[nodiscard]] std::int64_t seen_by_any(Range queries) const {
    std::int64_t most = seen(queries.end - 1);
    if (order.plain()) return most;
    for (std::int64_t query = queries.begin; query < queries.end; ++query) most = std::max(most, seen(query));
    return most;
  }
};

/// A score that a cap keeps between its negative and itself.
PIPESIM_DEVICE inline float capped_score(float score, float cap) { return cap * std::tanh(score / cap); }
/// The derivative, from the score that came of it.
PIPESIM_DEVICE inline float slope_of_capped(float capped, float cap) {
  const float part = capped / cap;
  return 1 - part * part;
}

/// Whether each head has a score that takes part in the softmax without a value. It is the last use but the
/// result. Where keys are split, one shard has it.
inline bool has_sinks(const Operator& op) { return op.attributes.contains("sinks"); }
inline std::size_t sink_use(const Operator& op) { return op.uses.size() - 2; }
/// Whether scores get biases, use 3: a use more than queries, keys, values, sinks and results.
inline bool has_biases(const Operator& op) { return op.uses.size() > (has_sinks(op) ? 5U : 4U); }
/// Whether these biases are learned, and chosen by distance.
inline bool is_relative_attention(const Operator& op) {
  return has_biases(op) && op.uses[3].role == Role::Weight;
}

/// Where the bias of a score is in the shard's piece of input 3, [g, r, s, t] or [b, g, r, s, t]: dims of
/// length 1 count for all.
class InputBiases {
 public:
  InputBiases(const Operator& op, std::span<const Range> ranges) {
    const Box box = box_of(op.uses[3], op, ranges);
    std::int64_t stride = 1;
    const std::size_t missing = steps_.size() - box.dims();
    for (std::size_t i = box.dims(); i-- > 0;) {
      if (op.uses[3].dims[i].kind != IndexExpr::Kind::Whole) steps_[missing + i] = stride;
      stride *= box[i].length();
    }
  }
  [[nodiscard]] std::int64_t of(std::int64_t sample, std::int64_t head, std::int64_t member,
                                std::int64_t query, std::int64_t key) const {
    return sample * steps_[0] + head * steps_[1] + member * steps_[2] + query * steps_[3] + key * steps_[4];
  }

 private:
  std::array<std::int64_t, 5> steps_{};
};

/// Chooses a score's learned bias by the distance of its key and query. Each short distance has a bias of its
/// own; the longer distances are, the more of them share one (Raffel et al., 2020, section 2.1, and their
/// code). Keys after the query, where they are seen, have the upper half.
class RelativeBuckets {
 public:
  explicit RelativeBuckets(const Operator& op)
      : count_(integer_of(op, "buckets")),
        farthest_(integer_of(op, "farthest")),
        side_(integer_of(op, "causal") != 0 ? count_ : count_ / 2) {}

  /// `ahead`: position of the key less that of the query.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t of(std::int64_t ahead) const {
    // Where a bucket begins at a whole distance, the logarithms' rounding must not decide.
    constexpr double rounding = 1e-9;
    const std::int64_t distance = ahead < 0 ? -ahead : ahead, single = side_ / 2;
    std::int64_t bucket = distance;
    if (distance >= single) {
      const double farness = std::log(static_cast<double>(distance) / static_cast<double>(single)) /
                             std::log(static_cast<double>(farthest_) / static_cast<double>(single));
      bucket = single + static_cast<std::int64_t>(farness * static_cast<double>(side_ - single) + rounding);
      bucket = bucket < side_ ? bucket : side_ - 1;
    }
    return ahead > 0 && side_ < count_ ? side_ + bucket : bucket;
  }

 private:
  std::int64_t count_, farthest_, side_;
};

/// Whether scores fall with the distance of key and query, each head's at its own slope.
inline bool is_alibi(const Operator& op) {
  return op.kind == "alibi_attention" || (op.kind == "scored_attention" && integer_of(op, "alibi") != 0);
}

/// The slopes of a shard's query heads (Press et al., ICLR 2022, section 3, and their code): n heads, a power
/// of two, have 2^(−8/n), 2^(−16/n), …, 2^−8. Other numbers of heads have the slopes of the next lower power
/// of two, then every second slope of twice that power.
class AlibiSlopes {
 public:
  AlibiSlopes(const Operator& op, std::span<const Range> ranges) : members_(op.uses[0].dims[3].extent) {
    const Box q = box_of(op.uses[0], op, ranges);
    first_head_ = q[2].begin, first_member_ = q[3].begin;
    while (2 * power_ <= op.uses[0].dims[2].extent * members_) power_ *= 2;
  }
  /// The slope of a member of a key-value head, both counted in the shard.
  [[nodiscard]] PIPESIM_DEVICE float of(std::int64_t head, std::int64_t member) const {
    const std::int64_t i = (first_head_ + head) * members_ + first_member_ + member;
    const double step = 8 / static_cast<double>(power_);
    const double exponent =
        i < power_ ? static_cast<double>(i + 1) * step : (static_cast<double>(i - power_) + 0.5) * step;
    return static_cast<float>(std::exp2(-exponent));
  }

 private:
  std::int64_t members_, first_head_ = 0, first_member_ = 0;
  std::int64_t power_ = 1;  ///< the largest power of two that is not more than the heads
};

/// The numbers of a shard's scores in [b, s, g, r, t] of all microbatches, by which dropout knows them.
class ScoreNumbers {
 public:
  ScoreNumbers(const Operator& op, std::span<const Range> ranges, std::int64_t microbatch) {
    const TensorUse &q = op.uses[0], &k = op.uses[1];
    const Box rows = box_of(q, op, ranges);
    samples_ = microbatch * q.dims[0].extent + rows[0].begin, queries_ = rows[1].begin;
    heads_ = rows[2].begin, members_ = rows[3].begin;
    first_key_ = box_of(k, op, ranges)[1].begin;
    all_queries_ = q.dims[1].extent, all_heads_ = q.dims[2].extent, all_members_ = q.dims[3].extent;
    all_keys_ = k.dims[1].extent;
  }
  /// The number of the score with the shard's first key; those with its other keys follow.
  [[nodiscard]] PIPESIM_DEVICE std::uint64_t first_of(std::int64_t sample, std::int64_t query,
                                                      std::int64_t head, std::int64_t member) const {
    std::int64_t row = samples_ + sample;
    row = row * all_queries_ + queries_ + query;
    row = row * all_heads_ + heads_ + head;
    row = row * all_members_ + members_ + member;
    return static_cast<std::uint64_t>(row * all_keys_ + first_key_);
  }

 private:
  std::int64_t samples_ = 0, queries_ = 0, heads_ = 0, members_ = 0, first_key_ = 0;
  std::int64_t all_queries_ = 1, all_heads_ = 1, all_members_ = 1, all_keys_ = 1;
};

/// Share of the softmax's elements that scored attention drops; 0 for other kinds.
inline double dropped_scores(const Operator& op) {
  const auto rate = op.attributes.find("dropout");
  return rate == op.attributes.end() ? 0.0 : std::get<double>(rate->second);
}

}  // namespace pipesim
