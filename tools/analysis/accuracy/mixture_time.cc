#include "tools/analysis/accuracy/mixture_time.h"

#include <algorithm>

namespace pipesim {
namespace {

// Returns the time of a part that another part, while it runs, slows down by the factor `slowdown`.
Seconds slowed(Seconds alone, Seconds other, double slowdown) {
  const Seconds all_beside = alone * slowdown;
  if (all_beside <= other) return all_beside;
  return other + alone - other * (1 / slowdown);
}

}  // namespace

Seconds mixture_time(const ExpressedMixture& m, const MixtureSlowdowns& s) {
  return std::max({slowed(m.product, m.collective, s.product_by_collective), m.collective,
                   slowed(m.to_device, m.to_host, s.to_device_by_to_host), m.to_host});
}

PredictedRun predict_mixture(const ExpressedMixture& mixture) {
  PredictedRun predicted;
  predicted.time = mixture_time(mixture, {});
  predicted.undisturbed = std::max({mixture.product, mixture.collective, mixture.to_device, mixture.to_host});
  return predicted;
}

}  // namespace pipesim
