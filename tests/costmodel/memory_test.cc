#include <gmock/gmock.h>

#include <map>
#include <string>

#include "costmodel/cost_model.h"
#include "models/zoo/zoo.h"
#include "tests/costmodel/samples.h"

namespace pipesim {
namespace {

using testing::DoubleNear;

WeightMemory memory(DataType type, DataType gradient, const Optimizer& optimizer) {
  return CostModel::weight_memory(10, type, gradient, optimizer);
}

TEST(WeightMemory, CountsWeightsGradientsAndState) {
  using enum DataType;
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Sgd), (WeightMemory{Bytes(40), Bytes(40), Bytes(0)}));
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Momentum), (WeightMemory{Bytes(40), Bytes(40), Bytes(40)}));
  EXPECT_EQ(memory(Float32, Float32, Optimizer::Adam), (WeightMemory{Bytes(40), Bytes(40), Bytes(80)}));
}

TEST(WeightMemory, KeepsAMasterCopyOfHalfPrecision) {
  using enum DataType;
  // Rajbhandari et al., ZeRO, section 3.1: 2 + 2 + 12 bytes a parameter with Adam.
  EXPECT_EQ(memory(BFloat16, BFloat16, Optimizer::Adam), (WeightMemory{Bytes(20), Bytes(20), Bytes(120)}));
  EXPECT_EQ(memory(Float16, Float32, Optimizer::Sgd), (WeightMemory{Bytes(20), Bytes(40), Bytes(40)}));
}

// Rajbhandari et al. leave out that DeepSpeed and Megatron-LM copy 16-bit gradients for the step.
TEST(WidenedGradients, AreThoseThatMainWeightsOfFloat32Need) {
  using enum DataType;
  const auto widened = [&](DataType weight, DataType gradient, const Optimizer& optimizer) {
    return widened_gradients(10, weight, gradient, optimizer, parse_runtime("megatron").step_gradients,
                             false);
  };
  EXPECT_EQ(widened(BFloat16, BFloat16, Optimizer::Adam), Bytes(40));
  EXPECT_EQ(widened(Float16, Float16, Optimizer::Sgd), Bytes(40));
  EXPECT_EQ(widened(BFloat16, Float32, Optimizer::Adam), Bytes(0));
  EXPECT_EQ(widened(Float32, BFloat16, Optimizer::Adam), Bytes(0));  // no main weights
  const auto with_main = [](Optimizer::Main main) { return Optimizer(Optimizer::Adam, BFloat16, main); };
  EXPECT_EQ(widened(BFloat16, BFloat16, with_main(Optimizer::Main::Float32)), Bytes(40));
  EXPECT_EQ(widened(BFloat16, BFloat16, with_main(Optimizer::Main::Remainder)), Bytes(0));
  EXPECT_EQ(widened(BFloat16, BFloat16, with_main(Optimizer::Main::None)), Bytes(0));
  const auto of_runtime = [](const char* runtime, DataType gradient, bool divided) {
    return widened_gradients(10, BFloat16, gradient, Optimizer::Adam, parse_runtime(runtime).step_gradients,
                             divided);
  };
  EXPECT_EQ(of_runtime("torch-eager", BFloat16, false), Bytes(0));
  EXPECT_EQ(of_runtime("megatron", BFloat16, true), Bytes(40));
  // DeepSpeed: one tensor of 16 bits and its copy, or float32 copies and one tensor of all.
  EXPECT_EQ(of_runtime("deepspeed", BFloat16, true), Bytes(20 + 40));
  EXPECT_EQ(of_runtime("deepspeed", BFloat16, false), Bytes(40 + 40));
  EXPECT_EQ(of_runtime("deepspeed", Float32, true), Bytes(0));
}

// PyTorch's Adam: square roots of second moments, in their type; tensor by tensor these and what they are
// divided to. Its Adafactor: what rows and columns say of each element.
TEST(OptimizerIntermediates, AreAsLargeAsSecondMoments) {
  using enum DataType;
  using enum OptimizerKernel;
  const auto held = [](const char* optimizer, OptimizerKernel kernel, DataType weight = BFloat16) {
    return optimizer_intermediates(10, {weight, 5, 2, true}, parse_optimizer(optimizer), kernel);
  };
  EXPECT_EQ(held("adam", Foreach), Bytes(40));
  EXPECT_EQ(held("adam", Single), Bytes(80));
  EXPECT_EQ(held("adam", Fused), Bytes(0));
  EXPECT_EQ(held("adam", Foreach, Float32), Bytes(40));
  EXPECT_EQ(held("adam,moments=bfloat16,main=none", Foreach), Bytes(20));
  EXPECT_EQ(held("adam,moments=float32+bfloat16", Single), Bytes(40));
  EXPECT_EQ(held("adafactor", Single), Bytes(40));
  for (const char* in_place : {"sgd", "momentum", "lion", "adam8bit", "muon"})
    EXPECT_EQ(held(in_place, Foreach), Bytes(0)) << in_place;
  const auto of_all = [](const char* optimizer, const char* runtime) {
    return holds_intermediates_of_all(parse_optimizer(optimizer), parse_runtime(runtime));
  };
  EXPECT_TRUE(of_all("adam", "torch-eager"));
  EXPECT_FALSE(of_all("adam", "torch-eager:optimizer-kernel=single"));
  EXPECT_FALSE(of_all("adafactor", "torch-eager"));
  EXPECT_TRUE(of_all("adam", "deepspeed:optimizer-kernel=single"));
}

