#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipes/recipe.h"
#include "tools/frameworks/megatron/megatron_file.h"

namespace pipesim {

/// A run of Megatron-LM as pipesim expresses it.
struct MegatronRun {
  std::string model;         ///< text of open_model(), without its batch
  Recipe recipe;             ///< complete
  std::int64_t samples = 0;  ///< of an iteration
  Optimizer optimizer = Optimizer::Adam;
  DataType gradient_type = DataType::Float32;
  std::vector<std::string> left_out;  ///< "--tp-comm-overlap: products and …": what is taken otherwise
};

/// Reads model, parallelism and batch. Each argument is read, or is known to change neither time nor memory,
/// or is told in `left_out`, as are those that no version of Megatron-LM has. `devices`: of the run.
/// InputError when something is missing, contradicts itself, or pipesim can't express it.
MegatronRun megatron_run(const MegatronFile& file, std::int64_t devices);

/// Devices that the file's call of torchrun or deepspeed starts; nothing where it has none with plain
/// numbers.
std::optional<std::int64_t> devices_of_launch(const MegatronFile& file);

}  // namespace pipesim
