#include "models/hugging_face.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

HuggingFaceModel read(const std::string& json) {
  return hugging_face_model(JsonDocument::parse(json, "config.json"));
}

std::int64_t parameters(const HuggingFaceModel& model) {
  return make_zoo_model(model.text).parameter_count();
}

// The sizes are those of the published config.json files, the numbers of parameters those of their weights.
constexpr const char* kMistral7b =
    R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": 4096, "hidden_act": "silu", "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"})";
constexpr const char* kDeepseekV3 =
    R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "n_shared_experts": 1, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
    "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "hidden_act": "silu",
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"},
    "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
    "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}, "rms_norm_eps": 1e-06,
    "initializer_range": 0.02, "routed_scaling_factor": 2.5, "norm_topk_prob": true, "aux_loss_alpha": 0.001})";

TEST(HuggingFace, HasAsManyParametersAsWerePublished) {
  const HuggingFaceModel llama =
      read(R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
      "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})");  // Llama 3.2 1B
  EXPECT_EQ(llama.text,
            "llama:dtype=bfloat16,sequence=8192,layers=16,hidden=2048,heads=32,head_width=64,kv_heads=8,"
            "vocab=128256,projection=tied,rotary_base=10000,rotary_scaling=none,norm_epsilon=1e-06,"
            "init_deviation=0.02,ffn=8192,attention_bias=none");
  EXPECT_THAT(llama.left_out, IsEmpty());
  EXPECT_EQ(parameters(llama), 1'235'814'400);

  const HuggingFaceModel mistral = read(kMistral7b);
  EXPECT_EQ(parameters(mistral), 7'241'732'096);
  EXPECT_THAT(mistral.left_out, IsEmpty());
  EXPECT_THAT(mistral.text, testing::AllOf(testing::StartsWith("decoder:"), testing::HasSubstr("mixers=W,"),
                                           testing::HasSubstr("window=4096,")));

  EXPECT_EQ(parameters(read(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
      "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768, "sliding_window": null,
      "torch_dtype": "bfloat16"})")),
            46'702'792'704);
  EXPECT_EQ(parameters(read(R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
      "max_position_embeddings": 131072, "tie_word_embeddings": true, "use_sliding_window": false,
      "sliding_window": 131072, "torch_dtype": "bfloat16"})")),
            494'032'768);  // Qwen2 0.5B
  EXPECT_EQ(parameters(read(R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
      "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24,
      "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
      "decoder_sparse_step": 1, "vocab_size": 151936, "max_position_embeddings": 8192,
      "torch_dtype": "bfloat16"})")),
            14'315'784'192);  // Qwen1.5-MoE-A2.7B
  EXPECT_EQ(parameters(read(R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})")),
            8'190'735'360);
  EXPECT_EQ(parameters(read(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
      "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [],
      "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})")),
            30'532'122'624);  // Qwen3 30B-A3B
  EXPECT_EQ(parameters(read(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
      "n_positions": 1024, "n_inner": null, "vocab_size": 50257, "activation_function": "gelu_new",
      "resid_pdrop": 0.1})")),
            124'439'808);
}

// Moonlight 16B, whose queries have no latent, and Kimi K2 (1.03 T), as their config.json files have them.
TEST(HuggingFace, ReadsRelativesOfDeepseek) {
  const HuggingFaceModel moonlight =
      read(R"({"model_type": "deepseek_v3", "hidden_size": 2048, "intermediate_size": 11264,
      "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "n_shared_experts": 2,
      "n_routed_experts": 64, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
      "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "vocab_size": 163840, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
      "rope_theta": 50000.0, "routed_scaling_factor": 2.446, "torch_dtype": "bfloat16"})");
  EXPECT_THAT(moonlight.text, testing::HasSubstr("query_latent=0"));
  // 26 layers with experts, one without, embedding and projection; without the routers' biases.
  const std::int64_t h = 2048,
                     attention = 16 * 192 * h + (512 + 64) * h + 512 + 512 * 16 * 256 + 16 * 128 * h,
                     experts = 66 * 3 * 1408 * h + 64 * h, norms = 2 * h;
  EXPECT_EQ(parameters(moonlight),
            27 * (attention + norms) + 26 * experts + 3 * 11264 * h + 2 * 163840 * h + h);
  EXPECT_NEAR(static_cast<double>(parameters(moonlight)), 16.0e9, 0.05e9);
  const HuggingFaceModel kimi =
      read(R"({"model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "n_shared_experts": 1,
      "n_routed_experts": 384, "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
      "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "vocab_size": 163840, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})");
  EXPECT_NEAR(static_cast<double>(parameters(kimi)), 1.03e12, 0.005e12);
}

TEST(HuggingFace, ReadsDeepseekAsTheZooHasIt) {
  const HuggingFaceModel model = read(kDeepseekV3);
  EXPECT_EQ(make_zoo_model(model.text).name(),
            "deepseek-v3:sequence=8192,balance_loss=0.001,init_deviation=0.02");
  EXPECT_THAT(
      model.left_out,
      ElementsAre("quantization_config: weights and products are in the model's type",
                  "num_nextn_predict_layers = 1: no further tokens are predicted",
                  "n_group = 8: tokens go to experts of all groups; token_nodes=4 says that those of a "
                  "token are on so many nodes"));
}

// Keys of a small model of the type, beside those given.
std::string small_config(const std::string& type, const std::string& more) {
  const std::string experts = type.ends_with("_moe") ? R"("moe_intermediate_size": 32, "num_experts": 4,
    "num_experts_per_tok": 2, )"
                                                     : "";
  return R"({"model_type": ")" + type + R"(", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100, "torch_dtype": "bfloat16", )" +
         experts + more + "}";
}

std::string name_of_config(const std::string& type, const std::string& more) {
  const std::string name = make_zoo_model(read(small_config(type, more)).text).name();
  const std::size_t at = name.find(",rotary");
  return at == std::string::npos ? "" : name.substr(at + 1);
}

// What defines a model beside its sizes stays in its text: the values are those of published files.
TEST(HuggingFace, KeepsPositionsNormsAndRouters) {
  // Llama 3.1 and Llama 3.2, whose factors differ.
  EXPECT_EQ(name_of_config("llama", R"("rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": {
      "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3",
      "original_max_position_embeddings": 8192})"),
            "rotary_base=500000,rotary_scaling=llama3,rotary_factor=8,norm_epsilon=1e-05");
  // Transformers 5 has all of it in one place.
  EXPECT_EQ(name_of_config("llama", R"("rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0,
      "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3",
      "original_max_position_embeddings": 8192})"),
            "rotary_base=500000,rotary_scaling=llama3,rotary_factor=32,norm_epsilon=1e-05");
  EXPECT_EQ(name_of_config("llama", R"("rope_scaling": {"type": "linear", "factor": 2.0})"),
            "rotary_scaling=linear,rotary_factor=2");
  EXPECT_EQ(
      name_of_config("qwen3", R"("rope_theta": 1000000, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32768}, "rms_norm_eps": 1e-06)"),
      "rotary_scaling=yarn,rotary_factor=4,rotary_original=32768,rotary_high=32");
  const HuggingFaceModel experts =
      read(small_config("qwen3_moe", R"("norm_topk_prob": true, "router_aux_loss_coef": 0.002)"));
  EXPECT_THAT(experts.text, testing::HasSubstr(",expert_shares=chosen,balance_loss=0.002"));
  // Transformers' own default.
  EXPECT_THAT(read(small_config("qwen3_moe", R"("rope_theta": 1e6)")).text,
              testing::HasSubstr(",expert_shares=all,balance_loss=0.001"));
}

TEST(HuggingFace, SaysWhichPositionsItCannotRead) {
  const auto message = [](const std::string& more) {
    return refusal([&] { (void)read(small_config("llama", more)); });
  };
  const auto left_out = [](const std::string& more) { return read(small_config("llama", more)).left_out; };
  EXPECT_THAT(left_out(R"("rope_scaling": {"type": "dynamic", "factor": 2.0})"),
              testing::Contains("rope_type = \"dynamic\": positions are not stretched; known are linear, "
                                "llama3 and yarn"));
  EXPECT_THAT(left_out(R"("rope_scaling": {"type": "yarn", "factor": 2.0, "attention_factor": 1.5,
      "original_max_position_embeddings": 512})"),
              testing::Contains("attention_factor = 1.5: yarn is taken without it"));
  EXPECT_EQ(message(R"("rope_scaling": {"type": "yarn", "factor": 2.0})"),
            "config.json: /rope_scaling: \"original_max_position_embeddings\" is missing");
  EXPECT_EQ(message(R"("rope_scaling": {"type": "llama3"})"),
            "config.json: /rope_scaling: \"factor\" is missing");
}

TEST(HuggingFace, SaysWhatItCannotRead) {
  const auto message = [](const std::string& json) { return refusal([&] { (void)read(json); }); };
  EXPECT_THAT(message(R"({"model_type": "lama"})"),
              testing::StartsWith("config.json: /model_type: unknown architecture \"lama\" (did you mean "
                                  "\"llama\"?), and its keys are not those of a decoder: "));
  EXPECT_EQ(message(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2})"),
            "config.json: /: \"vocab_size\" is missing");
  const auto of_small = [&](const std::string& type, const std::string& more) {
    return message(R"({"model_type": ")" + type +
                   R"(", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, )" + more + "}");
  };
  EXPECT_EQ(of_small("llama", R"("num_attention_heads": 6)"),
            "config.json: /num_attention_heads: found 6, allowed: a divisor of \"hidden_size\", which is 64");
  EXPECT_EQ(of_small("llama", R"("num_attention_heads": 8, "num_key_value_heads": 3)"),
            "config.json: /num_key_value_heads: found 3, allowed: a divisor of the 8 attention heads");
  EXPECT_EQ(
      of_small("mixtral", R"("num_attention_heads": 8, "num_local_experts": 4, "num_experts_per_tok": 8)"),
      "config.json: /num_experts_per_tok: found 8, allowed: up to \"num_local_experts\", which is 4");
  EXPECT_EQ(of_small("mixtral", R"("num_attention_heads": 8, "num_local_experts": 4)"),
            "config.json: /: \"num_experts_per_tok\" is missing");
  EXPECT_EQ(of_small("llama", R"("num_attention_heads": 8, "torch_dtype": "float8")"),
            "config.json: /torch_dtype: found \"float8\", allowed: float32, float16, bfloat16");
  EXPECT_EQ(
      of_small("gemma3_text", R"("num_attention_heads": 8, "layer_types": ["full_attention", "odd"])"),
      "config.json: /layer_types/1: layers of type \"odd\" can't be expressed; allowed: full_attention, "
      "attention, sliding_attention, chunked_attention, linear_attention, deepseek_sparse_attention, mamba, "
      "full, shared");
  EXPECT_EQ(of_small("gemma3_text", R"("num_attention_heads": 8, "layer_types": ["full_attention"])"),
            "config.json: /layer_types: found 1 items, allowed: one for each of the 2 layers");
  EXPECT_EQ(of_small("gemma3_text",
                     R"("num_attention_heads": 8, "layer_types": ["full_attention", "sliding_attention"])"),
            "config.json: /: layers with a window are named, but \"sliding_window\" is missing");
  EXPECT_EQ(
      of_small("minimax_m2", R"("num_attention_heads": 8, "attn_type_list": [1, 0])"),
      "config.json: /attn_type_list/1: found 0, lightning attention, which can't be expressed; allowed: 1");
  EXPECT_EQ(
      of_small("deepseek_v4", R"("num_attention_heads": 8, "compress_ratios": [4, 128])"),
      "config.json: /compress_ratios: found [4,128]; attention over compressed keys can't be expressed, "
      "allowed: models without it");
  EXPECT_EQ(of_small("nemotron_h", R"("num_attention_heads": 8, "hybrid_override_pattern": "MX")"),
            "config.json: /hybrid_override_pattern: found \"X\", allowed: M, *, - and E");
  EXPECT_EQ(of_small("hunyuan_v1_moe", R"("num_attention_heads": 8, "num_experts": 4, "moe_topk": [1, 2])"),
            "config.json: /moe_topk: found [1,2], allowed: the same for all layers");
  EXPECT_EQ(
      of_small("qwen3_next", R"("num_attention_heads": 8, "full_attention_interval": 2,
      "linear_num_key_heads": 3, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8)"),
      "config.json: /linear_num_key_heads: allowed: a divisor of \"linear_num_value_heads\", which is 4");
}

