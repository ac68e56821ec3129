#include "models/zoo/decoder/decoder_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/zoo/decoder/layer_pattern.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Network = TransformerNetwork;

// Widths of the parts a, b, …; 0 alone stands for none.
std::vector<std::int64_t> further_widths(const ZooValues& values) {
  std::vector<std::int64_t> widths = values.integers("further_ffns");
  if (widths == std::vector<std::int64_t>{0}) return {};
  if (std::ranges::find(widths, 0) != widths.end())
    values.fail("further_ffns=" + values.word("further_ffns") + " has a part of width 0");
  return widths;
}

std::string layers_of(const ZooValues& values, const std::string& key, std::string_view letters) {
  try {
    return letters_of_layers(values.word(key), values.integer("layers"), letters);
  } catch (const InputError& error) {
    values.fail(fmt::format("{}: {}", key, error.what()));
  }
}

Network::HeadNorm head_norm(const ZooValues& values) {
  using enum Network::HeadNorm;
  const std::string& word = values.word("head_norm");
  return word == "each" ? Each : word == "all" ? All : None;
}

Network::OutputGate output_gate(const ZooValues& values) {
  using enum Network::OutputGate;
  const std::string& word = values.word("attention_gate");
  return word == "head" ? Head : word == "element" ? Element : None;
}

void check_heads(const ZooValues& values, const Network::AttentionHeads& heads, const std::string& of) {
  if (heads.heads % heads.kv_heads != 0)
    values.fail(fmt::format("{}kv_heads={} does not divide {}heads={}", of, heads.kv_heads, of, heads.heads));
}

std::int64_t or_else(std::int64_t value, std::int64_t otherwise) { return value > 0 ? value : otherwise; }

Network::AttentionHeads heads_of(const ZooValues& values) {
  Network::AttentionHeads heads{.heads = values.integer("heads")};
  heads.kv_heads = or_else(values.integer("kv_heads"), heads.heads);
  heads.width = values.integer("head_width");
  if (heads.width == 0) heads.width = values.quotient("hidden", "heads");
  heads.value_width = or_else(values.integer("value_width"), heads.width);
  return heads;
}

// The smaller of documents and chunks, where it divides the other.
std::int64_t chunk_of(const ZooValues& values) {
  const std::int64_t chunk = values.integer("chunk"), document = values.integer("document_length");
  if (chunk == 0 || document == 0) return chunk;
  if (chunk % document != 0 && document % chunk != 0)
    values.fail(fmt::format("chunk={} and document_length={}: one must divide the other", chunk, document));
  return std::min(chunk, document);
}

// Latent attention, and attention to selected keys, have none of these.
void check_options_of_attention(const ZooValues& values, const std::string& mixers) {
  if (values.integer("latent_of_keys") > 0 &&
      (values.word("attention_bias") != "none" || values.integer("rotary_width") > 0))
    values.fail(
        "latent_of_keys has no biases, and rotates parts of latent_rotary_width: leave out "
        "attention_bias and rotary_width");
  if (mixers.find_first_of("SR") == std::string::npos) return;
  if (values.integer("document_length") > 0)
    values.fail("document_length needs layers without S and R, which see all positions before their own");
  if (values.word("attention") == "scores") values.fail("attention=scores needs layers without S and R");
  if (values.real("score_cap") > 0 || values.word("sinks") == "all")
    values.fail("score_cap and sinks=all need layers without S and R");
}

}  // namespace

