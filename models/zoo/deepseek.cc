#include <string>
#include <utility>

#include "models/zoo/families.h"
#include "models/zoo/feed_forward.h"

namespace pipesim {

namespace {

/// Multi-head latent attention (DeepSeek-AI, 2024, section 2.1.1): queries, and keys and values together, go
/// through a narrow latent each, but for queries of width 0, which are products of x. A rotated part is
/// joined to the queries and keys of all heads; that of the keys is the same for all heads.
class LatentAttention {
 public:
  LatentAttention(TransformerNetwork& net, const ZooValues& values)
      : net_(net),
        heads_(values.integer("heads")),
        width_(values.integer("head_width")),
        rotary_width_(values.integer("rotary_width")),
        value_width_(values.integer("value_width")),
        query_latent_(values.integer("query_latent")),
        key_latent_(values.integer("key_latent")) {}

  TensorId operator()(TensorId x) {
    using Part = LayerProduct;
    const auto linear = [&](Part part, const std::string& name, TensorId in, Sizes out) {
      return net_.product(part, name, in, {{"out", std::move(out)}, {"bias", 0}});
    };
    const TensorId queries =
        query_latent_ == 0 ? x
                           : net_.norm("rms_norm", "query_norm",
                                       linear(Part::OtherAttention, "query_latent", x, {query_latent_}));
    const TensorId keys =
        net_.norm("rms_norm", "key_norm", linear(Part::OtherAttention, "key_latent", x, {key_latent_}));
    const TensorId turned =
        rotary("query", linear(Part::Query, "query_position", queries, {heads_, 1, rotary_width_}));
    const TensorId query =
        join("query", linear(Part::Query, "query", queries, {heads_, 1, width_}), turned, 4);
    const TensorId shared =
        net_.builder().add("broadcast", "key_of_heads",
                           {rotary("key", linear(Part::OtherAttention, "key_position", x, {rotary_width_}))},
                           {{"axis", 2}, {"size", heads_}});
    const TensorId key = join("key", linear(Part::OtherAttention, "key", keys, {heads_, width_}), shared, 3);
    const TensorId value = linear(Part::Value, "value", keys, {heads_, value_width_});
    return net_.mix_values("", query, key, value, {.causal = true, .bias = false});
  }

 private:
  TensorId rotary(const std::string& of, TensorId x) { return net_.rotary(of + "_rotary", x); }
  TensorId join(const std::string& of, TensorId plain, TensorId turned, std::int64_t axis) {
    return net_.builder().add("concat", of + "_joined", {plain, turned}, {{"axis", axis}});
  }

  TransformerNetwork& net_;
  std::int64_t heads_, width_, rotary_width_, value_width_, query_latent_, key_latent_;
};

/// The first layers are dense, the others have experts, some of which all tokens share.
class FeedForward {
 public:
  FeedForward(TransformerNetwork& net, const ZooValues& values)
      : net_(net),
        hidden_(values.integer("hidden")),
        dense_layers_(values.integer("dense_layers")),
        dense_ffn_(ffn_width(values)),
        shared_ffn_(values.integer("shared_experts") * values.integer("expert_ffn")),
        routed_(expert_sizes(values, values.integer("expert_ffn"))) {
    routed_.gate = "sigmoid";
  }

  TensorId operator()(std::int64_t layer, TensorId x) {
    if (layer <= dense_layers_) return gated_ffn(net_, "dense_", x, hidden_, dense_ffn_);
    const TensorId routed = experts_ffn(net_, x, routed_);
    if (shared_ffn_ == 0) return routed;
    return net_.add("experts_add", routed, gated_ffn(net_, "shared_", x, hidden_, shared_ffn_));
  }

 private:
  TransformerNetwork& net_;
  std::int64_t hidden_, dense_layers_, dense_ffn_, shared_ffn_;
  ExpertSizes routed_;
};

/// A layer for each further token (section 2.2): the hidden state, and the embedding of the word that was
/// predicted before, both normed, become one state. A layer like the last one follows; the word embedding and
/// the projection are those of the model, the norm in front of that is its own.
class FurtherTokens {
 public:
  FurtherTokens(TransformerNetwork& net, const ZooValues& values)
      : net_(net), hidden_(values.integer("hidden")), words_(values.integer("vocab")) {}

