// Bounds of recipes against their simulation.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipe_planner/measuring/distinct_groups.h"
#include "search/recipe_planner/recipe_bounds.h"
#include "search/recipes/expand_recipe.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct BoundCase {
  std::string model, topology;
  std::int64_t samples;
};

const std::vector<BoundCase>& bound_cases() {
  static const std::vector<BoundCase> cases{
      {"llama3-8b:layers=6,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=256,ffn=1024", "dgx-a100:2", 16},
      {"llama3-8b:layers=4,hidden=64,heads=8,kv_heads=4,vocab=64,sequence=32,ffn=128", "pcie-v100-4", 24},
      {"llama3-8b:layers=8,hidden=4096,heads=32,kv_heads=8,vocab=32000,sequence=2048,ffn=14336", "dgx-h100:2",
       32},
      {"mixtral-8x7b:layers=4,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024", "dgx-a100:2",
       16},
      {"llama3-8b:layers=6,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=256,ffn=1024,lora=8,base=4bit",
       "dgx-a100:2", 16},
      {"deepseek-v3:layers=4,hidden=256,heads=8,head_width=32,rotary_width=16,value_width=32,query_latent=64,"
       "key_latent=64,ffn=512,expert_ffn=128,dense_layers=1,experts=8,top_k=2,vocab=512,sequence=128,"
       "further_tokens=1",
       "dgx-a100:2", 16},
      {"gpt2:layers=5,hidden=128,heads=4,vocab=512,sequence=64", "p100-4x4", 16},
      {"llama3-8b:layers=5,hidden=256,heads=8,kv_heads=2,vocab=512,sequence=64,ffn=512,attention=scores,"
       "projection="
       "tied",
       "levels:4@10GB/s,2@1GB/s", 8},
      {"bert-base:layers=4,hidden=128,heads=4,vocab=512,sequence=64", "dgx1-v100", 16}};
  return cases;
}

// These topologies have several kinds of devices: a pipeline's groups differ, and so do copies of the model.
const std::vector<BoundCase>& mixed_cases() {
  static const std::vector<BoundCase> cases{
      {"llama3-8b:layers=10,hidden=2048,heads=16,kv_heads=8,vocab=8192,sequence=1024,ffn=4096",
       "dgx-a100+dgx-h100", 32},
      {"gpt2:layers=8,hidden=512,heads=8,vocab=512,sequence=128", "dgx-h100+pcie-v100-4", 24},
      {"mixtral-8x7b:layers=6,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024",
       "dgx1-v100+dgx-a100", 16}};
  return cases;
}

// The costs measured with the fewest copies of the model are the same as with all copies.
void expect_same(const PartCosts& few, const PartCosts& all, std::int64_t times) {
  const auto figures = [](const PartCosts& part) {
    return std::tuple(part.forward, part.forward_first, part.backward.all, part.backward.first,
                      part.whole_backward.all, part.whole_backward.first, part.busy_forward, part.busy_input,
                      part.busy_weight, part.busy_again, part.host_forward, part.host_input, part.host_weight,
                      part.host_again, part.kept, part.kept_entry, part.kept_for_weights, part.made_again);
  };
  EXPECT_EQ(figures(few), figures(all));
  ASSERT_EQ(few.weights.size(), all.weights.size());
  for (std::size_t w = 0; w < few.weights.size(); ++w) {
    EXPECT_EQ(few.weights[w].elements, all.weights[w].elements);
    EXPECT_DOUBLE_EQ(few.weights[w].mean_elements, all.weights[w].mean_elements);
    EXPECT_GE(few.weights[w].copies * times, all.weights[w].copies);
  }
}
void expect_same(const RecipeMeshCosts& few, const RecipeMeshCosts& all, std::int64_t times) {
  expect_same(few.front, all.front, times);
  expect_same(few.behind, all.behind, times);
  for (std::size_t c = 0; c < all.of_class.size(); ++c) expect_same(few.of_class[c], all.of_class[c], times);
}