TEST(UpdateTime, IsBoundByMemory) {
  Topology topology = switched({2});
  CostModel costs(topology);
  auto seconds = [&](DataType type, const Optimizer& optimizer) {
    return (costs.update_time({optimizer, type, 1'000'000}, DeviceId(1)) - Seconds(2e-6)).value;
  };
  // Bytes per weight over 0.8 TB/s.
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Sgd), DoubleNear(12e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Momentum), DoubleNear(20e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::Float32, Optimizer::Adam), DoubleNear(28e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::BFloat16, Optimizer::Adam), DoubleNear(28e6 / 0.8e12, 1e-12));
  // A weight of 2 bytes, its gradient, and moments of 2 bytes each: 3 · 2 + 2 · 4. With the bits that the
  // weight lacks, 2 · 2 more; with a copy of 2 bytes too, but then the weight is not read.
  const auto bfloat16 = [](Optimizer::Main main) {
    return Optimizer(Optimizer::Adam, DataType::BFloat16, main);
  };
  EXPECT_THAT(seconds(DataType::BFloat16, bfloat16(Optimizer::Main::None)), DoubleNear(14e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::BFloat16, bfloat16(Optimizer::Main::Remainder)),
              DoubleNear(18e6 / 0.8e12, 1e-12));
  EXPECT_THAT(seconds(DataType::BFloat16, bfloat16(Optimizer::Main::BFloat16)),
              DoubleNear(16e6 / 0.8e12, 1e-12));
  EXPECT_EQ(costs.update_time({Optimizer::Adam, DataType::Float32}, DeviceId(0)), Seconds(0));
}

// Five steps of Newton and Schulz's iteration on 64 × 128: each has products of 64·128·64, 64·64·64 and
// 64·64·128 multiplications. A part of a quarter has a quarter of them.
TEST(UpdateTime, OfMuonMakesMatricesOrthogonal) {
  const Topology topology = switched({1});
  const CostModel costs(topology);
  const WeightShape matrix{DataType::Float32, 64, 128, true};
  UpdatedWeights part(Optimizer::Muon, DataType::Float32), vector(Optimizer::Muon, DataType::Float32);
  part.add(64 * 128 / 4, matrix);
  vector.add(64 * 128 / 4, DataType::Float32);
  EXPECT_DOUBLE_EQ(part.flops, 5.0 / 4 * 2 * (64 * 128 * 64 + 64 * 64 * 64 + 64 * 64 * 128));
  EXPECT_EQ(vector.flops, 0);
  const double moved = 64 * 128 / 4 * 20,
               rate = peak_rate(topology.kind(DeviceId(0)), DataType::BFloat16).value;
  EXPECT_THAT(costs.update_time(part, DeviceId(0)).value,
              DoubleNear(2e-6 + moved / 0.8e12 + part.flops / rate, 1e-12));
}

TEST(ShapeOfWeight, TellsMatricesOfLayersFromEmbeddingsHeadsAndVectors) {
  const OperatorGraph graph = make_zoo_model(
      "mixtral-8x7b:layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,experts=4");
  std::map<std::string, WeightShape> shapes;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.kind == TensorKind::Weight)
      shapes[tensor.name] = shape_of_weight(graph, TensorId(t), DataType::Float32);
  }
  EXPECT_EQ(shapes.at("layer1.query.w"), WeightShape(DataType::Float32, 16, 16, true));
  EXPECT_EQ(shapes.at("layer1.key.w"), WeightShape(DataType::Float32, 16, 8, true));
  EXPECT_EQ(shapes.at("layer1.output.w"), WeightShape(DataType::Float32, 16, 16, true));
  EXPECT_EQ(shapes.at("layer1.router.w"), WeightShape(DataType::Float32, 16, 4, true));
  EXPECT_EQ(shapes.at("layer1.down.w"), WeightShape(DataType::Float32, 24, 16, true));  // of each expert
  EXPECT_EQ(shapes.at("word_embedding.w"), WeightShape(DataType::Float32, 48, 16, false));
  EXPECT_EQ(shapes.at("projection.w"), WeightShape(DataType::Float32, 16, 48, false));
  EXPECT_EQ(shapes.at("norm.gamma"), WeightShape(DataType::Float32));
}

}  // namespace
}  // namespace pipesim
