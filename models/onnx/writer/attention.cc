#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/causal_mask.h"
#include "models/onnx/writer/kinds.h"
#include "models/zigzag.h"

namespace pipesim {
namespace {

constexpr auto kOnnxLowest = -std::numeric_limits<double>::infinity();

/// q[b, s, g, r, d], k[b, t, g, d], v[b, t, g, e]. Heads are g · r.
struct OnnxAttentionDims {
  explicit OnnxAttentionDims(const OnnxOperator& o)
      : b(o.shape(0)[0]),
        s(o.shape(0)[1]),
        g(o.shape(0)[2]),
        r(o.shape(0)[3]),
        d(o.shape(0)[4]),
        t(o.shape(2)[1]),
        e(o.shape(2)[3]) {}
  [[nodiscard]] std::int64_t heads() const { return g * r; }
  std::int64_t b, s, g, r, d, t, e;
};

/// Adds nodes that several operators share.
class OnnxSharedNodes {
 public:
  OnnxSharedNodes(OnnxDraft& draft, std::string prefix) : draft_(draft), prefix_(std::move(prefix)) {}
  [[nodiscard]] std::string add(const std::string& type, const std::vector<std::string>& values,
                                const Attributes& attributes = {}) const {
    return draft_.add(prefix_, type, values, attributes).front();
  }
  /// Those of a sequence, in the order in which they come, int64.
  [[nodiscard]] std::string positions(std::int64_t length, std::int64_t zigzag) const {
    if (zigzag == 1) return add("Range", {draft_.integer(0), draft_.integer(length), draft_.integer(1)});
    const ZigzagOrder order(zigzag, length);
    OnnxDims list;
    for (std::int64_t i = 0; i < length; ++i) list.push_back(order.position(i));
    return draft_.integers(list);
  }
  /// A scalar of int64 for each pair of a query and a key: [s, 1] and [1, t].
  [[nodiscard]] std::string of_queries(const std::string& positions) const {
    return add("Unsqueeze", {positions, draft_.integers({1})});
  }
  [[nodiscard]] std::string of_keys(const std::string& positions) const {
    return add("Unsqueeze", {positions, draft_.integers({0})});
  }
  [[nodiscard]] std::string cast(const std::string& value, DataType to) const {
    return add("Cast", {value}, {{"to", onnx_type(to)}});
  }

