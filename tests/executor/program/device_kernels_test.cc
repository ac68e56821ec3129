#include "executor/program/device_kernels.h"

#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(DeviceKernels, RefuseProductsInAnotherType) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=4,layers=1,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=64,sequence=16,products=float8");
  int refused = 0;
  for (const Operator& op : graph.operators()) {
    const std::string message = refusal([&] { require_own_type(op); });
    EXPECT_EQ(message == "accepted", !op.casts.has_value()) << op.name;
    refused += message == "accepted" ? 0 : 1;
    if (op.name == "layer1.down") {
      EXPECT_EQ(message,
                "operator \"layer1.down\" (linear) multiplies in float8, for which there is no kernel; "
                "products=own in the model keeps the operands' type");
    }
  }
  EXPECT_EQ(refused, 7);
}

TEST(DeviceKernels, RefuseWeightsThatDoNotLieInTheirType) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=4,layers=1,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=64,sequence=16,lora=4,base=4bit");
  int refused = 0;
  for (const Operator& op : graph.operators()) {
    const std::string message = refusal([&] { require_own_type(op); });
    refused += message == "accepted" ? 0 : 1;
    if (op.name == "layer1.down") {
      EXPECT_EQ(
          message,
          "operator \"layer1.down\" (linear) has weights in 4bit, for which there is no kernel; base=own "
          "in the model keeps them in their type");
    }
  }
  EXPECT_EQ(refused, 7);
}

}  // namespace
}  // namespace pipesim
