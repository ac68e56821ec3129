#include <fmt/format.h>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// Only its tensors are known. Every shard needs all of them, unless the operator says that its samples are
/// independent.
void build_opaque(OperatorDraft& draft) {
  const bool samples = draft.flag("samples");
  FactorIndex n = -1;
  if (samples) n = draft.factor("n", FactorKind::Sample, draft.batch());
  const auto dims = [&](const std::vector<std::int64_t>& shape, const std::string& tensor) {
    std::vector<IndexExpr> exprs;
    for (const std::int64_t extent : shape) exprs.push_back(IndexExpr::whole(extent));
    if (!samples) return exprs;
    if (shape.empty() || shape[0] != draft.batch()) {
      draft.fail(fmt::format("\"samples\" is given and {} has shape {}, allowed: {} samples first", tensor,
                             to_text(shape), draft.batch()));
    }
    exprs[0] = draft.axis(n);
    return exprs;
  };
  for (std::size_t i = 0; i < draft.inputs(); ++i)
    draft.moved_input(i, dims(draft.shape(i), fmt::format("input {}", i))).saved = true;
  if (const std::int64_t parameters = draft.integer("parameters"); parameters > 0)
    draft.weight("parameters", {IndexExpr::whole(parameters)});
  std::vector<std::string> given{"shape"};
  for (const char* more : {"shape2", "shape3", "shape4"}) {
    if (draft.list(more).empty()) continue;
    const std::string next = fmt::format("shape{}", given.size() + 1);
    if (more != next) draft.fail(fmt::format("\"{}\" is given, allowed: \"{}\" before it", more, next));
    given.emplace_back(more);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& shape = draft.list(given[i]);
    draft.output(given.size() == 1 ? "" : fmt::format("{}", i), dims(shape, fmt::format("\"{}\"", given[i])));
  }
  const double forward = draft.real("forward_ms"), backward = draft.real("backward_ms");
  if (forward > 0 || backward > 0)
    draft.op.measured = MeasuredTime{Seconds(forward * 1e-3), Seconds(backward * 1e-3)};
}

/// A tensor with the values of a weight, for operators that take a learned tensor as an input.
void build_parameter(OperatorDraft& draft) {
  const auto& shape = draft.list("shape");
  std::vector<FactorIndex> dims;
  for (std::size_t i = 0; i < shape.size(); ++i)
    dims.push_back(draft.factor(numbered("d", i), FactorKind::Parameter, shape[i]));
  draft.weight("w", draft.axes(dims));
  draft.output("", draft.axes(dims));
}

}  // namespace

std::vector<OperatorKind> opaque_kinds() {
  using Schema = AttributeSchema;
  constexpr double most_ms = 1e12;
  const std::vector<std::int64_t> none;
  return {{"opaque",
           "an operator of which only the tensors are known, priced by their bytes or by measured times",
           "any number of x",
           0,
           1024,
           {Schema::text("what", "its name where it came from"),
            Schema::integers("shape", "of its result, or of the first one"),
            Schema::integers("shape2", "of the second result, if there is one", none),
            Schema::integers("shape3", "of the third result", none),
            Schema::integers("shape4", "of the fourth result", none),
            Schema::flag("samples", false,
                         "samples, the first dim of all its tensors, do not depend on one another: it may be "
                         "split along them"),
            Schema::integer("parameters", "elements of its weights", 0, 0),
            Schema::real("forward_ms", "measured forward time for the batch in milliseconds; 0: none", 0,
                         most_ms, 0.0),
            Schema::real("backward_ms", "measured backward time", 0, most_ms, 0.0)},
           {{{"x", {64, 128, 512}}},
            {{"what", "com.microsoft.FusedMatMul"},
             {"shape", std::vector<std::int64_t>{64, 128, 64}},
             {"samples", 1}}},
           build_opaque},
          {"parameter",
           "a learned tensor that operators use as an input, such as positions that are added",
           "nothing",
           0,
           0,
           {Schema::integers("shape", "its shape")},
           {{}, {{"shape", std::vector<std::int64_t>{197, 768}}}},
           build_parameter}};
}

}  // namespace pipesim