MeshCosts costs_of_classes(MeshMeter& meter, const Recipe& mesh, const Topology& topology) {
  const StageGroups groups{distinct_groups(mesh.pipeline, topology), false,
                           classes_by_kinds(mesh.pipeline, topology)};
  MeshCosts made{{}, groups.class_of};
  for (const std::vector<std::int64_t>& of_class : groups.distinct_of_class())
    made.of_class.push_back(meter.costs(mesh, of_class));
  return made;
}

// The least of all copies.
std::vector<StageTransfer> stage_transfers(MeshMeter& meter, const FewestCopies& fewest,
                                           std::int64_t groups) {
  std::vector<StageTransfer> least;
  for (std::int64_t copy = 0; copy < fewest.mesh.pipeline && groups > 1; ++copy) {
    const StageTransfer made =
        meter.stage_transfer(fewest.mesh, copy, (copy + fewest.times) % fewest.mesh.pipeline);
    if (copy % fewest.times == 0) least.push_back(made);
    lower(least.back(), made);
  }
  return least;
}

// All kinds of recomputation that sets of recipes may have.
RecipeFilter with_all_recomputes() {
  RecipeRules rules;
  for (const char* text : {"op", "mlp", "moe_act+layernorm+mla_up_proj", "moe+shared_experts"})
    rules.recomputes.push_back(parse_recompute(text));
  return RecipeFilter({}, std::move(rules));
}

// One of the recipes for which the filter's conditions hold, and what it would take.
class SimulatedPick {
 public:
  SimulatedPick(const BoundCase& c, const Runtime& runtime, Rng& rng,
                const RecipeFilter& filter = with_all_recomputes(),
                const Optimizer& optimizer = Optimizer::Adam)
      : case_(c),
        topology_(make_topology(c.topology)),
        costs_(topology_, nullptr, runtime),
        base_(make_zoo_model(c.model)),
        base_model_(base_) {
    const RecipeSpace space(base_model_, topology_, c.samples, filter);
    const auto any = [&](auto list) { return list[rng.below(list.size())]; };
    const Recipe mesh = any(space.meshes());
    PipelineChoice pipeline = any(space.pipelines(mesh));
    const StageDivision division = space.divisions(mesh.pipeline)[pipeline.division];
    StateSharding sharding = any(space.shardings(mesh));
    const Recompute recompute = any(space.recomputes());
    if (!space.has(mesh, pipeline, recompute, sharding)) sharding = {};
    if (sharding.gathers_to_use() && rng.below(2) == 0) sharding.reshard = StateSharding::Reshard::Never;
    sharding.whole_gradients = sharding.gathers_to_use() && rng.below(2) == 0;
    recipe = space.recipe(mesh, pipeline, recompute, sharding);
    communicators = least_communicators(mesh, division);
    microbatches = space.microbatches(mesh);
    graph_.emplace(make_zoo_model(c.model + ",batch=" + std::to_string(recipe.data * recipe.microbatch)));
    const RecipeModel model(*graph_);
    const ModelParts parts(base_model_, space.recomputes());
    options_.optimizer = optimizer;
    if (runtime.bucket > 0) options_.gradient_type = DataType::BFloat16;
    MeshMeter meter(model, parts, costs_, options_);
    const std::vector<std::int64_t> groups = distinct_groups(recipe.pipeline, topology_);
    const FewestCopies fewest = with_fewest_copies(mesh);
    const OperatorGraph small =
        make_zoo_model(c.model + ",batch=" + std::to_string(fewest.mesh.data * recipe.microbatch));
    const RecipeModel small_model(small);
    MeshMeter small_meter(small_model, parts, costs_, options_);
    const MeshCosts made = costs_of_classes(small_meter, fewest.mesh, topology_);
    if (made.class_of.empty()) expect_same(made.of_class.front(), meter.costs(mesh, groups), fewest.times);
    std::optional<MeshTraffic> traffic;
    for (const std::int64_t group :
         pipeline.both_ways ? distinct_pairs(recipe.pipeline, topology_) : groups) {
      const MeshTraffic of_group = on_busiest_lanes(
          small_meter.transfers(fewest.mesh, group * fewest.times),
          meter.weights(mesh, recipe.state_sharding, group, pipeline.both_ways), recipe.state_sharding, parts,
          microbatches, least_gathers(recipe, runtime), reduces_beside_backward(recipe, runtime));
      if (traffic) lower(*traffic, of_group);
      if (!traffic) traffic = of_group;
    }
    traffic->stage_transfers = stage_transfers(small_meter, fewest, recipe.pipeline);
    for (std::int64_t group = 0; group < recipe.pipeline && recipe.pipeline > 1; ++group) {
      const StageTransfer all = meter.stage_transfer(mesh, group, (group + 1) % recipe.pipeline);
      const StageTransfer& few = traffic->stage_transfers[static_cast<std::size_t>(group)];
      EXPECT_EQ(few.forward, all.forward);
      EXPECT_EQ(few.backward, all.backward);
    }
    ScheduleShapes shapes;
    const ScheduleShape& shape =
        shapes.of(recipe.schedule_name(), recipe.pipeline, microbatches, recipe.chunks);
    StepSequences sequences;
    for (const CopyCosts& copy : made.copies(fewest.times)) {
      const DividedCosts divided(copy, parts, division, recipe.pipeline, recipe.recompute,
                                 pipeline.both_ways);
      const Nanoseconds by_steps =
          recipe.pipeline == 1 ? 0
                               : divided.time_of_steps(sequences.of(recipe.schedule_name(), recipe.pipeline,
                                                                    microbatches, recipe.chunks),
                                                       *traffic, recipe.gradient_reduction());
      bound.time =
          std::max({bound.time, divided.time(shape, microbatches), divided.time(*traffic, shape), by_steps});
      bound.memory =
          std::max(bound.memory,
                   divided.memory(shape, permanent_bytes(made.of_class.front(), recipe.ways() * fewest.times,
                                                         recipe.state_sharding, options_.gradient_type,
                                                         options_.optimizer)));
      EXPECT_LE(least_time(copy, parts, recipe.pipeline, microbatches), divided.time(shape, microbatches));
    }
  }

