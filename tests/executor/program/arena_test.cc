#include "executor/program/arena.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "executor/program/compile.h"
#include "sim/simulate.h"
#include "tests/executor/equality_case.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

// What is over before what on a device, by following lists and waits back from every instruction.
class Before {
 public:
  explicit Before(const DeviceProgram& device) {
    const auto add = [&](const std::vector<Instruction>& list) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        std::vector<TaskId>& direct = direct_[list[i].task];
        direct = list[i].waits;
        if (i > 0) direct.push_back(list[i - 1].task);
      }
    };
    add(device.compute);
    for (const std::vector<Instruction>& stream : device.streams) add(stream);
    for (const auto& [task, direct] : direct_) number_.try_emplace(task, number_.size());
    for (const auto& [task, direct] : direct_) follow(task);
  }
  [[nodiscard]] bool operator()(TaskId earlier, TaskId later) const {
    return over_.at(later)[number_.at(earlier)];
  }

 private:
  const std::vector<bool>& follow(TaskId task) {
    const auto [at, fresh] = over_.try_emplace(task);
    if (!fresh) return at->second;
    std::vector<bool> over(number_.size());
    for (const TaskId earlier : direct_.at(task)) {
      if (!direct_.contains(earlier)) continue;
      const std::vector<bool>& before = follow(earlier);
      for (std::size_t i = 0; i < over.size(); ++i) over[i] = over[i] || before[i];
      over[number_.at(earlier)] = true;
    }
    return over_[task] = std::move(over);
  }

  std::map<TaskId, std::vector<TaskId>> direct_;
  std::map<TaskId, std::size_t> number_;
  std::map<TaskId, std::vector<bool>> over_;
};

struct Use {
  BufferId buffer;
  std::vector<TaskId> users;
};

std::vector<Use> uses_of(const Program& program, const DeviceProgram& device) {
  std::map<BufferId, std::vector<TaskId>> users;
  const auto add = [&](const std::vector<Instruction>& list) {
    for (const Instruction& i : list) {
      for (const BufferId b : i.buffers) users[b].push_back(i.task);
    }
  };
  add(device.compute);
  for (const std::vector<Instruction>& stream : device.streams) add(stream);
  std::vector<Use> uses;
  for (auto& [buffer, tasks] : users) {
    EXPECT_EQ(program.buffers[buffer.index()].device, device.device);
    uses.push_back({buffer, tasks});
  }
  return uses;
}

bool stays(const Program& program, BufferId buffer) {
  const Buffer::Life life = program.buffers[buffer.index()].life;
  return life == Buffer::Life::Forever || life == Buffer::Life::Loaded ||
         std::ranges::any_of(program.results,
                             [&](const Program::Result& r) { return r.view.buffer == buffer; });
}

// Expects, for every two buffers that share bytes, that all users of one come before all users of the other,
// on any machine.
void expect_apart(const Program& program, const ArenaPlan& plan) {
  std::size_t shared = 0;
  for (const DeviceProgram& device : program.devices) {
    const Before before(device);
    const std::vector<Use> uses = uses_of(program, device);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const auto begin = [&](const Use& u) { return plan.offset[u.buffer.index()]; };
      const auto end = [&](const Use& u) {
        return begin(u) + program.buffers[u.buffer.index()].bytes().value;
      };
      ASSERT_LE(end(uses[i]), plan.size[device.device.index()].value);
      for (std::size_t j = i + 1; j < uses.size(); ++j) {
        const Use &a = uses[i], &b = uses[j];
        if (begin(a) >= end(b) || begin(b) >= end(a)) continue;
        ++shared;
        ASSERT_FALSE(stays(program, a.buffer) && stays(program, b.buffer));
        const auto all_before = [&](const Use& x, const Use& y) {
          return std::ranges::all_of(x.users, [&](TaskId s) {
            return std::ranges::all_of(y.users, [&](TaskId t) { return before(s, t); });
          });
        };
        const bool a_first = !stays(program, a.buffer) && all_before(a, b),
                   b_first = !stays(program, b.buffer) && all_before(b, a);
        ASSERT_TRUE(a_first || b_first);
      }
    }
  }
  EXPECT_GT(shared, 0U);
}

// What is in use at the same time in the order of the plan: no arena can be smaller.
Bytes least_size(const Program& program, const DeviceProgram& device) {
  std::map<TaskId, std::size_t> place;
  for (std::size_t i = 0; i < program.order.size(); ++i) place[program.order[i]] = i;
  std::vector<std::int64_t> change(program.order.size() + 1, 0);
  std::int64_t always = 0;
  for (const Use& use : uses_of(program, device)) {
    const std::int64_t bytes = program.buffers[use.buffer.index()].bytes().value;
    if (stays(program, use.buffer)) {
      always += bytes;
      continue;
    }
    std::vector<std::size_t> places;
    for (const TaskId t : use.users) places.push_back(place.at(t));
    change[std::ranges::min(places)] += bytes;
    change[std::ranges::max(places) + 1] -= bytes;
  }
  std::int64_t most = 0, now = 0;
  for (const std::int64_t c : change) most = std::max(most, now += c);
  return Bytes(always + most);
}

// What an instruction waits for has ended when it begins, in the simulation: places that it takes over, too.
void expect_on_time(const Program& program, const Timeline& simulated) {
  const auto check = [&](const std::vector<Instruction>& list) {
    for (const Instruction& i : list) {
      for (const TaskId awaited : i.waits)
        EXPECT_LE(simulated.end[awaited.index()], simulated.start[i.task.index()]);
    }
  };
  for (const DeviceProgram& device : program.devices) {
    check(device.compute);
    std::ranges::for_each(device.streams, check);
  }
}

constexpr const char* kModel = "gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8";

TEST(Arena, KeepsBuffersOfOnePlaceApart) {
  const EqualityCase c(kModel);
  double arenas = 0, least = 0;
  for_each_seed(sanitized ? 4 : 12, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    if (rng.below(2) == 0) {
      p.options = {};
      p.strategy = random_strategy(c.graph, rng, most_devices, 8);
    }
    const PlanContents contents(c.graph, c.costs, p.options);
    if (contents.ways() > 1) return;
    const BoundStrategy strategy = contents.bind(p.strategy);
    ExpandedStrategy expanded(contents);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(strategy, {.labels = Labels::Make});
    const CpuBackend backend(c.graph, most_devices, Optimizer::Momentum, unpinned());
    const Timeline simulated = simulate(tasks.dag);
    Program program = compile(expanded, simulated, backend, c.world.devices());
    const ArenaPlan plan = plan_arenas(program, c.topology.num_devices(), simulated);
    expect_apart(program, plan);
    expect_on_time(program, simulated);
    for (const DeviceProgram& device : program.devices) {
      const Bytes smallest = least_size(program, device);
      EXPECT_GE(plan.size[device.device.index()], smallest);
      arenas += static_cast<double>(plan.size[device.device.index()].value);
      least += static_cast<double>(smallest.value);
    }
  });
  EXPECT_LT(arenas, 2 * least);  // 256 bytes each for buffers of a few
}

TEST(Arena, ComputesTheSame) {
  const EqualityCase c(kModel);
  for_each_seed(6, [&](Rng& rng) {
    const RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    Reference reference = c.reference(p.options);
    reference.arenas = true;
    reference.check(p.strategy);
  });
}

}  // namespace
}  // namespace pipesim