 private:
  OnnxDraft& draft_;
  std::string prefix_;
};

/// [s, s]: 0 where a query sees a key, −∞ elsewhere.
std::string causal_mask(OnnxOperator& o, std::int64_t length) {
  const std::int64_t zigzag = o.integer("zigzag"), documents = document_length(o.op),
                     window = attention_window(o.op);
  const DataType type = o.type();
  std::string key = fmt::format("causal mask {} {}", name_of(type), length);
  if (zigzag > 1) key += fmt::format(" zigzag {}", zigzag);
  if (documents > 0) key += fmt::format(" documents {}", documents);
  if (window > 0) key += fmt::format(" window {}", window);
  return o.draft.shared(key, [&](const std::string& prefix) {
    const OnnxSharedNodes nodes(o.draft, prefix);
    if (zigzag == 1 && !has_narrow_mask(o.op)) {
      const std::string lowest = o.draft.filled({length, length}, kOnnxLowest, type);
      return nodes.add("Trilu", {lowest, o.draft.integer(1)}, {{"upper", 1}});
    }
    const std::string positions = nodes.positions(length, zigzag);
    std::string seen = nodes.add("LessOrEqual", {nodes.of_keys(positions), nodes.of_queries(positions)});
    if (documents > 0) {
      const std::string document = nodes.add("Div", {positions, o.draft.integer(documents)});
      seen =
          nodes.add("And", {seen, nodes.add("Equal", {nodes.of_keys(document), nodes.of_queries(document)})});
    }
    if (window > 0) {
      const std::string before = nodes.add("Sub", {nodes.of_queries(positions), o.draft.integer(window)});
      seen = nodes.add("And", {seen, nodes.add("Greater", {nodes.of_keys(positions), before})});
    }
    return nodes.add("Where", {seen, o.draft.number(0, type), o.draft.number(kOnnxLowest, type)});
  });
}

/// [s, t]: position of the key less that of the query, int64.
std::string distances(const OnnxSharedNodes& nodes, const OnnxAttentionDims& dims, std::int64_t zigzag) {
  const std::string queries = nodes.of_queries(nodes.positions(dims.s, zigzag));
  return nodes.add("Sub", {nodes.of_keys(nodes.positions(dims.t, zigzag)), queries});
}

/// [heads, s, t]: what falls with the distance (Press et al., ICLR 2022, section 3, and their code). Of n
/// heads, a power of two, slopes are 2^(−8/n), 2^(−16/n), …, 2^−8. Of other numbers, those of the next lower
/// power of two, then every second one of twice that power.
std::string alibi_bias(OnnxOperator& o, const OnnxAttentionDims& dims) {
  const std::int64_t zigzag = o.integer("zigzag"), heads = dims.heads();
  const DataType type = o.type();
  const std::string key =
      fmt::format("alibi {} {} heads {}x{} zigzag {}", name_of(type), heads, dims.s, dims.t, zigzag);
  return o.draft.shared(key, [&](const std::string& prefix) {
    const OnnxSharedNodes nodes(o.draft, prefix);
    std::int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    OnnxDims half_steps;
    for (std::int64_t i = 0; i < heads; ++i)
      half_steps.push_back(i < power ? 2 * (i + 1) : 2 * (i - power) + 1);
    const DataType wide = DataType::Float32;
    const std::string exponents = nodes.add("Mul", {nodes.cast(o.draft.integers(half_steps), wide),
                                                    o.draft.number(-4.0 / static_cast<double>(power), wide)});
    const std::string slopes = nodes.add("Pow", {o.draft.number(2, wide), exponents});
    const std::string by_head = nodes.add("Unsqueeze", {slopes, o.draft.integers({1, 2})});
    const std::string apart = nodes.add("Neg", {nodes.add("Abs", {distances(nodes, dims, zigzag)})});
    const std::string bias = nodes.add("Mul", {by_head, nodes.cast(apart, wide)});
    return type == wide ? bias : nodes.cast(bias, type);
  });
}

/// Returns the bucket of a distance: near distances have one each; the farther distances are, the more of
/// them share one (Raffel et al., 2020, section 2.1, and their code). Where keys after the query are seen,
/// they have the upper half.
std::int64_t relative_bucket(std::int64_t ahead, std::int64_t buckets, std::int64_t farthest, bool causal) {
  // Where a bucket begins at a whole distance, the logarithms' rounding must not decide.
  constexpr double rounding = 1e-9;
  const std::int64_t side = causal ? buckets : buckets / 2, single = side / 2, distance = std::abs(ahead);
  std::int64_t bucket = distance;
  if (distance >= single) {
    const double farness = std::log(static_cast<double>(distance) / static_cast<double>(single)) /
                           std::log(static_cast<double>(farthest) / static_cast<double>(single));
    bucket = single + static_cast<std::int64_t>(farness * static_cast<double>(side - single) + rounding);
    bucket = std::min(bucket, side - 1);
  }
  return ahead > 0 && !causal ? side + bucket : bucket;
}

/// [heads, s, t], of weights [buckets, g, r].
std::string relative_bias(OnnxOperator& o, const OnnxAttentionDims& dims) {
  const std::int64_t zigzag = o.integer("zigzag"), buckets = o.integer("buckets"),
                     farthest = o.integer("farthest");
  const bool causal = o.flag("causal");
  const std::string key = fmt::format("buckets {} farthest {}{} {}x{} zigzag {}", buckets, farthest,
                                      causal ? " causal" : "", dims.s, dims.t, zigzag);
  const std::string rows = o.draft.shared(key, [&](const std::string& prefix) {
    const OnnxSharedNodes nodes(o.draft, prefix);
    OnnxDims by_distance;
    for (std::int64_t ahead = 1 - dims.s; ahead < dims.t; ++ahead)
      by_distance.push_back(relative_bucket(ahead, buckets, farthest, causal));
    const std::string place = nodes.add("Add", {distances(nodes, dims, zigzag), o.draft.integer(dims.s - 1)});
    return nodes.add("Gather", {o.draft.integers(by_distance), place}, {{"axis", 0}});
  });
  const std::string biases = o.add("Gather", {o.weight(0), rows}, {{"axis", 0}});
  return o.reshape(o.transpose(biases, {2, 3, 0, 1}), {dims.heads(), dims.s, dims.t});
}

/// Input 3, [g, r, s, t] or [b, g, r, s, t], as [heads, s, t] or [b, heads, s, t]; any dim may be 1.
std::string given_bias(OnnxOperator& o, const OnnxAttentionDims& dims) {
  OnnxDims shape = o.shape(3);
  std::string bias = o.input(3);
  const std::size_t group = shape.size() - 4;
  if ((shape[group] == 1) != (dims.g == 1) || (shape[group + 1] == 1) != (dims.r == 1)) {
    if (shape[group] * shape[group + 1] != 1) {
      shape[group] = dims.g;
      shape[group + 1] = dims.r;
      bias = o.add("Expand", {bias, o.draft.integers(shape)});
    }
  }
  OnnxDims merged(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(group));
  merged.insert(merged.end(), {shape[group] * shape[group + 1], shape[group + 2], shape[group + 3]});
  return o.reshape(bias, merged);
}

/// Keys or values [b, t, g, d] of each query head, as [b, t, heads, d].
std::string of_each_head(OnnxOperator& o, std::size_t input, const OnnxAttentionDims& dims) {
  if (dims.r == 1) return o.input(input);
  const std::int64_t depth = o.shape(input).back();
  const std::string grouped = o.unsqueeze(o.input(input), {3});
  const std::string all =
      o.add("Expand", {grouped, o.draft.integers({dims.b, dims.t, dims.g, dims.r, depth})});
  return o.reshape(all, {dims.b, dims.t, dims.heads(), depth});
}

/// The softmax of [b, heads, s, t], in which the weight sink[g, r] of each head takes part.
std::string softmax_with_sinks(OnnxOperator& o, const OnnxAttentionDims& dims, const std::string& scores) {
  const std::string by_head = o.reshape(o.weight(o.weights() - 1), {1, dims.heads(), 1, 1});
  const std::string column = o.add("Expand", {by_head, o.draft.integers({dims.b, dims.heads(), dims.s, 1})});
  const std::string both = o.add("Concat", {scores, column}, {{"axis", -1}});
  const std::string shares = o.add("Softmax", {both}, {{"axis", -1}});
  return o.add_several("Split", {shares, o.draft.integers({dims.t, 1})}, 2, {{"axis", -1}}).front();
}

void put_attention(OnnxOperator& o) {
  const OnnxAttentionDims dims(o);
  const bool scored = o.op.kind == "scored_attention";
  const std::string q =
      o.transpose(o.reshape(o.input(0), {dims.b, dims.s, dims.heads(), dims.d}), {0, 2, 1, 3});
  const std::string k = o.transpose(of_each_head(o, 1, dims), {0, 2, 3, 1});
  const std::string v = o.transpose(of_each_head(o, 2, dims), {0, 2, 1, 3});
  std::string scores = o.add("MatMul", {q, k});
  scores = o.add("Mul", {scores, o.number(1 / std::sqrt(static_cast<double>(dims.d)))});
  if (o.op.attributes.contains("cap")) {
    const std::string cap = o.number(o.real("cap"));
    scores = o.add("Mul", {o.add("Tanh", {o.add("Div", {scores, cap})}), cap});
  }
  if (o.op.kind == "biased_attention") scores = o.add("Add", {scores, given_bias(o, dims)});
  if (o.op.kind == "alibi_attention" || (scored && o.flag("alibi")))
    scores = o.add("Add", {scores, alibi_bias(o, dims)});
  if (o.op.kind == "relative_attention" || (scored && o.integer("buckets") > 0))
    scores = o.add("Add", {scores, relative_bias(o, dims)});
  if (o.flag("causal")) scores = o.add("Add", {scores, causal_mask(o, dims.s)});
  std::string shares = o.op.attributes.contains("sinks") ? softmax_with_sinks(o, dims, scores)
                                                         : o.add("Softmax", {scores}, {{"axis", -1}});
  if (scored && o.real("dropout") > 0) shares = o.dropped(shares, o.real("dropout"));
  const std::string y = o.transpose(o.add("MatMul", {shares, v}), {0, 2, 1, 3});
  o.give(o.reshape(y, o.result_shape()));
}

/// v · tanh(pq + pk) over the sequence.
void put_bahdanau_attention(OnnxOperator& o) {
  const std::string sum = o.add("Add", {o.unsqueeze(o.input(0), {1}), o.input(1)});
  const std::string scores = o.add("MatMul", {o.add("Tanh", {sum}), o.weight(0)});
  const std::string shares = o.unsqueeze(o.add("Softmax", {scores}, {{"axis", -1}}), {1});
  o.give(o.add("Squeeze", {o.add("MatMul", {shares, o.input(2)}), o.draft.integers({1})}));
}

struct OnnxRotation {
  std::string cosine, sine;
};

/// How many elements of a row are rotated.
std::int64_t turned_width(const OnnxOperator& o) {
  return o.op.attributes.contains("width") ? o.integer("width") : o.shape(0).back();
}

/// How far elements i and i + d/2 of the d that are rotated turn at position p: by p · 10000^(−2i/d).
/// [s, 1, …, d/2].
OnnxRotation rotation_of(OnnxOperator& o) {
  const OnnxDims& shape = o.shape(0);
  const std::int64_t length = shape[1], d = turned_width(o), zigzag = o.integer("zigzag");
  const DataType type = o.type(), wide = DataType::Float32;
  const std::string key = fmt::format("rotary {}x{} rank {} zigzag {}", length, d, shape.size(), zigzag);
  const std::string angles = o.draft.shared(key, [&](const std::string& prefix) {
    constexpr double kBase = 10000;
    const OnnxSharedNodes nodes(o.draft, prefix);
    const auto number = [&](double value) { return o.draft.number(value, wide); };
    const std::int64_t count = d / 2;
    const std::string pairs = nodes.add("Range", {number(0), number(static_cast<double>(count)), number(1)});
    const std::string exponents = nodes.add("Mul", {pairs, number(-2 / static_cast<double>(d))});
    const std::string speeds = nodes.add("Pow", {number(kBase), exponents});
    OnnxDims others;
    for (std::size_t i = 2; i < shape.size(); ++i) others.push_back(static_cast<std::int64_t>(i) - 1);
    const std::string positions = nodes.cast(nodes.positions(length, zigzag), wide);
    return nodes.add("Mul", {nodes.add("Unsqueeze", {positions, o.draft.integers(others)}), speeds});
  });
  const auto table = [&](const std::string& function) {
    const std::string place = fmt::format("{} {} of {}", function, name_of(type), key);
    return o.draft.shared(place, [&](const std::string& prefix) {
      const OnnxSharedNodes nodes(o.draft, prefix);
      const std::string values = nodes.add(function, {angles});
      return type == wide ? values : nodes.cast(values, type);
    });
  };
  return {table("Cos"), table("Sin")};
}

void put_rotary(OnnxOperator& o) {
  const std::int64_t half = turned_width(o) / 2, others = o.shape(0).back() - 2 * half;
  const OnnxRotation by = rotation_of(o);
  OnnxDims lengths{half, half};
  if (others > 0) lengths.push_back(others);
  const auto x =
      o.add_several("Split", {o.input(0), o.draft.integers(lengths)}, lengths.size(), {{"axis", -1}});
  const auto product = [&](std::size_t part, const std::string& factor) {
    return o.add("Mul", {x[part], factor});
  };
  const std::string first = o.add("Sub", {product(0, by.cosine), product(1, by.sine)});
  const std::string second = o.add("Add", {product(1, by.cosine), product(0, by.sine)});
  std::vector<std::string> parts{first, second};
  if (others > 0) parts.push_back(x[2]);
  o.give(o.add("Concat", parts, {{"axis", -1}}));
}

}  // namespace

OnnxKinds onnx_attention_kinds() {
  return {{"alibi_attention", put_attention},
          {"attention", put_attention},
          {"bahdanau_attention", put_bahdanau_attention},
          {"biased_attention", put_attention},
          {"relative_attention", put_attention},
          {"rotary", put_rotary},
          {"scored_attention", put_attention}};
}

}  // namespace pipesim
