#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "taskgraph/moving/redistribution.h"

namespace pipesim {

/// A block of data that a device holds while a redistribution runs: the sum of some addends over a box.
struct Fragment {
  Box box;
  std::vector<std::int32_t> addends;  ///< ascending
  std::int32_t step = -1;             ///< the step that brought it; −1: it lay there from the start
  /// From the start: the entry of the source layout. Else: the position among what the step gave this device.
  std::int32_t index = 0;
};

/// Copies `region` of a fragment, or adds it where an earlier part has written already.
struct MovedPart {
  std::int32_t fragment = 0;  ///< index into DataMovement::fragments(device)
  Box region;
  bool add = false;
};

/// A box put together from fragments of one device.
struct Assembly {
  Box box;
  std::vector<MovedPart> parts;  ///< in this order
  bool gaps = false;             ///< some elements have no part: they are 0
  /// Whether the box is exactly one of the fragments, so that nothing has to be copied.
  [[nodiscard]] bool is_fragment(std::span<const Fragment> fragments) const;
};

/// The data that every device sends and assembles in a redistribution, as needed to carry out each
/// RedistributionStep. Sums run in ascending order of addends, so they are reproducible.
class DataMovement {
 public:
  /// `from` is the layout that redistribute() was given. All arguments must outlive this.
  DataMovement(const Layout& from, const Layout& to, const Redistribution& redistribution);

  /// All data that the device holds at some time: entries of `from`, then the results of the steps in their
  /// order.
  [[nodiscard]] std::span<const Fragment> fragments(DeviceId device) const;

  /// The input of member `rank` to a step: a block for each member, all of one size (reduce-scatter,
  /// all-to-all); one block; or the pieces of a message. Empty for members that only receive.
  [[nodiscard]] std::vector<Assembly> given(std::size_t step, std::size_t rank) const;
  /// The boxes that member `rank` receives, as fragments: one for each member (all-gather, all-to-all), one,
  /// or the pieces of a message.
  [[nodiscard]] std::vector<Box> got(std::size_t step, std::size_t rank) const;

  /// A box of `to` on its device, assembled from the device's fragments at the end. InternalError when a part
  /// is missing.
  [[nodiscard]] Assembly result(DeviceId device, const Box& want) const;

 private:
  [[nodiscard]] std::vector<Box> given_boxes(std::size_t step, std::size_t rank) const;
  [[nodiscard]] std::vector<std::int32_t> addends_given(std::size_t step, std::size_t rank) const;
  [[nodiscard]] std::vector<std::int32_t> addends_got(std::size_t step, std::int32_t block) const;
  [[nodiscard]] Assembly assemble(DeviceId device, const Box& box, std::vector<std::int32_t> addends,
                                  std::int32_t before_round) const;
  void add_parts(Assembly& out, DeviceId device, const Box& atom, std::vector<std::int32_t> addends,
                 std::span<const std::int32_t> candidates) const;
  [[nodiscard]] std::vector<std::int32_t> present(const Box& box,
                                                  const std::vector<std::int32_t>& addends) const;

  const Layout& from_;
  const Redistribution& redistribution_;
  std::vector<std::int32_t> all_, unpeeled_;
  std::vector<std::vector<Fragment>> fragments_;  // by device id
};

}  // namespace pipesim
