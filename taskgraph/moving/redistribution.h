#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "taskgraph/moving/communication_prices.h"
#include "taskgraph/moving/layout.h"

namespace pipesim {

/// The devices of a group that provide data for a collective, and the devices that receive. Order of the
/// group: send: source, destination; broadcast: root first; reduce: destination first. In all other
/// collectives every device does both.
std::span<const DeviceId> contributors(Collective kind, std::span<const DeviceId> group);
std::span<const DeviceId> receivers(Collective kind, std::span<const DeviceId> group);

/// One collective or message of a redistribution.
struct RedistributionStep {
  Collective kind = Collective::Send;
  std::int32_t round = 0;      ///< steps of a round may run at the same time
  std::int32_t component = 0;  ///< steps of different components have nothing to do with each other
  /// Place among the steps of a round that are ready at the same time; none: collectives first, then sends in
  /// rounds in which no two devices send to the same one.
  std::int32_t turn = no_turn;
  static constexpr std::int32_t no_turn = -1;
  std::vector<DeviceId> group;      ///< ascending where the order means nothing
  std::int64_t elements = 0;        ///< the size as costmodel counts it (bytes_on_links)
  std::int32_t addend = 0;          ///< of a send
  std::vector<std::int32_t> after;  ///< earlier steps whose results this one sends on
  /// The boxes that each member gives and gets, in the order of `group`. For a send, `gives` holds the pieces
  /// of the message and `gets` is empty.
  std::vector<std::optional<Box>> gives, gets;
  /// The addend that each member gives. all_addends: the sum of all addends that earlier rounds brought
  /// together; brought_addends: of those that they brought to this member.
  std::vector<std::int32_t> gives_addend;
  static constexpr std::int32_t all_addends = -1, brought_addends = -2;
  bool operator==(const RedistributionStep&) const = default;
};

/// Whether steps list the boxes that members give and get. Listing takes longer than planning, and only
/// execution needs it. LeaveOut: RedistributionStep::gives, gets and gives_addend stay empty.
enum class StepContents : std::uint8_t { List, LeaveOut };

/// How a tensor gets from one layout to another.
struct Redistribution {
  std::vector<RedistributionStep> steps;  ///< in an order in which every step comes after what it needs
  std::vector<DeviceId> local;  ///< devices (ascending) whose wanted box has a part that they hold already
  std::vector<bool> peeled;     ///< by addend: every destination holds it already, so the steps leave it out
  bool compared = false;        ///< ways were compared by their times: at other prices it may be another
  [[nodiscard]] std::int64_t elements_on_links() const;
  [[nodiscard]] bool has_sends() const;
  bool operator==(const Redistribution&) const = default;
};

/// The cheapest way from `from` (any layout) to `to` (complete) on this topology (operator algebra, section
/// 3). First the addends that every destination already holds are peeled off. The rest is divided into
/// connected components of overlapping boxes. Each component is moved by a recognised collective, by a chain
/// of collectives, scatter-then-sum, broadcast, reduce, reduce-first, share-then-gather or direct sends: the
/// candidate with the least (time, rounds, place in this list). Between sets of devices that have none in
/// common, all components together may go another way or in another order (redistribution_between_meshes.h).
/// Collectives are used without comparison, and where all-to-alls alone move no more than sends, or
/// scatter-then-sum half as much, only chains and scatter-then-sum are compared. Addends of `from` that lie
/// in the same places must be merged already (sum_of). Pure and deterministic.
Redistribution redistribute(const Layout& from, const Layout& to, std::int64_t element_bytes,
                            CommunicationPrices& prices, StepContents contents = StepContents::List);

/// Like redistribute(), without contents. Returns nothing when the result has sends and is certain to take
/// longer than `most`; this often shows before the sends are listed.
std::optional<Redistribution> redistribute_within(Seconds most, const Layout& from, const Layout& to,
                                                  std::int64_t element_bytes, CommunicationPrices& prices);

/// Time of all steps, round after round, with nothing else on the links.
Seconds estimated_time(const Redistribution& redistribution, std::int64_t element_bytes,
                       CommunicationPrices& prices);

/// The low word of the key of a step's task, by which tasks that are ready at the same time are ordered.
/// `index`: of the task within its plan.
std::uint64_t transfer_key_low(Collective kind, std::int32_t round, std::int32_t turn,
                               std::span<const DeviceId> group, std::uint64_t index,
                               std::uint64_t num_devices);

/// True when every piece of `box` lies in one of `held`.
bool covered(const Box& box, std::span<const Box> held);

}  // namespace pipesim
