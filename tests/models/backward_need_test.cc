#include "models/backward_need.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <utility>

#include "models/graph_builder.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

TEST(BackwardNeed, FollowsWeightsAndTheLoss) {
  GraphBuilder b("needs", 4);
  const TensorId x = b.data("x", {4, 6});
  const TensorId fixed = b.add("relu", "fixed", {x});
  const TensorId first = b.add("linear", "first", {fixed}, {{"out", Sizes{5}}});
  const TensorId norm =
      b.add("layer_norm", "norm", {b.add("linear", "second", {first}, {{"out", Sizes{5}}})});
  b.add("linear", "aside", {norm}, {{"out", Sizes{5}}});
  b.add("cross_entropy", "loss", {norm, b.data("labels", {4}, DataType::Int64)});
  const OperatorGraph graph = b.build();
  std::map<std::string, std::pair<bool, bool>> passes;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const BackwardNeed need = backward_need(graph, OperatorId(i));
    passes[graph.operators()[i].name] = {need.input_pass, need.weight_pass};
  }
  const std::map<std::string, std::pair<bool, bool>> expected{
      {"fixed", {false, false}}, {"first", {false, true}},  {"second", {true, true}},
      {"norm", {true, false}},   {"aside", {false, false}}, {"loss", {true, false}}};
  EXPECT_EQ(passes, expected);
}

TEST(BackwardNeed, LeavesOutWeightsThatAreFrozen) {
  GraphBuilder b("adapted", 4);
  const auto linear = [&](const std::string& name, TensorId x, bool frozen) {
    return b.add_operator({"linear", name, {x}, {{"out", Sizes{6}}}, {}, {}, "", frozen})[0];
  };
  const TensorId first = linear("first", b.data("x", {4, 6}), true);
  const TensorId adapter = linear("adapter", first, false);
  linear("last", adapter, true);
  const OperatorGraph graph = b.build();
  const auto passes = [&](std::size_t op) {
    const BackwardNeed need = backward_need(graph, OperatorId(op));
    return std::pair(need.input_pass, need.weight_pass);
  };
  EXPECT_EQ(passes(0), std::pair(false, false));
  EXPECT_EQ(passes(1), std::pair(false, true)) << "nothing before it is trained";
  EXPECT_EQ(passes(2), std::pair(true, false));
  EXPECT_EQ(graph.parameter_count(), 3 * 42);
  EXPECT_EQ(graph.frozen_parameter_count(), 2 * 42);
}

}  // namespace
}  // namespace pipesim
