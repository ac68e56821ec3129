#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

std::int64_t lstm_parameters(std::int64_t in, std::int64_t hidden) { return 4 * hidden * (in + hidden + 1); }

TEST(RnnTc, HasItsParameters) {
  const std::int64_t layers = 4 * lstm_parameters(1024, 1024);
  EXPECT_EQ(layers, 33'570'816);
  EXPECT_EQ(make_zoo_model("rnntc").parameter_count(), 20'000 * 1024 + layers + 2 * 1024 + 2);
}

TEST(RnnLm, HasItsParameters) {
  EXPECT_EQ(make_zoo_model("rnnlm").parameter_count(),
            10'000 * 2048 + 2 * lstm_parameters(2048, 2048) + 2048 * 10'000 + 10'000);
}

// Zaremba, Sutskever and Vinyals, 2014 (arXiv:1409.2329), large: 2 layers of 1500, 35 steps. Published: 66 M
// parameters (Press and Wolf, EACL 2017).
TEST(RnnLm, AtZarembasSizesHasItsPublishedParameters) {
  const OperatorGraph graph = make_zoo_model("rnnlm:hidden=1500,embedded=1500,steps=35");
  EXPECT_NEAR(static_cast<double>(graph.parameter_count()), 66e6, 0.1e6);
}

// Two operations for each weight but the embedding's and each step and sample.
TEST(RnnLm, HasTheFlopsOfItsWeights) {
  const OperatorGraph graph = make_zoo_model("rnnlm:batch=3");
  const double weights = 2 * 8 * 2048.0 * 2048.0 + 2048.0 * 10'000;
  EXPECT_NEAR(graph.forward_flops().value, 2 * weights * 3 * 40, 0.01 * 2 * weights * 3 * 40);
}

TEST(RnnLm, TwoStepsShareWeightsAndRepeat) {
  const OperatorGraph graph = make_zoo_model("rnnlm:steps=2,hidden=8,embedded=8,vocab=20,batch=4");
  EXPECT_THAT(repeats(graph), testing::Each(testing::Field(&std::pair<const std::string, int>::second, 2)));
  std::vector<std::string> weights;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Weight) weights.push_back(tensor.name);
  }
  EXPECT_THAT(weights,
              testing::UnorderedElementsAre("embedding.w", "lstm1.wx", "lstm1.wh", "lstm1.b", "lstm2.wx",
                                            "lstm2.wh", "lstm2.b", "projection.w", "projection.b"));
  EXPECT_EQ(graph.parameter_count(),
            make_zoo_model("rnnlm:steps=9,hidden=8,embedded=8,vocab=20").parameter_count());
}

TEST(RnnLm, EveryStepIsOperatorsOfItsOwn) {
  const OperatorGraph graph = make_zoo_model("rnnlm");
  EXPECT_EQ(count_kind(graph, "lstm_cell"), 2 * 40);
  EXPECT_EQ(count_kind(graph, "cross_entropy"), 40);
  EXPECT_EQ(operator_named(graph, "step40.lstm2").repeat, "step#.lstm2");
}

TEST(Nmt, HasItsParameters) {
  const std::int64_t embeddings = 2 * 32'000 * 1024, layers = 4 * lstm_parameters(1024, 1024);
  const std::int64_t attention = 1024 * 1024 + 1024 * 1024 + 1024 + 2048 * 1024;
  EXPECT_EQ(make_zoo_model("nmt").parameter_count(),
            embeddings + layers + attention + 1024 * 32'000 + 32'000);
}

