#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

using Shape = std::vector<std::int64_t>;

/// Dims of a part that covers [offset, offset + length) of the factor along `axis`.
std::vector<IndexExpr> part(const OperatorDraft& draft, const std::vector<FactorIndex>& dims,
                            std::size_t axis, std::int64_t offset, std::int64_t length) {
  auto exprs = draft.axes(dims);
  exprs[axis] = IndexExpr::axis(dims[axis], length, -offset);
  return exprs;
}

void build_concat(OperatorDraft& draft) {
  draft.require_rank(0, 1, 8, "one dimension or more");
  const std::size_t axis = draft.axis_attribute();
  Shape whole = draft.shape(0);
  for (std::size_t i = 1; i < draft.inputs(); ++i) {
    draft.require_rank(i, whole.size(), whole.size(), to_text(draft.shape(0)) + " except along the axis");
    whole[axis] += draft.shape(i)[axis];
    if (draft.type(i) != draft.type(0)) {
      draft.fail(fmt::format("input {} has type {}, allowed: {} as input 0", i, name_of(draft.type(i)),
                             name_of(draft.type(0))));
    }
  }
  const auto dims = plain_factors(draft, whole);
  draft.at(dims[axis]).uneven = true;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < draft.inputs(); ++i) {
    draft.moved_input(i, part(draft, dims, axis, offset, draft.shape(i)[axis]));
    offset += draft.shape(i)[axis];
  }
  draft.output("", draft.axes(dims), draft.type(0));
}

void build_split(OperatorDraft& draft) {
  draft.require_rank(0, 1, 8, "one dimension or more");
  const std::size_t axis = draft.axis_attribute();
  const auto sizes = draft.list("sizes");
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != draft.shape(0)[axis]) {
    draft.fail(
        fmt::format("attribute \"sizes\" is {} and input 0 has shape {}, allowed: sizes that add up to {}",
                    to_text(sizes), to_text(draft.shape(0)), draft.shape(0)[axis]));
  }
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.at(dims[axis]).uneven = true;
  draft.moved_input(0, draft.axes(dims));
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    draft.output(sizes.size() == 1 ? "" : fmt::format("{}", i), part(draft, dims, axis, offset, sizes[i]),
                 draft.type(0));
    offset += sizes[i];
  }
}

void build_transpose(OperatorDraft& draft) {
  const auto order = draft.list("order");
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Shape all(draft.rank(0));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    draft.fail(fmt::format("attribute \"order\" is {} and input 0 has shape {}, allowed: each axis once",
                           to_text(order), to_text(draft.shape(0))));
  }
  const auto dims = plain_factors(draft, draft.shape(0));
  std::vector<FactorIndex> permuted;
  for (const std::int64_t axis : order) permuted.push_back(dims[static_cast<std::size_t>(axis)]);
  draft.moved_input(0, draft.axes(dims));
  draft.output("", draft.axes(permuted), draft.type(0));
}

/// Shards along the new dimension read the same x, and each holds an addend of its gradient.
void build_broadcast(OperatorDraft& draft) {
  draft.require_rank(0, 1, 7, "one dimension or more");
  const std::int64_t axis = draft.integer("axis"), rank = static_cast<std::int64_t>(draft.rank(0));
  if (axis > rank) {
    draft.fail(fmt::format("attribute \"axis\" is {} and input 0 has shape {}, allowed: 1 to {}", axis,
                           to_text(draft.shape(0)), rank));
  }
  Shape wide = draft.shape(0);
  wide.insert(wide.begin() + axis, draft.integer("size"));
  const auto dims = plain_factors(draft, wide);
  auto narrow = dims;
  narrow.erase(narrow.begin() + axis);
  draft.input(0, draft.axes(narrow));
  draft.output("", draft.axes(dims));
  draft.op.flops_backward_input = {{1, dims}};
}