  [[nodiscard]] RecipeBound simulated() {
    const RecipeModel model(*graph_);
    const RecipeStrategy made = expand_recipe(recipe, model, topology_);
    made.apply_to(options_);
    options_.microbatches = static_cast<std::int32_t>(microbatches);
    EXPECT_EQ(illegal(*graph_, made.strategy, options_, topology_), std::nullopt);
    Evaluator evaluator(*graph_, costs_, options_);
    const Evaluated found = evaluator.evaluate(made.strategy, {.peaks = true});
    Bytes most;
    for (const DeviceMemory& peak : found.peaks) {
      most = std::max(most, peak.peak);
      EXPECT_GE(peak.communicators, communicators) << recipe.str();
    }
    return {found.cost->time, most};
  }

  Recipe recipe;
  std::int64_t microbatches = 0;
  RecipeBound bound;
  std::int32_t communicators = 0;  // of every device, at least

 private:
  const BoundCase& case_;
  Topology topology_;
  CostModel costs_;
  OperatorGraph base_;
  RecipeModel base_model_;
  std::optional<OperatorGraph> graph_;
  PlanOptions options_;
};

struct Shares {
  double time = 0, memory = 0;  // bounds by what is simulated, on average
  int number = 0;
};

Shares expect_below_simulation(std::uint64_t seeds, const Runtime& runtime, std::set<std::string>& schedules,
                               const std::vector<BoundCase>& cases = bound_cases(),
                               const RecipeFilter& filter = with_all_recomputes()) {
  Shares shares;
  for_each_seed(sanitized ? seeds / 4 : seeds, [&](Rng& rng) {
    const BoundCase& c = cases[rng.below(cases.size())];
    constexpr std::array optimizers{
        "adam", "adam,moments=bfloat16,main=none", "adam8bit", "adafactor", "lion,main=remainder", "muon"};
    const char* const optimizer = optimizers[rng.below(optimizers.size())];
    SimulatedPick bounded(c, runtime, rng, filter, parse_optimizer(optimizer));
    const RecipeBound simulated = bounded.simulated();
    const std::string which = c.model + " on " + c.topology + ": " + bounded.recipe.str() + " by " +
                              runtime.name + " with " + optimizer;
    EXPECT_LE(bounded.bound.time, simulated.time) << which;
    EXPECT_LE(bounded.bound.memory, simulated.memory) << which;
    schedules.insert(value_of(bounded.recipe, RecipeTrait::Schedule));
    shares.time += static_cast<double>(bounded.bound.time) / static_cast<double>(simulated.time);
    shares.memory +=
        static_cast<double>(bounded.bound.memory.value) / static_cast<double>(simulated.memory.value);
    ++shares.number;
  });
  if (shares.number > 0) shares.time /= shares.number, shares.memory /= shares.number;
  return shares;
}

