#include "search/recipe_planner/measuring/part_chains.h"

#include <algorithm>
#include <array>
#include <bit>

#include <optional>
#include <set>
#include <span>
#include <utility>

#include "search/recipe_planner/measuring/arrivals.h"
#include "sim/bounds/one_machine.h"

namespace pipesim {
namespace {

// Operators of a part, by their place.
class Ancestors {
 public:
  static constexpr std::size_t kMost = 256;
  void set(std::size_t place) { words_[place / kBits] |= std::uint64_t{1} << place % kBits; }
  bool operator==(const Ancestors&) const = default;
  Ancestors& operator|=(const Ancestors& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }
  template <class Visit>
  void visit(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1)
        visit(w * kBits + static_cast<std::size_t>(std::countr_zero(left)));
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::array<std::uint64_t, kMost / kBits> words_{};
};

class PartChains : private PartOnMesh {
 public:
  explicit PartChains(const PartOnMesh& part) : PartOnMesh(part) {}

  void measure(PartCosts& costs) {
    if (part_.entry) costs.forward = end_of_forward(forward_runs(true));
    costs.forward_first = end_of_forward(forward_runs(false));
    measure_backward(Weights::Apart, costs.backward);
    measure_backward(Weights::Counted, costs.whole_backward);
  }

 private:
  // Runs of shards on the way to something.
  struct Run {
    Moments begin, end;
    std::vector<Ancestors> before;  // by shard: runs on the same device that it waits for
    Moments weight;                 // by shard: how long the pass of weight gradients takes, if it is counted
  };
  // The runs of operators in the part, and of one outside it.
  class Runs {
   public:
    explicit Runs(const PartChains& chains)
        : chains_(chains),
          inside_(chains.part_.operators.size()),
          history_(chains.tables_.topology().num_devices(), 0) {}
    void add(OperatorId op, Run run) {
      if (!chains_.is_inside(op)) {
        outside_ = op;
        of_outside_ = std::move(run);
        return;
      }
      std::optional<Run>& made = inside_[chains_.place_of(op)];
      made = std::move(run);
      go_on(chains_.tables_[op].config.devices, *made);
    }
    // Two devices with the same number had the same runs so far.
    [[nodiscard]] std::int32_t history(DeviceId device) const { return history_[device.index()]; }
    [[nodiscard]] const Run* find(OperatorId op) const {
      if (outside_ == op) return &of_outside_;
      return chains_.is_inside(op) ? at_place(chains_.place_of(op)) : nullptr;
    }
    [[nodiscard]] const Run* at_place(std::size_t place) const {
      return inside_[place] ? &*inside_[place] : nullptr;
    }
    [[nodiscard]] bool empty() const {
      return std::ranges::none_of(inside_, [](const auto& run) { return run.has_value(); });
    }

   private:
    void go_on(const std::vector<DeviceId>& devices, const Run& run) {
      struct Step {
        std::int32_t before;
        Nanoseconds begin, end, weight;
        std::int32_t after;
      };
      std::vector<Step> steps;
      for (std::size_t k = 0; k < devices.size(); ++k) {
        std::int32_t& history = history_[devices[k].index()];
        const Step now{history, run.begin[k], run.end[k], run.weight.empty() ? 0 : run.weight[k], 0};
        const auto same = std::ranges::find_if(steps, [&](const Step& s) {
          return s.before == now.before && s.begin == now.begin && s.end == now.end && s.weight == now.weight;
        });
        history = same != steps.end() ? same->after : ++histories_;
        if (same == steps.end()) steps.push_back({now.before, now.begin, now.end, now.weight, history});
      }
    }

    const PartChains& chains_;
    std::vector<std::optional<Run>> inside_;
    std::vector<std::int32_t> history_;  // by device
    std::int32_t histories_ = 0;
    OperatorId outside_;
    Run of_outside_;
  };
  enum class Weights : std::uint8_t { Apart, Counted };

  [[nodiscard]] std::size_t place_of(OperatorId op) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(part_.operators, op) - part_.operators.begin());
  }