TEST(Nmt, HasTheFlopsOfItsWeights) {
  const OperatorGraph graph = make_zoo_model("nmt:batch=2");
  const double lstm = 4 * 8 * 1024.0 * 1024.0, linears = (1 + 1 + 2 + 32'000 / 1024.0) * 1024.0 * 1024.0;
  // Scores and context of each decoder step read every encoder step: 5 + 2 operations an element.
  const double attention = 40.0 * 40 * 7 * 1024;
  const double flops = 2 * (40 * 2 * (lstm + linears) + attention);
  EXPECT_NEAR(graph.forward_flops().value, flops, 0.01 * flops);
}

TEST(Nmt, EncodesOnceAndAttendsAtEveryDecoderStep) {
  const OperatorGraph graph = make_zoo_model("nmt:steps=5,batch=2");
  const auto counts = repeats(graph);
  EXPECT_EQ(counts.at("encoder.step#.lstm2"), 5);
  EXPECT_EQ(counts.at("decoder.step#.attention"), 5);
  EXPECT_EQ(count_kind(graph, "lstm_cell"), 20);
  EXPECT_EQ(graph.tensor(operator_named(graph, "encoder.rows").uses.back().tensor).shape,
            (std::vector<std::int64_t>{2, 5, 1024}));
}

TEST(Nmt, DecoderStartsFromTheEncodersLastStates) {
  const OperatorGraph graph = make_zoo_model("nmt:steps=3,batch=2");
  const TensorId h = operator_named(graph, "decoder.step1.lstm2").uses[1].tensor;
  EXPECT_EQ(graph.op(graph.tensor(h).producer).name, "encoder.step3.lstm2");
}

// MLPerf Training 0.5, GNMT in PyTorch: 160,671,297 parameters with 32,320 words. It shares one embedding,
// has two biases where lstm_cell adds them up first, and normalises attention's scores by a factor and a
// bias.
TEST(Gnmt, HasItsPublishedParameters) {
  const std::int64_t embedding = 32'320 * 1024, second_biases = 9 * 4 * 1024, normalised = 1 + 1024;
  EXPECT_EQ(make_zoo_model("gnmt8:vocab=32320").parameter_count(),
            160'671'297 + embedding - second_biases - normalised);
  // Fan et al. (DAPPLE), PPoPP 2021, table 1; its profiles have 36,560 words.
  EXPECT_NEAR(static_cast<double>(make_zoo_model("gnmt16:vocab=36560").parameter_count()), 291e6, 0.5e6);
}

TEST(Gnmt, HasTheParametersOfItsLayers) {
  const std::int64_t h = 1024, words = 32'000;
  const std::int64_t encoder =
      2 * lstm_parameters(h, h) + lstm_parameters(2 * h, h) + 6 * lstm_parameters(h, h);
  const std::int64_t decoder = lstm_parameters(h, h) + 7 * lstm_parameters(2 * h, h);
  const std::int64_t attention = 2 * h * h + h;
  EXPECT_EQ(make_zoo_model("gnmt16").parameter_count(),
            2 * words * h + encoder + decoder + attention + h * words + words);
}

TEST(Gnmt, HasTheFlopsOfItsWeights) {
  const OperatorGraph graph = make_zoo_model("gnmt8:batch=2");
  const double square = 1024.0 * 1024, lstms = 4 * (2 + 2 + 3 + 2 + 2 + 2 + 3 * 3) * square;
  const double linears = (1 + 1 + 32'000 / 1024.0) * square;
  const double attention = 40.0 * 40 * 7 * 1024;  // as in nmt
  const double flops = 2 * (2 * 40 * (lstms + linears) + attention);
  EXPECT_NEAR(graph.forward_flops().value, flops, 0.01 * flops);
}

TEST(Gnmt, ReadsTheSentenceInBothDirections) {
  const OperatorGraph graph = make_zoo_model("gnmt8:steps=3,batch=2,hidden=8,embedded=6,vocab=20");
  const auto state_maker = [&](const std::string& name) {
    return graph.op(graph.tensor(operator_named(graph, name).uses[1].tensor).producer).name;
  };
  EXPECT_EQ(state_maker("encoder.step2.lstm1.forward"), "encoder.step1.lstm1.forward");
  EXPECT_EQ(state_maker("encoder.step2.lstm1.backward"), "encoder.step3.lstm1.backward");
  EXPECT_EQ(graph.tensor(operator_named(graph, "encoder.step2.lstm2").uses[0].tensor).shape,
            (std::vector<std::int64_t>{2, 16}));
}

TEST(Gnmt, LayersAboveTheFirstReadTheContext) {
  const OperatorGraph graph = make_zoo_model("gnmt8:steps=3,batch=2,hidden=8,embedded=6,vocab=20");
  const TensorId context = operator_named(graph, "decoder.step2.attention").uses.back().tensor;
  EXPECT_EQ(graph.consumers(context).size(), 3U);
  const TensorId query = operator_named(graph, "decoder.step2.query").uses[0].tensor;
  EXPECT_EQ(graph.op(graph.tensor(query).producer).name, "decoder.step2.lstm1");
}

TEST(Gnmt, LayersFromTheThirdOnAddWhatIsBelow) {
  const auto counts = repeats(make_zoo_model("gnmt8:steps=3,batch=2,hidden=8,embedded=6,vocab=20"));
  for (const char* side : {"encoder", "decoder"}) {
    const std::string step = std::string(side) + ".step#.";
    EXPECT_FALSE(counts.contains(step + "lstm2.residual"));
    EXPECT_EQ(counts.at(step + "lstm3.residual"), 3);
    EXPECT_EQ(counts.at(step + "lstm4.residual"), 3);
  }
}

// So that a pipeline cut in this order has whole layers in a stage.
TEST(Gnmt, AllStepsOfALayerStandTogether) {
  const OperatorGraph graph = make_zoo_model("gnmt8:steps=3,batch=2,hidden=8,embedded=6,vocab=20");
  std::vector<std::string> layers;
  for (const Operator& op : graph.operators()) {
    if (op.kind == "lstm_cell" && (layers.empty() || layers.back() != op.repeat)) layers.push_back(op.repeat);
  }
  EXPECT_EQ(layers.size(), 9U);
}

}  // namespace
}  // namespace pipesim
