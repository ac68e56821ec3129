#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/planners/planner.h"

namespace pipesim {

/// The model of a call with the same samples an iteration, in other numbers of microbatches.
class SizedModel {
 public:
  explicit SizedModel(const PlannerCall& call)
      : run_(call.run), batch_(call.graph.batch() * call.run.microbatches) {}

  /// The model of one microbatch; nothing where the samples can't be divided so, or where its batch is fixed.
  [[nodiscard]] std::optional<OperatorGraph> operator()(std::int32_t microbatches) const {
    if (batch_ % microbatches != 0) return std::nullopt;
    try {
      return open_model(text(microbatches));
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  /// As `--model` says it.
  [[nodiscard]] std::string text(std::int32_t microbatches) const {
    return microbatches == run_.microbatches ? run_.model : with_batch(run_.model, batch_ / microbatches);
  }

 private:
  ModelRun run_;
  std::int64_t batch_;  // samples an iteration
};

/// Numbers of microbatches that may do better than those that were asked for: more, then fewer.
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
