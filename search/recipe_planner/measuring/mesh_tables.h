#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/recipes/expand_recipe.h"
#include "taskgraph/binding/backward_uses.h"
#include "taskgraph/binding/bound_operators.h"
#include "taskgraph/moving/communication_plan_table.h"

namespace pipesim {

/// A transfer with pieces of this size is not cut.
inline constexpr Bytes kWholePiece{INT64_MAX / 2};

/// The bound operators of a mesh on one group of devices; layouts and plans of all meshes.
class MeshTables {
 public:
  MeshTables(const RecipeModel& model, const CostModel& costs, PlanOptions options)
      : model_(model),
        graph_(model.graph()),
        costs_(costs),
        options_(std::move(options)),
        loads_(graph_, options_.imbalance),
        prices_([&costs] { return CommunicationPrices(costs); }),
        operators_(graph_, layouts_, prices_, loads_, options_.gradient_type),
        plans_(layouts_, prices_),
        backward_(graph_, true),
        bound_(graph_.operators().size(), nullptr) {}

  void begin(const Recipe& mesh, std::int64_t group) {
    constexpr Bytes kMostOfTables(300'000'000);
    if (bytes() > kMostOfTables) forget();
    mesh_ = &mesh;
    go_to(group);
  }
  /// Another group of the same mesh. Layouts and plans stay.
  void go_to(std::int64_t group) {
    group_ = group;
    std::ranges::fill(bound_, nullptr);
  }

  [[nodiscard]] const Recipe& mesh() const { return *mesh_; }

  [[nodiscard]] Bytes bytes() const {
    Bytes all = plans_.bytes() + layouts_.bytes() + operators_.bytes();
    for (const CommunicationPrices& prices : prices_) all += prices.bytes();
    return all;
  }
  void forget() {
    prices_.clear();
    operators_.clear();
    plans_.clear();
    layouts_.clear();
  }

  void bind(const std::vector<OperatorId>& ops) {
    std::vector<OperatorId> open;
    for (const OperatorId op : ops) {
      if (bound_[op.index()] == nullptr) open.push_back(op);
    }
    const auto configs = configs_on_group(*mesh_, model_, costs_.topology(), open, group_);
    for (std::size_t i = 0; i < open.size(); ++i)
      bound_[open[i].index()] = operators_.bind(open[i], configs[i]);
  }

  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const PlanOptions& options() const { return options_; }
  [[nodiscard]] const Runtime& runtime() const { return costs_.runtime(); }
  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }
  [[nodiscard]] const BackwardUses& backward() const { return backward_; }
  [[nodiscard]] const BoundOperator& operator[](OperatorId op) const { return *bound_[op.index()]; }
  [[nodiscard]] const LayoutTable& layouts() const { return layouts_; }
  [[nodiscard]] const BoundStrategy& strategy() const { return bound_; }
  [[nodiscard]] const CommunicationPlan& plan(TensorId tensor, Moved moved, const LayoutIds& terms,
                                              LayoutId target) {
    return plans_.between(terms, target,
                          setting_of(graph_, tensor, moved, kWholePiece, runtime().dispatcher));
  }
  [[nodiscard]] CommunicationPlans& plans() { return plans_; }
  /// Returns how long a plan holds lanes, without keeping the plan.
  [[nodiscard]] std::vector<LaneUse> loads(const LayoutIds& terms, LayoutId target, DataType type,
                                           Bytes largest_piece, GatherBy gathers = GatherBy::AllGather,
                                           const CollectiveVisit& visit = {}) {
    return lane_loads(terms, target, bytes_per_element(type), largest_piece, layouts_, prices_.local(),
                      gathers, visit);
  }

 private:
  const RecipeModel& model_;
  const OperatorGraph& graph_;
  const CostModel& costs_;
  PlanOptions options_;
  LayoutTable layouts_;
  ExpertLoads loads_;
  CommunicationPricesByThread prices_;
  BoundOperators operators_;
  CommunicationPlans plans_;
  BackwardUses backward_;
  const Recipe* mesh_ = nullptr;  // now
  std::int64_t group_ = 0;
  BoundStrategy bound_;  // null where an operator is not looked at
};

}  // namespace pipesim
