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

}  // namespace
}  // namespace pipesim
