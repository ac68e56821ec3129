#include "taskgraph/binding/ring.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "sim/simulate.h"
#include "tests/seeds.h"
#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

OperatorGraph attention_model(std::int64_t length, std::int64_t causal, std::int64_t zigzag,
                              std::int64_t window) {
  GraphBuilder b("attention", 2);
  const auto linear = [&](const char* name, TensorId x, std::vector<std::int64_t> out,
                          std::int64_t contract = 1) {
    return b.add("linear", name, {x}, {{"out", std::move(out)}, {"contract", contract}, {"bias", 0}});
  };
  const TensorId x = b.data("x", {2, length, 16});
  const TensorId q = linear("q", x, {4, 1, 64}), k = linear("k", x, {4, 64}), v = linear("v", x, {4, 64});
  const TensorId mixed =
      b.add("attention", "mix", {q, k, v}, {{"causal", causal}, {"zigzag", zigzag}, {"window", window}});
  linear("out", mixed, {16}, 3);
  return b.build();
}

Expansion ring_of(std::int32_t members, std::int32_t heads, std::int64_t causal = 0, std::int64_t zigzag = 1,
                  std::int64_t length = 48, std::int64_t window = 0) {
  const Split ring{{{"s", members}, {"g", heads}}, devices_from(0, members * heads), 1, true};
  return {attention_model(length, causal, zigzag, window), "dgx-a100", {{"mix", ring}}};
}

// Carries out the messages of a pass in an order that its waits allow, with two places for what arrives and
// two for what is made. Whatever is overwritten or read too early is found.
class RingReplay {
 public:
  RingReplay(const PassWork& work, std::int32_t members, std::int32_t shards)
      : work_(work), members_(members), shards_(shards) {
    for (std::int32_t k = 0; k < shards; ++k) state_[k];
  }

  void run(Rng& rng) {
    const std::size_t tasks = work_.durations.size() + work_.exchanges.size();
    std::vector<int> open(tasks, 0);
    std::vector<std::vector<std::int32_t>> next(tasks);
    for (const InnerWait w : work_.waits) {
      ++open[static_cast<std::size_t>(w.after)];
      next[static_cast<std::size_t>(w.before)].push_back(w.after);
    }
    std::vector<std::int32_t> ready;
    for (std::size_t t = 0; t < tasks; ++t) {
      if (open[t] == 0) ready.push_back(static_cast<std::int32_t>(t));
    }
    std::size_t done = 0;
    while (!ready.empty()) {
      std::swap(ready[rng.below(ready.size())], ready.back());
      const std::int32_t task = ready.back();
      ready.pop_back();
      carry_out(task);
      ++done;
      for (const std::int32_t n : next[static_cast<std::size_t>(task)]) {
        if (--open[static_cast<std::size_t>(n)] == 0) ready.push_back(n);
      }
    }
    EXPECT_EQ(done, tasks);
  }

  // By shard: blocks that it worked on, and members whose shares of its own gradients came home.
  struct State {
    std::array<int, 2> arrived{-1, -1};
    std::array<std::pair<int, std::set<int>>, 2> made, sums;  // a block, and who has added to it
    std::set<int> seen, home;
  };
  [[nodiscard]] const State& state(std::int32_t shard) const { return state_.at(shard); }
  [[nodiscard]] int part_of(std::int32_t shard) const { return shard / (shards_ / members_); }

 private:
  void carry_out(std::int32_t task) {
    const auto computed = static_cast<std::int32_t>(work_.durations.size());
    if (task < computed) return compute(task / shards_, task % shards_);
    const InnerExchange& e = work_.exchanges[static_cast<std::size_t>(task - computed)];
    State &from = state_[e.shards[0]], &to = state_[e.shards[1]];
    const int own = part_of(e.shards[0]), keys = members_ - 1, nth = e.step % keys;
    ASSERT_EQ(part_of(e.shards[1]), (own + 1) % members_);
    if (e.content == InnerExchange::Content::KeyBlock) {
      to.arrived[static_cast<std::size_t>(nth % 2)] =
          nth == 0 ? own : from.arrived[static_cast<std::size_t>((nth - 1) % 2)];
      return;
    }
    auto sum = from.made[static_cast<std::size_t>(nth % 2)];
    EXPECT_EQ(sum.first, block(own, nth + 1));
    if (nth > 0) {
      const auto& came = from.sums[static_cast<std::size_t>((nth - 1) % 2)];
      EXPECT_EQ(came.first, sum.first);
      sum.second.insert(came.second.begin(), came.second.end());
    }
    to.sums[static_cast<std::size_t>(nth % 2)] = sum;
  }

