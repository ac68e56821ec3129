#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

struct PublishedT5 {
  std::string size;
  std::int64_t parameters = 0;
};

// Parameters of the published checkpoints (Hugging Face T5ForConditionalGeneration; KerasNLP and others list
// the same): 220 M, 770 M, 2.8 B and 11 B of the paper.
TEST(T5, HasItsPublishedParameters) {
  for (const PublishedT5& t5 : {PublishedT5{"base", 222'903'552}, PublishedT5{"large", 737'668'096},
                                PublishedT5{"3b", 2'851'598'336}, PublishedT5{"11b", 11'307'321'344}}) {
    EXPECT_EQ(make_zoo_model("t5-" + t5.size).parameter_count(), t5.parameters) << t5.size;
  }
}

// Each weight once a token of its side, cross-attention's keys and values once a token of the encoder; two
// products of queries and keys or weights and values.
TEST(T5, HasTheMultiplyAddsOfItsWeights) {
  const OperatorGraph graph = make_zoo_model("t5-large:batch=2,sequence=256,target=64");
  const double square = 1024.0 * 1024, s = 256, t = 64, words = 32'128;
  const double encoder = 24 * (12 * square * s + 2 * 1024 * s * s);
  const double decoder = 24 * ((14 * t + 2 * s) * square + 2 * 1024 * (t * t + t * s));
  const double products = 2 * (encoder + decoder + 1024 * words * t);
  EXPECT_NEAR(multiply_adds(graph), products, 0.01 * products);
}

TEST(T5, SharesOneEmbedding) {
  const OperatorGraph graph = make_zoo_model("t5-base:layers=1");
  const TensorId table = operator_named(graph, "encoder.embedding").uses[1].tensor;
  EXPECT_EQ(operator_named(graph, "decoder.embedding").uses[1].tensor, table);
  EXPECT_EQ(operator_named(graph, "projection").uses[1].tensor, table);
}

TEST(T5, LayersOfASideShareTheBiasesOfScores) {
  const OperatorGraph graph = make_zoo_model("t5-base:layers=2,batch=2");
  const auto biases = [&](const std::string& layer) {
    return operator_named(graph, layer + ".self_attention").uses[3].tensor;
  };
  EXPECT_EQ(graph.tensor(biases("encoder.layer1")).shape, (std::vector<std::int64_t>{32, 12, 1}));
  EXPECT_EQ(biases("encoder.layer1"), biases("encoder.layer2"));
  EXPECT_EQ(biases("decoder.layer1"), biases("decoder.layer2"));
  EXPECT_NE(biases("encoder.layer1"), biases("decoder.layer1"));
  EXPECT_EQ(operator_named(graph, "decoder.layer1.cross_attention").kind, "attention");
}

TEST(T5, DecoderReadsTheEncodersResult) {
  const OperatorGraph graph = make_zoo_model("t5-3b:batch=2,sequence=6,target=4,layers=2");
  const Operator& cross = operator_named(graph, "decoder.layer2.cross_attention");
  EXPECT_EQ(graph.tensor(cross.uses[0].tensor).shape, (std::vector<std::int64_t>{2, 4, 32, 1, 128}));
  EXPECT_EQ(graph.tensor(cross.uses[1].tensor).shape, (std::vector<std::int64_t>{2, 6, 32, 128}));
  EXPECT_FALSE(cross.causal.has_value());
  EXPECT_TRUE(operator_named(graph, "decoder.layer2.self_attention").causal.has_value());
  EXPECT_FALSE(operator_named(graph, "encoder.layer2.self_attention").causal.has_value());
  const TensorId read = operator_named(graph, "decoder.layer2.cross_key").uses[0].tensor;
  EXPECT_EQ(graph.op(graph.tensor(read).producer).name, "encoder.dropout");
}

TEST(T5, LayersOfEachSideRepeat) {
  const auto counts = repeats(make_zoo_model("t5-base:layers=5"));
  EXPECT_EQ(counts.at("encoder.layer#.self_attention"), 5);
  EXPECT_EQ(counts.at("decoder.layer#.cross_attention"), 5);
  for (const auto& [label, count] : counts) EXPECT_EQ(count, 5) << label;
}

}  // namespace
}  // namespace pipesim
