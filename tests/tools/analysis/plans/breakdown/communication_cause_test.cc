#include "tools/analysis/plans/breakdown/communication_cause.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "models/zoo/zoo.h"
#include "search/baselines/placement.h"
#include "tests/search/recipes/random_recipe.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"
#include "tools/analysis/plans/task_names.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using CauseNames = std::set<std::string>;

// Causes of the communication of each kind in all tasks of a strategy.
std::map<TaskKind, CauseNames> causes_by_kind(const OperatorGraph& graph, const Topology& topology,
                                              const Strategy& strategy, const PlanOptions& options) {
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, options);
  const BoundStrategy bound = evaluator.contents().bind(strategy);
  const Evaluated evaluated = evaluator.evaluate(bound, {.extent = Extent::All, .part = Labels::Make});
  const SimulatedPart& part = *evaluated.part;
  const auto causes =
      causes_of_tasks(part, bound, groups_of_tasks(part, bound, GroupMembers::Real), ModelAxes(graph));
  std::map<TaskKind, CauseNames> found;
  for (std::size_t t = 0; t < causes.size(); ++t) {
    const TaskKind kind = part.labels()[t].kind;
    if (is_communication(kind)) found[kind].emplace(name_of(causes[t]));
  }
  return found;
}

std::map<TaskKind, CauseNames> causes_of_recipe(const OperatorGraph& graph, const Topology& topology,
                                                const char* text) {
  const RecipeModel model(graph);
  const RecipeStrategy made = expand_recipe(parse_recipe(text), model, topology);
  PlanOptions options;
  options.microbatches = 2;
  made.apply_to(options);
  return causes_by_kind(graph, topology, made.strategy, options);
}

TEST(CommunicationCause, IsThatOfTheOnlyPartOfARecipe) {
  const auto graph = [](int batch) {
    return make_zoo_model("llama:layers=4,hidden=64,heads=4,kv_heads=4,vocab=48,sequence=16,ffn=32,batch=" +
                          std::to_string(batch));
  };
  const Topology topology = make_topology("p100-4x4:1");
  auto causes = causes_of_recipe(graph(1), topology, "tp4,dp1,mbs1");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("tensor"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("tensor"));
  EXPECT_THAT(causes[TaskKind::InnerReduce], ElementsAre("tensor"));
  causes = causes_of_recipe(graph(1), topology, "tp4,dp1,sp,mbs1");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("sequence"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("sequence"));
  EXPECT_THAT(causes[TaskKind::InnerReduce], ElementsAre("tensor"));
  EXPECT_THAT(causes[TaskKind::GradientSync], ElementsAre("data"));
  causes = causes_of_recipe(graph(1), topology, "cp4,dp1,mbs1");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("context"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("context"));
  causes = causes_of_recipe(graph(4), topology, "dp4,mbs1");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], IsEmpty());
  EXPECT_THAT(causes[TaskKind::GradientSync], ElementsAre("data"));
  causes = causes_of_recipe(graph(1), topology, "pp4,dp1,mbs1");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("pipeline"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("pipeline"));
  causes = causes_of_recipe(graph(1), topology, "tp2,cp2,dp1,sp,mbs1,recompute=full");
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], UnorderedElementsAre("sequence", "context"));
  EXPECT_THAT(causes[TaskKind::RecomputeTransfer], UnorderedElementsAre("sequence", "context"));
}

// Tokens are split by samples, experts by number; no recipe is needed.
TEST(CommunicationCause, OfTokensThatGoToExperts) {
  const OperatorGraph graph =
      make_zoo_model("mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24");
  const Topology topology = make_topology("p100-4x4:1");
  const ModelAxes axes(graph);
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < 4; ++d) devices.emplace_back(d);
  Strategy strategy;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    const bool of_experts = op.kind == "expert_linear" || op.name == "layer1.gated";
    const FactorSplit split = of_experts
                                  ? FactorSplit{axes.factors(OperatorId(i), AxisRole::Experts).front(), 4}
                                  : sample_split(op, 4);
    strategy.push_back(arranged(op, std::span(&split, 1), devices));
  }
  auto causes = causes_by_kind(graph, topology, strategy, {});
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("expert"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("expert"));
  EXPECT_THAT(causes[TaskKind::GradientSync], ElementsAre("data"));
}

