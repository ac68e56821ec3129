#include <fmt/format.h>

#include <algorithm>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

using Shape = std::vector<std::int64_t>;

/// Elements between the steps lie in no shard's box, so their gradient is 0.
void build_slice(OperatorDraft& draft) {
  const std::size_t axis = draft.axis_attribute();
  const std::int64_t start = draft.integer("start"), length = draft.integer("length"),
                     step = draft.integer("step"), extent = draft.shape(0)[axis];
  if (start + (length - 1) * step >= extent) {
    draft.fail(fmt::format(
        "\"start\" is {}, \"length\" {}, \"step\" {} and input 0 has shape {}, allowed: up to its end", start,
        length, step, to_text(draft.shape(0))));
  }
  Shape to = draft.shape(0);
  to[axis] = length;
  const auto dims = plain_factors(draft, to);
  draft.at(dims[axis]).uneven = true;
  auto from = draft.axes(dims);
  from[axis] = IndexExpr::window(dims[axis], extent, step, 1, 1, -start);
  draft.moved_input(0, std::move(from));
  draft.output("", draft.axes(dims), draft.type(0));
}

/// A padded axis may be split where zeros are added; elsewhere its ends need what is inside.
void build_pad(OperatorDraft& draft) {
  const Shape before = draft.list("before"), after = draft.list("after"), &from = draft.shape(0);
  if (before.size() != from.size() || after.size() != from.size()) {
    draft.fail(fmt::format(
        "\"before\" is {}, \"after\" {} and input 0 has shape {}, allowed: a number for each dimension",
        to_text(before), to_text(after), to_text(from)));
  }
  const std::string& mode = draft.word("mode");
  Shape to = from;
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += before[i] + after[i];
    if (mode == "reflect" && std::max(before[i], after[i]) >= from[i]) {
      draft.fail(
          fmt::format("\"before\" is {}, \"after\" {} and input 0 has shape {}, allowed with "
                      "mode=reflect: less than the dimension",
                      to_text(before), to_text(after), to_text(from)));
    }
  }
  const auto dims = plain_factors(draft, to);
  auto inside = draft.axes(dims);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == from[i]) continue;
    if (mode == "zeros") {
      draft.at(dims[i]).uneven = true;
      inside[i] = IndexExpr::axis(dims[i], from[i], -before[i]);
    } else {
      draft.at(dims[i]).max_degree = 1;
      inside[i] = IndexExpr::whole(from[i]);
    }
  }
  draft.moved_input(0, std::move(inside));
  draft.output("", draft.axes(dims), draft.type(0));
}

void build_roll(OperatorDraft& draft) {
  const std::size_t axis = draft.axis_attribute();
  const auto dims = plain_factors(draft, draft.shape(0));
  draft.at(dims[axis]).max_degree = 1;  // a part would come from both ends
  draft.moved_input(0, draft.axes(dims));
  draft.output("", draft.axes(dims), draft.type(0));
}

/// Along a split axis each shard looks up what it has; others' elements are 0 in its addend.
void build_gather(OperatorDraft& draft) {
  const std::size_t axis = draft.axis_attribute();
  draft.require_integers(1);
  const Shape &from = draft.shape(0), &indices = draft.shape(1);
  std::vector<FactorIndex> dims = plain_factors(draft, from);
  draft.at(dims[axis]).kind = FactorKind::Reduction;
  draft.at(dims[axis]).name = "v";
  draft.at(dims[axis]).uneven = true;
  std::vector<FactorIndex> chosen;
  for (std::size_t i = 0; i < indices.size(); ++i)
    chosen.push_back(draft.factor(numbered("i", i), FactorKind::Attribute, indices[i], true));
  std::vector<FactorIndex> result = dims;
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(axis), chosen.begin(), chosen.end());
  draft.input(0, draft.axes(dims)).forward_passes = 0;  // only what is chosen moves, see below
  draft.index(1, draft.axes(chosen)).saved = true;
  draft.output("", draft.axes(result));
  draft.op.bytes_forward_extra = {{draft.element_bytes(), result}};
  draft.op.flops_backward_input = {{1, result}};
}

}  // namespace

std::vector<OperatorKind> indexing_kinds() {
  using Schema = AttributeSchema;
  const auto axis = Schema::integer("axis", "the dimension, from 0", {}, 0);
  const OperatorExample::Input image{"x", {64, 32, 28, 28}};
  return {{"slice",
           "elements of x from one place of an axis on",
           "x[any dims]",
           1,
           1,
           {axis, Schema::integer("start", "the first of them", 0, 0), Schema::integer("length", "how many"),
            Schema::integer("step", "from one to the next", 1)},
           {{image}, {{"axis", 1}, {"start", 8}, {"length", 16}}},
           build_slice},
          {"pad",
           "x with more elements before and after",
           "x[any dims]",
           1,
           1,
           {Schema::integers("before", "elements before each dim", {}, 0),
            Schema::integers("after", "elements after each dim", {}, 0),
            Schema::word("mode", "what they are: zeros, those inside in reverse order, or the nearest one",
                         {"zeros", "reflect", "edge"}, "zeros")},
           {{image},
            {{"before", std::vector<std::int64_t>{0, 0, 1, 1}},
             {"after", std::vector<std::int64_t>{0, 0, 1, 1}}}},
           build_pad},
          {"roll",
           "x moved along an axis; what leaves at the end comes in at the start",
           "x[any dims]",
           1,
           1,
           {axis, Schema::integer("shift", "elements to move by", {}, 0)},
           {{image}, {{"axis", 2}, {"shift", 3}}},
           build_roll},
          {"gather",
           "elements of x along an axis, chosen by index",
           "x[any dims], indices[i…]",
           2,
           2,
           {axis},
           {{{"x", {64, 729}}, {"indices", {351}, DataType::Int64}}, {{"axis", 1}}},
           build_gather}};
}

}  // namespace pipesim
