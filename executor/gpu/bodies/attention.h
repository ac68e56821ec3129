#pragma once

#include <cmath>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/gpu/bodies/parts/score_block.h"

namespace pipesim::gpu {

/// A team for each row: shares = softmax of the scores that the query sees and of its sink, 0 for other keys;
/// may be in place. Σ exp and the largest score are found in one pass (Milakov and Gimelshein, 2018).
struct SoftmaxOfScores {
  static constexpr bool in_small_teams = true;
  ScoreBlock block;
  ScoreRules rules;
  Floats scores, shares;
  double* largest = nullptr;  ///< by ScoreBlock::Row::statistic
  float* log_sums = nullptr;  ///< log of Σ exp, by the same
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const ScoreBlock::Row row = block.row(i);
    const ScoreRules::Row rule = rules.row(row);
    const std::int64_t first = i * block.stride;
    float own = kNothingSeen;
    double own_sum = 0;
    const auto group_of = [&](const GroupPlace& keys) {
      return rule.biased(keys, rule.capped(read_group(scores, keys.in_row(first))));
    };
    for (std::int64_t g = row.first_group() + team.rank(); g < row.end_group(); g += team.size()) {
      const GroupPlace keys = group_at(g, block.columns);
      const FloatGroup group = group_of(keys);
      float most = own;
      for (int k = 0; k < FloatGroup::size; ++k)
        if (row.sees(keys.first + k) && group.values[k] > most) most = group.values[k];
      if (most > own) own_sum *= static_cast<double>(std::exp(own - most));
      own = most;
      float sum = 0;
      for (int k = 0; k < FloatGroup::size; ++k)
        sum += row.sees(keys.first + k) ? std::exp(group.values[k] - own) : 0.0F;
      own_sum += static_cast<double>(sum);
    }
    if (team.rank() == 0 && rule.sink > kNothingSeen) {
      const float larger = own > rule.sink ? own : rule.sink;
      own_sum = own_sum > 0 ? own_sum * static_cast<double>(std::exp(own - larger)) : 0;
      own_sum += static_cast<double>(std::exp(rule.sink - larger));
      own = larger;
    }
    const float most = team.max(own);
    const double sum = team.sum(own_sum > 0 ? own_sum * static_cast<double>(std::exp(own - most)) : own_sum);
    const auto share = static_cast<float>(1 / sum);
    for (std::int64_t g = team.rank(); g < groups_of(block.columns); g += team.size()) {
      const GroupPlace keys = group_at(g, block.columns);
      FloatGroup group{};
      if (g >= row.first_group() && g < row.end_group()) group = group_of(keys);
      for (int k = 0; k < FloatGroup::size; ++k) {
        const std::int64_t key = keys.first + k;
        const float score = group.values[k];
        group.values[k] = row.sees(key) ? rule.dropped(key, std::exp(score - most) * share) : 0.0F;
      }
      write_group(shares, keys.in_row(first), group);
    }
    if (team.rank() != 0) return;
    largest[row.statistic] = static_cast<double>(most);
    log_sums[row.statistic] =
        most == kNothingSeen ? kNothingSeen : static_cast<float>(static_cast<double>(most) + std::log(sum));
  }
};

/// Each row's own Σ exp, from the largest score of all shards.
struct SumsFromLargest {
  const double* largest = nullptr;
  const float* log_sums = nullptr;
  double* sums = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    sums[i] = log_sums[i] == kNothingSeen ? 0.0 : std::exp(static_cast<double>(log_sums[i]) - largest[i]);
  }
};

/// A team for each row of o: from the softmax over the shard's keys to its part of the softmax over all keys.
struct RescaleResults {
  static constexpr bool in_small_teams = true;
  const double *largest = nullptr, *sums = nullptr;  ///< of all shards
  float* log_sums = nullptr;                         ///< the shard's before, of all after
  Floats o;
  std::int64_t depth = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const float own = log_sums[row];
    const double all = largest[row] + std::log(sums[row]);
    const auto share =
        static_cast<float>(own == kNothingSeen ? 0.0 : std::exp(static_cast<double>(own) - all));
    for (std::int64_t j = row * depth + team.rank(); j < (row + 1) * depth; j += team.size())
      o.set(j, o[j] * share);
    team.barrier();  // all have read
    if (team.rank() == 0) log_sums[row] = static_cast<float>(all);
  }
};

using AttentionBodies = BodyList<SoftmaxOfScores, SumsFromLargest, RescaleResults>;

}  // namespace pipesim::gpu
