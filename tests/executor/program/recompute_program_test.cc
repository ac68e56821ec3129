#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "executor/cpu/cpu_backend.h"
#include "executor/program/compile.h"
#include "models/graph_builder.h"
#include "sim/simulate.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Two normalised convolutions, of which the first pair is run again.
OperatorGraph normalised() {
  const std::vector<std::int64_t> kernel{3, 3}, pad{1, 1};
  GraphBuilder b("normalised", 4);
  TensorId x = b.data("x", {4, 3, 8, 8});
  for (const std::string layer : {"1", "2"}) {
    x = b.add("conv2d", "conv" + layer, {x},
              {{"out", std::int64_t{8}}, {"kernel", kernel}, {"pad", pad}, {"bias", 0}});
    x = b.add("batch_norm", "norm" + layer, {x}, {{"activation", "relu"}});
  }
  return b.build();
}

struct Works {
  std::vector<const ComputeWork*> first, again, backward;  // of forward
};

class RecomputeProgram : public testing::Test {
 protected:
  RecomputeProgram() {
    PlanOptions options;
    options.recompute = {Recompute::Kind::Listed, {0, 0, -1, -1}};
    const PlanContents contents(graph_, costs_, options);
    Strategy strategy;
    for (const Operator& op : graph_.operators()) strategy.push_back(single_device(op, DeviceId(0)));
    const BoundStrategy bound = contents.bind(strategy);
    ExpandedStrategy expanded(contents);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(bound, {.labels = Labels::Make});
    const CpuBackend backend(graph_, 1, Optimizer::Momentum, {});
    const DeviceId device(0);
    program_ = compile(expanded, simulate(tasks.dag), backend, std::span(&device, 1));
    for (const Instruction& i : program_.devices.front().compute) {
      const auto* work = std::get_if<ComputeWork>(&i.work);
      if (!work) continue;
      const TaskKind kind = tasks.labels[i.task.index()].kind;
      (kind == TaskKind::Forward     ? works_.first
       : kind == TaskKind::Recompute ? works_.again
                                     : works_.backward)
          .push_back(work);
    }
  }
  [[nodiscard]] static const ComputeWork& of(OperatorId op, const std::vector<const ComputeWork*>& works) {
    return **std::ranges::find(works, op, &ComputeWork::op);
  }
  [[nodiscard]] const Operator& op(const ComputeWork& work) const { return graph_.op(work.op); }

  const OperatorGraph graph_ = normalised();
  const Topology topology_ = make_topology("cpu:1");
  const CostModel costs_{topology_};
  Program program_;
  Works works_;
};

TEST_F(RecomputeProgram, RunningStatisticsTakeInEverySampleOnce) {
  ASSERT_EQ(works_.again.size(), 2U);
  for (const auto& [works, present] : {std::pair(works_.first, true), std::pair(works_.again, false)}) {
    const ComputeWork& norm = of(OperatorId(1), works);
    for (std::size_t u = 0; u < norm.values.size(); ++u) {
      if (op(norm).uses[u].role != Role::State) continue;
      EXPECT_EQ(norm.values[u].present(), present);
    }
  }
}

TEST_F(RecomputeProgram, BackwardReadsWhatTheSecondRunWrote) {
  const ComputeWork &first = of(OperatorId(0), works_.first), &again = of(OperatorId(0), works_.again);
  const BufferId freed = first.values.back().buffer, made = again.values.back().buffer;
  EXPECT_NE(freed, made);
  EXPECT_EQ(of(OperatorId(1), works_.again).values.front().buffer, made);
  EXPECT_EQ(of(OperatorId(1), works_.backward).values.front().buffer, made);
  // The first run writes it and is read once: nothing holds it until backward.
  EXPECT_EQ(program_.buffers[freed.index()].num_uses, 2);
  EXPECT_NE(of(OperatorId(1), works_.first).saved.buffer, of(OperatorId(1), works_.again).saved.buffer);
  EXPECT_EQ(of(OperatorId(1), works_.again).saved.buffer, of(OperatorId(1), works_.backward).saved.buffer);
}

}  // namespace
}  // namespace pipesim
