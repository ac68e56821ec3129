#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

std::int64_t parameters(const std::string& model) { return make_zoo_model(model).parameter_count(); }

bool in_layers(const Operator& op) { return op.name.starts_with("layer"); }

/// Parameters of the linear layers and experts that a token goes through, and of the word embedding.
double used_by_a_token(const std::string& model) {
  const OperatorGraph graph = make_zoo_model(model + ":batch=1");
  const double linears = forward_flops(
      graph, [](const Operator& op) { return op.kind == "linear" || op.kind == "expert_linear"; });
  const auto tokens =
      static_cast<double>(graph.tensor(operator_named(graph, "word_embedding").uses[0].tensor).shape[1]);
  const TensorId words = operator_named(graph, "word_embedding").uses[1].tensor;
  return linears / 2 / tokens + static_cast<double>(graph.tensor(words).elements());
}

// Published: 109,482,240 and 335,141,888 for the encoder with pooler (Hugging Face BertModel). The
// masked-word head adds a transform, a norm and a bias; the pooler and the next-sentence classifier are the
// option's.
TEST(Bert, HasItsParameters) {
  const auto words_head = [](std::int64_t h) { return h * h + h + 2 * h + 30'522; };
  const auto pooler = [](std::int64_t h) { return h * h + h; };
  const auto next_sentence = [](std::int64_t h) { return 2 * h + 2; };
  EXPECT_EQ(parameters("bert-base"), 109'482'240 - pooler(768) + words_head(768));
  EXPECT_EQ(parameters("bert-base:objective=both"), 109'482'240 + words_head(768) + next_sentence(768));
  EXPECT_EQ(parameters("bert-large"), 335'141'888 - pooler(1024) + words_head(1024));
  EXPECT_EQ(parameters("bert-large:objective=both"), 335'141'888 + words_head(1024) + next_sentence(1024));
}

// AlibabaPAI/DAPPLE, profile bert-48: 637,451,264 for the encoder with pooler. Its paper says 640 M.
TEST(Bert, Of48LayersHasItsPublishedParameters) {
  const std::int64_t pooler = 1024 * 1024 + 1024, words_head = pooler + 2 * 1024 + 30'522;
  EXPECT_EQ(parameters("bert48"), 637'451'264 - pooler + words_head);
}

// TinyBERT (Jiao et al., Findings of EMNLP 2020, table 1): 22.5 G operations for BERT-base's layers at 128
// tokens.
TEST(Bert, LayersHaveTheirPublishedFlops) {
  const OperatorGraph graph = make_zoo_model("bert-base:batch=1,sequence=128");
  EXPECT_NEAR(forward_flops(graph, in_layers), 22.5e9, 0.01 * 22.5e9);
}

TEST(Bert, ShorterSequencesKeepThePositionTable) {
  EXPECT_EQ(parameters("bert-base:sequence=128"), parameters("bert-base"));
  EXPECT_EQ(parameters("bert-base:sequence=1024"), parameters("bert-base") + 512 * 768);
}

TEST(Bert, TiesTheProjectionToTheWordEmbedding) {
  const OperatorGraph graph = make_zoo_model("bert-base");
  const TensorId table = operator_named(graph, "word_embedding").uses[1].tensor;
  EXPECT_EQ(operator_named(graph, "projection").uses[1].tensor, table);
}

TEST(Gpt2, HasItsPublishedParameters) {
  EXPECT_EQ(parameters("gpt2"), 124'439'808);
  EXPECT_EQ(parameters("gpt2:projection=untied"), 124'439'808 + 50'257 * 768);
  EXPECT_EQ(parameters("gpt"), 124'439'808);
  // The largest of the paper's table 2; Hugging Face gpt2-xl.
  EXPECT_EQ(parameters("gpt:layers=48,hidden=1600,heads=25"), 1'557'611'200);
}

TEST(Gpt3, SizesHaveTheirNominalParameters) {
  const std::map<std::string, double> nominal = {{"125m", 125e6}, {"350m", 350e6}, {"760m", 760e6},
                                                 {"1.3b", 1.3e9}, {"2.7b", 2.7e9}, {"6.7b", 6.7e9},
                                                 {"13b", 13e9},   {"175b", 175e9}};
  for (const auto& [size, count] : nominal) {
    EXPECT_NEAR(static_cast<double>(parameters("gpt3-" + size)), count, 0.03 * count) << size;
  }
}

/// Narayanan et al., SC 2021 (arXiv:2104.04473), equation 3, counts forward, backward (twice) and a second
/// forward of the layers: a quarter of 96 B s l h² (1 + s / 6h), and a third of 6 B s h V.
double megatron_forward_flops(double b, double s, double l, double h, double v) {
  return 24 * b * s * l * h * h * (1 + s / (6 * h)) + 2 * b * s * h * v;
}

TEST(Gpt, HasTheFlopsOfMegatronsFormula) {
  const auto matrices = [](const std::string& model) { return 2 * multiply_adds(make_zoo_model(model)); };
  const double small = megatron_forward_flops(64, 1024, 12, 768, 50'257);
  EXPECT_NEAR(matrices("gpt2"), small, 0.03 * small);  // softmax inside attention, biases, gelu
  const double large = megatron_forward_flops(1536, 2048, 96, 12288, 51'200);
  EXPECT_NEAR(matrices("gpt3-175b:batch=1536,vocab=51200"), large, 0.001 * large);
  // The paper's example: 175 B parameters, 300 B tokens, 1024 GPUs at 140 TFLOP/s: 34 days, by 8 operations
  // per token and parameter, two of which are this forward pass.
  EXPECT_NEAR(matrices("gpt3-175b:batch=1"), 2 * 175e9 * 2048, 0.03 * 2 * 175e9 * 2048);
}

TEST(Gpt, AllOperationsAreLittleMoreThanMatrixProducts) {
  const OperatorGraph graph = make_zoo_model("gpt3-1.3b:batch=1");
  EXPECT_NEAR(graph.forward_flops().value, 2 * multiply_adds(graph), 0.01 * graph.forward_flops().value);
}

TEST(Gpt, LayersRepeat) {
  const auto counts = repeats(make_zoo_model("gpt:layers=5"));
  EXPECT_EQ(counts.at("layer#.attention"), 5);
  EXPECT_EQ(counts.at("layer#.ffn2"), 5);
  for (const auto& [label, count] : counts) EXPECT_EQ(count, 5) << label;
}

TEST(Gpt, RefusesHeadsThatDoNotDivideHidden) {
  EXPECT_EQ(refusal([] { make_zoo_model("gpt2:heads=7"); }),
            "model \"gpt2:heads=7\": heads=7 does not divide hidden=768");
}

TEST(Gpt, RefusesSizesBeyondCounting) {
  EXPECT_THAT(
      refusal([] { make_zoo_model("gpt3-175b:batch=1048576,sequence=131072"); }),
      testing::StartsWith("model \"gpt3-175b:batch=1048576,sequence=131072\": tensor \"word_embedding\" "));
}

// Products take 2 FLOPs for each weight and token, scores and what they weigh 4·s² for each number of a row
// of heads, where all pairs count; one table is no product.
TEST(Transformers, HaveSequencesOfMillions) {
  for (const std::int64_t sequence : {std::int64_t{1} << 20, std::int64_t{1} << 24}) {
    const OperatorGraph graph =
        make_zoo_model("llama3-8b:batch=2,loss_chunks=65536,sequence=" + std::to_string(sequence));
    const auto tokens = static_cast<double>(sequence);
    const double weights = static_cast<double>(graph.parameter_count() - std::int64_t{128256} * 4096);
    const double expected = 2 * (2 * weights * tokens + 32 * 4 * tokens * tokens * 4096);
    EXPECT_NEAR(graph.forward_flops().value / expected, 1, 0.01) << sequence;
  }
  EXPECT_EQ(make_zoo_model("gpt2:batch=1,sequence=16777216").parameter_count() -
                make_zoo_model("gpt2:batch=1,sequence=1024").parameter_count(),
            std::int64_t{16777216 - 1024} * 768)
      << "rows of the position table";
  EXPECT_THAT(refusal([] { make_zoo_model("gpt2:sequence=16777217"); }),
              testing::HasSubstr("sequence must be an integer from 1 to 16777216"));
}

TEST(Transformers, MayWriteTheirScores) {
  for (const char* model : {"gpt:layers=2", "bert-base:layers=2", "t5-base:layers=2", "llama:layers=2"}) {
    const OperatorGraph fused = make_zoo_model(model);
    const OperatorGraph graph = make_zoo_model(std::string(model) + ",attention=scores");
    EXPECT_EQ(count_kind(graph, "scored_attention"),
              count_kind(fused, "attention") + count_kind(fused, "relative_attention"));
    EXPECT_EQ(graph.parameter_count(), fused.parameter_count()) << model;
    EXPECT_EQ(make_zoo_model(std::string(model) + ",attention=fused"), fused);
  }
  const auto dropout = [](const std::string& model) {
    return std::get<double>(
        operator_named(make_zoo_model(model), "layer1.attention").attributes.at("dropout"));
  };
  EXPECT_EQ(dropout("gpt:attention=scores"), 0.1);
  EXPECT_EQ(dropout("gpt:attention=scores,dropout=0"), 0);
  EXPECT_EQ(dropout("llama:attention=scores"), 0);
}

TEST(Gpt, FeedForwardFollowsHiddenUnlessGiven) {
  const auto width = [](const std::string& model) {
    const OperatorGraph graph = make_zoo_model(model);
    return graph.tensor(operator_named(graph, "layer1.ffn1").uses.back().tensor).shape.back();
  };
  EXPECT_EQ(width("gpt:hidden=96"), 384);
  EXPECT_EQ(width("gpt:hidden=96,ffn=100"), 100);
}

// Model cards and configurations of Llama 7B, Llama 3 8B, 70B and 405B.
TEST(Llama, HasItsPublishedParameters) {
  EXPECT_EQ(parameters("llama"), 6'738'415'616);
  EXPECT_EQ(parameters("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(parameters("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(parameters("llama3-405b"), 405'853'388'800);
}

// Llama 3, section 3.2.1: 3.8e25 operations for 405 B parameters and 15.6 T tokens, three forward passes a
// token and no attention scores counted.
TEST(Llama, HasThePublishedTrainingFlops) {
  const OperatorGraph graph = make_zoo_model("llama3-405b:batch=1");
  const double linears = forward_flops(graph, [](const Operator& op) { return op.kind == "linear"; });
  EXPECT_NEAR(3 * linears / 8192 * 15.6e12, 3.8e25, 0.01 * 3.8e25);
}

// Model cards: 8.2 B, and 235 B, of which 234 B are no embeddings. The digits follow from their config.json.
TEST(Qwen3, HasItsPublishedParameters) {
  EXPECT_EQ(parameters("qwen3-8b"), 8'190'735'360);
  EXPECT_EQ(parameters("qwen3-235b"), 235'093'634'560);
  EXPECT_NEAR(static_cast<double>(parameters("qwen3-235b")) - 2 * 151'936.0 * 4096, 234e9, 0.5e9);
}

// The report's table 2: 22 B used by a token, its word embedding included.
TEST(Qwen3, TokensUseTheirPublishedShareOfTheParameters) {
  EXPECT_NEAR(used_by_a_token("qwen3-235b"), 22e9, 0.01 * 22e9);
}

TEST(Qwen3, NormalisesQueriesAndKeysOfEachHead) {
  const OperatorGraph graph = make_zoo_model("qwen3-235b:batch=2,sequence=64,layers=1");
  const Operator &query = operator_named(graph, "layer1.query_norm"),
                 &rotary = operator_named(graph, "layer1.query_rotary");
  EXPECT_EQ(graph.tensor(query.uses[0].tensor).shape, (std::vector<std::int64_t>{2, 64, 4, 16, 128}));
  EXPECT_EQ(graph.tensor(query.uses[1].tensor).shape, (std::vector<std::int64_t>{128}));
  EXPECT_EQ(rotary.uses[0].tensor, query.uses.back().tensor);
  const Operator& key = operator_named(graph, "layer1.key_norm");
  EXPECT_EQ(graph.tensor(key.uses[0].tensor).shape, (std::vector<std::int64_t>{2, 64, 4, 128}));
}

// The model card of bigscience/bloom.
TEST(Bloom, HasItsPublishedParameters) { EXPECT_EQ(parameters("bloom-176b"), 176'247'271'424); }

TEST(Bloom, KnowsPositionsByDistanceAlone) {
  const OperatorGraph graph = make_zoo_model("bloom-176b:layers=2");
  EXPECT_EQ(count_kind(graph, "embedding"), 1);
  EXPECT_EQ(count_kind(graph, "alibi_attention"), 2);
  EXPECT_EQ(operator_named(graph, "projection").uses[1].tensor,
            operator_named(graph, "word_embedding").uses[1].tensor);
  const OperatorGraph scores = make_zoo_model("bloom-176b:layers=2,attention=scores");
  EXPECT_EQ(std::get<std::int64_t>(operator_named(scores, "layer1.attention").attributes.at("alibi")), 1);
}

// README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 671 B. The digits follow from config.json; the 256 biases of
// each router, which no gradient trains, are left out.
TEST(DeepSeek, HasItsPublishedParameters) {
  EXPECT_EQ(parameters("deepseek-v3"), 671'026'419'200 - 58 * 256);
}

// The same file: 36.6 B used by a token, with the projection and without the word embedding; the report says
// 37 B.
TEST(DeepSeek, TokensUseTheirPublishedShareOfTheParameters) {
  const double used = used_by_a_token("deepseek-v3") - 129'280.0 * 7168;
  EXPECT_NEAR(used, 36.6e9, 0.01 * 36.6e9);
}

TEST(DeepSeek, HeadsShareTheRotatedPartOfTheirKeys) {
  const OperatorGraph graph = make_zoo_model("deepseek-v3:batch=2,sequence=64,layers=1");
  const auto shape = [&](const std::string& name) {
    return graph.tensor(operator_named(graph, "layer1." + name).uses.back().tensor).shape;
  };
  EXPECT_EQ(shape("key_rotary"), (std::vector<std::int64_t>{2, 64, 64}));
  EXPECT_EQ(shape("key_of_heads"), (std::vector<std::int64_t>{2, 64, 128, 64}));
  EXPECT_EQ(shape("key_joined"), (std::vector<std::int64_t>{2, 64, 128, 192}));
  EXPECT_EQ(shape("query_joined"), (std::vector<std::int64_t>{2, 64, 128, 1, 192}));
  EXPECT_EQ(shape("attention"), (std::vector<std::int64_t>{2, 64, 128, 1, 128}));
}

TEST(DeepSeek, ExpertsComeAfterTheDenseLayers) {
  const auto counts = repeats(make_zoo_model("deepseek-v3:layers=5"));
  EXPECT_EQ(counts.at("layer#.attention"), 5);
  EXPECT_EQ(counts.at("layer#.dense_gate"), 3);
  EXPECT_EQ(counts.at("layer#.shared_gate"), 2);
  EXPECT_EQ(counts.at("layer#.dispatch"), 2);
  EXPECT_FALSE(
      repeats(make_zoo_model("deepseek-v3:layers=5,shared_experts=0")).contains("layer#.shared_gate"));
}

TEST(Llama, QueriesAreGroupedByKeyValueHeads) {
  const OperatorGraph graph = make_zoo_model("llama3-8b:batch=2,sequence=64,layers=1");
  const Operator& attention = operator_named(graph, "layer1.attention");
  EXPECT_EQ(graph.tensor(attention.uses[0].tensor).shape, (std::vector<std::int64_t>{2, 64, 8, 4, 128}));
  EXPECT_EQ(graph.tensor(attention.uses[1].tensor).shape, (std::vector<std::int64_t>{2, 64, 8, 128}));
  EXPECT_EQ(refusal([] { make_zoo_model("llama3-8b:kv_heads=5"); }),
            "model \"llama3-8b:kv_heads=5\": kv_heads=5 does not divide heads=32");
}

// Model cards: 46.7 B in all, 12.9 B used by a token; 141 B and 39 B, of which config.json gives the digits.
TEST(Mixtral, HasItsPublishedParameters) {
  EXPECT_EQ(parameters("mixtral-8x7b"), 46'702'792'704);
  EXPECT_EQ(parameters("mixtral-8x22b"), 140'620'634'112);
}

TEST(Mixtral, TokensUseTheirPublishedShareOfTheParameters) {
  EXPECT_NEAR(used_by_a_token("mixtral-8x7b"), 12.9e9, 0.01 * 12.9e9);
  EXPECT_NEAR(used_by_a_token("mixtral-8x22b"), 39e9, 0.01 * 39e9);
}

TEST(Mixtral, CapacityFollowsItsFactor) {
  const auto capacity = [](const std::string& options) {
    const OperatorGraph graph = make_zoo_model("mixtral-8x7b:layers=1,batch=2,sequence=100" + options);
    return graph.tensor(operator_named(graph, "layer1.dispatch").uses.back().tensor).shape[2];
  };
  EXPECT_EQ(capacity(""), 25);
  EXPECT_EQ(capacity(",capacity_factor=1.25"), 32);  // 31.25
  EXPECT_EQ(capacity(",capacity_factor=100"), 100);  // never more than the group's tokens
  EXPECT_EQ(capacity(",experts=4,top_k=1"), 25);
  EXPECT_EQ(capacity(",experts=4,capacity_factor=1.1"), 55);
}

TEST(Mixtral, HasGroupsOfTokensWithTheirOwnCapacity) {
  const auto dispatched = [](const std::string& options) {
    const OperatorGraph graph =
        make_zoo_model("mixtral-8x7b:layers=1,batch=2,sequence=96,hidden=64" + options);
    return graph.tensor(operator_named(graph, "layer1.dispatch").uses.back().tensor).shape;
  };
  EXPECT_EQ(dispatched(""), (Sizes{2, 8, 24, 64}));
  EXPECT_EQ(dispatched(",token_groups=4"), (Sizes{2, 4, 8, 6, 64}));
  EXPECT_EQ(dispatched(",token_groups=32"), (Sizes{2, 32, 8, 1, 64}));
  EXPECT_EQ(dispatched(",token_groups=32,capacity_factor=100"), (Sizes{2, 32, 8, 3, 64}));
  EXPECT_EQ(refusal([] { make_zoo_model("mixtral-8x7b:token_groups=3"); }),
            "model \"mixtral-8x7b:token_groups=3\": token_groups=3 does not divide sequence=4096");
}

TEST(Mixtral, RefusesMoreExpertsATokenThanThereAre) {
  EXPECT_EQ(refusal([] { make_zoo_model("mixtral-8x7b:top_k=9"); }),
            "model \"mixtral-8x7b:top_k=9\": top_k=9 is more than experts=8");
}

// README_WEIGHTS of DeepSeek-V3: 11.5 billion parameters of its own. They are a layer, a product from 2 h to
// h and three norms; embedding and projection are the model's.
TEST(DeepSeek, PredictsASecondTokenWithALayerOfItsOwn) {
  const std::int64_t h = 7168, next = parameters("deepseek-v3"),
                     two = parameters("deepseek-v3:further_tokens=1");
  EXPECT_EQ(two - next, parameters("deepseek-v3:layers=62") - next + 2 * h * h + 3 * h);
  EXPECT_NEAR(static_cast<double>(two - next), 11.5e9, 0.15e9);
  const OperatorGraph graph = make_zoo_model("deepseek-v3:further_tokens=2");
  const auto weight = [&](const std::string& name) { return operator_named(graph, name).uses[1].tensor; };
  EXPECT_EQ(weight("further1.embedding"), weight("word_embedding"));
  EXPECT_EQ(weight("further2.projection"), weight("projection"));
  EXPECT_EQ(operator_named(graph, "further1.merge").repeat, operator_named(graph, "further2.merge").repeat);
  EXPECT_EQ(count_kind(graph, "cross_entropy"), 3);
}

}  // namespace
}  // namespace pipesim
