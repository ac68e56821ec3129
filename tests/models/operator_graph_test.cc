#include "models/operator_graph.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// x → fc1 → (act, fc2) → sum → loss; logits2 hangs off fc1 and no loss depends on it.
struct Classifier {
  GraphBuilder builder{"classifier", 8};
  TensorId x = builder.data("x", {8, 10}), labels = builder.data("labels", {8}, DataType::Int64);
  TensorId scaled = builder.add("tanh", "scaled", {x});
  TensorId fc1 = builder.add("linear", "fc1", {scaled}, {{"out", 6}});
  TensorId act = builder.add("relu", "act", {fc1});
  TensorId sum = builder.add("add", "sum", {act, fc1});
  TensorId aside = builder.add("gelu", "aside", {fc1});
  TensorId loss = builder.add("cross_entropy", "loss", {sum, labels});
  OperatorGraph graph = builder.build();
};

TEST(OperatorGraph, ListsConsumersInOrder) {
  const Classifier c;
  EXPECT_THAT(c.graph.consumers(c.fc1),
              ElementsAre(UseRef{OperatorId(2), 0}, UseRef{OperatorId(3), 1}, UseRef{OperatorId(4), 0}));
  EXPECT_THAT(c.graph.consumers(c.loss), IsEmpty());
  EXPECT_THAT(c.graph.consumers(c.labels), ElementsAre(UseRef{OperatorId(5), 1}));
}

TEST(OperatorGraph, KnowsWhereGradientsAreWanted) {
  const Classifier c;
  EXPECT_FALSE(c.graph.wants_gradient(c.x));
  EXPECT_FALSE(c.graph.wants_gradient(c.scaled));
  EXPECT_TRUE(c.graph.wants_gradient(c.builder.find("fc1.w")));
  EXPECT_TRUE(c.graph.wants_gradient(c.fc1));
  EXPECT_TRUE(c.graph.wants_gradient(c.loss));
  EXPECT_FALSE(c.graph.wants_gradient(c.labels));
}

TEST(OperatorGraph, KnowsWhereGradientsCome) {
  const Classifier c;
  EXPECT_TRUE(c.graph.gets_gradient(c.fc1));
  EXPECT_TRUE(c.graph.gets_gradient(c.scaled));
  EXPECT_TRUE(c.graph.gets_gradient(c.builder.find("fc1.b")));
  EXPECT_FALSE(c.graph.gets_gradient(c.aside));
  EXPECT_FALSE(c.graph.gets_gradient(c.labels));
}

TEST(OperatorGraph, WithoutALossEveryResultGetsAGradient) {
  GraphBuilder builder("m", 8);
  const TensorId y = builder.add("relu", "y", {builder.data("x", {8, 3})});
  const TensorId a = builder.add("tanh", "a", {y}), b = builder.add("gelu", "b", {y});
  const OperatorGraph graph = builder.build();
  EXPECT_TRUE(graph.gets_gradient(a));
  EXPECT_TRUE(graph.gets_gradient(b));
}

TEST(OperatorGraph, CountsParametersAndFlops) {
  const Classifier c;
  EXPECT_EQ(c.graph.parameter_count(), 10 * 6 + 6);
  const double tanh = 5 * 80, fc1 = 2 * 8 * 10 * 6 + 48, act = 48, sum = 48, aside = 8 * 48, loss = 4 * 48;
  EXPECT_EQ(c.graph.forward_flops().value, tanh + fc1 + act + sum + aside + loss);
  EXPECT_EQ(c.graph.tensor(c.x).elements(), 80);
  EXPECT_EQ(c.graph.tensor(c.x).bytes(), Bytes(320));
}

TEST(OperatorGraph, HasAFingerprintOfWhatPlansDependOn) {
  const auto print = [](const std::string& model, std::int64_t batch, std::int64_t out,
                        const std::string& name) {
    GraphBuilder builder(model, batch);
    builder.add("linear", name, {builder.data("x", {batch, 10})}, {{"out", out}});
    return builder.build().fingerprint();
  };
  const std::string same = print("m", 8, 6, "fc");
  EXPECT_EQ(same.size(), 16);
  EXPECT_EQ(print("other name", 8, 6, "fc"), same);
  EXPECT_NE(print("m", 16, 6, "fc"), same);
  EXPECT_NE(print("m", 8, 7, "fc"), same);
  EXPECT_NE(print("m", 8, 6, "fd"), same);
}

TEST(OperatorGraph, RefusesOperatorsOutOfOrder) {
  const Classifier c;
  std::vector<Tensor> tensors(c.graph.tensors().begin(), c.graph.tensors().end());
  std::vector<Operator> operators(c.graph.operators().begin(), c.graph.operators().end());
  std::swap(operators[0], operators[1]);
  EXPECT_THROW(OperatorGraph("m", 8, tensors, operators), InternalError);
}

TEST(OperatorGraph, RefusesUsesOfOtherShapes) {
  const Classifier c;
  std::vector<Tensor> tensors(c.graph.tensors().begin(), c.graph.tensors().end());
  std::vector<Operator> operators(c.graph.operators().begin(), c.graph.operators().end());
  tensors[c.x.index()].shape = {8, 11};
  try {
    OperatorGraph("m", 8, tensors, operators);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "operator \"scaled\" does not fit the shape of tensor \"x\" (this is a bug in pipesim, "
                 "please report it)");
  }
}

TEST(OperatorGraph, RefusesRepeatedNames) {
  const Classifier c;
  std::vector<Tensor> tensors(c.graph.tensors().begin(), c.graph.tensors().end());
  std::vector<Operator> operators(c.graph.operators().begin(), c.graph.operators().end());
  operators[1].name = operators[0].name;
  try {
    OperatorGraph("m", 8, tensors, operators);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "two operators are named \"scaled\"");
  }
}

}  // namespace
}  // namespace pipesim
