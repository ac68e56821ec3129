#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "models/fusion/passes.h"

namespace pipesim {
namespace {

constexpr std::array<std::int64_t, 4> kHeadsBehind{0, 2, 1, 3};  // and back again

bool transposes_by(const EditableOperator* op, const std::array<std::int64_t, 4>& order) {
  return is_kind(op, "transpose") &&
         std::ranges::equal(std::get<Shape>(op->request.attributes.at("order")), order);
}

/// "layers.3.attention" of "layers.3.softmax_2".
std::string beside(const std::string& name, const std::string& last) {
  const std::size_t dot = name.rfind('.');
  return (dot == std::string::npos ? "" : name.substr(0, dot + 1)) + last;
}

/// Queries, keys or values: a tensor [b, length, heads, width], or [b, heads, length, width].
struct Heads {
  std::string tensor;
  bool heads_behind = false;  ///< the first of both
  std::string unscaled = {};  ///< not "": what is reshaped to them, before a factor that attention takes over
};

/// softmax(q · kᵀ · factor + bias) · v.
struct WrittenAttention {
  Heads query, key, value;
  double factor = 1;
  std::string bias;                  ///< "" without
  std::vector<std::size_t> between;  ///< operators that it replaces, but the last
  std::size_t last = 0;
  std::string result;         ///< [b, heads, length, width], or
  bool heads_behind = false;  ///< [b, length, heads, width]
};

class AttentionFinder {
 public:
  explicit AttentionFinder(const EditableModel& model) : model_(model) {}

  [[nodiscard]] std::optional<WrittenAttention> at(std::size_t softmax) {
    found_ = {};
    const EditableOperator* op = model_.at(softmax);
    if (!is_kind(op, "softmax") || model_.shape(op->request.outputs[0]).size() != 4) return std::nullopt;
    found_.between.push_back(softmax);
    const auto scores = scores_before(op->inputs[0]);
    if (!scores || !read_product(*scores) || !read_values(op->request.outputs[0])) return std::nullopt;
    return found_;
  }

 private:
  /// The operator that makes a tensor that nobody else reads.
  [[nodiscard]] const EditableOperator* own_producer(const std::string& tensor) const {
    const auto place = model_.producer(tensor);
    return place && model_.only_reader(tensor) ? model_.at(*place) : nullptr;
  }

  /// The factor of an operator that multiplies by one; none of others.
  static std::optional<double> factor_of(const EditableOperator* op) {
    if (!is_kind(op, "affine") || std::get<double>(op->request.attributes.at("offset")) != 0)
      return std::nullopt;
    return std::get<double>(op->request.attributes.at("factor"));
  }

  /// The product that ends in these scores, behind a factor and a bias.
  std::optional<std::size_t> scores_before(const std::string& tensor) {
    std::string scores = tensor;
    while (const EditableOperator* op = own_producer(scores)) {
      const std::size_t place = *model_.producer(scores);
      if (is_kind(op, "matmul")) return place;
      if (const auto factor = factor_of(op)) {
        found_.factor *= *factor;
      } else if (is_kind(op, "add") && found_.bias.empty() && found_.factor == 1) {
        found_.bias = op->inputs[1];
      } else {
        return std::nullopt;
      }
      found_.between.push_back(place);
      scores = op->inputs[0];
    }
    return std::nullopt;
  }

  [[nodiscard]] Heads heads_of(const std::string& tensor) const {
    const auto place = model_.producer(tensor);
    const EditableOperator* op = place ? model_.at(*place) : nullptr;
    if (transposes_by(op, kHeadsBehind)) return {op->inputs[0], true};
    return {tensor, false};
  }

  /// A factor before the heads were told apart counts as one of the scores.
  [[nodiscard]] Heads without_factor(Heads heads) {
    const EditableOperator* reshape = own_producer(heads.tensor);
    if (!is_kind(reshape, "reshape")) return heads;
    if (const auto factor = factor_of(own_producer(reshape->inputs[0]))) {
      found_.factor *= *factor;
      heads.unscaled = own_producer(reshape->inputs[0])->inputs[0];
    }
    return heads;
  }

  bool read_product(std::size_t place) {
    const EditableOperator& product = *model_.at(place);
    std::string query = product.inputs[0];
    if (const auto factor = factor_of(own_producer(query))) {
      found_.factor *= *factor;
      query = own_producer(query)->inputs[0];
    }
    found_.query = without_factor(heads_of(query));
    found_.between.push_back(place);
    const auto flag = product.request.attributes.find("transpose_q");
    if (flag != product.request.attributes.end() && std::get<std::int64_t>(flag->second) != 0) {
      found_.key = without_factor(heads_of(product.inputs[1]));
      return true;
    }
    std::string key = product.inputs[1];
    if (const auto factor = factor_of(own_producer(key))) {
      found_.factor *= *factor;
      key = own_producer(key)->inputs[0];
    }
    const auto producer = model_.producer(key);
    const EditableOperator* op = producer ? model_.at(*producer) : nullptr;
    if (transposes_by(op, {0, 2, 3, 1})) {
      found_.key = without_factor({op->inputs[0], true});
    } else if (transposes_by(op, {0, 1, 3, 2})) {
      found_.key = without_factor(heads_of(op->inputs[0]));
    } else {
      return false;
    }
    return true;
  }

