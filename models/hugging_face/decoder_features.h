#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

/// How rotary positions are stretched; `scaling` of rotary_scalings().
struct RotaryFeatures {
  double base = 10000;
  std::string scaling = "none";
  double factor = 1;
  std::int64_t original = 0;
  double low = 1, high = 4, mscale = 1, mscale_all = 0;
};

struct HeadFeatures {
  std::int64_t heads = 0, kv_heads = 0, width = 0, value_width = 0, rotary_width = 0;
};

/// Attention, of layers that have it.
struct AttentionFeatures {
  HeadFeatures all, window;        ///< of layers without a window, and with one
  std::string bias = "none";       ///< none, qkv or all
  std::string head_norm = "none";  ///< none, each or all
  std::string gate = "none";       ///< none, head or element
  std::string sinks = "none";      ///< none, window or all
  double score_cap = 0;
  bool values_are_keys = false;
  std::int64_t window_keys = 0, chunk = 0;
};

/// Multi-head latent attention.
struct LatentFeatures {
  std::int64_t query = 0, key = 0, rotary_width = 0;
};

/// What selects keys for sparse attention.
struct IndexFeatures {
  std::int64_t heads = 0, width = 0, keys = 0, block = 1;
  bool by_head = false;
};

struct DeltaFeatures {
  std::int64_t key_heads = 0, value_heads = 0, key_width = 0, value_width = 0, kernel = 4;
  bool by_channel = false;
  std::int64_t decay_latent = 0, gate_latent = 0;
};

struct StateSpaceFeatures {
  std::int64_t heads = 0, head_width = 0, groups = 1, states = 0, kernel = 4, chunk = 256, rank = 0;
  bool norms = false;
};

struct ExpertFeatures {
  std::int64_t count = 0, top_k = 0, ffn = 0, shared_ffn = 0, latent = 0;
  bool shared_gate = false, bias = false;
  std::string router = "softmax";
  bool chosen_shares = true;
  double balance_loss = 0, scale = 1;
  std::int64_t groups = 1, top_groups = 1;
};

struct VisionFeatures {
  std::int64_t words = 0, layers = 0, hidden = 0, heads = 0, head_width = 0, ffn = 0, patch_values = 0,
               positions = 0, merged = 1, mergers = 1;
  std::int64_t pooled = 1;
  bool gated = false;
};

/// What a decoder consists of, as a config.json says it. Layers are told by the letters of the zoo's decoder.
struct DecoderFeatures {
  std::optional<std::string> dtype;
  std::int64_t sequence = 0, layers = 0, hidden = 0, vocabulary = 0, ffn = 0;
  std::int64_t further_layers = 0;  ///< for further tokens, which lists of layers may name, too
  bool tied = false, projection_bias = false;
  std::string mixers, ffns;  ///< a letter for each layer
  std::vector<std::int64_t> further_ffns;
  std::string norm = "rms", norms = "before", residual = "serial";
  double norm_epsilon = 1e-6, init_deviation = 0.02;
  std::string position = "rotary";
  std::int64_t position_rows = 0;
  RotaryFeatures rotary;
  AttentionFeatures attention;
  std::optional<LatentFeatures> latent;
  std::optional<IndexFeatures> index;
  std::optional<DeltaFeatures> delta;
  std::optional<StateSpaceFeatures> state_space;
  std::string activation = "silu";
  bool gated = true, ffn_bias = false;
  std::optional<ExpertFeatures> experts;
  std::optional<VisionFeatures> vision;
  double dropout = 0, logit_cap = 0;

  std::vector<std::string> notes;  ///< what is not simulated, though the model stays the same
  std::vector<std::pair<std::string, std::string>>
      overruled;                      ///< notes, behind the option that overrules them
  std::vector<std::string> left_out;  ///< what the model goes without, though training would differ
};

}  // namespace pipesim
