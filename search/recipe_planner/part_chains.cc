#include "search/recipe_planner/part_chains.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNoChain = -1;  // no chain leads there

// By shard: the end of the longest chain, or kNoChain.
using Moments = std::vector<Nanoseconds>;

Nanoseconds after(Nanoseconds moment, Nanoseconds duration) {
  return moment == kNoChain ? kNoChain : moment + duration;
}

Nanoseconds least(const Moments& moments) {
  return moments.empty() ? kNoChain : *std::ranges::min_element(moments);
}

// A pass of one shard: its stages follow one another.
Nanoseconds duration_of(const PassWork& work, std::size_t shard, std::size_t shards) {
  Nanoseconds sum = 0;
  for (std::size_t i = shard; i < work.durations.size(); i += shards) sum += work.durations[i];
  return sum;
}

// What provides data for a transfer: an operator's shards, and when they have made it.
struct Maker {
  const BoundOperator* bound;
  const Moments* made;
  std::int32_t term;
};

// A transfer to a shard, on one of its lanes.
struct ArrivingTask {
  std::int32_t shard;
  LaneId lane;
  Nanoseconds ready, hold;
  Nanoseconds rest;  // until it has arrived, when it no longer holds the lane
};

// A lane is held by one transfer at a time: of those to a shard, all that can't begin before a moment take
// their time after it.
void raise_by_lanes(Moments& there, std::vector<ArrivingTask> tasks) {
  std::ranges::sort(tasks, std::greater<>(),
                    [](const ArrivingTask& t) { return std::tuple(t.shard, t.lane, t.ready); });
  Nanoseconds held = 0, rest = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const bool same = i > 0 && tasks[i - 1].shard == tasks[i].shard && tasks[i - 1].lane == tasks[i].lane;
    held = (same ? held : 0) + tasks[i].hold;
    rest = same ? std::min(rest, tasks[i].rest) : tasks[i].rest;
    Nanoseconds& moment = there[static_cast<std::size_t>(tasks[i].shard)];
    moment = std::max(moment, tasks[i].ready + held + rest);
  }
}

// By shard of the reader: when what the plan brings is there.
Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader) {
  const auto raise = [](Nanoseconds& moment, Nanoseconds other) { moment = std::max(moment, other); };
  Moments ends(plan.expansion.tasks.size(), kNoChain);
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    for (const Maker& maker : makers) {
      const std::int32_t shard = maker.bound->shard_of_device[c.device.index()];
      if (shard >= 0 && (c.term < 0 || c.term == maker.term))
        raise(ends[static_cast<std::size_t>(c.task)], (*maker.made)[static_cast<std::size_t>(shard)]);
    }
  }
  std::vector<std::vector<std::int32_t>> waits(ends.size());
  for (const PlanExpansion::Wait& w : plan.expansion.waits)
    waits[static_cast<std::size_t>(w.after)].push_back(w.before);
  for (std::size_t t = 0; t < ends.size(); ++t) {  // a task waits for earlier ones
    for (const std::int32_t before : waits[t]) raise(ends[t], ends[static_cast<std::size_t>(before)]);
    ends[t] = after(ends[t], plan.expansion.tasks[t].duration);
  }
  Moments there(reader.config.devices.size(), kNoChain);
  std::vector<ArrivingTask> arriving;
  for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) {
    const std::int32_t shard = reader.shard_of_device[a.device.index()];
    const Nanoseconds end = ends[static_cast<std::size_t>(a.task)];
    if (shard < 0 || end == kNoChain) continue;
    raise(there[static_cast<std::size_t>(shard)], end);
    const PlanExpansion::Task& task = plan.expansion.tasks[static_cast<std::size_t>(a.task)];
    for (const LaneUse& use : std::span(task.lanes, task.num_lanes))
      arriving.push_back({shard, use.lane, end - task.duration, use.hold, task.duration - use.hold});
  }
  raise_by_lanes(there, std::move(arriving));
  for (const DeviceId d : plan.local) {
    const std::int32_t shard = reader.shard_of_device[d.index()];
    for (const Maker& maker : makers) {
      const std::int32_t from = maker.bound->shard_of_device[d.index()];
      if (shard >= 0 && from >= 0)
        raise(there[static_cast<std::size_t>(shard)], (*maker.made)[static_cast<std::size_t>(from)]);
    }
  }
  return there;
}