  template <class Layer>
  TensorId operator()(std::int64_t depth, TensorId x, const Layer& layer) {
    GraphBuilder& builder = net_.builder();
    const std::string prefix = "further" + std::to_string(depth) + ".";
    const TensorId words = net_.indices(prefix + "words");
    builder.begin_repeat("further", depth);
    const TensorId embedded = builder.add("embedding", "embedding", {words},
                                          {{"rows", words_}, {"width", hidden_}}, {"word_embedding.w"});
    const TensorId both = builder.add(
        "concat", "joined",
        {net_.norm("rms_norm", "embedding_norm", embedded), net_.norm("rms_norm", "hidden_norm", x)},
        {{"axis", 2}});
    x = layer(builder.add("linear", "merge", {both}, {{"out", Sizes{hidden_}}, {"bias", 0}}));
    builder.end_repeat();
    net_.predict_words_again(prefix, net_.norm("rms_norm", prefix + "norm", x), words_);
    return x;
  }

 private:
  TransformerNetwork& net_;
  std::int64_t hidden_, words_;
};

OperatorGraph deepseek(const ZooValues& values) {
  TransformerNetwork net(values);
  LatentAttention attention(net, values);
  FeedForward feed_forward(net, values);
  FurtherTokens further(net, values);
  const std::int64_t layers = values.integer("layers");
  const auto layer = [&](std::int64_t i, TensorId x) {
    x = net.add("attention_add", x, attention(net.norm("rms_norm", "attention_norm", x)));
    return net.add("ffn_add", x, feed_forward(i, net.norm("rms_norm", "ffn_norm", x)));
  };
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= layers; ++i) {
    net.builder().begin_repeat("layer", i);
    x = layer(i, x);
    net.builder().end_repeat();
  }
  net.predict_words(net.norm("rms_norm", "norm", x), values.integer("vocab"), false, false);
  for (std::int64_t depth = 1; depth <= values.integer("further_tokens"); ++depth)
    x = further(depth, x, [&](TensorId merged) { return layer(layers, merged); });
  return net.build();
}

// The defaults are those of its config.json.
ZooOptions router_options() {
  return {
      ZooOption::integer("router_groups", 8, 1, 1024,
                         "groups that experts come in; divides experts; for exports"),
      ZooOption::integer("router_top_groups", 4, 1, 1024, "groups that a token's experts are chosen from"),
      ZooOption::real("router_scale", 2.5, 0, 1e3, "what the weights of a token's experts are multiplied by"),
      balance_loss_option(0.0001)};
}

ZooOptions deepseek_options() {
  const auto width = [](std::string key, std::int64_t value, std::string help) {
    return ZooOption::integer(std::move(key), value, 1, 1 << 17, std::move(help));
  };
  ZooOptions options = transformer_options(batch_option(64, "4 for each of 16 devices"), "bfloat16", 4096,
                                           {.layers = 61, .hidden = 7168, .heads = 128, .head_width = 128});
  options.push_back(ZooOption::integer("rotary_width", 64, 2, 1 << 12,
                                       "width of the rotated part of queries and keys beside it; even"));
  options.push_back(width("value_width", 128, "width of a head's values"));
  options.push_back(ZooOption::integer("query_latent", 1536, 0, 1 << 17,
                                       "width of the latent that queries are made of; 0: of the input"));
  options.push_back(width("key_latent", 512, "width of the latent that keys and values are made of"));
  options.push_back(attention_option());
  options.push_back(zigzag_option());
  options.push_back(loss_chunks_option());
  options.push_back(document_length_option());
  options.push_back(ZooOption::integer("dense_layers", 3, 0, 1000, "first layers, which have no experts"));
  options.push_back(ffn_option(18432));
  options.push_back(width("expert_ffn", 2048, "width of an expert"));
  options.push_back(ZooOption::integer("shared_experts", 1, 0, 64, "experts that all tokens share"));
  for (ZooOption& option : experts_options(256, 8)) options.push_back(std::move(option));
  for (ZooOption& option : router_options()) options.push_back(std::move(option));
  options.push_back(vocabulary_option(129280));
  options.push_back(kept_option());
  options.push_back(swiglu_option());
  options.push_back(swiglu_inputs_option());
  options.push_back(products_option());
  // Positions as its config.json stretches them, deviation and balance as section 4.2 has them.
  for (ZooOption& option : definition_options({.rotary_scaling = "yarn",
                           .rotary_factor = 40,
                           .rotary_original = 4096,
                           .rotary_high = 32,
                           .rotary_mscale_all = 1,
                           .norm_epsilon = 1e-6,
                           .init_deviation = 0.006}))
    options.push_back(std::move(option));
  options.push_back(ZooOption::integer("further_tokens", 0, 0, 16,
                                       "tokens that training predicts beyond the next one: each adds a layer "
                                       "like the last one and a loss, whose weight is taken as 1"));
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return options;
}

}  // namespace

std::vector<ZooModel> deepseek_models() {
  return {{"deepseek-v3", "DeepSeek-V3: latent attention, each token to a shared and 8 of 256 experts",
           "DeepSeek-AI, 2024, section 4.2; arXiv:2412.19437", deepseek_options(), deepseek}};
}

}  // namespace pipesim
