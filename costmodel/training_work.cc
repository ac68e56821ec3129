#include "costmodel/training_work.h"

#include "costmodel/cost_model.h"
#include "models/box.h"

namespace pipesim {

TrainingWork training_work(const OperatorGraph& graph, const std::function<bool(OperatorId)>& again) {
  constexpr double kPasses = 3;  // forward, gradients of inputs, gradients of weights
  TrainingWork work;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (op.kind == "cross_entropy" || op.kind == "linear_cross_entropy") {
      const std::int64_t labels = graph.tensor(op.uses[1].tensor).elements();
      if (labels > graph.batch()) work.tokens += labels;
    }
    if (!op.matrix) continue;
    const double remade = evaluate(op.remade_products, whole_ranges(op));
    const double forward = remade > 0 ? remade : evaluate(op.flops_forward, whole_ranges(op));
    work.model_flops += kPasses * forward;
    work.hardware_flops += kPasses * forward + remade;
    if (again && again(OperatorId(i))) work.hardware_flops += forward;
  }
  return work;
}

FlopsPerSecond peak_rate(const OperatorGraph& graph, const Topology& topology) {
  DataType type = DataType::Float32;
  for (const Operator& op : graph.operators()) {
    if (!op.matrix) continue;
    type = graph.tensor(op.uses.front().tensor).type;
    break;
  }
  FlopsPerSecond sum;
  for (std::size_t d = 0; d < topology.num_devices(); ++d)
    sum = FlopsPerSecond(sum.value + peak_rate(topology.kind(DeviceId(d)), type).value);
  return sum;
}

}  // namespace pipesim
