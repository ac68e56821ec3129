#include "models/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr std::int64_t kLongestSequence = 8192;
constexpr double kUsualDeviation = 0.02;
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

/// Reads a config and writes the text of a zoo model.
class ConfigReader {
 public:
  ConfigReader(const JsonValue& config, std::string zoo_model)
      : config_(config), model_{std::move(zoo_model) + ":", {}} {}

  // Null says as little as a key that is not there.
  [[nodiscard]] std::optional<JsonValue> value(std::string_view key) const {
    auto found = config_.find(key);
    if (found && found->kind() == "null") found.reset();
    return found;
  }
  [[nodiscard]] std::int64_t size(std::string_view key) const { return config_.at(key).integer(1, kLargest); }
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t otherwise) const {
    const auto found = value(key);
    return found ? found->integer(0, kLargest) : otherwise;
  }
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise) const {
    const auto found = value(key);
    return found ? found->boolean() : otherwise;
  }
  [[nodiscard]] double rate(std::string_view key) const {
    const auto found = value(key);
    return found ? found->number(0, 1) : 0;
  }

  /// The quotient; an error that names both where it is none.
  std::int64_t quotient(std::string_view whole, std::string_view part) const {
    const std::int64_t a = size(whole), b = size(part);
    if (a % b != 0)
      config_.at(part).fail(fmt::format("found {}, allowed: a divisor of \"{}\", which is {}", b, whole, a));
    return a / b;
  }

  template <class T>
  void set(std::string_view key, const T& value) {
    if (model_.text.back() != ':') model_.text += ',';
    model_.text += fmt::format("{}={}", key, value);
  }
  void copy(std::string_view zoo_key, std::string_view key) { set(zoo_key, size(key)); }
  /// What the model goes without, though training would differ.
  void leave_out(std::string what) {
    tell(std::move(what));
    partial_ = true;
  }
  /// What is not simulated, but stays in the text.
  void tell(std::string what) { model_.left_out.push_back(std::move(what)); }

  void set_data_type() {
    for (const char* key : {"torch_dtype", "dtype"}) {
      const auto type = value(key);
      if (!type) continue;
      const std::string name = type->string();
      constexpr std::array kTypes{"float32", "float16", "bfloat16"};
      if (std::ranges::find(kTypes, name) == kTypes.end())
        type->fail(fmt::format("found \"{}\", allowed: float32, float16, bfloat16", name));
      return set("dtype", name);
    }
  }
  void set_sequence(std::string_view key) {
    set("sequence", std::min(size_or(key, kLongestSequence), kLongestSequence));
  }
  void set_projection(bool tied_by_default) {
    set("projection", flag_or("tie_word_embeddings", tied_by_default) ? "tied" : "untied");
  }
  void expect_activation(std::string_view key, std::string_view taken) {
    const auto activation = value(key);
    if (!activation) return;
    const std::string name = activation->string();
    if (!name.starts_with(taken)) leave_out(fmt::format("{} = \"{}\": {} is taken", key, name, taken));
  }
  [[nodiscard]] double number_or(std::string_view key, double lowest, double highest,
                                 double otherwise) const {
    const auto found = value(key);
    return found ? found->number(lowest, highest) : otherwise;
  }
  void set_norm_and_start(std::string_view epsilon, double otherwise) {
    set("norm_epsilon", number_or(epsilon, 0, 1, otherwise));
    set("init_deviation", number_or("initializer_range", 0, 1, kUsualDeviation));
  }
  void leave_out_quantization() {
    if (value("quantization_config"))
      tell("quantization_config: weights and products are in the model's type");
  }

  [[nodiscard]] const JsonValue& config() const { return config_; }
  HuggingFaceModel model() && {
    if (partial_) set("partial", "yes");
    return std::move(model_);
  }

 private:
  const JsonValue& config_;
  HuggingFaceModel model_;
  bool partial_ = false;
};

// What Transformers takes where a config does not say it.
struct UsualDefinition {
  double rotary_base = 10000, norm_epsilon = 1e-6;
};

constexpr double kLargestScaling = 1e4;

void read_llama3_scaling(ConfigReader& c, const ConfigReader& scaling) {
  c.set("rotary_original", scaling.size("original_max_position_embeddings"));
  c.set("rotary_low", scaling.number_or("low_freq_factor", 0, kLargestScaling, 1));
  c.set("rotary_high", scaling.number_or("high_freq_factor", 0, kLargestScaling, 4));
}

