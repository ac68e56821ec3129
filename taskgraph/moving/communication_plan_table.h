#pragma once

#include <tbb/spin_mutex.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "sim/base/small_vector.h"
#include "taskgraph/moving/communication_plan.h"
#include "taskgraph/moving/id_table.h"

namespace pipesim {

/// Plans by what they are made of, each kept once. Sums of terms share the plan of their sum, and so do other
/// terms with the same sum. Any number of threads may use it, and waits for another only to keep what it has
/// planned; clear() is for when none does.
class CommunicationPlans {
 public:
  /// What a plan depends on beside layouts.
  struct Setting {
    std::int64_t element_bytes = 0;
    Bytes largest_piece;
  };

  CommunicationPlans(LayoutTable& layouts, CommunicationPricesByThread& prices)
      : layouts_(layouts), prices_(prices) {}

  /// See plan_communication(), whose results these are. Valid until clear().
  const CommunicationPlan& between(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  /// The same if it is there already, else nullptr.
  [[nodiscard]] const CommunicationPlan* find(std::span<const LayoutId> terms, LayoutId target,
                                              const Setting& setting) const;
  /// union_of() the layouts, which are distinct.
  LayoutId home(std::span<const LayoutId> needed);

  [[nodiscard]] Bytes bytes() const { return Bytes(bytes_); }
  void clear();

 private:
  struct Kept {
    explicit Kept(CommunicationPlan p) : plan(std::move(p)) {}
    CommunicationPlan plan;
    std::atomic<double> seconds = -1;  ///< of the steps with nothing else on the links, once it was asked for
  };
  using Key = SmallVector<std::int32_t, 16>;

  static Key key_of(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  [[nodiscard]] Kept* kept(const Key& key) const;
  Kept& keep(const Key& key, CommunicationPlan plan);
  Kept& share(const Key& key, Kept& kept);
  Kept& plan_term(LayoutId term, LayoutId target, const Setting& setting);
  Kept* plan_sum(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  Kept* plan_sum_within(Seconds most, LayoutId sum, LayoutId target, const Setting& setting);
  Seconds time_of(Kept& kept);
  [[nodiscard]] std::vector<const Layout*> layouts_of(std::span<const LayoutId> ids) const;

  LayoutTable& layouts_;
  CommunicationPricesByThread& prices_;
  tbb::spin_mutex mutex_;  // held to change what follows
  IdTable<Kept*> plans_;
  IdTable<LayoutId> homes_;
  std::deque<Kept> kept_;  // stable addresses
  std::atomic<std::int64_t> bytes_ = 0;
};

}  // namespace pipesim
