#include <string>
#include <utility>

#include "models/zoo/decoder/further_tokens.h"
#include "models/zoo/decoder/latent_attention.h"
#include "models/zoo/families.h"
#include "models/zoo/feed_forward.h"

namespace pipesim {

namespace {

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
    if (layer <= dense_layers_) return feed_forward(net_, "dense_", x, hidden_, dense_ffn_);
    const TensorId routed = experts_ffn(net_, x, routed_);
    if (shared_ffn_ == 0) return routed;
    return net_.add("experts_add", routed, feed_forward(net_, "shared_", x, hidden_, shared_ffn_));
  }

 private:
  TransformerNetwork& net_;
  std::int64_t hidden_, dense_layers_, dense_ffn_, shared_ffn_;
  ExpertSizes routed_;
};

OperatorGraph deepseek(const ZooValues& values) {
  TransformerNetwork net(values);
  LatentMixer latent(net, latent_sizes(values));
  FeedForward ffn(net, values);
  FurtherTokens further(net, values);
  const std::int64_t layers = values.integer("layers");
  const auto attention = [&](TensorId x) {
    return latent.attend("", x, latent.query_source("", x), {.causal = true, .bias = false});
  };
  const auto layer = [&](std::int64_t i, TensorId x) {
    x = net.add("attention_add", x, attention(net.norm("rms_norm", "attention_norm", x)));
    return net.add("ffn_add", x, ffn(i, net.norm("rms_norm", "ffn_norm", x)));
  };
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  for (std::int64_t i = 1; i <= layers; ++i) {
    net.begin_layer(i, layers);
    x = layer(i, x);
    net.end_layer();
  }
  net.predict_words(net.norm("rms_norm", "norm", x), values.integer("vocab"), false, false);
  for (std::int64_t depth = 1; depth <= values.integer("further_tokens"); ++depth)
    x = further("rms_norm", depth, x, [&](TensorId merged) { return layer(layers, merged); });
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
  for (ZooOption& option : products_options()) options.push_back(std::move(option));
  // Positions as its config.json stretches them, deviation and balance as section 4.2 has them.
  for (ZooOption& option : definition_options({.rotary_scaling = "yarn",
                           .rotary_factor = 40,
                           .rotary_original = 4096,
                           .rotary_high = 32,
                           .rotary_mscale_all = 1,
                           .norm_epsilon = 1e-6,
                           .init_deviation = 0.006}))
    options.push_back(std::move(option));
  options.push_back(further_tokens_option());
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return options;
}

}  // namespace

std::vector<ZooModel> deepseek_models() {
  return {{"deepseek-v3", "DeepSeek-V3: latent attention, each token to a shared and 8 of 256 experts",
           "DeepSeek-AI, 2024, section 4.2; arXiv:2412.19437", deepseek_options(), deepseek}};
}

}  // namespace pipesim
