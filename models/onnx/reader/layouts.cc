#include <algorithm>
#include <numeric>
#include <utility>

#include "models/onnx/reader/node.h"

namespace pipesim {
namespace {

using Order = std::vector<std::int64_t>;

std::size_t place(std::int64_t dim) { return static_cast<std::size_t>(dim); }

OnnxShape permuted(const OnnxShape& shape, const Order& order) {
  OnnxShape result;
  for (const std::int64_t dim : order) result.push_back(shape[place(dim)]);
  return result;
}

bool keeps_last(const Order& order) {
  return !order.empty() && order.back() + 1 == static_cast<std::int64_t>(order.size());
}

/// Whether y has one number for each element of the last dim, or one for all.
bool along_last_dim(const OnnxShape& y) {
  return std::all_of(y.begin(), y.empty() ? y.end() : y.end() - 1, [](std::int64_t n) { return n == 1; });
}

/// Dims that divide those of both shapes: each dim of either is a product of some in a row. `groups`: how
/// many of them make each dim of the second. Nothing where there are no such dims.
struct Refined {
  OnnxShape dims;
  std::vector<std::size_t> groups;
  std::vector<std::int32_t> sources;  // the dim of the first shape that each is a part of

  // Whether a dim of the first shape was merged with others.
  [[nodiscard]] bool merges(std::int32_t dim) const {
    std::size_t at = 0;
    for (const std::size_t count : groups) {
      const auto begin = sources.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = begin + static_cast<std::ptrdiff_t>(count);
      if (count > 1 && std::find(begin, end, dim) != end) return true;
      at += count;
    }
    return false;
  }
};
std::optional<Refined> refined(const OnnxShape& from, const OnnxShape& to) {
  Refined result;
  std::size_t next = 0;
  std::int64_t left = 1;  // of the dim of `from` that is being used up
  for (const std::int64_t extent : to) {
    std::int64_t wanted = extent;
    std::size_t count = 0;
    while (wanted > 1 || count == 0) {
      if (left == 1 && next < from.size() && (wanted > 1 || from[next] == 1)) left = from[next++];
      const std::int64_t part = std::min(left, wanted);
      if (part < 1 || wanted % part != 0 || left % part != 0 || (part == 1 && wanted > 1))
        return std::nullopt;
      result.dims.push_back(part);
      result.sources.push_back(static_cast<std::int32_t>(next) - 1);
      ++count;
      wanted /= part;
      left /= part;
    }
    result.groups.push_back(count);
  }
  if (left != 1) return std::nullopt;
  return result;
}

}  // namespace

/// A tensor that is another one, transposed.
struct OnnxNode::Turned {
  OnnxValue source;
  Order order;
};

const ModelWriter::Written* OnnxNode::maker(const OnnxValue& x, std::string_view kind) const {
  if (x.form != OnnxForm::Tensor) return nullptr;
  const ModelWriter::Written* found = writer_.maker(x.tensor);
  return found != nullptr && found->request.kind == kind ? found : nullptr;
}

std::optional<OnnxNode::Turned> OnnxNode::turned(const OnnxValue& x) const {
  const auto* before = maker(x, "transpose");
  if (before == nullptr) return std::nullopt;
  return Turned{made(before->request.inputs[0]), std::get<Order>(before->request.attributes.at("order"))};
}

std::optional<OnnxValue> OnnxNode::flattened(const OnnxValue& x) const {
  const auto* before = maker(x, "reshape");
  if (before == nullptr) return std::nullopt;
  return made(before->request.inputs[0]);
}

OnnxValue OnnxNode::reshaped(const OnnxValue& x, const OnnxShape& shape, const std::string& part) {
  OnnxValue source = tensor(x);
  if (const auto before = flattened(source)) source = *before;
  if (source.shape == shape) return source;
  // The last dim alone is divided: before a transpose that leaves it where it is.
  const std::size_t lead = source.shape.empty() ? 0 : source.shape.size() - 1;
  const auto before = turned(source);
  if (before && keeps_last(before->order) && shape.size() > source.shape.size() &&
      std::equal(source.shape.begin(), source.shape.end() - 1, shape.begin())) {
    OnnxShape divided(before->source.shape.begin(), before->source.shape.end() - 1);
    divided.insert(divided.end(), shape.begin() + static_cast<std::ptrdiff_t>(lead), shape.end());
    Order order(before->order.begin(), before->order.end() - 1);
    for (std::size_t i = lead; i < shape.size(); ++i) order.push_back(static_cast<std::int64_t>(i));
    return transposed(reshaped(before->source, divided, part), order, part);
  }
  return write("reshape", {source}, {{"shape", shape}}, part);
}

OnnxValue OnnxNode::transposed(const OnnxValue& x, const Order& order, const std::string& part) {
  const OnnxValue source = tensor(x);
  if (std::ranges::is_sorted(order)) return source;
  if (const auto before = turned(source)) {
    Order both;
    for (const std::int64_t dim : order) both.push_back(before->order[place(dim)]);
    return transposed(before->source, both, part);
  }
  // Samples that were merged with heads are moved apart, and merged then: what is transposed is [b, s, heads,
  // width].
  if (const auto before = flattened(source)) {
    const auto parts = refined(before->shape, source.shape);
    if (parts && parts->merges(writer_.sample_dim(before->tensor))) {
      std::vector<std::int64_t> first(parts->groups.size(), 0);
      for (std::size_t i = 1; i < first.size(); ++i)
        first[i] = first[i - 1] + static_cast<std::int64_t>(parts->groups[i - 1]);
      Order apart;
      for (const std::int64_t dim : order) {
        for (std::size_t i = 0; i < parts->groups[place(dim)]; ++i)
          apart.push_back(first[place(dim)] + static_cast<std::int64_t>(i));
      }
      const OnnxValue moved = transposed(reshaped(*before, parts->dims, part), apart, part);
      return reshaped(moved, permuted(source.shape, order), part);
    }
  }
  return write("transpose", {source}, {{"order", order}}, part);
}

OnnxValue OnnxNode::each(const std::string& kind, const OnnxValue& x, const Attributes& attributes,
                         const std::string& part, bool last_dim, const std::vector<std::string>& weights) {
  const OnnxValue source = tensor(x);
  if (const auto before = turned(source); before && (!last_dim || keeps_last(before->order)))
    return transposed(each(kind, before->source, attributes, part, last_dim, weights), before->order, part);
  if (const auto before = flattened(source)) {
    const bool same_last =
        !before->shape.empty() && !source.shape.empty() && before->shape.back() == source.shape.back();
    if (!last_dim || same_last)
      return reshaped(each(kind, *before, attributes, part, last_dim, weights), source.shape, part);
  }
  return write(kind, {source}, attributes, part, weights);
}

/// The last dims as one; a transpose before comes behind, and leaves the merged dim where it is.
OnnxValue OnnxNode::merged_last(const OnnxValue& x, std::size_t dims) {
  const std::size_t lead = x.shape.size() - dims;
  OnnxShape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(lead));
  shape.push_back(std::accumulate(x.shape.begin() + static_cast<std::ptrdiff_t>(lead), x.shape.end(),
                                  std::int64_t{1}, std::multiplies<>()));
  const auto before = turned(x);
  if (!before) return reshaped(x, shape, "merged");
  // Leading dims in the order of the source, so that samples come first where they do there.
  Order own(before->order.begin(), before->order.begin() + static_cast<std::ptrdiff_t>(lead)), sorted = own;
  std::ranges::sort(sorted);
  Order inner = sorted;
  inner.insert(inner.end(), before->order.begin() + static_cast<std::ptrdiff_t>(lead), before->order.end());
  OnnxShape merged;
  for (const std::int64_t dim : sorted) merged.push_back(before->source.shape[place(dim)]);
  merged.push_back(shape.back());
  Order outer;
  for (const std::int64_t dim : own) outer.push_back(std::ranges::find(sorted, dim) - sorted.begin());
  outer.push_back(static_cast<std::int64_t>(lead));
  return transposed(reshaped(transposed(before->source, inner, "joined"), merged, "merged"), outer, "lead");
}