  // Returns when shards run forward. Chains begin at 0 with what makes the entry, or, without its way in,
  // with what reads it. In front of the layers they begin with any operator.
  Runs forward_runs(bool with_way_in) {
    Runs runs(*this);
    const bool front = &part_ == &parts_.front;
    if (part_.entry && with_way_in) {
      const OperatorId producer = graph_.tensor(*part_.entry).producer;
      const Moments there(tables_[producer].config.devices.size(), 0);
      runs.add(producer, {there, there, std::vector<Ancestors>(there.size()), {}});
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
      runs.add(op, std::move(run));
    }
    return runs;
  }

  static Run unmet(const BoundOperator& bound, bool may_begin) {
    const std::size_t shards = bound.config.devices.size();
    return {Moments(shards, may_begin ? 0 : kNoChain), {}, std::vector<Ancestors>(shards), {}};
  }

  void wait_for_input(Run& run, const Runs& runs, UseRef use) {
    const TensorId tensor = tensor_of(use);
    const UseRef maker = tables_.backward().producing_use(tensor);
    if (maker.op.valid() && runs.find(maker.op) != nullptr)
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
    for (const TermMaker& m : makers) sources.push_back({&tables_[m.op], &runs.find(m.op)->end, m.term});
    raise_by(run.begin, arrivals_of(plan, sources, reader, least_share(plan)));
    if (part_.operators.size() > Ancestors::kMost) return;
    for (const TermMaker& m : makers) {
      if (!is_inside(m.op)) continue;
      const Run& made = *runs.find(m.op);
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

  // Finishes a run. A device does one thing after the other: of what the run waits for there, all that can't
  // begin before a moment takes its time after it.
  void finish(Run& run, const Runs& runs, const BoundOperator& bound, const PassWork& work) {
    const std::vector<DeviceId>& devices = bound.config.devices;
    std::vector<LaneJob> before;
    struct Alike {
      std::int32_t history;
      Ancestors before;
      Nanoseconds end;
    };
    std::vector<Alike> seen;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      const std::int32_t history = runs.history(devices[k]);
      auto same = std::ranges::find_if(
          seen, [&](const Alike& a) { return a.history == history && a.before == run.before[k]; });
      if (same == seen.end()) {
        before.clear();
        run.before[k].visit([&](std::size_t place) {
          if (const Run* other = runs.at_place(place)) add_work(*other, place, devices[k], before);
        });
        same = seen.insert(seen.end(), {history, run.before[k], end_of_work(before, kNoChain)});
      }
      run.begin[k] = std::max(run.begin[k], same->end);
    }
    run.end = run.begin;
    for (std::size_t k = 0; k < run.end.size(); ++k)
      run.end[k] = after(run.end[k], work.present ? duration_of(work, k, run.end.size()) : 0);
  }

  // What the device has to do in the run of the operator at this place.
  void add_work(const Run& run, std::size_t place, DeviceId device, std::vector<LaneJob>& work) const {
    const std::int32_t shard = tables_[part_.operators[place]].shard_of_device[device.index()];
    if (shard < 0) return;
    const auto k = static_cast<std::size_t>(shard);
    if (run.begin[k] == kNoChain || run.end[k] == kNoChain) return;
    work.push_back({run.begin[k], run.end[k] - run.begin[k] + (run.weight.empty() ? 0 : run.weight[k]), 0});
  }

  static void raise_by(Moments& moments, const Moments& others) {
    for (std::size_t k = 0; k < others.size(); ++k) moments[k] = std::max(moments[k], others[k]);
  }

  // When the exit is made on every device; 0 where no chain leads there.
  [[nodiscard]] Nanoseconds end_of_forward(const Runs& runs) const {
    if (!part_.exit) return 0;
    return std::max<Nanoseconds>(0, least(runs.find(graph_.tensor(*part_.exit).producer)->end));
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

  // Returns passes of inputs' gradients. Chains begin with the backward of what makes the exit (`from_exit`),
  // and with what runs again where `again_runs` is given.
  Runs backward_runs(std::size_t kind, const Runs* again_runs, Weights weights, bool from_exit) {
    Runs runs(*this);
    const OperatorId last = part_.exit ? graph_.tensor(*part_.exit).producer : OperatorId();
    for (auto op = part_.operators.rbegin(); op != part_.operators.rend(); ++op) {
      const BoundOperator& bound = tables_[*op];
      Run run = unmet(bound, last == *op && from_exit);
      wait_for_gradients(run, runs, *op);
      if (again(kind, *op)) {
        if (again_runs != nullptr) {
          raise_by(run.begin, again_runs->find(*op)->end);
        } else {
          wait_for_own_run(run, runs, *op, kind);
        }
      } else if (again_runs != nullptr) {
        wait_for_data_again(run, *again_runs, *op, kind);
      }
      finish(run, runs, bound, bound.backward_input);
      // Without such a pass an operator makes no gradients that others wait for.
      if (!bound.backward_input.present) run.end.assign(run.end.size(), kNoChain);
      if (weights == Weights::Counted && weights_come_next(kind, *op)) {
        for (std::size_t k = 0; k < run.end.size(); ++k)
          run.weight.push_back(duration_of(bound.backward_weight, k, run.end.size()));
      }
      runs.add(*op, std::move(run));
    }
    return runs;
  }

  // An operator that does not run again itself waits until what its backward reads of operators that do has
  // come once more.
  void wait_for_data_again(Run& run, const Runs& again_runs, OperatorId op, std::size_t kind) {
    const BoundOperator& bound = tables_[op];
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const UseRef use{op, static_cast<std::int32_t>(u)};
      const TensorUse& read = bound.op->uses[u];
      if ((read.role != Role::Input && read.role != Role::Index) || !recomputation(kind).reads_again(use))
        continue;
      const OperatorId maker = tables_.backward().producing_use(tensor_of(use)).op;
      const Run* made = maker.valid() && again(kind, maker) ? again_runs.find(maker) : nullptr;
      if (made == nullptr) continue;
      const CommunicationPlan& plan = forward_plan(use);
      raise_by(run.begin, arrivals_of(plan, {{&tables_[maker], &made->end, 0}}, bound, least_share(plan)));
    }
  }

  // Whether each shard's pass of weight gradients may begin as soon as that of inputs' gradients, and so does
  // begin before all that waits for the latter: lanes are taken in the order of readiness.
  [[nodiscard]] bool weights_come_next(std::size_t kind, OperatorId op) const {
    const BoundOperator& bound = tables_[op];
    const auto takes_time = [](Nanoseconds duration) { return duration > 0; };
    if (!bound.backward_input.present || !bound.backward_weight.present ||
        bound.backward_weight.stages() != 1 ||
        !std::ranges::all_of(bound.backward_input.durations, takes_time))
      return false;
    // Inputs that are gathered again for these passes alone come later.
    if (!gathers_again() || again(kind, op)) return true;
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const UseRef use{op, static_cast<std::int32_t>(u)};
      const TensorUse& read = bound.op->uses[u];
      if (read.saved && graph_.tensor(read.tensor).producer.valid() && read.role != Role::Output &&
          is_gathered(use, forward_plan(use)))
        return false;
    }
    return true;
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
    for (std::size_t place = 0; place < part_.operators.size(); ++place) {
      const OperatorId behind = part_.operators[place];
      const Run* other = runs.at_place(place);
      if (other == nullptr || !(last < behind)) continue;
      for (std::size_t k = 0; k < other->end.size(); ++k) {
        const std::int32_t shard = bound.shard_of_device[tables_[behind].config.devices[k].index()];
        if (shard >= 0)
          gate[static_cast<std::size_t>(shard)] =
              std::max(gate[static_cast<std::size_t>(shard)], other->end[k]);
      }
    }
    for (std::size_t k = 0; k < gate.size(); ++k)
      gate[k] = after(gate[k], duration_of(bound.forward, k, gate.size()));
    raise_by(run.begin, gate);
  }

