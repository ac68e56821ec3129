#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

/// Returns the layers of each stage in a layout of Megatron-LM such as "E|(t|)*3,m|m||L"; nothing where it is
/// none, or its embedding and loss are not its ends. `predicts_more`: it may have layers m that predict
/// further tokens, which do not count.
std::optional<std::vector<std::int64_t>> stages_of_megatron_layout(const std::string& layout,
                                                                   bool predicts_more);

}  // namespace pipesim
