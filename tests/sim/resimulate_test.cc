#include "sim/incremental/resimulate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::Gt;
using testing::Le;

/// A task graph under random edits, kept twice: as plain data, from which a TaskDag is built and simulated
/// in full, and as an EditableDag that is edited.
class EditedGraph {
 public:
  explicit EditedGraph(Rng& rng)
      : rng_(rng), lanes_(1 + rng.below(8)), longest_(rng.below(2) == 0 ? 5 : 1000) {
    dag_.clear();
    schedule_.clear(lanes_);
    zeros_ = rng.below(3) == 0;
    strip_ = rng.below(2) == 0;
    add(1 + rng.below(600));
    compare_with_full(std::nullopt);
    keep();
  }

  /// One random edit, compared with a full simulation, then kept or undone. Tasks taken one by one.
  std::size_t edit() {
    const Plain before = plain_;
    remove();
    add(rng_.below(1 + removed_));
    cut_edges();
    const Nanoseconds now = schedule_.makespan();
    std::optional<Nanoseconds> limit;
    if (rng_.below(2) == 0) limit = now + rng_.between(-now / 8, now / 8);
    const bool finished = compare_with_full(limit);
    if (finished && rng_.below(2) == 0) {
      keep();
    } else {
      dag_.undo();
      plain_ = before;
    }
    return resimulation_.tasks_taken();
  }
  [[nodiscard]] std::size_t num_tasks() const { return plain_.size(); }

