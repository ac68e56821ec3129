#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/operator_graph.h"

namespace pipesim {

/// The facts about a layer that a pipeline planner uses: for one batch, unsplit, on one device.
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

/// One layer for each operator, with the times of a device of the topology. A weight counts for the layer
/// that uses it first. Profiled operators have the bytes that were measured, to the nearest one.
LayerGraph layers_of(const OperatorGraph& graph, const CostModel& costs, DeviceId device);

/// Lists of layers that stages must not separate under the schedule: those that use the same weight, if each
/// stage has its own versions of it. By weight, ascending; empty under other schedules. Layers have
/// operators' names.
std::vector<std::vector<std::int32_t>> inseparable_layers(const OperatorGraph& graph,
                                                          const LayerGraph& layers,
                                                          const std::string& schedule);

/// Removes the layers that PipeDream's optimizer leaves out of a profile (Narayanan et al., SOSP 2019; its
/// published code): layers without inputs whose description begins with "Input", and layers without consumers
/// whose description begins with "__getitem__". A layer's description is the part of its name after the first
/// blank.
LayerGraph without_inputs(const LayerGraph& graph);
/// The number of a model's first operators that are inputs and are removed by it.
std::int32_t leading_inputs(const OperatorGraph& graph);

/// Converts a value per layer (its number, or its stage) to a value per operator. Layers have operators'
/// names. An operator that the planner left out gets the value of the first operator that it feeds or, if it
/// feeds none, of the one that feeds it.
std::vector<std::int32_t> of_operators(const OperatorGraph& graph, const LayerGraph& layers,
                                       const std::vector<std::int32_t>& of_layer);

}  // namespace pipesim
