#include "models/fusion.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "tests/executor/equality_case.h"

namespace pipesim {
namespace {

using Extents = std::vector<std::int64_t>;

/// Attention with a bias of each sample, written out, then two products with gelu in between.
OperatorGraph layer_written_out() {
  GraphBuilder b("written", 2);
  const TensorId x = b.add("embedding", "table", {b.data("words", {2, 6}, DataType::Int64)},
                           {{"rows", std::int64_t{9}}, {"width", std::int64_t{12}}});
  const auto heads = [&](const std::string& name, const Extents& order) {
    const TensorId y = b.add("linear", name, {x}, {{"out", Extents{12}}});
    const TensorId split = b.add("reshape", name + "_view", {y}, {{"shape", Extents{2, 6, 3, 4}}});
    return b.add("transpose", name + "_heads", {split}, {{"order", order}});
  };
  TensorId y = b.add("matmul", "scores", {heads("query", {0, 2, 1, 3}), heads("key", {0, 2, 3, 1})});
  y = b.add("affine", "scale", {y}, {{"factor", 0.75}});
  y = b.add("softmax", "softmax", {b.add("add", "mask", {y, b.data("bias", {2, 1, 6, 6})})});
  y = b.add("matmul", "mixed", {y, heads("value", {0, 2, 1, 3})});
  y = b.add("transpose", "together", {y}, {{"order", Extents{0, 2, 1, 3}}});
  y = b.add("reshape", "flat", {y}, {{"shape", Extents{2, 6, 12}}});
  y = b.add("gelu", "gelu", {b.add("linear", "inner", {y}, {{"out", Extents{8}}})});
  b.add("cross_entropy", "loss",
        {b.add("linear", "outer", {y}, {{"out", Extents{5}}}), b.data("labels", {2, 6}, DataType::Int64)});
  return b.build();
}

std::map<std::string, std::vector<float>> tensors_of_step(const OperatorGraph& graph) {
  const EqualityCase c(graph);
  Reference reference = c.reference();
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  const StepValues values = reference.values_of(strategy, {});
  std::map<std::string, std::vector<float>> named;
  for (const auto& [id, elements] : values.outputs)
    named[c.graph.tensor(id).name] = {elements.begin(), elements.end()};
  for (const auto& [id, elements] : values.gradients) {
    if (c.graph.tensor(id).kind == TensorKind::Weight)
      named["gradient of " + c.graph.tensor(id).name] = {elements.begin(), elements.end()};
  }
  return named;
}

// Weights and data have the same names, so both models get the same numbers.
TEST(FusedModel, HasTheLossAndTheGradientsOfTheWrittenOne) {
  const OperatorGraph written = layer_written_out(), fused = fuse(written);
  ASSERT_EQ(written.operators().size(), 21U);
  ASSERT_EQ(fused.operators().size(), 16U) << "one attention, one product with gelu";
  if (!make_tested_devices(fused, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel adds an input to scores";
  const auto expected = tensors_of_step(written), got = tensors_of_step(fused);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, elements] : expected) {
    float most = 0;
    for (const float e : elements) most = std::max(most, std::abs(e));
    ASSERT_EQ(got.at(name).size(), elements.size()) << name;
    for (std::size_t i = 0; i < elements.size(); ++i)
      EXPECT_NEAR(got.at(name)[i], elements[i], 1e-5F * most + 1e-7F) << name << " " << i;
  }
}

}  // namespace
}  // namespace pipesim
