#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/adapters.h"
#include "models/zoo/definition.h"
#include "models/zoo/options.h"

namespace pipesim {

/// Sizes of a transformer, as the tables of the papers list them.
struct TransformerSizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0;
  std::int64_t head_width = 0;  ///< 0: hidden by heads
};

/// A transformer under construction: options batch, sequence, hidden, heads and, where it has them, kv_heads,
/// head_width, attention_bias, attention, dropout and those of adapter_options(). Activations are [batch,
/// sequence, hidden].
class TransformerNetwork {
 public:
  explicit TransformerNetwork(const ZooValues& values);

  GraphBuilder& builder() { return builder_; }
  TensorId indices(const std::string& name) { return indices(name, sequence_); }
  /// A data input [batch, length] of integers.
  TensorId indices(const std::string& name, std::int64_t length);
  TensorId embedding(const std::string& name, TensorId indices, std::int64_t rows);
  TensorId linear(const std::string& name, TensorId x, std::int64_t out,
                  const std::string& activation = "none", bool bias = true);
  TensorId linear_without_bias(const std::string& name, TensorId x, std::int64_t out,
                               const std::string& activation = "none");
  /// A product of a layer: a "linear", and beside it the adapters that the option lora asks for. They are
  /// y = x·w + (d(x)·a)·b with the dropout d "<name>_lora_dropout", if there is one, "<name>_lora_a",
  /// "<name>_lora_b" and "<name>_lora_add"; an activation comes behind. The constant that scales them is
  /// taken as a part of b.
  TensorId product(LayerProduct part, const std::string& name, TensorId x, Attributes attributes);
  /// A product of experts, which have no adapters.
  TensorId expert_product(const std::string& name, TensorId tokens, std::int64_t out,
                          const std::string& activation = "none", bool bias = false);
  TensorId norm(const std::string& kind, const std::string& name, TensorId x);
  /// Whether weights are frozen, as where adapters are trained in their place.
  [[nodiscard]] bool freezes() const { return adapters_.any(); }
  [[nodiscard]] bool keeps_as_megatron() const { return keeps_as_megatron_; }
  /// Whether each operation of PyTorch's keeps what it needs, as where the model is not compiled as a whole.
  [[nodiscard]] bool keeps_as_torch() const { return keeps_as_torch_; }
  /// Whether one kernel computes the gate's silu and its product.
  [[nodiscard]] bool fuses_swiglu() const { return fuses_swiglu_; }
  /// Attributes of the operator that multiplies the gate with the other half.
  [[nodiscard]] Attributes swiglu_attributes() const {
    return keeps_swiglu_narrow_ ? Attributes{{"keeps", "float8"}} : Attributes();
  }
  TensorId add(const std::string& name, TensorId x, TensorId y) { return builder_.add("add", name, {x, y}); }
  TensorId dropout(const std::string& name, TensorId x);
  /// `width`: the elements of the last dimension that are rotated; 0: all.
  TensorId rotary(const std::string& name, TensorId x, std::int64_t width = 0);

  /// Sizes of an attention's heads; 0: those of the network, and value_width that of the head.
  struct AttentionHeads {
    std::int64_t heads = 0, kv_heads = 0, width = 0, value_width = 0;
  };
  /// RMS norms of queries and keys, before they are rotated: none, of each head, of all heads together.
  enum class HeadNorm : std::uint8_t { None, Each, All };
  /// What the mixed values are multiplied by, a sigmoid of a product of x: none, one of each head, or one of
  /// each element.
  enum class OutputGate : std::uint8_t { None, Head, Element };

  /// The options in which the attention of networks differs.
  struct AttentionStyle {
    bool causal = false, bias = true, rotary = false;
    HeadNorm head_norm = HeadNorm::None;
    bool alibi = false;         ///< scores fall with the distance
    std::string relative = {};  ///< the weight that holds biases of scores by distance; "": none
    AttentionHeads heads = {};
    std::int64_t rotary_width = 0;  ///< elements of a head that are rotated; 0: all
    std::int64_t window = 0;        ///< keys that a query sees, its own among them; 0: all
    std::int64_t chunk = 0;         ///< positions of a part that sees itself only; 0: all
    bool sinks = false;             ///< a learned score of each head that has no value
    double cap = 0;                 ///< where scores level off; 0: nowhere
    bool values_are_keys = false;   ///< one product makes both
    OutputGate gate = OutputGate::None;
    TensorId selected = {};  ///< positions of the keys that each query sees, where it is valid
  };
  /// Projections, attention and output projection: "query", "key", "value", "attention", "output". Queries
  /// are [b, s, kv heads, heads per kv head, width], so grouped-query attention needs no reshape.
  TensorId self_attention(TensorId x, const AttentionStyle& style) { return attention("", x, x, style); }
  /// The same with keys and values from another sequence, `read`, and names that begin with `prefix`.
  TensorId attention(const std::string& prefix, TensorId x, TensorId read, const AttentionStyle& style);
  /// "gate", "attention" and "output" alone, of finished queries [b, s, kv heads, heads per kv head, width],
  /// keys and values. `x`: what the gate reads.
  TensorId mix_values(const std::string& prefix, TensorId x, TensorId query, TensorId key, TensorId value,
                      const AttentionStyle& style);

