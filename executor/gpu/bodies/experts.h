#pragma once

#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/experts.h"

namespace pipesim::gpu {

/// Chooses the experts of every token's routes. The index counts elements of p: each counts how many experts
/// of its token go before its own.
struct ChooseExperts {
  Floats p;
  TokenRoute* routes = nullptr;
  std::int64_t experts = 0, top_k = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / experts, mine = i % experts;
    const float probability = p[i];
    std::int64_t before = 0;
    for (std::int64_t e = 0; e < experts; ++e)
      before += chosen_before(p[row * experts + e], e, probability, mine) ? 1 : 0;
    if (before < top_k) routes[row * top_k + before].expert = static_cast<std::int32_t>(mine);
  }
};

/// Routes of a group in chunks; an index of bodies is one expert in one chunk of one group.
struct RouteChunks {
  static constexpr std::int64_t length = 64;
  std::int64_t routes = 0, experts = 0;  ///< of a group
  [[nodiscard]] PIPESIM_DEVICE constexpr std::int64_t chunks() const {
    return (routes + length - 1) / length;
  }
  struct Place {
    std::int64_t group, chunk, begin, end;  ///< routes [begin, end)
    std::int32_t expert;
  };
  [[nodiscard]] PIPESIM_DEVICE constexpr Place at(std::int64_t i) const {
    const std::int64_t group = i / experts / chunks(), chunk = i / experts % chunks();
    const std::int64_t begin = chunk * length, end = begin + length < routes ? begin + length : routes;
    return {group, chunk, group * routes + begin, group * routes + end,
            static_cast<std::int32_t>(i % experts)};
  }
};

/// Counts the routes of a chunk that lead to an expert.
struct CountRoutes {
  const TokenRoute* routes = nullptr;
  std::int64_t* counts = nullptr;
  RouteChunks split;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const RouteChunks::Place place = split.at(i);
    std::int64_t count = 0;
    for (std::int64_t r = place.begin; r < place.end; ++r) count += routes[r].expert == place.expert ? 1 : 0;
    counts[i] = count;
  }
};

/// Gives slots to the routes of a chunk that lead to an expert. `tokens`, where given, gets 1 + the token's
/// row for every slot row of the shard that is taken.
struct FillSlots {
  TokenRoute* routes = nullptr;
  const std::int64_t* counts = nullptr;
  std::int64_t* tokens = nullptr;
  RouteChunks split;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const RouteChunks::Place place = split.at(i);
    std::int64_t next = 0;
    for (std::int64_t c = 1; c <= place.chunk; ++c) next += counts[i - c * split.experts];
    for (std::int64_t r = place.begin; r < place.end; ++r) {
      if (routes[r].expert != place.expert) continue;
      const bool free = next < sizes.capacity;
      routes[r].slot = free ? static_cast<std::int32_t>(next++) : -1;
      const std::int64_t slot = sizes.slot_row(place.group, routes[r]);
      if (slot >= 0 && tokens != nullptr) tokens[slot] = 1 + r / sizes.top_k;
    }
  }
};

/// Fills rows of slots from the rows of their tokens, times the token's probability of the expert where p is
/// present. Slots without a token get zeros. There is an index for each element.
struct SlotsFromTokens {
  const std::int64_t* tokens = nullptr;  ///< see FillSlots
  Floats from, p, to;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t slot = i / sizes.width, row = tokens[slot] - 1;
    if (row < 0) return to.set(i, 0);
    const float value = from[row * sizes.width + i % sizes.width];
    const std::int64_t expert = sizes.first + slot / sizes.capacity % sizes.own;
    to.set(i, p.present() ? p[row * sizes.experts + expert] * value : value);
  }
};

/// Copies the rows of tokens to the slots of their routes. There is an index for each element of each route;
/// other slots are left as they are.
struct CopyTokensToSlots {
  const TokenRoute* routes = nullptr;
  Floats from, to;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t r = i / sizes.width, column = i % sizes.width, row = r / sizes.top_k;
    const std::int64_t slot = sizes.slot_row(row / sizes.tokens, routes[r]);
    if (slot >= 0) to.set(slot * sizes.width + column, from[row * sizes.width + column]);
  }
};

