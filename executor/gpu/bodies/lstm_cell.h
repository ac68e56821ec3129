#pragma once

#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/lstm_cell.h"

namespace pipesim::gpu {

/// Element (n, j) of a cell's state, an index for each. `gates` [n, 4, h] hold what arrives at the gates,
/// without the bias, and then what the gates let through.
struct LstmStep {
  Floats gates, bias, old_c, new_h, new_c;
  std::int64_t h = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t j = i % h, first = i / h * 4 * h + j;
    const LstmGates open =
        opened({gates[first] + bias[j], gates[first + h] + bias[j + h],
                gates[first + 2 * h] + bias[j + 2 * h], gates[first + 3 * h] + bias[j + 3 * h]});
    gates.set(first, open.i);
    gates.set(first + h, open.f);
    gates.set(first + 2 * h, open.g);
    gates.set(first + 3 * h, open.o);
    const LstmCellState state = lstm_state(open, old_c[i]);
    new_h.set(i, state.h);
    new_c.set(i, state.c);
  }
};

/// Gradients of what arrives at the gates, dz[n, 4, h], and of the old c where that is present; an index for
/// each element of the state. Those of the new state may be absent.
struct LstmStepGradient {
  Floats gates, old_c, new_c, dh, dc, dz, d_old_c;
  std::int64_t h = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i / h * 4 * h + i % h;
    const LstmCellState d{dh.present() ? dh[i] : 0.0F, dc.present() ? dc[i] : 0.0F};
    const LstmGradients to = lstm_gradients(
        {gates[first], gates[first + h], gates[first + 2 * h], gates[first + 3 * h]}, old_c[i], new_c[i], d);
    dz.set(first, to.z.i);
    dz.set(first + h, to.z.f);
    dz.set(first + 2 * h, to.z.g);
    dz.set(first + 3 * h, to.z.o);
    if (d_old_c.present()) d_old_c.set(i, to.old_c);
  }
};

using LstmBodies = BodyList<LstmStep, LstmStepGradient>;

}  // namespace pipesim::gpu
