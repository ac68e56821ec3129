#include <fmt/format.h>

#include <cmath>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {
namespace {

/// All that a profile knows of a layer: how long it took for the batch, and the bytes it leaves behind. Only
/// samples can be split.
void build_profiled(OperatorDraft& draft) {
  const std::int64_t batch = draft.batch();
  const FactorIndex n = draft.factor("n", FactorKind::Sample, batch);
  for (std::size_t i = 0; i < draft.inputs(); ++i) {
    std::vector<IndexExpr> dims{draft.axis(n)};
    for (std::size_t d = 1; d < draft.rank(i); ++d) dims.push_back(IndexExpr::whole(draft.shape(i)[d]));
    draft.moved_input(i, std::move(dims)).saved = true;
  }
  // Tensors have whole elements, so they are up to one larger; the attributes are exact.
  const auto parameters = static_cast<std::int64_t>(
      std::ceil(draft.real("parameter_bytes") / static_cast<double>(bytes_per_element(DataType::Float32))));
  if (parameters > 0) draft.weight("parameters", {IndexExpr::whole(parameters)});
  const auto bytes_per_sample =
      static_cast<std::int64_t>(std::ceil(draft.real("activation_bytes") / static_cast<double>(batch)));
  draft.output("", {draft.axis(n), IndexExpr::whole(std::max<std::int64_t>(1, bytes_per_sample))},
               DataType::UInt8);
  draft.op.measured =
      MeasuredTime{Seconds(draft.real("forward_ms") * 1e-3), Seconds(draft.real("backward_ms") * 1e-3)};
}

}  // namespace

std::vector<OperatorKind> profiled_kinds() {
  constexpr double most_ms = 1e12, most_bytes = 1e15;
  return {
      {"profiled",
       "a layer known by its measured times only, for the model's batch",
       "any number of x[n, …]",
       0,
       1024,
       {AttributeSchema::real("forward_ms", "forward time in milliseconds", 0, most_ms),
        AttributeSchema::real("backward_ms", "backward time in milliseconds", 0, most_ms),
        AttributeSchema::real("activation_bytes", "bytes of the output for the batch; may have a fraction", 0,
                              most_bytes, 0.0),
        AttributeSchema::real("parameter_bytes", "bytes of the weights", 0, most_bytes, 0.0)},
       {{{"x", {64, 512}}},
        {{"forward_ms", 1.5},
         {"backward_ms", 3.0},
         {"activation_bytes", 131072.0},
         {"parameter_bytes", 1048576.0}}},
       build_profiled}};
}

}  // namespace pipesim
