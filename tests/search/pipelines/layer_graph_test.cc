#include "search/pipelines/layer_graph.h"

#include <gmock/gmock.h>

#include "models/import_profile.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kProfile =
    "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=8, "
    "parameter_size=0\n"
    "node2 -- Linear(2, 3) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=12, "
    "parameter_size=24\n"
    "node3 -- ReLU() -- forward_compute_time=0.5, backward_compute_time=0.25, activation_size=[12; 4], "
    "parameter_size=0\n"
    "node4 -- __getitem__(0) -- forward_compute_time=0, backward_compute_time=0, activation_size=12, "
    "parameter_size=0\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n\tnode1 -- node3\n";

LayerGraph profiled() {
  const Topology topology = make_topology("levels:1@1GB/s");
  return layers_of(import_profile(kProfile, "p.txt", 2, 2), CostModel(topology), DeviceId(0));
}

TEST(LayerGraph, OfAProfileHasItsFigures) {
  const LayerGraph graph = profiled();
  ASSERT_EQ(graph.size(), 4U);
  EXPECT_EQ(graph[1].name, "node2 Linear(2, 3)");
  EXPECT_DOUBLE_EQ(graph[1].forward.value, 1.5e-3);
  EXPECT_DOUBLE_EQ(graph[1].backward.value, 3e-3);
  EXPECT_EQ(graph[1].output, Bytes(12));
  EXPECT_EQ(graph[1].parameters, Bytes(24));
  EXPECT_EQ(graph[2].output, Bytes(16));
  EXPECT_THAT(graph.consumers(0), ElementsAre(1, 2));
  EXPECT_THAT(graph.inputs(2), ElementsAre(0, 1));
}

// Whatever batch a profile is said to have been measured with, planners see its bytes.
TEST(LayerGraph, OfAProfileRoundsNothingToSamples) {
  const Topology topology = make_topology("levels:1@1GB/s");
  for (const std::int64_t batch : {1, 7, 64}) {
    const LayerGraph graph =
        layers_of(import_profile("node1 -- fc -- forward_compute_time=1, backward_compute_time=2, "
                                 "activation_size=512001, parameter_size=6835\n",
                                 "p.txt", batch, batch),
                  CostModel(topology), DeviceId(0));
    EXPECT_EQ(graph[0].output, Bytes(512'001));
    EXPECT_EQ(graph[0].parameters, Bytes(6'835));
  }
}

// Experts read where tokens go as indices, which carry no gradient.
TEST(LayerGraph, EveryReaderOfAnOperatorFollowsIt) {
  const OperatorGraph model =
      make_zoo_model("mixtral-8x7b:layers=2,hidden=64,heads=4,kv_heads=2,vocab=64,sequence=16,ffn=64");
  const Topology topology = make_topology("levels:1@1GB/s");
  const LayerGraph graph = layers_of(model, CostModel(topology), DeviceId(0));
  int indices = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
    for (const TensorUse& use : model.op(OperatorId(i)).uses) {
      const OperatorId from = model.tensor(use.tensor).producer;
      if (use.role == Role::Output || !from.valid()) continue;
      EXPECT_THAT(graph.inputs(i), testing::Contains(from.value)) << graph[i].name;
      indices += use.role == Role::Index;
    }
  }
  EXPECT_GT(indices, 0);
}

TEST(LayerGraph, PipeDreamLeavesInputsAndItemsOut) {
  const LayerGraph graph = without_inputs(profiled());
  ASSERT_EQ(graph.size(), 2U);
  EXPECT_EQ(graph[0].name, "node2 Linear(2, 3)");
  EXPECT_THAT(graph.inputs(0), IsEmpty());
  EXPECT_THAT(graph.consumers(0), ElementsAre(1));
  EXPECT_THAT(graph.consumers(1), IsEmpty());
}

TEST(LayerGraph, OfAModelCountsEveryWeightOnce) {
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  for (const char* model : {"lenet", "rnnlm:steps=3", "gpt:layers=2"}) {
    const OperatorGraph model_graph = make_zoo_model(model);
    const LayerGraph graph = layers_of(model_graph, costs, DeviceId(0));
    EXPECT_THAT(graph.size(), model_graph.operators().size());
    Bytes parameters, expected;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
      parameters += graph[i].parameters;
      EXPECT_GT(graph[i].forward.value + graph[i].backward.value, -1e-30);
    }
    for (const Tensor& t : model_graph.tensors()) {
      if (t.kind == TensorKind::Weight) expected += Bytes(t.elements() * bytes_per_element(t.type));
    }
    EXPECT_EQ(parameters, expected) << model;
  }
}

TEST(LayerGraph, EdgesFollowTheOrder) {
  EXPECT_THROW(LayerGraph({{}, {}}, {{1, 0}}), InternalError);
  EXPECT_THROW(LayerGraph({{}, {}}, {{0, 0}}), InternalError);
  EXPECT_THROW(LayerGraph({{}, {}}, {{0, 2}}), InternalError);
  EXPECT_THAT(LayerGraph({{}, {}}, {{0, 1}, {0, 1}}).inputs(1), ElementsAre(0));
}

}  // namespace
}  // namespace pipesim
