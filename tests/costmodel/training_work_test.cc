#include "costmodel/training_work.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "models/box.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using enum FlopsCounting::CausalAttention;

// The ways of frameworks; their tests say which is whose.
const FlopsCounting half_without_routers{.causal = Half, .documents_apart = false, .routers = false};
const FlopsCounting full{.causal = Full, .documents_apart = false};

double tera_per_token(const std::string& model, const FlopsCounting& counting) {
  const TrainingWork work = training_work(make_zoo_model(model), counting);
  return work.model_flops / static_cast<double>(work.tokens) / 1e12;
}

// Narayanan et al., arXiv:2104.04473, equation 3 without recompute, which counts masked pairs:
// 72·B·s·l·h²·(1 + s/(6h) + V/(12lh)).
TEST(TrainingWork, IsMegatronsFirstFormula) {
  constexpr double kBatch = 2, kSequence = 2048, kLayers = 96, kHidden = 12288, kVocabulary = 50257;
  const OperatorGraph graph = make_zoo_model("gpt3-175b:batch=2");
  const double published = 72 * kBatch * kSequence * kLayers * kHidden * kHidden *
                           (1 + kSequence / (6 * kHidden) + kVocabulary / (12 * kLayers * kHidden));
  const TrainingWork work = training_work(graph, full);
  EXPECT_NEAR(work.model_flops, published, 1e-12 * published);
  EXPECT_EQ(work.tokens, 2 * 2048);
  EXPECT_TRUE(work.causal);
}

// TFLOP/s a GPU by tokens/s a GPU in NVIDIA's tables of Megatron-Bridge (performance summary of releases
// 26.04 to 26.08): 0.4490 to 0.4495 for Llama 3 70B, 2.521 to 2.525 for Llama 3.1 405B, 0.1480 to 0.1483 for
// Qwen3 235B. What its formula gives has one digit more.
TEST(TrainingWork, IsWhatNvidiaPublishesForAToken) {
  EXPECT_NEAR(tera_per_token("llama3-70b:batch=1,sequence=8192", half_without_routers), 0.44922, 5e-6);
  EXPECT_NEAR(tera_per_token("llama3-70b:batch=1,sequence=8192", {}), 0.44922, 5e-6);
  EXPECT_NEAR(tera_per_token("llama3-405b:batch=1,sequence=8192", half_without_routers), 2.524, 5e-4);
  EXPECT_NEAR(tera_per_token("qwen3-235b:batch=1,sequence=4096", half_without_routers), 0.14803, 5e-6);
}

