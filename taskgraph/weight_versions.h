#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "taskgraph/pipeline.h"

namespace pipesim {

/// Which weights microbatches meet, where they change while microbatches are under way (PipeDream: Narayanan
/// et al., SOSP 2019, section 3.3; 2BW: ICML 2021, section 3.1). Version 0 is what a run begins with; change
/// g, by the gradients of the microbatches g · every() to (g + 1) · every() − 1, makes version g + 1 of
/// version g. A microbatch meets the same version on its way forward and back, so a stage keeps as many as
/// copies().
class WeightVersions {
 public:
  /// One version, which changes when no microbatch is under way, or never.
  WeightVersions() = default;
  /// `microbatches`: of an iteration.
  WeightVersions(const std::optional<Pipeline>& pipeline, std::int32_t microbatches);

  [[nodiscard]] bool several() const { return every_ > 0; }
  [[nodiscard]] bool trained() const { return trained_; }  ///< there is backward at all
  // Of several:
  [[nodiscard]] std::int32_t every() const { return every_; }  ///< microbatches that a change takes in
  [[nodiscard]] std::int32_t change(std::int32_t microbatch) const { return microbatch / every_; }
  /// That a microbatch meets in a stage.
  [[nodiscard]] std::int32_t version(std::int32_t stage, std::int32_t microbatch) const {
    return std::max(0, change(microbatch) - behind_[static_cast<std::size_t>(stage)]);
  }
  /// Versions that a stage has at most, the newest included.
  [[nodiscard]] std::int32_t copies(std::int32_t stage) const {
    return behind_[static_cast<std::size_t>(stage)] + 1;
  }
  /// From this microbatch on no stage meets version 0.
  [[nodiscard]] std::int32_t first_regular() const;

 private:
  bool trained_ = true;
  std::int32_t every_ = 0;
  std::vector<std::int32_t> behind_;  // by stage
};

/// A weight that several stages use: it would have as many versions at once. Invalid where there is none.
TensorId weight_of_several_stages(const OperatorGraph& graph, const Pipeline& pipeline);

}  // namespace pipesim
