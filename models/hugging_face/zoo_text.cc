#include "models/hugging_face/zoo_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/zoo/decoder/decoder_layers.h"
#include "models/zoo/decoder/layer_pattern.h"

namespace pipesim {
namespace {

// Whether all of a decoder but its attention and feed-forward parts is as in Llama.
bool is_plain(const DecoderFeatures& f) {
  return f.norm == "rms" && f.norms == "before" && f.residual == "serial" && f.position == "rotary" &&
         !f.projection_bias && f.activation == "silu" && f.gated && !f.ffn_bias && !f.vision &&
         f.dropout == 0 && f.logit_cap == 0 && f.mixers.find_first_not_of('F') == std::string::npos;
}

bool has_plain_heads(const DecoderFeatures& f) {
  const AttentionFeatures& a = f.attention;
  return !f.latent && a.all.value_width == a.all.width && a.all.rotary_width == 0 && a.head_norm != "all" &&
         a.gate == "none" && a.sinks == "none" && a.score_cap == 0 && !a.values_are_keys;
}

bool only(const std::string& letters, char letter) {
  return std::ranges::all_of(letters, [&](char c) { return c == letter; });
}

bool is_llama(const DecoderFeatures& f) { return is_plain(f) && has_plain_heads(f) && only(f.ffns, 'D'); }

bool has_llama_experts(const DecoderFeatures& f) {
  if (!is_plain(f) || !has_plain_heads(f) || !only(f.ffns, 'E') || !f.experts) return false;
  const ExpertFeatures& e = *f.experts;
  return e.router == "softmax" && !e.bias && e.latent == 0 && e.groups == 1 && e.scale == 1 &&
         (e.shared_ffn == 0 || e.shared_gate);
}

bool is_deepseek(const DecoderFeatures& f) {
  if (!is_plain(f) || !f.latent || f.attention.gate != "none" || f.tied || !f.experts) return false;
  const ExpertFeatures& e = *f.experts;
  const std::size_t dense = std::min(f.ffns.find('E'), f.ffns.size());
  return only(f.ffns.substr(0, dense), 'D') && only(f.ffns.substr(dense), 'E') && e.router == "sigmoid" &&
         e.latent == 0 && !e.bias && !e.shared_gate && e.chosen_shares && e.shared_ffn % e.ffn == 0;
}

void set_type_and_sequence(ZooText& text, const DecoderFeatures& f) {
  if (f.dtype) text.set("dtype", *f.dtype);
  text.set("sequence", f.sequence);
  text.set("layers", f.layers);
  text.set("hidden", f.hidden);
}

void set_definition(ZooText& text, const DecoderFeatures& f) {
  const RotaryFeatures& r = f.rotary;
  if (f.position == "rotary") {
    text.set("rotary_base", r.base);
    text.set("rotary_scaling", r.scaling);
    if (r.scaling != "none") text.set("rotary_factor", r.factor);
    if (r.scaling == "llama3" || r.scaling == "yarn") {
      text.set("rotary_original", r.original);
      text.set("rotary_low", r.low);
      text.set("rotary_high", r.high);
    }
    if (r.scaling == "yarn") {
      text.set("rotary_mscale", r.mscale);
      text.set("rotary_mscale_all", r.mscale_all);
    }
  }
  text.set("norm_epsilon", f.norm_epsilon);
  text.set("init_deviation", f.init_deviation);
}

void set_heads(ZooText& text, const DecoderFeatures& f) {
  text.set("heads", f.attention.all.heads);
  text.set("head_width", f.attention.all.width);
  text.set("kv_heads", f.attention.all.kv_heads);
}

// Llama, and its relatives with experts or norms of heads.
std::string llama_text(const DecoderFeatures& f) {
  const bool norm = f.attention.head_norm == "each";
  ZooText text(f.experts ? (norm ? "qwen3-235b" : "mixtral-8x7b") : (norm ? "qwen3-8b" : "llama"));
  set_type_and_sequence(text, f);
  set_heads(text, f);
  text.set("vocab", f.vocabulary);
  text.set("projection", f.tied ? "tied" : "untied");
  set_definition(text, f);
  text.set("ffn", f.experts ? f.experts->ffn : f.ffn);
  if (f.experts) {
    text.set("experts", f.experts->count);
    text.set("top_k", f.experts->top_k);
    text.set("expert_shares", f.experts->chosen_shares ? "chosen" : "all");
    text.set("balance_loss", f.experts->balance_loss);
    text.set("shared_ffn", f.experts->shared_ffn);
  }
  text.set("attention_bias", f.attention.bias);
  return std::move(text).text();
}

std::string deepseek_text(const DecoderFeatures& f) {
  ZooText text("deepseek-v3");
  const ExpertFeatures& e = *f.experts;
  set_type_and_sequence(text, f);
  text.set("heads", f.attention.all.heads);
  text.set("head_width", f.attention.all.width);
  text.set("rotary_width", f.latent->rotary_width);
  text.set("value_width", f.attention.all.value_width);
  text.set("query_latent", f.latent->query);
  text.set("key_latent", f.latent->key);
  text.set("dense_layers", static_cast<std::int64_t>(std::min(f.ffns.find('E'), f.ffns.size())));
  text.set("ffn", f.ffn);
  text.set("expert_ffn", e.ffn);
  text.set("shared_experts", e.shared_ffn / e.ffn);
  text.set("experts", e.count);
  text.set("top_k", e.top_k);
  text.set("vocab", f.vocabulary);
  text.set("router_groups", e.groups);
  text.set("router_top_groups", e.top_groups);
  text.set("router_scale", e.scale);
  text.set("balance_loss", e.balance_loss);
  set_definition(text, f);
  return std::move(text).text();
}

void set_attention(ZooText& text, const DecoderFeatures& f) {
  const AttentionFeatures& a = f.attention;
  set_heads(text, f);
  text.set_unless("value_width", a.all.value_width, a.all.width);
  text.set_unless("rotary_width", a.all.rotary_width, std::int64_t{0});
  text.set("attention_bias", a.bias);
  text.set_unless<std::string>("head_norm", a.head_norm, "none");
  text.set_unless<std::string>("attention_gate", a.gate, "none");
  text.set_unless<std::string>("sinks", a.sinks, "none");
  text.set_unless("score_cap", a.score_cap, 0.0);
  text.set_unless("logit_cap", f.logit_cap, 0.0);
  if (a.values_are_keys) text.set("values", "keys");
  if (a.window_keys > 0) {
    const HeadFeatures& w = a.window;
    text.set("window", a.window_keys);
    text.set_unless("window_heads", w.heads, a.all.heads);
    text.set_unless("window_kv_heads", w.kv_heads, a.all.kv_heads);
    text.set_unless("window_head_width", w.width, a.all.width);
    text.set_unless("window_value_width", w.value_width, w.width);
    text.set_unless("window_rotary_width", w.rotary_width == 0 ? w.width : w.rotary_width,
                    a.all.rotary_width == 0 ? a.all.width : a.all.rotary_width);
  }
  text.set_unless("chunk", a.chunk, std::int64_t{0});
  if (f.latent) {
    text.set("latent_of_keys", f.latent->key);
    text.set("latent_of_queries", f.latent->query);
    text.set("latent_rotary_width", f.latent->rotary_width);
  }
  if (f.index) {
    text.set("index_heads", f.index->heads);
    text.set("index_width", f.index->width);
    text.set("index_keys", f.index->keys);
    text.set_unless("index_block", f.index->block, std::int64_t{1});
    if (f.index->by_head) text.set("index_by_head", "yes");
  }
}

void set_scans(ZooText& text, const DecoderFeatures& f) {
  if (f.delta) {
    const DeltaFeatures& d = *f.delta;
    text.set("delta_key_heads", d.key_heads);
    text.set("delta_value_heads", d.value_heads);
    text.set("delta_key_width", d.key_width);
    text.set("delta_value_width", d.value_width);
    text.set("delta_kernel", d.kernel);
    if (d.by_channel) text.set("delta_decay", "channel");
    text.set_unless("delta_decay_latent", d.decay_latent, std::int64_t{0});
    text.set_unless("delta_gate_latent", d.gate_latent, std::int64_t{0});
  }
  if (f.state_space) {
    const StateSpaceFeatures& s = *f.state_space;
    text.set("ssm_heads", s.heads);
    text.set("ssm_head_width", s.head_width);
    text.set("ssm_groups", s.groups);
    text.set("ssm_states", s.states);
    text.set("ssm_kernel", s.kernel);
    text.set("ssm_chunk", s.chunk);
    text.set_unless("ssm_rank", s.rank, std::int64_t{0});
    if (s.norms) text.set("ssm_norms", "yes");
  }
}

void set_feed_forward(ZooText& text, const DecoderFeatures& f) {
  text.set("ffn", f.ffn);
  text.set("activation", f.activation);
  if (!f.gated) text.set("gated", "no");
  if (f.ffn_bias) text.set("ffn_bias", "yes");
  if (!f.experts) return;
  const ExpertFeatures& e = *f.experts;
  text.set("experts", e.count);
  text.set("top_k", e.top_k);
  text.set("expert_ffn", e.ffn);
  text.set_unless("expert_latent", e.latent, std::int64_t{0});
  text.set_unless("shared_ffn", e.shared_ffn, std::int64_t{0});
  if (e.shared_gate) text.set("shared_gate", "yes");
  if (e.bias) text.set("expert_bias", "yes");
  text.set("router", e.router);
  text.set("expert_shares", e.chosen_shares ? "chosen" : "all");
  text.set("balance_loss", e.balance_loss);
}

void set_vision(ZooText& text, const DecoderFeatures& f) {
  if (!f.vision) return;
  const VisionFeatures& v = *f.vision;
  text.set("vision_words", v.words);
  text.set("vision_layers", v.layers);
  text.set("vision_hidden", v.hidden);
  text.set("vision_heads", v.heads);
  text.set_unless("vision_head_width", v.head_width, std::int64_t{0});
  text.set("vision_ffn", v.ffn);
  text.set("vision_patch_values", v.patch_values);
  text.set("vision_positions", v.positions);
  text.set("vision_merged", v.merged);
  text.set_unless("vision_pooled", v.pooled, std::int64_t{1});
  text.set("vision_mergers", v.mergers);
  if (v.gated) text.set("vision_gated", "yes");
}

std::string decoder_text(const DecoderFeatures& f) {
  ZooText text = ZooText::decoder(f.mixers, f.ffns);
  set_type_and_sequence(text, f);
  text.set("vocab", f.vocabulary);
  text.set("projection", f.tied ? "tied" : "untied");
  if (f.projection_bias) text.set("projection_bias", "yes");
  text.set("mixers", pattern_of_layers(f.mixers));
  text.set("ffns", pattern_of_layers(f.ffns));
  if (!f.further_ffns.empty()) text.set("further_ffns", fmt::format("{}", fmt::join(f.further_ffns, "+")));
  text.set_unless<std::string>("norm", f.norm, "rms");
  text.set_unless<std::string>("norms", f.norms, "before");
  text.set_unless<std::string>("residual", f.residual, "serial");
  text.set_unless<std::string>("position", f.position, "rotary");
  if (f.position == "learned") text.set("positions", f.position_rows);
  text.set_unless("dropout", f.dropout, 0.0);
  set_attention(text, f);
  set_scans(text, f);
  set_feed_forward(text, f);
  set_vision(text, f);
  set_definition(text, f);
  return std::move(text).text();
}

}  // namespace

ZooText ZooText::decoder(std::string mixers, std::string ffns) {
  ZooText text("decoder");
  text.mixers_ = std::move(mixers);
  text.ffns_ = std::move(ffns);
  return text;
}

bool ZooText::is_used(std::string_view key) const {
  return mixers_.empty() || layers_use(key, mixers_, ffns_);
}

void ZooText::add(std::int64_t value) { text_ += fmt::format("{}", value); }
void ZooText::add(double value) { text_ += fmt::format("{}", value); }

std::string zoo_text(const DecoderFeatures& f) {
  std::string text = is_llama(f) || has_llama_experts(f) ? llama_text(f)
                     : is_deepseek(f)                    ? deepseek_text(f)
                                                         : decoder_text(f);
  return f.left_out.empty() ? text : text + ",partial=yes";
}

}  // namespace pipesim
