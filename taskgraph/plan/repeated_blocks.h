#pragma once

#include <cstdint>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// The layers of a transformer, found from its structure alone. A block begins where the fewest tensors pass
/// on to what follows, as late as possible before its attention or scan: the residual stream. Blocks are
/// layers when they repeat: the same operators, attributes, shapes and wiring. Two blocks or more that only
/// repeat together, such as self-attention and cross-attention of a decoder, are one layer, unless each is a
/// layer of its own, with a feed-forward part or a scan. A block that does not repeat is a layer if another
/// block follows. By operator, the number of its layer from 0, or −1 for what stands between layers; all are
/// −1 where nothing repeats. The effort is about linear in the operators.
std::vector<std::int32_t> repeated_blocks(const OperatorGraph& graph);

}  // namespace pipesim
