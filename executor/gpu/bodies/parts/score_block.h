#pragma once

#include <cstdint>
#include <limits>

#include "executor/gpu/bodies/parts/device_step.h"
#include "executor/gpu/bodies/parts/divisor.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/attention.h"
#include "executor/operators/device_code.h"
#include "executor/operators/dropout_mask.h"
#include "models/box.h"

namespace pipesim::gpu {

/// The largest of no scores, and the log of their sum.
inline constexpr float kNothingSeen = -std::numeric_limits<float>::infinity();

/// Biases by distance, as a matrix of [head, member, ahead]: `ahead` is the key's position less the query's,
/// counted from the distance between the shard's last query and its first key. In zigzag order a shard's
/// queries are scattered, so the matrix has the distances of all queries.
struct DistanceBiases {
  std::int64_t heads = 1, members = 1, queries = 1, keys = 1;
  std::int64_t first_query = 0;  ///< its position
  std::int64_t ahead = 0;        ///< the first distance, in the whole sequence
  DistanceBiases() = default;
  explicit DistanceBiases(const AttentionSizes& a)
      : heads(a.g),
        members(a.r),
        queries(a.order.plain() ? a.s : a.t),
        keys(a.t),
        first_query(a.order.plain() ? a.first_query : 0),
        ahead(a.first_key - first_query - queries + 1) {}
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t distances() const { return queries + keys - 1; }
  /// Where the biases of a query at a position begin, with key 0.
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t first_of(std::int64_t head, std::int64_t member,
                                                               std::int64_t position) const {
    return (head * members + member) * distances() + queries - 1 - (position - first_query);
  }
};

/// Scores of some queries of some heads of some samples. There is a row for each (sample and head, query,
/// member); rows have `columns` keys and lie `stride` apart.
struct ScoreBlock {
  /// Heads are counted as sample · g + head, and queries in the shard. Neither range may be empty. Keys that
  /// no query sees are left out.
  ScoreBlock(const AttentionSizes& a, Range of_heads, Range of_queries)
      : sizes(a),
        first_head(of_heads.begin),
        heads(of_heads.length()),
        first_query(of_queries.begin),
        queries(of_queries.length()),
        columns(a.seen_by_any(of_queries)),
        stride(stride_of(columns)),
        by_group(groups() > 0 ? groups() : 1, rows() * groups()),
        by_member(a.r > 0 ? a.r : 1, rows()),
        by_query(queries, heads * queries),
        by_head(a.g > 0 ? a.g : 1, of_heads.end) {}
  AttentionSizes sizes;
  std::int64_t first_head = 0, heads = 0;     ///< sample · g + head
  std::int64_t first_query = 0, queries = 0;  ///< of the shard
  std::int64_t columns = 0, stride = 0;
  Divisor by_group, by_member, by_query, by_head;

  /// Rows begin at multiples of 16 bytes, which makes products of matrices and groups of elements faster.
  static constexpr std::int64_t stride_of(std::int64_t columns) {
    return groups_of(columns) * FloatGroup::size;
  }
  struct Row {
    std::int64_t sample, head, query, member;
    std::int64_t position;     ///< of the query, in the whole sequence
    std::int64_t first, seen;  ///< the first key that it sees and the one behind the last, by position
    std::int64_t statistic;    ///< in [b, s, g, r]
    [[nodiscard]] PIPESIM_DEVICE bool sees(std::int64_t key) const { return key >= first && key < seen; }
    /// The groups that have keys which it sees.
    [[nodiscard]] PIPESIM_DEVICE std::int64_t first_group() const { return first / FloatGroup::size; }
    [[nodiscard]] PIPESIM_DEVICE std::int64_t end_group() const { return groups_of(seen); }
  };
  [[nodiscard]] PIPESIM_DEVICE std::int64_t groups() const { return groups_of(columns); }  ///< of a row
  [[nodiscard]] std::int64_t rows_of_head() const { return queries * sizes.r; }
  [[nodiscard]] std::int64_t rows() const { return heads * rows_of_head(); }
  [[nodiscard]] PIPESIM_DEVICE Row row(std::int64_t i) const {
    const std::int64_t query_of_all = by_member.quotient(i), member = i - query_of_all * sizes.r;
    const std::int64_t head_of_all = by_query.quotient(query_of_all), flat = first_head + head_of_all;
    const std::int64_t query = first_query + query_of_all - head_of_all * queries;
    const std::int64_t sample = by_head.quotient(flat), head = flat - sample * sizes.g;
    return {sample,
            head,
            query,
            member,
            sizes.position(query),
            sizes.left_out(query),
            sizes.seen(query),
            ((sample * sizes.s + query) * sizes.g + head) * sizes.r + member};
  }
};

/// What happens to scores besides the products: a cap, biases or slopes by distance, sinks and dropout, if
/// there are any.
struct ScoreRules {
  float cap = 0;
  Floats sinks;                   ///< [head, member]
  const float* biases = nullptr;  ///< see DistanceBiases
  DistanceBiases distances;
  bool drops = false;
  DropoutRate rate;
  ScoreNumbers numbers;
  const DeviceStep* step = nullptr;

  /// What one row needs.
  struct Row {
    float cap;
    float sink;  ///< kNothingSeen where there is none
    const float* biases;
    bool drops;
    DropoutMask mask;
    std::uint64_t first;
    /// The scores of a group of the row's keys, capped.
    [[nodiscard]] PIPESIM_DEVICE FloatGroup capped(FloatGroup scores) const {
      if (cap == 0) return scores;
      for (float& score : scores.values) score = capped_score(score, cap);
      return scores;
    }
    /// Capped scores with their biases.
    [[nodiscard]] PIPESIM_DEVICE FloatGroup biased(const GroupPlace& keys, FloatGroup scores) const {
      if (biases == nullptr) return scores;
      for (std::int64_t k = 0; k < FloatGroup::size; ++k)
        if (k < keys.count) scores.values[k] += biases[keys.first + k];
      return scores;
    }
    [[nodiscard]] PIPESIM_DEVICE float dropped(std::int64_t key, float x) const {
      return drops ? mask(first + static_cast<std::uint64_t>(key), x) : x;
    }
  };
  [[nodiscard]] PIPESIM_DEVICE Row row(const ScoreBlock::Row& at) const {
    return {cap,
            sinks.present() ? sinks[at.head * distances.members + at.member] : kNothingSeen,
            biases == nullptr ? nullptr : biases + distances.first_of(at.head, at.member, at.position),
            drops,
            DropoutMask(rate, drops ? step->seed : 0, drops ? step->step : 0),
            drops ? numbers.first_of(at.sample, at.query, at.head, at.member) : 0};
  }
};

}  // namespace pipesim::gpu
