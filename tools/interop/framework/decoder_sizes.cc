#include "tools/interop/framework/decoder_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "models/precision.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

// Networks of the zoo that frameworks have, told apart by an option that only they take.
enum class DecoderNetwork : std::uint8_t { Gpt, Llama, Experts, Latent, Letters };

bool takes_option(const ZooModel& model, std::string_view key) {
  return std::ranges::find(model.options, key, &ZooOption::key) != model.options.end();
}

std::optional<DecoderNetwork> network_of(const ZooModel& model) {
  if (takes_option(model, "mixers")) return DecoderNetwork::Letters;
  if (takes_option(model, "query_latent")) return DecoderNetwork::Latent;
  if (takes_option(model, "shared_ffn")) return DecoderNetwork::Experts;
  if (takes_option(model, "attention_bias")) return DecoderNetwork::Llama;
  if (takes_option(model, "kept")) return DecoderNetwork::Gpt;
  return std::nullopt;
}

// The only one with slopes. Its sizes are written, and not read, as no export has a setting for them.
bool has_slopes(const ZooModel& model) { return model.name.starts_with("bloom"); }

bool has_head_norm(const ZooModel& model) { return model.name.starts_with("qwen3"); }

struct OpenedDecoder {
  const ZooModel& model;
  DecoderNetwork network;
  ZooValues values;
};

bool has_head_norm(const OpenedDecoder& d) {
  if (d.network == DecoderNetwork::Letters) return d.values.word("head_norm") != "none";
  return has_head_norm(d.model);
}

OpenedDecoder open_decoder(const std::string& text) {
  const std::string zoo = model_of_config(text);
  const std::string name = zoo.substr(0, zoo.find(':'));
  const auto model = std::ranges::find(zoo_models(), name, &ZooModel::name);
  const std::optional<DecoderNetwork> network =
      model == zoo_models().end() ? std::nullopt : network_of(*model);
  if (!network)
    throw InputError(fmt::format(
        "model \"{}\": frameworks are given the sizes of a decoder, allowed: gpt, llama, "
        "mixtral, qwen3, deepseek and decoder models of the zoo, or a config.json of Hugging Face",
        text));
  const std::size_t colon = zoo.find(':');
  const std::string assignments = colon == std::string::npos ? "" : zoo.substr(colon + 1);
  return {*model, *network, ZooValues(model->name, model->options, assignments)};
}

RotaryScaling::Way way_named(const std::string& name) {
  using Way = RotaryScaling::Way;
  return name == "linear" ? Way::Linear : name == "llama3" ? Way::Llama3 : Way::Yarn;
}
std::string name_of(RotaryScaling::Way way) {
  using Way = RotaryScaling::Way;
  return way == Way::Linear ? "linear" : way == Way::Llama3 ? "llama3" : "yarn";
}

std::optional<RotaryScaling> rotary_scaling(const ZooValues& v) {
  if (!v.has("rotary_scaling") || v.word("rotary_scaling") == "none") return std::nullopt;
  RotaryScaling scaling{.way = way_named(v.word("rotary_scaling")), .factor = v.real("rotary_factor")};
  if (scaling.way == RotaryScaling::Way::Linear) return scaling;
  scaling.original = v.integer("rotary_original");
  scaling.low = v.real("rotary_low");
  scaling.high = v.real("rotary_high");
  if (scaling.way == RotaryScaling::Way::Llama3) return scaling;
  scaling.mscale = v.real("rotary_mscale");
  scaling.mscale_all = v.real("rotary_mscale_all");
  return scaling;
}

std::int64_t or_derived(std::int64_t value, std::int64_t otherwise) { return value > 0 ? value : otherwise; }

DecoderSizes::Biases decoder_biases(const OpenedDecoder& d) {
  using Biases = DecoderSizes::Biases;
  if (d.network == DecoderNetwork::Latent) return Biases::None;
  if (d.network == DecoderNetwork::Gpt) return d.values.word("bias") == "yes" ? Biases::Layers : Biases::None;
  const std::string& written = d.values.word("attention_bias");
  if (d.network == DecoderNetwork::Letters && written == "all" &&
      (d.values.word("ffn_bias") == "yes" || d.values.word("expert_bias") == "yes"))
    return Biases::Layers;
  return written == "all" ? Biases::Attention : written == "qkv" ? Biases::Qkv : Biases::None;
}