TEST(RecipeBounds, AreNeverAboveTheSimulation) {
  std::set<std::string> schedules;
  const Shares shares = expect_below_simulation(300, Runtime(), schedules);
  RecordProperty("time_share", std::to_string(shares.time));
  RecordProperty("memory_share", std::to_string(shares.memory));
  if (shares.number < 100) return;  // a single seed
  EXPECT_EQ(schedules.size(), 11U);
  EXPECT_GT(shares.time, 0.4);
  EXPECT_GT(shares.memory, 0.4);
}

TEST(RecipeBounds, AreNeverAboveTheSimulationOnSeveralKindsOfDevices) {
  std::set<std::string> schedules;
  const Shares shares = expect_below_simulation(300, Runtime(), schedules, mixed_cases());
  const Shares host = expect_below_simulation(100, parse_runtime("megatron"), schedules, mixed_cases());
  RecordProperty("time_share", std::to_string(shares.time));
  RecordProperty("time_share_of_a_host", std::to_string(host.time));
  if (host.number < 100) return;  // a single seed
  EXPECT_EQ(schedules.size(), 11U);
  EXPECT_GT(shares.time, 0.4);
  EXPECT_GT(host.time, 0.4);
}

// Where the host is all that takes time, and where now this, now that is longer.
TEST(RecipeBounds, AreNeverAboveTheSimulationWithAHost) {
  std::set<std::string> schedules;
  const Shares host = expect_below_simulation(300, parse_runtime("megatron"), schedules);
  const Shares mixed = expect_below_simulation(
      150, parse_runtime("megatron:module=2us,backward=2us,kernel=1us,collective=2us,step=10us"), schedules);
  RecordProperty("time_share_of_a_host", std::to_string(host.time));
  RecordProperty("time_share_where_mixed", std::to_string(mixed.time));
  if (host.number < 100) return;  // a single seed
  EXPECT_EQ(schedules.size(), 11U);
  EXPECT_GT(host.time, 0.4);
  EXPECT_GT(mixed.time, 0.4);
}

TEST(RecipeBounds, AreNeverAboveTheSimulationWithInterference) {
  std::set<std::string> schedules;
  for (const char* runtime :
       {"pipesim:interference=0.5", "pipesim:interference=1", "torch-compile", "deepspeed",
        "deepspeed:buckets=100000,reuse-distance=2000000,optimizer-kernel=foreach",
        "torch-eager:optimizer-kernel=single",
        "pipesim:interference=0.7,updates=together,sharded-sums=whole,sharded-weights=broadcast"}) {
    const Shares shares = expect_below_simulation(100, parse_runtime(runtime), schedules);
    RecordProperty(runtime, std::to_string(shares.time));
    if (shares.number < 50) return;  // a single seed
    EXPECT_GT(shares.time, 0.4);
  }
}