/// Broadcasts along dims of length 1 and dims that are missing on the left.
void build_expand(OperatorDraft& draft) {
  const Shape &from = draft.shape(0), &to = draft.list("shape");
  const auto refuse = [&] {
    draft.fail(
        fmt::format("attribute \"shape\" is {} and input 0 has shape {}, allowed: the same dims, longer "
                    "where the input has 1, and more on the left",
                    to_text(to), to_text(from)));
  };
  if (to.size() < from.size()) refuse();
  const std::size_t missing = to.size() - from.size();
  const auto dims = plain_factors(draft, to);
  std::vector<IndexExpr> narrow;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool stretched = from[i] == 1;
    if (!stretched && from[i] != to[missing + i]) refuse();
    narrow.push_back(stretched ? IndexExpr::whole(1) : draft.axis(dims[missing + i]));
  }
  if (to[0] == draft.batch() && (missing > 0 || from[0] == 1)) draft.new_samples = dims[0];
  draft.input(0, std::move(narrow));
  draft.output("", draft.axes(dims));
  draft.op.flops_backward_input = {{1, dims}};
}

/// Products of the dims from the left: where the shape's dims end in row-major order.
Shape boundaries(const Shape& shape) {
  Shape ends;
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) ends.push_back(product *= extent);
  return ends;
}

/// The ends of the common refinement of two shapes: every end of either shape, as far as each divides the
/// next. Between two ends that both shapes have, it is all or nothing: dims with no common refinement are
/// needed whole.
struct Refinement {
  Shape ends;                       ///< ascending, > 1, both shapes' ends
  std::vector<FactorIndex> factor;  ///< of the piece that stops at the end; −1: no refinement here
};

Refinement refine(const Shape& from, const Shape& to) {
  const Shape a = boundaries(from), b = boundaries(to);
  Refinement r;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r.ends));
  r.ends.erase(std::unique(r.ends.begin(), r.ends.end()), r.ends.end());
  if (!r.ends.empty() && r.ends.front() == 1) r.ends.erase(r.ends.begin());
  r.factor.assign(r.ends.size(), 0);
  std::size_t begin = 0;
  std::int64_t before = 1;
  bool divides = true;
  for (std::size_t i = 0; i < r.ends.size(); ++i) {
    divides = divides && r.ends[i] % (i == begin ? before : r.ends[i - 1]) == 0;
    const bool shared = std::binary_search(a.begin(), a.end(), r.ends[i]) &&
                        std::binary_search(b.begin(), b.end(), r.ends[i]);
    if (!shared) continue;
    if (!divides)
      std::fill(r.factor.begin() + static_cast<std::ptrdiff_t>(begin),
                r.factor.begin() + static_cast<std::ptrdiff_t>(i) + 1, -1);
    before = r.ends[i];
    begin = i + 1;
    divides = true;
  }
  return r;
}

/// Names each piece after the input dim it lies in ("h", "h2", …) and makes it a factor.
void make_factors(OperatorDraft& draft, Refinement& r) {
  OperatorDraft scratch = draft;
  const auto plain = plain_factors(scratch, draft.shape(0));
  const Shape from = boundaries(draft.shape(0));
  std::size_t pieces = 0, last_dim = from.size();
  for (std::size_t i = 0; i < r.ends.size(); ++i) {
    const auto dim =
        static_cast<std::size_t>(std::lower_bound(from.begin(), from.end(), r.ends[i]) - from.begin());
    if (r.factor[i] < 0) continue;
    pieces = dim == last_dim ? pieces + 1 : 0;
    last_dim = dim;
    const std::int64_t size = r.ends[i] / (i == 0 ? 1 : r.ends[i - 1]);
    const Factor& like = scratch.at(plain[dim]);
    r.factor[i] =
        draft.factor(numbered(like.name, pieces), like.kind, size, like.uneven && size == like.size);
  }
}

std::vector<IndexExpr> dims_over(const Refinement& r, const Shape& shape) {
  std::vector<IndexExpr> exprs;
  std::size_t next = 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    product *= extent;
    std::vector<FactorIndex> factors;
    bool whole = extent == 1;
    for (; next < r.ends.size() && r.ends[next] <= product; ++next) {
      whole = whole || r.factor[next] < 0;
      factors.push_back(r.factor[next]);
    }
    exprs.push_back(whole ? IndexExpr::whole(extent) : IndexExpr::merged(std::move(factors), extent));
  }
  return exprs;
}

