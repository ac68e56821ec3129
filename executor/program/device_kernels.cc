#include "executor/program/device_kernels.h"

#include <fmt/format.h>

#include <string>
#include <variant>

#include "sim/base/errors.h"

namespace pipesim {

DataType DeviceKernels::kernel_type(DataType stored) const {
  switch (stored) {
    case DataType::Int64:
    case DataType::Int32:
    case DataType::UInt8:
      return DataType::Int64;
    default:
      return DataType::Float32;
  }
}

void require_own_type(const Operator& op) {
  if (op.casts)
    throw InputError(fmt::format(
        "operator \"{}\" ({}) multiplies in {}, for which there is no kernel; products=own in the "
        "model keeps the operands' type",
        op.name, op.kind, name_of(op.casts->type)));
  for (const TensorUse& use : op.uses) {
    if (use.sent_as || (use.route && use.route->nodes > 0))
      throw InputError(fmt::format(
          "operator \"{}\" ({}) sends tokens {}, which devices here do not; dispatch=own and token_nodes=0 "
          "in the model send each to its experts in its own type",
          op.name, op.kind, use.sent_as ? "in " + std::string(name_of(*use.sent_as)) : "to each node once"));
    if (use.runs_again_from_saved)
      throw InputError(fmt::format(
          "operator \"{}\" ({}) keeps its inputs in {}, for which there is no kernel; swiglu_inputs=own in "
          "the model keeps them as they are",
          op.name, op.kind, name_of(*use.saved_as)));
  }
  if (const auto stored = op.attributes.find("stored"); stored != op.attributes.end())
    throw InputError(fmt::format(
        "operator \"{}\" ({}) has weights in {}, for which there is no kernel; base=own in the model keeps "
        "them in their type",
        op.name, op.kind, std::get<std::string>(stored->second)));
}

void require_steps(const Optimizer& optimizer) {
  using enum Optimizer::Kind;
  if (optimizer.kind == Adam8bit || optimizer.kind == Adafactor || optimizer.kind == Muon)
    throw InputError(fmt::format("optimizer \"{}\": devices run steps of sgd, momentum, adam and lion only",
                                 optimizer.str()));
  if (optimizer.first == DataType::Float8 || optimizer.second == DataType::Float8)
    throw InputError(fmt::format(
        "optimizer \"{}\": devices keep moments in float32, bfloat16 or float16 only", optimizer.str()));
}

}  // namespace pipesim
