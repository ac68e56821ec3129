#include "taskgraph/plan/imbalance.h"

#include <gtest/gtest.h>

#include <string>

#include "models/operators/expert_parts.h"
#include "models/zoo/zoo.h"
#include "taskgraph/plan/plan_json.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kExperts =
    "mixtral-8x7b:batch=8,layers=1,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=64,ffn=64";

TEST(Imbalance, IsReadAndWritten) {
  for (const char* text : {"1", "1.2", "1.5,1.2,1,0.3", "0,1"}) {
    EXPECT_EQ(parse_imbalance(text).str(), text);
    EXPECT_EQ(parse_imbalance(text).any(), text != std::string("1"));
  }
}

TEST(Imbalance, RefusesWhatIsNoLoad) {
  const auto message = [](const char* text) { return refusal([&] { (void)parse_imbalance(text); }); };
  EXPECT_EQ(message("0.5"), "imbalance \"0.5\", allowed: 1 or more, in shares of the mean load");
  EXPECT_EQ(message("0,0"), "imbalance \"0,0\", allowed: loads that are not all 0");
  for (const char* text : {"", "x", "1.2,", "1,-1", "nan", "inf", "1.2 "})
    EXPECT_EQ(message(text), "imbalance \"" + std::string(text) +
                                 "\", allowed: the load of the fullest expert, such as 1.2, or of each, such "
                                 "as 1.5,1.2,1,0.3");
}

TEST(Imbalance, SuitsOnlyModelsWithSuchExperts) {
  const OperatorGraph graph = make_zoo_model(kExperts), dense = make_zoo_model("lenet");
  const auto reason = [](const OperatorGraph& of, const char* text) {
    return illegal(of, parse_imbalance(text)).value_or("");
  };
  for (const char* text : {"1", "4", "1.5,1.2,1,0.3", "4,0,0,0", "1,1,1,1,1,1,1,3"})
    EXPECT_EQ(reason(graph, text), "") << text;
  EXPECT_EQ(reason(dense, "1"), "");
  EXPECT_EQ(reason(dense, "1.2"), "model \"lenet\" has no experts");
  EXPECT_EQ(reason(graph, "1,2,3"),
            "3 loads for the 8 experts of \"layer1.dispatch\", allowed: a number that divides them");
  EXPECT_EQ(reason(graph, "9"),
            "the fullest expert would get 9 times the mean, allowed: up to 4 (each token goes to 2 of the 8 "
            "experts of \"layer1.dispatch\")");
  EXPECT_NE(reason(graph, "1,0,0,0,0,0,0,0"), "");
}

// The loads of equal parts, one of them with the fullest expert: those of the list that the number stands
// for.
TEST(Imbalance, OfTheFullestExpertIsThatOfAListWithEvenOthers) {
  for_each_seed(50, [](Rng& rng) {
    const auto experts = static_cast<std::int64_t>(2 + rng.below(15));
    const double fullest = 1 + static_cast<double>(rng.below(100)) / 100 * (static_cast<double>(experts) - 1);
    Imbalance list;
    list.loads.assign(static_cast<std::size_t>(experts),
                      (static_cast<double>(experts) - fullest) / (static_cast<double>(experts) - 1));
    list.loads.front() = fullest;
    for (std::int64_t n = 1; n <= experts; ++n) {
      EXPECT_NEAR(load_of({{fullest}}, 0, n, experts), load_of(list, 0, n, experts), 1e-12);
      EXPECT_GE(load_of({{fullest}}, 0, n, experts), 1 - 1e-12);
    }
    EXPECT_EQ(load_of({{fullest}}, 0, experts, experts), 1);
  });
  EXPECT_DOUBLE_EQ(load_of({{1.5, 1.2, 1, 0.3}}, 0, 2, 8), 1.35);
  EXPECT_DOUBLE_EQ(load_of({{1.5, 1.2, 1, 0.3}}, 6, 8, 8), 0.65);
  EXPECT_DOUBLE_EQ(load_of({{3, 1}}, 4, 5, 8), 1.5);
}

TEST(ExpertParts, ReachFromTheDispatchToTheCombination) {
  const OperatorGraph graph = make_zoo_model(kExperts);
  const ExpertParts parts = find_expert_parts(graph);
  std::string found;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const auto [experts, slots] = parts.operators[i];
    const Operator& op = graph.operators()[i];
    if (experts < 0) continue;
    EXPECT_EQ(op.factors[static_cast<std::size_t>(experts)].size, 8);
    found += op.name + (slots < 0 ? " " : "/slots ");
  }
  EXPECT_EQ(found,
            "layer1.dispatch layer1.gate/slots layer1.up/slots layer1.gated/slots layer1.down/slots "
            "layer1.combine ");
  int tensors = 0;
  for (const std::int32_t d : parts.dimension) {
    EXPECT_TRUE(d == -1 || d == 1);
    tensors += d >= 0 ? 1 : 0;
  }
  EXPECT_EQ(tensors, 5);
}

// Experts with room for more than a balanced load, or for less, fill up and drop the rest.
TEST(ExpertParts, LeaveOutExpertsThatDropTokens) {
  for (const char* factor : {"1.3", "0.5"}) {
    const OperatorGraph graph = make_zoo_model(std::string(kExperts) + ",capacity_factor=" + factor);
    EXPECT_TRUE(find_expert_parts(graph).dispatches.empty());
    for (const std::int32_t d : find_expert_parts(graph).dimension) EXPECT_EQ(d, -1);
  }
  const OperatorGraph groups = make_zoo_model(std::string(kExperts) + ",token_groups=2");
  EXPECT_EQ(find_expert_parts(groups).dispatches.size(), 1);
}

}  // namespace
}  // namespace pipesim
