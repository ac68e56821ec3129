#include "models/box.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/causal_mask.h"
#include "models/zigzag.h"
#include "sim/base/errors.h"

namespace pipesim {

Range cut(const Factor& factor, std::int64_t degree, std::int64_t k) {
  const std::int64_t units = factor.size / factor.granule;
  return {factor.granule * (k * units / degree), factor.granule * ((k + 1) * units / degree)};
}

Box::Box(std::span<const Range> ranges) : dims_(static_cast<std::uint8_t>(ranges.size())) {
  if (ranges.size() > max_dims) throw InternalError(fmt::format("a box of {} dimensions", ranges.size()));
  std::copy(ranges.begin(), ranges.end(), ranges_.begin());
}

Box Box::whole(std::span<const std::int64_t> shape) {
  Box box;
  if (shape.size() > max_dims) throw InternalError(fmt::format("a box of {} dimensions", shape.size()));
  for (const std::int64_t extent : shape) box.ranges_[box.dims_++] = {0, extent};
  return box;
}

std::int64_t Box::elements() const {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < dims_; ++i) n *= ranges_[i].length();
  return n;
}

bool Box::empty() const {
  return std::any_of(ranges_.begin(), ranges_.begin() + dims_, [](Range r) { return r.begin >= r.end; });
}

std::string Box::str() const {
  std::string text = "[";
  for (std::size_t i = 0; i < dims_; ++i) {
    text += fmt::format("{}{}:{}", i == 0 ? "" : ", ", ranges_[i].begin, ranges_[i].end);
  }
  return text + "]";
}

std::strong_ordering Box::operator<=>(const Box& o) const {
  const std::size_t common = std::min(dims_, o.dims_);
  for (std::size_t i = 0; i < common; ++i) {
    if (const auto order = ranges_[i] <=> o.ranges_[i]; order != 0) return order;
  }
  return dims_ <=> o.dims_;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  if (a.dims_ != b.dims_) throw InternalError("intersection of boxes of different dimensions");
  Box both;
  both.dims_ = a.dims_;
  for (std::size_t i = 0; i < a.dims_; ++i) {
    both.ranges_[i] = {std::max(a.ranges_[i].begin, b.ranges_[i].begin),
                       std::min(a.ranges_[i].end, b.ranges_[i].end)};
    if (both.ranges_[i].begin >= both.ranges_[i].end) return std::nullopt;
  }
  return both;
}

namespace {

Range clipped(std::int64_t begin, std::int64_t end, std::int64_t extent, Overhang* overhang) {
  if (overhang != nullptr)
    *overhang = {std::max<std::int64_t>(0, -begin), std::max<std::int64_t>(0, end - extent)};
  begin = std::clamp<std::int64_t>(begin, 0, extent);
  return {begin, std::clamp(end, begin, extent)};
}

std::optional<MergedConflict> conflict_in(const IndexExpr& expr, const Operator& op,
                                          std::span<const Range> ranges) {
  FactorIndex unfinished = -1;
  for (const FactorIndex f : expr.factors) {
    const Range r = ranges[static_cast<std::size_t>(f)];
    if (unfinished >= 0 && r != Range{0, op.factors[static_cast<std::size_t>(f)].size}) {
      return MergedConflict{f, unfinished};
    }
    if (r.length() > 1 && unfinished < 0) unfinished = f;
  }
  return std::nullopt;
}

Range merged_range(const IndexExpr& expr, const Operator& op, std::span<const Range> ranges) {
  if (const auto conflict = conflict_in(expr, op, ranges)) {
    throw InputError(fmt::format("operator \"{}\" ({}): {} is cut below an unfinished factor {}", op.name,
                                 op.kind, op.factors[static_cast<std::size_t>(conflict->cut)].name,
                                 op.factors[static_cast<std::size_t>(conflict->unfinished)].name));
  }
  std::int64_t first = 0, last = 0;
  for (const FactorIndex f : expr.factors) {
    const Range r = ranges[static_cast<std::size_t>(f)];
    if (r.begin >= r.end) return {0, 0};
    const std::int64_t size = op.factors[static_cast<std::size_t>(f)].size;
    first = first * size + r.begin;
    last = last * size + r.end - 1;
  }
  return {first, last + 1};
}

}  // namespace

