#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "executor/elements/small_floats.h"
#include "search/recipes/expand_recipe.h"
#include "sim/base/errors.h"
#include "tests/executor/equality_case.h"
#include "tests/search/recipes/random_recipe.h"

namespace pipesim {
namespace {

constexpr const char* kNarrow =
    "llama:batch=4,layers=2,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32,dtype=bfloat16";
constexpr const char* kAdapted =
    "llama:batch=4,layers=2,hidden=32,heads=8,kv_heads=2,vocab=48,sequence=8,ffn=32,dtype=bfloat16,lora=4";
// Its embedding is used by two stages.
constexpr const char* kTied =
    "gpt:batch=4,layers=4,hidden=32,heads=8,vocab=50,sequence=8,positions=8,dtype=bfloat16";

// How the same numbers may be kept and moved otherwise.
std::vector<StateSharding> variants_of(StateSharding sharding) {
  std::vector<StateSharding> all;
  const auto with = [&](bool StateSharding::*setting) { all.emplace_back(sharding).*setting = true; };
  with(&StateSharding::wide_gathers);
  with(sharding.gathers_to_use() ? &StateSharding::wide_weights : &StateSharding::overlaps_gather);
  all.push_back(all.back());
  all.back().wide_gathers = true;
  if (sharding.kind != StateSharding::Kind::Optimizer) return all;
  // Weights may be divided between steps, or between uses, where gradients are reduced once as well.
  sharding.kind = StateSharding::Kind::Weights;
  with(&StateSharding::whole_gradients);
  all.emplace_back(sharding).reshard = StateSharding::Reshard::Last;
  return all;
}

// A float32 weight that is rounded when it is gathered, and a rounded weight beside its float32 copy; weights
// that travel before they are rounded, or after; before the next step's forward, or after this one's update.
TEST(DividedState, OfOtherTypesAndTimesOfGathersHoldsTheSameNumbers) {
  constexpr int kSteps = 3;
  for (const char* text : {kNarrow, kTied, kAdapted}) {
    const EqualityCase c(text);
    const RecipeModel model(c.graph);
    PlanOptions options;
    options.optimizer = Optimizer::Adam;
    options.microbatches = 4;
    Reference reference = c.reference(options);
    for_each_seed(8, [&](Rng& rng) {
      Recipe recipe = random_recipe(model, most_devices, rng);
      recipe.state_sharding = {};
      recipe.state_sharding.kind = static_cast<StateSharding::Kind>(1 + rng.below(3));
      recipe.state_sharding.group = rng.below(2) == 0 ? 2 : 0;
      if (model.illegal(recipe)) recipe.state_sharding.group = 0;
      SCOPED_TRACE(recipe.str());
      const RecipeStrategy made = expand_recipe(recipe, model, c.topology);
      made.apply_to(options);
      const StepValues plain = reference.values_of(made.strategy, options, kSteps);
      for (const StateSharding& variant : variants_of(recipe.state_sharding)) {
        options.state_sharding = variant;
        const StepValues other = reference.values_of(made.strategy, options, kSteps);
        for (const TensorError& e : differences(other, plain, c.graph))
          EXPECT_EQ(e.error, 0) << variant.str() << ": " << e.name;
      }
    });
  }
}

// Moments and main weights of other types are rounded alike, however plans divide them.
TEST(DividedState, OfOtherTypesTrainsAsTheUnsplitModel) {
  const EqualityCase c(kNarrow);
  const RecipeModel model(c.graph);
  for (const char* optimizer :
       {"adam,moments=bfloat16", "adam,moments=bfloat16+float16,main=remainder", "adam,main=none",
        "momentum,moments=bfloat16,main=bfloat16", "lion,main=float16", "lion,moments=bfloat16,main=none"}) {
    PlanOptions options;
    options.optimizer = parse_optimizer(optimizer);
    if (options.optimizer.main == Optimizer::Main::Remainder &&
        !make_tested_devices(c.graph, most_devices)->has_all_kernels())
      continue;
    options.microbatches = 2;
    Reference reference = c.reference(options);
    for_each_seed(4, [&](Rng& rng) {
      const Recipe recipe = random_recipe(model, most_devices, rng);
      SCOPED_TRACE(fmt::format("{} {}", optimizer, recipe.str()));
      const RecipeStrategy made = expand_recipe(recipe, model, c.topology);
      made.apply_to(options);
      reference.check(made.strategy, options);
    });
  }
}

// Weights begin with what bfloat16 can hold.
class RoundedSource : public TensorSource {
 public:
  explicit RoundedSource(const TensorSource& source) : source_(source) {}
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    source_.fill(content, tensor, piece, step);
    if (content != Loaded::Content::Weight || piece.type != DataType::Float32) return;
    auto* const numbers = reinterpret_cast<float*>(piece.memory);
    for (std::int64_t i = 0; i < piece.box.elements(); ++i)
      numbers[i] = from_bfloat16(to_bfloat16(numbers[i]));
  }

