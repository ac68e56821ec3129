#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// A place where a pipeline may be cut. A set of layers, together with all that feed them, lies before it.
struct Cut {
  std::vector<bool> before;   ///< per layer
  Seconds time;               ///< forward and backward of the layers before it
  Bytes outputs, parameters;  ///< of the layers before it
  Bytes crossing;             ///< outputs that layers behind it, or nobody, read
  /// What PipeDream takes for `crossing`: the outputs of each last layer before the cut, and of those layers
  /// that feed it and also a layer that does not feed it.
  Bytes augmented;
  std::vector<std::int32_t> inner;  ///< cuts that lie before this one, ascending
};

/// All cuts, in an order in which inner ones come first; the last has every layer before it. Nothing when
/// there are more than `most`.
/// These are the states of PipeDream's optimizer (Narayanan et al., SOSP 2019, section 3.1, as its published
/// code builds them): antichains, beginning with the first layer without inputs. With a single such layer
/// they are all sets of layers that contain it and, with each layer, every layer that feeds it; with several,
/// only some of these sets. InputError when some layer is not connected with the first.
std::optional<std::vector<Cut>> cuts_of(const LayerGraph& graph, std::size_t most);

/// Only the cuts along the graph's order of layers: as many as layers.
std::vector<Cut> cuts_of_order(const LayerGraph& graph);

/// The cuts behind these sets of layers, in an order in which inner ones come first, each once. A set is
/// given by layer and contains, with each layer, every layer that feeds it.
std::vector<Cut> cuts_behind(const LayerGraph& graph, std::vector<std::vector<bool>> sets);

/// The cuts that separate no layers of any list: each list lies completely before the cut, or completely
/// behind it.
std::vector<Cut> cuts_around(const std::vector<Cut>& cuts,
                             const std::vector<std::vector<std::int32_t>>& together);

}  // namespace pipesim
