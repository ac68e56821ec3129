#include "models/hugging_face/other_networks.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/hugging_face/decoder_reader.h"
#include "models/hugging_face/zoo_text.h"

namespace pipesim {
namespace {

using Names = ConfigReader::Names;

/// A text under construction, with what the model goes without.
struct NetworkText {
  NetworkText(const ConfigReader& config, std::string model) : c(config), text(std::move(model)) {
    const auto type = c.word({"torch_dtype", "dtype"});
    if (type == "float16" || type == "bfloat16" || type == "float32") text.set("dtype", *type);
  }
  void copy(std::string_view key, Names names) { text.set(key, c.size(names)); }
  void set_sequence(Names names, std::int64_t otherwise) {
    text.set("sequence", std::min(c.size_or(names, otherwise), kLongestSequence));
  }
  void set_rate(std::string_view key, Names names, double otherwise) {
    text.set(key, c.number_or(names, 0, 0.99, otherwise));
  }
  void expect_activation(Names names, std::string_view taken) {
    const auto name = c.word(names);
    if (name && !name->starts_with(taken))
      left_out.push_back(fmt::format("{} = \"{}\": {} is taken", *names.begin(), *name, taken));
  }
  void require(std::string_view key, bool wanted, const char* why) {
    if (const auto found = c.value(key); found && found->boolean() != wanted)
      found->fail(fmt::format("found {}, allowed: {}, {}", !wanted, wanted, why));
  }
  HuggingFaceModel model(bool definition = false) && {
    if (definition && !left_out.empty()) text.set("partial", "yes");
    std::vector<std::string> notes = std::move(left_out);
    c.note_unread_keys("", notes);
    return {std::move(text).text(), std::move(notes)};
  }