// A family that nobody has told of is read by its keys, which is said.
TEST(HuggingFace, ReadsUnknownFamiliesByTheirKeys) {
  const HuggingFaceModel model =
      read(small_config("novel", R"("novel_feature": {"size": 3}, "not_used": false, "eos_token_id": 2)"));
  EXPECT_THAT(model.text, testing::AllOf(testing::StartsWith("llama:"), testing::EndsWith(",partial=yes")));
  EXPECT_THAT(model.left_out,
              ElementsAre("model_type = \"novel\": not known; the model is read by its keys, as Llama's",
                          "novel_feature = {\"size\":3}: not known, left out"));
}

TEST(HuggingFace, RefusesWhatContradictsOrNamesOtherLayers) {
  const auto message = [](const std::string& type, const std::string& more) {
    return refusal([&] { (void)read(small_config(type, more)); });
  };
  EXPECT_THAT(
      message("novel", R"("mamba_d_state": 16)"),
      testing::StartsWith("config.json: /mamba_d_state: names layers that \"novel\" has, and no such "));
  EXPECT_EQ(message("llama", R"("n_layer": 3)"),
            "config.json: /n_layer: found 3, allowed: 2, as /num_hidden_layers says");
  EXPECT_EQ(message("llama", R"("rope_scaling": "yarn")"),
            "config.json: /rope_scaling: found \"yarn\", allowed: an object, or null");
  EXPECT_EQ(
      message("deepseek_v3", R"("q_lora_rank": 32)"),
      "config.json: /q_lora_rank: latents of queries need those of keys, but \"kv_lora_rank\" is missing");
  EXPECT_EQ(message("llama", R"("rotary_dim": 3)"),
            "config.json: /rotary_dim: found 3, allowed: an even number, since pairs are rotated");
  EXPECT_EQ(message("qwen3_moe", R"("first_k_dense_replace": 9)"),
            "config.json: /first_k_dense_replace: found 9, allowed: up to the 2 layers");
  EXPECT_EQ(message("qwen3_moe", R"("n_group": 3)"),
            "config.json: /n_group: found 3, allowed: a divisor of the 4 experts");
  EXPECT_EQ(message("qwen3_moe", R"("n_group": 2, "topk_group": 3)"),
            "config.json: /topk_group: found 3, allowed: up to the 2 groups");
}

