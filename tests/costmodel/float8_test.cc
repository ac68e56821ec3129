#include <gmock/gmock.h>

#include "costmodel/cost_model.h"
#include "costmodel/shard_kernel.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;

constexpr std::int64_t kRows = 8192, kInner = 4096, kColumns = 4096;

// x[8192, 4096] → 4096 without bias; the second one reads the same x.
OperatorGraph two_readers(bool float8) {
  GraphBuilder builder("two", kRows, DataType::BFloat16);
  if (float8) builder.multiply_in_float8(false);
  const TensorId words = builder.data("words", {kRows, kInner}, DataType::BFloat16);
  builder.begin_repeat("layer", 1);
  const TensorId x = builder.add("relu", "x", {words});
  for (const char* name : {"a", "b"})
    builder.add("linear", name, {x}, {{"out", kColumns}, {"bias", std::int64_t{0}}});
  builder.end_repeat();
  return builder.build();
}

class Float8Test : public testing::Test {
 protected:
  static double seconds(const CostModel& costs, const OperatorGraph& graph, std::size_t op, Pass pass) {
    const Operator& one = graph.operators()[op];
    return costs.operator_time(graph, one, pass, whole_ranges(one), DeviceId(0)).value;
  }

  // Returns the seconds for casts of so many elements, read twice in two bytes and written twice in one.
  [[nodiscard]] double casts(std::int64_t elements) const {
    return 6.0 * static_cast<double>(elements) / (kind_.memory_bandwidth.value * kind_.memory_efficiency);
  }

  Topology topology_ = make_topology("dgx-h100:gpus=1");
  const DeviceKind& kind_ = topology_.kind(DeviceId(0));
  OperatorGraph own_ = two_readers(false), float8_ = two_readers(true);
};

// Twice the FLOPs in the same time, but for the share of the rate that kernels of that length reach.
TEST_F(Float8Test, TakesThatRateAndCastsOperandsFirst) {
  const CostModel costs(topology_);
  const double wide = seconds(costs, own_, 1, Pass::Forward), launch = kind_.launch_overhead.value;
  const double casts_of_operands = casts(kRows * kInner) + casts(kInner * kColumns);
  const double product = seconds(costs, float8_, 1, Pass::Forward) - launch - casts_of_operands;
  EXPECT_THAT(product / (wide - launch), testing::AllOf(testing::Gt(989.0 / 1979), testing::Lt(0.56)));
  // The product of half as many rows in 16 bits is as long.
  KernelWork half{.flops = 1.0 * kRows * kInner * kColumns, .matrix = MatrixSize{1, kRows, kColumns, kInner}};
  const double as_long = analytic_time(half, DataType::BFloat16, kind_).value - launch;
  EXPECT_THAT(product, DoubleNear(as_long * 2 * 989 / 1979, 1e-9));
}

TEST_F(Float8Test, CastsWhatPassesReadOnce) {
  const CostModel costs(topology_);
  EXPECT_THAT(seconds(costs, float8_, 1, Pass::Forward) - seconds(costs, float8_, 2, Pass::Forward),
              DoubleNear(casts(kRows * kInner), 1e-12));
  const Operator& op = float8_.operators()[2];
  const auto cast_bytes = [&](Pass pass) {
    return shard_kernel(float8_, op, pass, whole_ranges(op)).work.cast_bytes;
  };
  EXPECT_EQ(cast_bytes(Pass::Forward), 0);
  EXPECT_EQ(cast_bytes(Pass::BackwardInput), 0);  // of data, which has no gradient
  EXPECT_EQ(cast_bytes(Pass::BackwardWeight), 6.0 * kRows * kColumns);
  const OperatorGraph llama = make_zoo_model("llama:layers=1,products=float8");
  for (const Operator& o : llama.operators()) {
    if (!o.casts) continue;
    EXPECT_GT(shard_kernel(llama, o, Pass::BackwardInput, whole_ranges(o)).work.cast_bytes, 0) << o.name;
    EXPECT_EQ(shard_kernel(llama, o, Pass::BackwardWeight, whole_ranges(o)).work.cast_bytes, 0) << o.name;
  }
  EXPECT_EQ(float8_.operators()[2].casts->input.size(), 0U);
  EXPECT_EQ(float8_.operators()[1].separate.forward, own_.operators()[1].separate.forward + 2);
  EXPECT_EQ(float8_.operators()[2].separate.forward, own_.operators()[2].separate.forward);
}

