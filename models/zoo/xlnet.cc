#include <string>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/transformer.h"

namespace pipesim {

namespace {

/// XLNet's attention scores are sums of three products, each with a learned bias of its own on the queries:
/// with keys, with encoded distances, and with whether both words stand in the same segment. They are
/// written out in operators, as the published code does: no fused kernel computes them. Their common factor
/// 1/√width counts as part of the weights.
class RelativeAttention {
 public:
  RelativeAttention(TransformerNetwork& net, const ZooValues& values)
      : net_(net),
        builder_(net.builder()),
        batch_(values.integer("batch")),
        length_(values.integer("sequence")),
        hidden_(values.integer("hidden")),
        heads_(values.integer("heads")),
        width_(values.quotient("hidden", "heads")) {
    // Sinusoids of the distances length … 1 − length; one copy a sample, as in the published code.
    distances_ = builder_.data("distances", {batch_, 2 * length_, hidden_});
    same_segment_ = builder_.data("same_segment", {batch_, length_, length_, 2});  // one-hot
    bias_row_ = net.indices("bias_row", 1);                                        // 0 throughout
    segment_kinds_ = net.indices("segment_kinds", 2);                              // 0 and 1
  }

  /// [batch, length, hidden] to the same.
  TensorId add(TensorId x) {
    const TensorId query = project("query", x, LayerProduct::Query), key = by_head("key", project("key", x));
    const TensorId scores = net_.add(
        "segment_add",
        net_.add("distance_add", products("content", biased("content", query), key), distances(query)),
        segments(query));
    const TensorId weights = builder_.add("softmax", "weights", {scores});
    const TensorId value = by_head("value", project("value", x, LayerProduct::Value));
    const TensorId mixed = transposed("mixed_rows", builder_.add("matmul", "mixed", {weights, value}));
    return net_.product(LayerProduct::OtherAttention, "output", mixed,
                        {{"out", Sizes{hidden_}}, {"contract", 2}, {"bias", 0}});
  }

 private:
  TensorId project(const std::string& name, TensorId x, LayerProduct part = LayerProduct::OtherAttention) {
    return net_.product(part, name, x, {{"out", Sizes{heads_, width_}}, {"bias", 0}});
  }

  /// Swaps dims 1 and 2.
  TensorId transposed(const std::string& name, TensorId x) {
    return builder_.add("transpose", name, {x}, {{"order", Sizes{0, 2, 1, 3}}});
  }
  TensorId by_head(const std::string& name, TensorId x) { return transposed(name + "_heads", x); }

  TensorId reshaped(const std::string& name, TensorId x, std::int64_t rows, std::int64_t columns) {
    return builder_.add("reshape", name, {x}, {{"shape", Sizes{batch_, heads_, rows, columns}}});
  }

  /// Learned rows [batch, count, heads, width], the same for every sample.
  TensorId learned(const std::string& name, TensorId indices, std::int64_t count) {
    const TensorId rows = builder_.add("embedding", name, {indices}, {{"rows", count}, {"width", hidden_}});
    return builder_.add("reshape", name + "_heads", {rows},
                        {{"shape", Sizes{batch_, count, heads_, width_}}});
  }

  /// Queries with the bias `name`, by head.
  TensorId biased(const std::string& name, TensorId query) {
    const TensorId sum = net_.add(name + "_query", query, learned(name + "_bias", bias_row_, 1));
    return by_head(name + "_query", sum);
  }

  /// [batch, heads, m, width] · [batch, heads, n, width] to [batch, heads, m, n].
  TensorId products(const std::string& name, TensorId p, TensorId q) {
    return builder_.add("matmul", name, {p, q}, {{"transpose_q", 1}});
  }

  /// The piece of x along `axis` from `skipped` on, `taken` long; the rest is dropped.
  TensorId cut(const std::string& name, TensorId x, std::int64_t axis, std::int64_t skipped,
               std::int64_t taken) {
    const std::int64_t rest = builder_.shape(x)[static_cast<std::size_t>(axis)] - skipped - taken;
    Sizes sizes = {skipped, taken, rest};
    std::erase(sizes, 0);
    return builder_.add_all("split", name, {x}, {{"axis", axis}, {"sizes", sizes}})[skipped > 0 ? 1 : 0];
  }

  /// Products with all 2 · length distances, then row i shifted by i so that columns become keys: under a
  /// shape of other rows each starts one element later.
  TensorId distances(TensorId query) {
    const TensorId encoded = by_head("distance", project("distance", distances_));
    TensorId x = products("distance_products", biased("distance", query), encoded);
    x = cut("shift_first", reshaped("shift_rows", x, 2 * length_, length_), 2, 1, 2 * length_ - 1);
    return cut("shift_last", reshaped("shift_back", x, length_, 2 * length_ - 1), 3, 0, length_);
  }

  TensorId segments(TensorId query) {
    const TensorId kinds = by_head("segment", learned("segment_embedding", segment_kinds_, 2));
    const TensorId either = products("segment_products", biased("segment", query), kinds);
    const TensorId chosen = products("segment_choice", transposed("segment_rows", either), same_segment_);
    return transposed("segment_scores", chosen);
  }

  TransformerNetwork& net_;
  GraphBuilder& builder_;
  std::int64_t batch_, length_, hidden_, heads_, width_;
  TensorId distances_, same_segment_, bias_row_, segment_kinds_;
};

/// Norms follow the residual additions.
OperatorGraph xlnet(const ZooValues& values) {
  TransformerNetwork net(values);
  const std::int64_t hidden = values.integer("hidden"), ffn = ffn_width(values);
  TensorId x = net.embedding("word_embedding", net.indices("words"), values.integer("vocab"));
  x = net.dropout("embedding_dropout", x);
  RelativeAttention attention(net, values);
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    net.builder().begin_repeat("layer", i);
    TensorId y = net.dropout("attention_dropout", attention.add(x));
    x = net.norm("layer_norm", "attention_norm", net.add("attention_add", x, y));
    y = net.dropout("ffn_inner_dropout", net.linear("ffn1", x, ffn, "gelu"));
    y = net.dropout("ffn_dropout", net.linear("ffn2", y, hidden));
    x = net.norm("layer_norm", "ffn_norm", net.add("ffn_add", x, y));
    net.builder().end_repeat();
  }
  net.predict_words(net.dropout("dropout", x), values.integer("vocab"), true, true);
  return net.build();
}

ZooOptions xlnet_options(const TransformerSizes& sizes) {
  ZooOptions options =
      transformer_options(batch_option(16, "1 for each of 16 devices"), "float32", 512, sizes);
  options.push_back(ffn_option(sizes.ffn));
  options.push_back(vocabulary_option(32000));
  options.push_back(dropout_option(0.1));
  options.push_back(loss_chunks_option());
  for (ZooOption& option : adapter_options()) options.push_back(std::move(option));
  return options;
}

}  // namespace

std::vector<ZooModel> xlnet_models() {
  return {{"xlnet36", "XLNet of 36 layers, relative positions and segments, one stream, no memory",
           "Yang et al., NeurIPS 2019; arXiv:1906.08237; 36 layers: Fan et al. (DAPPLE), PPoPP 2021, table 1",
           xlnet_options({.layers = 36, .hidden = 1024, .heads = 16}), xlnet}};
}

}  // namespace pipesim