TEST(HuggingFace, RefusesSizesThatContradictOneAnother) {
  const auto message = [](const std::string& type, const std::string& more) {
    return refusal([&] { (void)read(small_config(type, more)); });
  };
  const std::string latents =
      R"("kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "qk_head_dim": )";
  EXPECT_EQ(message("glm4_moe_lite", R"("num_experts_per_tok": 2, "n_routed_experts": 4, )" + latents + "16"),
            "config.json: /qk_head_dim: found 16, allowed: 12, the sum of \"qk_nope_head_dim\" and "
            "\"qk_rope_head_dim\"");
  EXPECT_EQ(message("gemma3_text", R"("sliding_window": 16, "layer_types": ["full_attention",
      "sliding_attention", "full_attention"])"),
            "config.json: /layer_types: found 3 items, allowed: one for each of the 2 layers");
  const std::string further =
      R"("sliding_window": 16, "num_nextn_predict_layers": 1, "layer_types": ["full_attention",
      "sliding_attention", "full_attention")";
  EXPECT_THAT(read(small_config("gemma3_text", further + "]")).text, testing::HasSubstr("mixers=FW,"));
  EXPECT_EQ(message("gemma3_text", further + R"(, "full_attention"])"),
            "config.json: /layer_types: found 4 items, allowed: one for each of the 2 layers, or with 1 more "
            "for further tokens");
  const std::string jamba = R"("attn_layer_period": 2, "attn_layer_offset": )";
  EXPECT_EQ(message("jamba", jamba + "2"),
            "config.json: /attn_layer_offset: found 2, allowed: 0 to 1, since the period is 2");
  EXPECT_EQ(message("jamba", jamba + R"(1, "num_experts": 4, "num_experts_per_tok": 2,
      "expert_layer_period": 2, "expert_layer_offset": 5)"),
            "config.json: /expert_layer_offset: found 5, allowed: 0 to 1, since the period is 2");
  EXPECT_EQ(
      refusal([] {
        (void)read(R"({"model_type": "qwen3_vl", "text_config": )" +
                   small_config("qwen3_vl_text", R"("head_dim": 8)") +
                   R"(, "vision_config": {"hidden_size": 32, "num_heads": 2, "depth": 2, "patch_size": 4,
      "out_hidden_size": 48}})");
      }),
      "config.json: /vision_config/out_hidden_size: found 48, allowed: 64, the width of the text's layers");
}

