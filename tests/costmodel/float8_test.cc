#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>

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
  if (float8) builder.multiply_in("float8", false);
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

TEST_F(Float8Test, TakesThatRateAndCastsOperandsFirst) {
  const CostModel costs(topology_);
  const double casts_of_operands = casts(kRows * kInner) + casts(kInner * kColumns);
  const KernelWork product{.flops = 2.0 * kRows * kInner * kColumns,
                           .matrix = MatrixSize{1, kRows, kColumns, kInner}};
  EXPECT_THAT(seconds(costs, float8_, 1, Pass::Forward),
              DoubleNear(analytic_time(product, DataType::Float8, kind_).value + casts_of_operands, 1e-9));
}

// A kind without a curve for the type reaches the share that products of half the FLOPs reach in 16 bits.
TEST_F(Float8Test, ReachesAsMuchAsAProductThatIsAsLongWithoutRatesOfItsOwn) {
  DeviceKind kind = kind_;
  kind.product_rates.clear();
  const double launch = kind.launch_overhead.value;
  KernelWork product{.flops = 2.0 * kRows * kInner * kColumns,
                     .matrix = MatrixSize{1, kRows, kColumns, kInner}};
  const double narrow = analytic_time(product, DataType::Float8, kind).value - launch;
  product.flops /= 2;
  const double as_long = analytic_time(product, DataType::BFloat16, kind).value - launch;
  EXPECT_THAT(narrow, DoubleNear(as_long * 2 * 989 / 1979, 1e-9));
}

// Between two points of the curve the share is linear in the logarithm of the FLOPs, and flat outside.
TEST_F(Float8Test, FollowsTheCurveOfItsType) {
  DeviceKind kind = kind_;
  kind.product_rates = {{DataType::Float8, {{{Flops(1e10), 0.2}, {Flops(1e12), 0.6}}, 0.9}}};
  const auto share = [&](double flops) {
    const KernelWork work{.flops = flops, .matrix = MatrixSize{1, 1 << 20, 1 << 20, 1 << 20}};
    const double time = (analytic_time(work, DataType::Float8, kind) - kind.launch_overhead).value;
    return flops / 1979e12 / time;
  };
  EXPECT_THAT(share(1e9), DoubleNear(0.2 * 0.9, 1e-4));
  EXPECT_THAT(share(1e11), DoubleNear(0.4 * 0.9, 1e-4));
  EXPECT_THAT(share(1e13), DoubleNear(0.6 * 0.9, 1e-4));
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
      "device kind \"A100-80GB\" has no rate of float8; allowed: products=own, which keeps products in the "
      "model's own type");
  const Topology h100 = make_topology("dgx-h100:gpus=1");
  const OperatorGraph four = make_zoo_model("llama:layers=1,products=nvfp4");
  const auto product =
      std::ranges::find_if(four.operators(), [](const Operator& op) { return op.casts.has_value(); });
  EXPECT_EQ(
      refusal([&] {
        (void)CostModel(h100).operator_time(four, *product, Pass::Forward, whole_ranges(*product),
                                            DeviceId(0));
      }),
      "device kind \"H100-SXM5\" has no rate of nvfp4; allowed: products=float8, products=fp8-block, or "
      "products=own, which keeps products in the model's own type");
}

// What kernels move of an element of 16 bits: they read it, once more to find the largest magnitude, and
// write it twice, with a scale of four bytes for 128 elements, one for 32, or one for 16.
TEST(Precisions, DifferInTypeAndInWhatKernelsMove) {
  struct Case {
    const char* products;
    DataType type;
    double bytes;
  };
  for (const Case& c :
       {Case{"float8", DataType::Float8, 2 + 2 + 2}, Case{"fp8-delayed", DataType::Float8, 2 + 2},
        Case{"fp8-block", DataType::Float8Block, 2 + 2 * (1 + 4.0 / 128)},
        Case{"mxfp8", DataType::MxFloat8, 2 + 2 * (1 + 1.0 / 32)},
        Case{"nvfp4", DataType::NvFloat4, 3 * 2 + 2 * (0.5 + 1.0 / 16)}}) {
    SCOPED_TRACE(c.products);
    const OperatorGraph graph =
        make_zoo_model(std::string("llama:layers=1,dtype=bfloat16,products=") + c.products);
    const auto product = std::ranges::find(graph.operators(), "layer1.down", &Operator::name);
    ASSERT_NE(product, graph.operators().end());
    ASSERT_TRUE(product->casts);
    EXPECT_EQ(product->casts->type, c.type);
    const KernelWork work = shard_kernel(graph, *product, Pass::Forward, whole_ranges(*product)).work;
    EXPECT_DOUBLE_EQ(work.weight_cast_bytes, c.bytes * 11008 * 4096);
    EXPECT_EQ(product->uses.front().saved_as, c.type);
  }
}

TEST(Precisions, AreOfLayersButTheFirstAndTheLastOnes) {
  const OperatorGraph all = make_zoo_model("llama:layers=6,products=mxfp8"),
                      some = make_zoo_model("llama:layers=6,products=mxfp8,own_at_start=1,own_at_end=2");
  std::map<std::string, int> casts;
  std::map<std::string, std::size_t> forms;  // operators by the text that says which are repeats
  for (const Operator& op : some.operators()) {
    if (op.casts) ++casts[op.name.substr(0, op.name.find('.'))];
    if (op.repeat.empty()) continue;
    const auto [first, is_new] = forms.emplace(op.repeat, op.uses.size());
    EXPECT_EQ(op.casts.has_value() && op.repeat.find(".own.") != std::string::npos, false) << op.name;
    EXPECT_EQ(first->second, op.uses.size()) << op.name;
  }
  EXPECT_THAT(casts, testing::ElementsAre(testing::Pair("layer2", 7), testing::Pair("layer3", 7),
                                          testing::Pair("layer4", 7)));
  EXPECT_EQ(std::ranges::count_if(all.operators(), [](const Operator& op) { return op.casts.has_value(); }),
            42);
  EXPECT_EQ(make_zoo_model("llama:layers=2,products=fp8-tensor").fingerprint(),
            make_zoo_model("llama:layers=2,products=float8").fingerprint());
  EXPECT_EQ(refusal([] { make_zoo_model("llama:layers=2,own_at_end=1"); }),
            "model \"llama:layers=2,own_at_end=1\": own_at_start and own_at_end need products in another "
            "type than dtype");
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
            "operator \"a\" (linear): attribute \"keep_uncast\" is 1, allowed where products is not own");
}

TEST(Float8, KeepsFingerprintsOfOtherModels) {
  EXPECT_EQ(make_zoo_model("llama:layers=2,products=own").fingerprint(),
            make_zoo_model("llama:layers=2").fingerprint());
  EXPECT_NE(make_zoo_model("llama:layers=2,products=float8").fingerprint(),
            make_zoo_model("llama:layers=2").fingerprint());
}

}  // namespace
}  // namespace pipesim
