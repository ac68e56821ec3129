#pragma once

#include <cmath>
#include <cstdint>

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/gpu/bodies/score_block.h"

namespace pipesim::gpu {

/// A team for each row: Σ do·o.
struct ProductsOfResults {
  Floats o, gradient;
  std::int64_t depth = 0;
  double* sums = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t j = row * depth + team.rank(); j < (row + 1) * depth; j += team.size())
      sum += static_cast<double>(o[j]) * static_cast<double>(gradient[j]);
    sum = team.sum(sum);
    if (team.rank() == 0) sums[row] = sum;
  }
};

/// A team for each row: from scores and from do·vᵀ what dropout leaves of the softmax, and the gradient of
/// q·kᵀ, both 0 for keys that the query does not see; both may be in place.
struct GradientsOfScores {
  ScoreBlock block;
  ScoreRules rules;
  Floats scores, share_gradients;
  Floats shares, gradients;
  const float* log_sums = nullptr;   ///< of all keys, by ScoreBlock::Row::statistic
  const double* averages = nullptr;  ///< Σ do·o, so, too
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const ScoreBlock::Row row = block.row(i);
    const ScoreRules::Row rule = rules.row(row);
    const std::int64_t first = i * block.stride;
    const float log_sum = log_sums[row.statistic];
    const auto average = static_cast<float>(averages[row.statistic]);
    for (std::int64_t j = team.rank(); j < block.columns; j += team.size()) {
      float share = 0, gradient = 0;
      if (j < row.seen) {
        share = std::exp(rule.biased(j, scores[first + j]) - log_sum);
        gradient = share * (rule.dropped(j, share_gradients[first + j]) - average) * block.sizes.scale;
        share = rule.dropped(j, share);
      }
      shares.set(first + j, share);
      gradients.set(first + j, gradient);
    }
  }
};

/// The bias of every head and member at every distance, see DistanceBiases.
struct SpreadBiases {
  Floats biases;  ///< [bucket, head, member]
  DistanceBiases distances;
  RelativeBuckets buckets;
  float* spread = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / distances.distances(), ahead = distances.ahead + i % distances.distances();
    spread[i] = biases[buckets.of(ahead) * distances.heads * distances.members + row];
  }
};

/// sums[sample and head, member, ahead] = Σ over the block's queries of the gradients of scores at that
/// distance, less their scale. Added to what earlier blocks of the same heads left.
struct SumsByDistance {
  ScoreBlock block;
  Floats gradients;
  DistanceBiases distances;
  double* sums = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / distances.distances(), at = i % distances.distances();
    const std::int64_t r = block.sizes.r, flat = row / r, member = row % r;
    // Query q meets key q + at − (s − 1).
    const std::int64_t apart = at - (distances.queries - 1), last = block.first_query + block.queries;
    const std::int64_t begin = block.first_query > -apart ? block.first_query : -apart;
    const std::int64_t end = last < block.columns - apart ? last : block.columns - apart;
    double sum = 0;
    for (std::int64_t query = begin; query < end; ++query) {
      const std::int64_t score_row = (flat * block.queries + query - block.first_query) * r + member;
      sum += static_cast<double>(gradients[score_row * block.stride + query + apart]);
    }
    double& all = sums[(block.first_head * r + row) * distances.distances() + at];
    sum /= static_cast<double>(block.sizes.scale);
    all = block.first_query == 0 ? sum : all + sum;
  }
};

/// A team for each bias: Σ over samples and distances of its bucket of the sums by distance.
struct GradientsOfBiases {
  DistanceBiases distances;
  RelativeBuckets buckets;
  std::int64_t samples = 0;
  const double* sums = nullptr;  ///< see SumsByDistance
  Floats gradients;              ///< [bucket, head, member]
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const std::int64_t rows = distances.heads * distances.members, bucket = i / rows, row = i % rows;
    double sum = 0;
    for (std::int64_t at = team.rank(); at < distances.distances(); at += team.size()) {
      if (buckets.of(distances.ahead + at) != bucket) continue;
      for (std::int64_t sample = 0; sample < samples; ++sample)
        sum += sums[(sample * rows + row) * distances.distances() + at];
    }
    sum = team.sum(sum);
    if (team.rank() == 0) gradients.set(i, static_cast<float>(sum));
  }
};

using AttentionGradientBodies =
    BodyList<ProductsOfResults, GradientsOfScores, SpreadBiases, SumsByDistance, GradientsOfBiases>;

}  // namespace pipesim::gpu
