#include "search/recipe_planner/measuring/part_on_mesh.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "taskgraph/binding/product_overlap.h"

namespace pipesim {

PartOnMesh::PartOnMesh(const ModelPart& part, const ModelParts& parts, MeshTables& tables, Bound bound)
    : part_(part), parts_(parts), tables_(tables), graph_(tables.graph()) {
  std::vector<OperatorId> ops;
  if (bound == Bound::All) {
    ops = part.operators;
    if (part.entry) ops.push_back(graph_.tensor(*part.entry).producer);
  } else {
    std::ranges::copy_if(part.operators, std::back_inserter(ops), [&](OperatorId op) {
      return std::ranges::any_of(graph_.op(op).uses,
                                 [](const TensorUse& u) { return u.role == Role::Weight; });
    });
  }
  tables.bind(ops);
}

bool PartOnMesh::is_inside(OperatorId op) const {
  return std::binary_search(part_.operators.begin(), part_.operators.end(), op);
}

const CommunicationPlan& PartOnMesh::forward_plan(UseRef use) const {
  const TensorId tensor = tensor_of(use);
  const UseRef maker = tables_.backward().producing_use(tensor);
  const LayoutIds source{data_layout(maker, tables_.strategy())};
  return tables_.plan(tensor, Moved::Data, source, data_layout(use, tables_.strategy()));
}

bool PartOnMesh::gathers_again() const { return tables_.mesh().gathered_inputs() == GatheredInputs::Again; }

double PartOnMesh::least_share(const CommunicationPlan& plan) const {
  if (!tables_.runtime().tensor_overlap) return 1;
  const auto parted = parted_transfer(plan, tables_.topology());
  return parted ? 1.0 / parted->parts : 1;
}

// Sums are as large as their addends.
bool PartOnMesh::is_gathered(UseRef use, const CommunicationPlan& plan) const {
  const UseRef maker = tables_.backward().producing_use(tensor_of(use));
  const Layout& held = tables_.layouts()[data_layout(maker, tables_.strategy())];
  const Layout& got = tables_.layouts()[plan.target];
  return held.num_addends() == 1 && std::ranges::all_of(got.entries(), [&](const LayoutEntry& e) {
           const std::int64_t before = held.elements_on(e.device);
           return before > 0 && before < got.elements_on(e.device);
         });
}

const CommunicationPlan& PartOnMesh::gradient_plan(TensorId tensor) const {
  const UseRef maker = tables_.backward().producing_use(tensor);
  return tables_.plan(tensor, Moved::Gradient, gradient_terms(tensor),
                      gradient_layout(maker, tables_.strategy()));
}

std::vector<DeviceId> PartOnMesh::devices_that_give_and_take(const CommunicationPlan& plan,
                                                             std::int32_t term) {
  std::vector<DeviceId> through = plan.local;
  std::vector<std::pair<std::int32_t, DeviceId>> given;
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    if (c.term < 0 || c.term == term) given.emplace_back(c.task, c.device);
  }
  std::ranges::sort(given);
  for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) {
    if (std::ranges::binary_search(given, std::pair(a.task, a.device))) through.push_back(a.device);
  }
  return through;
}

bool PartOnMesh::has_whole_gradient(TensorId tensor) const {
  if (!tables_.backward().has_backward(tensor)) return false;
  const std::span<const UseRef> makers = tables_.backward().gradient_makers(tensor);
  return !makers.empty() && std::ranges::all_of(makers, [&](UseRef maker) { return is_inside(maker.op); });
}

LayoutIds PartOnMesh::gradient_terms(TensorId tensor) const {
  LayoutIds terms;
  for (const UseRef maker : tables_.backward().gradient_makers(tensor))
    add_distinct(terms, gradient_layout(maker, tables_.strategy()));
  return terms;
}

PartOnMesh::ReaderLayouts PartOnMesh::reader_layouts(TensorId weight) const {
  ReaderLayouts readers;
  for (const UseRef use : graph_.consumers(weight)) {
    if (is_inside(use.op)) {
      add_distinct(readers.layouts, data_layout(use, tables_.strategy()));
    } else {
      readers.alone = false;
    }
  }
  return readers;
}

}  // namespace pipesim
