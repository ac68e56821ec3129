#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

std::int64_t trained(const std::string& model) {
  const OperatorGraph graph = make_zoo_model(model);
  return graph.parameter_count() - graph.frozen_parameter_count();
}

// What PEFT prints for Llama 3 8B with all linear layers of rank 16, and with its default targets, queries
// and values: a pair has rank · (in + out) weights.
TEST(Adapters, AreAsManyAsTheirRankSays) {
  EXPECT_EQ(trained("llama3-8b:batch=1,lora=16"), 41'943'040);
  EXPECT_EQ(trained("llama3-8b:batch=1,lora=16,lora_targets=query+value"), 6'815'744);
  EXPECT_EQ(trained("llama3-8b:batch=1,lora=16,lora_targets=attention"),
            32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024)));
  EXPECT_EQ(trained("llama3-8b:batch=1,lora=16,lora_targets=feed-forward"), 32 * 16 * 3 * (4096 + 14336));
  EXPECT_EQ(make_zoo_model("llama3-8b:batch=1,lora=16").frozen_parameter_count(),
            make_zoo_model("llama3-8b:batch=1").parameter_count());
}

// Experts and their router have none, an expert that all tokens share does.
TEST(Adapters, AreOfEveryTransformer) {
  const std::int64_t h = 32, heads = 32;  // heads: of all of them together
  const std::string narrow = ":batch=4,layers=2,hidden=32,heads=8,sequence=8,vocab=48,lora=4";
  const std::int64_t attention = 4 * (4 * (h + heads));
  EXPECT_EQ(trained("gpt" + narrow + ",ffn=64"), 2 * (attention + 2 * 4 * (h + 64)));
  EXPECT_EQ(trained("bert-base" + narrow + ",ffn=64,objective=both"), 2 * (attention + 2 * 4 * (h + 64)));
  EXPECT_EQ(trained("bloom-176b" + narrow + ",ffn=64"), 2 * (attention + 2 * 4 * (h + 64)));
  EXPECT_EQ(trained("xlnet36" + narrow + ",ffn=64"), 2 * (attention + 4 * (h + heads) + 2 * 4 * (h + 64)));
  EXPECT_EQ(trained("t5-base" + narrow + ",ffn=64,head_width=4,target=8"),
            2 * (attention + 2 * 4 * (h + 64)) + 2 * (2 * attention + 2 * 4 * (h + 64)));
  EXPECT_EQ(trained("mixtral-8x7b" + narrow + ",ffn=64,kv_heads=8"), 2 * attention);
  EXPECT_EQ(trained("mixtral-8x7b" + narrow + ",ffn=64,kv_heads=8,shared_ffn=16"),
            2 * (attention + 3 * 4 * (h + 16)));
  EXPECT_EQ(
      trained("deepseek-v3" + narrow +
              ",head_width=4,rotary_width=2,value_width=4,query_latent=16,key_latent=8,ffn=64,"
              "expert_ffn=8,dense_layers=1,experts=16,router_groups=1,router_top_groups=1"),
      4 * (2 * ((h + 16) + (h + 8) + (16 + 16) + (16 + heads) + (h + 2) + 2 * (8 + heads) + (heads + h)) +
           3 * (h + 64) + 3 * (h + 8)));
}

// The sum is y = x·w + (x·a)·b, and an activation comes behind it.
TEST(Adapters, StandBesideFrozenProducts) {
  const OperatorGraph graph = make_zoo_model("llama3-8b:batch=1,layers=1,lora=16");
  const Operator& a = operator_named(graph, "layer1.gate_lora_a");
  const Operator& b = operator_named(graph, "layer1.gate_lora_b");
  const Operator& w = operator_named(graph, "layer1.gate");
  EXPECT_EQ(a.uses[0].tensor, w.uses[0].tensor);
  EXPECT_EQ(b.uses[0].tensor, a.uses.back().tensor);
  EXPECT_TRUE(graph.tensor(w.uses[1].tensor).frozen);
  EXPECT_FALSE(graph.tensor(a.uses[1].tensor).frozen || graph.tensor(b.uses[1].tensor).frozen);
  EXPECT_FALSE(w.uses[0].saved);
  const Operator& sum = operator_named(graph, "layer1.gate_lora_add");
  EXPECT_EQ(operator_named(graph, "layer1.gate_silu").uses[0].tensor, sum.uses.back().tensor);
  EXPECT_EQ(a.factors[static_cast<std::size_t>(a.factor("o"))].max_degree, 1);
  EXPECT_EQ(operator_named(graph, "layer1.output_lora_a").factors[2].name, "i");
}

