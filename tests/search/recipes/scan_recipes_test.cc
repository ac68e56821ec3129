#include <gmock/gmock.h>

#include <algorithm>

#include "search/recipes/expand_recipe.h"
#include "tests/refusal.h"
#include "tests/search/recipes/scanning_layers.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

/// How operators are split.
class Splits {
 public:
  Splits(const OperatorGraph& graph, const Strategy& strategy) : graph_(graph), strategy_(strategy) {}
  [[nodiscard]] std::string of(const std::string& name) const {
    const std::size_t op = find(name);
    return strategy_[op].str(graph_.operators()[op]);
  }
  [[nodiscard]] std::vector<std::int32_t> devices(const std::string& name) const {
    std::vector<std::int32_t> list;
    for (const DeviceId device : strategy_[find(name)].devices) list.push_back(device.value);
    return list;
  }

 private:
  [[nodiscard]] std::size_t find(const std::string& name) const {
    const auto found = std::ranges::find(graph_.operators(), name, &Operator::name);
    return static_cast<std::size_t>(found - graph_.operators().begin());
  }

  const OperatorGraph& graph_;
  Strategy strategy_;
};

Splits splits_of(const OperatorGraph& graph, const std::string& recipe, const std::string& topology) {
  return {graph, expand_recipe(parse_recipe(recipe), RecipeModel(graph), make_topology(topology)).strategy};
}

TEST(ScanRecipes, DivideHeadsAsThoseOfAttention) {
  const OperatorGraph graph = scanning_layers(2);
  const Splits at = splits_of(graph, "tp4,dp1,mbs2", "p100-4x4:1");
  for (const char* op : {"scan", "delta", "attention"})
    EXPECT_EQ(at.of("layer1." + std::string(op)), "g/2 r/2 on 4 devices from 0") << op;
  for (const char* op : {"scan_x", "delta_v", "query"})
    EXPECT_EQ(at.of("layer1." + std::string(op)), "o/2 o2/2 on 4 devices from 0") << op;
  for (const char* op : {"scan_b", "delta_k", "key"})
    EXPECT_EQ(at.of("layer1." + std::string(op)), "o/2 x2 copies on 4 devices from 0") << op;
  for (const char* op : {"select", "select_q"})
    EXPECT_EQ(at.of("layer1." + std::string(op)), "x4 copies on 4 devices from 0") << op;
}

// A scan needs all positions, so devices along cp exchange parts of its heads for them.
TEST(ScanRecipes, ExchangeHeadsForTheSequence) {
  const OperatorGraph graph = scanning_layers(2);
  const Splits at = splits_of(graph, "tp2,cp2,dp1,mbs2", "p100-4x4:1");
  for (const std::string op : {"layer1.scan", "layer1.delta"}) {
    EXPECT_EQ(at.of(op), "g/2 r/2 on 4 devices from 0") << op;
    EXPECT_THAT(at.devices(op), testing::ElementsAre(0, 2, 1, 3)) << op;
  }
  EXPECT_EQ(at.of("layer1.scan_x"), "s/2 o/2 on 4 devices from 0");
  EXPECT_EQ(at.of("layer1.attention"), "s/2 g/2 on 4 devices from 0");
}

TEST(ScanRecipes, NeedHeadsForEachDevice) {
  const OperatorGraph graph = scanning_layers(2);
  EXPECT_THAT(refusal<InputError>([&] { splits_of(graph, "cp8,tp2,dp1,mbs2", "p100-4x4:4"); }),
              testing::HasSubstr("tp2 x cp8 does not divide the 8 heads of \"layer1.scan\""));
  EXPECT_THAT(refusal<InputError>([&] { splits_of(graph, "cp2,ring,dp1,mbs2", "levels:2@10GB/s"); }),
              testing::HasSubstr("\"layer1.attention\" (selected_attention) is not such"));
}

TEST(ScanRecipes, FindHeadsAndNoFeatures) {
  const OperatorGraph graph = scanning_layers(2);
  EXPECT_TRUE(RecipeModel(graph).axes().has(AxisRole::Heads));
  EXPECT_FALSE(RecipeModel(graph).axes().has(AxisRole::Features)) << "states and widths of heads are none";
}

}  // namespace
}  // namespace pipesim
