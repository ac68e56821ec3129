#include "search/what_if/goodput.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

double between_failures(const Failures& failures, std::int64_t devices) {
  if (devices < 1) throw InputError("goodput: no device, allowed: 1 or more");
  for (const Seconds time : {failures.between, failures.checkpoint}) {
    if (!(time.value > 0)) throw InputError(fmt::format("goodput: found {} s, allowed: above 0", time.value));
  }
  if (!(failures.restart.value >= 0))
    throw InputError(
        fmt::format("goodput: found a restart of {} s, allowed: 0 or more", failures.restart.value));
  return failures.between.value / static_cast<double>(devices);
}

}  // namespace

double share_that_trains(const Failures& failures, std::int64_t devices, Seconds interval) {
  const double mean = between_failures(failures, devices);
  const double segment = mean * std::exp(failures.restart.value / mean) *
                         std::expm1((interval.value + failures.checkpoint.value) / mean);
  return interval.value / segment;
}

Goodput goodput(const Failures& failures, std::int64_t devices) {
  const double mean = between_failures(failures, devices), write = failures.checkpoint.value;
  const double ratio = write / (2 * mean);
  const double interval =
      ratio < 1 ? std::sqrt(2 * write * mean) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - write : mean;
  return {Seconds(mean), Seconds(interval), share_that_trains(failures, devices, Seconds(interval))};
}

}  // namespace pipesim