void read_yarn_scaling(ConfigReader& c, const ConfigReader& scaling) {
  const JsonValue& json = scaling.config();
  for (const char* key : {"attention_factor", "truncate"}) {
    if (const auto found = scaling.value(key))
      found->fail(fmt::format("found {}, allowed: yarn without it", found->text()));
  }
  const auto original = scaling.value("original_max_position_embeddings");
  if (!original && !c.value("max_position_embeddings"))
    json.fail("\"original_max_position_embeddings\" is missing");
  c.set("rotary_original", original ? original->integer(1, kLargest) : c.size("max_position_embeddings"));
  c.set("rotary_low", scaling.number_or("beta_slow", 0, kLargestScaling, 1));
  c.set("rotary_high", scaling.number_or("beta_fast", 0, kLargestScaling, 32));
  c.set("rotary_mscale", scaling.number_or("mscale", 0, kLargestScaling, 1));
  c.set("rotary_mscale_all", scaling.number_or("mscale_all_dim", 0, kLargestScaling, 0));
}

// "rope_scaling", or "rope_parameters" of Transformers 5, which has the base as well.
void read_rotary(ConfigReader& c, const UsualDefinition& usual) {
  constexpr double kLargestBase = 1e12;
  const auto parameters = c.value("rope_parameters");
  const auto json = parameters ? parameters : c.value("rope_scaling");
  const double base = c.number_or("rope_theta", 1, kLargestBase, usual.rotary_base);
  if (!json) {
    c.set("rotary_base", base);
    return c.set("rotary_scaling", "none");
  }
  const ConfigReader scaling(*json, "");
  c.set("rotary_base", scaling.number_or("rope_theta", 1, kLargestBase, base));
  const auto type = scaling.value("rope_type") ? scaling.value("rope_type") : scaling.value("type");
  const std::string name = type ? type->string() : "default";
  if (name == "default") return c.set("rotary_scaling", "none");
  if (name != "linear" && name != "llama3" && name != "yarn")
    type->fail(fmt::format("found \"{}\", allowed: default, linear, llama3, yarn", name));
  c.set("rotary_scaling", name);
  c.set("rotary_factor", scaling.config().at("factor").number(1, kLargestScaling));
  if (name == "llama3") read_llama3_scaling(c, scaling);
  if (name == "yarn") read_yarn_scaling(c, scaling);
}

// What Llama's relatives have in common.
void read_llama_sizes(ConfigReader& c, const UsualDefinition& usual = {}) {
  c.set_data_type();
  c.set_sequence("max_position_embeddings");
  c.copy("layers", "num_hidden_layers");
  c.copy("hidden", "hidden_size");
  c.copy("heads", "num_attention_heads");
  c.set("head_width",
        c.value("head_dim") ? c.size("head_dim") : c.quotient("hidden_size", "num_attention_heads"));
  if (c.value("num_key_value_heads")) c.quotient("num_attention_heads", "num_key_value_heads");
  c.set("kv_heads", c.size_or("num_key_value_heads", c.size("num_attention_heads")));
  c.copy("vocab", "vocab_size");
  c.set_projection(false);
  c.expect_activation("hidden_act", "silu");
  if (c.rate("attention_dropout") > 0) c.leave_out("attention_dropout: no scores are dropped");
  c.leave_out_quantization();
  read_rotary(c, usual);
  c.set_norm_and_start("rms_norm_eps", usual.norm_epsilon);
}

void leave_out_window(ConfigReader& c, bool used_by_default) {
  if (!c.flag_or("use_sliding_window", used_by_default)) return;
  const std::int64_t window = c.size_or("sliding_window", 0);
  const std::int64_t sequence =
      std::min(c.size_or("max_position_embeddings", kLongestSequence), kLongestSequence);
  if (window > 0 && window < sequence)
    c.leave_out(fmt::format("sliding_window = {}: attention sees all earlier positions", window));
}

HuggingFaceModel read_llama(const JsonValue& config) {
  ConfigReader c(config, "llama");
  read_llama_sizes(c);
  c.copy("ffn", "intermediate_size");
  c.set("attention_bias", c.flag_or("attention_bias", false) ? "all" : "none");
  if (c.flag_or("mlp_bias", false)) c.leave_out("mlp_bias: the feed-forward part has no biases");
  leave_out_window(c, true);
  return std::move(c).model();
}

HuggingFaceModel read_qwen2(const JsonValue& config) {
  ConfigReader c(config, "llama");
  read_llama_sizes(c);
  c.copy("ffn", "intermediate_size");
  c.set("attention_bias", "qkv");
  leave_out_window(c, false);
  return std::move(c).model();
}

HuggingFaceModel read_qwen3(const JsonValue& config) {
  ConfigReader c(config, "qwen3-8b");
  read_llama_sizes(c);
  c.copy("ffn", "intermediate_size");
  c.set("attention_bias", c.flag_or("attention_bias", false) ? "all" : "none");
  leave_out_window(c, false);
  return std::move(c).model();
}

