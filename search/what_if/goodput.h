#pragma once

#include <cstdint>

#include "sim/base/units.h"

namespace pipesim {

/// How often training stops, and what it costs.
struct Failures {
  Seconds between;     ///< mean time between failures of one device
  Seconds checkpoint;  ///< that writing a checkpoint holds up training
  Seconds restart;     ///< from a failure until training goes on from the last checkpoint
};

/// The best interval between checkpoints, and the share of time that trains with it.
struct Goodput {
  Seconds between_failures;  ///< of all devices together
  Seconds interval;          ///< of training between two checkpoints
  double share = 0;          ///< of time in which training gets on, in [0, 1]
};

/// Failures are independent and come at a constant rate, M = between / devices apart. Daly's higher-order
/// interval (A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22, 2006,
/// eq. 37): with δ the time of a checkpoint, √(2δM) · (1 + ⅓√(δ/2M) + δ/18M) − δ where δ < 2M, else M; its
/// first term is Young's (CACM 17(9), 1974). The expected time of a segment of τ seconds is
/// M·e^(R/M)·(e^((τ+δ)/M) − 1) (Daly, eq. 13), so training gets on for τ of these. InputError where a time is
/// not above 0 or there is no device.
Goodput goodput(const Failures& failures, std::int64_t devices);
/// The share of time with another interval.
double share_that_trains(const Failures& failures, std::int64_t devices, Seconds interval);

}  // namespace pipesim