OnnxValue OnnxNode::linear(const OnnxValue& x, std::int64_t out, const Attributes& attributes,
                           const std::vector<std::string>& weights) {
  OnnxValue rows = tensor(x);
  OnnxShape result = rows.shape;
  result.back() = out;
  if (const auto before = turned(rows); before && keeps_last(before->order))
    return transposed(linear(before->source, out, attributes, weights), before->order, "rows");
  if (const auto before = flattened(rows)) {
    const OnnxShape& shape = before->shape;
    if (shape.size() > rows.shape.size() && shape.back() == rows.shape.back())
      return reshaped(linear(*before, out, attributes, weights), result, "rows");
    // Heads that are merged to one dim.
    std::size_t merged = 0;
    std::int64_t width = 1;
    while (merged < shape.size() && width < rows.shape.back()) width *= shape[shape.size() - ++merged];
    const auto heads = turned(*before);
    const bool joined = width == rows.shape.back() && merged > 1;
    if (joined && heads &&
        !std::is_sorted(heads->order.begin(), heads->order.end() - static_cast<std::ptrdiff_t>(merged)))
      return reshaped(linear(merged_last(*before, merged), out, attributes, weights), result, "rows");
  }
  if (rows.shape.size() == 1) rows = reshaped(rows, {1, rows.shape[0]}, "row");
  return reshaped(write("linear", {rows}, attributes, "", weights), result, "rows");
}

