#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// A place where a pipeline may be cut: some layers lie before it, with all that feed them.
struct Cut {
  std::vector<bool> before;   ///< per layer
  Seconds time;               ///< forward and backward of the layers before it
  Bytes outputs, parameters;  ///< of the layers before it
  Bytes crossing;             ///< outputs that layers behind it, or nobody, read
  Bytes augmented;  ///< what PipeDream takes for it: each last layer before the cut counts all that is
                    ///< read by others than what feeds it
  std::vector<std::int32_t> inner;  ///< cuts that lie before this one, ascending
};

/// All cuts, in an order in which inner ones come first; the last has every layer before it. Nothing when
/// there are more than `most`.
///
/// They are the states of PipeDream's optimizer (Narayanan et al., SOSP 2019, section 3.1, as its published
/// code builds them): antichains, beginning with the first layer that nobody feeds. With one such layer these
/// are all sets of layers that contain it and are closed under who feeds whom; with several, some of them.
/// InputError when not all layers are connected with the first.
std::optional<std::vector<Cut>> cuts_of(const LayerGraph& graph, std::size_t most);

/// Only the cuts of one order of the layers, that of the graph: as many as layers.
std::vector<Cut> cuts_of_order(const LayerGraph& graph);

/// The cuts behind these sets of layers, each closed under who feeds whom and given by layer, in an order in
/// which inner ones come first; each once.
std::vector<Cut> cuts_behind(const LayerGraph& graph, std::vector<std::vector<bool>> sets);

/// Those that part no layers of one of the lists: each lies before a cut, or behind it, as a whole.
std::vector<Cut> cuts_around(const std::vector<Cut>& cuts,
                             const std::vector<std::vector<std::int32_t>>& together);

}  // namespace pipesim