std::optional<MergedConflict> merged_conflict(const Operator& op, std::span<const Range> factor_ranges) {
  for (const TensorUse& use : op.uses) {
    for (const IndexExpr& expr : use.dims) {
      if (expr.kind != IndexExpr::Kind::Merged) continue;
      if (const auto conflict = conflict_in(expr, op, factor_ranges)) return conflict;
    }
  }
  return std::nullopt;
}

Range index_range(const IndexExpr& expr, const Operator& op, std::span<const Range> factor_ranges,
                  Overhang* overhang) {
  if (overhang != nullptr) *overhang = {};
  if (expr.kind == IndexExpr::Kind::Whole) return {0, expr.extent};
  if (expr.kind == IndexExpr::Kind::Merged) return merged_range(expr, op, factor_ranges);
  const Range r = factor_ranges[static_cast<std::size_t>(expr.factors[0])];
  if (expr.kind == IndexExpr::Kind::Axis) {
    return clipped(r.begin + expr.offset, r.end + expr.offset, expr.extent, nullptr);
  }
  if (r.begin >= r.end) return {0, 0};
  return clipped(r.begin * expr.stride - expr.pad,
                 (r.end - 1) * expr.stride - expr.pad + expr.dilation * (expr.kernel - 1) + 1, expr.extent,
                 overhang);
}

Box box_of(const TensorUse& use, const Operator& op, std::span<const Range> factor_ranges) {
  std::array<Range, Box::max_dims> ranges;
  for (std::size_t i = 0; i < use.dims.size(); ++i) ranges[i] = index_range(use.dims[i], op, factor_ranges);
  return Box(std::span(ranges.data(), use.dims.size()));
}

double evaluate(std::span<const ProductTerm> terms, std::span<const Range> factor_ranges) {
  double sum = 0;
  for (const ProductTerm& term : terms) {
    double product = term.coefficient;
    for (const FactorIndex f : term.factors) {
      product *= static_cast<double>(factor_ranges[static_cast<std::size_t>(f)].length());
    }
    sum += product;
  }
  return sum;
}

namespace {

// visit(positions) of each run of indices that have successive positions.
template <class Visit>
void for_each_run(const ZigzagOrder& order, Range indices, Visit visit) {
  for (std::int64_t i = indices.begin; i < indices.end;) {
    const std::int64_t end = std::min(indices.end, (i / order.chunk() + 1) * order.chunk());
    visit(Range{order.position(i), order.position(i) + end - i});
    i = end;
  }
}

std::int64_t visible_pairs_in_zigzag(const Operator& op, const CausalMask& mask, Range queries, Range keys) {
  const std::int64_t length = op.factors[static_cast<std::size_t>(op.causal->first)].size;
  const ZigzagOrder order(op.zigzag, length);
  std::int64_t seen = 0;
  for_each_run(order, queries, [&](Range s) {
    if (keys == Range{0, length}) {
      seen += mask.visible_pairs(s, keys);  // whichever order they come in
    } else {
      for_each_run(order, keys, [&](Range t) { seen += mask.visible_pairs(s, t); });
    }
  });
  return seen;
}

}  // namespace

double visible_share(const Operator& op, std::span<const Range> factor_ranges) {
  if (!op.causal) return 1;
  const Range s = factor_ranges[static_cast<std::size_t>(op.causal->first)];
  const Range t = factor_ranges[static_cast<std::size_t>(op.causal->second)];
  if (s.length() <= 0 || t.length() <= 0) return 0;
  const CausalMask mask = causal_mask_of(op, op.factors[static_cast<std::size_t>(op.causal->second)].size);
  const std::int64_t seen =
      op.zigzag > 1 ? visible_pairs_in_zigzag(op, mask, s, t) : mask.visible_pairs(s, t);
  return static_cast<double>(seen) / (static_cast<double>(s.length()) * static_cast<double>(t.length()));
}

std::vector<Range> whole_ranges(const Operator& op) {
  std::vector<Range> ranges;
  ranges.reserve(op.factors.size());
  for (const Factor& f : op.factors) ranges.push_back({0, f.size});
  return ranges;
}

}  // namespace pipesim