  void compute(std::int32_t stage, std::int32_t shard) {
    State& s = state_[shard];
    const int own = part_of(shard);
    if (stage == 0) return;
    if (stage > members_) {
      const auto& came = s.sums[static_cast<std::size_t>((members_ - 2) % 2)];
      EXPECT_EQ(came.first, own);
      s.home = came.second;
      return;
    }
    const int here = stage == 1 ? own : s.arrived[static_cast<std::size_t>(stage % 2)];
    EXPECT_EQ(here, block(own, stage - 1));
    s.seen.insert(here);
    if (stage > 1) s.made[static_cast<std::size_t>(stage % 2)] = {here, {own}};
  }

  [[nodiscard]] int block(int own, int after) const { return (own + members_ - after) % members_; }

  const PassWork& work_;
  std::int32_t members_, shards_;
  std::map<std::int32_t, State> state_;
};

TEST(Ring, BringsEachBlockToEachMemberInAnyOrderThatItsWaitsAllow) {
  for (const auto& [members, heads] : {std::pair{2, 1}, {2, 4}, {3, 2}, {4, 2}, {6, 1}, {8, 1}}) {
    const Expansion e = ring_of(members, heads);
    const BoundOperator& mix = *e.bound[3];
    ASSERT_EQ(mix.op->name, "mix");
    for_each_seed(20, [&, members = members, heads = heads](Rng& rng) {
      for (const PassWork* pass : {&mix.forward, &mix.backward_input}) {
        RingReplay replay(*pass, members, members * heads);
        replay.run(rng);
        for (std::int32_t k = 0; k < members * heads; ++k) {
          EXPECT_EQ(replay.state(k).seen.size(), static_cast<std::size_t>(members));
          if (pass == &mix.forward) continue;
          std::set<int> others;
          for (int m = 0; m < members; ++m) others.insert(m);
          others.erase(replay.part_of(k));
          EXPECT_EQ(replay.state(k).home, others);
        }
      }
    });
  }
}

// By member, the time of each block's stage.
std::vector<std::vector<Nanoseconds>> block_times(const Expansion& e, std::int32_t members) {
  const PassWork& work = e.bound[3]->forward;
  std::vector<std::vector<Nanoseconds>> times(static_cast<std::size_t>(members));
  for (std::size_t m = 0; m < times.size(); ++m) {
    for (std::size_t stage = 1; stage < work.stages(); ++stage)
      times[m].push_back(work.durations[stage * times.size() + m]);
  }
  return times;
}

TEST(Ring, LeavesOutBlocksThatNoQuerySees) {
  const auto times = block_times(ring_of(4, 1, 1), 4);
  for (std::size_t m = 0; m < 4; ++m) {
    for (std::size_t block = 0; block < 4; ++block) EXPECT_EQ(times[m][block] == 1, block > m) << m << block;
  }
}

// Blocks have 12 positions: a window of 13 ends at the first key of the block before a query's, one of 14 in
// the block before that.
TEST(Ring, LeavesOutBlocksBeforeTheWindow) {
  for (const auto& [window, seen] : {std::pair<std::int64_t, std::size_t>{1, 1}, {13, 2}, {14, 3}, {48, 4}}) {
    const auto times = block_times(ring_of(4, 1, 1, 1, 48, window), 4);
    for (std::size_t m = 0; m < 4; ++m) {
      for (std::size_t block = 0; block < 4; ++block)
        EXPECT_EQ(times[m][block] == 1, block > m || block >= seen) << window << " " << m << block;
    }
  }
}

TEST(Ring, DoesEqualWorkEverywhereInZigzagOrder) {
  const auto times = block_times(ring_of(4, 1, 1, 4, 4096), 4);
  for (const std::vector<Nanoseconds>& member : times) {
    EXPECT_EQ(member, times[0]);
    EXPECT_EQ(member[1], member[2]);
    EXPECT_EQ(member[2], member[3]);
  }
}

