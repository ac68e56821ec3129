#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// y[row, column] = f(y[row, column] + bias[column]) in place. `bias` may be absent; `before`, where present,
/// keeps what f is applied to.
struct AddBiasAndActivate {
  Floats y, bias, before;
  std::int64_t columns = 0;
  Activation activation = Activation::None;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    float value = y[i];
    if (bias.present()) value += bias[i % columns];
    if (before.present()) before.set(i, value);
    y.set(i, with_activation(activation, [=]<Activation a>() { return activation_value<a>(value); }));
  }
};

using LinearBodies = BodyList<AddBiasAndActivate>;

}  // namespace pipesim::gpu