TEST(CommunicationCause, WithoutStagesIsPipelineBetweenOperatorsOnOtherDevices) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("p100-4x4:1");
  Strategy strategy;
  for (std::size_t i = 0; i < graph.operators().size(); ++i)
    strategy.push_back(single_device(graph.operators()[i], DeviceId(i / 2)));
  auto causes = causes_by_kind(graph, topology, strategy, {});
  EXPECT_THAT(causes[TaskKind::ForwardTransfer], ElementsAre("pipeline"));
  EXPECT_THAT(causes[TaskKind::BackwardTransfer], ElementsAre("pipeline"));
}

// Coordinates of the devices in the recipe's mesh (RecipeMesh), calculated from its degrees and order alone.
class MeshOracle {
 public:
  explicit MeshOracle(const Recipe& recipe) : recipe_(recipe) {}

  // Axes along which devices of a group differ.
  [[nodiscard]] std::set<MeshAxis> differing(std::span<const DeviceId> group) const {
    std::set<MeshAxis> axes;
    std::int64_t stride = 1;
    for (const MeshAxis axis : recipe_.order) {
      const std::int64_t degree = degree_of(axis);
      for (const DeviceId d : group) {
        if (d.value / stride % degree != group.front().value / stride % degree) axes.insert(axis);
      }
      stride *= degree;
    }
    return axes;
  }

 private:
  [[nodiscard]] std::int64_t degree_of(MeshAxis axis) const {
    if (axis == MeshAxis::Tensor) return recipe_.tensor;
    if (axis == MeshAxis::Context) return recipe_.context;
    if (axis == MeshAxis::Data) return recipe_.data;
    return axis == MeshAxis::Pipeline ? recipe_.pipeline : 1;
  }
  const Recipe& recipe_;
};

// How many parts of the sequence the operator has.
std::int64_t sequence_parts(OperatorId op, const Strategy& strategy, const ModelAxes& axes) {
  std::int64_t parts = 1;
  for (const FactorIndex f : axes.factors(op, AxisRole::Sequence))
    parts *= strategy[op.index()].degrees[static_cast<std::size_t>(f)];
  return parts;
}

// What goes from one context part to another is of context parallelism, also where sequence parallelism
// divides anew at once, as with tp more distant than cp.
CommunicationCause expected(const Wiring& wiring, const Strategy& strategy, const Recipe& recipe,
                            const ModelAxes& axes) {
  if (wiring.kind == TaskKind::WeightGather) return CommunicationCause::Sharding;
  if (wiring.kind == TaskKind::GradientSync) return CommunicationCause::Data;
  const MeshOracle mesh(recipe);
  std::set<MeshAxis> differing;
  for (const CommunicationTask& task : wiring.plan->tasks) differing.merge(mesh.differing(task.group));
  if (differing.contains(MeshAxis::Pipeline)) return CommunicationCause::Pipeline;
  EXPECT_FALSE(differing.contains(MeshAxis::Data));
  if (differing.contains(MeshAxis::Context)) return CommunicationCause::Context;
  const bool redistributed = sequence_parts(wiring.sources.front().op, strategy, axes) !=
                             sequence_parts(wiring.destinations.front().op, strategy, axes);
  return redistributed ? CommunicationCause::Sequence : CommunicationCause::Tensor;
}

TEST(CommunicationCause, IsTheAxisOfTheMeshAlongWhichDevicesDiffer) {
  const OperatorGraph graph =
      make_zoo_model("llama:layers=4,hidden=64,heads=8,kv_heads=4,vocab=96,sequence=32,ffn=64,batch=8");
  const Topology topology = make_topology("dgx-h100:2");
  const CostModel costs(topology);
  const RecipeModel model(graph);
  ByCause<int> met{};
  for_each_seed(180, [&](Rng& rng) {
    const Recipe recipe = random_recipe(model, 16, rng);
    SCOPED_TRACE(recipe.str());
    const RecipeStrategy made = expand_recipe(recipe, model, topology);
    PlanOptions options;
    options.microbatches = 2;
    made.apply_to(options);
    Evaluator evaluator(graph, costs, options);
    const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
    const Evaluated found = evaluator.evaluate(strategy, {.extent = Extent::All, .part = Labels::Leave});
    const ContextParts contexts(evaluator.contents(), strategy, model.axes());
    for (const Wiring& wiring : found.part->expanded().wirings()) {
      if (wiring.plan->tasks.empty()) continue;
      const CommunicationCause cause =
          cause_of(wiring, *wiring.plan, strategy, options.pipeline, model.axes(), contexts);
      ++met[static_cast<std::size_t>(cause)];
      EXPECT_EQ(name_of(cause), name_of(expected(wiring, made.strategy, recipe, model.axes())))
          << graph.tensor(wiring.tensor).name << " " << name_of(wiring.kind);
    }
  });
  for (const CommunicationCause cause :
       {CommunicationCause::Tensor, CommunicationCause::Sequence, CommunicationCause::Context,
        CommunicationCause::Pipeline, CommunicationCause::Sharding})
    EXPECT_GT(met[static_cast<std::size_t>(cause)], 20) << name_of(cause);
}

