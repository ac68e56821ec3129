#include "models/zoo/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "models/precision.h"
#include "sim/base/errors.h"

namespace pipesim {

namespace {

// kv_heads=0 means one for each head.
bool groups_heads(const ZooValues& values) {
  return values.has("kv_heads") && values.integer("kv_heads") > 0;
}

std::int64_t layers_of(const ZooValues& values, const char* option) {
  return values.has(option) ? values.integer(option) : 0;
}

}  // namespace

TransformerNetwork::TransformerNetwork(const ZooValues& values)
    : builder_(values.name(), values.integer("batch"), values.data_type()),
      batch_(values.integer("batch")),
      sequence_(values.integer("sequence")),
      hidden_(values.integer("hidden")),
      heads_(values.integer("heads")),
      kv_heads_(values.integer(groups_heads(values) ? "kv_heads" : "heads")),
      head_width_(values.has("head_width") && values.integer("head_width") > 0
                      ? values.integer("head_width")
                      : values.quotient("hidden", "heads")),
      attention_bias_(values.has("attention_bias") ? values.word("attention_bias") : "none"),
      dropout_rate_(values.has("dropout") ? values.real("dropout") : 0),
      score_dropout_(values.has("attention_dropout") ? values.real("attention_dropout") : dropout_rate_),
      logit_cap_(values.has("logit_cap") ? values.real("logit_cap") : 0),
      writes_scores_(values.has("attention") && values.word("attention") == "scores"),
      projects_at_once_(values.has("qkv") && values.word("qkv") == "fused"),
      zigzag_(values.has("zigzag") ? values.integer("zigzag") : 1),
      document_length_(values.has("document_length") ? values.integer("document_length") : 0),
      loss_chunks_(values.has("loss_chunks") ? values.integer("loss_chunks") : 0),
      keeps_as_megatron_(values.has("kept") && values.word("kept") == "megatron"),
      keeps_compiled_(values.has("kept") && values.word("kept") == "torch-compile"),
      keeps_as_torch_(values.has("kept") && values.word("kept").starts_with("torch") && !keeps_compiled_),
      keeps_eagerly_(values.has("kept") && values.word("kept") == "torch-eager"),
      fuses_swiglu_(values.has("swiglu") &&
                    (values.word("swiglu") == "fused" ||
                     (values.word("swiglu") == "as-kept" && (keeps_as_megatron_ || keeps_compiled_)))),
      keeps_swiglu_narrow_(values.has("swiglu_inputs") && values.word("swiglu_inputs") == "float8"),
      precision_(values.has("products") ? product_word(values.word("products")) : "own"),
      own_at_start_(layers_of(values, "own_at_start")),
      own_at_end_(layers_of(values, "own_at_end")),
      adapters_(adapters(values)) {
  if (groups_heads(values)) static_cast<void>(values.quotient("heads", "kv_heads"));
  if (logit_cap_ > 0 && loss_chunks_ > 0)
    values.fail("logit_cap needs loss_chunks=0: the chunked loss does not cap its logits");
  if (keeps_swiglu_narrow_ && !fuses_swiglu_)
    values.fail("swiglu_inputs=float8 needs the fused kernel: swiglu=fused, or kept=megatron");
  builder_.freeze(adapters_.any());
  builder_.multiply_in(precision_, keeps_as_torch_ || keeps_compiled_);
  if (!multiplies_narrow() && own_at_start_ + own_at_end_ > 0)
    values.fail("own_at_start and own_at_end need products in another type than dtype");
}

void TransformerNetwork::begin_layer(std::int64_t number, std::int64_t count) {
  const bool own = multiplies_narrow() && (number <= own_at_start_ || number > count - own_at_end_);
  builder_.begin_repeat("layer", number, own ? "own." : "");
  builder_.multiply_in(own ? "own" : precision_, keeps_as_torch_ || keeps_compiled_);
}

// Models of Hugging Face (LlamaRMSNorm) and of litgpt cast x to float32, and multiply its normalised rows in
// the model's type by gamma; so does PyTorch's rms_norm where it is not one kernel.
TensorId TransformerNetwork::norm(const std::string& kind, const std::string& name, TensorId x) {
  Attributes attributes;
  if (keeps_eagerly_ && kind == "rms_norm") {
    attributes.emplace("keep_float32", 1);
    attributes.emplace("keep_normalised", adapters_.any() ? 0 : 1);  // a frozen gamma has no gradient
  }
  return builder_.add(kind, name, {x}, attributes);
}

TensorId TransformerNetwork::indices(const std::string& name, std::int64_t length) {
  return builder_.data(name, {batch_, length}, DataType::Int64);
}

TensorId TransformerNetwork::embedding(const std::string& name, TensorId indices, std::int64_t rows) {
  return builder_.add("embedding", name, {indices}, {{"rows", rows}, {"width", hidden_}});
}

TensorId TransformerNetwork::linear(const std::string& name, TensorId x, std::int64_t out,
                                    const std::string& activation, bool bias) {
  return product(LayerProduct::FeedForward, name, x,
                 {{"out", Sizes{out}}, {"bias", bias ? 1 : 0}, {"activation", activation}});
}

TensorId TransformerNetwork::linear_without_bias(const std::string& name, TensorId x, std::int64_t out,
                                                 const std::string& activation) {
  return linear(name, x, out, activation, false);
}

TensorId TransformerNetwork::product(LayerProduct part, const std::string& name, TensorId x,
                                     Attributes attributes) {
  const bool in_layer =
      builder_.in_repeat();  // heads that models have behind their layers are like embeddings
  if (in_layer && adapters_.storage != "own") attributes["stored"] = adapters_.storage;
  if (in_layer && adapters_.keeps_inputs) attributes["keep_input"] = 1;
  if (!in_layer || !adapters_.has(part)) return builder_.add("linear", name, {x}, attributes);
  adapted_ = true;
  AttributeValue& own = attributes.emplace("activation", "none").first->second;
  const std::string activation = std::get<std::string>(std::exchange(own, "none"));
  Attributes narrow{{"out", Sizes{adapters_.rank}}, {"bias", 0}, {"narrow", 1}};
  if (const auto contract = attributes.find("contract"); contract != attributes.end())
    narrow.insert(*contract);
  const TensorId frozen = builder_.add("linear", name, {x}, attributes);
  builder_.freeze(false);
  const TensorId read =
      adapters_.dropout == 0
          ? x
          : builder_.add("dropout", name + "_lora_dropout", {x},
                         {{"rate", adapters_.dropout}, {"keep_mask", keeps_masks() ? 1 : 0}});
  const TensorId inner = builder_.add("linear", name + "_lora_a", {read}, narrow);
  const TensorId adapted =
      builder_.add("linear", name + "_lora_b", {inner}, {{"out", attributes.at("out")}, {"bias", 0}});
  builder_.freeze(true);
  const TensorId sum = add(name + "_lora_add", frozen, adapted);
  return activation == "none" ? sum : builder_.add(activation, name + "_" + activation, {sum});
}

TensorId TransformerNetwork::expert_product(const std::string& name, TensorId tokens, std::int64_t out,
                                            const std::string& activation, bool bias) {
  Attributes attributes{{"out", out}, {"activation", activation}, {"stored", adapters_.storage}};
  if (bias) attributes.emplace("bias", 1);
  return builder_.add("expert_linear", name, {tokens}, attributes);
}

OperatorGraph TransformerNetwork::build() {
  if (adapters_.any() && !adapted_)
    throw InputError("lora_targets=" + adapters_.targets +
                     ": no layer has such a product, since experts take no adapters");
  return builder_.build();
}

TensorId TransformerNetwork::rotary(const std::string& name, TensorId x, std::int64_t width) {
  Attributes attributes{{"zigzag", zigzag_}};
  if (width > 0 && width < builder_.shape(x).back()) attributes.emplace("width", width);
  return builder_.add("rotary", name, {x}, attributes);
}

TensorId TransformerNetwork::dropout(const std::string& name, TensorId x) {
  if (dropout_rate_ == 0) return x;
  return builder_.add("dropout", name, {x}, {{"rate", dropout_rate_}, {"keep_mask", keeps_masks() ? 1 : 0}});
}

TransformerNetwork::AttentionHeads TransformerNetwork::heads_of(const AttentionStyle& style) const {
  AttentionHeads heads = style.heads;
  if (heads.heads == 0) heads.heads = heads_;
  if (heads.kv_heads == 0) heads.kv_heads = kv_heads_;
  if (heads.width == 0) heads.width = head_width_;
  if (heads.value_width == 0) heads.value_width = heads.width;
  return heads;
}

TensorId TransformerNetwork::norm_heads(HeadNorm which, const std::string& name, TensorId x) {
  if (which == HeadNorm::None) return x;
  if (which == HeadNorm::Each) return norm("rms_norm", name, x);
  const Sizes shape = builder_.shape(x);
  std::int64_t width = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) width *= shape[i];
  const TensorId joined =
      builder_.add("reshape", name + "_joined", {x}, {{"shape", Sizes{shape[0], shape[1], width}}});
  return builder_.add("reshape", name + "_heads", {norm("rms_norm", name, joined)}, {{"shape", shape}});
}

