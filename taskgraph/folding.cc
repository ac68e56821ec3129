#include "taskgraph/folding.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "taskgraph/task_keys.h"

namespace pipesim {
namespace {

using Colour = std::uint64_t;

Colour mix_colours(Colour a, Colour b) {
  Colour x = a * 0x9E3779B97F4A7C15U + b + 0x7F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// A task on a lane.
struct Holder {
  std::size_t task;
  Nanoseconds hold;
};

}  // namespace

class FoldingFinder {
 public:
  FoldingFinder(const TaskGraphBuilder& builder, const BoundStrategy& strategy, const TaskDag& block)
      : builder_(builder), strategy_(strategy), dag_(block), before_(block.num_tasks()) {
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
      for (const TaskId next : dag_.successors(TaskId(t))) before_[next.index()].push_back(t);
    }
    holders_.resize(dag_.num_lanes());
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
      for (const LaneUse use : dag_.lanes(TaskId(t))) holders_[use.lane.index()].push_back({t, use.hold});
    }
    for (std::vector<Holder>& holders : holders_) {
      std::ranges::sort(holders, {}, [&](const Holder& h) { return dag_.key(TaskId(h.task)); });
    }
    const std::int32_t all = builder.options().microbatches;
    group_of_ = builder.order_of(strategy, all).group_of;
  }