// The head has a stage of its own. What it would read again of the last layer is not made again, and what
// would be kept for that is not there.
TEST(RecipeBounds, AreNeverAboveTheSimulationWhereTheHeadIsApart) {
  RecipeRules rules;
  rules.recomputes.push_back(parse_recompute("op"));
  std::vector<RecipeCondition> conditions;
  for (const char* condition : {"recompute=op", "pp=8", "schedule=gpipe", "mbs=1", "cp=1", "zero=0"})
    conditions.push_back(parse_recipe_condition(condition, false));
  const std::vector<BoundCase> cases{
      {"llama3-8b:layers=6,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=256,ffn=1024", "dgx-h100:2", 16}};
  std::set<std::string> schedules;
  const Shares shares =
      expect_below_simulation(12, Runtime(), schedules, cases, RecipeFilter(std::move(conditions), rules));
  EXPECT_GT(shares.memory, 0.4);
}

// Copies of inputs in 8 bits are kept, made again with what runs again, or divided and gathered again.
TEST(RecipeBounds, AreNeverAboveTheSimulationInFloat8) {
  const std::vector<BoundCase> cases{
      {"llama3-8b:layers=6,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=256,ffn=1024,kept=megatron,"
       "products=float8",
       "dgx-h100:2", 16},
      {"llama3-8b:layers=4,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024,lora=8,products="
       "float8",
       "dgx-h100:1", 16},
      {"gpt2:layers=5,hidden=256,heads=4,vocab=512,sequence=64,dtype=bfloat16,products=float8", "dgx-h100:2",
       16},
      {"mixtral-8x7b:layers=4,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024,products=float8",
       "dgx-h100:2", 16},
      {"deepseek-v3:layers=4,hidden=256,heads=8,head_width=32,rotary_width=16,value_width=32,query_latent=64,"
       "key_latent=64,ffn=512,expert_ffn=128,dense_layers=1,experts=8,top_k=2,vocab=512,sequence=128,"
       "products=float8",
       "dgx-h100:1", 16},
      {"mixtral-8x7b:layers=4,hidden=512,heads=8,kv_heads=4,vocab=512,sequence=128,ffn=1024,products=float8,"
       "kept=megatron,dispatch=float8,token_nodes=2,swiglu_inputs=float8",
       "dgx-h100:2", 16}};
  std::set<std::string> schedules;
  const Shares shares = expect_below_simulation(300, Runtime(), schedules, cases);
  RecordProperty("memory_share", std::to_string(shares.memory));
  if (shares.number < 100) return;  // a single seed
  EXPECT_GT(shares.memory, 0.4);
}

// The rules switch overlap on as users of frameworks do.
TEST(RecipeBounds, AreNeverAboveTheSimulationWithOverlap) {
  RecipeRules rules;
  rules.shardings = RecipeRules::overlapped_shardings();
  rules.reduction = GradientReduction::Overlapped;
  rules.tensor_overlap = true;
  std::set<std::string> schedules;
  for (const char* runtime : {"pipesim:tensor-overlap=always", "megatron:tensor-overlap=always"}) {
    const Shares shares = expect_below_simulation(200, parse_runtime(runtime), schedules, bound_cases(),
                                                  RecipeFilter({}, rules));
    RecordProperty(runtime, std::to_string(shares.time));
    if (shares.number < 100) return;  // a single seed
    EXPECT_GT(shares.time, 0.4);
  }
}

// Allows one recipe: all devices of a group hold copies of its weights.
RecipeFilter copies_with(const std::string& zero, const std::string& groups) {
  std::vector<RecipeCondition> conditions;
  for (const char* condition : {"tp=1", "cp=1", "mbs=1", "vpp=1", "recompute=none", "shard=all"})
    conditions.push_back(parse_recipe_condition(condition, false));
  conditions.push_back(parse_recipe_condition("zero=" + zero, false));
  conditions.push_back(parse_recipe_condition("pp=" + groups, false));
  if (groups != "1") {
    conditions.push_back(parse_recipe_condition("schedule=1f1b", false));
    conditions.push_back(parse_recipe_condition("first=even", false));
  }
  return RecipeFilter(std::move(conditions));
}

// The third of the cases, with more microbatches: most reductions run beside backward.
BoundCase long_iteration() {
  BoundCase made = bound_cases()[2];
  made.samples = 128;
  return made;
}

