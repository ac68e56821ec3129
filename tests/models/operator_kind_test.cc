#include "models/operator_kind.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/model_json.h"
#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(OperatorKinds, AreSortedDescribedAndDistinct) {
  std::string last;
  for (const OperatorKind& kind : operator_kinds()) {
    EXPECT_LT(last, kind.name);
    EXPECT_FALSE(kind.help.empty()) << kind.name;
    EXPECT_FALSE(kind.inputs.empty()) << kind.name;
    EXPECT_LE(kind.least_inputs, kind.most_inputs) << kind.name;
    last = kind.name;
  }
}

TEST(OperatorKinds, HaveAttributesThatAcceptTheirDefaults) {
  for (const OperatorKind& kind : operator_kinds()) {
    Attributes given;
    for (const AttributeSchema& schema : kind.attributes) {
      EXPECT_FALSE(schema.help.empty()) << kind.name << " " << schema.name;
      given[schema.name] = schema.fallback.value_or(schema.is_text() ? AttributeValue("text")
                                                                     : AttributeValue(std::int64_t{1}));
    }
    EXPECT_EQ(complete_attributes(kind, given).size(), kind.attributes.size()) << kind.name;
  }
}

TEST(OperatorKinds, HaveExamplesWithSamples) {
  for (const OperatorKind& kind : operator_kinds()) {
    const OperatorGraph graph = example_graph(kind, "it");
    ASSERT_EQ(graph.operators().size(), 1U) << kind.name;
    const Operator& op = graph.operators()[0];
    EXPECT_EQ(op.kind, kind.name);
    if (kind.most_inputs > 0) {
      EXPECT_EQ(op.factors[0].kind, FactorKind::Sample) << kind.name;
      EXPECT_EQ(op.factors[0].size, 64) << kind.name;
    }
    EXPECT_EQ(parse_model(to_json(graph), "example.json"), graph) << kind.name;
    for (const auto& [name, value] : kind.example.attributes)
      EXPECT_NE(kind.find_attribute(name), nullptr) << kind.name << " " << name;
  }
}

TEST(OperatorKinds, RefuseUnknownNames) {
  try {
    operator_kind("conv");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(),
              fmt::format("unknown operator kind \"conv\" (did you mean \"conv1d\"?), allowed: one of the {} "
                          "that `pipesim models --kinds` lists",
                          operator_kinds().size()));
  }
}

TEST(Attributes, AreConvertedToTheSchema) {
  const Attributes complete = complete_attributes(operator_kind("dropout"), {{"rate", 0}});
  EXPECT_EQ(complete.at("rate"), AttributeValue(0.0));
  EXPECT_EQ(complete_attributes(operator_kind("linear"), {{"out", 3}}).at("out"),
            AttributeValue(std::vector<std::int64_t>{3}));
}

TEST(Attributes, PrintAsInAFile) {
  EXPECT_EQ(to_text(AttributeValue(std::int64_t{3})), "3");
  EXPECT_EQ(to_text(AttributeValue(0.5)), "0.5");
  EXPECT_EQ(to_text(AttributeValue("relu")), "\"relu\"");
  EXPECT_EQ(to_text(AttributeValue(std::vector<std::int64_t>{3, 4})), "[3, 4]");
}

}  // namespace
}  // namespace pipesim
