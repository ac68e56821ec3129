#include <algorithm>

#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

/// Writes x times a weight of two dims, over the last dim of x.
OnnxValue write_linear(OnnxNode& node, const OnnxValue& x, std::size_t weight_place, bool by_rows,
                       const OnnxValue& bias) {
  const OnnxValue& weight = node.in(weight_place);
  const std::int64_t out = weight.shape[by_rows ? 0 : 1];
  std::vector<std::string> weights{weight.name};
  const bool own_bias = bias.form == OnnxForm::Weight && bias.shape == OnnxShape{out};
  if (own_bias) weights.push_back(bias.name);
  node.name_by_weight(weight_place);
  Attributes attributes{{"out", OnnxShape{out}}, {"bias", own_bias ? 1 : 0}};
  // The file's listing matters where others read the weight, too; alone it may have either.
  if (by_rows != weight.transposed && node.shared(weight)) attributes["transpose_weight"] = 1;
  const OnnxValue product = node.linear(x, out, attributes, weights);
  return bias.form == OnnxForm::None || own_bias ? product : node.binary("add", product, bias, "bias");
}

bool write_matmul(OnnxNode& node) {
  if (node.is_weight(1) && node.rank(1) == 2 && node.rank(0) >= 1) {
    node.give(write_linear(node, node.in(0), 1, false, {}));
    return true;
  }
  const OnnxValue p = node.tensor(0), q = node.tensor(1);
  const OnnxShape &left = p.shape, &right = q.shape;
  if (left.empty() || right.empty()) return false;
  if (left.size() == right.size() && left.size() > 1 &&
      std::equal(left.begin(), left.end() - 2, right.begin(), right.end() - 2)) {
    node.give(node.matmul(p, q));
    return true;
  }
  const std::size_t batch = std::max<std::size_t>({left.size(), right.size(), 2}) - 2;
  const std::string letters = std::string("abcdefghijkl").substr(0, batch);
  if (letters.size() < batch) return false;
  const auto term = [&](const OnnxShape& shape, const std::string& last, const std::string& only) {
    if (shape.size() == 1) return only;
    return letters.substr(batch - (shape.size() - 2)) + last;
  };
  const std::string out = letters + (left.size() > 1 ? "x" : "") + (right.size() > 1 ? "z" : "");
  node.give(node.contracted({term(left, "xy", "y"), term(right, "yz", "y")}, {p, q}, out));
  return true;
}

bool write_gemm(OnnxNode& node) {
  if (node.rank(0) != 2 || node.rank(1) != 2) return false;
  const double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  const bool left = node.integer("transA", 0) != 0, right = node.integer("transB", 0) != 0;
  const OnnxValue x = left ? node.transposed(node.in(0), {1, 0}, "left") : node.in(0);
  if (node.is_weight(1)) {
    if (alpha == 1 && beta == 1) {
      node.give(write_linear(node, x, 1, right, node.in(2)));
      return true;
    }
    OnnxValue product = node.affine(write_linear(node, x, 1, right, {}), alpha, 0, "alpha");
    if (node.has(2)) product = node.binary("add", product, node.affine(node.in(2), beta, 0, "beta"), "sum");
    node.give(product);
    return true;
  }
  OnnxValue product = node.matmul(x, node.in(1), right, "product");
  product = node.affine(product, alpha, 0, "alpha");
  if (node.has(2)) product = node.binary("add", product, node.affine(node.in(2), beta, 0, "beta"), "sum");
  node.give(product);
  return true;
}

