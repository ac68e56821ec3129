#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/render/plans/plan_report_text.h"
#include "tools/running/plan_run.h"
#include "topologies/device_kinds.h"
#include "topologies/gpu_share.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

Topology parts_on_a_bus(int number) {
  return divided_gpu("here", *find_built_in_device_kind("H200"), {number, 132 / number, 132});
}

// Two of four parts of a GPU add up gradients over the memory that all share.
TEST(PlanReport, OfDevicesOnABusCountsOnlyTheirOwnCommunication) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=16,layers=2,hidden=32,features=16,classes=8");
  const Topology two = make_topology("levels:2@10GB/s"), parts = parts_on_a_bus(4);
  const Strategy strategy = baseline_strategy("data-parallel", graph, CostModel(two));
  const CostModel costs(parts);
  Evaluator evaluator(graph, costs, {});
  const PlanReport report = report_plan(evaluator, evaluator.contents().bind(strategy));
  EXPECT_GT(report.communication[0], 0);
  EXPECT_EQ(report.communication[1], report.communication[0]);
  EXPECT_EQ(report.communication[2], 0);
  EXPECT_EQ(report.communication[3], 0);
}

// Sends, reduces inside operators, several microbatches, ways and versions of weights.
TEST(PlanReport, OfPipelinesOnABusCountsOnlyTheirOwnCommunication) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology few = parts_on_a_bus(4), more = parts_on_a_bus(6);
  const CostModel costs(more);
  int idle = 0;
  for_each_seed(20, [&](Rng& rng) {
    const RandomPipeline p = random_pipeline(graph, rng, few);
    Evaluator evaluator(graph, costs, p.options);
    const PlanReport report = report_plan(evaluator, evaluator.contents().bind(p.strategy));
    const std::vector<DeviceId> used = devices_of(p.strategy);
    std::vector<bool> meets(more.num_devices());
    const TaskGraph& tasks = report.part->task_graph();
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      Nanoseconds held = 0;  // few bytes take no nanosecond
      for (const LaneUse use : tasks.dag.lanes(TaskId(t))) {
        if (use.lane.index() >= more.num_devices()) held += use.hold;
      }
      if (!is_communication(label.kind) || held == 0) continue;
      meets[label.device.index()] = true;
      if (label.peer.valid()) meets[label.peer.index()] = true;
    }
    for (std::size_t d = 0; d < more.num_devices(); ++d) {
      const bool busy = report.communication[d] > 0;
      EXPECT_TRUE(busy || !meets[d]) << d;
      if (std::ranges::find(used, DeviceId(d)) == used.end()) {
        EXPECT_FALSE(busy) << d;
        ++idle;
      }
    }
  });
  EXPECT_GT(idle, 0);
}

TEST(PlanReport, SaysWhichRatesAreThoseOfAnotherType) {
  const auto rates = [](const char* type, const char* topology) {
    return borrowed_rates(make_zoo_model(std::string("gpt:layers=1,dtype=") + type), make_topology(topology));
  };
  EXPECT_EQ(rates("bfloat16", "dgx1-v100"), "V100-SXM2-16GB has no bfloat16: taken at its float16 rate");
  EXPECT_EQ(rates("float16", "k80-16x4:1"), "K80 has no float16: taken at its float32 rate");
  EXPECT_EQ(rates("float16", "dgx1-v100"), "");
  EXPECT_EQ(rates("float32", "dgx1-v100"), "");
  EXPECT_EQ(rates("bfloat16", "dgx-a100:2"), "");
}

// On one device that does nothing but compute, in the best case for its kernels.
TEST(PlanReport, KernelsNeverExceedThePeak) {
  const Topology topology = make_topology("dgx-h100:1");
  const CostModel costs(topology);
  for (const char* options : {"", ",attention=scores", ",loss_chunks=4", ",products=float8"}) {
    for (const int sequence : {2048, 131072}) {
      const OperatorGraph graph =
          make_zoo_model("llama3-8b:batch=1,layers=2,sequence=" + std::to_string(sequence) + options);
      SCOPED_TRACE(graph.name());
      Evaluator evaluator(graph, costs, {});
      Strategy strategy;
      for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
      const TrainingRates rates =
          report_plan(evaluator, evaluator.contents().bind(strategy),
                      {.causal = FlopsCounting::CausalAttention::Full, .framework = "another"})
              .rates;
      EXPECT_GT(rates.hfu(), 0.01);
      EXPECT_LT(rates.hfu() * 8, 1);
      EXPECT_EQ(counting_text(rates), "causal attention in full, as another does");
    }
  }
}

TEST(PlanReport, NamesThePeakByWhichRatesDivide) {
  const auto text = [](const char* model, const char* topology_text) {
    const Topology topology = make_topology(topology_text);
    const CostModel costs(topology);
    const OperatorGraph graph = make_zoo_model(model);
    Evaluator evaluator(graph, costs, {});
    const TrainingRates rates = training_rates(evaluator.contents(), 1'000'000);
    return counting_text(rates) + "; of " + peak_text(rates, topology);
  };
  EXPECT_EQ(text("llama3-8b:batch=1,layers=1,products=float8", "dgx-h100:1"),
            "causal attention at half; of 1979 TFLOP/s, the rate of float8");
  EXPECT_EQ(text("bert-base:batch=1,dtype=bfloat16", "dgx1-v100"),
            "all pairs of query and key; of 125 TFLOP/s, the rate of float16");
}

// The opaque operator is measured: 30 of 30 + 10 ms.
TEST(PlanReport, ListsOperatorsOfUnknownKinds) {
  GraphBuilder b("partly known", 8);
  const TensorId x = b.data("x", {8, 4});
  const Attributes known{{"forward_ms", 10.0}, {"backward_ms", 0.0}, {"activation_bytes", 128.0}};
  b.add("profiled", "known", {x}, known);
  b.add("opaque", "layer.3.sort", {x},
        {{"what", "aten::sort"}, {"shape", std::vector<std::int64_t>{8, 4}}, {"forward_ms", 30.0}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  const PlanReport report = report_plan(evaluator, evaluator.contents().bind(strategy));
  EXPECT_EQ(report.opaque, "1 of 2 operators, 75.0 % of the compute: layer.3.sort (aten::sort)");
  EXPECT_NE(to_text(report, topology).find("unknown kinds"), std::string::npos);
  EXPECT_EQ(json_of(report, topology)["opaque_operators"], report.opaque);
}

}  // namespace
}  // namespace pipesim
