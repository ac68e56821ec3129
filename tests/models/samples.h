#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "sim/base/rng.h"

namespace pipesim {

using Sizes = std::vector<std::int64_t>;

/// A graph of a few inputs in which single operators are tried.
class Bench {
 public:
  explicit Bench(std::int64_t batch = 4, DataType type = DataType::Float32) : builder("bench", batch, type) {}

  TensorId x(Sizes shape) {
    if (learned_inputs) {
      wanted_.push_back(std::move(shape));
      return TensorId(first_wanted + wanted_.size() - 1);
    }
    return builder.data(fmt::format("x{}", inputs_++), std::move(shape));
  }
  TensorId words(Sizes shape) {
    return builder.data(fmt::format("x{}", inputs_++), std::move(shape), DataType::Int64);
  }
  /// The operator of this kind on these inputs.
  Operator op(const std::string& kind, const std::vector<TensorId>& inputs,
              const Attributes& attributes = {}) {
    std::vector<TensorId> real;
    for (const TensorId x : inputs)
      real.push_back(x.index() < first_wanted ? x : learned(wanted_[x.index() - first_wanted]));
    builder.add_all(kind, fmt::format("op{}", operators_++), real, attributes);
    return builder.build().operators().back();
  }

  GraphBuilder builder;
  /// Each operator gets inputs of its own: rows of weights, chosen by data, which receive its gradients.
  bool learned_inputs = false;

 private:
  static constexpr std::size_t first_wanted = 1'000'000;
  TensorId learned(const Sizes& shape) {
    std::int64_t width = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) width *= shape[i];
    const std::string name = fmt::format("op{}.x{}", operators_, inputs_);
    const TensorId rows = builder.add("embedding", name + ".rows", {words({shape[0]})},
                                      {{"rows", std::int64_t{50}}, {"width", width}});
    return builder.add("reshape", name + ".shaped", {rows}, {{"shape", shape}});
  }

  std::vector<Sizes> wanted_;  // of inputs that operators will make their own copies of
  int inputs_ = 0, operators_ = 0;
};

/// Calls add(kind, inputs, attributes) for kinds over sequences, images and volumes.
template <class Add>
void add_image_kinds(Bench& t, Add add) {
  const TensorId rows = t.x({4, 6}), line = t.x({4, 8, 10}), image = t.x({4, 8, 9, 7}),
                 volume = t.x({4, 4, 5, 6, 4}), even = t.x({4, 4, 6, 8});
  add("conv1d", {line}, {{"out", 4}, {"kernel", 3}, {"pad", 2}, {"pad_end", 0}, {"activation", "silu"}});
  add("conv2d", {image}, {{"out", 4}, {"kernel", 3}, {"stride", 2}, {"pad", 0}, {"pad_end", 1}});
  add("conv3d", {volume}, {{"out", 6}, {"kernel", Sizes{3, 2, 3}}, {"pad", 1}, {"groups", 2}});
  add("conv_transpose1d", {line},
      {{"out", 6}, {"kernel", 5}, {"stride", 3}, {"output_pad", 2}, {"activation", "gelu"}});
  add("conv_transpose2d", {even}, {{"out", 4}, {"kernel", 4}, {"stride", 2}, {"pad", 1}});
  add("conv_transpose2d", {even},
      {{"out", 8}, {"kernel", 3}, {"stride", 2}, {"pad", 2}, {"dilation", 2}, {"groups", 4}, {"bias", 0}});
  add("conv_transpose3d", {volume}, {{"out", 4}, {"kernel", 2}, {"stride", Sizes{2, 1, 3}}, {"groups", 4}});
  add("pool1d", {line}, {{"kernel", 3}, {"stride", 2}, {"pad", 1}, {"pad_end", 0}});
  add("pool2d", {image}, {{"mode", "avg"}, {"kernel", 3}, {"pad", 1}, {"exclude_pad", 1}});
  add("pool3d", {volume}, {{"kernel", 2}, {"ceil", 1}});
  add("pool3d", {volume}, {{"mode", "avg"}, {"kernel", 3}, {"stride", 1}, {"pad", 1}});
  for (const char* mode : {"avg", "max"}) {
    add("adaptive_pool", {even}, {{"out", Sizes{4, 3}}, {"mode", mode}});
    add("adaptive_pool", {line}, {{"out", 4}, {"mode", mode}});
  }
  add("resize", {even}, {{"out", Sizes{12, 4}}});
  add("resize", {even}, {{"out", Sizes{9, 12}}, {"mode", "linear"}});
  add("resize", {line}, {{"out", 15}, {"mode", "cubic"}});
  add("resize", {volume}, {{"out", Sizes{10, 3, 8}}, {"mode", "linear"}});
  add("resize", {even}, {{"out", 5}, {"mode", "linear"}, {"align_corners", 1}});
  for (const std::int64_t groups : {1, 4, 8}) add("group_norm", {image}, {{"groups", groups}});
  add("group_norm", {line}, {{"groups", 2}, {"affine", 0}});
  add("group_norm", {volume}, {{"groups", 2}});
  for (const TensorId x : {rows, line, volume}) add("batch_norm", {x});
}