OnnxValue OnnxNode::matmul(const OnnxValue& p, const OnnxValue& q, bool transpose_q,
                           const std::string& part) {
  const OnnxValue left = tensor(p), right = tensor(q);
  const auto before = flattened(left), other = flattened(right);
  const Attributes attributes = transpose_q ? Attributes{{"transpose_q", 1}} : Attributes{};
  if (before && other && left.shape.size() == 3) {
    const OnnxShape &a = before->shape, &b = other->shape;
    const bool fits = a.size() == 4 && b.size() == 4 && std::equal(a.begin(), a.begin() + 2, b.begin()) &&
                      std::equal(a.begin() + 2, a.end(), left.shape.begin() + 1) &&
                      std::equal(b.begin() + 2, b.end(), right.shape.begin() + 1);
    if (fits) {
      OnnxShape result = left.shape;
      result.back() = right.shape[transpose_q ? 1 : 2];
      return reshaped(write("matmul", {*before, *other}, attributes, part), result, part);
    }
  }
  return write("matmul", {left, right}, attributes, part);
}

OnnxValue OnnxNode::cut(const OnnxValue& x, std::int64_t axis, std::int64_t start, std::int64_t length,
                        std::int64_t step, const std::string& part) {
  const OnnxValue source = tensor(x);
  if (start == 0 && step == 1 && length == source.shape[place(axis)]) return source;
  if (const auto before = turned(source))
    return transposed(cut(before->source, before->order[place(axis)], start, length, step, part),
                      before->order, part);
  return write("slice", {source}, {{"axis", axis}, {"start", start}, {"length", length}, {"step", step}},
               part);
}

std::vector<OnnxValue> OnnxNode::divided(const OnnxValue& x, std::int64_t axis,
                                         const std::vector<std::int64_t>& sizes, const std::string& part) {
  const OnnxValue source = tensor(x);
  const auto before = turned(source);
  if (!before) return write_all("split", {source}, {{"axis", axis}, {"sizes", sizes}}, part);
  std::vector<OnnxValue> pieces;
  for (const OnnxValue& piece : divided(before->source, before->order[place(axis)], sizes, part))
    pieces.push_back(transposed(piece, before->order, part));
  return pieces;
}

OnnxValue OnnxNode::binary(const std::string& kind, const OnnxValue& x, const OnnxValue& y,
                           const std::string& part) {
  OnnxValue left = tensor(x), right = tensor(y);
  if (left.shape.empty() && !right.shape.empty()) left = reshaped(left, {1}, "scalar");
  if (right.shape.empty() && !left.shape.empty()) right = reshaped(right, {1}, "scalar");
  OnnxShape shape(std::max(left.shape.size(), right.shape.size()), 1);
  for (const OnnxShape* own : {&left.shape, &right.shape}) {
    const std::size_t first = shape.size() - own->size();
    for (std::size_t i = 0; i < own->size(); ++i) shape[first + i] = std::max(shape[first + i], (*own)[i]);
  }
  const bool either = kind == "add" || kind == "mul" || kind == "maximum" || kind == "minimum";
  if (left.shape != shape && right.shape == shape && either) std::swap(left, right);
  left = expanded(left, shape, "expanded");
  const auto a = turned(left), b = turned(right);
  if (a && b && a->order == b->order)
    return transposed(binary(kind, a->source, b->source, part), a->order, part);
  if (a && keeps_last(a->order) && along_last_dim(right.shape) && maker(right, "parameter") != nullptr) {
    const OnnxValue numbers =
        right.shape.size() > 1 ? reshaped(right, {right.shape.back()}, "numbers") : right;
    return transposed(binary(kind, a->source, numbers, part), a->order, part);
  }
  const auto c = flattened(left), d = flattened(right);
  if (c && d && c->shape == d->shape && left.shape == right.shape)
    return reshaped(binary(kind, *c, *d, part), shape, part);
  if (c && !c->shape.empty() && c->shape.back() == left.shape.back() && right.shape.size() == 1)
    return reshaped(binary(kind, *c, right, part), shape, part);
  return write(kind, {left, right}, {}, part);
}

}  // namespace pipesim
