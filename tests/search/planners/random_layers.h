#pragma once

#include <string>
#include <vector>

#include "search/pipelines/layer_graph.h"
#include "sim/base/rng.h"

namespace pipesim {

/// Any layer may feed any later one; all but the first are fed by some, so the first is the only source.
inline LayerGraph random_layers(Rng& rng, std::int32_t size, std::uint64_t one_of) {
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 0; i < size; ++i) {
    layers.push_back({"layer" + std::to_string(i), Seconds(static_cast<double>(rng.between(1, 40)) * 1e-3),
                      Seconds(static_cast<double>(rng.between(0, 80)) * 1e-3),
                      Bytes(rng.between(0, 50'000'000)), Bytes(rng.between(0, 90'000'000))});
    if (i > 0) edges.emplace_back(static_cast<std::int32_t>(rng.between(0, i - 1)), i);
    for (std::int32_t j = 0; j < i; ++j) {
      if (rng.below(one_of) == 0) edges.emplace_back(j, i);
    }
  }
  return {std::move(layers), edges};
}

inline LayerGraph random_chain(Rng& rng, std::int32_t size) {
  const LayerGraph any = random_layers(rng, size, 2);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 0; i < size; ++i) {
    layers.push_back(any[i]);
    if (i > 0) edges.emplace_back(i - 1, i);
  }
  return {std::move(layers), edges};
}

}  // namespace pipesim
