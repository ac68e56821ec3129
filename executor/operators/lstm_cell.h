#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "executor/operators/activation.h"
#include "executor/operators/device_code.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// A shard of an LSTM cell: x[n, in], h[n, hidden], c[n, h], wx[in, 4, h], wh[hidden, 4, h], b[4, h], new
/// h[n, h], new c[n, h]. `hidden` is whole, h this shard's part of it.
struct LstmSizes {
  LstmSizes(const Operator& op, std::span<const Range> ranges) {
    const Box x = box_of(op.uses[0], op, ranges), c = box_of(op.uses[2], op, ranges);
    n = x[0].length(), in = x[1].length(), h = c[1].length();
    hidden = box_of(op.uses[1], op, ranges)[1].length();
  }
  std::int64_t n, in, hidden, h;
};

/// What the four gates let through, in the order of the weights.
struct LstmGates {
  float i, f, g, o;
};
struct LstmCellState {
  float h, c;
};

/// Returns what the gates let through of what arrives at them.
PIPESIM_DEVICE inline LstmGates opened(const LstmGates& z) {
  return {logistic(z.i), logistic(z.f), std::tanh(z.g), logistic(z.o)};
}

/// c′ = f·c + i·g, h′ = o·tanh c′.
PIPESIM_DEVICE inline LstmCellState lstm_state(const LstmGates& gates, float old_c) {
  const float c = gates.f * old_c + gates.i * gates.g;
  return {gates.o * std::tanh(c), c};
}

/// Gradients of what arrives at the gates, and of the old c.
struct LstmGradients {
  LstmGates z;
  float old_c;
};
/// Computes the gradients from `d`, those of the new state.
PIPESIM_DEVICE inline LstmGradients lstm_gradients(const LstmGates& gates, float old_c, float new_c,
                                                   const LstmCellState& d) {
  const auto& [i, f, g, o] = gates;
  const float t = std::tanh(new_c);
  const float dc = d.h * o * (1 - t * t) + d.c;
  return {{dc * g * i * (1 - i), dc * old_c * f * (1 - f), dc * i * (1 - g * g), d.h * t * o * (1 - o)},
          dc * f};
}

}  // namespace pipesim