TensorId TransformerNetwork::attention(const std::string& prefix, TensorId x, TensorId read,
                                       const AttentionStyle& style) {
  const std::int64_t bias = style.bias || attention_bias_ != "none" ? 1 : 0;
  const AttentionHeads heads = heads_of(style);
  const auto project = [&](LayerProduct part, const char* name, TensorId from, Sizes out) {
    return product(part, prefix + name, from, {{"out", std::move(out)}, {"bias", bias}});
  };
  TensorId query =
      project(LayerProduct::Query, "query", x, {heads.kv_heads, heads.heads / heads.kv_heads, heads.width});
  TensorId key = project(LayerProduct::OtherAttention, "key", read, {heads.kv_heads, heads.width});
  const TensorId value = style.values_are_keys ? key
                                               : project(LayerProduct::Value, "value", read,
                                                         {heads.kv_heads, heads.value_width});
  query = norm_heads(style.head_norm, prefix + "query_norm", query);
  key = norm_heads(style.head_norm, prefix + "key_norm", key);
  if (style.rotary) {
    query = rotary(prefix + "query_rotary", query, style.rotary_width);
    key = rotary(prefix + "key_rotary", key, style.rotary_width);
  }
  return mix_values(prefix, x, query, key, value, style);
}

TensorId TransformerNetwork::weigh_values(const std::string& prefix, TensorId query, TensorId key,
                                          TensorId value, const AttentionStyle& style) {
  if (style.selected.valid())
    return builder_.add("selected_attention", prefix + "attention", {query, key, value, style.selected});
  const bool relative = !style.relative.empty();
  Attributes attributes = {{"causal", style.causal ? 1 : 0}};
  if (style.causal) {
    attributes["zigzag"] = zigzag_;
    // The smaller of the two is the narrower only if it divides the other, as chunks of documents do.
    attributes["document_length"] = style.chunk > 0 ? style.chunk : document_length_;
  }
  if (relative) attributes["buckets"] = 32;
  if (style.window > 0) attributes["window"] = style.window;
  if (style.sinks) attributes["sinks"] = 1;
  if (style.cap > 0) attributes["cap"] = style.cap;
  if (writes_scores_) {
    attributes["dropout"] = score_dropout_;
    attributes["alibi"] = style.alibi ? 1 : 0;
  } else {
    // The second order is what the output projection reads, of which a product in float8 keeps a copy of its
    // own.
    attributes["keep_copy"] = keeps_as_megatron_ && !multiplies_narrow() ? 1 : 0;
  }
  if (builder_.shape(query)[3] > 1) {
    attributes["keep_repeated"] = keeps_eagerly_ ? 1 : 0;  // copies, which are no views of anything
  } else if (style.rotary) {
    attributes["keep_projected"] = keeps_as_torch_ && projects_at_once_ ? 1 : 0;
  }
  const char* kind = writes_scores_ ? "scored_attention"
                     : relative     ? "relative_attention"
                     : style.alibi  ? "alibi_attention"
                                    : "attention";
  return builder_.add(kind, prefix + "attention", {query, key, value}, attributes,
                      relative ? std::vector<std::string>{style.relative} : std::vector<std::string>{});
}

