#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/activation.h"

namespace pipesim::gpu {

/// y = f(x), by groups; may be in place. `before`, where present, keeps x.
struct Activate {
  Floats x, y, before;
  Activation activation;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    FloatGroup group = read_group(x, at);
    if (before.present()) write_group(before, at, group);
    activate(activation, group);
    write_group(y, at, group);
  }
  static PIPESIM_DEVICE void activate(Activation activation, FloatGroup& group) {
    with_activation(activation, [&]<Activation a>() {
      for (float& value : group.values) value = activation_value<a>(value);
    });
  }
};

/// dx = dy · f′, by groups; may be in place. `kept`: x where needs_input(), else y.
struct ActivationGradient {
  Floats kept, dy, dx;
  Activation activation;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace place = group_at(i, elements);
    const FloatGroup at = read_group(kept, place);
    FloatGroup group = read_group(dy, place);
    with_activation(activation, [&]<Activation a>() {
      for (int k = 0; k < FloatGroup::size; ++k) group.values[k] *= activation_slope<a>(at.values[k]);
    });
    write_group(dx, place, group);
  }
};

using ElementwiseBodies = BodyList<Activate, ActivationGradient>;

}  // namespace pipesim::gpu
