#include <fmt/format.h>

#include <algorithm>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

void build_reduce(OperatorDraft& draft) {
  auto axes = draft.list("axes");
  std::sort(axes.begin(), axes.end());
  const auto rank = static_cast<std::int64_t>(draft.rank(0));
  if (axes.empty() || axes.back() >= rank || std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    draft.fail(
        fmt::format("attribute \"axes\" is {} and input 0 has shape {}, allowed: distinct axes from 0 to {}",
                    to_text(draft.list("axes")), to_text(draft.shape(0)), rank - 1));
  }
  const auto dims = plain_factors(draft, draft.shape(0));
  std::vector<FactorIndex> reduced, kept;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool over = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    (over ? reduced : kept).push_back(dims[i]);
    if (over) draft.at(dims[i]).kind = FactorKind::Reduction;
  }
  const bool max = draft.word("mode") == "max";
  draft.input(0, draft.axes(dims)).saved = max;
  TensorUse& result = draft.output("", draft.axes(kept));
  draft.op.flops_forward = draft.op.flops_backward_input = {{1, dims}};
  if (!max) return;
  // Addends of a maximum do not exist: shards agree on it inside the operator and all hold it.
  result.saved = true;
  for (const FactorIndex f : reduced) result.lacks.emplace_back(f, Lack::Same);
  InnerStep agree{Pass::Forward, InnerStep::Reduce::Max,          reduced,
                  {1, kept},     bytes_per_element(draft.type()), 1.0};
  draft.op.inner_steps.push_back(std::move(agree));
}

}  // namespace

std::vector<OperatorKind> reduction_kinds() {
  return {{"reduce",
           "sum, mean or largest element over some axes, which disappear",
           "x[any dims]",
           1,
           1,
           {AttributeSchema::integers("axes", "axes to reduce over, e.g. [2, 3]", {}, 0),
            AttributeSchema::word("mode", "what to compute", {"sum", "mean", "max"}, "sum")},
           {{{"x", {64, 32, 28, 28}}}, {{"axes", std::vector<std::int64_t>{2, 3}}, {"mode", "mean"}}},
           build_reduce}};
}

}  // namespace pipesim
