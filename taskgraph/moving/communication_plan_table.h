#pragma once

#include <tbb/spin_mutex.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "sim/base/small_vector.h"
#include "taskgraph/moving/communication_plan.h"
#include "taskgraph/moving/expert_loads.h"
#include "taskgraph/moving/id_table.h"

namespace pipesim {

/// Communication plans, looked up by layouts and setting; each is kept once. A list of terms shares the plan
/// of its sum with every other list that has the same sum. Any number of threads may use it; a thread waits
/// for another only to store a new plan. Call clear() only while no thread uses it.
class CommunicationPlans {
 public:
  /// The inputs of a plan besides its layouts.
  struct Setting {
    std::int64_t element_bytes = 0;
    Bytes largest_piece;
    std::int32_t experts = -1;  ///< the tensor's dimension of experts, see ExpertLoads; −1: none
    CollectiveForms forms = {};
    /// Part of these bytes that elements take: of weights in WeightStorage, and of what travels in a narrower
    /// type (TensorUse::sent_as).
    double packed = 1;
    /// Bytes of an element that a move is certain to bring across any border; 0 where some need not cross.
    [[nodiscard]] std::int64_t least_element_bytes() const {
      return forms.route.nodes > 0
                 ? 0
                 : static_cast<std::int64_t>(static_cast<double>(element_bytes) * std::min(1.0, packed));
    }
  };

  /// `loads`: of experts; null: even. It must outlive this.
  CommunicationPlans(LayoutTable& layouts, CommunicationPricesByThread& prices,
                     const ExpertLoads* loads = nullptr)
      : layouts_(layouts), prices_(prices), loads_(loads) {}

  /// The result of plan_communication(). Valid until clear().
  const CommunicationPlan& between(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  /// The plan if it is kept already, else nullptr.
  [[nodiscard]] const CommunicationPlan* find(std::span<const LayoutId> terms, LayoutId target,
                                              const Setting& setting) const;
  /// union_of() these layouts, which must be distinct.
  LayoutId home(std::span<const LayoutId> needed);
  /// divided() this home, whose gradient is the sum of `terms`, which must be distinct.
  LayoutId divided_home(LayoutId home, std::span<const LayoutId> terms, std::int32_t group,
                        std::int32_t stages = 1);

  /// held_there() of these.
  LayoutId held_there(LayoutId layout, LayoutId target);

  /// Prices all kept plans anew, in place. False where some plan would have other tasks, or hold other lanes;
  /// plans are of no use then. No other thread may use this meanwhile.
  [[nodiscard]] bool reprice();

  [[nodiscard]] Bytes bytes() const { return Bytes(bytes_); }
  void clear();

 private:
  struct Kept {
    Kept(CommunicationPlan p, const CollectiveForms& f) : plan(std::move(p)), forms(f) {}
    CommunicationPlan plan;
    CollectiveForms forms;
    /// The time of the steps with nothing else on the links; −1 until it is asked for.
    std::atomic<double> seconds = -1;
  };
  using Key = SmallVector<std::int32_t, 16>;
  /// A plan that was chosen by times.
  struct Choice {
    std::vector<LayoutId> terms;
    LayoutId target;
    Setting setting;
    const CommunicationPlan* chosen;
  };

  static Key key_of(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  [[nodiscard]] Kept* kept(const Key& key) const;
  Kept& keep(std::span<const LayoutId> terms, LayoutId target, const Setting& setting,
             CommunicationPlan plan);
  Kept& share(std::span<const LayoutId> terms, LayoutId target, const Setting& setting, Kept& kept);
  [[nodiscard]] CommunicationPlan planned(std::span<const LayoutId> terms, LayoutId target,
                                          const Setting& setting) const;
  Kept& plan_term(LayoutId term, LayoutId target, const Setting& setting);
  Kept* plan_sum(std::span<const LayoutId> terms, LayoutId target, const Setting& setting);
  Kept* plan_sum_within(Seconds most, LayoutId sum, LayoutId target, const Setting& setting);
  Seconds time_of(Kept& kept);
  [[nodiscard]] double load_of(std::span<const LayoutId> terms, LayoutId target,
                               const Setting& setting) const;
  [[nodiscard]] std::vector<const Layout*> layouts_of(std::span<const LayoutId> ids) const;

  LayoutTable& layouts_;
  CommunicationPricesByThread& prices_;
  const ExpertLoads* loads_;
  tbb::spin_mutex mutex_;  // held to change what follows
  IdTable<Kept*> plans_;
  IdTable<LayoutId> homes_, divided_homes_, held_there_;
  std::deque<Kept> kept_;  // stable addresses
  std::vector<Choice> choices_;
  std::atomic<std::int64_t> bytes_ = 0;
};

/// What a tensor, or its gradient, is moved as: in which type it travels and by which route, as its maker and
/// its readers say, and a dispatcher, where one is named (Runtime::dispatcher). Nothing is cut, and the load
/// of experts is even.
enum class Moved : std::uint8_t { Data, Gradient };
CommunicationPlans::Setting setting_of(const OperatorGraph& graph, TensorId tensor, Moved moved,
                                       Bytes largest_piece, Dispatcher dispatcher);

}  // namespace pipesim
