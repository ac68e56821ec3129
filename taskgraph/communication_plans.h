#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "taskgraph/communication_plan.h"
#include "taskgraph/id_table.h"

namespace pipesim {

/// Plans by what they are made of, each made once. Sums of terms share the plan of their sum, and so do other
/// terms with the same sum. Not thread-safe.
class CommunicationPlans {
 public:
  /// What a plan depends on beside layouts.
  struct Setting {
    std::int64_t element_bytes = 0;
    Bytes largest_piece;
  };

  CommunicationPlans(LayoutTable& layouts, CommunicationPrices& prices)
      : layouts_(layouts), prices_(prices) {}

  /// See plan_communication(), whose results these are. Valid until clear().
  const CommunicationPlan& between(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  /// The same if it is there already, else nullptr.
  [[nodiscard]] const CommunicationPlan* find(std::span<const LayoutId> terms, LayoutId target,
                                              const Setting& setting) const;
  /// union_of() the layouts, which are distinct.
  LayoutId home(std::span<const LayoutId> needed);

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  void clear();

 private:
  struct Kept {
    CommunicationPlan plan;
    std::optional<Seconds> time;  ///< of the steps with nothing else on the links, once it was asked for
  };

  void set_key(std::span<const LayoutId> terms, LayoutId target, const Setting& setting) const;
  Kept& kept(LayoutId term, LayoutId target, const Setting& setting);
  Kept& keep(CommunicationPlan plan);
  Kept& plan_sum(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  Kept* plan_sum_within(Seconds most, LayoutId sum, LayoutId target, const Setting& setting);
  Seconds time_of(Kept& kept);

  LayoutTable& layouts_;
  CommunicationPrices& prices_;
  IdTable<Kept*> plans_;
  IdTable<LayoutId> homes_;
  std::deque<Kept> kept_;  // stable addresses
  Bytes bytes_;
  mutable std::vector<std::int32_t> key_;  // scratch
  std::vector<const Layout*> parts_;       // scratch
};

}  // namespace pipesim