TensorId TransformerNetwork::mix_values(const std::string& prefix, TensorId x, TensorId query, TensorId key,
                                        TensorId value, const AttentionStyle& style) {
  TensorId mixed = weigh_values(prefix, query, key, value, style);
  if (style.gate != OutputGate::None) {
    const Sizes shape = builder_.shape(mixed);
    const std::int64_t width = style.gate == OutputGate::Element ? shape[4] : 1;
    const TensorId gate = product(LayerProduct::OtherAttention, prefix + "attention_gate", x,
                                  {{"out", Sizes{shape[2], shape[3], width}}, {"bias", 0}});
    mixed = builder_.add("mul", prefix + "attention_gated",
                         {mixed, builder_.add("sigmoid", prefix + "attention_gate_share", {gate})});
  }
  return product(
      LayerProduct::OtherAttention, prefix + "output", mixed,
      {{"out", Sizes{hidden_}}, {"contract", 3}, {"bias", style.bias || attention_bias_ == "all" ? 1 : 0}});
}

void TransformerNetwork::predict_words(TensorId x, std::int64_t vocabulary, bool tied, bool bias) {
  projection_ = {{"out", vocabulary}, {"bias", bias ? 1 : 0}, {"transpose_weight", tied ? 1 : 0}};
  projection_weights_ = {tied ? "word_embedding.w" : "projection.w"};
  if (bias) projection_weights_.emplace_back("projection.b");
  add_loss("", x);
}

