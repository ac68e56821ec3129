#include "taskgraph/expansion/editable_task_graph.h"

#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "models/zoo/zoo.h"
#include "sim/incremental/resimulate.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Ge;
using testing::Gt;

using Times = std::map<TaskKey, std::pair<Nanoseconds, Nanoseconds>>;

// A strategy under random edits, its graph edited in place and simulated again from where each edit begins,
// beside another that is built anew and simulated in full.
class EditedStrategy {
 public:
  EditedStrategy(const OperatorGraph& graph, const CostModel& costs, Rng& rng)
      : graph_(graph), rng_(rng), contents_(graph, costs, {}), full_(graph, costs, {}), edited_(contents_) {
    strategy_ = rng.below(2) == 0 ? data_parallel(graph, static_cast<std::int32_t>(devices()))
                                  : random_strategy(graph, rng, devices(), most_shards());
    edited_.build(contents_.bind(strategy_));
    edited_.carry_out();
    schedule_.clear(edited_.loads().size());
    simulate_full();
    EXPECT_EQ(resimulate(edited_.dag(), schedule_, edited_.loads(), kNoLimit, resimulation_),
              timeline_.makespan);
    keep();
  }

  // One edit, kept or undone.
  void edit() {
    const Strategy before = strategy_;
    std::map<std::int32_t, const BoundOperator*> chosen;
    for (std::uint64_t i = 1 + rng_.below(rng_.below(6) == 0 ? 12 : 2); i > 0; --i) {
      const OperatorId op(rng_.below(graph_.operators().size()));
      strategy_[op.index()] = random_config(graph_.op(op), rng_, devices(), most_shards());
      chosen[op.value] = contents_.bind(op, strategy_[op.index()]);
    }
    std::vector<BoundChange> changes;
    for (const auto& [op, config] : chosen) changes.push_back({OperatorId(op), config});
    const Nanoseconds now = schedule_.makespan();
    const Nanoseconds limit = rng_.below(2) == 0 ? kNoLimit : now + rng_.between(-now / 10, now / 4);
    const bool within = edited_.change(changes, limit);
    if (!within) {
      simulate_full();
      EXPECT_THAT(timeline_.makespan, Gt(limit));
    }
    if (!within || rng_.below(8) == 0) {  // undone before it is carried out
      edited_.undo();
      strategy_ = before;
      return;
    }
    edited_.carry_out();
    if (finishes_like_full() && rng_.below(2) == 0) return keep();
    edited_.undo();
    strategy_ = before;
  }

 private:
  static constexpr Nanoseconds kNoLimit = INT64_MAX / 2;

  [[nodiscard]] std::size_t devices() const { return contents_.costs().topology().num_devices(); }
  [[nodiscard]] std::int64_t most_shards() const { return static_cast<std::int64_t>(devices()); }

  void simulate_full() {
    bound_ = full_.bind(strategy_);
    expanded_.expand(bound_);
    timeline_ = simulate(tasks_.dag);
  }

  bool finishes_like_full() {
    simulate_full();
    const Nanoseconds now = schedule_.makespan();
    const Nanoseconds limit = rng_.below(2) == 0 ? kNoLimit : now + rng_.between(-now / 10, now / 10);
    const auto found = resimulate(edited_.dag(), schedule_, edited_.loads(), limit, resimulation_);
    if (found) {
      EXPECT_EQ(*found, timeline_.makespan);
    } else {
      EXPECT_THAT(timeline_.makespan, Gt(limit));
    }
    std::vector<Nanoseconds> loads(edited_.loads().size(), 0);
    for (std::size_t t = 0; t < tasks_.dag.num_tasks(); ++t) {
      for (const LaneUse use : tasks_.dag.lanes(TaskId(t))) loads[use.lane.index()] += use.hold;
    }
    EXPECT_THAT(edited_.loads(), testing::ElementsAreArray(loads));
    return found.has_value();
  }

  void keep() {
    apply(resimulation_, edited_.dag(), schedule_);
    edited_.keep();
    Times expected, times;
    for (std::size_t t = 0; t < tasks_.dag.num_tasks(); ++t)
      expected[tasks_.dag.key(TaskId(t))] = {timeline_.start[t], timeline_.end[t]};
    for (const TaskId t : schedule_.order())
      times[edited_.dag().key(t)] = {schedule_[t].start, schedule_[t].end};
    EXPECT_EQ(times, expected);
    const std::vector<Bytes> allocated = allocated_memory(expanded_);
    for (std::size_t d = 0; d < allocated.size(); ++d) EXPECT_THAT(edited_.allocated()[d], Ge(allocated[d]));
    const CommunicatorCount groups = communicators(expanded_);
    for (std::size_t d = 0; d < allocated.size(); ++d)
      EXPECT_EQ(edited_.communicators().of(DeviceId(d)), groups.of(DeviceId(d)));
    if (full_.backward().frozen_weights().empty()) {
      EXPECT_THAT(edited_.allocated(), testing::ElementsAreArray(allocated));
    }
  }

  const OperatorGraph& graph_;
  Rng& rng_;
  PlanContents contents_, full_;
  ExpandedStrategy expanded_{full_};
  Strategy strategy_;
  BoundStrategy bound_;
  const TaskGraph& tasks_ = expanded_.graph();
  Timeline timeline_;
  EditableTaskGraph edited_;
  Schedule schedule_;
  Resimulation resimulation_;
};

TEST(EditableTaskGraph, EqualsTheGraphBuiltAnewOverRandomEdits) {
  const char* systems[] = {"levels:2@10GB/s,2@1GB/s@5us", "p100-4x4:2", "dgx1-v100", "levels:3@5GB/s"};
  constexpr const char* kInFloat8 =
      "llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,products=float8";
  for_each_seed(270, [&](Rng& rng) {
    const std::size_t number = rng.below(std::size(small_models) + 1);
    const bool float8 = number == std::size(small_models);
    const char* model = float8 ? kInFloat8 : small_models[number];
    const char* system = float8 ? "dgx-h100:gpus=4" : systems[rng.below(std::size(systems))];
    SCOPED_TRACE(fmt::format("{} on {}", model, system));
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology(system);
    const CostModel costs(topology);
    EditedStrategy edited(graph, costs, rng);
    constexpr int kEdits = sanitized ? 12 : 40;
    for (int i = 0; i < kEdits && !testing::Test::HasFailure(); ++i) edited.edit();
  });
}

}  // namespace
}  // namespace pipesim