  // When each device has done all that these runs have for it; the least of them.
  [[nodiscard]] Nanoseconds end_on_every_device(const Runs& runs) const {
    Moments all;
    std::vector<LaneJob> work;
    std::set<std::int32_t> seen;  // histories
    for (const DeviceId device : tables_[part_.operators.front()].config.devices) {
      if (!seen.insert(runs.history(device)).second) continue;
      work.clear();
      for (std::size_t place = 0; place < part_.operators.size(); ++place) {
        if (const Run* run = runs.at_place(place)) add_work(*run, place, device, work);
      }
      all.push_back(end_of_work(work, kNoChain));
    }
    return least(all);
  }

  void measure_backward(Weights weights, BackwardChains& chains) {
    for (std::size_t k = 0; k < kMostRecomputes; ++k) {
      if (!parts_.recomputation[k]) continue;
      if (parts_.recomputes[k].kind == Recompute::Kind::Full) {
        chains.all[k] = std::max<Nanoseconds>(0, backward_again(k, weights));
        chains.first[k] = std::max(chains.first[0], backward_with_gate(k, weights));
      } else {
        measure_backward(k, weights, chains);
      }
    }
  }

  void measure_backward(std::size_t kind, Weights weights, BackwardChains& chains) {
    if (!part_.exit) return;
    const Runs runs = backward_runs(kind, nullptr, weights, true);
    chains.first[kind] = std::max<Nanoseconds>(0, end_on_every_device(runs));
    if (!part_.entry) return;
    const OperatorId producer = graph_.tensor(*part_.entry).producer;
    Run run = unmet(tables_[producer], false);
    wait_for_gradients(run, runs, producer);
    finish(run, runs, tables_[producer], PassWork());
    chains.all[kind] = std::max<Nanoseconds>(0, least(run.begin));
  }

