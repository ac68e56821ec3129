#include <fmt/format.h>

#include <algorithm>

#include "models/hugging_face/decoder_reader.h"

namespace pipesim {
namespace {

std::int64_t squared(std::int64_t side) { return side * side; }

// How patches become words where the config around the tower says it.
void read_merging(const ConfigReader& whole, VisionFeatures& v) {
  if (const auto side = whole.value({"spatial_merge_size", "scale_factor"}))
    v.merged = squared(side->integer(1, 64));
  const double ratio = whole.number_or({"downsample_ratio"}, 0.01, 1, 1);
  if (ratio < 1) v.merged = squared(static_cast<std::int64_t>(1 / ratio + 0.5));
  // Gemma 3 averages what its words are made of.
  const std::int64_t words = whole.size_or({"mm_tokens_per_image"}, 0);
  if (words > 0 && v.positions > words && v.positions % words == 0) v.pooled = v.positions / words;
}

// A square side of patches, and how many of them become a word, in towers of three kinds: Qwen's ("depth"),
// MoonViT ("vt_…") and CLIP's or SigLIP's ("num_hidden_layers").
VisionFeatures tower_of(const ConfigReader& c) {
  VisionFeatures v;
  v.layers = c.size({"depth", "vt_num_hidden_layers", "num_hidden_layers"});
  v.hidden = c.size({"hidden_size", "vt_hidden_size", "embed_dim"});
  v.heads = c.size({"num_heads", "vt_num_attention_heads", "num_attention_heads"});
  if (const auto width = c.value("qkv_hidden_size")) v.head_width = width->integer(1, 1 << 20) / v.heads;
  v.ffn = c.size_or({"intermediate_size", "vt_intermediate_size"}, 4 * v.hidden);
  const std::int64_t patch = c.size({"patch_size"});
  v.patch_values = c.size_or({"in_channels", "num_channels", "in_chans"}, 3) * patch * patch *
                   c.size_or({"temporal_patch_size"}, 1);
  v.merged = squared(c.size_or({"spatial_merge_size"}, 1));
  v.pooled = squared(c.size_or({"pooling_kernel_size"}, 1));
  if (const auto kernel = c.value("merge_kernel_size"); kernel && kernel->is_array()) {
    v.merged = 1;
    for (const std::int64_t length : kernel->integers(1, 64)) v.merged *= length;
  }
  if (const auto compression = c.object("img_token_compression_config")) {
    v.merged = squared(compression->size_or({"spatial_merge_size"}, 1));
    v.patch_values *= compression->size_or({"temporal_patch_size"}, 1);
  }
  if (const auto positions = c.value("num_position_embeddings")) {
    v.positions = positions->integer(1, std::int64_t{1} << 24);
  } else if (const auto image = c.value("image_size"); image && image->is_number()) {
    const std::int64_t patches = image->integer(1, std::int64_t{1} << 20) / patch;
    v.positions = patches * patches;
  } else if (const auto height = c.value("init_pos_emb_height")) {
    v.positions = height->integer(1, 1 << 16) * c.size_or({"init_pos_emb_width"}, 1);
  }
  const bool pixtral = c.word({"model_type"}) == "pixtral";
  if (pixtral) v.positions = 0;                           // they are rotary
  v.gated = pixtral || c.word({"hidden_act"}) == "silu";  // as in Qwen2.5-VL
  if (const auto inner = c.value("deepstack_visual_indexes"); inner && inner->is_array())
    v.mergers = 1 + static_cast<std::int64_t>(inner->items().size());
  return v;
}

}  // namespace

void read_vision(const ConfigReader& whole, DecoderFeatures& f) {
  constexpr std::int64_t kUsualWords = 256, kMostWords = 1024;
  if (whole.object("audio_config")) f.left_out.emplace_back("audio_config: no tower for sound");
  const auto config = whole.object("vision_config");
  if (!config) return;
  const bool known = config->value({"depth", "vt_num_hidden_layers", "num_hidden_layers"}) &&
                     config->value({"hidden_size", "vt_hidden_size", "embed_dim"}) &&
                     config->value({"num_heads", "vt_num_attention_heads", "num_attention_heads"}) &&
                     config->value("patch_size");
  if (!known) {
    f.left_out.emplace_back(
        "vision_config: a tower of unknown kind, which needs layers, width, heads and patch_size");
    return;
  }
  VisionFeatures v = tower_of(*config);
  read_merging(whole, v);
  if (v.head_width == 0 && v.hidden % v.heads != 0)
    config->config().fail(fmt::format("{} heads do not divide the width {}", v.heads, v.hidden));
  if (const auto out = config->value("out_hidden_size");
      out && out->integer(0, std::int64_t{1} << 40) != f.hidden)
    out->fail(fmt::format("found {}, allowed: {}, the width of the text's layers", out->text(), f.hidden));
  v.words = whole.size_or({"mm_tokens_per_image", "vision_soft_tokens_per_image", "image_seq_length"},
                          v.positions > 0 ? v.positions / (v.merged * v.pooled) : kUsualWords);
  v.words = std::clamp<std::int64_t>(v.words, 1, std::clamp<std::int64_t>(f.sequence / 2, 1, kMostWords));
  f.overruled.emplace_back(
      "vision_words",
      fmt::format("vision_config: each sample is taken to have images of {} words; vision_words says another "
                  "number, 0 none",
                  v.words));
  whole.pass_over({"projector_hidden_act",
                   "projector_hidden_size",
                   "multimodal_projector_bias",
                   "image_grid_pinpoints",
                   "process_image_mode",
                   "vision_feature_layer",
                   "vision_feature_select_strategy",
                   "num_reward_heads",
                   "img_token_compression_config",
                   "image_seq_length",
                   "video_seq_length",
                   "use_unified_vision_chunk",
                   "vision_start_token_id",
                   "select_layer",
                   "max_dynamic_patch",
                   "min_dynamic_patch",
                   "ps_version",
                   "dynamic_image_size",
                   "force_image_size",
                   "use_thumbnail",
                   "boi_token_index",
                   "eoi_token_index"});
  config->pass_over({"num_key_value_heads",
                     "head_dim",
                     "layer_norm_eps",
                     "rms_norm_eps",
                     "attention_dropout",
                     "projection_dim",
                     "vocab_size",
                     "hidden_activation",
                     "model_type",
                     "global_head_dim",
                     "max_position_embeddings",
                     "position_embedding_size",
                     "rope_parameters",
                     "rope_theta",
                     "rope_mode",
                     "position_embedding_type",
                     "standardize",
                     "default_output_length",
                     "image_seq_length",
                     "video_seq_length",
                     "vision_segment_max_frames",
                     "attn_bias",
                     "linear_bias",
                     "activation_func",
                     "merge_type",
                     "mlp_type",
                     "norm_type",
                     "mm_hidden_size",
                     "mm_projector_type",
                     "text_hidden_size",
                     "pos_emb_type",
                     "pos_emb_interpolation_mode",
                     "projector_hidden_act",
                     "projector_ln_eps",
                     "video_attn_type",
                     "init_pos_emb_time",
                     "init_pos_emb_height",
                     "init_pos_emb_width",
                     "spatial_patch_size",
                     "tokens_per_second",
                     "vision_use_head",
                     "window_size",
                     "fullatt_block_indexes",
                     "use_clipped_linears",
                     "patch_embed_proj_bias",
                     "num_channels"});
  config->note_unread_keys("vision_config: ", f.notes);
  f.vision = v;
}

}  // namespace pipesim
