#pragma once

#include <cmath>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/gpu/bodies/parts/score_block.h"

namespace pipesim::gpu {

/// A team for each row: Σ do·o.
struct ProductsOfResults {
  static constexpr bool in_small_teams = true;
  Floats o, gradient;
  std::int64_t depth = 0;
  double* sums = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t g = team.rank(); g < groups_of(depth); g += team.size()) {
      const GroupPlace at = group_at(g, depth).in_row(row * depth);
      const FloatGroup results = read_group(o, at), gradients = read_group(gradient, at);
      for (int k = 0; k < FloatGroup::size; ++k)
        sum += static_cast<double>(results.values[k]) * static_cast<double>(gradients.values[k]);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) sums[row] = sum;
  }
};

/// Computes, from scores and from do·vᵀ, what dropout leaves of the softmax, and the gradient of q·kᵀ. Both
/// are 0 for keys that the query does not see, and both may be in place. There is an index for each group of
/// each row.
struct GradientsOfScores {
  ScoreBlock block;
  ScoreRules rules;
  Floats scores, share_gradients;
  Floats shares, gradients;
  const float* log_sums = nullptr;   ///< of all keys, by ScoreBlock::Row::statistic
  const double* averages = nullptr;  ///< Σ do·o, by the same
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row_of_block = block.by_group.quotient(i), group = i - row_of_block * block.groups();
    const ScoreBlock::Row row = block.row(row_of_block);
    const ScoreRules::Row rule = rules.row(row);
    const GroupPlace keys = group_at(group, block.columns), at = keys.in_row(row_of_block * block.stride);
    const float log_sum = log_sums[row.statistic];
    const auto average = static_cast<float>(averages[row.statistic]);
    FloatGroup capped{}, share{}, gradient{};
    if (group >= row.first_group() && group < row.end_group()) {
      capped = rule.capped(read_group(scores, at));
      share = rule.biased(keys, capped);
      gradient = read_group(share_gradients, at);
    }
    for (int k = 0; k < FloatGroup::size; ++k) {
      const std::int64_t key = keys.first + k;
      float &s = share.values[k], &d = gradient.values[k];
      s = row.sees(key) ? std::exp(s - log_sum) : 0.0F;
      d = row.sees(key) ? s * (rule.dropped(key, d) - average) * block.sizes.scale : 0.0F;
      if (rule.cap > 0) d *= slope_of_capped(capped.values[k], rule.cap);
      s = row.sees(key) ? rule.dropped(key, s) : 0.0F;
    }
    write_group(shares, at, share);
    write_group(gradients, at, gradient);
  }
};

/// A team for each sink: −Σ over its rows of its part of their softmax times Σ do·o, since it has no value.
struct GradientsOfSinks {
  Floats sinks;  ///< [head, member]
  std::int64_t rows = 0;
  const float* log_sums = nullptr;   ///< [row, head, member]
  const double* averages = nullptr;  ///< Σ do·o, by the same
  std::int64_t count = 1;            ///< of sinks
  Floats gradients;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    double sum = 0;
    for (std::int64_t row = team.rank(); row < rows; row += team.size()) {
      const std::int64_t at = row * count + i;
      sum -= static_cast<double>(std::exp(sinks[i] - log_sums[at])) * averages[at];
    }
    sum = team.sum(sum);
    if (team.rank() == 0) gradients.set(i, static_cast<float>(sum));
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

/// Computes such biases from the heads' slopes: minus the slope times the distance.
struct SpreadSlopes {
  AlibiSlopes slopes;
  DistanceBiases distances;
  float* spread = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / distances.distances(), ahead = distances.ahead + i % distances.distances();
    const float slope = slopes.of(row / distances.members, row % distances.members);
    spread[i] = -slope * static_cast<float>(ahead < 0 ? -ahead : ahead);
  }
};

/// sums[sample and head, member, ahead] = Σ over the block's queries of the gradients of scores at that
/// distance, less their scale. They are added to what earlier blocks of the same heads left.
struct SumsByDistance {
  ScoreBlock block;
  Floats gradients;
  DistanceBiases distances;
  double* sums = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / distances.distances(), at = i % distances.distances();
    const std::int64_t r = block.sizes.r, flat = row / r, member = row % r;
    // The query at place q of these distances meets key q + at − (queries − 1).
    const std::int64_t apart = at - (distances.queries - 1), last = block.first_query + block.queries;
    std::int64_t begin = block.first_query, end = last;
    if (block.sizes.order.plain()) {  // those that meet a key lie together
      begin = begin > -apart ? begin : -apart;
      end = end < block.columns - apart ? end : block.columns - apart;
    }
    double sum = 0;
    for (std::int64_t query = begin; query < end; ++query) {
      const std::int64_t key = block.sizes.position(query) - distances.first_query + apart;
      if (key < 0 || key >= block.columns) continue;
      const std::int64_t score_row = (flat * block.queries + query - block.first_query) * r + member;
      sum += static_cast<double>(gradients[score_row * block.stride + key]);
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

using AttentionGradientBodies = BodyList<ProductsOfResults, GradientsOfScores, SpreadBiases, SpreadSlopes,
                                         SumsByDistance, GradientsOfBiases, GradientsOfSinks>;

}  // namespace pipesim::gpu