 private:
  const TensorSource& source_;
};

// Weights that stay gathered for backward, some or all, are those that would be gathered again.
TEST(DividedState, OfReusedWeightsHoldsTheSameNumbers) {
  constexpr int kSteps = 2;
  const EqualityCase c(kNarrow);
  const RecipeModel model(c.graph);
  for (const char* text :
       {"tp2,dp4,mbs1,zero3", "tp2,cp2,dp2,mbs2,zero3,recompute=full", "tp2,dp4,mbs1,zero3,shard=2"}) {
    SCOPED_TRACE(text);
    PlanOptions options;
    options.optimizer = Optimizer::Adam;
    options.microbatches = 2;
    const RecipeStrategy made = expand_recipe(parse_recipe(text), model, c.topology);
    made.apply_to(options);
    std::set<std::size_t> gathers;
    const auto values_within = [&](const char* distance) {
      const CostModel costs(c.topology, nullptr,
                            parse_runtime(fmt::format("pipesim:reuse-distance={}", distance)));
      Reference reference(c.graph, costs, c.world, c.source, options);
      gathers.insert(reference.program_of(made.strategy, options).buffers.size());
      return reference.values_of(made.strategy, options, kSteps);
    };
    const StepValues again = values_within("0");
    for (const char* distance : {"9000", "1e9"}) {
      for (const TensorError& e : differences(values_within(distance), again, c.graph))
        EXPECT_EQ(e.error, 0) << distance << ": " << e.name;
    }
    EXPECT_EQ(gathers.size(), 3U);  // other buffers
  }
}

// What a bfloat16 weight lacks of a float32 is all that the optimizer needs beside it.
TEST(DividedState, OfRemaindersIsThatOfWholeMainWeights) {
  constexpr int kSteps = 3;
  const EqualityCase c(kNarrow);
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "no GPU kernel puts main weights together from halves";
  const RoundedSource source(c.source);
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  const auto values_under = [&](const char* optimizer) {
    PlanOptions options;
    options.optimizer = parse_optimizer(optimizer);
    return Reference(c.graph, c.costs, c.world, source, options).values_of(strategy, options, kSteps);
  };
  const StepValues whole = values_under("adam");
  EXPECT_EQ(differences(values_under("adam,main=remainder"), whole, c.graph).front().error, 0);
  EXPECT_GT(differences(values_under("adam,main=none"), whole, c.graph).front().error, 0);
}

TEST(DividedState, OfOptimizersWithoutStepsIsRefused) {
  const EqualityCase c("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const auto refused = [&](const char* optimizer, const char* message) {
    PlanOptions options;
    options.optimizer = parse_optimizer(optimizer);
    EXPECT_THAT([&] { (void)c.reference(options); }, testing::ThrowsMessage<InputError>(message));
  };
  for (const char* optimizer : {"adam8bit", "adafactor", "muon"})
    refused(optimizer,
            fmt::format("optimizer \"{}\": devices run steps of sgd, momentum, adam and lion only", optimizer)
                .c_str());
  refused("lion,moments=float8",
          "optimizer \"lion,moments=float8\": devices keep moments in float32, bfloat16 or float16 only");
}

// Even where a device makes a part itself after it got the others'.
TEST(DividedState, FreesTheGradientsOfAMicrobatchWhenTheyAreAddedUp) {
  const EqualityCase c(kTied);
  PlanOptions options;
  options.microbatches = 4;
  Reference reference = c.reference(options);
  for (const char* sharding : {"zero2,shard=2", "zero3,shard=2", "zero3", "zero2"}) {
    SCOPED_TRACE(sharding);
    const RecipeStrategy made = expand_recipe(parse_recipe("tp2,pp2,cp2,dp1,mbs4," + std::string(sharding)),
                                              RecipeModel(c.graph), c.topology);
    made.apply_to(options);
    const Program program = reference.program_of(made.strategy, options);
    int updates = 0;
    for (const DeviceProgram& device : program.devices) {
      for (const Instruction& instruction : device.compute) {
        if (!std::holds_alternative<UpdateWork>(instruction.work)) continue;
        ++updates;
        for (const BufferId b : instruction.buffers) {
          const Buffer& buffer = program.buffers[b.index()];
          EXPECT_FALSE(buffer.category == MemoryCategory::Gradients && buffer.life == Buffer::Life::Uses)
              << c.graph.tensor(buffer.tensor).name;
        }
      }
    }
    EXPECT_GT(updates, 0);
  }
}

}  // namespace
}  // namespace pipesim