void read_top_k(ConfigReader& c, std::string_view experts) {
  c.copy("experts", experts);
  if (c.size("num_experts_per_tok") > c.size(experts)) {
    c.config()
        .at("num_experts_per_tok")
        .fail(fmt::format("found {}, allowed: up to \"{}\", which is {}", c.size("num_experts_per_tok"),
                          experts, c.size(experts)));
  }
  c.copy("top_k", "num_experts_per_tok");
}

// `shares`: whether weights are shares of the chosen experts' scores where the config does not say it.
void read_router(ConfigReader& c, bool shares) {
  constexpr double kLargestWeight = 1e3, kUsualWeight = 0.001;
  c.set("expert_shares", c.flag_or("norm_topk_prob", shares) ? "chosen" : "all");
  c.set("balance_loss", c.number_or("router_aux_loss_coef", 0, kLargestWeight, kUsualWeight));
}

HuggingFaceModel read_mixtral(const JsonValue& config) {
  ConfigReader c(config, "mixtral-8x7b");
  read_llama_sizes(c, {.rotary_base = 1e6, .norm_epsilon = 1e-5});
  c.copy("ffn", "intermediate_size");
  read_top_k(c, "num_local_experts");
  read_router(c, true);
  leave_out_window(c, true);
  return std::move(c).model();
}

// All layers must have experts.
void require_experts_everywhere(const ConfigReader& c) {
  if (const std::int64_t step = c.size_or("decoder_sparse_step", 1); step != 1)
    c.config()
        .at("decoder_sparse_step")
        .fail(fmt::format("found {}, allowed: 1, experts in every layer", step));
  if (const auto dense = c.value("mlp_only_layers"); dense && !dense->items().empty())
    dense->fail(fmt::format("found {}, allowed: [], experts in every layer", dense->text()));
}

HuggingFaceModel read_qwen_experts(const JsonValue& config, std::string zoo_model) {
  ConfigReader c(config, std::move(zoo_model));
  read_llama_sizes(c);
  require_experts_everywhere(c);
  c.copy("ffn", "moe_intermediate_size");
  read_top_k(c, "num_experts");
  read_router(c, false);
  leave_out_window(c, false);
  c.set("shared_ffn", c.size_or("shared_expert_intermediate_size", 0));
  return std::move(c).model();
}

HuggingFaceModel read_qwen2_experts(const JsonValue& config) {
  HuggingFaceModel model = read_qwen_experts(config, "mixtral-8x7b");
  model.text += ",attention_bias=qkv";
  return model;
}

HuggingFaceModel read_qwen3_experts(const JsonValue& config) {
  return read_qwen_experts(config, "qwen3-235b");
}

HuggingFaceModel read_gpt2(const JsonValue& config) {
  ConfigReader c(config, "gpt");
  c.set_data_type();
  c.set_sequence("n_positions");
  c.copy("layers", "n_layer");
  c.copy("hidden", "n_embd");
  c.quotient("n_embd", "n_head");
  c.copy("heads", "n_head");
  c.set("ffn", c.size_or("n_inner", 0));
  c.copy("vocab", "vocab_size");
  c.copy("positions", "n_positions");
  c.set("dropout", c.rate("resid_pdrop"));
  c.set_projection(true);
  c.expect_activation("activation_function", "gelu");
  c.set_norm_and_start("layer_norm_epsilon", 1e-5);
  return std::move(c).model();
}

void read_deepseek_router(ConfigReader& c) {
  constexpr double kLargestWeight = 1e3, kUsualScale = 2.5, kUsualBalance = 0.0001;
  c.set("router_groups", c.size_or("n_group", 8));
  c.set("router_top_groups", c.size_or("topk_group", 4));
  c.set("router_scale", c.number_or("routed_scaling_factor", 0, kLargestWeight, kUsualScale));
  c.set("balance_loss", c.number_or("aux_loss_alpha", 0, kLargestWeight, kUsualBalance));
  if (c.size_or("n_group", 1) > 1)
    c.tell(fmt::format("n_group = {}: tokens go to experts of all groups", c.size_or("n_group", 1)));
  if (!c.flag_or("norm_topk_prob", true))
    c.config()
        .at("norm_topk_prob")
        .fail("found false, allowed: true, weights that are shares of the chosen experts' scores");
}

