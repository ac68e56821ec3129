#include "executor/backend/nan_search.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

void require_numbers(const OperatorGraph& graph, const Operator& op, Pass pass,
                     const std::function<bool(std::size_t use)>& has_nan) {
  const bool forward = pass == Pass::Forward;
  for (std::size_t u = 0; u < op.uses.size(); ++u) {
    const bool output = op.uses[u].role == Role::Output;
    if (forward != output || !has_nan(u)) continue;
    throw DeviceError(
        fmt::format("the first tensor that became NaN is {}\"{}\", in the {} pass of operator \"{}\"",
                    forward ? "" : "the gradient of ", graph.tensor(op.uses[u].tensor).name,
                    forward ? "forward" : "backward", op.name));
  }
}

}  // namespace pipesim