void TransformerNetwork::add_loss(const std::string& prefix, TensorId x) {
  const std::string labels = prefix + "labels";
  Attributes attributes = projection_;
  if (loss_chunks_ > 0) {
    attributes["chunks"] = loss_chunks_;
    builder_.add("linear_cross_entropy", prefix + "loss", {x, indices(labels, builder_.shape(x)[1])},
                 attributes, projection_weights_);
    return;
  }
  attributes["out"] = Sizes{std::get<std::int64_t>(projection_.at("out"))};
  attributes["uneven"] = 1;
  TensorId scores = builder_.add("linear", prefix + "projection", {x}, attributes, projection_weights_);
  // The scale before and behind the hyperbolic tangent is a part of its kernel.
  if (logit_cap_ > 0) scores = builder_.add("tanh", prefix + "projection_cap", {scores});
  builder_.add("cross_entropy", prefix + "loss", {scores, indices(labels, builder_.shape(x)[1])},
               {{"keep_softmax", keeps_as_megatron_ ? 1 : 0}, {"keep_log_softmax", keeps_as_torch_ ? 1 : 0}});
}

ZooOptions transformer_options(const ZooOption& batch, const std::string& dtype, std::int64_t sequence,
                               const TransformerSizes& sizes) {
  const bool own_width = sizes.head_width > 0;  // that hidden by heads need not be
  ZooOptions options = {
      batch,
      dtype_option(dtype),
      ZooOption::integer("sequence", sequence, 1, 1 << 24, "tokens of a sample"),
      ZooOption::integer("layers", sizes.layers, 1, 1000, "transformer layers"),
      ZooOption::integer("hidden", sizes.hidden, 1, 1 << 17, "width of the residual stream"),
      ZooOption::integer("heads", sizes.heads, 1, 1 << 12,
                         own_width ? "attention heads" : "attention heads; divides hidden")};
  if (own_width) {
    options.push_back(
        ZooOption::integer("head_width", sizes.head_width, 1, 1 << 12, "width of an attention head"));
  }
  return options;
}

ZooOption kv_heads_option(std::int64_t value) {
  return ZooOption::integer("kv_heads", value, 1, 1 << 12, "heads of keys and values; divides heads");
}

ZooOption own_heads_option() {
  return ZooOption::integer("kv_heads", 0, 0, 1 << 12,
                            "heads of keys and values; divides heads; 0 is one for each head");
}

ZooOption kept_option() {
  return ZooOption::word(
      "kept", {"once", "megatron", "torch", "torch-eager", "torch-compile"}, "once",
      "what backward needs, once; or as in Megatron-LM: dropout's masks, the loss's softmax in float32 and "
      "fused attention's result in two orders, too, but nothing that experts return, as their results are "
      "weighted before the last product; or as PyTorch's modules do: dropout's masks and the loss's log "
      "softmax in float32; torch-eager: RMS norms keep their inputs in float32, too, and attention keeps "
      "keys and values once for each query head, as where nothing is compiled; torch-compile: what backward "
      "needs, once, as where the loss is compiled, too, and the gate's activation is made again with its "
      "product");
}

ZooOption swiglu_option() {
  return ZooOption::word("swiglu", {"as-kept", "fused", "separate"}, "as-kept",
                         "the gate's activation and its product with the other half: in one kernel that "
                         "keeps no activation (fused), "
                         "or in two kernels; as-kept is fused with kept=megatron");
}

ZooOption swiglu_inputs_option() {
  return ZooOption::word("swiglu_inputs", {"own", "float8"}, "own",
                         "type in which swiglu=fused keeps its inputs for backward; where it runs again, it "
                         "reads them, too");
}