bool write_einsum(OnnxNode& node) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != node.count() || terms.empty()) return false;
  std::string out = arrow == std::string::npos ? "" : equation.substr(arrow + 2);
  // Three dots become letters that nobody uses.
  std::string spare;
  for (char c = 'A'; c <= 'Z'; ++c) {
    if (equation.find(c) == std::string::npos) spare += c;
  }
  std::vector<OnnxValue> values;
  std::size_t most = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    values.push_back(node.tensor(i));
    const std::size_t named = terms[i].size() - (terms[i].find("...") == std::string::npos ? 0 : 3);
    if (named > values.back().shape.size()) return false;
    if (named < terms[i].size()) most = std::max(most, values.back().shape.size() - named);
  }
  if (most > spare.size()) return false;
  const std::string dots = spare.substr(0, most);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (const std::size_t place = terms[i].find("..."); place != std::string::npos) {
      const std::size_t count = values[i].shape.size() - (terms[i].size() - 3);
      terms[i].replace(place, 3, dots.substr(most - count));
    }
    std::string sorted = terms[i];
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) return false;  // a diagonal
    if (terms[i].size() != values[i].shape.size()) return false;
  }
  if (arrow == std::string::npos) {
    std::string all;
    for (const std::string& term : terms) all += term;
    std::ranges::sort(all);
    for (const char c : all) {
      if (std::ranges::count(all, c) == 1 && dots.find(c) == std::string::npos) out += c;
    }
    out = dots + out;
  } else if (const std::size_t place = out.find("..."); place != std::string::npos) {
    out.replace(place, 3, dots);
  }
  // From left to right, two at a time.
  while (terms.size() > 2) {
    std::string rest = out, between;
    for (std::size_t i = 2; i < terms.size(); ++i) rest += terms[i];
    for (const char c : terms[0] + terms[1]) {
      if (rest.find(c) != std::string::npos && between.find(c) == std::string::npos) between += c;
    }
    values[0] = node.contracted({terms[0], terms[1]}, {values[0], values[1]}, between, "product");
    terms[0] = between;
    terms.erase(terms.begin() + 1);
    values.erase(values.begin() + 1);
  }
  node.give(node.contracted(terms, values, out));
  return true;
}

/// Reads Attention from opset 23: queries, keys, values are [b, heads, length, width], or heads joined.
bool write_attention(OnnxNode& node) {
  if (node.opset() < 23 || node.has(4) || node.has(5) || node.wanted(1) || node.wanted(2) || node.wanted(3))
    return false;
  std::vector<OnnxValue> parts;
  for (std::size_t i = 0; i < 3; ++i) {
    OnnxValue x = node.tensor(i);
    const char* const names[] = {"query", "key", "value"};
    if (x.shape.size() == 4) x = node.transposed(x, {0, 2, 1, 3}, names[i]);
    const std::int64_t heads = node.integer(i == 0 ? "q_num_heads" : "kv_num_heads", 0);
    if (x.shape.size() == 3) {
      if (heads < 1 || x.shape[2] % heads != 0) return false;
      x = node.reshaped(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}, names[i]);
    }
    if (x.shape.size() != 4) return false;
    parts.push_back(x);
  }
  const OnnxShape q = parts[0].shape, v = parts[2].shape;
  const std::int64_t groups = v[2];
  if (groups < 1 || q[2] % groups != 0) return false;
  parts[0] = node.reshaped(parts[0], {q[0], q[1], groups, q[2] / groups, q[3]}, "groups");
  const bool causal = node.integer("is_causal", 0) != 0;
  if (node.has(3)) {
    OnnxShape bias = node.in(3).shape;
    if (bias.size() > 4) return false;
    bias.insert(bias.begin(), 4 - bias.size(), 1);
    const std::int64_t heads = bias[1];
    OnnxShape apart{bias[0], heads == 1 ? 1 : groups, heads == 1 ? 1 : heads / groups, bias[2], bias[3]};
    if (apart[0] == 1) apart.erase(apart.begin());
    parts.push_back(node.reshaped(node.in(3), apart, "bias"));
  }
  const OnnxValue mixed =
      node.write(parts.size() == 4 ? "biased_attention" : "attention", parts, {{"causal", causal ? 1 : 0}});
  if (node.rank(0) == 3) {
    node.give(node.reshaped(mixed, {q[0], q[1], q[2] * v[3]}, "joined"));
  } else {
    const OnnxValue heads = node.reshaped(mixed, {q[0], q[1], q[2], v[3]}, "joined");
    node.give(node.transposed(heads, {0, 2, 1, 3}, "by_head"));
  }
  return true;
}

}  // namespace

OnnxRules product_rules() {
  return {{"MatMul", write_matmul},
          {"Gemm", write_gemm},
          {"Einsum", write_einsum},
          {"Attention", write_attention}};
}

}  // namespace pipesim
