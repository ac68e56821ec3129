#pragma once

#include <cmath>
#include <cstdint>

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/gpu/bodies/score_block.h"

namespace pipesim::gpu {

/// A team for each row: shares = softmax of the scores that the query sees, 0 for other keys; may be in
/// place. Σ exp and the largest score are found in one pass (Milakov and Gimelshein, 2018).
struct SoftmaxOfScores {
  ScoreBlock block;
  ScoreRules rules;
  Floats scores, shares;
  double* largest = nullptr;  ///< by ScoreBlock::Row::statistic
  float* log_sums = nullptr;  ///< so, too: log of Σ exp
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const ScoreBlock::Row row = block.row(i);
    const ScoreRules::Row rule = rules.row(row);
    const std::int64_t first = i * block.stride;
    float own = kNothingSeen;
    double own_sum = 0;
    for (std::int64_t j = team.rank(); j < row.seen; j += team.size()) {
      const float score = rule.biased(j, scores[first + j]);
      if (score > own) {
        own_sum = own_sum * static_cast<double>(std::exp(own - score)) + 1;
        own = score;
      } else {
        own_sum += static_cast<double>(std::exp(score - own));
      }
    }
    const float most = team.max(own);
    const double sum = team.sum(own_sum > 0 ? own_sum * static_cast<double>(std::exp(own - most)) : own_sum);
    const auto share = static_cast<float>(1 / sum);
    for (std::int64_t j = team.rank(); j < block.columns; j += team.size()) {
      const float score = j < row.seen ? rule.biased(j, scores[first + j]) : 0.0F;
      shares.set(first + j, j < row.seen ? rule.dropped(j, std::exp(score - most) * share) : 0.0F);
    }
    if (team.rank() != 0) return;
    largest[row.statistic] = static_cast<double>(most);
    log_sums[row.statistic] =
        row.seen == 0 ? kNothingSeen : static_cast<float>(static_cast<double>(most) + std::log(sum));
  }
};

/// Of each row: its own Σ exp, from the largest score of all shards.
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
