#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

inline constexpr std::int32_t kNoSegment = -1;    ///< not run again
inline constexpr std::int32_t kKeptSegment = -2;  ///< nor run again, and all that enters is kept too

/// Which operators run forward once more before backward, so that what they make need not be kept meanwhile
/// (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
///
/// They are run again in segments. What enters a segment or a stage of a pipeline is kept; what operators of
/// a segment make is freed after forward, and made again before backward reads it.
struct Recompute {
  enum class Kind : std::uint8_t {
    None,
    Selective,  ///< every attention operator, each a segment of its own (Korthikanti et al. 2023, section 5)
    Full,   ///< every stage of a pipeline is a segment (Huang et al. 2019, section 2.3); without one every
            ///< one of forward_blocks() but the last, which is kept: its backward comes at once
    Listed  ///< as `segment_of` says
  };
  Kind kind = Kind::None;
  std::vector<std::int32_t> segment_of;  ///< of Listed: by operator, from 0, or kNoSegment
  bool operator==(const Recompute&) const = default;
};

/// "none", "selective", "full"; Listed has no name.
std::string_view name_of(Recompute::Kind kind);
/// Names of kinds that need no list.
std::vector<std::string> recompute_names();
/// InputError with those that are allowed.
Recompute parse_recompute(std::string_view name);

/// Runs of operators, by operator from 0: what a model repeats (layers, steps), where that makes blocks of
/// four operators or more that hold most of the model; else ⌈√n⌉ runs of about equally many.
std::vector<std::int32_t> forward_blocks(const OperatorGraph& graph);

/// The segment of every operator, from 0, or kNoSegment, or kKeptSegment.
std::vector<std::int32_t> recompute_segments(const OperatorGraph& graph, const Recompute& recompute,
                                             const std::optional<Pipeline>& pipeline);

/// Why it can't be: nothing to recompute, or segments over several stages. The pipeline must be legal.
std::optional<std::string> illegal(const OperatorGraph& graph, const Recompute& recompute,
                                   const std::optional<Pipeline>& pipeline);

/// What is run again and who reads it, whatever the strategy.
class Recomputation {
 public:
  Recomputation(const OperatorGraph& graph, const Recompute& recompute,
                const std::optional<Pipeline>& pipeline);

  [[nodiscard]] bool any() const { return !segments_.empty(); }
  /// The operator runs again: it is in a segment, and backward or another second run reads what it makes or
  /// saves.
  [[nodiscard]] bool again(OperatorId op) const { return again_[op.index()]; }
  /// After forward, this use reads what its producer made again, not what was kept.
  [[nodiscard]] bool reads_again(UseRef use) const;

  struct Segment {
    std::vector<OperatorId> operators;  ///< that run again, ascending
    OperatorId last;  ///< the last one whose backward reads what they made; none of those behind it does, nor
                      ///< does their backward wait for these
  };
  /// Those that run anything again, in the order in which backward comes to them: by `last`, descending.
  [[nodiscard]] std::span<const Segment> segments() const { return segments_; }

 private:
  [[nodiscard]] bool is_kept_for(OperatorId producer, OperatorId reader) const;
  void find_segments(const OperatorGraph& graph);

  const OperatorGraph* graph_;
  std::vector<std::int32_t> segment_of_, stage_of_;  // by operator
  std::vector<bool> backward_;                       // by operator: it has one
  std::vector<bool> again_;                          // by operator
  std::vector<Segment> segments_;
};

}  // namespace pipesim
