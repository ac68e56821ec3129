#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "taskgraph/moving/redistribution.h"

namespace pipesim {

/// A piece of the source layout and the devices that hold a copy of it, ascending.
struct RedistributionPart {
  Box box;
  std::int32_t addend = 0;
  std::vector<DeviceId> devices;
};

/// A box of the target layout and the devices that want it, ascending.
struct RedistributionWant {
  Box box;
  std::vector<DeviceId> devices;
};

/// Parts and wanted boxes that overlap, directly or through others.
struct RedistributionComponent {
  std::vector<RedistributionPart> parts;  ///< ascending by (box, addend)
  std::vector<RedistributionWant> wants;  ///< ascending by box
};

struct RedistributionSetting {
  std::int64_t element_bytes;
  std::int32_t first_round;
  bool nested;  ///< inside another candidate: two-step candidates are not tried again
  CommunicationPrices& prices;
  StepContents contents = StepContents::List;
  /// The time limit for candidates that contain sends; slower ones are not wanted. See redistribute_within().
  Seconds most{std::numeric_limits<double>::infinity()};
  /// Set to true where ways were compared by their times; null: nobody asks.
  bool* compared = nullptr;
};

/// The cheapest candidate of one component: the least (time, rounds, order of the algebra's table). A
/// recognised collective is used without comparison, since its implementation may itself send directly where
/// that is faster. So are all-to-alls alone where they move no more than sends: only other chains may be
/// cheaper then. Nothing when all candidates contain sends and are certain to take longer than
/// `setting.most`.
std::optional<std::vector<RedistributionStep>> cheapest_steps(const RedistributionComponent& component,
                                                              const RedistributionSetting& setting);

/// By addend of `from`: whether every destination holds it already.
std::vector<bool> peeled_addends(const Layout& from, const Layout& to);

/// Steps for all components between two layouts; `after` is left empty. Nothing when a component has no steps
/// within the limit.
std::optional<std::vector<RedistributionStep>> plan_steps(const Layout& from, const Layout& to,
                                                          const std::vector<bool>& peeled,
                                                          const RedistributionSetting& setting);

/// Direct sends. Wanted boxes are cut at the boundaries of source boxes. Each piece of each addend comes from
/// the device itself if it holds the piece, else from the nearest holder, else from the one that has sent
/// least, else from the lowest id.
std::vector<RedistributionStep> direct_steps(const RedistributionComponent& component,
                                             const RedistributionSetting& setting);

/// Reduce-scatter, all-to-all, all-gather, without those that are not needed. Addends of a box are reduced to
/// pieces of it, or copies of it give a piece each; what all devices give each other are equal blocks; where
/// several devices want a box, each gets a share of it and gathers the rest. Parts and wanted boxes may also
/// be left whole: then devices get copies of a block, or addends that they add themselves. Whether parts and
/// wanted boxes are cut makes four kinds of ways. Each kind gives at most two: a way with the smallest groups
/// that exchange all-to-all, and a way that moves least, if that is another. None unless devices are alike
/// and cuts come out even. `lanes`: disjoint sets of devices that hold one copy of every part, in the order
/// of the parts, which are boxes × addends, the boxes disjoint. No device wants two boxes.
std::vector<std::vector<RedistributionStep>> composed_steps(const RedistributionComponent& component,
                                                            std::span<const std::vector<DeviceId>> lanes,
                                                            const RedistributionSetting& setting);

/// Fills RedistributionStep::after: a step waits for those of earlier rounds of its component from which its
/// contributors have data. The steps are in the order of components and rounds.
void link_rounds(std::vector<RedistributionStep>& steps);

/// For devices that each hold an addend of one box, where equally many devices want each part of it: groups
/// in which each part is wanted once scatter their sums, and devices that want the same part sum what the
/// groups left. This brings gradients together whose state only some of the copies divide. `lanes`: as for
/// composed_steps(). No device wants two boxes.
std::optional<std::vector<RedistributionStep>> scatter_then_sum(const RedistributionComponent& component,
                                                                std::span<const std::vector<DeviceId>> lanes,
                                                                const RedistributionSetting& setting);

/// Disjoint sets of devices that hold one copy of every part, in the order of the parts: by copy of the first
/// part, of every other part the unused copy nearest to it, ties by id. Empty if copies are unequal or a
/// device holds two parts.
std::vector<std::vector<DeviceId>> lanes_of(const std::vector<RedistributionPart>& parts,
                                            const CommunicationPrices& prices);

/// A lower bound of the time of direct sends.
Seconds least_time_of_sends(const RedistributionComponent& component, const RedistributionSetting& setting);

Seconds time_of_steps(std::span<const RedistributionStep> steps, std::int64_t element_bytes,
                      CommunicationPrices& prices);

}  // namespace pipesim
