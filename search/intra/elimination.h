#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "search/intra/core.h"

namespace pipesim {

/// The cheapest choice for a core without rows, by eliminating the nodes one after the other, the one with
/// the smallest table first (Bertelè and Brioschi 1972). None where a table would need more than
/// `largest_table` entries.
std::optional<std::vector<std::uint32_t>> eliminate(const IntraCore& core, std::size_t largest_table);

}  // namespace pipesim
