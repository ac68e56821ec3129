#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pipesim {

/// What Transformers' code of a family has and its config.json does not say. All else follows from keys.
struct DecoderFamily {
  std::string_view type;  ///< "model_type"
  std::string_view norm = "rms", norms = "before", residual = "serial", position = "rotary";
  std::string_view head_norm = "none";
  std::string_view attention_bias = "none";   ///< where no key says it
  std::string_view attention_biases = "all";  ///< which "attention_bias": true means: qkv or all
  std::string_view activation = "silu";       ///< where no key says it
  bool gated = true, ffn_bias = false, tied = false, projection_bias = false;
  std::int64_t head_width = 0;  ///< where no key says it; 0: hidden by heads
  double rotary_part = 1;       ///< of a head, where no key says it
  double rotary_base = 10000, norm_epsilon = 1e-6;
  bool windows_everywhere = false;  ///< "sliding_window" holds for all layers unless layers are named
  std::string_view sinks = "none";
  std::string_view router = "softmax";
  bool chosen_shares = true;  ///< where "norm_topk_prob" does not say it
  double balance_loss = 0.001;
  bool shared_gate = false, expert_bias = false;
  char attention_letter = 'F';  ///< of layers with attention that no key names: F, or G
  std::string_view attention_gate = "none";
  std::int64_t window_period = 0;  ///< every so many layers one has no window, where no key says it
  std::string_view left_out = "";  ///< what the zoo's decoder goes without, though its costs are small
};

std::span<const DecoderFamily> decoder_families();

}  // namespace pipesim