  /// Scores of all words and the loss, "projection" and "loss"; with option loss_chunks "loss" alone, whose
  /// weights keep the projection's names. `tied`: the projection is the transpose of
  /// the embedding "word_embedding".
  void predict_words(TensorId x, std::int64_t vocabulary, bool tied, bool bias);
  /// The same once more of other labels, with the weights that predict_words() made and names that begin with
  /// `prefix`.
  void predict_words_again(const std::string& prefix, TensorId x) { add_loss(prefix, x); }

  /// Operators from here on belong to layer `number` of `count`, from 1; its products multiply in the type of
  /// option products, unless it is one of the first or last ones that keep their own.
  void begin_layer(std::int64_t number, std::int64_t count);
  void end_layer() { builder_.end_repeat(); }

  /// The finished model. InputError where adapters are asked for and no layer has a product that takes one.
  [[nodiscard]] OperatorGraph build();

 private:
  [[nodiscard]] bool multiplies_narrow() const { return precision_ != "own"; }
  [[nodiscard]] bool keeps_masks() const { return keeps_as_megatron_ || keeps_as_torch_; }
  [[nodiscard]] AttentionHeads heads_of(const AttentionStyle& style) const;
  TensorId norm_heads(HeadNorm which, const std::string& name, TensorId x);
  TensorId weigh_values(const std::string& prefix, TensorId query, TensorId key, TensorId value,
                        const AttentionStyle& style);
  void add_loss(const std::string& prefix, TensorId x);

  GraphBuilder builder_;
  std::int64_t batch_, sequence_, hidden_, heads_, kv_heads_, head_width_;
  std::string attention_bias_;  // none, qkv or all
  double dropout_rate_, score_dropout_, logit_cap_;
  bool writes_scores_, projects_at_once_;
  std::int64_t zigzag_, document_length_;
  std::int64_t loss_chunks_;  // 0: the projection is apart from the loss
  bool keeps_as_megatron_, keeps_compiled_, keeps_as_torch_, keeps_eagerly_, fuses_swiglu_,
      keeps_swiglu_narrow_;
  std::string precision_;                   // of products
  std::int64_t own_at_start_, own_at_end_;  // layers whose products have none
  Adapters adapters_;
  bool adapted_ = false;   // some product has adapters
  Attributes projection_;  // of the last predict_words()
  std::vector<std::string> projection_weights_;
};

/// The options batch, dtype, sequence, layers, hidden and heads that all transformers start with, then
/// head_width where the sizes say one.
ZooOptions transformer_options(const ZooOption& batch, const std::string& dtype, std::int64_t sequence,
                               const TransformerSizes& sizes);
ZooOption kv_heads_option(std::int64_t value);
ZooOption own_heads_option();  ///< kv_heads of models that have one for each head unless told otherwise
/// What is kept for backward: what it needs, once, or also what Megatron-LM or PyTorch keep beside that.
ZooOption kept_option();
/// Whether gated feed-forward parts are one kernel behind the products, or two.
ZooOption swiglu_option();
ZooOption swiglu_inputs_option();
/// The type in which products of layers multiply (models/precision.h), and layers that are left out of it.
std::vector<ZooOption> products_options();
ZooOption vocabulary_option(std::int64_t value);
ZooOption projection_option(const std::string& value);  ///< tied or untied
/// `value` 0: four times hidden.
ZooOption ffn_option(std::int64_t value);
std::int64_t ffn_width(const ZooValues& values);

/// fused: attention never writes its scores; scores: it does, and drops them at the model's rate.
ZooOption attention_option();
/// Whether queries, keys and values are parts of one tensor.
ZooOption qkv_option();
/// Models with causal attention have these two options.
ZooOption zigzag_option();
ZooOption document_length_option();
/// Models that end in predict_words() have this option.
ZooOption loss_chunks_option();

/// Rows of a table of learned positions: option positions, or the sequence if that is longer.
std::int64_t position_rows(const ZooValues& values);
ZooOption positions_option(std::int64_t value);

/// The layer that Llama, Mixtral and Qwen3 share up to its feed-forward part: x + attention(norm(x)), rotary;
/// biases as option attention_bias says.
TensorId llama_attention(TransformerNetwork& net, TensorId x, TransformerNetwork::HeadNorm head_norm);
/// Options of all three, head_width and attention_bias among them.
ZooOptions llama_options(std::int64_t sequence, const TransformerSizes& sizes, std::int64_t vocabulary,
                         const DecoderDefinition& definition);

}  // namespace pipesim