  const ConfigReader& c;
  ZooText text;
  std::vector<std::string> left_out;
};

HuggingFaceModel read_gpt2(const ConfigReader& c) {
  NetworkText t(c, "gpt");
  t.set_sequence({"n_positions", "n_ctx"}, kLongestSequence);
  t.copy("layers", {"n_layer"});
  t.copy("hidden", {"n_embd"});
  static_cast<void>(c.quotient({"n_embd"}, {"n_head"}));
  t.copy("heads", {"n_head"});
  t.text.set("ffn", c.size_or({"n_inner"}, 0));
  t.copy("vocab", {"vocab_size"});
  t.copy("positions", {"n_positions", "n_ctx"});
  t.set_rate("dropout", {"resid_pdrop"}, 0);
  t.text.set("projection", c.flag_or({"tie_word_embeddings"}, true) ? "tied" : "untied");
  t.expect_activation({"activation_function", "afn"}, "gelu");
  t.text.set("norm_epsilon", c.number_or({"layer_norm_epsilon"}, 0, 1, 1e-5));
  t.text.set("init_deviation", c.number_or({"initializer_range"}, 0, 1, 0.02));
  c.pass_over({"embd_pdrop", "attn_pdrop", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
               "reorder_and_upcast_attn", "n_special", "predict_special_tokens"});
  return std::move(t).model(true);
}

// GPT-1's norms follow the sums, which changes no operator's cost but the last norm's.
HuggingFaceModel read_gpt1(const ConfigReader& c) {
  HuggingFaceModel model = read_gpt2(c);
  model.left_out.emplace_back("norms come before each part, and one more behind the last layer");
  return model;
}

HuggingFaceModel read_bloom(const ConfigReader& c) {
  NetworkText t(c, "bloom-176b");
  t.set_sequence({"seq_length"}, 2048);
  t.copy("layers", {"n_layer", "num_hidden_layers"});
  t.copy("hidden", {"hidden_size", "n_embed"});
  static_cast<void>(c.quotient({"hidden_size", "n_embed"}, {"n_head", "num_attention_heads"}));
  t.copy("heads", {"n_head", "num_attention_heads"});
  t.copy("vocab", {"vocab_size"});
  t.set_rate("dropout", {"hidden_dropout"}, 0);
  t.text.set("projection", c.flag_or({"tie_word_embeddings"}, true) ? "tied" : "untied");
  c.pass_over({"attention_dropout", "attention_softmax_in_fp32", "bias_dropout_fusion", "layer_norm_epsilon",
               "masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv",
               "slow_but_exact", "apply_residual_connection_post_layernorm", "unk_token_id", "vocab_size"});
  t.require("apply_residual_connection_post_layernorm", false, "the residual of what the norm reads");
  return std::move(t).model();
}

HuggingFaceModel read_bert(const ConfigReader& c) {
  NetworkText t(c, "bert-base");
  t.set_sequence({"max_position_embeddings"}, 512);
  t.copy("layers", {"num_hidden_layers"});
  t.copy("hidden", {"hidden_size"});
  static_cast<void>(c.quotient({"hidden_size"}, {"num_attention_heads"}));
  t.copy("heads", {"num_attention_heads"});
  t.copy("ffn", {"intermediate_size"});
  t.copy("vocab", {"vocab_size"});
  t.copy("positions", {"max_position_embeddings"});
  t.set_rate("dropout", {"hidden_dropout_prob"}, 0.1);
  t.expect_activation({"hidden_act"}, "gelu");
  if (const auto kind = c.word({"position_embedding_type"}); kind && *kind != "absolute")
    c.value("position_embedding_type")->fail(fmt::format("found \"{}\", allowed: absolute", *kind));
  c.pass_over({"attention_probs_dropout_prob", "layer_norm_eps", "type_vocab_size"});
  return std::move(t).model();
}

HuggingFaceModel read_t5(const ConfigReader& c) {
  NetworkText t(c, "t5-base");
  t.set_sequence({"n_positions"}, 512);
  const std::int64_t layers = c.size({"num_layers"});
  if (const std::int64_t decoder = c.size_or({"num_decoder_layers"}, layers); decoder != layers)
    c.value("num_decoder_layers")
        ->fail(fmt::format("found {}, allowed: {}, as many as num_layers", decoder, layers));
  t.text.set("layers", layers);
  t.copy("hidden", {"d_model"});
  t.copy("heads", {"num_heads"});
  t.copy("head_width", {"d_kv"});
  t.copy("ffn", {"d_ff"});
  t.copy("vocab", {"vocab_size"});
  t.set_rate("dropout", {"dropout_rate"}, 0.1);
  const std::string function = c.word({"feed_forward_proj", "dense_act_fn"}).value_or("relu");
  if (function.starts_with("gated"))
    c.value("feed_forward_proj")
        ->fail(fmt::format("found \"{}\", allowed: relu; T5 with gates can't be expressed", function));
  if (!c.flag_or({"tie_word_embeddings"}, true))
    c.value("tie_word_embeddings")->fail("found false, allowed: true, as T5's first version has it");
  c.pass_over({"relative_attention_num_buckets", "relative_attention_max_distance", "layer_norm_epsilon",
               "output_past", "is_gated_act", "dense_act_fn"});
  return std::move(t).model();
}

HuggingFaceModel read_whisper(const ConfigReader& c) {
  NetworkText t(c, "whisper-large");
  t.set_sequence({"max_target_positions"}, 448);
  t.copy("layers", {"encoder_layers"});
  t.copy("decoder_layers", {"decoder_layers"});
  t.copy("hidden", {"d_model"});
  static_cast<void>(c.quotient({"d_model"}, {"decoder_attention_heads"}));
  t.copy("heads", {"decoder_attention_heads"});
  const std::int64_t heads = c.size({"decoder_attention_heads"}), ffn = c.size({"decoder_ffn_dim"});
  if (c.size_or({"encoder_attention_heads"}, heads) != heads)
    c.value("encoder_attention_heads")->fail(fmt::format("allowed: {}, as many as the decoder has", heads));
  if (c.size_or({"encoder_ffn_dim"}, ffn) != ffn)
    c.value("encoder_ffn_dim")->fail(fmt::format("allowed: {}, as wide as the decoder's", ffn));
  t.text.set("ffn", ffn);
  t.copy("vocab", {"vocab_size"});
  t.copy("positions", {"max_target_positions"});
  t.text.set("frames", 2 * c.size_or({"max_source_positions"}, 1500));
  t.copy("mels", {"num_mel_bins"});
  t.set_rate("dropout", {"dropout"}, 0);
  t.expect_activation({"activation_function"}, "gelu");
  c.pass_over({"activation_dropout", "attention_dropout", "decoder_layerdrop", "encoder_layerdrop",
               "scale_embedding", "num_hidden_layers", "median_filter_width", "max_source_positions"});
  return std::move(t).model();
}

HuggingFaceModel read_vit(const ConfigReader& c) {
  NetworkText t(c, "vit-b16");
  t.copy("image", {"image_size"});
  t.copy("patch", {"patch_size"});
  t.copy("layers", {"num_hidden_layers"});
  t.copy("hidden", {"hidden_size"});
  static_cast<void>(c.quotient({"hidden_size"}, {"num_attention_heads"}));
  t.copy("heads", {"num_attention_heads"});
  t.copy("ffn", {"intermediate_size"});
  const auto labels = c.config().find("id2label");
  t.text.set("classes",
             labels && labels->is_object() ? static_cast<std::int64_t>(labels->members().size()) : 1000);
  t.expect_activation({"hidden_act"}, "gelu");
  c.pass_over({"attention_probs_dropout_prob", "hidden_dropout_prob", "layer_norm_eps", "num_channels",
               "qkv_bias", "encoder_stride", "pooler_output_size", "pooler_act"});
  return std::move(t).model();
}

}  // namespace

const std::vector<OtherNetwork>& other_networks() {
  static const std::vector<OtherNetwork> all{
      {"gpt2", read_gpt2}, {"openai-gpt", read_gpt1}, {"bloom", read_bloom},
      {"bert", read_bert}, {"roberta", read_bert},    {"xlm-roberta", read_bert},
      {"t5", read_t5},     {"whisper", read_whisper}, {"vit", read_vit}};
  return all;
}

}  // namespace pipesim
