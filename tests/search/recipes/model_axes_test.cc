#include "search/recipes/model_axes.h"

#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Roles {
 public:
  explicit Roles(const std::string& model) : graph_(make_zoo_model(model)), axes_(graph_) {}
  // The names of an operator's factors with this role.
  [[nodiscard]] std::vector<std::string> of(const std::string& name, AxisRole role) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
      if (graph_.operators()[i].name != name) continue;
      for (const FactorIndex f : axes_.factors(OperatorId(i), role))
        names.push_back(graph_.operators()[i].factors[static_cast<std::size_t>(f)].name);
    }
    return names;
  }

 private:
  OperatorGraph graph_;
  ModelAxes axes_;
};

TEST(ModelAxes, OfAGpt) {
  const Roles gpt("gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8");
  EXPECT_THAT(gpt.of("layer1.query", AxisRole::Heads), ElementsAre("o", "o2"));
  EXPECT_THAT(gpt.of("layer1.attention", AxisRole::Heads), ElementsAre("g", "r"));
  EXPECT_THAT(gpt.of("layer1.attention", AxisRole::Sequence), ElementsAre("s"));
  EXPECT_THAT(gpt.of("layer1.output", AxisRole::Heads), ElementsAre("i", "i2"));
  EXPECT_THAT(gpt.of("layer1.ffn1", AxisRole::Features), ElementsAre("o"));
  EXPECT_THAT(gpt.of("layer1.ffn2", AxisRole::Features), ElementsAre("i"));
  EXPECT_THAT(gpt.of("layer1.attention_norm", AxisRole::Features), IsEmpty());
  EXPECT_THAT(gpt.of("layer1.attention_add", AxisRole::Features), IsEmpty());
  EXPECT_THAT(gpt.of("word_embedding", AxisRole::Vocabulary), ElementsAre("v"));
  EXPECT_THAT(gpt.of("position_embedding", AxisRole::Vocabulary), IsEmpty());
  EXPECT_THAT(gpt.of("projection", AxisRole::Vocabulary), ElementsAre("o"));
  EXPECT_THAT(gpt.of("loss", AxisRole::Vocabulary), ElementsAre("v"));
  EXPECT_THAT(gpt.of("loss", AxisRole::Sequence), ElementsAre("s"));
}

TEST(ModelAxes, OfAGatedFeedForwardPart) {
  const Roles llama("llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24");
  for (const char* op : {"layer1.gate", "layer1.up"})
    EXPECT_THAT(llama.of(op, AxisRole::Features), ElementsAre("o")) << op;
  EXPECT_THAT(llama.of("layer1.down", AxisRole::Features), ElementsAre("i"));
  EXPECT_THAT(llama.of("layer1.key", AxisRole::Heads), ElementsAre("o"));
  EXPECT_THAT(llama.of("layer1.query", AxisRole::Heads), ElementsAre("o", "o2"));
}

TEST(ModelAxes, OfExperts) {
  const Roles model("mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24");
  EXPECT_THAT(model.of("layer1.gate", AxisRole::Experts), ElementsAre("e"));
  EXPECT_THAT(model.of("layer1.combine", AxisRole::Experts), ElementsAre("e"));
  EXPECT_THAT(model.of("layer1.gate", AxisRole::Features), ElementsAre("f"));
  EXPECT_THAT(model.of("layer1.down", AxisRole::Features), testing::SizeIs(1));
  EXPECT_THAT(model.of("layer1.router", AxisRole::Features), IsEmpty());
}

TEST(ModelAxes, OfGroupsOfTokens) {
  const Roles model(
      "mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,token_groups=4");
  for (const char* op : {"layer1.dispatch", "layer1.gate", "layer1.down", "layer1.combine"}) {
    EXPECT_THAT(model.of(op, AxisRole::TokenGroups), ElementsAre("m")) << op;
    EXPECT_THAT(model.of(op, AxisRole::Experts), ElementsAre("e")) << op;
    EXPECT_THAT(model.of(op, AxisRole::Sequence), IsEmpty()) << op;
  }
  EXPECT_THAT(model.of("layer1.gated", AxisRole::TokenGroups), testing::SizeIs(1));
  EXPECT_THAT(model.of("layer1.query", AxisRole::TokenGroups), IsEmpty());
  EXPECT_THAT(model.of("layer1.ffn_add", AxisRole::Sequence), ElementsAre("s"));
}

TEST(ModelAxes, OfAnImageNetworkAreSamples) {
  const OperatorGraph graph = make_zoo_model("resnet50:batch=8");
  const ModelAxes axes(graph);
  EXPECT_TRUE(axes.has(AxisRole::Samples));
  EXPECT_FALSE(axes.has(AxisRole::Sequence));
  EXPECT_FALSE(axes.has(AxisRole::Heads));
}

}  // namespace
}  // namespace pipesim
