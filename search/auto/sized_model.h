#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/planners/planner.h"
#include "sim/base/errors.h"

namespace pipesim {

/// The model of a request in other numbers of microbatches, with the same samples per iteration.
class SizedModel {
 public:
  /// The request must outlive it.
  explicit SizedModel(const PlanRequest& request) : request_(request) {}

  /// The model of one microbatch, with its sequence divided like this; nothing when the samples can't be
  /// divided into so many microbatches, or when the model's batch is fixed.
  [[nodiscard]] std::optional<OperatorGraph> operator()(std::int32_t microbatches,
                                                        const SequenceDivision& sequence) const {
    const bool as_it_is = sequence == SequenceDivision{};
    if (microbatches == request_.microbatches() && as_it_is) return request_.graph();
    if (request_.samples() % microbatches != 0) return std::nullopt;
    const std::int64_t batch = request_.samples() / microbatches;
    try {
      return as_it_is ? request_.with_batch(batch) : request_.with_shape({batch, sequence});
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

 private:
  const PlanRequest& request_;
};

/// Numbers of microbatches that may do better than the requested one: larger ones, then smaller ones.
inline std::vector<std::int32_t> other_microbatches(std::int32_t asked) {
  constexpr std::int32_t kMostTimes = 16;
  std::vector<std::int32_t> others;
  for (std::int32_t times = 2; times <= std::min(kMostTimes, kMostMicrobatches / asked); times *= 2)
    others.push_back(asked * times);
  for (std::int32_t times = 2; times <= kMostTimes && asked % times == 0; times *= 2)
    others.push_back(asked / times);
  return others;
}

}  // namespace pipesim
