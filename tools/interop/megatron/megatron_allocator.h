#pragma once

#include <string>
#include <vector>

#include "tools/interop/megatron/megatron_file.h"

namespace pipesim {

/// Whether a script tells PyTorch's allocator to make expandable segments, by PYTORCH_ALLOC_CONF or its older
/// name PYTORCH_CUDA_ALLOC_CONF; where both are set, the newer one counts. Other settings of the allocator go
/// to `left_out`.
bool asks_for_expandable_segments(const MegatronFile& file, std::vector<std::string>& left_out);

}  // namespace pipesim