// A size that no model of the zoo has is told by the config's key.
TEST(HuggingFace, NamesKeysOfSizesBeyondTheZoo) {
  const auto message = [](const std::string& more) {
    return refusal([&] { (void)read(R"({"model_type": "llama", "num_hidden_layers": 2, )" + more + "}"); });
  };
  for (const auto& [key, value] : {std::pair{"hidden_size", "131073"}, std::pair{"vocab_size", "1000001"},
                                   std::pair{"num_experts", "1025"}, std::pair{"head_dim", "4097"},
                                   std::pair{"intermediate_size", "-1"}}) {
    const std::string found = message(fmt::format("\"{}\": {}", key, value));
    EXPECT_THAT(found, testing::StartsWith(fmt::format("config.json: /{}: ", key)));
    EXPECT_THAT(found, testing::HasSubstr(value));
  }
}

// A scan's config has options of attention and of experts that no layer uses, and its text has none.
TEST(HuggingFace, NamesNoOptionThatNoLayerUses) {
  const std::string text = read(small_config("mamba", R"("state_size": 8, "head_dim": 8)")).text;
  EXPECT_THAT(text, testing::HasSubstr("ssm_states=8"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("activation=")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("ssm_chunk=")));
  EXPECT_GT(make_zoo_model(text).parameter_count(), 0);
}