std::vector<ZooOption> products_options() {
  std::vector<std::string> words = product_words();
  words.emplace_back(tensor_scaled);
  std::string each;
  for (const Precision& precision : precisions)
    each += fmt::format("; {}: {}", precision.name, precision.description);
  const auto own_layers = [](const char* name, const char* which) {
    return ZooOption::integer(
        name, 0, 0, 1 << 12,
        fmt::format("{} layers whose products stay in dtype, where products is not own", which));
  };
  return {
      ZooOption::word("products", std::move(words), "own",
                      fmt::format("type in which the products of layers multiply: dtype (own), or one into "
                                  "which kernels of their own bring all operands{}; fp8-tensor is float8",
                                  each)),
      own_layers("own_at_start", "first"), own_layers("own_at_end", "last")};
}

ZooOption vocabulary_option(std::int64_t value) {
  return ZooOption::integer("vocab", value, 2, 1000000, "words of the vocabulary");
}

ZooOption projection_option(const std::string& value) {
  return ZooOption::word("projection", {"tied", "untied"}, value,
                         "shares the word embedding's weight, or has its own");
}

ZooOption ffn_option(std::int64_t value) {
  return ZooOption::integer("ffn", value, 0, 1 << 19,
                            "width of the feed-forward part; 0 is four times hidden");
}

std::int64_t ffn_width(const ZooValues& values) {
  const std::int64_t width = values.integer("ffn");
  return width == 0 ? 4 * values.integer("hidden") : width;
}

ZooOption attention_option() {
  return ZooOption::word(
      "attention", {"fused", "scores"}, "fused",
      "in one kernel, or writing its scores (dropped out, too) and keeping them for backward");
}

ZooOption qkv_option() {
  return ZooOption::word(
      "qkv", {"separate", "fused"}, "separate",
      "a tensor each for queries, keys and values, or one for all, of which values are a view "
      "that keeps it for backward with kept=torch and torch-eager; costs of products are those "
      "of separate ones");
}

ZooOption zigzag_option() {
  return ZooOption::integer("zigzag", 1, 1, 1 << 12,
                            "parts of the sequence that do equal work in attention: positions come as the "
                            "first and the last of twice "
                            "as many chunks, the second and the last but one, and so on");
}

ZooOption document_length_option() {
  return ZooOption::integer("document_length", 0, 0, 1 << 24,
                            "tokens of each document packed into a sample (the last may be shorter), within "
                            "which attention stays; 0 is one document");
}

ZooOption loss_chunks_option() {
  return ZooOption::integer("loss_chunks", 0, 0, 1 << 16,
                            "parts of the tokens whose logits are made one after the other and again in "
                            "backward; 0: all logits are kept");
}

std::int64_t position_rows(const ZooValues& values) {
  return std::max(values.integer("positions"), values.integer("sequence"));
}

ZooOption positions_option(std::int64_t value) {
  return ZooOption::integer("positions", value, 1, 1 << 24,
                            "rows of the position table, at least the sequence");
}

TensorId llama_attention(TransformerNetwork& net, TensorId x, TransformerNetwork::HeadNorm head_norm) {
  const TensorId normed = net.norm("rms_norm", "attention_norm", x);
  return net.add(
      "attention_add", x,
      net.self_attention(normed, {.causal = true, .bias = false, .rotary = true, .head_norm = head_norm}));
}

ZooOptions llama_options(std::int64_t sequence, const TransformerSizes& sizes, std::int64_t vocabulary,
                         const DecoderDefinition& definition) {
  ZooOptions options =
      transformer_options(batch_option(64, "4 for each of 16 devices"), "bfloat16", sequence, sizes);
  if (sizes.head_width == 0) {
    options.push_back(
        ZooOption::integer("head_width", 0, 0, 1 << 12, "width of an attention head; 0 is hidden by heads"));
  }
  options.push_back(kv_heads_option(sizes.kv_heads));
  options.push_back(ZooOption::word("attention_bias", {"none", "qkv", "all"}, "none",
                                    "biases of the projections to queries, keys and values, or of the "
                                    "output projection as well"));
  options.push_back(ffn_option(sizes.ffn));
  options.push_back(vocabulary_option(vocabulary));
  options.push_back(attention_option());
  options.push_back(ZooOption::real("attention_dropout", 0, 0, 0.99,
                                    "rate at which scores are dropped that attention=scores writes"));
  options.push_back(qkv_option());
  options.push_back(zigzag_option());
  options.push_back(loss_chunks_option());
  options.push_back(document_length_option());
  options.push_back(kept_option());
  options.push_back(swiglu_option());
  options.push_back(swiglu_inputs_option());
  for (ZooOption& option : products_options()) options.push_back(std::move(option));
  for (ZooOption& option : definition_options(definition)) options.push_back(std::move(option));
  return options;
}

}  // namespace pipesim