std::optional<DecoderExperts> decoder_experts(const OpenedDecoder& d, std::int64_t ffn) {
  const ZooValues& v = d.values;
  if (!v.has("experts") || (d.network == DecoderNetwork::Gpt && v.integer("experts") == 1))
    return std::nullopt;
  if (d.network == DecoderNetwork::Letters && v.word("ffns").find_first_of("EB") == std::string::npos)
    return std::nullopt;
  DecoderExperts experts{.count = v.integer("experts"), .top_k = v.integer("top_k"), .ffn = ffn};
  experts.capacity = v.real("capacity_factor");
  if (v.has("balance_loss")) experts.balance_loss = v.real("balance_loss");
  if (d.network == DecoderNetwork::Experts) {
    experts.shared_ffn = v.integer("shared_ffn");
    experts.gated_shared = experts.shared_ffn > 0;
    experts.chosen_shares = v.word("expert_shares") == "chosen";
  }
  if (d.network == DecoderNetwork::Letters) {
    experts.ffn = v.integer("expert_ffn");
    experts.shared_ffn = v.integer("shared_ffn");
    experts.gated_shared = v.word("shared_gate") == "yes";
    experts.chosen_shares = v.word("expert_shares") == "chosen";
  }
  if (d.network == DecoderNetwork::Latent) {
    experts.ffn = v.integer("expert_ffn");
    experts.shared_ffn = experts.ffn * v.integer("shared_experts");
    experts.dense_layers = v.integer("dense_layers");
    experts.chosen_shares = true;
    experts.groups = v.integer("router_groups");
    experts.top_groups = v.integer("router_top_groups");
    experts.scale = v.real("router_scale");
  }
  return experts;
}

std::optional<std::string> scaling_value_for(const std::string& key, const RotaryScaling& scaling) {
  const bool linear = scaling.way == RotaryScaling::Way::Linear;
  if (key == "rotary_factor") return fmt::format("{}", scaling.factor);
  if (!linear && key == "rotary_original") return fmt::format("{}", scaling.original);
  if (!linear && key == "rotary_low") return fmt::format("{}", scaling.low);
  if (!linear && key == "rotary_high") return fmt::format("{}", scaling.high);
  if (scaling.way != RotaryScaling::Way::Yarn) return std::nullopt;
  if (key == "rotary_mscale") return fmt::format("{}", scaling.mscale);
  if (key == "rotary_mscale_all") return fmt::format("{}", scaling.mscale_all);
  return std::nullopt;
}

// Returns the value of an option that defines the model beside its sizes; nothing for other options.
std::optional<std::string> definition_value_for(const std::string& key, const DecoderSizes& s) {
  if (key == "norm_epsilon") return fmt::format("{}", s.norm_epsilon);
  if (key == "init_deviation") return fmt::format("{}", s.init_deviation);
  if (key == "partial") return s.partial ? "yes" : "no";
  if (key == "lora") return fmt::format("{}", s.lora);
  if (key == "further_tokens") return fmt::format("{}", s.further_tokens);
  if (key == "rotary_base" && s.rotary_base > 0) return fmt::format("{}", s.rotary_base);
  if (key == "rotary_scaling") return s.rotary_scaling ? name_of(s.rotary_scaling->way) : "none";
  if (s.rotary_scaling) {
    if (const auto value = scaling_value_for(key, *s.rotary_scaling)) return value;
  }
  if (!s.experts) return std::nullopt;
  if (key == "expert_shares") return s.experts->chosen_shares ? "chosen" : "all";
  if (key == "balance_loss") return fmt::format("{}", s.experts->balance_loss);
  if (key == "router_groups") return fmt::format("{}", s.experts->groups);
  if (key == "router_top_groups") return fmt::format("{}", s.experts->top_groups);
  if (key == "router_scale") return fmt::format("{}", s.experts->scale);
  return std::nullopt;
}

