#pragma once

#include <cstdint>

#include "executor/gpu/bodies/bahdanau.h"
#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"

namespace pipesim::gpu {

/// α · dα of a row, dα = dctx · val; a team each.
struct ShareGradients {
  Floats alpha, val, dctx;
  double* products = nullptr;
  std::int64_t s = 0, d = 0;
  template <class Team>
  PIPESIM_DEVICE double gradient(Team& team, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t j = team.rank(); j < d; j += team.size())
      sum += static_cast<double>(dctx[row / s * d + j]) * static_cast<double>(val[row * d + j]);
    return team.sum(sum);
  }
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const double sum = gradient(team, row);
    if (team.rank() == 0) products[row] = static_cast<double>(alpha[row]) * sum;
  }
};

/// Σ over s of products[n, s], a team for each n.
struct SumsOfSamples {
  const double* products = nullptr;
  double* sums = nullptr;
  std::int64_t s = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t n) const {
    double sum = 0;
    for (std::int64_t i = team.rank(); i < s; i += team.size()) sum += products[n * s + i];
    sum = team.sum(sum);
    if (team.rank() == 0) sums[n] = sum;
  }
};

/// The gradient of a row's score, ds = α · (dα − Σ α·dα), and those of val and pk where they are present.
struct BahdanauRowGradients {
  ShareGradients shares;
  BahdanauUnits units;
  const double* averages = nullptr;  ///< Σ α·dα by sample
  Floats v, dval, dk;
  double* ds = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t n = row / shares.s;
    const float share = shares.alpha[row];
    const double score = static_cast<double>(share) * (shares.gradient(team, row) - averages[n]);
    if (team.rank() == 0) ds[row] = score;
    if (dval.present()) {
      for (std::int64_t j = team.rank(); j < shares.d; j += team.size())
        dval.set(row * shares.d + j, share * shares.dctx[n * shares.d + j]);
    }
    if (!dk.present()) return;
    for (std::int64_t j = team.rank(); j < units.a; j += team.size()) {
      const float t = units(row, j);
      dk.set(row * units.a + j, static_cast<float>(score) * v[j] * (1 - t * t));
    }
  }
};

/// dpq[n, j] = Σ over s of ds · v · (1 − tanh²); an index for each element.
struct BahdanauQueryGradients {
  BahdanauUnits units;
  const double* ds = nullptr;
  Floats v, dq;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t n = i / units.a, j = i % units.a;
    double sum = 0;
    for (std::int64_t row = n * units.s; row < (n + 1) * units.s; ++row) {
      const auto t = static_cast<double>(units(row, j));
      sum += ds[row] * (1 - t * t);
    }
    dq.set(i, static_cast<float>(sum * static_cast<double>(v[j])));
  }
};

/// A row's part of dv[j].
struct BahdanauWeightTerm {
  BahdanauUnits units;
  const double* ds = nullptr;
  PIPESIM_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return static_cast<float>(ds[row]) * units(row, j);
  }
};

using BahdanauGradientBodies = BodyList<ShareGradients, SumsOfSamples, BahdanauRowGradients,
                                        BahdanauQueryGradients, ChunkSums<BahdanauWeightTerm>>;

}  // namespace pipesim::gpu
