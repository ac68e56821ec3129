#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "search/candidates.h"
#include "search/split_styles.h"
#include "taskgraph/plan.h"

namespace pipesim {

/// The configs that a search can give each operator, by number: the candidate set's, then those that the
/// starting strategies brought along.
class ConfigSpace {
 public:
  ConfigSpace(const CandidateSet& candidates, const std::vector<Strategy>& starts);

  [[nodiscard]] const CandidateSet& candidates() const { return candidates_; }
  [[nodiscard]] std::size_t num_operators() const { return extra_.size(); }
  [[nodiscard]] std::size_t size(OperatorId op) const {
    return candidates_.size(op) + extra_[op.index()].size();
  }
  [[nodiscard]] ParallelConfig config(OperatorId op, std::size_t i) const;
  /// The config must be in the space.
  [[nodiscard]] std::size_t index(OperatorId op, const ParallelConfig& config) const;
  [[nodiscard]] std::vector<std::size_t> indices(const Strategy& strategy) const;
  [[nodiscard]] Strategy strategy(const std::vector<std::size_t>& indices) const;

 private:
  const CandidateSet& candidates_;
  std::vector<std::vector<ParallelConfig>> extra_;  // per operator
};

/// One operator's new config.
struct ConfigChange {
  OperatorId op;
  std::size_t index = 0;
  bool operator==(const ConfigChange&) const = default;
};

/// Draws proposals from a fixed mixture. Every kind is symmetric: the chance to propose b from a equals that
/// to propose a from b, because each adds a uniformly drawn offset to numbers modulo their ranges, or draws
/// one config that leads back by drawing the one before.
/// - one operator: any config; another split on its devices; the same split on other devices
/// - one group (operators that share a weight, or repeats of a block): the same three, one offset for all
/// - a run of neighbours: the same split on other devices, for members that use as many devices as the first
/// - a run of neighbours: all that are split and placed like the first are split and placed alike again, in
///   another way; nothing when one of the run is split and placed so already, since the way back would take
///   it along
/// - two operators on lists of one size: swap their lists
class Moves {
 public:
  explicit Moves(const ConfigSpace& space);
  /// The changes of one proposal; empty when the draw changes nothing (such a draw does not count).
  void propose(const std::vector<std::size_t>& state, Rng& rng, std::vector<ConfigChange>& out) const;
  [[nodiscard]] const SplitStyles& styles() const { return styles_; }

 private:
  enum class Part : std::uint8_t { Config, Split, Place };
  void change(const std::vector<std::size_t>& state, OperatorId op, Part part, std::uint64_t offset,
              std::vector<ConfigChange>& out) const;
  void change_run(const std::vector<std::size_t>& state, Rng& rng, std::vector<ConfigChange>& out) const;
  void change_alike(const std::vector<std::size_t>& state, Rng& rng, std::vector<ConfigChange>& out) const;
  void swap_lists(const std::vector<std::size_t>& state, Rng& rng, std::vector<ConfigChange>& out) const;

  const ConfigSpace& space_;
  SplitStyles styles_;
  std::vector<std::vector<OperatorId>> groups_;  // of two or more
};

}  // namespace pipesim