/// The same for attributes that came later, so that what is drawn for the others stays the same.
template <class Add>
void add_variants(Bench& t, Add add) {
  const TensorId q = t.x({4, 6, 2, 3, 4}), k = t.x({4, 6, 2, 4}), v = t.x({4, 6, 2, 8});
  add("attention", {q, k, v}, {{"sinks", 1}, {"cap", 2.0}});
  add("attention", {q, k, v}, {{"causal", 1}, {"window", 3}, {"sinks", 1}});
  add("relative_attention", {q, k, v},
      {{"causal", 1}, {"window", 2}, {"sinks", 1}, {"buckets", 4}, {"farthest", 5}});
  add("rotary", {k}, {{"width", 2}});
  const TensorId tokens = t.x({4, 7, 8});
  add("expert_linear", {t.x({4, 3, 2, 8})}, {{"out", 6}, {"bias", 1}});
  add("rms_norm", {tokens}, {{"groups", 2}});
  add("rms_norm", {tokens}, {{"affine", 0}});
  add("relu2", {tokens});
  add("swiglu", {tokens, tokens}, {{"activation", "gelu"}});
  add("linear", {tokens}, {{"out", 6}, {"activation", "relu2"}});
}

/// Adds operators of all kinds, with dims that allow a few even and uneven splits.
inline std::vector<Operator> add_all_kinds(Bench& t, const std::set<std::string>& without = {}) {
  std::vector<Operator> ops;
  const auto add = [&](const std::string& kind, const std::vector<TensorId>& in,
                       const Attributes& attributes = {}) {
    if (!without.contains(kind)) ops.push_back(t.op(kind, in, attributes));
  };
  const TensorId rows = t.x({4, 6}), tokens = t.x({4, 7, 8}), image = t.x({4, 8, 9, 7});
  const TensorId q = t.x({4, 6, 2, 3, 4}), k = t.x({4, 5, 2, 4}), v = t.x({4, 5, 2, 8}),
                 self = t.x({4, 6, 2, 4});
  const TensorId chosen = t.x({4, 3, 2, 8}), scores = t.x({4, 7, 2}), words = t.words({4, 7});
  add("linear", {tokens}, {{"out", 6}, {"activation", "none"}});
  add("linear", {q}, {{"out", Sizes{3, 4}}, {"contract", 3}, {"activation", "gelu"}});
  add("linear", {tokens}, {{"out", 11}, {"transpose_weight", 1}, {"bias", 0}});
  add("linear", {tokens}, {{"out", 4}, {"router", 1}});
  add("matmul", {tokens, t.x({4, 8, 5})});
  add("matmul", {tokens, t.x({4, 5, 8})}, {{"transpose_q", 1}});
  add("conv2d", {image}, {{"out", 4}, {"kernel", 3}, {"pad", 1}, {"activation", "relu"}});
  add("conv2d", {image},
      {{"out", 8}, {"kernel", Sizes{1, 7}}, {"pad", Sizes{0, 3}}, {"groups", 2}, {"stride", 2}});
  add("conv2d", {image}, {{"out", 8}, {"kernel", 3}, {"groups", 8}, {"dilation", 2}, {"bias", 0}});
  add("pool2d", {image}, {{"kernel", 3}, {"stride", 2}, {"ceil", 1}});
  add("pool2d", {image}, {{"mode", "avg"}, {"kernel", 2}});
  for (const char* mode : {"sum", "mean", "max"})
    add("reduce", {image}, {{"axes", Sizes{2, 3}}, {"mode", mode}});
  add("batch_norm", {image}, {{"activation", "relu"}});
  add("batch_norm", {image}, {{"statistics", "local"}});
  for (const char* kind : {"layer_norm", "rms_norm", "softmax"}) add(kind, {tokens});
  for (const char* kind : {"relu", "gelu", "silu", "tanh", "sigmoid"}) add(kind, {tokens});
  add("cross_entropy", {tokens, words});
  add("linear_cross_entropy", {tokens, words}, {{"out", 11}, {"chunks", 3}});
  add("linear_cross_entropy", {tokens, words}, {{"out", 9}, {"bias", 1}, {"transpose_weight", 1}});
  add("embedding", {words}, {{"rows", 11}, {"width", 6}});
  add("lstm_cell", {rows, t.x({4, 8}), t.x({4, 8})}, {{"hidden", 8}});
  add("bahdanau_attention", {rows, t.x({4, 5, 6}), t.x({4, 5, 8})});
  add("attention", {q, k, v});
  add("attention", {q, self, self}, {{"causal", 1}});
  add("relative_attention", {q, k, v}, {{"buckets", 8}});
  add("relative_attention", {q, self, self}, {{"causal", 1}, {"buckets", 4}, {"farthest", 5}});
  add("scored_attention", {q, k, v});
  add("scored_attention", {q, self, self},
      {{"causal", 1}, {"dropout", 0.25}, {"buckets", 4}, {"farthest", 5}});
  add("rotary", {k});
  add("moe_dispatch", {tokens, scores}, {{"top_k", 1}, {"capacity", 5}});
  add("expert_linear", {chosen}, {{"out", 6}, {"activation", "silu"}});
  add("moe_combine", {t.x({4, 2, 5, 8}), scores}, {{"top_k", 1}});
  add("moe_dispatch", {tokens, scores}, {{"top_k", 1}, {"capacity", 5}, {"weights", 1}});
  add("moe_combine", {t.x({4, 2, 5, 8}), scores}, {{"top_k", 1}, {"unweighted", 1}});
  add("dropout", {tokens}, {{"rate", 0.1}});
  add("add", {tokens, tokens});
  add("mul", {tokens, t.x({7, 1})});
  add("concat", {image, t.x({4, 3, 9, 7}), image}, {{"axis", 1}});
  add("split", {image}, {{"axis", 1}, {"sizes", Sizes{3, 1, 4}}});
  add("reshape", {tokens}, {{"shape", Sizes{4, 7, 2, 4}}});
  add("flatten", {image});
  add("transpose", {tokens}, {{"order", Sizes{1, 0, 2}}});
  add("profiled", {rows, rows}, {{"forward_ms", 1.5}, {"backward_ms", 3}, {"parameter_bytes", 10}});
  add("broadcast", {tokens}, {{"axis", 2}, {"size", 6}});
  add("alibi_attention", {q, self, self}, {{"causal", 1}});
  add("linear", {t.x({4, 6, 8})}, {{"out", 4}, {"router", 1}, {"router_groups", 3}});
  const TensorId grouped = t.x({4, 3, 2, 5, 8});
  add("moe_dispatch", {t.x({4, 6, 8}), t.x({4, 6, 2})}, {{"top_k", 1}, {"capacity", 2}, {"groups", 3}});
  add("expert_linear", {grouped}, {{"out", 6}});
  add("moe_combine", {grouped, t.x({4, 6, 2})}, {{"top_k", 1}});
  add("cross_entropy", {tokens, words}, {{"keep_softmax", 1}});
  add("cross_entropy", {tokens, words}, {{"keep_log_softmax", 1}});
  add("dropout", {tokens}, {{"rate", 0.1}, {"keep_mask", 1}});
  add("attention", {q, self, self}, {{"causal", 1}, {"keep_copy", 1}});
  add("rms_norm", {tokens}, {{"keep_float32", 1}, {"keep_normalised", 1}});
  for (const char* kind : {"relu6", "hardswish", "hardsigmoid", "mish", "softplus", "quick_gelu", "exp",
                           "abs", "sin", "cos", "erf", "leaky_relu", "elu"})
    add(kind, {tokens});
  const auto exponentials = std::ranges::find(ops, "exp", &Operator::kind);
  const TensorId positive = exponentials == ops.end() ? tokens : exponentials->uses.back().tensor;
  for (const char* kind : {"log", "sqrt", "reciprocal"}) add(kind, {positive});
  add("power", {positive}, {{"exponent", 1.5}});
  add("clip", {tokens}, {{"low", -0.5}, {"high", 0.75}});
  add("affine", {tokens}, {{"factor", 0.5}, {"offset", 2.0}});
  add("sub", {tokens, t.x({7, 1})});
  add("div", {tokens, positive});
  for (const char* kind : {"maximum", "minimum"}) add(kind, {tokens, t.x({8})});
  add("swiglu", {tokens, tokens});
  add("swiglu", {tokens, tokens, t.x({4, 7, 1})});
  add("expand", {t.x({4, 1, 3})}, {{"shape", Sizes{2, 4, 6, 3}}});
  add("slice", {tokens}, {{"axis", 1}, {"start", 2}, {"length", 4}});
  add("slice", {image}, {{"axis", 2}, {"start", 1}, {"length", 4}, {"step", 2}});
  add("pad", {image}, {{"before", Sizes{0, 0, 3, 0}}, {"after", Sizes{0, 1, 2, 0}}});
  add("pad", {image}, {{"before", Sizes{0, 0, 2, 1}}, {"after", Sizes{0, 0, 1, 3}}, {"mode", "reflect"}});
  add("roll", {image}, {{"axis", 2}, {"shift", 4}});
  add("gather", {tokens, words}, {{"axis", 2}});
  add("einsum", {tokens, t.x({4, 5, 8})}, {{"equation", "bsh,bth->bst"}});
  add("einsum", {image, t.x({8, 6})}, {{"equation", "bchw,cd->bhwd"}});
  add("einsum", {tokens}, {{"equation", "bsh->hb"}});
  for (const char* kind : {"squared_error", "binary_cross_entropy"}) add(kind, {tokens, t.x({4, 7, 8})});
  add("embedding_bag", {words}, {{"rows", 11}, {"width", 6}, {"mode", "mean"}});
  add("causal_convolution", {tokens}, {{"kernel", 3}});
  add("causal_convolution", {t.x({4, 7, 2, 3})}, {{"kernel", 4}, {"bias", 0}, {"silu", 1}});
  add("selective_scan", {tokens, positive, t.x({4, 7, 2}), t.x({4, 7, 2})});
  const TensorId heads = t.x({4, 7, 2, 3, 4}), states = t.x({4, 7, 2, 2});
  add("state_space_scan", {heads, t.x({4, 7, 2, 3}), states, t.x({4, 7, 2, 2})}, {{"chunk", 3}});
  for (const Sizes& step : {Sizes{4, 7, 2, 3}, Sizes{4, 7, 2, 3, 4}}) {
    add("gated_delta_rule", {t.x({4, 7, 2, 4}), t.x({4, 7, 2, 4}), heads, t.x(step), t.x({4, 7, 2, 3})},
        {{"chunk", 3}});
  }
  const TensorId keys = t.x({4, 6, 4});
  add("select_keys", {t.x({4, 6, 2, 4}), keys, t.x({4, 6, 2})}, {{"count", 3}});
  add("select_keys", {t.x({4, 6, 2, 4}), keys}, {{"count", 4}, {"block", 2}, {"by_head", 1}});
  for (const Sizes& selected : {Sizes{4, 6, 3}, Sizes{4, 6, 2, 3}})
    add("selected_attention", {q, self, t.x({4, 6, 2, 8}), t.words(selected)});
  add("parameter", {}, {{"shape", Sizes{7, 8}}});
  add("layer_norm", {tokens}, {{"affine", 0}});
  add("biased_attention", {q, k, v, t.x({2, 1, 6, 5})});
  add("biased_attention", {q, self, self, t.x({2, 3, 1, 6})}, {{"causal", 1}});
  add("biased_attention", {q, k, v, t.x({4, 1, 1, 1, 5})});
  add("opaque", {tokens, rows},
      {{"what", "custom"}, {"shape", Sizes{4, 9}}, {"shape2", Sizes{4}}, {"samples", 1}});
  add("opaque", {tokens}, {{"what", "custom"}, {"shape", Sizes{3}}, {"parameters", 10}});
  add_image_kinds(t, add);
  add_variants(t, add);
  return ops;
}

inline std::vector<Operator> operators_of_all_kinds() {
  Bench t;
  return add_all_kinds(t);
}

/// Random numbers for one test; the seed is printed, and PIPESIM_TEST_SEED replays it.
inline Rng test_rng(std::uint64_t seed) {
  if (const char* given = std::getenv("PIPESIM_TEST_SEED")) seed = std::strtoull(given, nullptr, 10);
  std::cout << "PIPESIM_TEST_SEED=" << seed << "\n";
  return Rng(seed);
}

}  // namespace pipesim
