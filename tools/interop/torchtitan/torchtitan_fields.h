#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// A field of the configuration: "parallelism.tensor_parallel_degree" and its value as the command line and
/// Python write it.
struct TorchtitanField {
  std::string path, value;
  bool quoted = false;  ///< a text, which Python puts in quotes
};
/// The optimizer.implementation whose moments are in bfloat16, of the main branch.
inline constexpr std::string_view kNarrowMoments = "fused_opt_states_bf16";
/// Whether weights, gradients and the optimizer's state are all in bfloat16: training.dtype.
bool is_all_bfloat16(const FrameworkPlan& plan);
/// All but the modules of each model part, which the command line can't take.
std::vector<TorchtitanField> torchtitan_fields(const FrameworkPlan& plan);

}  // namespace pipesim
