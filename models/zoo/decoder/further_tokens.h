#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/transformer.h"

namespace pipesim {

/// A layer for each further token (DeepSeek-AI, arXiv:2412.19437, section 2.2): the hidden state, and the
/// embedding of the word that was predicted before, both normed, become one state. A layer like the last one
/// follows; the word embedding and the projection are those of the model, the norm in front of that is its
/// own.
class FurtherTokens {
 public:
  FurtherTokens(TransformerNetwork& net, const ZooValues& values)
      : net_(net), hidden_(values.integer("hidden")), words_(values.integer("vocab")) {}

  /// `norm`: the kind of norms. Calls layer(state) for the layer's result.
  template <class Layer>
  TensorId operator()(const std::string& norm, std::int64_t depth, TensorId x, const Layer& layer) {
    GraphBuilder& builder = net_.builder();
    const std::string prefix = "further" + std::to_string(depth) + ".";
    const TensorId words = net_.indices(prefix + "words");
    builder.begin_repeat("further", depth);
    const TensorId embedded = builder.add("embedding", "embedding", {words},
                                          {{"rows", words_}, {"width", hidden_}}, {"word_embedding.w"});
    const TensorId both = builder.add(
        "concat", "joined", {net_.norm(norm, "embedding_norm", embedded), net_.norm(norm, "hidden_norm", x)},
        {{"axis", 2}});
    x = layer(builder.add("linear", "merge", {both}, {{"out", Sizes{hidden_}}, {"bias", 0}}));
    builder.end_repeat();
    net_.predict_words_again(prefix, net_.norm(norm, prefix + "norm", x));
    return x;
  }

 private:
  TransformerNetwork& net_;
  std::int64_t hidden_, words_;
};

ZooOption further_tokens_option();

}  // namespace pipesim
