#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "models/zoo/zoo.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {
namespace {

// The number in "layer12.query", from 0; −1 for names of other operators.
std::int32_t number_of_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "layer";
  std::int32_t number = 0;
  if (!name.starts_with(kPrefix)) return -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return number - 1;
}

// Each letter is a layer, though layers of different kinds have no operator in common.
TEST(LayersOf, AreThoseOfLetters) {
  const std::string sizes = "hidden=64,heads=4,ffn=96,vocab=100,sequence=32,";
  for (const char* letters :
       {"layers=6,mixers=M-,ffns=-E,ssm_heads=4,ssm_head_width=16",
        "layers=8,mixers=M-M-F-M-,ffns=-D-E-D-E,ssm_heads=4,ssm_head_width=16", "layers=4,mixers=WF,window=8",
        "layers=4,mixers=SR3,index_heads=2,index_width=8,index_keys=8",
        "layers=4,vision_words=8,vision_layers=5,vision_hidden=32,vision_heads=2,vision_ffn=48"}) {
    const OperatorGraph graph = make_zoo_model("decoder:" + sizes + letters);
    const std::vector<std::int32_t> layers = layers_of(graph);
    for (std::size_t i = 0; i < layers.size(); ++i)
      EXPECT_EQ(layers[i], number_of_layer(graph.operators()[i].name)) << graph.operators()[i].name;
  }
}

}  // namespace
}  // namespace pipesim
