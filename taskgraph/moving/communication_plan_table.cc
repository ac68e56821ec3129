#include "taskgraph/moving/communication_plan_table.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "taskgraph/moving/divided_layout.h"

namespace pipesim {

using Lock = tbb::spin_mutex::scoped_lock;

CommunicationPlans::Key CommunicationPlans::key_of(std::span<const LayoutId> terms, LayoutId target,
                                                   const Setting& setting) {
  const auto piece = static_cast<std::uint64_t>(setting.largest_piece.value);
  Key key{target.value,
          static_cast<std::int32_t>(setting.element_bytes),
          static_cast<std::int32_t>(piece >> 32),
          static_cast<std::int32_t>(piece),
          2 * setting.experts + (setting.forms.gathers == GatherBy::Broadcast ? 1 : 0),
          static_cast<std::int32_t>(std::lround(setting.packed * (1 << 20))),
          static_cast<std::int32_t>(setting.forms.route.nodes),
          static_cast<std::int32_t>(setting.forms.route.experts),
          static_cast<std::int32_t>(setting.forms.route.chosen)};
  for (const LayoutId id : terms) key.push_back(id.value);
  return key;
}

CommunicationPlans::Kept* CommunicationPlans::kept(const Key& key) const {
  Kept* const* found = plans_.find(key);
  return found ? *found : nullptr;
}

// Another thread may have kept the same meanwhile: one of equal plans is enough.
CommunicationPlans::Kept& CommunicationPlans::keep(std::span<const LayoutId> terms, LayoutId target,
                                                   const Setting& setting, CommunicationPlan plan) {
  const Key key = key_of(terms, target, setting);
  const Lock lock(mutex_);
  if (Kept* there = kept(key)) return *there;
  bytes_ += plan.bytes().value;
  Kept& made = kept_.emplace_back(std::move(plan), setting.forms);
  plans_.insert(key, &made);
  if (made.plan.compared || terms.size() > 1)
    choices_.push_back({{terms.begin(), terms.end()}, target, setting, &made.plan});
  return made;
}

CommunicationPlans::Kept& CommunicationPlans::share(std::span<const LayoutId> terms, LayoutId target,
                                                    const Setting& setting, Kept& made) {
  const Key key = key_of(terms, target, setting);
  const Lock lock(mutex_);
  if (Kept* there = kept(key)) return *there;
  plans_.insert(key, &made);
  if (made.plan.has_sends()) choices_.push_back({{terms.begin(), terms.end()}, target, setting, &made.plan});
  return made;
}

const CommunicationPlan& CommunicationPlans::between(std::span<const LayoutId> terms, LayoutId target,
                                                     const Setting& setting) {
  if (terms.size() == 1) return plan_term(terms.front(), target, setting).plan;
  if (const Kept* found = kept(key_of(terms, target, setting))) return found->plan;
  if (Kept* sum = plan_sum(terms, target, setting)) return share(terms, target, setting, *sum).plan;
  return keep(terms, target, setting,
              plan_terms(terms, target, setting.element_bytes, setting.largest_piece, layouts_,
                         prices_.local(), load_of(terms, target, setting), setting.forms))
      .plan;
}

const CommunicationPlan* CommunicationPlans::find(std::span<const LayoutId> terms, LayoutId target,
                                                  const Setting& setting) const {
  const Kept* found = kept(key_of(terms, target, setting));
  return found ? &found->plan : nullptr;
}

CommunicationPlans::Kept& CommunicationPlans::plan_term(LayoutId term, LayoutId target,
                                                        const Setting& setting) {
  const std::span<const LayoutId> terms(&term, 1);
  if (Kept* found = kept(key_of(terms, target, setting))) return *found;
  return keep(terms, target, setting, planned(terms, target, setting));
}

CommunicationPlan CommunicationPlans::planned(std::span<const LayoutId> terms, LayoutId target,
                                              const Setting& setting) const {
  return plan_communication(terms, target, setting.element_bytes, setting.largest_piece, layouts_,
                            prices_.local(), load_of(terms, target, setting), setting.forms);
}

bool CommunicationPlans::reprice() {
  for (Kept& kept : kept_) {
    if (!pipesim::reprice(kept.plan, kept.forms, prices_.local())) return false;
    kept.seconds = -1;
  }
  return std::ranges::all_of(choices_, [&](const Choice& c) {
    return same_tasks(planned(c.terms, c.target, c.setting), *c.chosen);
  });
}

// Chooses as plan_communication() does, but among plans that may be known already. Returns nothing where each
// term is to be taken on its own.
CommunicationPlans::Kept* CommunicationPlans::plan_sum(std::span<const LayoutId> terms, LayoutId target,
                                                       const Setting& setting) {
  const LayoutId sum = layouts_.intern(sum_of(layouts_of(terms)));
  Kept* together = kept(key_of(std::span(&sum, 1), target, setting));
  if (together && !together->plan.has_sends()) return together;
  Seconds apart;
  for (const LayoutId id : terms) apart += time_of(plan_term(id, target, setting));
  if (!together) together = plan_sum_within(apart, sum, target, setting);
  if (together && !(together->plan.has_sends() && apart < time_of(*together))) return together;
  return nullptr;
}

// Nothing where it is certain that it takes longer than `most` and contains sends.
CommunicationPlans::Kept* CommunicationPlans::plan_sum_within(Seconds most, LayoutId sum, LayoutId target,
                                                              const Setting& setting) {
  CommunicationPrices& prices = prices_.local();
  const std::optional<Redistribution> together =
      redistribute_within(most, layouts_[sum], layouts_[target], setting.element_bytes, prices);
  if (!together) return nullptr;
  return &keep(std::span(&sum, 1), target, setting,
               plan_of(*together, target, setting.element_bytes, setting.largest_piece, layouts_, prices,
                       load_of(std::span(&sum, 1), target, setting), setting.forms));
}

// A step is as slow as its fullest device.
double CommunicationPlans::load_of(std::span<const LayoutId> terms, LayoutId target,
                                   const Setting& setting) const {
  if (setting.experts < 0 || !loads_) return setting.packed;
  double load = loads_->of(setting.experts, layouts_[target]);
  for (const LayoutId id : terms) load = std::max(load, loads_->of(setting.experts, layouts_[id]));
  return load * setting.packed;
}

Seconds CommunicationPlans::time_of(Kept& kept) {
  if (kept.seconds < 0) kept.seconds = estimated_time(kept.plan, prices_.local()).value;
  return Seconds(kept.seconds);
}

std::vector<const Layout*> CommunicationPlans::layouts_of(std::span<const LayoutId> ids) const {
  std::vector<const Layout*> layouts;
  for (const LayoutId id : ids) layouts.push_back(&layouts_[id]);
  return layouts;
}

LayoutId CommunicationPlans::home(std::span<const LayoutId> needed) {
  Key key;
  for (const LayoutId id : needed) key.push_back(id.value);
  if (const LayoutId* found = homes_.find(key)) return *found;
  const LayoutId home = layouts_.intern(union_of(layouts_of(needed)));
  const Lock lock(mutex_);
  if (!homes_.find(key)) homes_.insert(key, home);
  return home;
}

LayoutId CommunicationPlans::divided_home(LayoutId home, std::span<const LayoutId> terms, std::int32_t group,
                                          std::int32_t stages) {
  Key key{home.value, group, stages};
  for (const LayoutId id : terms) key.push_back(id.value);
  if (const LayoutId* found = divided_homes_.find(key)) return *found;
  const LayoutId made = layouts_.intern(divided(layouts_[home], sum_of(layouts_of(terms)), group, stages));
  const Lock lock(mutex_);
  if (!divided_homes_.find(key)) divided_homes_.insert(key, made);
  return made;
}

LayoutId CommunicationPlans::held_there(LayoutId layout, LayoutId target) {
  const Key key{layout.value, target.value};
  if (const LayoutId* found = held_there_.find(key)) return *found;
  const LayoutId made = layouts_.intern(pipesim::held_there(layouts_[layout], layouts_[target]));
  const Lock lock(mutex_);
  if (!held_there_.find(key)) held_there_.insert(key, made);
  return made;
}

void CommunicationPlans::clear() {
  plans_.clear();
  homes_.clear();
  divided_homes_.clear();
  held_there_.clear();
  // Millions of lists may have to be freed.
  tbb::parallel_for(std::size_t{0}, kept_.size(),
                    [&](std::size_t i) { kept_[i].plan = CommunicationPlan(); });
  kept_.clear();
  choices_.clear();
  bytes_ = 0;
}

CommunicationPlans::Setting setting_of(const OperatorGraph& graph, TensorId tensor, Moved moved,
                                       Bytes largest_piece, Dispatcher dispatcher) {
  const Tensor& t = graph.tensor(tensor);
  CommunicationPlans::Setting setting{bytes_per_element(t.type), largest_piece};
  double made = 1, read = 0;  // shares of the bytes, of data and of gradients
  const auto take_route = [&](const TensorUse& use) {
    if (!use.route || dispatcher == Dispatcher::AllToAll) return;
    NodeRoute route = *use.route;
    if (route.nodes == 0 && dispatcher != Dispatcher::AsModel) route.nodes = route.chosen;
    if (route.nodes > 0) setting.forms.route = route;
  };
  if (t.producer.valid()) {
    for (const TensorUse& use : graph.op(t.producer).uses) {
      if (use.tensor != tensor || use.role != Role::Output) continue;
      take_route(use);
      made = use.sent_share(t.type);
    }
  }
  for (const UseRef reader : graph.consumers(tensor)) {
    const TensorUse& use = graph.op(reader.op).uses[static_cast<std::size_t>(reader.use)];
    take_route(use);
    read = std::max(read, use.sent_share(t.type));  // of a sum, as that of its widest addend
  }
  setting.packed = moved == Moved::Data || read == 0 ? made : read;
  return setting;
}

}  // namespace pipesim
