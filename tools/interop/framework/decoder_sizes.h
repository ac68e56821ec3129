#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/data_type.h"

namespace pipesim {

/// How rotary positions are stretched beyond those that a model was trained for; fields that the way does not
/// use have their first values, so that equal ways compare equal.
struct RotaryScaling {
  enum class Way : std::uint8_t { Linear, Llama3, Yarn };
  Way way = Way::Linear;
  double factor = 1;
  std::int64_t original = 0;  ///< positions before; of Llama3 and Yarn
  double low = 0, high = 0;   ///< Llama3: low_freq_factor, high_freq_factor; Yarn: beta_slow, beta_fast
  double mscale = 0, mscale_all = 0;  ///< of Yarn
  bool operator==(const RotaryScaling&) const = default;
};

/// Experts in place of a decoder's feed-forward parts.
struct DecoderExperts {
  std::int64_t count = 0, top_k = 0;
  std::int64_t ffn = 0;                     ///< width of one
  std::int64_t shared_ffn = 0;              ///< of all experts together that take every token; 0: none
  std::int64_t dense_layers = 0;            ///< first layers, which have none
  double capacity = 1;                      ///< tokens that one takes, in shares of a balanced load
  bool gated_shared = false;                ///< the shared experts are weighted by a gate of their own
  bool chosen_shares = false;               ///< weights are shares of the chosen experts' scores, not of all
  double balance_loss = 0;                  ///< weight of the loss that balances the load
  std::int64_t groups = 1, top_groups = 1;  ///< of experts, and those that a token's are chosen from
  double scale = 1;                         ///< of the weights
  bool operator==(const DecoderExperts&) const = default;
};

/// Attention with latents (DeepSeek-AI, arXiv:2405.04434, section 2.1).
struct LatentAttention {
  std::int64_t query_rank = 0, key_rank = 0, rotary_width = 0, value_width = 0;
  bool operator==(const LatentAttention&) const = default;
};

/// A decoder of the zoo by the sizes that frameworks ask for. Decoders like Llama (gated) have RMS norms,
/// rotary positions and SwiGLU; the others layer norms and GELU.
struct DecoderSizes {
  enum class Biases : std::uint8_t { None, Qkv, Attention, Layers };
  bool gated = false;
  bool separate_gate = false;  ///< the gate's activation and its product are two kernels
  bool head_norm = false;      ///< norms of queries and keys
  DataType type = DataType::Float32;
  /// The type in which products of layers multiply (models/precision.h), but those of the first and last
  /// ones.
  std::string products = "own";
  std::int64_t own_at_start = 0, own_at_end = 0;
  std::int64_t sequence = 0, layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_width = 0;
  std::int64_t ffn = 0, vocabulary = 0;
  std::int64_t positions = 0;  ///< rows of a table of learned positions; 0: they are rotary
  bool alibi = false;          ///< positions are slopes by distance in attention, as in BLOOM
  Biases biases = Biases::None;
  bool tied = false;           ///< the projection to words has the embedding's weight
  bool writes_scores = false;  ///< attention is no single kernel
  double dropout = 0;
  double norm_epsilon = 0, init_deviation = 0;
  double rotary_base = 0;  ///< 0: positions are learned
  std::optional<RotaryScaling> rotary_scaling;
  bool partial = false;             ///< its config.json asks for more than the model has
  bool other_layers = false;        ///< layers by letters, which these sizes do not tell
  std::int64_t further_tokens = 0;  ///< that training predicts beyond the next one
  std::int64_t lora = 0;            ///< rank of adapters, the only weights that are trained then; 0: none
  std::optional<DecoderExperts> experts;
  std::optional<LatentAttention> latent;
  bool operator==(const DecoderSizes&) const = default;
};

/// The sizes of an encoder such as BERT, or of an encoder with a decoder such as T5.
struct EncoderSizes {
  DataType type = DataType::Float32;
  std::int64_t sequence = 0, target = 0;  ///< of a decoder; 0: there is none
  std::int64_t layers = 0, hidden = 0, heads = 0, head_width = 0, ffn = 0, vocabulary = 0, positions = 0;
  bool writes_scores = false;
  double dropout = 0;
};

/// The sizes of a model's text, as open_model() takes it. InputError when it is no decoder of the zoo.
DecoderSizes decoder_sizes(const std::string& model);

/// The shortest text of a zoo model with these sizes, without its batch. InputError when the zoo has none.
std::string zoo_text(const DecoderSizes& sizes);

std::string zoo_text(const EncoderSizes& sizes);

/// Groups of a sample's tokens that experts take by themselves: the option token_groups, 1 where the model
/// has none.
std::int64_t token_groups(const std::string& model);

/// Options of the model's text that no framework has, as "loss_chunks=8".
std::vector<std::string> options_left_out(const std::string& model);

}  // namespace pipesim
