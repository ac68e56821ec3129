#include "taskgraph/communication_plan.h"

#include <algorithm>

namespace pipesim {

namespace {

std::vector<LaneUse> rounded(const std::vector<LaneHold>& lanes, Nanoseconds duration) {
  std::vector<LaneUse> uses;
  for (const LaneHold& l : lanes) uses.push_back({l.lane, std::min(to_nanoseconds(l.hold), duration)});
  return uses;
}

// Appends the tasks of one redistribution.
class PlanWriter {
 public:
  PlanWriter(std::int64_t element_bytes, Bytes largest_piece, CommunicationPrices& prices,
             CommunicationPlan& out)
      : element_bytes_(element_bytes), largest_piece_(largest_piece), prices_(prices), out_(out) {}

  void add(const Redistribution& redistribution, std::int32_t term) {
    first_task_.clear();
    for (std::size_t s = 0; s < redistribution.steps.size(); ++s) {
      add_step(redistribution.steps[s], term, static_cast<std::int32_t>(s));
    }
    first_task_.push_back(out_.tasks.size());
    for (std::size_t s = 0; s < redistribution.steps.size(); ++s) link(redistribution.steps[s], s);
    out_.local.insert(out_.local.end(), redistribution.local.begin(), redistribution.local.end());
  }

 private:
  void add_step(const RedistributionStep& step, std::int32_t term, std::int32_t number) {
    first_task_.push_back(out_.tasks.size());
    const std::int64_t size = step.elements * element_bytes_;
    const std::int64_t pieces =
        std::max<std::int64_t>(1, (size + largest_piece_.value - 1) / largest_piece_.value);
    for (std::int64_t p = 0; p < pieces; ++p) {
      const Bytes piece(size * (p + 1) / pieces - size * p / pieces);
      CommunicationTask task = priced_task(step.kind, step.group, piece, prices_);
      task.round = step.round;
      task.piece = static_cast<std::int32_t>(p);
      task.pieces = static_cast<std::int32_t>(pieces);
      task.step = number;
      task.term = term;
      out_.tasks.push_back(std::move(task));
    }
  }

  void link(const RedistributionStep& step, std::size_t s) {
    for (std::size_t t = first_task_[s]; t < first_task_[s + 1]; ++t) {
      for (const std::int32_t before : step.after) {
        const auto b = static_cast<std::size_t>(before);
        for (std::size_t e = first_task_[b]; e < first_task_[b + 1]; ++e) {
          out_.tasks[t].after.push_back(static_cast<std::int32_t>(e));
        }
      }
    }
  }

  std::int64_t element_bytes_;
  Bytes largest_piece_;
  CommunicationPrices& prices_;
  CommunicationPlan& out_;
  std::vector<std::size_t> first_task_;
};

Layout total(std::span<const LayoutId> terms, const LayoutTable& layouts) {
  std::vector<const Layout*> parts;
  for (const LayoutId id : terms) parts.push_back(&layouts[id]);
  return sum_of(parts);
}

void add_receive_buffers(CommunicationPlan& plan, std::int64_t element_bytes, const Layout& target) {
  std::vector<DeviceId> devices;
  for (const CommunicationTask& t : plan.tasks) {
    const auto to = receivers(t.kind, t.group);
    devices.insert(devices.end(), to.begin(), to.end());
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (const DeviceId d : devices) {
    const Bytes size(target.elements_on(d) * element_bytes);  // 0 on a device that only helps to reduce
    if (size.value > 0) plan.received.emplace_back(d, size);
  }
}

}  // namespace

std::vector<LaneUse> added_up(std::vector<LaneUse> uses) {
  std::ranges::sort(uses, {}, &LaneUse::lane);
  std::vector<LaneUse> sums;
  for (const LaneUse& use : uses) {
    if (sums.empty() || sums.back().lane != use.lane) sums.push_back({use.lane, 0});
    sums.back().hold += use.hold;
  }
  return sums;
}

std::vector<Redistribution> redistributions_of(std::span<const LayoutId> terms, LayoutId target,
                                               std::int64_t element_bytes, bool term_by_term,
                                               const LayoutTable& layouts, CommunicationPrices& prices) {
  if (!term_by_term) return {redistribute(total(terms, layouts), layouts[target], element_bytes, prices)};
  std::vector<Redistribution> each;
  for (const LayoutId id : terms) {
    each.push_back(redistribute(total(std::span(&id, 1), layouts), layouts[target], element_bytes, prices));
  }
  return each;
}

CommunicationTask priced_task(Collective kind, std::vector<DeviceId> group, Bytes size,
                              CommunicationPrices& prices) {
  CommunicationTask task;
  const CollectiveTime time = prices.time(kind, group, size);
  task.kind = kind;
  task.size = size;
  task.group = std::move(group);
  task.duration = to_nanoseconds(time.duration);
  task.lanes = rounded(time.lanes, task.duration);
  return task;
}

CommunicationPlan plan_communication(std::span<const LayoutId> terms, LayoutId target,
                                     std::int64_t element_bytes, Bytes largest_piece, LayoutTable& layouts,
                                     CommunicationPrices& prices) {
  CommunicationPlan plan;
  plan.target = target;
  PlanWriter writer(element_bytes, largest_piece, prices, plan);
  std::vector<Redistribution> chosen =
      redistributions_of(terms, target, element_bytes, false, layouts, prices);
  if (terms.size() > 1 && chosen.front().has_sends()) {
    std::vector<Redistribution> each =
        redistributions_of(terms, target, element_bytes, true, layouts, prices);
    Seconds sum;
    for (const Redistribution& r : each) sum += estimated_time(r, element_bytes, prices);
    plan.term_by_term = sum < estimated_time(chosen.front(), element_bytes, prices);
    if (plan.term_by_term) chosen = std::move(each);
  }
  for (std::size_t i = 0; i < chosen.size(); ++i)
    writer.add(chosen[i], plan.term_by_term ? static_cast<std::int32_t>(i) : -1);
  std::sort(plan.local.begin(), plan.local.end());
  plan.local.erase(std::unique(plan.local.begin(), plan.local.end()), plan.local.end());
  add_receive_buffers(plan, element_bytes, layouts[target]);
  std::vector<LaneUse> uses;
  for (const CommunicationTask& t : plan.tasks) uses.insert(uses.end(), t.lanes.begin(), t.lanes.end());
  plan.loads = added_up(std::move(uses));
  return plan;
}

}  // namespace pipesim