// Causes for which the recipe has a degree above 1; gradients are added up in all.
CauseNames possible_causes(const Recipe& recipe) {
  CauseNames causes{"data"};
  const std::int64_t expert_tensor = recipe.expert_tensor_degree();
  if (recipe.tensor > 1 || expert_tensor > 1) causes.emplace("tensor");
  if (recipe.tensor > 1 && recipe.sequence_parallel) causes.emplace("sequence");
  if (recipe.context > 1) causes.emplace("context");
  if (recipe.expert > 1) causes.emplace("expert");
  if (recipe.pipeline > 1) causes.emplace("pipeline");
  if (recipe.state_sharding.any()) causes.emplace("sharding");
  return causes;
}

void expect_possible_causes(const std::string& name) {
  const OperatorGraph graph = make_zoo_model(name);
  const Topology topology = make_topology("dgx-h100:2");
  const RecipeModel model(graph);
  CauseNames met;
  for_each_seed(120, [&](Rng& rng) {
    const Recipe recipe = random_recipe(model, 16, rng);
    SCOPED_TRACE(recipe.str());
    const CauseNames possible = possible_causes(recipe);
    for (const auto& [kind, causes] : causes_of_recipe(graph, topology, recipe.str().c_str())) {
      for (const std::string& cause : causes) {
        EXPECT_THAT(possible, Contains(cause)) << name_of(kind);
        met.insert(cause);
      }
    }
  });
  const bool experts = model.axes().has(AxisRole::Experts);
  EXPECT_EQ(met.size(), experts ? kCommunicationCauses : kCommunicationCauses - 1);
}

SLOW_TEST(CommunicationCause, IsOfWhatTheRecipeDivides) {
  expect_possible_causes("llama:layers=4,hidden=64,heads=8,kv_heads=4,vocab=96,sequence=32,ffn=64,batch=8");
  for (const char* groups : {"1", "4", "16"}) {
    expect_possible_causes(
        "mixtral-8x7b:batch=8,layers=2,hidden=32,heads=8,kv_heads=4,vocab=96,sequence=32,ffn=64,"
        "token_groups=" +
        std::string(groups));
  }
}

TEST(CommunicationCause, OfAStatisticIsWhatItsGroupDivides) {
  const OperatorGraph graph = make_zoo_model("resnet50:batch=8,image=64");
  const ModelAxes axes(graph);
  const Topology topology = make_topology("p100-4x4:1");
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (op.kind != "batch_norm") continue;
    Strategy strategy;
    for (const Operator& other : graph.operators()) strategy.push_back(single_device(other, DeviceId(0)));
    const std::vector<DeviceId> both{DeviceId(0), DeviceId(1)};
    for (const auto& [factor, cause] :
         {std::pair{"n", CommunicationCause::Data}, std::pair{"h", CommunicationCause::Tensor}}) {
      const FactorSplit split{op.factor(factor), 2};
      strategy[i] = arranged(op, std::span(&split, 1), both);
      const CostModel costs(topology);
      const PlanContents contents(graph, costs, {});
      const BoundStrategy bound = contents.bind(strategy);
      const ContextParts contexts(contents, bound, axes);
      EXPECT_EQ(cause_of_statistic(OperatorId(i), both, bound, axes, contexts), cause) << factor;
    }
    return;
  }
  FAIL() << "no batch norm";
}

}  // namespace
}  // namespace pipesim
