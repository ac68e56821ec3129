#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

/// Section 2 of the paper, at the sizes of its XLNet-Large but for the layers. Of a layer: five square
/// projections, three biases of queries and two segments, the feed-forward part, two norms; and the words.
std::int64_t xlnet_parameters(std::int64_t layers) {
  const std::int64_t h = 1024, ffn = 4096, words = 32'000;
  const std::int64_t layer = 5 * h * h + 3 * h + 2 * h + (2 * h * ffn + ffn + h) + 2 * 2 * h;
  return layers * layer + words * h + words;
}

TEST(XlNet, HasItsParameters) {
  EXPECT_EQ(make_zoo_model("xlnet36").parameter_count(), xlnet_parameters(36));
  // Fan et al. (DAPPLE), PPoPP 2021, table 1: 500 M.
  EXPECT_NEAR(static_cast<double>(xlnet_parameters(36)), 500e6, 0.05 * 500e6);
  EXPECT_EQ(make_zoo_model("xlnet36:layers=24").parameter_count(), xlnet_parameters(24));
}

// Per layer and token: seven square products, as there are twice as many distances as tokens, and the
// feed-forward part's eight; of pairs of tokens, four: content, twice the distances, values.
TEST(XlNet, HasTheMultiplyAddsOfItsProducts) {
  const OperatorGraph graph = make_zoo_model("xlnet36:batch=2,sequence=256");
  const double h = 1024, s = 256, words = 32'000;
  const double layer = (4 + 2 + 8) * h * h * s + 4 * h * s * s;
  const double products = 2 * (36 * layer + h * words * s);
  EXPECT_NEAR(multiply_adds(graph), products, 0.01 * products);
}

TEST(XlNet, ScoresAddUpContentDistanceAndSegment) {
  const OperatorGraph graph =
      make_zoo_model("xlnet36:batch=2,sequence=6,layers=1,hidden=16,heads=4,vocab=50");
  const auto shape = [&](const std::string& name) {
    return graph.tensor(operator_named(graph, "layer1." + name).uses.back().tensor).shape;
  };
  const std::vector<std::int64_t> scores = {2, 4, 6, 6};
  EXPECT_EQ(shape("content"), scores);
  EXPECT_EQ(shape("distance_products"), (std::vector<std::int64_t>{2, 4, 6, 12}));
  EXPECT_EQ(shape("segment_scores"), scores);
  EXPECT_EQ(shape("segment_add"), scores);
}

TEST(XlNet, LayersRepeat) {
  for (const auto& [label, count] : repeats(make_zoo_model("xlnet36:layers=5"))) EXPECT_EQ(count, 5) << label;
}

}  // namespace
}  // namespace pipesim
