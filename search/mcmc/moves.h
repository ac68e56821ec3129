#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "search/config_space.h"
#include "search/move_units.h"
#include "search/split_styles.h"

namespace pipesim {

/// One operator's new config.
struct ConfigChange {
  OperatorId op;
  std::size_t index = 0;
  bool operator==(const ConfigChange&) const = default;
};

/// The kinds of proposals. All but the first are symmetric: they add a uniformly drawn offset to numbers
/// modulo their ranges, or draw one of several states that all lead back with the same chance. Where a unit
/// of several operators changes together, "operator" means the unit.
enum class MoveKind : std::uint8_t {
  Operator,        ///< any config, or split and placed like a neighbour in the graph: half of the time each
  OperatorSplit,   ///< another split on its devices
  OperatorPlace,   ///< the same split on other devices
  OperatorFactor,  ///< a factor 2 or 3 of one degree, or of the copies, goes to another
  Group,  ///< operators that share a weight, or repeats of a block: other configs, one offset for all
  GroupSplit,
  GroupPlace,
  Run,  ///< neighbours in order, those on as many devices as the first: the same split elsewhere
  /// In a run, all that are split and placed like the first change together, alike again in another way.
  /// Nothing changes when one of the run is so already, since the way back would take it along.
  Alike,
  SwapLists,   ///< two operators on lists of one size
  SwapGroups,  ///< in a run, all on one list of devices and all on another of its size
  Uniform      ///< any config of one operator: FlexFlow's only proposal, see flexflow_rates()
};
constexpr std::size_t kMoveKinds = 12;
std::string_view name_of(MoveKind kind);

/// How often each kind is drawn, by weight.
struct MoveRates {
  std::array<std::uint32_t, kMoveKinds> weight;
  bool operator==(const MoveRates&) const = default;
};
/// How many proposals of each kind were made and accepted.
struct MoveCounts {
  std::array<std::int64_t, kMoveKinds> proposed{}, accepted{};
  bool operator==(const MoveCounts&) const = default;
};
MoveRates first_rates();
MoveRates repeat_rates();    ///< first_rates() without groups, for units that are groups themselves
MoveRates flexflow_rates();  ///< Uniform alone (Jia, Zaharia, Aiken, MLSys 2019, section 6.2)
/// Draws kinds more often that were accepted more often: at most 4 times, and at least a quarter, as often as
/// at first.
MoveRates adapted(const MoveRates& first, const MoveCounts& counts);

/// A proposal: configs to change.
struct Proposal {
  MoveKind kind = MoveKind::Operator;
  std::vector<ConfigChange> changes;  ///< empty when the draw changes nothing
  double log_ratio = 0;  ///< ln(chance of proposing the way back / chance of this), for Metropolis–Hastings
};

class Moves {
 public:
  explicit Moves(const ConfigSpace& space);
  /// Operators of one unit always change together: their configs must have equal numbers, and be common.
  Moves(const ConfigSpace& space, MoveUnits units);
  void propose(const std::vector<std::size_t>& state, const MoveRates& rates, Rng& rng, Proposal& out) const;
  [[nodiscard]] const SplitStyles& styles() const { return styles_; }

 private:
  enum class Part : std::uint8_t { Config, Split, Place };
  using State = std::vector<std::size_t>;
  // An operator stands for its unit.
  void put(OperatorId op, std::size_t config, Proposal& out) const;
  void change(const State& state, OperatorId op, Part part, std::uint64_t offset, Proposal& out) const;
  void change_operator(const State& state, Rng& rng, Proposal& out) const;
  [[nodiscard]] std::optional<std::size_t> like_neighbour(const State& state, OperatorId op,
                                                          OperatorId neighbour) const;
  [[nodiscard]] double chance(const State& state, OperatorId op, std::size_t config) const;
  void change_factor(const State& state, Rng& rng, Proposal& out) const;
  void change_group(const State& state, Part part, Rng& rng, Proposal& out) const;
  void change_run(const State& state, Rng& rng, Proposal& out) const;
  void change_alike(const State& state, Rng& rng, Proposal& out) const;
  void swap_lists(const State& state, Rng& rng, Proposal& out) const;
  void swap_groups(const State& state, Rng& rng, Proposal& out) const;
  [[nodiscard]] OperatorId draw(Rng& rng) const { return units_[rng.below(units_.size())].front(); }
  [[nodiscard]] OperatorId unit_first(OperatorId op) const { return units_[unit_of_[op.index()]].front(); }
  // Configs that may be drawn; those beyond the candidates are different for every operator.
  [[nodiscard]] std::size_t choices(OperatorId op) const {
    return units_[unit_of_[op.index()]].size() == 1 ? space_.size(op) : space_.candidates().size(op);
  }
  [[nodiscard]] bool common(const State& state, OperatorId op) const {
    return state[op.index()] < space_.candidates().size(op);
  }

  const ConfigSpace& space_;
  MoveUnits units_;
  std::vector<std::size_t> unit_of_;  // by operator
  SplitStyles styles_;
  std::vector<std::vector<OperatorId>> groups_;      // of two units or more
  std::vector<std::vector<OperatorId>> neighbours_;  // by operator: one for each activation that they share
};

}  // namespace pipesim
