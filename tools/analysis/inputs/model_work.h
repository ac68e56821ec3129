#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// What an operator of a model has and does. Over all operators, both figures sum to the model's.
struct OperatorWork {
  std::int64_t parameters = 0;  ///< weights; those that operators share count at their first use
  Flops forward;                ///< of a whole batch
};

/// In the order of the graph's operators.
std::vector<OperatorWork> work_of_operators(const OperatorGraph& graph);

/// "b=64 o=4096": the factors of an operator and their sizes.
std::string factors_text(const Operator& op);

}  // namespace pipesim