DecoderLayers::DecoderLayers(TransformerNetwork& net, const ZooValues& values)
    : net_(net),
      mixers_(layers_of(values, "mixers", mixer_letters::kAll)),
      ffns_(layers_of(values, "ffns", ffn_letters::kAll)),
      norm_(values.word("norm") + "_norm"),
      norms_before_(values.word("norms") != "after"),
      norms_after_(values.word("norms") != "before"),
      parallel_(values.word("residual") != "serial"),
      two_norms_(values.word("residual") == "parallel-two-norms"),
      hidden_(values.integer("hidden")),
      ffn_(ffn_width(values)),
      further_ffns_(further_widths(values)),
      chunk_(chunk_of(values)),
      sinks_(values.word("sinks")),
      delta_(delta_sizes(values)),
      state_space_(state_space_sizes(values)),
      selective_{.hidden = hidden_,
                 .inner = values.integer("ssm_heads") * values.integer("ssm_head_width"),
                 .states = values.integer("ssm_states"),
                 .kernel = values.integer("ssm_kernel"),
                 .rank = or_else(values.integer("ssm_rank"), (hidden_ + 15) / 16),
                 .norms = values.word("ssm_norms") == "yes"},
      index_{.heads = values.integer("index_heads"),
             .width = values.integer("index_width"),
             .keys = values.integer("index_keys"),
             .block = values.integer("index_block"),
             .by_head = values.word("index_by_head") == "yes"},
      ffn_style_{.activation = values.word("activation"),
                 .gated = values.word("gated") == "yes",
                 .bias = values.word("ffn_bias") == "yes"},
      shared_ffn_(values.integer("shared_ffn")),
      shared_gate_(values.word("shared_gate") == "yes") {
  check_options_of_letters(values);
  check_options_of_attention(values, mixers_);
  if (parallel_ && norms_after_) values.fail("residual=parallel needs norms=before");
  for (const char letter : ffns_) {
    const auto index = static_cast<std::size_t>(letter - ffn_letters::kFirstFurther);
    if (letter >= ffn_letters::kFirstFurther && index >= further_ffns_.size())
      values.fail(fmt::format("ffns has '{}', allowed: letters of the {} widths of further_ffns", letter,
                              further_ffns_.size()));
  }
  const std::size_t first = mixers_.find_first_of("SR");
  if (first != std::string::npos && mixers_[first] == mixer_letters::kSparseAgain)
    values.fail("mixers has R before any S, allowed: layers R behind one that selects keys");
  style_.causal = true;
  style_.bias = false;
  style_.rotary = values.word("position") == "rotary";
  style_.alibi = values.word("position") == "alibi";
  style_.head_norm = head_norm(values);
  style_.heads = heads_of(values);
  check_heads(values, style_.heads, "");
  style_.rotary_width = values.integer("rotary_width");
  style_.cap = values.real("score_cap");
  style_.gate = output_gate(values);
  window_style_ = style_;
  Network::AttentionHeads& window = window_style_.heads;
  window.heads = or_else(values.integer("window_heads"), window.heads);
  window.kv_heads = or_else(values.integer("window_kv_heads"), window.kv_heads);
  window.width = or_else(values.integer("window_head_width"), window.width);
  window.value_width = or_else(values.integer("window_value_width"),
                               values.integer("window_head_width") > 0 ? window.width : window.value_width);
  window_style_.rotary_width = or_else(values.integer("window_rotary_width"), style_.rotary_width);
  check_heads(values, window, "window_");
  window_style_.window = values.integer("window");
  style_.values_are_keys = values.word("values") == "keys";
  latent_ = {.heads = style_.heads.heads,
             .width = style_.heads.width,
             .rotary_width = values.integer("latent_rotary_width"),
             .value_width = style_.heads.value_width,
             .query_latent = values.integer("latent_of_queries"),
             .key_latent = values.integer("latent_of_keys"),
             .rotated = style_.rotary};
  if (ffns_.find_first_of("EB") != std::string::npos) {
    experts_ = expert_sizes(values, values.integer("expert_ffn"));
    experts_.gate = values.word("router");
    experts_.style = ffn_style_;
    experts_.style.bias = values.word("expert_bias") == "yes";
    experts_.latent = values.integer("expert_latent");
  }
}

TensorId DecoderLayers::norm(const std::string& name, TensorId x) { return net_.norm(norm_, name, x); }

TensorId DecoderLayers::layer(std::int64_t i, TensorId x) {
  const auto index = static_cast<std::size_t>(i - 1);
  return parallel_ ? parallel(mixers_[index], ffns_[index], x) : serial(mixers_[index], ffns_[index], x);
}

TensorId DecoderLayers::part(const std::string& name, TensorId x, TensorId result) {
  if (norms_after_) result = norm(name + "_after_norm", result);
  return net_.add(name + "_add", x, net_.dropout(name + "_dropout", result));
}

TensorId DecoderLayers::serial(char mixer, char ffn, TensorId x) {
  const auto read = [&](const char* name) { return norms_before_ ? norm(name, x) : x; };
  if (mixer != mixer_letters::kNone) x = part("attention", x, mix(mixer, read("attention_norm")));
  if (ffn != ffn_letters::kNone) x = part("ffn", x, feed_forward_of(ffn, read("ffn_norm")));
  return x;
}

TensorId DecoderLayers::parallel(char mixer, char ffn, TensorId x) {
  if (mixer == mixer_letters::kNone || ffn == ffn_letters::kNone) return serial(mixer, ffn, x);
  const TensorId read = norm("attention_norm", x);
  const TensorId mixed = mix(mixer, read);
  const TensorId fed = feed_forward_of(ffn, two_norms_ ? norm("ffn_norm", x) : read);
  return net_.add("ffn_add", x, net_.dropout("dropout", net_.add("parts_add", mixed, fed)));
}

