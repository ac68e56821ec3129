#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

/// Weights of the convolutions whose names begin with `prefix`; norms are left out, as in DAPPLE's profile.
std::int64_t convolution_weights(const OperatorGraph& graph, const std::string& prefix) {
  std::int64_t sum = 0;
  for (const Operator& op : graph.operators()) {
    if (op.kind != "conv2d" || !op.name.starts_with(prefix)) continue;
    std::int64_t weights = 1;
    for (const std::int64_t extent : graph.tensor(op.uses[1].tensor).shape) weights *= extent;
    sum += weights;
  }
  return sum;
}

// AlibabaPAI/DAPPLE, profile amoeba-36: parameter_size of each cell in bytes, of the first three of each
// kind.
const std::map<std::string, std::int64_t> published_bytes = {
    {"stem.conv", 3'456},           {"stem.reduction1.", 245'760},     {"stem.reduction2.", 1'327'104},
    {"stage1.cell1.", 8'388'608},   {"stage1.cell2.", 11'796'480},     {"stage1.cell3.", 14'417'920},
    {"stage1.cell12.", 14'417'920}, {"stage2.reduction.", 31'195'136}, {"stage2.cell1.", 45'088'768},
    {"stage2.cell2.", 53'477'376},  {"stage2.cell3.", 57'671'680},     {"stage3.reduction.", 124'780'544},
    {"stage3.cell1.", 180'355'072}, {"stage3.cell2.", 213'909'504},    {"stage3.cell12.", 230'686'720},
};

TEST(AmoebaNet, CellsHaveTheirPublishedWeights) {
  const OperatorGraph graph = make_zoo_model("amoebanet36");
  for (const auto& [prefix, bytes] : published_bytes) {
    EXPECT_EQ(4 * convolution_weights(graph, prefix), bytes) << prefix;
  }
}

// The same profile adds up to 932,783,945, with 1001 classes; the paper's table 1 says 933 M.
TEST(AmoebaNet, HasItsPublishedParameters) {
  const OperatorGraph graph = make_zoo_model("amoebanet36:classes=1001");
  EXPECT_EQ(convolution_weights(graph, "") + 8192 * 1001 + 1001, 932'783'945);
  std::int64_t normalised = 0;
  for (const Operator& op : graph.operators()) {
    if (op.kind == "batch_norm") normalised += 2 * graph.tensor(op.uses[0].tensor).shape[1];
  }
  EXPECT_EQ(graph.parameter_count(), 932'783'945 + normalised);
}

// Huang et al. (GPipe), NeurIPS 2019, table 1, (normal cells, filters).
TEST(AmoebaNet, HasTheSizesOfGPipesEvaluation) {
  const std::map<std::string, double> published = {{"layers=18,filters=208", 82e6},
                                                   {"layers=18,filters=416", 318e6},
                                                   {"layers=18,filters=544", 542e6},
                                                   {"layers=36,filters=544", 1.05e9}};
  for (const auto& [sizes, count] : published) {
    const OperatorGraph graph = make_zoo_model("amoebanet36:" + sizes);
    EXPECT_NEAR(static_cast<double>(graph.parameter_count()), count, 0.015 * count) << sizes;
  }
}

// A normal cell in the middle applies each weight once per pixel.
TEST(AmoebaNet, HasTheMultiplyAddsOfItsWeights) {
  const OperatorGraph graph = make_zoo_model("amoebanet36:batch=1");
  const std::map<std::string, double> pixels = {
      {"stage1.cell3.", 28 * 28}, {"stage2.cell3.", 14 * 14}, {"stage3.cell12.", 7 * 7}};
  for (const auto& [prefix, count] : pixels) {
    const double work = forward_flops(graph, [&, cell = prefix](const Operator& op) {
      return op.kind == "conv2d" && op.name.starts_with(cell);
    });
    EXPECT_DOUBLE_EQ(work, 2 * count * static_cast<double>(published_bytes.at(prefix) / 4)) << prefix;
  }
}

TEST(AmoebaNet, CellsOfAStageRepeatFromTheThirdOn) {
  const auto counts = repeats(make_zoo_model("amoebanet36"));
  for (const char* stage : {"stage1", "stage2", "stage3"}) {
    EXPECT_EQ(counts.at(std::string(stage) + ".cell#.pair5.add"), 10) << stage;
  }
  EXPECT_FALSE(counts.contains("stage1.cell#.before.even"));  // halves what the first reads
}

TEST(AmoebaNet, OutputsHaveTheSizesOfThePublishedProfile) {
  const OperatorGraph graph = make_zoo_model("amoebanet36:batch=1");
  const auto shape = [&](const std::string& name) {
    return graph.tensor(operator_named(graph, name).uses.back().tensor).shape;
  };
  EXPECT_EQ(shape("stem.norm"), (std::vector<std::int64_t>{1, 32, 111, 111}));
  EXPECT_EQ(shape("stem.reduction1.concat"), (std::vector<std::int64_t>{1, 384, 56, 56}));
  EXPECT_EQ(shape("stem.reduction2.concat"), (std::vector<std::int64_t>{1, 768, 28, 28}));
  EXPECT_EQ(shape("stage1.cell12.concat"), (std::vector<std::int64_t>{1, 2048, 28, 28}));
  EXPECT_EQ(shape("stage2.reduction.concat"), (std::vector<std::int64_t>{1, 3072, 14, 14}));
  EXPECT_EQ(shape("stage3.cell12.concat"), (std::vector<std::int64_t>{1, 8192, 7, 7}));
}

TEST(AmoebaNet, CellsNeedNotDivideByThree) {
  const OperatorGraph graph = make_zoo_model("amoebanet36:layers=5,filters=16");
  const auto has = [&](const std::string& name) {
    for (const Operator& op : graph.operators()) {
      if (op.name == name) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("stage1.cell1.concat") && has("stage2.cell2.concat") && has("stage3.cell2.concat"));
  EXPECT_FALSE(has("stage1.cell2.concat"));
}

TEST(AmoebaNet, RefusesFiltersThatStemsCannotHalve) {
  EXPECT_EQ(refusal([] { make_zoo_model("amoebanet36:filters=40"); }),
            "model \"amoebanet36:filters=40\": filters=40 is not a multiple of 16");
}

}  // namespace
}  // namespace pipesim
