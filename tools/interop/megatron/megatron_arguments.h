#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// The minor number of Megatron core with which --pipeline-model-parallel-layout came.
inline constexpr int kMegatronLayout = 13;

/// Whether the recipe's pipeline runs microbatches in groups.
bool in_megatron_groups(const Recipe& recipe);
/// Whether forward of one microbatch runs beside backward of another (--overlap-moe-expert-parallel-comm).
bool runs_megatron_beside(const Recipe& recipe);
/// The first core that has it.
inline constexpr int kMegatronBeside = 14;
/// The first core that chooses among backends of its flexible dispatcher; before, DeepEP is the only one.
inline constexpr int kMegatronBackends = 16;
/// Whether gradients are sharded, which Megatron's FSDP does.
bool shards_megatron_gradients(const Recipe& recipe);
/// Returns the layers of each rank for core 0.12, which needs equally many in all stages of a rank, and in
/// all ranks between the first and the last. Nothing otherwise.
std::optional<std::vector<std::int64_t>> layers_of_megatron_ranks(const FrameworkPlan& plan);

/// An argument of Megatron-LM and its values.
struct MegatronArgument {
  std::string flag;  ///< "--num-layers"
  std::vector<std::string> values;
};
/// Arguments of the model, its parallelism and its batch; not of data, learning rates and checkpoints.
std::vector<MegatronArgument> megatron_arguments(const FrameworkPlan& plan);

}  // namespace pipesim
