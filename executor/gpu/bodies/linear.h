#pragma once

#include "executor/gpu/bodies/elementwise.h"
#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// y[row, column] = f(y[row, column] + bias[column]) in place, by groups. `bias` may be absent; `before`,
/// where present, keeps what f is applied to.
struct AddBiasAndActivate {
  Floats y, bias, before;
  std::int64_t columns = 0;
  Activation activation = Activation::None;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    FloatGroup group = read_group(y, at);
    if (bias.present()) {
      const FloatGroup biases = biases_of(at);
      for (int k = 0; k < FloatGroup::size; ++k) group.values[k] += biases.values[k];
    }
    if (before.present()) write_group(before, at, group);
    Activate::activate(activation, group);
    write_group(y, at, group);
  }

 private:
  [[nodiscard]] PIPESIM_DEVICE FloatGroup biases_of(const GroupPlace& at) const {
    const std::int64_t column = at.first % columns;
    if (column + at.count <= columns) return read_group(bias, {column, at.count});
    FloatGroup biases{};
    for (std::int64_t k = 0; k < FloatGroup::size; ++k)
      if (k < at.count) biases.values[k] = bias[(column + k) % columns];
    return biases;
  }
};

using LinearBodies = BodyList<AddBiasAndActivate>;

}  // namespace pipesim::gpu
