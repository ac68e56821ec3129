#pragma once

#include <cmath>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/exponential_sum.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/gpu/bodies/reduce.h"
#include "executor/operators/loss_rows.h"

namespace pipesim::gpu {

/// A shard's logits and the labels of its rows. Statistics: `most` [rows], the largest logits; `sums`
/// [rows, 2], Σ exp(logit − most) and the label's logit, 0 where another shard owns it.
struct LabelledRows {
  Floats logits;
  const std::int64_t* labels = nullptr;
  std::int64_t columns = 0, first_column = 0;
  double *most = nullptr, *sums = nullptr;

  [[nodiscard]] PIPESIM_DEVICE bool owns(std::int64_t label) const {
    return owns_label(label, first_column, columns);
  }
  [[nodiscard]] PIPESIM_DEVICE RowGroups groups(std::int64_t row) const {
    return {row * columns, (row + 1) * columns};
  }
  PIPESIM_DEVICE void store(std::int64_t row, double sum) const {
    const std::int64_t label = labels[row];
    sums[2 * row] = sum;
    sums[2 * row + 1] = owns(label) ? static_cast<double>(logits[row * columns + label - first_column]) : 0.0;
  }
};

/// Finds the largest logit of a row in this shard and, in the same pass over the logits, the other statistics
/// if the row is whole, else log Σ exp(logit) of this shard.
struct CrossEntropySums {
  LabelledRows rows;
  bool whole;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    ExponentialSum sum;
    const RowGroups groups = rows.groups(row);
    for (std::int64_t g = team.rank(); g < groups.count(); g += team.size())
      sum.add(read_group(rows.logits, groups.at(g)), groups.at(g).count);
    sum = sum.over(team);
    if (team.rank() > 0) return;
    rows.most[row] = static_cast<double>(sum.most);
    if (whole) {
      rows.store(row, sum.sum);
    } else {
      rows.sums[2 * row] = sum.log();
    }
  }
};

/// Computes the other statistics of a row from the largest logit of all shards.
struct CrossEntropyShares {
  LabelledRows rows;
  PIPESIM_DEVICE void operator()(std::int64_t row) const {
    rows.store(row, std::exp(rows.sums[2 * row] - rows.most[row]));
  }
};

/// Adds up the losses of a chunk of rows, and stores the log of each row's sum. Rows with a negative label
/// add nothing.
struct CrossEntropyLoss {
  LabelledRows rows;
  float* log_sums;
  RowChunks split;
  ReducedTo to;  ///< by chunk

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t chunk) const {
    const std::int64_t begin = split.begin(chunk), end = split.begin(chunk + 1);
    const double loss = sum_over(team, begin, end, [&](std::int64_t row) {
      const double log_sum = log_sum_of(rows.most[row], rows.sums[2 * row]);
      log_sums[row] = static_cast<float>(log_sum);
      return row_loss(rows.labels[row], log_sum, rows.sums[2 * row + 1]);
    });
    if (team.rank() == 0) to.put(chunk, loss);
  }
};

/// dx = (softmax(x) − label) · dloss / count of a row; 0 where it has no label.
struct CrossEntropyGradient {
  LabelledRows rows;
  const float* log_sums;
  Floats dloss, dx;
  double count;

  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t row) const {
    const std::int64_t label = rows.labels[row], hit = row * rows.columns + label - rows.first_column;
    const RowGroups groups = rows.groups(row);
    const float scale = row_scale(label, static_cast<float>(static_cast<double>(dloss[0]) / count));
    const float log_sum = log_sums[row];
    for (std::int64_t g = team.rank(); g < groups.count(); g += team.size()) {
      const GroupPlace at = groups.at(g);
      FloatGroup group = read_group(rows.logits, at);
      for (int k = 0; k < FloatGroup::size; ++k) {
        group.values[k] =
            logit_gradient(group.values[k], log_sum, scale) - (at.first + k == hit ? scale : 0.0F);
      }
      write_group(dx, at, group);
    }
  }
};

using CrossEntropyBodies =
    BodyList<CrossEntropySums, CrossEntropyShares, CrossEntropyLoss, CrossEntropyGradient>;

}  // namespace pipesim::gpu
