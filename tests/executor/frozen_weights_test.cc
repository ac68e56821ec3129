#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "tests/executor/equality_case.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_pipelines.h"

namespace pipesim {
namespace {

using Widths = std::vector<std::int64_t>;

/// Two layers whose weights are frozen, each beside a trained product of two narrow matrices (Hu et al.,
/// LoRA, 2022, section 4.1), and a learned tensor that is added.
OperatorGraph adapted_layers() {
  GraphBuilder b("adapted", 8);
  const auto linear = [&](const std::string& name, TensorId x, std::int64_t out, bool frozen) {
    return b.add_operator({"linear", name, {x}, {{"out", Widths{out}}, {"bias", 0}}, {}, {}, "", frozen})[0];
  };
  TensorId x = b.data("x", {8, 4, 12});
  for (const std::string layer : {"1", "2"}) {
    const TensorId inner = linear("down" + layer, x, 4, false);
    x = b.add("add", "sum" + layer,
              {linear("base" + layer, x, 16, true), linear("up" + layer, inner, 16, false)});
    const TensorId shift = b.add("parameter", "shift" + layer, {}, {{"shape", Widths{4, 16}}});
    x = b.add("tanh", "tanh" + layer, {b.add("add", "shifted" + layer, {x, shift})});
    x = b.add_operator({"layer_norm", "norm" + layer, {x}, {}, {}, {}, "", layer == "1"})[0];
  }
  b.add("squared_error", "loss", {x, b.data("target", {8, 4, 16})});
  return b.build();
}

TEST(FrozenWeights, StayAsTheyAreHoweverTheModelIsSplit) {
  const EqualityCase c(adapted_layers());
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel has the squared error";
  Reference reference = c.reference();
  for_each_seed(40, [&](Rng& rng) {
    reference.check(random_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

TEST(FrozenWeights, HaveNoGradient) {
  const EqualityCase c(adapted_layers());
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel has the squared error";
  Reference reference = c.reference();
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  std::vector<std::string> trained;
  for (const auto& [tensor, elements] : reference.values_of(strategy, {}).gradients) {
    if (c.graph.tensor(tensor).kind == TensorKind::Weight) trained.push_back(c.graph.tensor(tensor).name);
  }
  EXPECT_THAT(trained, testing::UnorderedElementsAre("down1.w", "up1.w", "shift1.w", "down2.w", "up2.w",
                                                     "shift2.w", "norm2.gamma", "norm2.beta"));
}

}  // namespace
}  // namespace pipesim