// 6·N and 12·L·aD·s, as torchtitan counts: (69,501,714,432 · 6 + 12 · 80 · 8192 · 8192) FLOPs a token.
TEST(TrainingWork, CountsTheFullSquareWhereAFrameworkDoes) {
  EXPECT_NEAR(tera_per_token("llama3-70b:batch=1,sequence=8192", full),
              (69'501'714'432.0 * 6 + 12.0 * 80 * 8192 * 8192) / 1e12, 1e-12);
}

// Megatron-LM, num_floating_point_operations of megatron/training/training.py in core 0.12, written down
// anew.
struct Decoder {
  double batch, sequence, layers, hidden, heads, groups, width, ffn, vocabulary, experts, top_k;

  explicit Decoder(Rng& rng) {
    const auto of = [&](int least, int most) { return static_cast<double>(rng.between(least, most)); };
    batch = of(1, 3), experts = rng.below(2) == 0 ? 1 : 4 * of(1, 3), sequence = experts * 4 * of(1, 8);
    layers = of(1, 3), groups = of(1, 3), heads = groups * of(1, 3), width = 2 * of(1, 16);
    hidden = 8 * of(1, 8), ffn = of(1, 90), vocabulary = of(2, 300);
    top_k = experts == 1 ? 1 : of(1, 4);
  }
  [[nodiscard]] std::string model() const {
    const std::string sizes = fmt::format(
        "batch={},sequence={},layers={},hidden={},heads={},kv_heads={},head_width={},ffn={},vocab={}", batch,
        sequence, layers, hidden, heads, groups, width, ffn, vocabulary);
    return experts == 1 ? "llama:" + sizes
                        : fmt::format("mixtral-8x7b:{},experts={},top_k={}", sizes, experts, top_k);
  }
  [[nodiscard]] double weights() const {
    const double queries = heads * width, keys = groups * width;
    return layers * (hidden * (queries + 2 * keys) + queries * hidden + top_k * 3 * hidden * ffn) +
           hidden * vocabulary;
  }
  [[nodiscard]] double routers() const { return experts == 1 ? 0 : layers * hidden * experts; }
  [[nodiscard]] double tokens() const { return batch * sequence; }
  [[nodiscard]] double square() const { return 12 * tokens() * sequence * layers * heads * width; }
};

TEST(TrainingWork, IsTheClosedFormulaOfRandomDecoders) {
  for_each_seed(60, [](Rng& rng) {
    const Decoder d(rng);
    // Experts compute on more rows than are routed to them, or on fewer.
    const char* capacity = d.experts == 1      ? ""
                           : rng.below(2) == 0 ? ",capacity_factor=1.6"
                                               : ",capacity_factor=0.5";
    const std::string model = d.model() + capacity + (rng.below(2) == 0 ? "" : ",attention=scores") +
                              (rng.below(2) == 0 ? "" : ",loss_chunks=2");
    SCOPED_TRACE(model);
    const OperatorGraph graph = make_zoo_model(model);
    const double linear = 6 * d.tokens() * d.weights(), routers = 6 * d.tokens() * d.routers();
    EXPECT_DOUBLE_EQ(training_work(graph, half_without_routers).model_flops, linear + d.square() / 2);
    EXPECT_DOUBLE_EQ(training_work(graph).model_flops, linear + routers + d.square() / 2);
    EXPECT_DOUBLE_EQ(training_work(graph, full).model_flops, linear + routers + d.square());
    EXPECT_EQ(training_work(graph).tokens, d.tokens());
  });
}

// Latent attention: queries and keys are 128 + 64 wide, values 128 (DeepSeek-AI, arXiv:2412.19437, section
// 4.2). Without what is predicted beyond the next token, by Megatron-LM's formula.
TEST(TrainingWork, OfLatentAttentionIsMegatronsFormula) {
  EXPECT_NEAR(tera_per_token("deepseek-v3:batch=1,sequence=4096", half_without_routers), 0.2498, 5e-5);
}

// Documents of 6 and a rest of 2 in a sequence of 20: 3 · 36 + 4 pairs of 400, half of them.
TEST(TrainingWork, CountsPairsWithinDocumentsAlone) {
  const std::string model = "llama:batch=1,layers=1,hidden=8,heads=2,kv_heads=2,ffn=8,vocab=10,sequence=20";
  const OperatorGraph whole = make_zoo_model(model), packed = make_zoo_model(model + ",document_length=6");
  const double square = 12.0 * 20 * 20 * 8;
  EXPECT_DOUBLE_EQ(training_work(whole).model_flops - training_work(packed).model_flops,
                   square / 2 * (400 - 112) / 400);
  EXPECT_DOUBLE_EQ(training_work(packed, half_without_routers).model_flops, training_work(whole).model_flops);
  EXPECT_LT(training_work(packed).hardware_flops, training_work(whole).hardware_flops);
}

// A window of 5 leaves, of 20 positions, 20² − 15² of both sides; documents of 8, 8 and 4 leave less.
TEST(TrainingWork, CountsPairsWithinAWindowAlone) {
  const auto flops = [](const Attributes& mask, const FlopsCounting& counting) {
    GraphBuilder b("attention", 1);
    const TensorId q = b.data("q", {1, 20, 2, 1, 4}), k = b.data("k", {1, 20, 2, 4});
    Attributes attributes = mask;
    attributes["causal"] = 1;
    b.add("attention", "attention", {q, k, k}, attributes);
    return training_work(b.build(), counting).model_flops;
  };
  const double pair = 3 * 2 * (4 + 4) * 2.0;
  EXPECT_DOUBLE_EQ(flops({{"window", 5}}, {}), pair * (400 - 225) / 2);
  EXPECT_DOUBLE_EQ(flops({{"window", 25}}, {}), pair * 400 / 2);
  EXPECT_DOUBLE_EQ(flops({{"window", 5}, {"document_length", 8}}, {}), pair * (2 * (64 - 9) + 16) / 2);
  EXPECT_DOUBLE_EQ(flops({{"window", 5}}, {.causal = Full}), pair * (400 - 225));
  EXPECT_DOUBLE_EQ(flops({{"window", 5}}, half_without_routers), pair * 400 / 2);
}

// The mask leaves 6 of 9 pairs, on which forward takes 2·4 for the score, 2·4 for the value and 5 for the
// softmax.
TEST(TrainingWork, OfTheHardwareIsWhatFusedKernelsCompute) {
  const auto attention = [](std::int64_t causal) {
    GraphBuilder b("attention", 1);
    const TensorId x = b.data("x", {1, 3, 8});
    const auto part = [&](const char* name, Sizes out) {
      return b.add("linear", name, {x}, {{"out", std::move(out)}, {"bias", 0}});
    };
    b.add("attention", "attention", {part("q", {2, 1, 4}), part("k", {2, 4}), part("v", {2, 4})},
          {{"causal", causal}});
    return b.build();
  };
  const double linear = 6.0 * 3 * 8 * 8 * 3, heads = 2;
  EXPECT_DOUBLE_EQ(training_work(attention(1)).model_flops, linear + heads * 4.5 * 3 * 16);
  EXPECT_DOUBLE_EQ(training_work(attention(0)).model_flops, linear + heads * 9 * 3 * 16);
  // Data gets no gradient, and no loss reads the result.
  const TrainingWork forward = training_work(attention(1), {}, [](OperatorId) { return true; });
  EXPECT_DOUBLE_EQ(forward.hardware_flops - training_work(attention(1)).hardware_flops,
                   linear / 3 + heads * 6 * 21);
}

TEST(TrainingWork, OfTheHardwareSkipsTheMaskedHalf) {
  const TrainingWork work = training_work(make_zoo_model("llama3-8b:batch=1,layers=4,sequence=131072"));
  const TrainingWork all = training_work(make_zoo_model("llama3-8b:batch=1,layers=4,sequence=131072"), full);
  // Scores are made once more: 7 products of 6.
  EXPECT_GT(work.hardware_flops, work.model_flops);
  EXPECT_LT(work.hardware_flops, work.model_flops * 7 / 6 * 1.01);
  EXPECT_LT(all.hardware_flops, 0.7 * all.model_flops);
  EXPECT_EQ(all.hardware_flops, work.hardware_flops);
}

// Where chunks, states and heads are all N wide, each position takes N² multiplications for c with b, and
// three times as many for each head: the chunk with x, and two with states (Dao and Gu, arXiv:2405.21060,
// section 6.3).
TEST(TrainingWork, OfAScanIsThatOfAllItsProducts) {
  GraphBuilder b("scan", 2);
  b.add("state_space_scan", "scan",
        {b.data("x", {2, 32, 1, 3, 8}), b.data("step", {2, 32, 1, 3}), b.data("b", {2, 32, 1, 8}),
         b.data("c", {2, 32, 1, 8})},
        {{"chunk", 8}});
  const OperatorGraph graph = b.build();
  const double positions = 2 * 32, heads = 3;
  EXPECT_DOUBLE_EQ(training_work(graph).model_flops, 3 * positions * 2 * 64 * (1 + 3 * heads));
  EXPECT_GT(training_work(graph).hardware_flops, training_work(graph).model_flops);
}

// The choice multiplies all queries by the keys before them, in forward alone; attention multiplies by the
// keys that were chosen: 1, 2, 3 and five times 4, 3.25 on average.
TEST(TrainingWork, OfSelectedKeysIsThatOfThoseThatWereChosen) {
  const auto work_of = [](bool attends) {
    GraphBuilder b("selecting", 2);
    const TensorId q = b.data("q", {2, 8, 3, 5}), k = b.data("k", {2, 8, 5}), w = b.data("w", {2, 8, 3});
    const TensorId selected = b.add("select_keys", "select", {q, k, w}, {{"count", 4}});
    const TensorId heads = b.data("heads", {2, 8, 1, 3, 5}), keys = b.data("keys", {2, 8, 1, 5});
    if (attends) b.add("selected_attention", "mix", {heads, keys, keys, selected});
    return training_work(b.build());
  };
  const TrainingWork choice = work_of(false), both = work_of(true);
  EXPECT_TRUE(choice.causal);
  EXPECT_DOUBLE_EQ(choice.model_flops, 2.0 * 5 * 2 * 3 * 64 / 2);
  EXPECT_DOUBLE_EQ(both.model_flops - choice.model_flops, 3 * 2 * (5 + 5) * 2 * 8 * 3 * 3.25);
}

TEST(TrainingWork, CountsWhatRunsAgainForTheHardware) {
  const OperatorGraph graph = make_zoo_model("gpt3-125m:batch=2");
  const TrainingWork none = training_work(graph);
  const TrainingWork all = training_work(graph, {}, [](OperatorId) { return true; });
  EXPECT_EQ(all.model_flops, none.model_flops);
  EXPECT_NEAR(all.hardware_flops - none.hardware_flops, all.model_flops / 3, 0.01 * all.model_flops / 3);
}

// The logits are made again: for the hardware alone.
TEST(TrainingWork, OfALossInChunksIsThatOfAProjectionApart) {
  for (const std::string model : {"gpt3-125m:batch=2", "bert-base:batch=2"}) {
    const OperatorGraph apart = make_zoo_model(model), joint = make_zoo_model(model + ",loss_chunks=8");
    const TrainingWork expected = training_work(apart), got = training_work(joint);
    const std::span<const Operator> operators = apart.operators();
    const Operator& projection = *std::ranges::find(operators, "projection", &Operator::name);
    EXPECT_DOUBLE_EQ(got.model_flops, expected.model_flops);
    EXPECT_EQ(got.tokens, expected.tokens);
    const double logits = evaluate(projection.flops_forward, whole_ranges(projection));
    EXPECT_NEAR(got.hardware_flops - expected.hardware_flops, logits, 0.01 * logits);
  }
}

// No gradient of the first weight is needed, forward and that of its input are.
TEST(TrainingWork, OfFrozenWeightsIsTwiceForward) {
  GraphBuilder b("frozen", 4);
  const auto linear = [&](const char* name, TensorId x, std::int64_t out, bool frozen) {
    return b.add_operator({"linear", name, {x}, {{"out", Sizes{out}}, {"bias", 0}}, {}, {}, "", frozen})[0];
  };
  linear("trained", linear("frozen", b.data("x", {4, 3}), 5, true), 7, false);
  EXPECT_EQ(training_work(b.build()).model_flops, 2 * (2 * 4 * 3 * 5) + 3 * (2 * 4 * 5 * 7));
}

// A token of llama3-8b with s = 8192 and r = 16: products of frozen weights count 4 FLOPs a weight, those of
// adapters 6, and attention 6 · s/2 · 2 · 4096 a layer.
TEST(TrainingWork, OfAdaptersIsThatOfFrozenProductsAndTheirOwn) {
  const double layers = 32.0 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336), head = 4096.0 * 128256;
  const double attention = 32.0 * 6 * 8192 * 4096;
  for (const char* base : {"own", "4bit"}) {
    const std::string model = fmt::format("llama3-8b:batch=1,lora=16,base={}", base);
    const TrainingWork work = training_work(make_zoo_model(model));
    EXPECT_DOUBLE_EQ(work.model_flops / static_cast<double>(work.tokens),
                     4 * (layers + head) + 6 * 41'943'040.0 + attention);
    EXPECT_EQ(work.tokens, 8192);
  }
}

// Logits once more in backward, and no gradient of the weight.
TEST(TrainingWork, OfAFrozenLossInChunksHasNoGradientOfItsWeight) {
  const OperatorGraph apart = make_zoo_model("gpt3-125m:batch=2,lora=8"),
                      joint = make_zoo_model("gpt3-125m:batch=2,lora=8,loss_chunks=8");
  const std::span<const Operator> operators = apart.operators();
  const Operator& projection = *std::ranges::find(operators, "projection", &Operator::name);
  const double logits = evaluate(projection.flops_forward, whole_ranges(projection));
  const TrainingWork expected = training_work(apart), got = training_work(joint);
  EXPECT_DOUBLE_EQ(got.model_flops, expected.model_flops);
  EXPECT_NEAR(got.hardware_flops - expected.hardware_flops, logits, 0.01 * logits);
}

// NVIDIA's tables of DeepSeek-V3 have 0.2598 to 0.2600 TFLOP a token, with one further token. That adds a
// layer of experts, the logits once more, and a product from 2 h to h.
TEST(TrainingWork, CountsLayersAndLossesOfFurtherTokens) {
  const std::string model = "deepseek-v3:batch=1";
  EXPECT_NEAR(tera_per_token(model, half_without_routers), 0.2498, 5e-5);
  EXPECT_NEAR(tera_per_token(model + ",further_tokens=1", half_without_routers), 0.26, 5e-5);
  const double h = 7168, layer = tera_per_token(model + ",layers=62", half_without_routers) -
                                 tera_per_token(model, half_without_routers);
  EXPECT_NEAR(tera_per_token(model + ",further_tokens=1", half_without_routers),
              tera_per_token(model, half_without_routers) + layer + 6 * (129280 * h + 2 * h * h) / 1e12,
              1e-9);
}

TEST(TrainingWork, HasNoTokensWhereASampleHasOneLabel) {
  EXPECT_EQ(training_work(make_zoo_model("resnet50:batch=4")).tokens, 0);
  EXPECT_GT(training_work(make_zoo_model("resnet50:batch=4")).model_flops, 0);
  EXPECT_FALSE(training_work(make_zoo_model("bert-base:batch=2")).causal);
}

TEST(PeakRate, IsThatOfTheTypeOfProducts) {
  const auto peak = [](const char* model, const char* topology) {
    return peak_rate(make_zoo_model(model), make_topology(topology));
  };
  EXPECT_DOUBLE_EQ(peak("llama3-8b:batch=1", "dgx-h100:1").all.value, 8 * 989e12);
  EXPECT_EQ(peak("llama3-8b:batch=1", "dgx-h100:1").types, std::vector{DataType::BFloat16});
  EXPECT_DOUBLE_EQ(peak("llama3-8b:batch=1,products=float8", "dgx-h100:1").all.value, 8 * 1979e12);
  EXPECT_EQ(peak("llama3-8b:batch=1,products=float8", "dgx-h100:1").types, std::vector{DataType::Float8});
  // A100 have no float8, V100 no bfloat16.
  EXPECT_DOUBLE_EQ(peak("llama3-8b:batch=1,products=float8", "dgx-a100:1").all.value, 8 * 312e12);
  EXPECT_EQ(peak("llama3-8b:batch=1", "dgx1-v100").types, std::vector{DataType::Float16});
}

}  // namespace
}  // namespace pipesim