// Blocks of equal work: the own one, that of a neighbour, whose sum begins here, and those of others, to
// whose sums that arrive the own share is added. In the end the owner adds what comes home.
TEST(Ring, AddsUpGradientsInTheTimeThatTheirBytesTake) {
  const Expansion e = ring_of(4, 1, 0, 1, 8192);
  const BoundOperator& mix = *e.bound[3];
  const DeviceKind& kind = e.topology.kind(DeviceId(0));
  const double block = 2 * (2 * 2048 * 4 * 64) * 4;  // keys and values, float32
  const auto sum = to_nanoseconds(
      kind.launch_overhead + Seconds(3 * block / (kind.memory_bandwidth.value * kind.memory_efficiency)));
  const auto at = [&](std::size_t stage, std::size_t member) {
    return mix.backward_input.durations[stage * 4 + member];
  };
  for (std::size_t member = 0; member < 4; ++member) {
    EXPECT_EQ(at(2, member), at(1, member));
    EXPECT_EQ(at(3, member), at(2, member) + sum);
    EXPECT_EQ(at(4, member), at(2, member) + sum);
    EXPECT_NEAR(static_cast<double>(at(5, member)), static_cast<double>(sum), 1.0);
    EXPECT_EQ(mix.forward.durations[4 * 4 + member], mix.forward.durations[1 * 4 + member]);
  }
}

// A message moves while the block before is worked on.
TEST(Ring, WorksWhileItPassesOn) {
  const Expansion e = ring_of(4, 1, 0, 1, 8192);
  const Timeline timeline = simulate(e.tasks.dag);
  int beside = 0, messages = 0;
  for (std::size_t t = 0; t < e.tasks.dag.num_tasks(); ++t) {
    const TaskLabel& message = e.tasks.labels[t];
    if (message.kind != TaskKind::Rotation) continue;
    ++messages;
    for (std::size_t c = 0; c < e.tasks.dag.num_tasks(); ++c) {
      const TaskLabel& work = e.tasks.labels[c];
      if (is_communication(work.kind) || work.op != message.op || work.device != message.device) continue;
      if (timeline.start[c] < timeline.end[t] && timeline.start[t] < timeline.end[c] &&
          timeline.end[c] - timeline.start[c] > 1) {
        ++beside;
        break;
      }
    }
  }
  EXPECT_EQ(messages, 4 * 3 * 3);
  EXPECT_GE(beside, messages - 4);  // the last gradients have nothing beside them
}

// Keys, values and their gradients lie where queries do, each part once and complete.
TEST(Ring, DividesKeysAndValuesLikeQueries) {
  const Expansion e = ring_of(4, 2);
  const Operator& op = e.graph.operators()[3];
  const ParallelConfig& config = e.strategy[3];
  for (std::size_t u = 1; u <= 2; ++u) {
    const Layout held = required_layout(op, op.uses[u], config);
    EXPECT_EQ(gradient_layout(op, op.uses[u], config), held);
    EXPECT_EQ(held.num_addends(), 1);
    for (std::int32_t k = 0; k < 8; ++k) {
      const auto entries = held.entries_on(DeviceId(k));
      ASSERT_EQ(entries.size(), 1U);
      EXPECT_EQ(held.box(entries[0])[1], (Range{k / 2 * 12, k / 2 * 12 + 12}));
      EXPECT_EQ(held.box(entries[0])[2], (Range{k % 2 * 2, k % 2 * 2 + 2}));
    }
  }
  EXPECT_EQ(produced_layout(op, op.uses[3], config).num_addends(), 1);
}

TEST(Ring, HoldsBlocksOnTheWayWhileAPassRuns) {
  const Expansion e = ring_of(4, 2);
  const std::int64_t block = 2 * (2 * 12 * 2 * 64) * 4;  // keys and values of a part of two heads, float32
  for (const ShardMemory& m : e.bound[3]->memory) {
    EXPECT_EQ(m.forward_blocks.value, 2 * block);
    EXPECT_EQ(m.backward_blocks.value, 6 * block);
    EXPECT_EQ(m.input_gradients.value, block + block / 2);  // of queries too
  }
}

}  // namespace
}  // namespace pipesim
