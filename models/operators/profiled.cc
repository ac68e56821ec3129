#include <fmt/format.h>

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
  const std::int64_t parameter_bytes = draft.integer("parameter_bytes");
  const auto float_bytes = bytes_per_element(DataType::Float32);
  if (parameter_bytes > 0) {
    draft.weight("parameters", {IndexExpr::whole((parameter_bytes + float_bytes - 1) / float_bytes)});
  }
  const std::int64_t bytes_per_sample = (draft.integer("activation_bytes") + batch - 1) / batch;
  draft.output("", {draft.axis(n), IndexExpr::whole(std::max<std::int64_t>(1, bytes_per_sample))},
               DataType::UInt8);
  draft.op.measured =
      MeasuredTime{Seconds(draft.real("forward_ms") * 1e-3), Seconds(draft.real("backward_ms") * 1e-3)};
}

AttributeSchema byte_count(std::string name, std::string help) {
  AttributeSchema schema = AttributeSchema::integer(std::move(name), std::move(help), 0, 0);
  schema.highest = 1e15;
  return schema;
}

}  // namespace

std::vector<OperatorKind> profiled_kinds() {
  constexpr double most_ms = 1e12;
  return {{"profiled",
           "a layer known by its measured times only, for the model's batch",
           "any number of x[n, …]",
           0,
           1024,
           {AttributeSchema::real("forward_ms", "forward time in milliseconds", 0, most_ms),
            AttributeSchema::real("backward_ms", "backward time in milliseconds", 0, most_ms),
            byte_count("activation_bytes", "bytes of the output for the batch"),
            byte_count("parameter_bytes", "bytes of the weights")},
           build_profiled}};
}

}  // namespace pipesim
