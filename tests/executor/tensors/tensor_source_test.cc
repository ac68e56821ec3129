#include "executor/tensors/tensor_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/models/residual_chain.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

TensorId tensor_named(const OperatorGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.tensors(), name, &Tensor::name);
  return TensorId(static_cast<std::size_t>(found - graph.tensors().begin()));
}

// What the bound means, along every path by itself.
std::int64_t bound_along_paths(const OperatorGraph& graph, TensorId tensor) {
  std::int64_t bound = INT64_MAX;
  for (const UseRef ref : graph.consumers(tensor)) {
    const Operator& op = graph.op(ref.op);
    if (op.uses[static_cast<std::size_t>(ref.use)].role == Role::Index) {
      if (op.kind == "embedding" || op.kind == "cross_entropy")
        bound = std::min(bound, op.factors[static_cast<std::size_t>(op.factor("v"))].size);
      continue;
    }
    for (const TensorUse& use : op.uses) {
      if (use.role == Role::Output) bound = std::min(bound, bound_along_paths(graph, use.tensor));
    }
  }
  return bound;
}

TEST(IndexBounds, AreThoseOfAllPaths) {
  for (const char* model : {"rnnlm:batch=2,steps=4,hidden=8,embedded=8,vocab=24",
                            "gpt:batch=2,layers=2,hidden=8,heads=2,vocab=50",
                            "bert-base:batch=2,layers=1,hidden=8,heads=2,vocab=50,objective=both",
                            "mixtral-8x7b:batch=2,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48", "lenet"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const std::vector<std::int64_t> bounds = index_bounds(graph);
    ASSERT_EQ(bounds.size(), graph.tensors().size());
    for (std::size_t t = 0; t < bounds.size(); ++t) {
      EXPECT_EQ(bounds[t], bound_along_paths(graph, TensorId(t))) << model << " " << graph.tensors()[t].name;
    }
  }
}

// Indices are cut in two, and each half reads another table.
TEST(IndexBounds, HoldBehindOperatorsThatMoveIndices) {
  GraphBuilder b("halves", 4);
  const TensorId words = b.data("words", {4, 6}, DataType::Int64);
  const std::vector<TensorId> halves =
      b.add_all("split", "halves", {words}, {{"axis", 1}, {"sizes", Sizes{2, 4}}});
  const TensorId first = b.add("embedding", "first", {halves[0]}, {{"rows", 30}, {"width", 8}});
  const TensorId second = b.add("embedding", "second", {halves[1]}, {{"rows", 20}, {"width", 8}});
  const TensorId rows = b.add("concat", "rows", {first, second}, {{"axis", 1}});
  const TensorId scores = b.add("linear", "scores", {rows}, {{"out", Sizes{10}}});
  b.add("cross_entropy", "loss", {scores, b.data("labels", {4, 6}, DataType::Int64)});
  const OperatorGraph graph = b.build();
  const std::vector<std::int64_t> bounds = index_bounds(graph);
  EXPECT_EQ(bounds[words.index()], 20);
  EXPECT_EQ(bounds[halves[0].index()], 30);
  EXPECT_EQ(bounds[halves[1].index()], 20);
  EXPECT_EQ(bounds[tensor_named(graph, "labels").index()], 10);
}

// 2^200 paths lead through it.
TEST(IndexBounds, OfADeepResidualChainAreFoundAtOnce) {
  const OperatorGraph graph = residual_chain(200, 2);
  const std::vector<std::int64_t> bounds = index_bounds(graph);
  EXPECT_EQ(bounds[tensor_named(graph, "words").index()], 50);
  EXPECT_EQ(bounds[tensor_named(graph, "labels").index()], 10);
  const SyntheticSource source(graph);
  std::vector<std::int64_t> words(8, -1);
  source.fill(
      Loaded::Content::Data, tensor_named(graph, "words"),
      {reinterpret_cast<std::byte*>(words.data()), DataType::Int64, Box(std::vector<Range>{{0, 2}, {0, 4}})},
      {});
  EXPECT_THAT(words, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(50))));
}

}  // namespace
}  // namespace pipesim