// Returns what the text of a zoo model says for an option; nothing where its default stands.
std::optional<std::string> value_for(const ZooOption& option, const DecoderSizes& s) {
  // 0 stands for what follows from other sizes.
  const auto derived = [&](std::int64_t value, std::int64_t follows) {
    return fmt::format("{}", option.default_value == "0" && value == follows ? 0 : value);
  };
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  const std::string& key = option.key;
  if (key == "dtype") return std::string(name_of(s.type));
  if (key == "swiglu") return s.separate_gate ? "separate" : "as-kept";
  if (key == "products") return s.products;
  if (key == "own_at_start") return number(s.own_at_start);
  if (key == "own_at_end") return number(s.own_at_end);
  if (key == "sequence") return number(s.sequence);
  if (key == "layers") return number(s.layers);
  if (key == "hidden") return number(s.hidden);
  if (key == "heads") return number(s.heads);
  if (key == "head_width") return derived(s.head_width, s.hidden / s.heads);
  if (key == "kv_heads") return derived(s.kv_heads, s.heads);
  if (key == "ffn") return derived(s.ffn, 4 * s.hidden);
  if (key == "vocab") return number(s.vocabulary);
  if (key == "projection") return s.tied ? "tied" : "untied";
  if (key == "attention") return s.writes_scores ? "scores" : "fused";
  if (key == "dropout") return fmt::format("{}", s.dropout);
  if (key == "position") return s.positions > 0 ? "learned" : "rotary";
  if (key == "positions" && s.positions > 0) return number(s.positions);
  if (key == "bias") return s.biases == DecoderSizes::Biases::Layers ? "yes" : "no";
  if (key == "attention_bias")
    return s.biases == DecoderSizes::Biases::Attention ? "all"
           : s.biases == DecoderSizes::Biases::Qkv     ? "qkv"
                                                       : "none";
  if (s.experts && key == "experts") return number(s.experts->count);
  if (s.experts && key == "top_k") return number(s.experts->top_k);
  if (s.experts && key == "capacity_factor") return fmt::format("{}", s.experts->capacity);
  if (s.experts && key == "shared_ffn") return number(s.experts->shared_ffn);
  if (s.experts && key == "expert_ffn") return number(s.experts->ffn);
  if (s.experts && key == "shared_experts") return number(s.experts->shared_ffn / s.experts->ffn);
  if (s.experts && key == "dense_layers") return number(s.experts->dense_layers);
  if (s.latent && key == "query_latent") return number(s.latent->query_rank);
  if (s.latent && key == "key_latent") return number(s.latent->key_rank);
  if (s.latent && key == "rotary_width") return number(s.latent->rotary_width);
  if (s.latent && key == "value_width") return number(s.latent->value_width);
  return definition_value_for(key, s);
}

bool suits_sizes(const ZooModel& model, const DecoderSizes& s) {
  if (s.alibi || has_slopes(model)) return s.alibi && has_slopes(model);
  const std::optional<DecoderNetwork> network = network_of(model);
  if (network == DecoderNetwork::Letters) return false;  // no file of a framework says its letters
  if (!network || has_head_norm(model) != s.head_norm) return false;
  if (*network == DecoderNetwork::Latent) return s.latent.has_value();
  if (s.latent || s.gated == (*network == DecoderNetwork::Gpt)) return false;
  return *network == DecoderNetwork::Gpt || (*network == DecoderNetwork::Experts) == s.experts.has_value();
}

std::optional<std::string> value_for(const ZooOption& option, const EncoderSizes& s) {
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  const std::string& key = option.key;
  if (key == "dtype") return std::string(name_of(s.type));
  if (key == "sequence") return number(s.sequence);
  if (key == "target") return number(s.target);
  if (key == "layers") return number(s.layers);
  if (key == "hidden") return number(s.hidden);
  if (key == "heads") return number(s.heads);
  if (key == "head_width") return number(s.head_width);
  if (key == "ffn") return number(option.default_value == "0" && s.ffn == 4 * s.hidden ? 0 : s.ffn);
  if (key == "vocab") return number(s.vocabulary);
  if (key == "positions") return number(s.positions);
  if (key == "dropout") return fmt::format("{}", s.dropout);
  if (key == "attention") return s.writes_scores ? "scores" : "fused";
  return std::nullopt;
}

