#include "models/hugging_face/decoder_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/zoo/decoder/decoder_layers.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, 3> kTypes{"float32", "float16", "bfloat16"};

const ConfigReader::Names kFurtherTokens{"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                         "num_mtp_modules"};

std::optional<std::string> data_type(const ConfigReader& c) {
  const auto type = c.value({"torch_dtype", "dtype"});
  if (!type) return std::nullopt;
  const std::string name = type->string();
  if (std::ranges::find(kTypes, name) == kTypes.end())
    type->fail(fmt::format("found \"{}\", allowed: float32, float16, bfloat16", name));
  return name;
}

// The zoo's limits, told by the config's own keys.
void check_limits(const ConfigReader& c) {
  const ZooOptions options = decoder_options();
  const auto check = [&](std::string_view option, ConfigReader::Names names) {
    const auto highest =
        static_cast<std::int64_t>(std::ranges::find(options, option, &ZooOption::key)->highest);
    for (const std::string_view name : names) {
      const auto value = c.config().find(name);
      if (value && value->is_number()) static_cast<void>(value->integer(0, highest));
    }
  };
  check("hidden", {"hidden_size", "n_embd", "d_model"});
  check("vocab", {"vocab_size", "padded_vocab_size"});
  check("ffn", {"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff"});
  check("heads", {"num_attention_heads", "n_head", "n_heads"});
  check("head_width", {"head_dim"});
  check("experts", {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"});
  check("expert_ffn", {"moe_intermediate_size", "expert_intermediate_size"});
}

// What needs more than layers side by side, with what it would change.
void refuse_what_has_no_operator(const ConfigReader& c) {
  const auto refuse = [&](const char* key, const char* what) {
    if (const auto found = c.value(key); found && !says_nothing(*found))
      found->fail(fmt::format("found {}; {}", found->text().substr(0, 60), what));
  };
  refuse("compress_ratios", "attention over compressed keys can't be expressed, allowed: models without it");
  refuse("hc_mult", "several residual streams can't be expressed, allowed: models without it");
  refuse("hidden_size_per_layer_input", "embeddings of each layer can't be expressed, allowed: 0");
  refuse("num_kv_shared_layers", "keys that layers share can't be expressed, allowed: 0");
  refuse("cross_attention_layers", "attention to images can't be expressed, allowed: models without it");
  if (const auto width = c.value("word_embed_proj_dim");
      width && width->text() != c.config().at("hidden_size").text())
    width->fail(fmt::format("found {}; embeddings of another width can't be expressed, allowed: hidden_size",
                            width->text()));
}

std::int64_t width_of_ffn(const ConfigReader& c, const DecoderFeatures& f) {
  std::int64_t width = c.size_or({"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff"}, 0);
  if (width == 0) width = c.size_or({"expansion_ratio"}, 4) * f.hidden;
  // These models call the width of an expert or of a shared one intermediate_size.
  if (const auto dense = c.value({"dense_intermediate_size", "intermediate_size_mlp"}))
    width = dense->integer(1, std::int64_t{1} << 19);
  return width;
}

// Some hybrids only name their layers.
std::int64_t count_of_layers(const ConfigReader& c) {
  constexpr std::int64_t kMostLayers = 1000;
  const ConfigReader::Names names{"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
  const auto count = c.value(names);
  const auto list = c.value({"layers_block_type", "layer_types"});
  if (!count && list && list->is_array()) {
    const auto layers = static_cast<std::int64_t>(list->items().size());
    if (layers < 1 || layers > kMostLayers)
      list->fail(fmt::format("found {} layers, allowed: 1 to {}", layers, kMostLayers));
    return layers;
  }
  const std::int64_t layers = c.size(names);
  if (layers > kMostLayers) count->fail(fmt::format("found {}, allowed: 1 to {}", layers, kMostLayers));
  return layers;
}

void read_sizes(const ConfigReader& c, const ConfigReader& whole, const DecoderFamily& family,
                DecoderFeatures& f) {
  f.dtype = data_type(c);
  if (!f.dtype) f.dtype = data_type(whole);
  const std::int64_t positions = c.size_or(
      {"max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "n_ctx"},
      kLongestSequence);
  f.sequence = std::min(positions, kLongestSequence);
  f.layers = count_of_layers(c);
  f.further_layers = c.size_or(kFurtherTokens, 0);
  f.hidden = c.size({"hidden_size", "n_embd", "d_model"});
  f.vocabulary = c.size({"vocab_size", "padded_vocab_size"});
  f.ffn = width_of_ffn(c, f);
  const auto tied =
      c.value("tie_word_embeddings") ? c.value("tie_word_embeddings") : whole.value("tie_word_embeddings");
  f.tied = tied ? tied->boolean() : family.tied;
  f.projection_bias = family.projection_bias;
  f.position = family.position;
  if (f.position == "learned") f.position_rows = positions;
  f.norm = family.norm;
  f.norms = family.norms;
  f.residual = family.residual;
  f.gated = family.gated;
  f.ffn_bias = family.ffn_bias;
}

// What a few families say by keys of their own.
void read_own_keys(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  if (const auto parallel = c.value({"use_parallel_residual", "parallel_attn"}))
    f.residual = !parallel->boolean()          ? "serial"
                 : family.residual == "serial" ? "parallel"
                                               : std::string(family.residual);
  if (c.flag_or({"new_decoder_architecture"}, false)) f.residual = "parallel-two-norms";
  if (const auto layer_norms = c.value("num_ln_in_parallel_attn");
      layer_norms && layer_norms->integer(0, 2) == 1)
    f.residual = "parallel";
  f.ffn_bias = c.flag_or({"mlp_bias"}, f.ffn_bias);
  if (c.word({"position_embedding_type"}) == "nope") f.position = "none";
  if (family.type == "mpt" && !c.flag_or({"alibi"}, false))
    f.position = "learned", f.position_rows = f.sequence;
  if (!c.flag_or({"do_layer_norm_before"}, true)) {
    c.config()
        .at("do_layer_norm_before")
        .fail("found false; norms behind the sum can't be expressed, allowed: true");
  }
  f.dropout = c.number_or({"resid_pdrop", "residual_dropout", "hidden_dropout", "dropout"}, 0, 1, 0);
  c.pass_over({"embd_pdrop", "embedding_dropout", "activation_dropout", "layerdrop", "resid_dropout"});
  constexpr double kUsualDeviation = 0.02;
  f.norm_epsilon = c.number_or({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon",
                                "layernorm_epsilon", "norm_eps"},
                               0, 1, family.norm_epsilon);
  f.init_deviation = c.number_or({"initializer_range", "init_std"}, 0, 1, kUsualDeviation);
  if (f.further_layers > 0) {
    const JsonValue count = *c.value(kFurtherTokens);
    f.overruled.emplace_back("further_tokens", fmt::format("{} = {}: no further tokens are predicted",
                                                           key_of(count), count.text()));
  }
  c.pass_over({"use_mtp", "mtp_transformer_layers", "mtp_use_dedicated_embeddings",
               "mtp_hybrid_override_pattern", "mtp_layers_block_type"});
}

// Factors by which some models multiply, which kernels that are there anyway do, and what decides no cost.
void pass_over_factors(const ConfigReader& c) {
  c.pass_over({"embedding_multiplier",
               "residual_multiplier",
               "logits_scaling",
               "attention_multiplier",
               "logit_scale",
               "query_pre_attn_scalar",
               "attention_value_scale",
               "scale_attn_weights",
               "scale_attn_by_inverse_layer_idx",
               "reorder_and_upcast_attn",
               "attn_temperature_tuning",
               "floor_scale",
               "attn_scale",
               "rope_theta",
               "swiglu_limit",
               "swiglu_alpha",
               "use_gemma_norm",
               "norm_after_gate",
               "activation_situ_beta",
               "activation_situ_linear_beta",
               "gate_lower_bound",
               "latent_moe_use_norm",
               "mup_enabled",
               "mup_attn_multiplier",
               "mup_use_scaling",
               "dim_model_base",
               "scale_emb",
               "scale_depth",
               "qk_nope_head_dim",
               "original_max_position_embeddings",
               "initial_context_length",
               "max_position_embeddings",
               "vocab_size_per_layer_input",
               "vision_soft_tokens_per_image",
               "for_llm_class",
               "layer_norm_bias",
               "clip_qkv",
               "attention_layers",
               "z_loss_weight",
               "model_max_length",
               "cache_implementation",
               "init_method",
               "normalization_function",
               "moe_loss_weight",
               "moe_jitter_eps",
               "moe_capacity",
               "moe_use_aux_free",
               "rmsnorm",
               "init_device",
               "output_gate_type",
               "mixer_rms_eps",
               "order_of_interleaved_layers",
               "attn_rotary_emb",
               "use_mambapy",
               "layer_norm_elementwise_affine",
               "swiglu_limits",
               "swiglu_limits_shared"});
}

// Keys that say of a family what the table of families has.
void pass_over_what_the_family_has(const ConfigReader& c, const DecoderFamily& family) {
  if (family.type == "cohere2")
    c.pass_over(
        {"use_parallel_block", "use_gated_activation", "use_embedding_sharing", "position_embedding_type"});
  if (family.type == "hunyuan_v1_moe") c.pass_over({"use_mixed_mlp_moe", "norm_type"});
  if (family.type == "starcoder2") c.pass_over({"norm_type", "mlp_type"});
  if (family.type == "mpt") c.pass_over({"no_bias", "learned_pos_emb", "norm_type"});
  if (family.type == "chatglm") c.pass_over({"post_layer_norm"});
  if (family.type == "gemma4_text") c.pass_over({"use_bidirectional_attention"});
}

}  // namespace

DecoderFeatures read_decoder(const ConfigReader& c, const ConfigReader& whole, const DecoderFamily& family) {
  DecoderFeatures f;
  refuse_what_has_no_operator(c);
  check_limits(c);
  read_sizes(c, whole, family, f);
  read_layers(c, family, f);
  f.activation = activation_of(c, family, f);
  read_own_keys(c, family, f);
  read_attention(c, family, f);
  read_rotary(c, family, f);
  read_experts(c, family, f);
  read_scans(c, f);
  pass_over_factors(c);
  if (c.value("quantization_config") || whole.value("quantization_config"))
    f.notes.emplace_back("quantization_config: weights and products are in the model's type");
  if (!family.left_out.empty()) f.notes.emplace_back(family.left_out);
  pass_over_what_the_family_has(c, family);
  read_vision(whole, f);
  c.note_unread_keys("", f.notes);
  if (&whole == &c) return f;
  whole.pass_over(
      {"text_config", "language_config", "llm_config", "tie_word_embeddings", "quantization_config"});
  whole.note_unread_keys("", f.notes);
  return f;
}

}  // namespace pipesim