  std::optional<Folding> find() {
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
      if (dag_.duration(TaskId(t)) <= 0) return std::nullopt;
    }
    if (!refine()) return std::nullopt;
    number_classes();
    if (!tasks_are_alike() || !lanes_are_alike()) return std::nullopt;
    return folded();
  }

 private:
  [[nodiscard]] std::size_t of_one() const { return builder_.tasks_of_one_microbatch(); }

  // Predecessors first.
  [[nodiscard]] std::vector<std::size_t> in_order() const {
    std::vector<std::size_t> missing, order;
    for (std::size_t t = 0; t < before_.size(); ++t) {
      missing.push_back(before_[t].size());
      if (missing[t] == 0) order.push_back(t);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const TaskId next : dag_.successors(TaskId(order[i]))) {
        if (--missing[next.index()] == 0) order.push_back(next.index());
      }
    }
    return order;
  }

  // What two alike tasks have in common at least. The low part of keys of transfers begins with their round
  // and how far they go.
  [[nodiscard]] Colour first_colour(std::size_t t) const {
    constexpr int kDevices = 32;
    const TaskKey key = dag_.key(TaskId(t));
    const Colour colour = mix_colours(mix_colours(key.high, key.low >> kDevices), t < of_one() ? 1 : 2);
    return mix_colours(colour, static_cast<Colour>(dag_.duration(TaskId(t))));
  }

  static std::size_t count(std::vector<Colour> colours) {
    std::ranges::sort(colours);
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  // False when too few tasks are alike.
  bool refine() {
    const std::vector<std::size_t> order = in_order();
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) task_colour_.push_back(first_colour(t));
    for (std::size_t l = 0; l < holders_.size(); ++l) {
      const bool device = l < group_of_.size();
      lane_colour_.push_back(device ? mix_colours(2, static_cast<Colour>(group_of_[l] + 1)) : 1);
    }
    std::size_t before = 0;
    std::vector<std::vector<Colour>> from_lanes(dag_.num_tasks());
    std::vector<Colour> from;
    for (;;) {
      for (std::size_t l = 0; l < holders_.size(); ++l) look_at_lane(l, from_lanes);
      for (const std::size_t t : order) {
        mix_as_set(from_lanes[t], task_colour_[t]);
        from_lanes[t].clear();
        from.clear();
        for (const std::size_t p : before_[t]) from.push_back(task_colour_[p]);
        mix_as_set(from, task_colour_[t]);
      }
      const std::size_t tasks = count(task_colour_), now = tasks + count(lane_colour_);
      if (!pays(tasks)) return false;
      if (now <= before) return true;
      before = now;
    }
  }

  // A lane's colour is that of all its tasks in their order. To a task it says its own, and how many tasks
  // like it come before on the lane, since those run one after the other.
  void look_at_lane(std::size_t l, std::vector<std::vector<Colour>>& from_lanes) {
    for (const Holder& h : holders_[l])
      lane_colour_[l] = mix_colours(mix_colours(lane_colour_[l], task_colour_[h.task]), bits(h.hold));
    for (const Holder& h : holders_[l])
      from_lanes[h.task].push_back(mix_colours(lane_colour_[l], bits(h.hold)));
    // Tasks of a colour have the same high part of the key, so they stand together.
    for (std::size_t first = 0, end = 0; first < holders_[l].size(); first = end) {
      while (end < holders_[l].size() && high(holders_[l][end].task) == high(holders_[l][first].task)) ++end;
      if (end - first == 1) continue;
      run_.clear();
      for (std::size_t i = first; i < end; ++i) run_.emplace_back(task_colour_[holders_[l][i].task], i);
      std::ranges::sort(run_);
      for (std::size_t i = 1, like_it = 0; i < run_.size(); ++i) {
        like_it = run_[i].first == run_[i - 1].first ? like_it + 1 : 0;
        Colour& message = from_lanes[holders_[l][run_[i].second].task].back();
        message = mix_colours(message, like_it);
      }
    }
  }

  [[nodiscard]] std::uint64_t high(std::size_t task) const { return dag_.keys()[task].high; }
  static Colour bits(Nanoseconds time) { return static_cast<Colour>(time); }
  // Building the block and looking at it costs about as much as simulating its tasks twice.
  [[nodiscard]] bool pays(std::size_t classes) const { return 3 * classes <= 2 * dag_.num_tasks(); }

  // As a set.
  static void mix_as_set(std::vector<Colour>& colours, Colour& into) {
    std::ranges::sort(colours);
    const auto end = std::unique(colours.begin(), colours.end());
    for (auto c = colours.begin(); c != end; ++c) into = mix_colours(into, *c);
    into = mix_colours(into, 0);
  }

  // In the order of their first tasks, so that those of a microbatch come first.
  void number_classes() {
    std::unordered_map<Colour, std::int32_t> task_class, lane_class;
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
      const auto [at, fresh] =
          task_class.try_emplace(task_colour_[t], static_cast<std::int32_t>(task_class.size()));
      if (fresh) representative_.push_back(t);
      class_of_.push_back(at->second);
    }
    for (const Colour colour : lane_colour_) {
      const auto next = static_cast<std::int32_t>(lane_class.size());
      lane_class_.push_back(lane_class.try_emplace(colour, next).first->second);
    }
  }

  [[nodiscard]] std::vector<std::int32_t> classes_before(std::size_t t) const {
    std::vector<std::int32_t> classes;
    for (const std::size_t p : before_[t]) classes.push_back(class_of_[p]);
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    return classes;
  }

  // Classes of the lanes that a task holds, each once.
  [[nodiscard]] std::vector<LaneUse> lane_classes_of(std::size_t t) const {
    std::vector<LaneUse> uses;
    for (const LaneUse use : dag_.lanes(TaskId(t)))
      uses.push_back({LaneId(lane_class_[use.lane.index()]), use.hold});
    const auto by_lane = [](const LaneUse& u) { return std::pair(u.lane.value, u.hold); };
    std::ranges::sort(uses, {}, by_lane);
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    return uses;
  }

  [[nodiscard]] bool tasks_are_alike() const {
    std::vector<std::vector<std::int32_t>> before;
    std::vector<std::vector<LaneUse>> lanes;
    for (const std::size_t t : representative_) {
      before.push_back(classes_before(t));
      lanes.push_back(lane_classes_of(t));
      for (std::size_t i = 1; i < lanes.back().size(); ++i) {
        if (lanes.back()[i].lane == lanes.back()[i - 1].lane) return false;
      }
    }
    for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
      const auto c = static_cast<std::size_t>(class_of_[t]);
      const std::size_t r = representative_[c];
      if (dag_.key(TaskId(t)).high != dag_.key(TaskId(r)).high) return false;
      if (dag_.duration(TaskId(t)) != dag_.duration(TaskId(r))) return false;
      if ((t < of_one()) != (r < of_one())) return false;
      if (classes_before(t) != before[c] || lane_classes_of(t) != lanes[c]) return false;
    }
    return true;
  }

  // Lanes of a class have the same classes of tasks in the same order, each once, and in the order in which
  // the folded tasks have it; devices of a class are of the same group.
  [[nodiscard]] bool lanes_are_alike() const {
    std::map<std::int32_t, std::size_t> first;
    for (std::size_t l = 0; l < holders_.size(); ++l) {
      const auto [at, fresh] = first.try_emplace(lane_class_[l], l);
      const std::size_t other = at->second;
      if ((l < group_of_.size()) != (other < group_of_.size())) return false;
      if (l < group_of_.size() && group_of_[l] != group_of_[other]) return false;
      const auto same = [&](const Holder& a, const Holder& b) {
        return class_of_[a.task] == class_of_[b.task] && a.hold == b.hold;
      };
      if (!std::ranges::equal(holders_[l], holders_[other], same)) return false;
      if (fresh && !is_in_order(holders_[l])) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_in_order(const std::vector<Holder>& holders) const {
    const auto key = [&](const Holder& h) {
      return dag_.key(TaskId(representative_[static_cast<std::size_t>(class_of_[h.task])]));
    };
    for (std::size_t i = 1; i < holders.size(); ++i) {
      if (!(key(holders[i - 1]) < key(holders[i]))) return false;
    }
    return true;
  }

  [[nodiscard]] Folding folded() const {
    Folding f;
    f.class_of_ = class_of_;
    for (const std::size_t t : representative_) {
      f.classes_.push_back({dag_.key(TaskId(t)), dag_.duration(TaskId(t)), lane_classes_of(t)});
      f.classes_of_one_ += static_cast<std::size_t>(t < of_one());
      for (const std::int32_t before : classes_before(t)) f.edges_.emplace_back(before, class_of_[t]);
    }
    const auto shards = shards_by_device(strategy_, group_of_.size());
    std::vector<bool> met(lane_class_.size(), false);
    for (std::size_t d = 0; d < std::min(group_of_.size(), lane_class_.size()); ++d) {
      const auto c = static_cast<std::size_t>(lane_class_[d]);
      if (group_of_[d] < 0 || shards[d].empty() || met[c]) continue;
      met[c] = true;
      f.devices_.emplace_back(d);
    }
    return f;
  }

  const TaskGraphBuilder& builder_;
  const BoundStrategy& strategy_;
  const TaskDag& dag_;
  std::vector<std::vector<std::size_t>> before_;  // predecessors by task
  std::vector<std::vector<Holder>> holders_;      // by lane, in the order of keys
  std::vector<std::int32_t> group_of_;            // by device
  std::vector<Colour> task_colour_, lane_colour_;
  std::vector<std::pair<Colour, std::size_t>> run_;  // scratch
  std::vector<std::int32_t> class_of_, lane_class_;
  std::vector<std::size_t> representative_;  // by class
};

std::optional<Folding> Folding::find(const TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                     const TaskDag& block) {
  return FoldingFinder(builder, strategy, block).find();
}

FewMicrobatches Folding::build(const TaskGraphBuilder& builder, const BoundStrategy& strategy,
                               std::int32_t microbatches, TaskDag& out, const Timeline& timeline) const {
  out.clear();
  const auto add = [&](const Class& c, std::int32_t microbatch) {
    const TaskKey key{c.key.high | key_of(TaskKind::Forward, microbatch), c.key.low};
    if (c.lanes.size() == 1) {
      out.add_task(key, c.duration, c.lanes.front().lane, c.lanes.front().hold);
    } else {
      out.add_task(key, c.duration, std::span<const LaneUse>(c.lanes));
    }
  };
  const std::span<const Class> of_one(classes_.data(), classes_of_one_);
  const std::span<const Class> of_none(classes_.data() + classes_of_one_, classes_.size() - classes_of_one_);
  for (std::int32_t m = 0; m < microbatches; ++m) {
    for (const Class& c : of_one) add(c, m);
  }
  for (const Class& c : of_none) add(c, 0);
  const auto at = [&](std::int32_t c, std::int32_t microbatch) {
    const bool is_of_one = static_cast<std::size_t>(c) < classes_of_one_;
    const std::int32_t m = is_of_one ? microbatch : microbatches - 1;
    return TaskId(static_cast<std::size_t>(m) * classes_of_one_ + static_cast<std::size_t>(c));
  };
  for (const auto& [before, after] : edges_) {
    const bool once = static_cast<std::size_t>(before) >= classes_of_one_;
    for (std::int32_t m = 0; m < (once ? 1 : microbatches); ++m) out.add_edge(at(before, m), at(after, m));
  }

  FewMicrobatches few{out,
                      timeline,
                      microbatches,
                      builder.options().microbatches,
                      classes_of_one_,
                      out.num_tasks(),
                      at(class_of_[builder.tasks_of(OperatorId(0)).forward.index()], 0),
                      first_backward_task(builder),
                      {},
                      builder.order_of(strategy, microbatches),
                      builder.order_of(strategy, builder.options().microbatches)};
  if (few.backward.valid()) few.backward = at(class_of_[few.backward.index()], 0);
  struct Tasks {
    const TaskGraphBuilder& builder;
    DeviceId device;
    TaskDag& dag;
    std::span<const std::int32_t> class_of;
    std::size_t classes_of_one;
    std::vector<TaskId>& barriers;
    [[nodiscard]] const OperatorTasks& of(OperatorId op) const { return builder.tasks_of(op); }
    [[nodiscard]] TaskId at(TaskId task, std::int32_t microbatch) const {
      return TaskId(static_cast<std::size_t>(microbatch) * classes_of_one +
                    static_cast<std::size_t>(class_of[task.index()]));
    }
    [[nodiscard]] std::int32_t stage_of(OperatorId op) const { return builder.stage_of(op); }
    TaskId add_barrier(std::size_t step, std::int32_t) {
      barriers.push_back(dag.add_task(barrier_key(step, device), 0, LaneId()));
      return barriers.back();
    }
  };
  const auto shards = shards_by_device(strategy, few.few_order.group_of.size());
  const std::vector<std::int32_t> group_of = few.few_order.group_of;
  few.few_order.group_of.clear();
  std::vector<TaskId> done(shards.size());  // of a pipeline: the last barriers
  for (const DeviceId d : devices_) {
    const std::int32_t group = group_of[d.index()];
    few.few_order.group_of.push_back(group);
    std::vector<TaskId>& barriers = few.barriers.emplace_back();
    done[d.index()] = StepOrder(Tasks{builder, d, out, class_of_, classes_of_one_, barriers}, strategy)
                          .connect(shards[d.index()], few.few_order.steps[static_cast<std::size_t>(group)],
                                   few.few_order.together, builder.options().pipeline.has_value());
  }
  if (builder.options().pipeline) {
    update_after_steps(builder, strategy, done, [&](TaskId last, TaskId update) {
      out.add_edge(last, at(class_of_[update.index()], 0));
    });
  }
  few.many_order.group_of = few.few_order.group_of;
  out.finish();
  return few;
}

}  // namespace pipesim
