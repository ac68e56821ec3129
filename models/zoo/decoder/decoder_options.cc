#include <utility>

#include "models/zoo/decoder/decoder_layers.h"
#include "models/zoo/decoder/further_tokens.h"
#include "models/zoo/decoder/vision_tower.h"

namespace pipesim {
namespace {

constexpr std::int64_t kWidest = 1 << 17, kMostHeads = 1 << 12, kWidestPart = 1 << 19;

// A size that is 0 where another one stands for it.
ZooOption size(std::string key, std::int64_t value, std::int64_t highest, std::string help) {
  return ZooOption::integer(std::move(key), value, 0, highest, std::move(help));
}

ZooOption yes_or_no(std::string key, const std::string& value, std::string help) {
  return ZooOption::word(std::move(key), {"yes", "no"}, value, std::move(help));
}

ZooOptions layer_options() {
  return {
      ZooOption::pattern(
          "mixers", "F",
          "what mixes positions, a letter for each layer, repeated until all have one, or cut; a count may "
          "follow a "
          "letter or a part in parentheses: (W5F)8. F attention; W within a window; C within a chunk; G "
          "without positions; S of selected keys; R of those that the last S selected; D gated delta rule; M "
          "Mamba-2; V Mamba; N a linear layer; - nothing"),
      ZooOption::pattern("ffns", "D",
                         "feed-forward part of each layer, in the same way: D dense; a, b, … dense, of the "
                         "widths in further_ffns; E experts; B both, added up; N a linear layer; - none"),
      ZooOption::integers("further_ffns", 0, 0, kWidestPart,
                          "widths of the parts a, b, and so on: 4096+8192; 0: there are none"),
      ZooOption::word("norm", {"rms", "layer"}, "rms", "kind of norms"),
      ZooOption::word("norms", {"before", "after", "both"}, "before",
                      "whether a part's input has a norm, its result, or both"),
      ZooOption::word("residual", {"serial", "parallel", "parallel-two-norms"}, "serial",
                      "the feed-forward part reads what attention leaves, or both read the same, through one "
                      "norm or two"),
      yes_or_no("embedding_norm", "no", "whether a norm follows the embedding"),
      ZooOption::word("position", {"rotary", "learned", "alibi", "none"}, "rotary",
                      "queries and keys are rotated, a table is added, scores fall with the distance, or "
                      "positions are not told")};
}

ZooOptions attention_options() {
  return {
      size("value_width", 0, kMostHeads, "width of a head's values; 0 is head_width"),
      size("rotary_width", 0, kMostHeads, "elements of a head that are rotated, even; 0: all"),
      ZooOption::word("head_norm", {"none", "each", "all"}, "none",
                      "RMS norms of queries and keys: of each head, or of all heads together"),
      ZooOption::word("attention_gate", {"none", "head", "element"}, "none",
                      "sigmoids that what attention returns is multiplied by: one of each head, or of each "
                      "element"),
      ZooOption::word("sinks", {"none", "window", "all"}, "none",
                      "layers whose heads have a learned score without a value"),
      ZooOption::real("score_cap", 0, 0, 1e6, "where scores level off, by a hyperbolic tangent; 0: nowhere"),
      ZooOption::real("logit_cap", 0, 0, 1e6, "the same of the words' scores"),
      ZooOption::word("values", {"own", "keys"}, "own",
                      "whether layers without a window have a product for values, or take the keys'"),
      size("window", 0, 1 << 24, "keys that a query of W sees, its own among them; 0: all"),
      size("window_heads", 0, kMostHeads, "heads of W; 0 is heads"),
      size("window_kv_heads", 0, kMostHeads, "heads of keys and values of W; 0 is kv_heads"),
      size("window_head_width", 0, kMostHeads, "width of a head of W; 0 is head_width"),
      size("window_value_width", 0, kMostHeads, "width of its values; 0 is that of its head"),
      size("window_rotary_width", 0, kMostHeads, "elements of it that are rotated; 0 is rotary_width"),
      size("chunk", 0, 1 << 24, "positions of a chunk of C, which sees itself only; 0: all"),
      size("latent_of_keys", 0, kWidest,
           "width of the latent that keys and values are made of (multi-head latent attention); 0: none"),
      size("latent_of_queries", 0, kWidest, "width of the latent that queries are made of; 0: none"),
      ZooOption::integer("latent_rotary_width", 64, 2, kMostHeads,
                         "width of the rotated part beside a head of latent attention; even"),
      ZooOption::integer("index_heads", 64, 1, kMostHeads, "heads that score keys for S"),
      ZooOption::integer("index_width", 128, 1, kMostHeads, "width of such a head"),
      ZooOption::integer("index_keys", 2048, 1, 1 << 24, "keys that S selects for each query"),
      ZooOption::integer("index_block", 1, 1, 1 << 20, "neighbouring keys that are selected together"),
      yes_or_no("index_by_head", "no", "whether each of these heads selects for a head of keys by itself")};
}

ZooOptions scan_options() {
  return {
      ZooOption::integer("delta_key_heads", 16, 1, kMostHeads, "heads of queries and keys of D"),
      ZooOption::integer("delta_value_heads", 32, 1, kMostHeads,
                         "heads of values of D; delta_key_heads divides it"),
      ZooOption::integer("delta_key_width", 128, 1, kMostHeads, "width of a head of keys"),
      ZooOption::integer("delta_value_width", 128, 1, kMostHeads, "width of a head of values"),
      ZooOption::integer("delta_kernel", 4, 1, 64, "positions that its short convolutions see"),
      ZooOption::word("delta_decay", {"head", "channel"}, "head",
                      "whether a head's state fades as a whole, or each channel of its keys by itself"),
      size("delta_decay_latent", 0, kWidest, "latent that decays by channel are made of; 0: of the input"),
      size("delta_gate_latent", 0, kWidest, "latent that the gate of D is made of; 0: of the input"),
      ZooOption::integer("ssm_heads", 64, 1, kWidest,
                         "heads of M; by ssm_head_width it is the width within M and V"),
      ZooOption::integer("ssm_head_width", 64, 1, kWidest, "width of a head of M"),
      ZooOption::integer("ssm_groups", 1, 1, kMostHeads,
                         "groups of heads that read and write states alike; divides ssm_heads"),
      ZooOption::integer("ssm_states", 128, 1, 1 << 12, "states of a channel of M and V"),
      ZooOption::integer("ssm_kernel", 4, 1, 64, "positions that the short convolutions of M and V see"),
      ZooOption::integer("ssm_chunk", 256, 1, 1 << 16, "positions that a kernel of M works on at a time"),
      size("ssm_rank", 0, kWidest, "width that steps of V are made of; 0: hidden by 16"),
      yes_or_no("ssm_norms", "no", "whether V norms its steps and what states read and write, as Jamba")};
}

ZooOptions feed_forward_options() {
  ZooOptions options{
      ZooOption::word("activation", {"silu", "gelu", "relu", "relu2"}, "silu",
                      "function within feed-forward parts and experts; relu2 is the square of relu"),
      yes_or_no("gated", "yes", "whether it gates a second product, or stands between two"),
      yes_or_no("ffn_bias", "no", "whether the products of dense parts have biases"),
      ZooOption::integer("expert_ffn", 2048, 1, kWidestPart, "width of an expert"),
      yes_or_no("expert_bias", "no", "whether products of experts have biases"),
      size("expert_latent", 0, kWidest,
           "width that tokens have on their way to experts and within; 0: hidden"),
      size("shared_ffn", 0, kWidestPart, "width of the expert that all tokens share; 0: none"),
      yes_or_no("shared_gate", "no", "whether a sigmoid of its own weights that expert"),
      ZooOption::word("router", {"softmax", "sigmoid"}, "softmax",
                      "what makes weights of a router's scores")};
  for (ZooOption& option : experts_options(8, 2)) options.push_back(std::move(option));
  options.push_back(expert_shares_option());
  options.push_back(balance_loss_option(0.001));
  return options;
}

void append(ZooOptions& options, ZooOptions more) {
  for (ZooOption& option : more) options.push_back(std::move(option));
}

}  // namespace

ZooOption further_tokens_option() {
  return ZooOption::integer("further_tokens", 0, 0, 16,
                            "tokens that training predicts beyond the next one: each adds a layer like the "
                            "last one and a loss, whose weight is taken as 1");
}

ZooOptions decoder_options() {
  ZooOptions options =
      llama_options(2048, {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 0, .ffn = 11008}, 32000,
                    {.norm_epsilon = 1e-6});
  for (ZooOption& option : options) {
    if (option.key == "kv_heads") option = own_heads_option();
  }
  append(options, layer_options());
  append(options, attention_options());
  append(options, scan_options());
  append(options, feed_forward_options());
  append(options, {positions_option(2048), dropout_option(0), projection_option("untied"),
                   yes_or_no("projection_bias", "no", "whether the words' scores have biases"),
                   further_tokens_option()});
  append(options, vision_tower_options());
  append(options, adapter_options());
  return options;
}

}  // namespace pipesim
