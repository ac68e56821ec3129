#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// y = f(x); may be in place. `before`, where present, keeps x.
struct Activate {
  Floats x, y, before;
  Activation activation;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const float value = x[i];
    if (before.present()) before.set(i, value);
    y.set(i, with_activation(activation, [=]<Activation a>() { return activation_value<a>(value); }));
  }
};

/// dx = dy · f′; may be in place. `kept`: x where needs_input(), else y.
struct ActivationGradient {
  Floats kept, dy, dx;
  Activation activation;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const float at = kept[i];
    dx.set(i, dy[i] * with_activation(activation, [=]<Activation a>() { return activation_slope<a>(at); }));
  }
};

using ElementwiseBodies = BodyList<Activate, ActivationGradient>;

}  // namespace pipesim::gpu