 private:
  struct Task {
    TaskKey key;
    std::uint64_t rank = 0;  // edges go to larger ranks
    Nanoseconds duration = 0;
    std::shared_ptr<std::vector<LaneUse>> lanes;
    TaskId id;
    std::vector<TaskId> predecessors;
  };
  using Plain = std::map<std::int32_t, Task>;  // by id

  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Task t;
      t.key = {rng_.below(3), (rng_.next() << 24) + ++keys_};
      t.rank = rng_.below(1'000'000);
      t.duration = zeros_ && rng_.below(4) == 0 ? 0 : rng_.between(1, longest_);
      t.lanes = std::make_shared<std::vector<LaneUse>>(random_lanes(t.duration));
      kept_alive_.push_back(t.lanes);
      const bool plain = t.lanes->size() == 1 && t.lanes->front().hold == t.duration;
      t.id = plain ? dag_.add_task(t.key, t.duration, t.lanes->front().lane)
                   : dag_.add_task(t.key, t.duration, *t.lanes);
      plain_[t.id.value] = t;
      connect(plain_[t.id.value]);
    }
  }

  std::vector<LaneUse> random_lanes(Nanoseconds duration) {
    if (strip_) return {{LaneId(rng_.below(lanes_)), duration}};
    std::vector<LaneUse> uses;
    const std::uint64_t most = rng_.below(4);
    for (std::size_t l = 0; l < lanes_ && uses.size() < most; ++l) {
      if (rng_.below(2) == 0) continue;
      uses.push_back({LaneId(l), rng_.below(2) == 0 ? duration : rng_.between(0, duration)});
    }
    return uses;
  }

  // To tasks of near ranks mostly, so that graphs are long.
  void connect(Task& t) {
    for (std::uint64_t e = rng_.below(5); e > 0; --e) {
      auto it = std::next(plain_.begin(), static_cast<std::ptrdiff_t>(rng_.below(plain_.size())));
      for (int tries = 0; tries < 10; ++tries) {
        const auto other = std::next(plain_.begin(), static_cast<std::ptrdiff_t>(rng_.below(plain_.size())));
        const auto gap = [&](const Task& o) { return o.rank > t.rank ? o.rank - t.rank : t.rank - o.rank; };
        if (gap(other->second) > 0 && (gap(it->second) == 0 || gap(other->second) < gap(it->second)))
          it = other;
      }
      Task& o = it->second;
      if (o.rank == t.rank) continue;
      Task &first = o.rank < t.rank ? o : t, &second = o.rank < t.rank ? t : o;
      dag_.add_edge(first.id, second.id);
      second.predecessors.push_back(first.id);
    }
  }

  void remove() {
    removed_ = 1 + rng_.below(rng_.below(8) == 0 ? 100 : 8);
    const std::uint64_t at = rng_.below(1'000'000);
    for (std::size_t i = 0; i < removed_ && plain_.size() > 1; ++i) {
      const auto nearest = std::ranges::min_element(plain_, {}, [&](const auto& entry) {
        return entry.second.rank > at ? entry.second.rank - at : at - entry.second.rank;
      });
      dag_.remove_tasks(nearest->second.id, 1);
      plain_.erase(nearest);
    }
    for (auto& [id, t] : plain_) {
      std::erase_if(t.predecessors, [&](TaskId p) { return !plain_.contains(p.value); });
    }
  }

  void cut_edges() {
    for (std::uint64_t cuts = rng_.below(3); cuts > 0; --cuts) {
      auto it = std::next(plain_.begin(), static_cast<std::ptrdiff_t>(rng_.below(plain_.size())));
      Task& t = it->second;
      const auto old = std::ranges::find_if(t.predecessors, [&](TaskId p) { return p < dag_.first_added(); });
      if (t.id >= dag_.first_added() || old == t.predecessors.end() ||
          cut_.contains({old->value, t.id.value}))
        continue;
      if (std::ranges::count(t.predecessors, *old) > 1) continue;  // maybe one that this edit added
      cut_[{old->value, t.id.value}] = true;
      dag_.remove_edge(*old, t.id);
      t.predecessors.erase(old);
    }
    cut_.clear();
  }

  // By key, independent of ids.
  struct Full {
    Nanoseconds makespan = 0;
    std::map<TaskKey, std::pair<Nanoseconds, Nanoseconds>> times;
  };
  [[nodiscard]] Full full() const {
    TaskDag dag;
    std::map<std::int32_t, TaskId> id;
    for (const auto& [i, t] : plain_) id[i] = dag.add_task(t.key, t.duration, *t.lanes);
    for (const auto& [i, t] : plain_) {
      for (const TaskId p : t.predecessors) dag.add_edge(id[p.value], id[i]);
    }
    dag.finish();
    const Timeline timeline = simulate(dag);
    Full result{timeline.makespan, {}};
    for (std::size_t i = 0; i < dag.num_tasks(); ++i)
      result.times[dag.key(TaskId(i))] = {timeline.start[i], timeline.end[i]};
    return result;
  }

  // Whether the makespan was found; without, it must exceed the limit.
  bool compare_with_full(std::optional<Nanoseconds> limit) {
    dag_.finish();
    full_ = full();
    std::vector<Nanoseconds> loads(lanes_, 0);
    for (const auto& [i, t] : plain_) {
      for (const LaneUse use : *t.lanes) loads[use.lane.index()] += use.hold;
    }
    constexpr Nanoseconds kNoLimit = std::numeric_limits<Nanoseconds>::max() / 2;
    const auto found = resimulate(dag_, schedule_, loads, limit.value_or(kNoLimit), resimulation_);
    if (found) {
      EXPECT_EQ(*found, full_.makespan)
          << "removed " << dag_.removed().size() << " touched " << dag_.touched().size() << " added "
          << dag_.num_ids() - dag_.first_added().index() << " taken " << resimulation_.tasks_taken() << " of "
          << plain_.size() << " old " << schedule_.makespan();
    } else {
      EXPECT_TRUE(limit);
      EXPECT_THAT(full_.makespan, Gt(limit.value_or(0)));
    }
    return found.has_value();
  }

  void keep() {
    apply(resimulation_, dag_, schedule_);
    dag_.keep();
    std::map<TaskKey, std::pair<Nanoseconds, Nanoseconds>> times;
    for (const TaskId t : schedule_.order()) times[dag_.key(t)] = {schedule_[t].start, schedule_[t].end};
    EXPECT_EQ(schedule_.makespan(), full_.makespan);
    EXPECT_EQ(times, full_.times);
    EXPECT_EQ(dag_.num_tasks(), plain_.size());
  }

  Rng& rng_;
  std::size_t lanes_;
  Nanoseconds longest_;
  bool zeros_ = false, strip_ = false;
  std::uint64_t keys_ = 0;
  std::size_t removed_ = 0;
  Plain plain_;
  Full full_;
  std::map<std::pair<std::int32_t, std::int32_t>, bool> cut_;
  std::vector<std::shared_ptr<std::vector<LaneUse>>> kept_alive_;
  EditableDag dag_;
  Schedule schedule_;
  Resimulation resimulation_;
};