// PEFT and litgpt drop elements of what each adapter reads, each by itself.
TEST(Adapters, DropOutWhatTheyRead) {
  const OperatorGraph graph =
      make_zoo_model("llama3-8b:batch=1,layers=1,lora=16,lora_dropout=0.05,kept=torch");
  for (const std::string name : {"layer1.gate", "layer1.up", "layer1.output"}) {
    const Operator& dropout = operator_named(graph, name + "_lora_dropout");
    EXPECT_EQ(dropout.uses[0].tensor, operator_named(graph, name).uses[0].tensor);
    EXPECT_EQ(operator_named(graph, name + "_lora_a").uses[0].tensor, dropout.uses.back().tensor);
    EXPECT_EQ(std::get<double>(dropout.attributes.at("rate")), 0.05);
    EXPECT_FALSE(dropout.saved_extra_bytes.empty()) << "its mask";
  }
  EXPECT_EQ(trained("llama3-8b:batch=1,lora=16,lora_dropout=0.05"), trained("llama3-8b:batch=1,lora=16"));
}

// Nothing below the first adapter has a gradient.
TEST(Adapters, NeedNoGradientOfTheEmbedding) {
  const OperatorGraph graph = make_zoo_model("llama3-8b:batch=1,layers=2,lora=16");
  const auto wants = [&](const std::string& name) {
    return graph.wants_gradient(operator_named(graph, name).uses.back().tensor);
  };
  EXPECT_FALSE(wants("word_embedding"));
  EXPECT_FALSE(wants("layer1.attention_norm"));
  EXPECT_FALSE(wants("layer1.query"));
  EXPECT_TRUE(wants("layer1.query_lora_a"));
  EXPECT_TRUE(wants("layer2.attention_norm"));
}

// 4 bits, an 8-bit scale of 64 weights, a 32-bit one of 256 such scales: 4.127 bits (QLoRA, section 3). The
// embedding and the head stay in bfloat16. bitsandbytes' Llama 3 8B takes 5.7 GB.
TEST(Adapters, LieBesideWeightsInFewBits) {
  const auto bytes = [](const std::string& options) {
    const OperatorGraph graph = make_zoo_model("llama3-8b:batch=1,lora=16" + options);
    Bytes frozen;
    for (const Tensor& t : graph.tensors()) {
      if (t.frozen) frozen += t.bytes();
    }
    return static_cast<double>(frozen.value);
  };
  const double layers = 32.0 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336);
  const double others = 2.0 * (2.0 * 128256 * 4096 + 65 * 4096);
  EXPECT_DOUBLE_EQ(bytes(""), 2 * layers + others);
  EXPECT_DOUBLE_EQ(bytes(",base=8bit"), layers + others);
  EXPECT_DOUBLE_EQ(bytes(",base=4bit"), layers * (4 + 8 / 64.0 + 32 / (64.0 * 256)) / 8 + others);
  EXPECT_NEAR(bytes(",base=4bit"), 5.7e9, 0.05e9);
  const OperatorGraph mixtral = make_zoo_model("mixtral-8x7b:batch=1,layers=1,lora=16,base=4bit");
  EXPECT_EQ(mixtral.tensor(operator_named(mixtral, "layer1.gate").uses[1].tensor).storage,
            WeightStorage::FourBits);
  EXPECT_EQ(mixtral.tensor(operator_named(mixtral, "layer1.router").uses[1].tensor).storage,
            WeightStorage::Own);
}

TEST(Adapters, RoundTripAsAModelFile) {
  for (const char* storage : {"own", "8bit", "4bit"}) {
    const OperatorGraph graph =
        make_zoo_model(std::string("mixtral-8x7b:batch=1,layers=1,shared_ffn=64,lora=8,base=") + storage);
    EXPECT_EQ(parse_model(to_json(graph), "m.json"), graph) << storage;
  }
}

TEST(Adapters, AreRefusedWhereTheyMeanNothing) {
  const auto refused = [](const std::string& model) {
    return refusal([&] { return make_zoo_model(model); });
  };
  EXPECT_EQ(refused("llama3-8b:base=4bit"),
            "model \"llama3-8b:base=4bit\": base=4bit is of frozen weights, which need lora=1 or more");
  EXPECT_EQ(refused("llama3-8b:lora_targets=attention"),
            "model \"llama3-8b:lora_targets=attention\": lora_targets=attention needs lora=1 or more");
  EXPECT_EQ(
      refused("mixtral-8x7b:lora=16,lora_targets=feed-forward"),
      "model \"mixtral-8x7b:lora=16,lora_targets=feed-forward\": lora_targets=feed-forward: no layer has "
      "such a product, since experts take no adapters");
  GraphBuilder b("m", 4);
  EXPECT_EQ(
      refusal([&] {
        return b.add("linear", "fc", {b.data("x", {4, 3})},
                     {{"out", std::vector<std::int64_t>{5}}, {"stored", "4bit"}});
      }),
      "operator \"fc\" (linear): attribute \"stored\" is not own, allowed where the operator is frozen");
}

}  // namespace
}  // namespace pipesim