class BusyDevices : private PartOnMesh {
 public:
  explicit BusyDevices(const PartOnMesh& part) : PartOnMesh(part) {}

  // How long each device is busy, by its place among the devices of the part's first operator.
  void measure(PartCosts& costs) const {
    const std::vector<DeviceId>& devices = tables_[part_.operators.front()].config.devices;
    const std::size_t places = devices.size();
    Moments forward(places, 0), input(places, 0), weight(places, 0);
    std::array<Moments, kNumRecomputes> once_more;
    once_more.fill(Moments(places, 0));
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      const BoundOperator& bound = tables_[op];
      const std::size_t shards = bound.config.devices.size();
      for (std::size_t d = 0; d < places; ++d) {
        const std::int32_t shard = bound.shard_of_device[devices[d].index()];
        if (shard < 0) continue;
        const auto k = static_cast<std::size_t>(shard);
        forward[d] += duration_of(bound.forward, k, shards);
        input[d] += duration_of(bound.backward_input, k, shards);
        weight[d] += duration_of(bound.backward_weight, k, shards);
        for (std::size_t r = 0; r < kNumRecomputes; ++r) {
          if (parts_.recomputation[r] && again(r, op))
            once_more[r][d] += duration_of(bound.forward, k, shards);
        }
      }
    }
    costs.busy_forward = least(forward);
    costs.busy_input = least(input);
    costs.busy_weight = least(weight);
    for (std::size_t r = 0; r < kNumRecomputes; ++r) costs.busy_again[r] = least(once_more[r]);
  }
};

class PartChains : private PartOnMesh {
 public:
  explicit PartChains(const PartOnMesh& part)
      : PartOnMesh(part), shards_(tables_[part_.operators.front()].config.devices.size()) {}

  void measure(PartCosts& costs) {
    if (part_.entry) costs.forward = end_of_forward(forward_runs(true));
    costs.forward_first = end_of_forward(forward_runs(false));
    for (std::size_t k = 0; k < kNumRecomputes; ++k) {
      if (!parts_.recomputation[k]) continue;
      if (kRecipeRecomputes[k] == Recompute::Kind::Full) {
        costs.backward[k] = std::max<Nanoseconds>(0, backward_again(k));
        costs.backward_first[k] = costs.backward_first[0];
      } else {
        measure_backward(k, costs);
      }
    }
  }

 private:
  static constexpr std::size_t kMostAncestors = 256;
  using Ancestors = std::bitset<kMostAncestors>;

  // Runs of shards on the way to something.
  struct Run {
    Moments begin, end;
    std::vector<Ancestors> before;  // by shard: runs on the same device that it waits for
  };
  using Runs = std::map<OperatorId, Run>;