TensorId DecoderLayers::mix(char letter, TensorId x) {
  using namespace mixer_letters;
  switch (letter) {
    case kDelta:
      return delta_mixer(net_, "delta_", x, hidden_, delta_);
    case kStateSpace:
      return state_space_mixer(net_, "ssm_", x, hidden_, state_space_);
    case kSelective:
      return selective_mixer(net_.builder(), "ssm_", x, selective_);
    case kLinear:
      return net_.linear_without_bias("linear", x, hidden_);
    default:
      return attend(letter, x);
  }
}

DecoderLayers::Style DecoderLayers::style_of(char letter) const {
  Style style = letter == mixer_letters::kWindow ? window_style_ : style_;
  style.sinks = sinks_ == "all" || (sinks_ == "window" && letter == mixer_letters::kWindow);
  if (letter == mixer_letters::kChunk) style.chunk = chunk_;
  if (letter == mixer_letters::kUnplaced) style.rotary = false;
  return style;
}

TensorId DecoderLayers::attend(char letter, TensorId x) {
  using namespace mixer_letters;
  Style style = style_of(letter);
  // Layers that differ have operators of other names, so that equal names are repeats of one another.
  const std::string prefix = letter == kFull          ? ""
                             : letter == kWindow      ? "window_"
                             : letter == kChunk       ? "chunk_"
                             : letter == kUnplaced    ? "unplaced_"
                             : letter == kSparseAgain ? "again_"
                                                      : "sparse_";
  const bool sparse = letter == kSparse || letter == kSparseAgain;
  if (latent_.key_latent == 0) {
    if (letter == kSparse) selected_ = select(prefix, x, x);
    if (sparse) style.selected = selected_;
    return net_.attention(prefix, x, x, style);
  }
  style.rotary = false;  // the joined queries and keys are copies, no views of products
  LatentSizes sizes = latent_;
  if (letter == kUnplaced) sizes.rotated = false;
  LatentMixer latent(net_, sizes);
  const TensorId source = latent.query_source(prefix, x);
  if (letter == kSparse) selected_ = select(prefix, x, source);
  if (sparse) style.selected = selected_;
  return latent.attend(prefix, x, source, style);
}

// Its weights have a loss of their own, which is no part of the model: they are frozen here.
TensorId DecoderLayers::select(const std::string& prefix, TensorId x, TensorId source) {
  GraphBuilder& builder = net_.builder();
  const auto linear = [&](const char* name, TensorId in, Sizes out) {
    return builder.add("linear", prefix + name, {in}, {{"out", std::move(out)}, {"bias", 0}});
  };
  builder.freeze(true);
  const TensorId query = linear("index_query", source, {index_.heads, index_.width});
  const TensorId key =
      builder.add("layer_norm", prefix + "index_key_norm", {linear("index_key", x, {index_.width})});
  Attributes attributes{{"count", index_.keys}};
  if (index_.block > 1) attributes.emplace("block", index_.block);
  std::vector<TensorId> inputs{query, key};
  if (index_.by_head) {
    attributes.emplace("by_head", 1);
  } else {
    inputs.push_back(linear("index_weights", x, {index_.heads}));
  }
  const TensorId selected = builder.add("select_keys", prefix + "select", inputs, attributes);
  builder.freeze(net_.freezes());
  return selected;
}

TensorId DecoderLayers::feed_forward_of(char letter, TensorId x) {
  using namespace ffn_letters;
  switch (letter) {
    case kDense:
      return feed_forward(net_, ffns_.find_first_of("EB") == std::string::npos ? "" : "dense_", x, hidden_,
                          ffn_, ffn_style_);
    case kExperts:
      return experts(x);
    case kBoth:
      return dense_and_experts(x);
    case kLinear:
      return net_.linear_without_bias("ffn_linear", x, hidden_);
    default:
      return feed_forward(net_, fmt::format("{}_", letter), x, hidden_,
                          further_ffns_[static_cast<std::size_t>(letter - kFirstFurther)], ffn_style_);
  }
}

// Each of the two has a norm of its own behind it, and experts one more before (Gemma 4).
TensorId DecoderLayers::dense_and_experts(TensorId x) {
  const TensorId dense = norm("dense_after_norm", feed_forward(net_, "dense_", x, hidden_, ffn_, ffn_style_));
  const TensorId routed = norm("experts_after_norm", experts(norm("experts_norm", x)));
  return net_.add("both_add", dense, routed);
}

TensorId DecoderLayers::experts(TensorId x) {
  const TensorId routed = experts_ffn(net_, x, experts_);
  if (shared_ffn_ == 0) return routed;
  const TensorId shared = shared_gate_ ? weighted_shared_expert(net_, x, hidden_, shared_ffn_, ffn_style_)
                                       : feed_forward(net_, "shared_", x, hidden_, shared_ffn_, ffn_style_);
  return net_.add("experts_add", routed, shared);
}

}  // namespace pipesim
