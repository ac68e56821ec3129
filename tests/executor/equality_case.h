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

}  // namespace pipesim