  [[nodiscard]] std::size_t place_of(OperatorId op) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(part_.operators, op) - part_.operators.begin());
  }

  // When shards run forward. Chains begin at 0 with what makes the entry, or without its way in with what
  // reads it; in front of the layers with any operator.
  Runs forward_runs(bool with_way_in) {
    Runs runs;
    const bool front = &part_ == &parts_.front;
    if (part_.entry && with_way_in) {
      const OperatorId producer = graph_.tensor(*part_.entry).producer;
      const Moments there(tables_[producer].config.devices.size(), 0);
      runs[producer] = {there, there, std::vector<Ancestors>(there.size())};
    }
    for (const OperatorId op : part_.operators) {
      const BoundOperator& bound = tables_[op];
      Run run = unmet(bound, front);
      for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
        const TensorUse& use = bound.op->uses[u];
        if (use.role != Role::Input && use.role != Role::Index) continue;
        if (!with_way_in && part_.entry == use.tensor) std::ranges::fill(run.begin, 0);
        wait_for_input(run, runs, {op, static_cast<std::int32_t>(u)});
      }
      finish(run, runs, bound, bound.forward);
      runs[op] = std::move(run);
    }
    return runs;
  }

  static Run unmet(const BoundOperator& bound, bool may_begin) {
    const std::size_t shards = bound.config.devices.size();
    return {Moments(shards, may_begin ? 0 : kNoChain), {}, std::vector<Ancestors>(shards)};
  }

  void wait_for_input(Run& run, const Runs& runs, UseRef use) {
    const TensorId tensor = tensor_of(use);
    const UseRef maker = tables_.backward().producing_use(tensor);
    if (maker.op.valid() && runs.contains(maker.op))
      wait_for(run, runs, tables_[use.op], forward_plan(use), {{maker.op, 0}});
  }

  struct TermMaker {
    OperatorId op;
    std::int32_t term;
  };
  // The run waits for what the plan brings of what these have made.
  void wait_for(Run& run, const Runs& runs, const BoundOperator& reader, const CommunicationPlan& plan,
                const std::vector<TermMaker>& makers) {
    std::vector<Maker> sources;
    for (const TermMaker& m : makers) sources.push_back({&tables_[m.op], &runs.at(m.op).end, m.term});
    raise_by(run.begin, arrivals_of(plan, sources, reader));
    if (part_.operators.size() > kMostAncestors) return;
    for (const TermMaker& m : makers) {
      if (!is_inside(m.op)) continue;
      const Run& made = runs.at(m.op);
      const std::size_t place = place_of(m.op);
      for (const DeviceId d : devices_that_give_and_take(plan, m.term)) {
        const std::int32_t to = reader.shard_of_device[d.index()];
        const std::int32_t from = tables_[m.op].shard_of_device[d.index()];
        if (to < 0 || from < 0) continue;
        Ancestors& before = run.before[static_cast<std::size_t>(to)];
        before |= made.before[static_cast<std::size_t>(from)];
        before.set(place);
      }
    }
  }

  // A device does one thing after the other: of what the run waits for there, all that can't begin before a
  // moment takes its time after it.
  void finish(Run& run, const Runs& runs, const BoundOperator& bound, const PassWork& work) {
    const std::vector<DeviceId>& devices = bound.config.devices;
    std::vector<const Run*> run_at(part_.operators.size(), nullptr);
    for (std::size_t p = 0; p < run_at.size(); ++p) {
      const auto found = runs.find(part_.operators[p]);
      if (found != runs.end()) run_at[p] = &found->second;
    }
    std::vector<std::pair<Nanoseconds, Nanoseconds>> before;  // begin, duration
    for (std::size_t k = 0; k < devices.size(); ++k) {
      before.clear();
      for (std::size_t p = 0; run.before[k].any() && p < run_at.size(); ++p) {
        if (!run.before[k].test(p)) continue;
        const Run& other = *run_at[p];
        const auto shard =
            static_cast<std::size_t>(tables_[part_.operators[p]].shard_of_device[devices[k].index()]);
        if (other.begin[shard] != kNoChain && other.end[shard] != kNoChain)
          before.emplace_back(other.begin[shard], other.end[shard] - other.begin[shard]);
      }
      std::ranges::sort(before, std::greater<>());
      Nanoseconds sum = 0;
      for (const auto& [begin, duration] : before) {
        sum += duration;
        run.begin[k] = std::max(run.begin[k], begin + sum);
      }
    }
    run.end = run.begin;
    for (std::size_t k = 0; k < run.end.size(); ++k)
      run.end[k] = after(run.end[k], work.present ? duration_of(work, k, run.end.size()) : 0);
  }

  static void raise_by(Moments& moments, const Moments& others) {
    for (std::size_t k = 0; k < others.size(); ++k) moments[k] = std::max(moments[k], others[k]);
  }

  // When the exit is made on every device; 0 where no chain leads there.
  [[nodiscard]] Nanoseconds end_of_forward(const Runs& runs) const {
    if (!part_.exit) return 0;
    return std::max<Nanoseconds>(0, least(runs.at(graph_.tensor(*part_.exit).producer).end));
  }

  // Waits for the gradient of what the operator makes, where it comes from the part alone.
  void wait_for_gradients(Run& run, const Runs& runs, OperatorId op) {
    const BoundOperator& bound = tables_[op];
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const TensorUse& use = bound.op->uses[u];
      if (use.role != Role::Output || !has_whole_gradient(use.tensor)) continue;
      const LayoutIds terms = gradient_terms(use.tensor);
      std::vector<TermMaker> makers;
      for (const UseRef maker : tables_.backward().gradient_makers(use.tensor)) {
        const LayoutId layout = gradient_layout(maker, tables_.strategy());
        const auto term = std::find(terms.begin(), terms.end(), layout) - terms.begin();
        makers.push_back({maker.op, static_cast<std::int32_t>(term)});
      }
      wait_for(run, runs, bound, gradient_plan(use.tensor), makers);
    }
  }

  // Passes of inputs' gradients. Chains begin with the backward of what makes the exit, or, where `again` is
  // given, with what runs again.
  Runs backward_runs(std::size_t kind, const Runs* again_runs) {
    Runs runs;
    const OperatorId last = part_.exit ? graph_.tensor(*part_.exit).producer : OperatorId();
    for (auto op = part_.operators.rbegin(); op != part_.operators.rend(); ++op) {
      const BoundOperator& bound = tables_[*op];
      Run run = unmet(bound, last == *op && again_runs == nullptr);
      wait_for_gradients(run, runs, *op);
      if (again(kind, *op)) {
        if (again_runs != nullptr) {
          raise_by(run.begin, again_runs->at(*op).end);
        } else {
          wait_for_own_run(run, runs, *op, kind);
        }
      }
      finish(run, runs, bound, bound.backward_input);
      // Without such a pass an operator makes no gradients that others wait for.
      if (!bound.backward_input.present) run.end.assign(run.end.size(), kNoChain);
      runs[*op] = std::move(run);
    }
    return runs;
  }

  // An operator that runs again by itself does so when the device has done the backward of all behind the
  // last reader of its results.
  void wait_for_own_run(Run& run, const Runs& runs, OperatorId op, std::size_t kind) {
    const BoundOperator& bound = tables_[op];
    OperatorId last = op;
    for (const Recomputation::Segment& segment : recomputation(kind).segments()) {
      if (std::ranges::find(segment.operators, op) != segment.operators.end()) last = segment.last;
    }
    Moments gate(run.begin.size(), kNoChain);
    for (const auto& [behind, other] : runs) {
      if (!(last < behind)) continue;
      for (std::size_t k = 0; k < other.end.size(); ++k) {
        const std::int32_t shard = bound.shard_of_device[tables_[behind].config.devices[k].index()];
        if (shard >= 0)
          gate[static_cast<std::size_t>(shard)] =
              std::max(gate[static_cast<std::size_t>(shard)], other.end[k]);
      }
    }
    for (std::size_t k = 0; k < gate.size(); ++k)
      gate[k] = after(gate[k], duration_of(bound.forward, k, gate.size()));
    raise_by(run.begin, gate);
  }

  // When each device has done all it has to do for inputs' gradients; the least of them.
  [[nodiscard]] Nanoseconds end_on_every_device(const Runs& runs) const {
    std::map<DeviceId, Nanoseconds> done;
    for (const auto& [op, run] : runs) {
      const std::vector<DeviceId>& devices = tables_[op].config.devices;
      for (std::size_t k = 0; k < run.end.size(); ++k) {
        Nanoseconds& moment = done.try_emplace(devices[k], kNoChain).first->second;
        moment = std::max(moment, run.end[k]);
      }
    }
    Moments all;
    for (const auto& [device, moment] : done) all.push_back(moment);
    return least(all);
  }

  void measure_backward(std::size_t kind, PartCosts& costs) {
    if (!part_.exit) return;
    const Runs runs = backward_runs(kind, nullptr);
    costs.backward_first[kind] = std::max<Nanoseconds>(0, end_on_every_device(runs));
    if (!part_.entry) return;
    const OperatorId producer = graph_.tensor(*part_.entry).producer;
    Run run = unmet(tables_[producer], false);
    wait_for_gradients(run, runs, producer);
    finish(run, runs, tables_[producer], PassWork());
    costs.backward[kind] = std::max<Nanoseconds>(0, least(run.begin));
  }

  // All that runs again does so from 0 on; then comes backward.
  Nanoseconds backward_again(std::size_t kind) {
    Runs runs;
    for (const OperatorId op : part_.operators) {
      if (!again(kind, op)) continue;
      const BoundOperator& bound = tables_[op];
      Run run = unmet(bound, true);
      for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
        const UseRef use{op, static_cast<std::int32_t>(u)};
        const TensorUse& read = bound.op->uses[u];
        if (read.role != Role::Input && read.role != Role::Index) continue;
        if (recomputation(kind).reads_again(use)) wait_for_input(run, runs, use);
      }
      finish(run, runs, bound, bound.forward);
      runs[op] = std::move(run);
    }
    if (runs.empty()) return 0;
    return end_on_every_device(backward_runs(kind, &runs));
  }
  std::size_t shards_;  // of the part's first operator
};

}  // namespace

void measure_busy(const PartOnMesh& part, PartCosts& costs) { BusyDevices(part).measure(costs); }

void measure_chains(const PartOnMesh& part, PartCosts& costs) { PartChains(part).measure(costs); }

}  // namespace pipesim