TEST_F(Float8Test, CastsWeightsOnceWhereTheRuntimeDoes) {
  const CostModel each(topology_, nullptr, parse_runtime("megatron:cast-weights=each")),
      once(topology_, nullptr, parse_runtime("megatron"));
  EXPECT_THAT(seconds(each, float8_, 1, Pass::Forward) - seconds(once, float8_, 1, Pass::Forward),
              DoubleNear(casts(kInner * kColumns), 1e-12));
  EXPECT_EQ(seconds(each, float8_, 1, Pass::BackwardInput), seconds(once, float8_, 1, Pass::BackwardInput));
}

TEST_F(Float8Test, IsRefusedWhereADeviceHasNoSuchRate) {
  const Topology a100 = make_topology("dgx-a100:gpus=1");
  const CostModel costs(a100);
  EXPECT_EQ(
      refusal([&] { (void)seconds(costs, float8_, 1, Pass::Forward); }),
      "device kind \"A100-80GB\" has no rate of float8; products=own in the model keeps products in its "
      "own type");
}

// Products of layers alone: not the head's, not a router's.
TEST(Float8, IsOfLayers) {
  for (const char* model : {"llama:layers=2,products=float8", "gpt:layers=2,products=float8",
                            "qwen3-235b:layers=2,products=float8", "deepseek-v3:layers=4,products=float8"}) {
    SCOPED_TRACE(model);
    const OperatorGraph graph = make_zoo_model(model);
    for (const Operator& op : graph.operators()) {
      const auto router = op.attributes.find("router");
      const bool routes = router != op.attributes.end() && router->second == AttributeValue(std::int64_t{1});
      const bool product = (op.kind == "linear" && !routes) || op.kind == "expert_linear";
      EXPECT_EQ(op.casts.has_value(), product && !op.repeat.empty()) << op.name;
    }
  }
}

TEST(Float8, IsTheTypeInWhichProductsKeepTheirInputs) {
  const auto kept_in_float8 = [](const std::string& options) {
    const OperatorGraph graph = make_zoo_model("llama:layers=2,products=float8" + options);
    int products = 0, copies = 0;
    for (const Operator& op : graph.operators()) {
      products += op.casts ? 1 : 0;
      for (const TensorUse& use : op.uses) {
        if (!use.saved_as) continue;
        ++copies;
        EXPECT_TRUE(op.casts && use.saved && use.role == Role::Input) << op.name;
        EXPECT_EQ(use.saved_as, DataType::Float8);
      }
    }
    return std::pair(products, copies);
  };
  EXPECT_EQ(kept_in_float8(""), std::pair(14, 14));
  EXPECT_EQ(kept_in_float8(",kept=megatron"), std::pair(14, 14));
  EXPECT_EQ(kept_in_float8(",kept=torch"), std::pair(14, 0));
  EXPECT_EQ(kept_in_float8(",lora=4"), std::pair(42, 28));  // frozen products need no inputs
}

TEST(Float8, IsNeededToKeepInputsUncast) {
  GraphBuilder builder("one", 4);
  const TensorId x = builder.data("x", {4, 8});
  EXPECT_EQ(refusal([&] {
              builder.add("linear", "a", {x}, {{"out", 8}, {"keep_uncast", 1}});
            }),
            "operator \"a\" (linear): attribute \"keep_uncast\" is 1, allowed with products=float8");
}

TEST(Float8, KeepsFingerprintsOfOtherModels) {
  EXPECT_EQ(make_zoo_model("llama:layers=2,products=own").fingerprint(),
            make_zoo_model("llama:layers=2").fingerprint());
  EXPECT_NE(make_zoo_model("llama:layers=2,products=float8").fingerprint(),
            make_zoo_model("llama:layers=2").fingerprint());
}

}  // namespace
}  // namespace pipesim