void reshape_to(OperatorDraft& draft, const Shape& to) {
  Refinement refinement = refine(draft.shape(0), to);
  make_factors(draft, refinement);
  draft.moved_input(0, dims_over(refinement, draft.shape(0)));
  draft.output("", dims_over(refinement, to), draft.type(0));
  // A shard's box of the one shape and of the other hold the same elements in the same order.
  draft.op.moves_nothing = true;
}

void build_reshape(OperatorDraft& draft) {
  const auto& to = draft.list("shape");
  double wanted = 1, found = 1;
  for (const std::int64_t extent : to) wanted *= static_cast<double>(extent);
  for (const std::int64_t extent : draft.shape(0)) found *= static_cast<double>(extent);
  if (wanted != found) {
    draft.fail(fmt::format("attribute \"shape\" is {} and input 0 has shape {}, allowed: as many elements",
                           to_text(to), to_text(draft.shape(0))));
  }
  reshape_to(draft, to);
}

void build_flatten(OperatorDraft& draft) {
  const std::int64_t from = draft.integer("from");
  const Shape& shape = draft.shape(0);
  if (from >= static_cast<std::int64_t>(shape.size())) {
    draft.fail(fmt::format("attribute \"from\" is {} and input 0 has shape {}, allowed: 0 to {}", from,
                           to_text(shape), static_cast<std::int64_t>(shape.size()) - 1));
  }
  Shape to(shape.begin(), shape.begin() + from);
  to.push_back(std::accumulate(shape.begin() + from, shape.end(), std::int64_t{1}, std::multiplies<>()));
  reshape_to(draft, to);
}

}  // namespace

std::vector<OperatorKind> shape_kinds() {
  using Schema = AttributeSchema;
  const auto axis = Schema::integer("axis", "the dimension, from 0", {}, 0);
  return {{"concat",
           "inputs one after the other along an axis",
           "x[any dims], …",
           1,
           1024,
           {axis},
           {{{"x", {64, 32, 28, 28}}, {"y", {64, 16, 28, 28}}}, {{"axis", 1}}},
           build_concat},
          {"split",
           "pieces of x along an axis, one output each",
           "x[any dims]",
           1,
           1,
           {axis, Schema::integers("sizes", "lengths of the pieces")},
           {{{"x", {64, 32, 28, 28}}}, {{"axis", 1}, {"sizes", std::vector<std::int64_t>{8, 24}}}},
           build_split},
          {"broadcast",
           "x once for every index of a new dimension, such as one key for all heads",
           "x[any dims]",
           1,
           1,
           {Schema::integer("axis", "which dimension of the result is new", {}, 1),
            Schema::integer("size", "its length")},
           {{{"x", {64, 128, 64}}}, {{"axis", 2}, {"size", 16}}},
           build_broadcast},
          {"expand",
           "x repeated along dims of length 1, and along more dims on the left",
           "x[any dims]",
           1,
           1,
           {Schema::integers("shape", "of the result")},
           {{{"x", {64, 1, 512}}}, {{"shape", std::vector<std::int64_t>{64, 128, 512}}}},
           build_expand},
          {"reshape",
           "the same elements in row-major order under another shape",
           "x[any dims]",
           1,
           1,
           {Schema::integers("shape", "the new shape")},
           {{{"x", {64, 128, 512}}}, {{"shape", std::vector<std::int64_t>{64, 128, 8, 64}}}},
           build_reshape},
          {"flatten",
           "merges the dims from one on",
           "x[any dims]",
           1,
           1,
           {Schema::integer("from", "first dim that is merged", 1, 0)},
           {{{"x", {64, 32, 28, 28}}}, {}},
           build_flatten},
          {"transpose",
           "dims in another order",
           "x[any dims]",
           1,
           1,
           {Schema::integers("order", "which input dim each output dim is", {}, 0)},
           {{{"x", {64, 128, 512}}}, {{"order", std::vector<std::int64_t>{0, 2, 1}}}},
           build_transpose}};
}

}  // namespace pipesim
