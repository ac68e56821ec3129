#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "models/zoo/zoo.h"
#include "tests/executor/unsplit_reference.h"
#include "topologies/presets/presets.h"

namespace pipesim {

// A model, and eight devices that its plans run on.
struct EqualityCase {
  explicit EqualityCase(OperatorGraph model) : graph(std::move(model)) {}
  explicit EqualityCase(const std::string& model) : EqualityCase(make_zoo_model(model)) {}
  [[nodiscard]] Reference reference(const PlanOptions& options = {}) const {
    return {graph, costs, world, source, options};
  }

  OperatorGraph graph;
  Topology topology = make_topology("p100-4x4:2");
  CostModel costs{topology};
  ThreadWorld world{most_devices};
  SyntheticSource source{graph};
};

// A model at a reduced size, and how many random plans it is run under.
struct EqualModel {
  const char* model;
  std::uint64_t plans;
};

/// Synthetic rows of tables are so small that functions are almost linear on them, and gradients cancel.
class LargerRows : public TensorSource {
 public:
  explicit LargerRows(const OperatorGraph& graph) : graph_(graph), rest_(graph) {}
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    rest_.fill(content, tensor, piece, step);
    if (content != Loaded::Content::Weight || !graph_.tensor(tensor).name.ends_with(".rows.w")) return;
    for (int doubled = 0; doubled < 5; ++doubled) move_region(piece, piece, piece.box, true);
  }

 private:
  const OperatorGraph& graph_;
  SyntheticSource rest_;
};

}  // namespace pipesim
