#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/program/buffer_list.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/moving/moved_data.h"

namespace pipesim {

/// A wiring with its buffers: where sources write, which data members of its collectives give and get, and
/// where the wanted boxes are assembled. Buffers are made on first request, so only those of the requested
/// devices exist.
class Flow {
 public:
  /// `held`: where a device holds a box of what the wiring moves, if it moves values and not gradients. The
  /// box may be part of a larger one, and may have another type.
  using HeldView = std::function<View(DeviceId device, const Box& box)>;
  Flow(const Wiring& wiring, const ExpandedStrategy& expanded, BufferList& buffers, HeldView held);

  [[nodiscard]] const Wiring& wiring() const { return wiring_; }

  /// Where a shard of source number `source` writes its gradient, and how many writers add up there.
  struct Sink {
    View view;
    std::int32_t writers = 1;
  };
  [[nodiscard]] Sink gradient(std::size_t source, std::int32_t shard);

  /// A member's part in task number `index` of the plan. `before` is what puts its data together: only the
  /// first piece of a step has it, and must run before the others.
  struct Member {
    CommunicationWork work;
    MoveList before;
  };
  [[nodiscard]] Member member(std::size_t index, std::size_t rank);

  /// A wanted box on its device. `moves` puts it together; nothing where it lies in one piece already.
  struct Target {
    View view;
    MoveList moves;
    std::int32_t part =
        0;  ///< of the view's buffer, where several are put together, each by moves of its own
  };
  [[nodiscard]] const Target& target(DeviceId device, const Box& box);

 private:
  // One redistribution of the wiring.
  struct Part {
    Layout from;
    std::vector<std::vector<std::int32_t>> merged_into;
    Redistribution redistribution;
    std::unique_ptr<DataMovement> movement;
    std::map<std::int32_t, View> accumulated;                       // by entry of `from`
    std::map<std::int32_t, std::int32_t> writers;                   // by entry of `from`
    std::map<std::pair<std::size_t, std::size_t>, Member> members;  // by step and rank
  };

  [[nodiscard]] bool moves_values() const {
    return moves_activations(wiring_.kind) || wiring_.kind == TaskKind::WeightGather;
  }
  [[nodiscard]] std::int32_t entry_of(const Part& part, std::size_t source, DeviceId device) const;
  [[nodiscard]] View accumulator(Part& part, std::int32_t entry);
  [[nodiscard]] View fragment(Part& part, DeviceId device, std::int32_t index);
  [[nodiscard]] std::optional<View> lies_at(Part& part, DeviceId device, const Assembly& assembly);
  void add_moves(Part& part, DeviceId device, const Assembly& assembly, const View& to, bool add,
                 MoveList& moves);
  [[nodiscard]] Member& step_member(Part& part, std::size_t step, std::size_t rank);
  void give(Part& part, std::size_t step, std::size_t rank, Member& member);
  [[nodiscard]] bool may_overwrite(Part& part, DeviceId device, std::size_t step, const Assembly& assembly);
  [[nodiscard]] View assembled(Part& part, DeviceId device, const std::vector<Assembly>& blocks,
                               MoveList& moves);

  const Wiring& wiring_;
  std::vector<const BoundOperator*> makers_;  // by source
  const LayoutTable& layouts_;
  BufferList& buffers_;
  HeldView held_;
  DataType type_;
  MemoryCategory source_category_, target_category_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<LayoutId> terms_;
  std::map<std::pair<DeviceId, Box>, Target> targets_;
};

}  // namespace pipesim