// What a key asks for and no layer has is told.
TEST(HuggingFace, SaysWhatNoLayerHas) {
  EXPECT_THAT(read(small_config("novel", R"("sliding_window": 16)")).left_out,
              testing::Contains("sliding_window = 16: no layer is named that has it"));
  EXPECT_THAT(read(small_config("llama", R"("num_experts_per_tok": 2)")).left_out,
              testing::Contains("num_experts_per_tok = 2: the config names no experts, so layers are dense"));
  EXPECT_THAT(read(small_config("novel", R"("multi_query": true)")).text, testing::HasSubstr("kv_heads=1"));
  EXPECT_THAT(
      read(small_config("gpt_neo", R"("attention_types": [[["global", "local"], 1]], "window_size": 16)"))
          .text,
      testing::AllOf(testing::HasSubstr("mixers=FW"), testing::HasSubstr("window=16")));
  // Means of 16 patches become a word, and the sides of patches are read around the tower.
  const HuggingFaceModel pooled =
      read(R"({"model_type": "gemma3", "mm_tokens_per_image": 4, "text_config": )" +
           small_config("gemma3_text", R"("head_dim": 8)") +
           R"(, "vision_config": {"hidden_size": 32, "num_attention_heads": 2,
      "num_hidden_layers": 2, "patch_size": 4, "image_size": 32, "odd_key": 5}})");
  EXPECT_THAT(pooled.text,
              testing::AllOf(testing::HasSubstr("vision_words=4"), testing::HasSubstr("vision_pooled=16")));
  EXPECT_THAT(pooled.left_out, testing::Contains("vision_config: odd_key = 5: not known, left out"));
}

// Python writes numbers that JSON does not have.
TEST(HuggingFace, ReadsWhatPythonWrites) {
  const HuggingFaceModel model = read(small_config(
      "llama", R"("odd_limit": [0.0, Infinity], "a": NaN, "b": -Infinity, "c": "Infinity and NaN")"));
  EXPECT_THAT(model.left_out, ElementsAre("odd_limit = [0.0,null]: not known, left out",
                                          "c = \"Infinity and NaN\": not known, left out"));
  EXPECT_THAT(refusal([] { (void)read(R"({"model_type": Infinite})"); }),
              testing::HasSubstr("not valid JSON"));
}

TEST(HuggingFace, KnowsAConfigFromAModelFile) {
  const auto is_config = [](const char* json) {
    return is_hugging_face_config(JsonDocument::parse(json, "file.json"));
  };
  EXPECT_TRUE(is_config(R"({"model_type": "llama"})"));
  EXPECT_FALSE(is_config(R"({"name": "mine", "operators": []})"));
  EXPECT_FALSE(is_config(R"([1, 2])"));
}

}  // namespace
}  // namespace pipesim
