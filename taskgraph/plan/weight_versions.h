#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "taskgraph/plan/pipeline.h"

namespace pipesim {

/// Which version of the weights each microbatch uses, where weights change while microbatches are under way
/// (PipeDream: Narayanan et al., SOSP 2019, section 3.3; 2BW: ICML 2021, section 3.1). A run begins with
/// version 0. Change g of a stage's weights turns version g into version g + 1, by the gradients of the
/// microbatches g · every() to (g + 1) · every() − 1, or to the last microbatch. Replicas that take
/// microbatches in turn change their weights together, when each has had one microbatch. A microbatch uses
/// the same version forward and backward, so a stage keeps up to copies() versions.
///
/// With vertical sync, take the version that the first stage uses for a microbatch. Every other stage then
/// uses its newest version without gradients of later microbatches than that version has. Where replicas
/// differ, some versions are never used.
class WeightVersions {
 public:
  /// A single version, which changes only while no microbatch is under way, or never.
  WeightVersions() = default;
  /// `microbatches`: the number in an iteration.
  WeightVersions(const std::optional<Pipeline>& pipeline, std::int32_t microbatches);

  [[nodiscard]] bool several() const { return !every_.empty(); }
  [[nodiscard]] bool trained() const { return trained_; }  ///< there is backward at all
  // The following functions are for several() versions.
  /// The number of microbatches whose gradients make one change of the stage's weights.
  [[nodiscard]] std::int32_t every(std::int32_t stage) const { return every_[index(stage)]; }
  /// The number of microbatches after which the pattern of changes repeats, in all stages.
  [[nodiscard]] std::int32_t period() const { return period_; }
  [[nodiscard]] std::int32_t change(std::int32_t stage, std::int32_t microbatch) const {
    return microbatch / every(stage);
  }
  /// The version that a microbatch uses in a stage.
  [[nodiscard]] std::int32_t version(std::int32_t stage, std::int32_t microbatch) const;
  /// The largest number of versions that a stage holds at once, the newest included.
  [[nodiscard]] std::int32_t copies(std::int32_t stage) const { return copies_[index(stage)]; }
  /// From this microbatch on, no stage uses version 0.
  [[nodiscard]] std::int32_t first_regular() const { return first_regular_; }

 private:
  static std::size_t index(std::int32_t stage) { return static_cast<std::size_t>(stage); }

  bool trained_ = true, vertical_sync_ = false;
  std::int32_t period_ = 1, first_regular_ = 0;
  std::vector<std::int32_t> every_, behind_, copies_;  // by stage
};

/// A weight that several stages use. It would have several versions at once, one per stage. Invalid when
/// there is none.
TensorId weight_of_several_stages(const OperatorGraph& graph, const Pipeline& pipeline);

}  // namespace pipesim