  // Everything that runs again does so from 0 on; then comes backward.
  Nanoseconds backward_again(std::size_t kind, Weights weights) {
    const Runs runs = runs_again(kind, {});
    return runs.empty() ? 0 : end_on_every_device(backward_runs(kind, &runs, weights, false));
  }

  // From the start of the backward of what makes the exit. What runs again waits on each device for the
  // backward of all behind the last reader of its results. 0 where nothing in the part is behind.
  Nanoseconds backward_with_gate(std::size_t kind, Weights weights) {
    if (!part_.exit) return 0;
    const OperatorId exit = graph_.tensor(*part_.exit).producer;
    OperatorId last;
    for (const Recomputation::Segment& segment : recomputation(kind).segments()) {
      const bool inside =
          std::ranges::any_of(segment.operators, [&](OperatorId op) { return is_inside(op); });
      if (inside && last.valid()) return 0;  // of several segments
      if (inside) last = segment.last;
    }
    if (!last.valid() || !(last < exit) || again(kind, exit)) return 0;
    const Runs behind = backward_runs(0, nullptr, Weights::Apart, true);
    Moments gate(tables_.topology().num_devices(), 0);
    for (const OperatorId op : part_.operators) {
      const Run* run = behind.find(op);
      if (!(last < op) || run == nullptr) continue;
      const std::vector<DeviceId>& devices = tables_[op].config.devices;
      for (std::size_t k = 0; k < devices.size(); ++k)
        gate[devices[k].index()] = std::max(gate[devices[k].index()], run->end[k]);
    }
    const Runs runs = runs_again(kind, gate);
    return end_on_every_device(backward_runs(kind, &runs, weights, true));
  }

  // `gate`: by device, when it may begin; empty: at 0.
  Runs runs_again(std::size_t kind, const Moments& gate) {
    Runs runs(*this);
    for (const OperatorId op : part_.operators) {
      if (!again(kind, op)) continue;
      const BoundOperator& bound = tables_[op];
      Run run = unmet(bound, true);
      for (std::size_t k = 0; !gate.empty() && k < run.begin.size(); ++k)
        run.begin[k] = gate[bound.config.devices[k].index()];
      for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
        const UseRef use{op, static_cast<std::int32_t>(u)};
        const TensorUse& read = bound.op->uses[u];
        if (read.role != Role::Input && read.role != Role::Index) continue;
        if (recomputation(kind).reads_again(use)) wait_for_input(run, runs, use);
      }
      finish(run, runs, bound, bound.forward);
      runs.add(op, std::move(run));
    }
    return runs;
  }
};

}  // namespace

void measure_chains(const PartOnMesh& part, PartCosts& costs) { PartChains(part).measure(costs); }

}  // namespace pipesim