// Copies of both ways divide state, and one gathers what the other keeps.
TEST(RecipeBounds, AreNeverAboveTheSimulationWhereBothWaysDivideState) {
  std::vector<RecipeCondition> conditions;
  for (const char* condition : {"schedule=chimera,dualpipe", "zero=1,3"})
    conditions.push_back(parse_recipe_condition(condition, false));
  std::set<std::string> schedules;
  for (const char* runtime : {"pipesim", "megatron", "pipesim:interference=1,sharded-sums=whole"}) {
    const Shares shares = expect_below_simulation(60, parse_runtime(runtime), schedules, bound_cases(),
                                                  RecipeFilter(conditions));
    RecordProperty(runtime, std::to_string(shares.time));
    if (shares.number < 30) return;  // a single seed
    EXPECT_GT(shares.time, 0.4);
    EXPECT_GT(shares.memory, 0.4);
  }
  EXPECT_THAT(schedules, testing::ElementsAre("chimera", "dualpipe"));
}

// What collectives take is a tenth of these times or more, so a bound that counted it twice would be above
// them.
TEST(RecipeBounds, CountComputeThatCollectivesTake) {
  const BoundCase c = long_iteration();
  Rng rng(1);
  for (const auto& [zero, groups] :
       {std::pair("0", "1"), std::pair("1", "1"), std::pair("2", "1"), std::pair("3", "1")}) {
    const std::string which = std::string("zero") + zero + " on " + groups;
    const RecipeFilter filter = copies_with(zero, groups);
    SimulatedPick without(c, parse_runtime("pipesim"), rng, filter),
        with(c, parse_runtime("pipesim:interference=1"), rng, filter);
    const auto bound = static_cast<double>(with.bound.time),
               simulated = static_cast<double>(with.simulated().time);
    EXPECT_GT(bound, 1.1 * static_cast<double>(without.bound.time)) << which;
    EXPECT_LE(bound, simulated) << which;
    EXPECT_GT(bound, 0.94 * simulated) << which;
  }
}

// Where nothing runs beside what is reduced.
TEST(RecipeBounds, LeaveOutCollectivesBesideWhichNothingRuns) {
  const BoundCase c = long_iteration();
  Rng rng(1);
  const auto bound_of = [&](const std::string& runtime, const char* zero, const char* groups) {
    return SimulatedPick(c, parse_runtime(runtime), rng, copies_with(zero, groups)).bound.time;
  };
  const std::string never = "pipesim:overlap=never", unless = "pipesim:overlap=unless-sharded",
                    takes_all = ",interference=1";
  EXPECT_EQ(bound_of(never + takes_all, "0", "1"), bound_of(never, "0", "1"));
  EXPECT_EQ(bound_of(unless + takes_all, "1", "1"), bound_of(unless, "1", "1"));
  EXPECT_GT(bound_of(unless + takes_all, "0", "1"), bound_of(unless, "0", "1"));
  EXPECT_EQ(bound_of("pipesim:interference=1", "1", "2"), bound_of("pipesim", "1", "2"));
}

TEST(RecipeBounds, AreNeverAboveTheSimulationWhereSumsAreWhole) {
  std::set<std::string> schedules;
  const Shares host = expect_below_simulation(150, parse_runtime("nanotron"), schedules);
  const Shares links = expect_below_simulation(
      150, parse_runtime("pipesim:updates=together,sharded-sums=whole,sharded-weights=broadcast,slice=1us"),
      schedules);
  RecordProperty("time_share_of_a_host", std::to_string(host.time));
  RecordProperty("time_share_of_links", std::to_string(links.time));
  if (host.number < 50) return;  // a single seed
  EXPECT_GT(host.time, 0.4);
  EXPECT_GT(links.time, 0.4);
}

TEST(RecipeBounds, AreNeverAboveTheSimulationBesideProducts) {
  std::set<std::string> schedules;
  const Shares shares =
      expect_below_simulation(150, parse_runtime("pipesim:tensor-overlap=always"), schedules);
  RecordProperty("time_share", std::to_string(shares.time));
  if (shares.number < 50) return;  // a single seed
  EXPECT_GT(shares.time, 0.4);
}

}  // namespace
}  // namespace pipesim
