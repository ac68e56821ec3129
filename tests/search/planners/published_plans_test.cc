#include <gmock/gmock.h>

#include <string>

#include "search/planners/pipedream.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::SizeIs;

struct ProfileRow {
  double forward_ms, backward_ms;
  std::int64_t output, parameters;
  std::vector<std::int32_t> inputs;
};

LayerGraph graph_of(const std::vector<ProfileRow>& rows) {
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (const ProfileRow& row : rows) {
    const auto number = static_cast<std::int32_t>(layers.size());
    for (const std::int32_t input : row.inputs) edges.emplace_back(input, number);
    layers.push_back({std::to_string(number), Seconds(row.forward_ms / 1e3), Seconds(row.backward_ms / 1e3),
                      Bytes(row.output), Bytes(row.parameters)});
  }
  return {std::move(layers), edges};
}

PipeDreamPlan plan(const std::vector<Cut>& cuts, const std::vector<MachineLevel>& levels) {
  PipeDreamOptions options;
  options.activation_compression = 1;
  return pipedream(cuts, levels, options).value();
}

// VGG-16 as PipeDream's authors measured it (github.com/msr-fiddle/pipedream,
// profiler/image_classification/profiles/vgg16/graph.txt); the answer is that of their optimizer.
TEST(PublishedPlans, Vgg16OnFourMachines) {
  const LayerGraph graph = graph_of({
      {22.307, 24.613, 1644167168, 7168, {}},
      {4.446, 5.553, 1644167168, 0, {0}},
      {46.201, 113.330, 1644167168, 147712, {1}},
      {4.455, 5.311, 1644167168, 0, {2}},
      {3.795, 5.579, 411041792, 0, {3}},
      {15.155, 39.648, 822083584, 295424, {4}},
      {2.359, 2.738, 822083584, 0, {5}},
      {22.062, 53.379, 822083584, 590336, {6}},
      {2.513, 2.620, 822083584, 0, {7}},
      {2.211, 2.788, 205520896, 0, {8}},
      {10.814, 18.335, 411041792, 1180672, {9}},
      {1.377, 1.380, 411041792, 0, {10}},
      {17.458, 27.023, 411041792, 2360320, {11}},
      {1.640, 1.463, 411041792, 0, {12}},
      {14.245, 33.888, 411041792, 2360320, {13}},
      {1.549, 1.321, 411041792, 0, {14}},
      {1.169, 1.513, 102760448, 0, {15}},
      {9.249, 14.574, 205520896, 4720640, {16}},
      {1.026, 0.696, 205520896, 0, {17}},
      {15.359, 21.900, 205520896, 9439232, {18}},
      {0.848, 0.679, 205520896, 0, {19}},
      {11.775, 28.670, 205520896, 9439232, {20}},
      {0.881, 0.642, 205520896, 0, {21}},
      {0.802, 0.781, 51380224, 0, {22}},
      {5.608, 7.381, 51380224, 9439232, {23}},
      {0.784, 0.266, 51380224, 0, {24}},
      {4.070, 7.396, 51380224, 9439232, {25}},
      {0.463, 0.190, 51380224, 0, {26}},
      {4.042, 8.648, 51380224, 9439232, {27}},
      {0.455, 0.175, 51380224, 0, {28}},
      {0.553, 0.234, 12845056, 0, {29}},
      {0, 0, 64, 0, {30}},
      {0, 0, 12845056, 0, {30, 31}},
      {2.475, 4.575, 2097152, 411058176, {32}},
      {0.377, 0.030, 2097152, 0, {33}},
      {0, 0, 2097152, 0, {34}},
      {0.709, 0.734, 2097152, 67125248, {35}},
      {0.277, 0.032, 2097152, 0, {36}},
      {0, 0, 2097152, 0, {37}},
      {0.393, 0.548, 512000, 16388000, {38}},
  });
  const std::vector<Cut> cuts = cuts_of(graph, 1'000).value();
  EXPECT_THAT(cuts, SizeIs(40));
  const PipeDreamPlan found = plan(cuts, {{4, BytesPerSecond(1e9)}});
  EXPECT_NEAR(found.period.value, 0.205520896, 1e-9);
  ASSERT_THAT(found.stages, SizeIs(2));
  EXPECT_THAT(found.stages[0].layers, SizeIs(17));
  EXPECT_EQ(found.stages[0].replicas(), 3);
  EXPECT_EQ(found.stages[1].replicas(), 1);
}

// GNMT, which is no chain and has three sources (the same repository, profiler/translation/profiles/gnmt).
TEST(PublishedPlans, GnmtOnFourMachines) {
  const LayerGraph graph = graph_of({
      {0.073, 6.949, 6291456, 132382720, {}},
      {5.247, 0.016, 12582912, 67174400, {0}},
      {0.077, 0.196, 12582912, 0, {1}},
      {3.190, 5.348, 6553600, 50364416, {2}},
      {0, 0, 6291456, 0, {3}},
      {0.064, 0.128, 6291456, 0, {4}},
      {2.491, 4.203, 6553600, 33587200, {5}},
      {0, 0, 6291456, 0, {6}},
      {0, 0, 6291456, 0, {4, 7}},
      {0.059, 0.121, 6291456, 0, {8}},
      {2.492, 4.201, 6553600, 33587200, {9}},
      {0, 0, 6291456, 0, {10}},
      {0, 0, 6291456, 0, {8, 11}},
      {0.066, 0.328, 6291456, 132382720, {}},
      {0, 0, 64, 0, {}},
      {0, 0, 64, 0, {14}},
      {4.546, 6.141, 12871680, 41979904, {12, 13, 15}},
      {0, 0, 6160384, 0, {16}},
      {0, 0, 131072, 0, {16}},
      {0.058, 0.176, 6160384, 0, {17}},
      {0, 0, 6160384, 0, {18, 19}},
      {0, 0, 64, 0, {14}},
      {3.151, 5.288, 6422528, 50364416, {20, 21}},
      {0, 0, 6160384, 0, {22}},
      {0.061, 0.174, 6160384, 0, {23}},
      {0, 0, 6160384, 0, {18, 24}},
      {0, 0, 64, 0, {14}},
      {3.145, 5.306, 6422528, 50364416, {25, 26}},
      {0, 0, 6160384, 0, {27}},
      {0, 0, 6160384, 0, {23, 28}},
      {0.055, 0.198, 6160384, 0, {29}},
      {0, 0, 6160384, 0, {18, 30}},
      {0, 0, 64, 0, {14}},
      {3.149, 15.883, 6422528, 50364416, {31, 32}},
      {0, 0, 6160384, 0, {33}},
      {0, 0, 6160384, 0, {29, 34}},
      {5.609, 1.227, 194437120, 132512000, {35}},
  });
  const std::vector<Cut> cuts = cuts_of(graph, 1'000).value();
  EXPECT_THAT(cuts, SizeIs(99));
  const PipeDreamPlan found = plan(cuts, {{4, BytesPerSecond(1.25e9)}});
  EXPECT_NEAR(found.period.value, 0.025868, 1e-9);
  EXPECT_THAT(found.stages, SizeIs(4));
  EXPECT_THAT(found.stages, Each(testing::Property(&PipelineStage::replicas, 1)));
}

}  // namespace
}  // namespace pipesim
