#pragma once

#include <string>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// A field of the configuration: "parallelism.tensor_parallel_degree" and its value as the command line and
/// Python write it.
struct TorchtitanField {
  std::string path, value;
  bool quoted = false;  ///< a text, which Python puts in quotes
};
/// All but the modules of each model part, which the command line can't take.
std::vector<TorchtitanField> torchtitan_fields(const FrameworkPlan& plan);

}  // namespace pipesim