// The shortest text of the models that suit.
template <typename Sizes, typename Suits>
std::string shortest_text(const Sizes& sizes, const Suits& suits) {
  std::optional<std::string> shortest;
  for (const ZooModel& model : zoo_models()) {
    if (!suits(model)) continue;
    std::string assignments;
    for (const ZooOption& option : model.options) {
      const std::optional<std::string> value = value_for(option, sizes);
      if (value) assignments += fmt::format("{}{}={}", assignments.empty() ? "" : ",", option.key, *value);
    }
    const std::string text = ZooValues(model.name, model.options, assignments).name();
    if (!shortest || text.size() < shortest->size()) shortest = text;
  }
  if (!shortest) throw InputError("the zoo has no such model: see \"pipesim models\"");
  return *shortest;
}

}  // namespace

DecoderSizes decoder_sizes(const std::string& model) {
  const OpenedDecoder d = open_decoder(model);
  const ZooValues& v = d.values;
  DecoderSizes s;
  s.gated =
      d.network == DecoderNetwork::Letters ? v.word("gated") == "yes" : d.network != DecoderNetwork::Gpt;
  s.separate_gate = v.has("swiglu") && v.word("swiglu") == "separate";
  s.head_norm = has_head_norm(d);
  s.other_layers = d.network == DecoderNetwork::Letters;
  s.type = v.data_type();
  if (v.has("products")) {
    s.products = product_word(v.word("products"));
    s.own_at_start = v.integer("own_at_start");
    s.own_at_end = v.integer("own_at_end");
  }
  s.sequence = v.integer("sequence");
  s.layers = v.integer("layers");
  s.hidden = v.integer("hidden");
  s.heads = v.integer("heads");
  s.kv_heads = or_derived(v.has("kv_heads") ? v.integer("kv_heads") : 0, s.heads);
  s.head_width = or_derived(v.has("head_width") ? v.integer("head_width") : 0, s.hidden / s.heads);
  s.ffn = or_derived(v.integer("ffn"), 4 * s.hidden);
  s.vocabulary = v.integer("vocab");
  if (v.has("position") && v.word("position") == "learned")
    s.positions = std::max(v.integer("positions"), s.sequence);
  s.biases = decoder_biases(d);
  s.tied = v.has("projection") && v.word("projection") == "tied";
  s.writes_scores = v.word("attention") == "scores";
  if (v.has("dropout")) s.dropout = v.real("dropout");
  s.norm_epsilon = v.real("norm_epsilon");
  s.init_deviation = v.real("init_deviation");
  if (s.positions == 0) s.rotary_base = v.real("rotary_base");
  s.rotary_scaling = rotary_scaling(v);
  s.partial = v.has("partial") && v.word("partial") == "yes";
  if (v.has("lora")) s.lora = v.integer("lora");
  if (v.has("further_tokens")) s.further_tokens = v.integer("further_tokens");
  s.experts = decoder_experts(d, s.ffn);
  if (d.network == DecoderNetwork::Latent)
    s.latent = LatentAttention{v.integer("query_latent"), v.integer("key_latent"), v.integer("rotary_width"),
                               v.integer("value_width")};
  return s;
}

std::string zoo_text(const DecoderSizes& sizes) {
  return shortest_text(sizes, [&](const ZooModel& model) { return suits_sizes(model, sizes); });
}

std::string zoo_text(const EncoderSizes& sizes) {
  return shortest_text(sizes, [&](const ZooModel& model) {
    return sizes.target > 0 ? takes_option(model, "target") && model.name.starts_with("t5")
                            : takes_option(model, "objective") && model.name.starts_with("bert");
  });
}

std::int64_t token_groups(const std::string& model) {
  const OpenedDecoder d = open_decoder(model);
  return d.values.has("token_groups") ? d.values.integer("token_groups") : 1;
}

std::vector<std::string> options_left_out(const std::string& model) {
  const OpenedDecoder d = open_decoder(model);
  std::vector<std::string> left_out;
  const auto leave_out = [&](const char* key, bool is_set) {
    if (is_set) left_out.push_back(fmt::format("{}={}", key, d.values.word(key)));
  };
  for (const char* key : {"loss_chunks", "document_length", "lora", "token_nodes"})
    leave_out(key, d.values.has(key) && d.values.integer(key) > 0);
  for (const char* key : {"dispatch", "swiglu_inputs"})
    leave_out(key, d.values.has(key) && d.values.word(key) != "own");
  return left_out;
}

}  // namespace pipesim
