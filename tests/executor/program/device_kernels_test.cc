#include "executor/program/device_kernels.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(DeviceKernels, RefuseTensorsThatAreSentOrKeptInAnotherWay) {
  const std::string model =
      "mixtral-8x7b:batch=4,layers=1,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=64,sequence=16,experts=4,"
      "top_k=2";
  const auto first = [&](const char* more) -> std::string {
    const OperatorGraph graph = make_zoo_model(model + more);
    for (const Operator& op : graph.operators()) {
      std::string message = refusal([&] { require_own_type(op); });
      if (message != "accepted") return message;
    }
    return "accepted";
  };
  EXPECT_EQ(first(""), "accepted");
  EXPECT_EQ(first(",dispatch=float8"),
            "operator \"layer1.dispatch\" (moe_dispatch) sends tokens in float8, which devices here do not; "
            "dispatch=own and token_nodes=0 in the model send each to its experts in its own type");
  EXPECT_EQ(
      first(",token_nodes=2"),
      "operator \"layer1.dispatch\" (moe_dispatch) sends tokens to each node once, which devices here do "
      "not; dispatch=own and token_nodes=0 in the model send each to its experts in its own type");
  EXPECT_EQ(first(",swiglu=fused,swiglu_inputs=float8"),
            "operator \"layer1.gated\" (swiglu) keeps its inputs in float8, for which there is no kernel; "
            "swiglu_inputs=own in the model keeps them as they are");
}

}  // namespace
}  // namespace pipesim