/// Fills rows of tokens with the sum of the rows of their slots, each times the token's probability of the
/// expert where p is present. There is an index for each element.
struct TokensFromSlots {
  const TokenRoute* routes = nullptr;
  Floats from, p, to;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / sizes.width, group = row / sizes.tokens;
    float sum = 0;
    for (std::int64_t r = row * sizes.top_k; r < (row + 1) * sizes.top_k; ++r) {
      const std::int64_t slot = sizes.slot_row(group, routes[r]);
      if (slot < 0) continue;
      const float value = from[slot * sizes.width + i % sizes.width];
      sum += p.present() ? p[row * sizes.experts + routes[r].expert] * value : value;
    }
    to.set(i, sum);
  }
};

/// Gives each slot the probability of its token for the slot's expert; 0 where no token is. There is an index
/// for each slot.
struct WeightsFromTokens {
  const std::int64_t* tokens = nullptr;  ///< see FillSlots
  Floats p, to;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t slot) const {
    const std::int64_t row = tokens[slot] - 1, expert = sizes.first + slot / sizes.capacity % sizes.own;
    to.set(slot, row < 0 ? 0 : p[row * sizes.experts + expert]);
  }
};

/// Hands the gradients of the slots' weights to the probabilities of their tokens; an index for each route.
/// Other elements are left as they are.
struct WeightGradientsToTokens {
  const TokenRoute* routes = nullptr;
  Floats from, to;
  RoutingSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t r) const {
    const std::int64_t row = r / sizes.top_k, slot = sizes.slot_row(row / sizes.tokens, routes[r]);
    if (slot >= 0) to.set(row * sizes.experts + routes[r].expert, from[slot]);
  }
};

/// The gradient of a token's probability of an expert: dy · z over the width; a team for each route that ends
/// in the shard. Other elements are left as they are.
struct ProbabilityGradients {
  const TokenRoute* routes = nullptr;
  Floats z, dy, dp;
  RoutingSizes sizes;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t r) const {
    const std::int64_t row = r / sizes.top_k, slot = sizes.slot_row(row / sizes.tokens, routes[r]);
    if (slot < 0) return;
    double sum = 0;
    for (std::int64_t j = team.rank(); j < sizes.width; j += team.size())
      sum += static_cast<double>(dy[row * sizes.width + j]) * static_cast<double>(z[slot * sizes.width + j]);
    sum = team.sum(sum);
    if (team.rank() == 0) dp.set(row * sizes.experts + routes[r].expert, static_cast<float>(sum));
  }
};

/// y[g, e, c, f] += bias[e, f]; an index for each element.
struct AddExpertBiases {
  Floats y, biases;
  ExpertLinearSizes sizes;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / sizes.f, expert = row / sizes.c % sizes.e;
    y.set(i, y[i] + biases[expert * sizes.f + i - row * sizes.f]);
  }
};

/// A team for each bias: Σ of the results' gradients over the expert's rows.
struct GradientsOfExpertBiases {
  Floats dy, gradients;
  ExpertLinearSizes sizes;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const std::int64_t expert = i / sizes.f, column = i - expert * sizes.f;
    double sum = 0;
    for (std::int64_t row = team.rank(); row < sizes.g * sizes.c; row += team.size()) {
      const std::int64_t group = row / sizes.c, place = row - group * sizes.c;
      sum += static_cast<double>(dy[((group * sizes.e + expert) * sizes.c + place) * sizes.f + column]);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) gradients.set(i, static_cast<float>(sum));
  }
};

using ExpertBodies = BodyList<AddExpertBiases, GradientsOfExpertBiases, ChooseExperts, CountRoutes, FillSlots,
                              SlotsFromTokens, CopyTokensToSlots, WeightsFromTokens, TokensFromSlots,
                              WeightGradientsToTokens, ProbabilityGradients>;

}  // namespace pipesim::gpu