  bool read_values(const std::string& softmax) {
    std::string weights = softmax;
    auto reader = model_.only_reader(weights);
    if (reader && is_kind(model_.at(*reader), "dropout")) {
      found_.between.push_back(*reader);
      weights = model_.at(*reader)->request.outputs[0];
      reader = model_.only_reader(weights);
    }
    if (!reader) return false;
    const EditableOperator* product = model_.at(*reader);
    if (!is_kind(product, "matmul") || product->inputs[0] != weights) return false;
    const auto flag = product->request.attributes.find("transpose_q");
    if (flag != product->request.attributes.end() && std::get<std::int64_t>(flag->second) != 0) return false;
    found_.value = heads_of(product->inputs[1]);
    found_.result = product->request.outputs[0];
    found_.last = *reader;
    const auto behind = model_.only_reader(found_.result);
    if (behind && transposes_by(model_.at(*behind), kHeadsBehind)) {
      found_.between.push_back(found_.last);
      found_.last = *behind;
      found_.heads_behind = true;
      found_.result = model_.at(*behind)->request.outputs[0];
    }
    return true;
  }

  const EditableModel& model_;
  WrittenAttention found_;
};

/// Writes one attention in place of what was found.
class AttentionWriter {
 public:
  AttentionWriter(EditableModel& model, WrittenAttention found, const std::set<std::string>& causal_masks)
      : model_(model), found_(std::move(found)), softmax_(*model.at(found_.between.front())) {
    causal_ = causal_masks.contains(found_.bias) && sizes(found_.query).length == sizes(found_.key).length;
  }

  void write() {
    const Sizes q = sizes(found_.query), k = sizes(found_.key), v = sizes(found_.value);
    const double usual = 1 / std::sqrt(static_cast<double>(q.width)), extra = found_.factor / usual;
    std::string query = in_order(found_.query, "query");
    constexpr double kRounding = 1e-5;  // of factors that were written in float32
    if (std::abs(extra - 1) > kRounding) query = add("affine", "query_scale", {query}, {{"factor", extra}});
    query =
        add("reshape", "query_heads", {query}, {{"shape", Shape{q.samples, q.length, q.heads, 1, q.width}}});
    std::vector<std::string> inputs{query, in_order(found_.key, "key"), in_order(found_.value, "value")};
    const bool biased = !found_.bias.empty() && !causal_;
    if (biased) inputs.push_back(bias());
    const std::string mixed =
        add(biased ? "biased_attention" : "attention", "attention", inputs, {{"causal", causal_ ? 1 : 0}});
    const Shape plain{q.samples, q.length, k.heads, v.width};
    if (found_.heads_behind) {
      add("reshape", "attention_heads", {mixed}, {{"shape", plain}}, found_.result);
    } else {
      const std::string heads = add("reshape", "attention_heads", {mixed}, {{"shape", plain}});
      add("transpose", "attention_by_head", {heads},
          {{"order", Shape(kHeadsBehind.begin(), kHeadsBehind.end())}}, found_.result);
    }
    for (const std::size_t place : found_.between) model_.remove(place);
    model_.replace(found_.last, std::move(operators_));
  }

 private:
  struct Sizes {
    std::int64_t samples, length, heads, width;
  };
  [[nodiscard]] Sizes sizes(const Heads& heads) const {
    const Shape& s = model_.shape(heads.tensor);
    return heads.heads_behind ? Sizes{s[0], s[1], s[2], s[3]} : Sizes{s[0], s[2], s[1], s[3]};
  }

  /// [b, length, heads, width].
  std::string in_order(const Heads& heads, const std::string& what) {
    std::string tensor = heads.tensor;
    if (!heads.unscaled.empty())
      tensor = add("reshape", what + "_of_heads", {heads.unscaled}, {{"shape", model_.shape(tensor)}});
    if (heads.heads_behind) return tensor;
    return add("transpose", what + "_by_position", {tensor},
               {{"order", Shape(kHeadsBehind.begin(), kHeadsBehind.end())}});
  }

  /// [heads, 1, queries, keys], or that of each sample.
  std::string bias() {
    Shape shape = model_.shape(found_.bias);
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    shape.insert(shape.begin() + 2, 1);
    if (shape[0] == 1) shape.erase(shape.begin());
    return add("reshape", "bias_heads", {found_.bias}, {{"shape", shape}});
  }

  std::string add(const std::string& kind, const std::string& name, const std::vector<std::string>& inputs,
                  const Attributes& attributes, const std::string& output = {}) {
    EditableOperator op;
    op.request.kind = kind;
    op.request.name = model_.new_name(beside(softmax_.request.name, name));
    op.request.attributes = attributes;
    if (!softmax_.request.repeat.empty()) op.request.repeat = beside(softmax_.request.repeat, name);
    op.request.outputs = {output.empty() ? op.request.name : output};
    op.inputs = inputs;
    operators_.push_back(op);
    return op.request.outputs[0];
  }

  EditableModel& model_;
  WrittenAttention found_;
  EditableOperator softmax_;
  bool causal_ = false;
  std::vector<EditableOperator> operators_;
};

}  // namespace

void join_attention(EditableModel& model, const std::set<std::string>& causal_masks) {
  AttentionFinder finder(model);
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (auto found = finder.at(i)) AttentionWriter(model, std::move(*found), causal_masks).write();
  }
}

}  // namespace pipesim
