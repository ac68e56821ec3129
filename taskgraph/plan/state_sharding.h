#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/data_type.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

/// Which state of training the devices that copy a weight divide among each other, instead of each holding
/// all of it (Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 5; Zhao et al., "PyTorch FSDP",
/// arXiv:2304.11277).
///
/// Gradients are reduced to the parts, each part is updated where it is, and the weights are gathered again.
struct StateSharding {
  enum class Kind : std::uint8_t {
    None,
    Optimizer,  ///< zero1: the optimizer's state; once an iteration, weights are gathered when updated
    Gradients,  ///< zero2: and accumulated gradients, which are reduced after each microbatch
    Weights     ///< zero3: and weights, which each microbatch gathers before forward and before backward
  };
  Kind kind = Kind::None;
  /// The number of copies that divide the state; other groups of as many hold it again (hybrid sharding). 0:
  /// all copies. Where it does not divide the number of copies, the largest divisor below it is taken. Where
  /// several stages of a pipeline hold a weight (a tied embedding), all copies in each stage divide it.
  std::int32_t group = 0;
  /// zero3: until when weights that forward gathered are kept.
  enum class Reshard : std::uint8_t {
    Always,  ///< until they are used; backward gathers them again
    Never,   ///< until the backward of the microbatch
    /// Until the last backward of the iteration, as PyTorch's pipelines run FSDP2
    /// (torch/distributed/pipelining/stage.py): the first microbatch gathers, and gradients accumulate whole
    /// and are reduced once. It differs from zero1 with gathers in forward in what is kept between steps,
    /// and in nothing that happens during one.
    Last
  };
  Reshard reshard = Reshard::Always;
  /// zero3: gradients accumulate whole, in the type of PlanOptions::gradient_type, and are reduced once an
  /// iteration.
  bool whole_gradients = false;
  /// Where weights are gathered before they are used, a layer's may be gathered while the device is still
  /// busy with this number of layers before it; 0: only when the layer before is done.
  std::int32_t prefetch = 1;
  /// zero3: narrower weights are kept in float32, without a copy in the state, and rounded to their own type
  /// before they are gathered (FSDP2's mixed precision).
  bool wide_weights = false;
  /// Narrower weights travel in float32, and are rounded to their own type where they are used.
  bool wide_gathers = false;
  /// zero1, zero2: weights are gathered in the forward pass of the first microbatch, each before its first
  /// use, instead of after the update (Megatron-LM's --overlap-param-gather).
  bool overlaps_gather = false;

  [[nodiscard]] bool any() const { return kind != Kind::None; }
  /// Whether gradients are reduced after each microbatch, and not once an iteration.
  [[nodiscard]] bool each_microbatch() const {
    return kind >= Kind::Gradients && !whole_gradients && reshard != Reshard::Last;
  }
  /// Whether each microbatch gathers weights.
  [[nodiscard]] bool gathers_to_use() const { return kind == Kind::Weights && reshard != Reshard::Last; }
  /// Return whether each microbatch keeps what it gathered for backward, and how often it gathers a weight.
  [[nodiscard]] bool keeps_gathered() const { return gathers_to_use() && reshard == Reshard::Never; }
  [[nodiscard]] int gathers_each_microbatch() const {
    return gathers_to_use() ? (keeps_gathered() ? 1 : 2) : 0;
  }
  /// Whether the first microbatch gathers weights for all of them.
  [[nodiscard]] bool gathers_in_forward() const { return overlaps_gather || reshard == Reshard::Last; }
  /// Whether any pass of a microbatch waits for gathered weights.
  [[nodiscard]] bool gathers_before_use() const { return gathers_to_use() || gathers_in_forward(); }
  /// Return the types in which trained weights of a type are kept, and in which they travel.
  [[nodiscard]] DataType kept_type(DataType type) const;
  [[nodiscard]] DataType gather_type(DataType type) const;
  /// Whether even a device that keeps a weight whole makes a copy to use it, of its own type.
  [[nodiscard]] bool copies_to_use(DataType type) const {
    return gathers_to_use() && kept_type(type) != type && gather_type(type) == type;
  }
  bool operator==(const StateSharding&) const = default;
  /// "zero3,shard=8,reshard=never,prefetch=2,weights=float32", "zero3,gradients=whole",
  /// "zero1,gather=float32,overlap=gather"; parts with their default are left out. "none" for none.
  [[nodiscard]] std::string str() const;
};

/// Reads one part, a name and a value such as "zero" and "3", "shard" and "8", into `sharding`. Returns
/// nothing when it did, else why not. The name must be one of state_sharding_parts().
std::optional<std::string> read_state_sharding(std::string_view name, std::string_view value,
                                               StateSharding& sharding);
/// "zero", "shard", …
std::span<const std::string_view> state_sharding_parts();
/// Reads what str() writes. InputError with what is allowed.
StateSharding parse_state_sharding(std::string_view text);

/// Names parts that contradict each other; nothing where none do.
std::optional<std::string> contradiction(const StateSharding& sharding);

/// Why microbatches that go both ways under a schedule (ScheduleKind::both_ways) can't divide state so. Their
/// gradients are summed over the copies of both ways, which is done once an iteration: after one microbatch,
/// only the copies of its own way would have something to add.
std::optional<std::string> refusal_in_ways(const StateSharding& sharding, const std::string& schedule);

/// Why a plan with this pipeline can't divide state, as "zero1 …". The pipeline must be legal.
std::optional<std::string> illegal(const StateSharding& sharding, const std::optional<Pipeline>& pipeline,
                                   std::int32_t microbatches);

}  // namespace pipesim
