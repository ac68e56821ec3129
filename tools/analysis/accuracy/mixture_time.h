#pragma once

#include "tools/analysis/accuracy/predict_run.h"

namespace pipesim {

/// How many times as long a part takes while another goes on. Fitted to every second of 1,001 mixtures on a
/// node of 8 A100-SXM4-40GB (Dazz993/Mist, Apache-2.0). The collective and copies to the host are not slowed,
/// and products and copies do not slow each other: such factors came out as 1.
struct MixtureSlowdowns {
  /// A product beside a collective: the collective's kernels take multiprocessors and memory bandwidth.
  double product_by_collective = 2;
  /// A copy to the device beside one to the host: on PCIe, reads of the host's memory wait for writes to it.
  double to_device_by_to_host = 3.45;
};

/// Returns the time until all parts are done. A slowed part runs at 1/slowdown of its speed until the other
/// part is done.
Seconds mixture_time(const ExpressedMixture& mixture, const MixtureSlowdowns& slowdowns);
/// Predicts mixture_time() with these slowdowns, and the time of the longest part
/// (PredictedRun::undisturbed).
PredictedRun predict_mixture(const ExpressedMixture& mixture);

}  // namespace pipesim
