#include "costmodel/training_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "models/box.h"
#include "models/zoo/zoo.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Narayanan et al., arXiv:2104.04473, equation 3 without recompute: 72·B·s·l·h²·(1 + s/(6h) + V/(12lh)).
TEST(TrainingWork, IsMegatronsFormula) {
  constexpr double kBatch = 2, kSequence = 2048, kLayers = 96, kHidden = 12288, kVocabulary = 50257;
  const OperatorGraph graph = make_zoo_model("gpt3-175b:batch=2");
  const double published = 72 * kBatch * kSequence * kLayers * kHidden * kHidden *
                           (1 + kSequence / (6 * kHidden) + kVocabulary / (12 * kLayers * kHidden));
  const TrainingWork work = training_work(graph);
  EXPECT_NEAR(work.model_flops, published, 0.002 * published);
  EXPECT_EQ(work.hardware_flops, work.model_flops);
  EXPECT_EQ(work.tokens, 2 * 2048);
}

TEST(TrainingWork, CountsWhatRunsAgainForTheHardware) {
  const OperatorGraph graph = make_zoo_model("gpt3-125m:batch=2");
  const TrainingWork all = training_work(graph, [](OperatorId) { return true; });
  EXPECT_DOUBLE_EQ(all.hardware_flops, all.model_flops * 4 / 3);
}

// The logits are made again: for the hardware alone.
TEST(TrainingWork, OfALossInChunksIsThatOfAProjectionApart) {
  for (const std::string model : {"gpt3-125m:batch=2", "bert-base:batch=2"}) {
    const OperatorGraph apart = make_zoo_model(model), joint = make_zoo_model(model + ",loss_chunks=8");
    const TrainingWork expected = training_work(apart), got = training_work(joint);
    const std::span<const Operator> operators = apart.operators();
    const Operator& projection = *std::ranges::find(operators, "projection", &Operator::name);
    EXPECT_DOUBLE_EQ(got.model_flops, expected.model_flops);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_DOUBLE_EQ(got.hardware_flops - got.model_flops,
                     evaluate(projection.flops_forward, whole_ranges(projection)));
  }
}

TEST(TrainingWork, HasNoTokensWhereASampleHasOneLabel) {
  EXPECT_EQ(training_work(make_zoo_model("resnet50:batch=4")).tokens, 0);
  EXPECT_GT(training_work(make_zoo_model("resnet50:batch=4")).model_flops, 0);
}

TEST(PeakRate, IsThatOfTheModelsType) {
  const Topology topology = make_topology("dgx-h100:1");
  EXPECT_NEAR(peak_rate(make_zoo_model("llama3-8b:batch=1"), topology).value, 8 * 989e12, 8e12);
}

}  // namespace
}  // namespace pipesim