TEST(Resimulate, EqualsFullSimulationOverRandomEdits) {
  for_each_seed(150, [](Rng& rng) {
    EditedGraph graph(rng);
    for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) graph.edit();
  });
}

/// Eight chains of 200 tasks of 100 ns, a lane each; all chains wait for all every tenth step.
class Chains {
 public:
  Chains() {
    dag_.clear();
    schedule_.clear(kLanes + 1);
    for (std::size_t i = 0; i < kLanes * kSteps; ++i) {
      const TaskId id = dag_.add_task({i / kLanes, i}, 100, LaneId(i % kLanes));
      if (i >= kLanes) dag_.add_edge(TaskId(i - kLanes), id);
      for (std::size_t p = 0; i >= kLanes && i / kLanes % 10 == 0 && p < kLanes; ++p) {
        if (p != i % kLanes) dag_.add_edge(TaskId(i / kLanes * kLanes - kLanes + p), id);
      }
    }
    loads_.assign(kLanes, 100 * kSteps);
    loads_.push_back(0);
  }

  [[nodiscard]] static TaskId task(std::size_t step, std::size_t lane) {
    return TaskId(step * kLanes + lane);
  }
  /// After a task, on the lane that no chain uses.
  TaskId add_after(TaskId before, Nanoseconds duration) {
    const TaskId id = dag_.add_task({1000, dag_.num_ids()}, duration, LaneId(kLanes));
    dag_.add_edge(before, id);
    loads_.back() += duration;
    return id;
  }
  EditableDag& dag() { return dag_; }
  std::optional<Nanoseconds> run(Nanoseconds limit = 1'000'000) {
    dag_.finish();
    return resimulate(dag_, schedule_, loads_, limit, resimulation_);
  }
  void keep() {
    apply(resimulation_, dag_, schedule_);
    dag_.keep();
  }
  [[nodiscard]] std::size_t tasks_taken() const { return resimulation_.tasks_taken(); }

 private:
  static constexpr std::size_t kLanes = 8, kSteps = 200;
  std::vector<Nanoseconds> loads_;
  EditableDag dag_;
  Schedule schedule_;
  Resimulation resimulation_;
};

TEST(Resimulate, SkipsWhatGoesOnAsBefore) {
  Chains chains;
  EXPECT_EQ(chains.run(), 20'000);
  EXPECT_EQ(chains.tasks_taken(), 1600u);
  chains.keep();
  chains.add_after(Chains::task(100, 3), 50);
  EXPECT_EQ(chains.run(), 20'000);
  EXPECT_THAT(chains.tasks_taken(), Le(64u));
}

TEST(Resimulate, SkipsWhatGoesOnLater) {
  Chains chains;
  chains.run();
  chains.keep();
  const TaskId delay = chains.add_after(Chains::task(98, 3), 250);  // all wait for it at step 100
  chains.dag().add_edge(delay, Chains::task(99, 3));
  EXPECT_EQ(chains.run(), 20'250);
  EXPECT_THAT(chains.tasks_taken(), Le(96u));
}

TEST(Resimulate, RejectsBeforeALaneBeginsTooLate) {
  Chains chains;
  chains.add_after(Chains::task(189, 0), 2000);  // from 19000 to 21000
  EXPECT_EQ(chains.run(), 21'000);
  chains.keep();
  chains.add_after(Chains::task(189, 1),
                   100);  // of 2100 that must begin by 18900, and the task is taken then
  EXPECT_EQ(chains.run(20'999), std::nullopt);
  EXPECT_THAT(chains.tasks_taken(), Le(16u));
}

}  // namespace
}  // namespace pipesim
