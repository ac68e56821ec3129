#include "taskgraph/communication_plans.h"

#include <utility>

namespace pipesim {

void CommunicationPlans::set_key(std::span<const LayoutId> terms, LayoutId target,
                                 const Setting& setting) const {
  const auto piece = static_cast<std::uint64_t>(setting.largest_piece.value);
  key_.assign({target.value, static_cast<std::int32_t>(setting.element_bytes),
               static_cast<std::int32_t>(piece >> 32), static_cast<std::int32_t>(piece)});
  for (const LayoutId id : terms) key_.push_back(id.value);
}

const CommunicationPlan& CommunicationPlans::between(std::span<const LayoutId> terms, LayoutId target,
                                                     const Setting& setting) {
  if (terms.size() == 1) return kept(terms.front(), target, setting).plan;
  set_key(terms, target, setting);
  if (Kept* const* found = plans_.find(key_)) return (*found)->plan;
  Kept& sum = plan_sum(terms, target, setting);
  set_key(terms, target, setting);
  plans_.insert(key_, &sum);
  return sum.plan;
}

const CommunicationPlan* CommunicationPlans::find(std::span<const LayoutId> terms, LayoutId target,
                                                  const Setting& setting) const {
  set_key(terms, target, setting);
  Kept* const* found = plans_.find(key_);
  return found ? &(*found)->plan : nullptr;
}

CommunicationPlans::Kept& CommunicationPlans::keep(CommunicationPlan plan) {
  bytes_ += plan.bytes();
  return kept_.emplace_back(Kept{std::move(plan), std::nullopt});
}

CommunicationPlans::Kept& CommunicationPlans::kept(LayoutId term, LayoutId target, const Setting& setting) {
  set_key(std::span(&term, 1), target, setting);
  if (Kept* const* found = plans_.find(key_)) return **found;
  Kept& made = keep(plan_communication(std::span(&term, 1), target, setting.element_bytes,
                                       setting.largest_piece, layouts_, prices_));
  plans_.insert(key_, &made);
  return made;
}

// As plan_communication() chooses, but from plans that others may have asked for already.
CommunicationPlans::Kept& CommunicationPlans::plan_sum(std::span<const LayoutId> terms, LayoutId target,
                                                       const Setting& setting) {
  parts_.clear();
  for (const LayoutId id : terms) parts_.push_back(&layouts_[id]);
  const LayoutId sum = layouts_.intern(sum_of(parts_));
  set_key(std::span(&sum, 1), target, setting);
  Kept* const* found = plans_.find(key_);
  Kept* together = found ? *found : nullptr;
  if (together && !together->plan.has_sends()) return *together;
  Seconds apart;
  for (const LayoutId id : terms) apart += time_of(kept(id, target, setting));
  if (!together) together = plan_sum_within(apart, sum, target, setting);
  if (together && !(together->plan.has_sends() && apart < time_of(*together))) return *together;
  return keep(plan_terms(terms, target, setting.element_bytes, setting.largest_piece, layouts_, prices_));
}

// Nothing where it is certain that it takes longer than `most` and contains sends.
CommunicationPlans::Kept* CommunicationPlans::plan_sum_within(Seconds most, LayoutId sum, LayoutId target,
                                                              const Setting& setting) {
  const std::optional<Redistribution> together =
      redistribute_within(most, layouts_[sum], layouts_[target], setting.element_bytes, prices_);
  if (!together) return nullptr;
  Kept& made =
      keep(plan_of(*together, target, setting.element_bytes, setting.largest_piece, layouts_, prices_));
  set_key(std::span(&sum, 1), target, setting);
  plans_.insert(key_, &made);
  return &made;
}

Seconds CommunicationPlans::time_of(Kept& kept) {
  if (!kept.time) kept.time = estimated_time(kept.plan, prices_);
  return *kept.time;
}

LayoutId CommunicationPlans::home(std::span<const LayoutId> needed) {
  key_.clear();
  for (const LayoutId id : needed) key_.push_back(id.value);
  if (const LayoutId* found = homes_.find(key_)) return *found;
  parts_.clear();
  for (const LayoutId id : needed) parts_.push_back(&layouts_[id]);
  const LayoutId home = layouts_.intern(union_of(parts_));
  homes_.insert(key_, home);
  return home;
}

void CommunicationPlans::clear() {
  plans_.clear();
  homes_.clear();
  kept_.clear();
  bytes_ = Bytes(0);
}

}  // namespace pipesim