HuggingFaceModel read_deepseek_v3(const JsonValue& config) {
  ConfigReader c(config, "deepseek-v3");
  c.set_data_type();
  c.set_sequence("max_position_embeddings");
  c.copy("layers", "num_hidden_layers");
  c.copy("hidden", "hidden_size");
  c.copy("heads", "num_attention_heads");
  c.copy("head_width", "qk_nope_head_dim");
  c.copy("rotary_width", "qk_rope_head_dim");
  c.copy("value_width", "v_head_dim");
  c.set("query_latent", c.value("q_lora_rank") ? c.size("q_lora_rank") : 0);
  c.copy("key_latent", "kv_lora_rank");
  c.set("dense_layers", c.size_or("first_k_dense_replace", 0));
  c.copy("ffn", "intermediate_size");
  c.copy("expert_ffn", "moe_intermediate_size");
  c.set("shared_experts", c.size_or("n_shared_experts", 0));
  read_top_k(c, "n_routed_experts");
  c.copy("vocab", "vocab_size");
  c.expect_activation("hidden_act", "silu");
  if (c.flag_or("tie_word_embeddings", false))
    c.leave_out("tie_word_embeddings: the projection has its own weight");
  if (const std::int64_t frequency = c.size_or("moe_layer_freq", 1); frequency != 1)
    config.at("moe_layer_freq").fail(fmt::format("found {}, allowed: 1, experts in every layer", frequency));
  c.set("further_tokens", c.size_or("num_nextn_predict_layers", 0));
  if (const std::int64_t more = c.size_or("num_nextn_predict_layers", 0); more > 0)
    c.tell(fmt::format("num_nextn_predict_layers = {}: no further tokens are predicted", more));
  read_deepseek_router(c);
  read_rotary(c, {});
  c.set_norm_and_start("rms_norm_eps", 1e-6);
  c.leave_out_quantization();
  return std::move(c).model();
}

struct Architecture {
  std::string_view type;
  HuggingFaceModel (*read)(const JsonValue& config);
};

constexpr std::array kArchitectures{Architecture{"llama", read_llama},
                                    Architecture{"mistral", read_llama},
                                    Architecture{"mixtral", read_mixtral},
                                    Architecture{"qwen2", read_qwen2},
                                    Architecture{"qwen2_moe", read_qwen2_experts},
                                    Architecture{"qwen3", read_qwen3},
                                    Architecture{"qwen3_moe", read_qwen3_experts},
                                    Architecture{"gpt2", read_gpt2},
                                    Architecture{"deepseek_v3", read_deepseek_v3},
                                    Architecture{"kimi_k2", read_deepseek_v3}};

// Says what the zoo's networks lack for architectures that people ask for.
struct Missing {
  std::string_view type, what;
};
constexpr std::array kMissing{
    Missing{"gemma", "feed-forward parts gated by GELU, and embeddings scaled by their width"},
    Missing{"gemma2", "norms behind attention, capped scores and layers that see a window"},
    Missing{"gemma3_text", "norms behind attention and layers that see a window"},
    Missing{"gpt_neox", "attention and feed-forward part side by side"},
    Missing{"falcon", "attention and feed-forward part side by side"},
    Missing{"phi", "attention and feed-forward part side by side"},
    Missing{"phi3", "rotary embeddings of a part of each head"},
    Missing{"cohere", "attention and feed-forward part side by side"},
    Missing{"llama4_text", "attention in chunks, and experts in some layers only"},
    Missing{"gpt_oss", "sinks of attention, and layers that see a window"},
    Missing{"deepseek_v2", "routing within groups of experts by softmax"},
    Missing{"mamba", "state-space layers"},
    Missing{"mamba2", "state-space layers"},
    Missing{"jamba", "state-space layers"},
    Missing{"qwen3_next", "linear attention"}};

}  // namespace

bool is_hugging_face_config(const JsonValue& json) {
  return json.is_object() && json.find("model_type") && !json.find("operators");
}

std::vector<std::string> hugging_face_types() {
  std::vector<std::string> types;
  for (const Architecture& a : kArchitectures) types.emplace_back(a.type);
  return types;
}

HuggingFaceModel hugging_face_model(const JsonValue& config) {
  const JsonValue type = config.at("model_type");
  const std::string name = type.string();
  const auto known = std::ranges::find(kArchitectures, name, &Architecture::type);
  if (known != kArchitectures.end()) return known->read(config);
  const std::vector<std::string> types = hugging_face_types();
  const auto missing = std::ranges::find(kMissing, name, &Missing::type);
  if (missing != kMissing.end())
    type.fail(fmt::format("architecture \"{}\" can't be read: missing are {}; allowed: {}", name,
                          missing->what, list_names(types)));
  type.fail(fmt::format("unknown architecture \"{}\"{}; allowed: {}", name, did_you_mean(name, types),
                        list_names(types)));
}

}  // namespace pipesim
