#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "tests/executor/equality_case.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

/// A layer whose queries see the keys that three projections select; these are frozen or not.
OperatorGraph selecting_layer(bool frozen) {
  using Out = std::vector<std::int64_t>;
  GraphBuilder b("selecting", 4);
  const TensorId words = b.data("words", {4, 8}, DataType::Int64);
  const TensorId rows =
      b.add("embedding", "rows", {words}, {{"rows", std::int64_t{40}}, {"width", std::int64_t{12}}});
  const auto projected = [&](const std::string& name, Out out) {
    return b.add("linear", name, {rows}, {{"out", std::move(out)}, {"bias", 0}});
  };
  b.freeze(frozen);
  const TensorId selected =
      b.add("select_keys", "select",
            {projected("index_q", {2, 3}), projected("index_k", {3}), projected("index_w", {2})},
            {{"count", std::int64_t{3}}});
  b.freeze(false);
  const TensorId mixed =
      b.add("selected_attention", "mix",
            {projected("q", {2, 2, 4}), projected("k", {2, 4}), projected("v", {2, 4}), selected});
  const TensorId y =
      b.add("linear", "out", {mixed}, {{"out", Out{40}}, {"contract", std::int64_t{3}}, {"bias", 0}});
  b.add("cross_entropy", "loss", {y, b.data("labels", {4, 8}, DataType::Int64)});
  return b.build();
}

class SelectedKeys : public testing::TestWithParam<bool> {};

// What projections select is the same under every split, and they get no gradient.
TEST_P(SelectedKeys, AreTheSameHoweverTheModelIsSplit) {
  const EqualityCase c(selecting_layer(GetParam()));
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel selects keys";
  Reference reference = c.reference();
  for_each_seed(30, [&](Rng& rng) {
    reference.check(random_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  std::vector<std::string> trained;
  for (const auto& [tensor, elements] : reference.values_of(strategy, {}).gradients) {
    if (c.graph.tensor(tensor).kind == TensorKind::Weight) trained.push_back(c.graph.tensor(tensor).name);
  }
  EXPECT_THAT(trained, testing::IsSupersetOf({"rows.w", "q.w", "k.w", "v.w", "out.w"}));
  if (GetParam()) {
    EXPECT_THAT(trained, testing::SizeIs(5));
  }
}

INSTANTIATE_TEST_SUITE_P(Projections, SelectedKeys, testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "frozen" : "trained");
});

}  // namespace
}  // namespace pipesim
