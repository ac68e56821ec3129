#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/operator_graph.h"

namespace pipesim {

/// What a planner that cuts a model into stages knows of one layer: of one batch, unsplit, on one device.
struct Layer {
  std::string name;
  Seconds forward, backward;
  Bytes output;  ///< activations that it hands on
  Bytes parameters;
};

/// Layers in a topological order, and which of them feed which.
class LayerGraph {
 public:
  using Edge = std::pair<std::int32_t, std::int32_t>;  ///< from, to: numbers of layers, from < to

  LayerGraph(std::vector<Layer> layers, const std::vector<Edge>& edges);

  [[nodiscard]] std::size_t size() const { return layers_.size(); }
  [[nodiscard]] const Layer& operator[](std::int32_t layer) const {
    return layers_[static_cast<std::size_t>(layer)];
  }
  /// Ascending, each once.
  [[nodiscard]] std::span<const std::int32_t> consumers(std::int32_t layer) const {
    return consumers_[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] std::span<const std::int32_t> inputs(std::int32_t layer) const {
    return inputs_[static_cast<std::size_t>(layer)];
  }

 private:
  std::vector<Layer> layers_;
  std::vector<std::vector<std::int32_t>> consumers_, inputs_;
};

/// One layer for each operator, as long as a device of the topology takes. A weight counts where it is used
/// first. Profiled operators have the bytes that were measured, to the nearest one.
LayerGraph layers_of(const OperatorGraph& graph, const CostModel& costs, DeviceId device);

/// Layers that must not be parted by stages under the schedule: those that use the same weight, where each
/// stage has versions of its own. By weight, ascending; nothing under other schedules. Layers have operators'
/// names.
std::vector<std::vector<std::int32_t>> inseparable_layers(const OperatorGraph& graph,
                                                          const LayerGraph& layers,
                                                          const std::string& schedule);

/// Without layers that PipeDream's optimizer leaves out of a profile: those that nobody feeds and whose
/// description begins with "Input", and those that feed nobody and whose description begins with
/// "__getitem__" (Narayanan et al., SOSP 2019; its published code). A layer's description is its name behind
/// the first blank.
LayerGraph without_inputs(const LayerGraph& graph);
/// How many of a model's first operators are inputs that this leaves out.
std::int32_t leading_inputs(const OperatorGraph& graph);

/// By operator, from what is known of each layer (its number, or its stage). Layers have operators' names.
/// What the planner left out joins the first that it feeds, or what feeds it where it feeds nobody.
std::vector<std::int32_t> of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                       const std::vector<std::int32_t>& of_layer);

}  // namespace pipesim
