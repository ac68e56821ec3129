#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/hugging_face/decoder_reader.h"
#include "models/zoo/decoder/decoder_layers.h"

namespace pipesim {
namespace {

namespace mixer = mixer_letters;

constexpr double kLargestCap = 1e6;

// Elements of a head that are rotated; 0 stands for all.
std::int64_t rotated(double part, std::int64_t width) {
  const auto elements = static_cast<std::int64_t>(std::floor(part * static_cast<double>(width) / 2)) * 2;
  return elements >= width ? 0 : std::max<std::int64_t>(elements, 2);
}

// The part of a head that is rotated: one for all layers, or one in the parameters of each type of layer.
double rotary_part(const ConfigReader& c, const DecoderFamily& family, std::string_view layers) {
  double part = c.number_or({"partial_rotary_factor", "rotary_pct", "rope_pct"}, 0, 1, family.rotary_part);
  const auto parameters = c.object("rope_parameters");
  if (!parameters) return part;
  part = parameters->number_or({"partial_rotary_factor"}, 0, 1, part);
  const auto own = parameters->object(layers);
  return own ? own->number_or({"partial_rotary_factor"}, 0, 1, part) : part;
}

std::int64_t kv_heads(const ConfigReader& c, const DecoderFamily& family, std::int64_t heads) {
  const bool one = c.flag_or({"multi_query", "multi_query_attention"}, family.type == "falcon");
  // Falcon's older layers have one head of keys whatever the number says; ChatGLM counts groups.
  const bool newer = c.flag_or({"new_decoder_architecture"}, false);
  if (family.type == "falcon" && one && !newer) {
    c.pass_over({"num_kv_heads"});
    return 1;
  }
  const ConfigReader::Names counts{"num_key_value_heads", "multi_query_group_num", "n_head_kv",
                                   "num_kv_heads", "kv_n_heads"};
  return one && !c.value(counts) ? 1 : c.size_or(counts, heads);
}

void check_groups(const ConfigReader& c, std::int64_t heads, std::int64_t kv, ConfigReader::Names names) {
  if (kv >= 1 && heads % kv == 0) return;
  const auto place = c.value(names);
  const std::string message =
      fmt::format("found {}, allowed: a divisor of the {} attention heads", kv, heads);
  place ? place->fail(message) : c.config().fail(message);
}

HeadFeatures heads_of_all(const ConfigReader& c, const DecoderFamily& family, const DecoderFeatures& f) {
  HeadFeatures heads = f.attention.all;  // blocks say some of them
  const ConfigReader::Names count{"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"};
  if (heads.heads == 0) heads.heads = c.size(count);
  if (heads.kv_heads == 0) heads.kv_heads = kv_heads(c, family, heads.heads);
  check_groups(c, heads.heads, heads.kv_heads,
               {"num_key_value_heads", "multi_query_group_num", "n_head_kv", "num_kv_heads", "kv_n_heads"});
  const auto width = c.value({"head_dim", "attention_head_dim", "kv_channels"});
  if (width) {
    heads.width = width->integer(1, std::int64_t{1} << 20);
  } else if (family.head_width > 0) {
    heads.width = family.head_width;
  } else if (f.hidden % heads.heads != 0) {
    c.value(count)->fail(
        fmt::format("found {}, allowed: a divisor of \"hidden_size\", which is {}", heads.heads, f.hidden));
  } else {
    heads.width = f.hidden / heads.heads;
  }
  heads.value_width = c.size_or({"v_head_dim"}, heads.width);
  const auto rotary = c.value("rotary_dim");
  heads.rotary_width = rotary ? rotary->integer(0, heads.width)
                              : rotated(rotary_part(c, family, "full_attention"), heads.width);
  if (rotary && heads.rotary_width % 2 != 0)
    rotary->fail(
        fmt::format("found {}, allowed: an even number, since pairs are rotated", heads.rotary_width));
  if (heads.rotary_width == heads.width) heads.rotary_width = 0;
  return heads;
}

// Gemma 4 gives layers without a window heads of their own, other models those with one.
void read_heads_of_layers(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  HeadFeatures &all = f.attention.all, &window = f.attention.window;
  all = heads_of_all(c, family, f);
  window = all;
  window.rotary_width = rotated(rotary_part(c, family, "sliding_attention"), window.width);
  if (c.value("rotary_dim")) window.rotary_width = all.rotary_width;
  if (const auto width = c.value("global_head_dim")) {
    all.width = all.value_width = width->integer(1, std::int64_t{1} << 20);
    all.kv_heads = c.size_or({"num_global_key_value_heads"}, all.kv_heads);
    all.rotary_width = rotated(rotary_part(c, family, "full_attention"), all.width);
    f.attention.values_are_keys = c.flag_or({"attention_k_eq_v"}, false);
  }
  window.heads = c.size_or({"swa_num_attention_heads"}, window.heads);
  window.kv_heads = c.size_or({"swa_num_key_value_heads"}, window.kv_heads);
  if (const auto width = c.value("swa_head_dim")) {
    window.width = width->integer(1, std::int64_t{1} << 20);
    window.rotary_width = rotated(rotary_part(c, family, "sliding_attention"), window.width);
  }
  window.value_width =
      c.size_or({"swa_v_head_dim"}, c.value("v_head_dim") ? window.value_width : window.width);
  check_groups(c, all.heads, all.kv_heads, {"num_global_key_value_heads", "num_key_value_heads"});
  check_groups(c, window.heads, window.kv_heads, {"swa_num_key_value_heads", "num_key_value_heads"});
}

// Windows and chunks that no sequence of the model leaves are none.
void read_windows(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  AttentionFeatures& a = f.attention;
  a.window_keys = c.size_or({"sliding_window", "sliding_window_size", "window_size"}, 0);
  a.chunk = family.type == "llama4_text" ? c.size_or({"attention_chunk_size"}, 0) : 0;
  c.pass_over({"attention_chunk_size"});
  const std::int64_t longest = c.size_or({"max_position_embeddings"}, std::int64_t{1} << 40);
  const bool windows = f.mixers.find(mixer::kWindow) != std::string::npos;
  if (windows && a.window_keys == 0)
    c.config().fail("layers with a window are named, but \"sliding_window\" is missing");
  if (a.window_keys >= longest) std::ranges::replace(f.mixers, mixer::kWindow, mixer::kFull);
  if (a.window_keys > 0 && a.window_keys < longest && !windows && c.flag_or({"use_sliding_window"}, true))
    f.left_out.push_back(fmt::format("sliding_window = {}: no layer is named that has it", a.window_keys));
  if (f.mixers.find(mixer::kWindow) == std::string::npos) {
    a.window_keys = 0;
    a.window = a.all;
  }
}

void read_bias(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  std::string& bias = f.attention.bias;
  bias = family.attention_bias;
  if (const auto given =
          c.value({"attention_bias", "use_qkv_bias", "add_qkv_bias", "qkv_bias", "use_attention_bias"})) {
    const bool some = given->boolean();
    const bool qkv = family.attention_biases == "qkv" || !c.value("attention_bias");
    bias = !some ? "none" : qkv ? "qkv" : "all";
  }
  if (c.flag_or({"attention_out_bias"}, false)) bias = "all";
  if (const auto all = c.value({"bias", "use_bias", "enable_bias"}); all && family.type != "nemotron_h") {
    const bool some = all->boolean();
    bias = some ? "all" : "none";
    f.ffn_bias = some;
  }
}

void read_norms_of_heads(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  std::string& norm = f.attention.head_norm;
  norm = family.head_norm;
  if (const auto used = c.value({"use_qk_norm", "qk_layernorm", "add_qk_norm"});
      used && family.type != "llama4_text") {
    const bool on = used->boolean();
    if (on && norm == "none") norm = "each";
    if (!on) norm = "none";
  }
  if (const auto type = c.word({"qk_norm_type"}); type && norm != "none")
    norm = *type == "per_layer" ? "all" : "each";
}

void read_latent(const ConfigReader& c, DecoderFeatures& f) {
  f.latent = LatentFeatures{.query = c.size_or({"q_lora_rank"}, 0),
                            .key = c.size({"kv_lora_rank"}),
                            .rotary_width = c.size({"qk_rope_head_dim"})};
  HeadFeatures& heads = f.attention.all;
  heads.heads = heads.kv_heads = c.size({"num_attention_heads"});
  heads.width = c.size({"qk_nope_head_dim"});
  heads.value_width = c.size({"v_head_dim"});
  heads.rotary_width = 0;
  f.attention.window = heads;
  const std::int64_t joined = heads.width + f.latent->rotary_width;
  if (const auto given = c.value("qk_head_dim"); given && given->integer(0, std::int64_t{1} << 41) != joined)
    given->fail(fmt::format("found {}, allowed: {}, the sum of \"qk_nope_head_dim\" and \"qk_rope_head_dim\"",
                            given->text(), joined));
  c.pass_over({"head_dim", "num_key_value_heads"});
  if (c.flag_or({"mla_use_nope"}, false)) std::ranges::replace(f.mixers, mixer::kFull, mixer::kUnplaced);
  if (c.flag_or({"mla_use_output_gate"}, false)) f.attention.gate = "element";
}

void read_index(const ConfigReader& c, DecoderFeatures& f) {
  c.pass_over({"index_topk_freq", "index_skip_topk_offset", "index_topk_pattern",
               "index_share_for_mtp_iteration", "indexer_rope_interleave"});
  if (f.mixers.find(mixer::kSparse) == std::string::npos) return;
  const std::string note =
      "keys are selected by weights that have a loss of their own, which is left out: they are frozen";
  if (const auto sparse = c.object("sparse_attention_config")) {
    const std::int64_t block = sparse->size({"sparse_block_size"});
    f.index = IndexFeatures{.heads = sparse->size({"sparse_num_index_heads"}),
                            .width = sparse->size({"sparse_index_dim"}),
                            .keys = sparse->size({"sparse_topk_blocks"}) * block,
                            .block = block,
                            .by_head = true};
  } else {
    f.index = IndexFeatures{.heads = c.size({"index_n_heads"}),
                            .width = c.size({"index_head_dim"}),
                            .keys = c.size({"index_topk"})};
  }
  f.notes.push_back(note);
}

}  // namespace

void read_attention(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  AttentionFeatures& a = f.attention;
  a.gate = family.attention_gate;
  if (!c.value("kv_lora_rank") && c.value("q_lora_rank"))
    c.value("q_lora_rank")->fail("latents of queries need those of keys, but \"kv_lora_rank\" is missing");
  if (c.value("kv_lora_rank")) {
    read_latent(c, f);
    if (c.flag_or({"attention_bias"}, false))
      f.left_out.emplace_back("attention_bias: latents have no biases");
  } else if (f.mixers.find_first_of("FWCGSR") != std::string::npos) {
    read_heads_of_layers(c, family, f);
    read_bias(c, family, f);
    read_norms_of_heads(c, family, f);
  } else {
    a.all.heads = c.size_or({"num_attention_heads", "num_heads"}, 1);
    a.all.kv_heads = a.all.heads;
    a.all.width = a.all.value_width =
        c.size_or({"head_dim"}, std::max<std::int64_t>(f.hidden / a.all.heads, 1));
    a.window = a.all;
  }
  read_windows(c, family, f);
  read_index(c, f);
  if (const auto gate = c.value({"attn_output_gate", "attention_output_gate"}))
    a.gate = gate->boolean() ? "element" : "none";
  if (c.flag_or({"use_head_wise_attn_gate"}, false)) a.gate = "head";
  a.sinks = family.sinks;
  const bool window = c.flag_or({"add_swa_attention_sink_bias"}, false),
             full = c.flag_or({"add_full_attention_sink_bias"}, false);
  if (window || full) a.sinks = full ? "all" : "window";
  a.score_cap = c.number_or({"attn_logit_softcapping"}, 0, kLargestCap, 0);
  f.logit_cap = c.number_or({"final_logit_softcapping"}, 0, kLargestCap, 0);
  if (c.number_or({"attention_dropout", "attn_pdrop"}, 0, 1, 0) > 0)
    f.left_out.emplace_back("attention_dropout: no scores are dropped");
  if (c.value("alibi") && c.flag_or({"alibi"}, false)) f.position = "alibi";
}

}  // namespace pipesim
