#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "taskgraph/plan/pipeline.h"

namespace pipesim {

/// Which weights microbatches meet, where they change while microbatches are under way (PipeDream: Narayanan
/// et al., SOSP 2019, section 3.3; 2BW: ICML 2021, section 3.1). Version 0 is what a run begins with; change
/// g of a stage's weights, by the gradients of the microbatches g · every() to (g + 1) · every() − 1, or to
/// the last one of all, makes version g + 1 of version g. Replicas that take microbatches in turn change
/// theirs together, when each has had one. A microbatch meets the same version on its way forward and back,
/// so a stage keeps as many as copies().
///
/// With vertical sync a stage takes a microbatch with the newest version that has no gradients of later
/// microbatches than the version has which the first stage takes it with. Where replicas differ some versions
/// are met by none.
class WeightVersions {
 public:
  /// One version, which changes when no microbatch is under way, or never.
  WeightVersions() = default;
  /// `microbatches`: of an iteration.
  WeightVersions(const std::optional<Pipeline>& pipeline, std::int32_t microbatches);

  [[nodiscard]] bool several() const { return !every_.empty(); }
  [[nodiscard]] bool trained() const { return trained_; }  ///< there is backward at all
  // Where there are several:
  /// Microbatches that a change of the stage's weights takes in.
  [[nodiscard]] std::int32_t every(std::int32_t stage) const { return every_[index(stage)]; }
  /// Microbatches after which changes come again as before, in all stages.
  [[nodiscard]] std::int32_t period() const { return period_; }
  [[nodiscard]] std::int32_t change(std::int32_t stage, std::int32_t microbatch) const {
    return microbatch / every(stage);
  }
  /// That a microbatch meets in a stage.
  [[nodiscard]] std::int32_t version(std::int32_t stage, std::int32_t microbatch) const;
  /// Versions that a stage has at most, the newest included.
  [[nodiscard]] std::int32_t copies(std::int32_t stage) const { return copies_[index(stage)]; }
  /// From this microbatch on no stage meets version 0.
  [[nodiscard]] std::int32_t first_regular() const { return first_regular_; }

 private:
  static std::size_t index(std::int32_t stage) { return static_cast<std::size_t>(stage); }

  bool trained_ = true, vertical_sync_ = false;
  std::int32_t period_ = 1, first_regular_ = 0;
  std::vector<std::int32_t> every_, behind_, copies_;  // by stage
};

/// A weight that several stages use: it would have as many versions at once. Invalid where there is none.
TensorId weight_of_several_stages(const OperatorGraph& graph, const Pipeline& pipeline);

}  // namespace pipesim
