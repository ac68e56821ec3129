// The set of recipes: against trying every combination of parts, and its conditions and refusals.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/recipe_planner/space/recipe_space.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/plan/plan.h"
#include "tests/refusal.h"
#include "tests/slow_test.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::IsEmpty;

constexpr const char* kLlamaOfSpace =
    "llama3-8b:layers=6,hidden=32,heads=8,kv_heads=4,vocab=64,sequence=32,ffn=64,batch=8";
constexpr const char* kMixtralOfSpace =
    "mixtral-8x7b:layers=4,hidden=32,heads=8,kv_heads=4,vocab=64,sequence=32,ffn=64,batch=8";

struct SpaceCase {
  OperatorGraph graph;
  RecipeModel model{graph};
  Topology topology;
  std::int64_t samples;

  SpaceCase(const std::string& text, const std::string& system, std::int64_t batch)
      : graph(make_zoo_model(text)), topology(make_topology(system)), samples(batch) {}
  [[nodiscard]] RecipeFilter filter(const std::vector<std::string>& only,
                                    const std::vector<std::string>& never = {}) const {
    std::vector<RecipeCondition> conditions;
    for (const std::string& text : only) conditions.push_back(parse_recipe_condition(text, false));
    for (const std::string& text : never) conditions.push_back(parse_recipe_condition(text, true));
    return RecipeFilter(conditions);
  }
  [[nodiscard]] RecipeSpace space(const std::vector<std::string>& only = {},
                                  const std::vector<std::string>& never = {}) const {
    return {model, topology, samples, filter(only, never)};
  }
  [[nodiscard]] std::string refusal(const std::vector<std::string>& only,
                                    const std::vector<std::string>& never = {}) const {
    return why_no_recipe(model, topology, samples, filter(only, never));
  }
};

std::set<std::string> recipes_in(const RecipeSpace& space) {
  std::set<std::string> names;
  space.visit([&](const Recipe& recipe) { EXPECT_TRUE(names.insert(recipe.str()).second) << recipe.str(); });
  EXPECT_EQ(static_cast<std::int64_t>(names.size()), space.size());
  return names;
}

// Every combination of parts that is legal, by the rules for recipes and schedules alone.
std::set<std::string> all_recipes(const SpaceCase& c, const std::vector<std::int64_t>& groups_of_copies) {
  std::set<std::string> names;
  const auto devices = static_cast<std::int64_t>(c.topology.num_devices());
  const std::int64_t in_node = static_cast<std::int64_t>(c.topology.devices_of_node(0).size());
  const bool experts = c.model.axes().has(AxisRole::Experts);
  const std::int64_t layers = c.model.num_layers();
  std::vector<Recipe> degrees;
  for (std::int64_t tp = 1; tp <= in_node; ++tp) {
    for (std::int64_t cp = 1; cp <= devices; ++cp) {
      for (std::int64_t pp = 1; pp <= devices; ++pp) {
        for (std::int64_t ep = 1; ep <= (experts ? devices : 1); ++ep) {
          for (std::int64_t etp = 1; etp <= (experts ? tp : 1); ++etp) {
            if (in_node % tp != 0 || devices % (tp * cp * pp) != 0 || tp % etp != 0) continue;
            Recipe r;
            r.tensor = tp, r.context = cp, r.pipeline = pp, r.expert = ep;
            r.data = devices / (tp * cp * pp);
            if (experts && etp != tp) r.expert_tensor = etp;
            degrees.push_back(r);
          }
        }
      }
    }
  }
  // The divisions of layers by what they are: the first that is met, of the least uneven.
  struct Uneven {
    std::int64_t first = 0, last = 0;
  };
  std::vector<Uneven> ends;
  for (std::int64_t both = 0; both <= 4; ++both) {
    for (std::int64_t f = -2; f <= 2; ++f) {
      for (std::int64_t l = -2; l <= 2; ++l) {
        if (std::abs(f) + std::abs(l) == both) ends.push_back({f, l});
      }
    }
  }
  for (const Recipe& base : degrees) {
    for (std::int64_t written = 0; written <= layers; ++written) {
      const bool in_v = written == 0;
      const std::int64_t vpp = in_v ? 2 : written;
      std::set<std::vector<std::int64_t>> divisions;
      for (const Uneven& end : ends) {
        Recipe divided = base;
        divided.chunks = vpp;
        if (in_v) divided.schedule = "zb-v";
        const std::int64_t left = layers - end.first - end.last;
        if (end.first != 0 || end.last != 0) {
          if (base.pipeline == 1 || left % base.pipeline != 0) continue;
          const std::int64_t inner = left / base.pipeline;
          if (inner % vpp != 0 || (base.pipeline == 2 && end.first + end.last != 0)) continue;
          if (end.first != 0) divided.first = inner + end.first;
          if (end.last != 0) divided.last = inner + end.last;
          if (divided.first.value_or(0) < 0 || divided.last.value_or(0) < 0) continue;
        }
        const LayerDivision division = divide_layers(divided, layers);
        if (!division.error.empty() || !divisions.insert(division.layers).second) continue;
        for (const std::string& schedule : recipe_schedules()) {
          for (const bool sp : {false, true}) {
            for (const std::int64_t mbs : {1, 2, 4, 8, 16}) {
              for (const Recompute& kind :
                   {Recompute(), Recompute::selective(), Recompute{Recompute::Kind::Full}}) {
                for (int zero = 0; zero <= 3; ++zero) {
                  for (const std::int64_t group : groups_of_copies) {
                    Recipe r = divided;
                    r.sequence_parallel = sp, r.microbatch = mbs, r.recompute = kind;
                    r.state_sharding.kind = static_cast<StateSharding::Kind>(zero);
                    if (zero == 3 && r.pipeline > 1) r.state_sharding.reshard = StateSharding::Reshard::Last;
                    const std::int64_t dense = r.data * r.context;
                    if (group > 0 && (zero == 0 || group * r.tensor != in_node || group >= dense)) continue;
                    r.state_sharding.group = static_cast<std::int32_t>(group);
                    const bool lies = schedule == "zb-v" || schedule == "dualpipe-v";
                    if (lies != in_v || (schedule == "interleaved") != (!in_v && vpp > 1)) continue;
                    if (schedule != r.schedule_name()) r.schedule = schedule;
                    if (zero > 0 && r.copies_of_weights() == 1) continue;
                    if (c.samples % (r.data * mbs) != 0 || c.model.illegal(r)) continue;
                    const PipelineShape shape{static_cast<std::int32_t>(r.pipeline),
                                              static_cast<std::int32_t>(c.samples / (r.data * mbs)),
                                              static_cast<std::int32_t>(vpp)};
                    if (r.pipeline > 1 && !plan_schedule(schedule).refusal(shape).empty()) continue;
                    names.insert(r.str());
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return names;
}

// What only one of the sets has.
std::vector<std::string> differing(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> apart;
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(apart));
  return apart;
}

SLOW_TEST(RecipeSpace, HasEveryRecipeOnce) {
  const SpaceCase llama(kLlamaOfSpace, "dgx-a100:2", 24);
  EXPECT_THAT(differing(recipes_in(llama.space()), all_recipes(llama, {0, 2, 4, 8})), IsEmpty());
  EXPECT_GT(llama.space().size(), 5000);
  const SpaceCase mixtral(kMixtralOfSpace, "dgx-a100", 8);
  EXPECT_THAT(differing(recipes_in(mixtral.space()), all_recipes(mixtral, {0})), IsEmpty());
}

// Where kinds of devices differ: all numbers of layers for the groups of each.
TEST(RecipeSpace, DividesLayersAmongKindsOfDevices) {
  const SpaceCase mixed(kLlamaOfSpace, "dgx-a100+dgx-h100", 16), alike(kLlamaOfSpace, "dgx-a100:2", 16);
  std::set<std::vector<std::int64_t>> of_two;
  const RecipeSpace all = mixed.space();
  for (const StageDivision& d : all.divisions(2)) {
    if (d.chunks == 1) of_two.insert(d.layers);
  }
  for (std::int64_t first = 1; first < 6; ++first)
    EXPECT_THAT(of_two, testing::Contains(std::vector{first, 6 - first}));
  const auto of_four = [](const SpaceCase& c) {
    std::vector<std::vector<std::int64_t>> found;
    const RecipeSpace space = c.space({"pp=4"});
    for (const StageDivision& d : space.divisions(4)) {
      if (d.chunks == 1) found.push_back(d.layers);
    }
    return found;
  };
  EXPECT_THAT(of_four(mixed), testing::Contains(std::vector<std::int64_t>{1, 1, 2, 2}));
  EXPECT_THAT(of_four(mixed), testing::Contains(std::vector<std::int64_t>{2, 2, 1, 1}));
  EXPECT_THAT(of_four(alike), testing::Not(testing::Contains(std::vector<std::int64_t>{1, 1, 2, 2})));
  const std::set<std::string> recipes = recipes_in(mixed.space({"pp=4", "first=1", "vpp=1", "tp=1"}));
  EXPECT_THAT(recipes, testing::Contains(testing::HasSubstr("layers=1-1-2-2")));
}

TEST(RecipeSpace, EveryRecipeCanBeExpanded) {
  const SpaceCase c(kMixtralOfSpace, "dgx-a100", 8);
  std::set<std::string> schedules;
  std::int64_t number = 0;
  c.space().visit([&](const Recipe& recipe) {
    schedules.insert(value_of(recipe, RecipeTrait::Schedule));
    if (++number % 97 != 0) return;  // a few of all kinds
    const OperatorGraph graph =
        make_zoo_model(std::string(kMixtralOfSpace).substr(0, std::string(kMixtralOfSpace).rfind("batch=")) +
                       "batch=" + std::to_string(recipe.data * recipe.microbatch));
    const RecipeModel model(graph);
    PlanOptions options;
    options.microbatches = static_cast<std::int32_t>(c.samples / graph.batch());
    const RecipeStrategy made = expand_recipe(recipe, model, c.topology);
    made.apply_to(options);
    EXPECT_EQ(illegal(graph, made.strategy, options, c.topology), std::nullopt) << recipe.str();
  });
  EXPECT_THAT(schedules, testing::ElementsAre("1f1b", "chimera", "dualpipe", "dualpipe-v", "eager-1f1b",
                                              "gpipe", "interleaved", "none", "zb-h1", "zb-h2", "zb-v"));
}

TEST(RecipeSpace, KeepsToConditions) {
  const SpaceCase c(kLlamaOfSpace, "dgx-a100", 8);
  for (const auto& [only, never] :
       std::vector<std::pair<std::string, std::string>>{{"tp=2,4", "zero=3"},
                                                        {"schedule=zb-h1", "recompute=full"},
                                                        {"mbs=8", "sp=on"},
                                                        {"first=even", "vpp=1"}}) {
    const RecipeCondition wanted = parse_recipe_condition(only, false),
                          unwanted = parse_recipe_condition(never, true);
    std::set<std::string> expected;
    c.space().visit([&](const Recipe& r) {
      if (wanted.holds(r) && unwanted.holds(r)) expected.insert(r.str());
    });
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(recipes_in(c.space({only}, {never})), expected) << only << " " << never;
  }
}

// A recipe with each combination of these kinds of overlap that changes its plan.
TEST(RecipeSpace, TriesBothValuesOfOverlapThatConditionsName) {
  const SpaceCase c(kLlamaOfSpace, "dgx-a100", 8);
  std::set<std::string> expected;
  c.space().visit([&](const Recipe& plain) {
    const int zero = static_cast<int>(plain.state_sharding.kind);
    const bool reduces_once = plain.pipeline > 1 && plain.copies_of_weights() > 1 && zero != 2;
    for (const bool gather : {false, true}) {
      for (const bool overlapped : {false, true}) {
        Recipe r = plain;
        if ((gather && (zero == 0 || zero == 3)) || (overlapped && !reduces_once)) continue;
        r.state_sharding.overlaps_gather = gather;
        if (overlapped) r.reduction = GradientReduction::Overlapped;
        expected.insert(r.str());
      }
    }
  });
  EXPECT_THAT(
      differing(recipes_in(c.space({"overlap=none,gather", "reduce=overlapped,after-steps"})), expected),
      IsEmpty());
  const std::set<std::string> only_gather = recipes_in(c.space({"overlap=gather", "zero=1"}));
  EXPECT_FALSE(only_gather.empty());
  for (const std::string& recipe : only_gather)
    EXPECT_THAT(recipe, testing::HasSubstr("zero1,overlap=gather"));
}

// With a condition on messages a pipeline is tried with what the condition leaves. What goes without saying
// is not said.
TEST(RecipeSpace, HasMessagesThatConditionsLeave) {
  const SpaceCase c(kLlamaOfSpace, "dgx-a100", 8);
  const auto recipes = [&](const char* condition, MessageOverlap usual) {
    RecipeRules rules;
    rules.messages = usual;
    std::vector<RecipeCondition> conditions;
    if (*condition != 0) conditions.push_back(parse_recipe_condition(condition, false));
    return recipes_in(RecipeSpace(c.model, c.topology, c.samples, RecipeFilter(conditions, rules)));
  };
  const std::set<std::string> unsaid = recipes("", MessageOverlap::UnlessPlain);
  for (const auto usual : {MessageOverlap::Always, MessageOverlap::UnlessPlain, MessageOverlap::Never}) {
    EXPECT_THAT(differing(recipes("", usual), unsaid), IsEmpty());
    std::set<std::string> beside, blocking, none;
    for (const std::string& text : unsaid) {
      Recipe recipe = parse_recipe(text);
      if (recipe.pipeline == 1) {
        none.insert(text);
        continue;
      }
      const bool plain = recipe.schedule_name() == "1f1b";
      recipe.messages = StageMessages::Beside;
      beside.insert(!plain && usual != MessageOverlap::Never ? text : recipe.str());
      recipe.messages = StageMessages::Blocking;
      blocking.insert(plain && usual != MessageOverlap::Always ? text : recipe.str());
    }
    EXPECT_FALSE(beside.empty());
    EXPECT_THAT(differing(recipes("messages=beside", usual), beside), IsEmpty());
    EXPECT_THAT(differing(recipes("messages=blocking", usual), blocking), IsEmpty());
    EXPECT_THAT(differing(recipes("messages=none", usual), none), IsEmpty());
    std::set<std::string> both = beside;
    both.insert(blocking.begin(), blocking.end());
    EXPECT_THAT(differing(recipes("messages=beside,blocking", usual), both), IsEmpty());
  }
}

TEST(RecipeSpace, KeepsToRules) {
  const SpaceCase c(kMixtralOfSpace, "dgx-a100", 8);
  RecipeRules rules;
  rules.shardings = {StateSharding(), {.kind = StateSharding::Kind::Optimizer, .overlaps_gather = true}};
  rules.reduction = GradientReduction::Overlapped;
  rules.tensor_overlap = true;
  const RecipeSpace all(c.model, c.topology, c.samples, RecipeFilter({}, rules));
  rules.allows = [](const Recipe& r) {
    return (r.pipeline == 1 || r.schedule_name() == "1f1b") && r.tensor * r.expert < 8 &&
           (r.recompute.kind != Recompute::Kind::Full || r.state_sharding.any());
  };
  std::set<std::string> expected;
  all.visit([&](const Recipe& r) {
    EXPECT_EQ(r.tensor_overlap.value_or(false), r.sequence_parallel) << r.str();
    if (rules.allows(r)) expected.insert(r.str());
  });
  EXPECT_FALSE(expected.empty());
  const RecipeSpace space(c.model, c.topology, c.samples, RecipeFilter({}, rules));
  EXPECT_THAT(differing(recipes_in(space), expected), IsEmpty());
  std::int64_t of_meshes = 0;
  for (std::size_t m = 0; m < space.meshes().size(); ++m) {
    EXPECT_GT(space.size_of(m), 0);
    of_meshes += space.size_of(m);
  }
  EXPECT_EQ(of_meshes, space.size());
}

TEST(RecipeSpace, TakesWhatIsAskedForBesideTheUsual) {
  const SpaceCase c(kLlamaOfSpace, "dgx-a100:2", 24);
  EXPECT_THAT(recipes_in(c.space({"mbs=3", "dp=8", "pp=1", "zero=0", "recompute=none"})),
              testing::ElementsAre("cp2,dp8,mbs3", "tp2,dp8,mbs3", "tp2,dp8,sp,mbs3"));
  const SpaceCase pairs(kLlamaOfSpace, "levels:2@10GB/s,4@1GB/s", 8);  // nodes of two devices
  EXPECT_FALSE(recipes_in(pairs.space({"tp=4"})).empty());
  const RecipeSpace usual = pairs.space();
  for (const Recipe& mesh : usual.meshes()) EXPECT_LE(mesh.tensor, 2);
}

TEST(RecipeSpace, SaysWhyNothingIsLeft) {
  const SpaceCase c(kLlamaOfSpace, "dgx-a100", 8);
  EXPECT_EQ(
      c.refusal({"tp=3"}),
      "--only tp=3 leaves no recipe of 8 samples on 8 devices; with no other condition, allowed for tp: "
      "1, 2, 4, 8");
  EXPECT_EQ(c.refusal({"tp=8", "pp=2"}),
            "--only tp=8 leaves no recipe of 8 samples on 8 devices; with the other conditions, allowed for "
            "tp: 1, 2, 4");
  const SpaceCase odd(kLlamaOfSpace, "dgx-a100", 7);
  EXPECT_EQ(odd.refusal({"dp=8"}),
            "--only dp=8 leaves no recipe of 7 samples on 8 devices; with no other "
            "condition, allowed for dp: 1");
}

TEST(RecipeConditions, RefuseWhatTheyDoNotKnow) {
  const auto refusal_of_condition = [](const char* text) {
    return refusal([&] { (void)parse_recipe_condition(text, false); });
  };
  EXPECT_EQ(refusal_of_condition("tp"),
            "--only tp: allowed: a part of recipes and its values, such as tp=4,8");
  EXPECT_EQ(refusal_of_condition("tensor=4"),
            "--only tensor=4: unknown part \"tensor\", allowed: tp, cp, dp, ep, etp, pp, vpp, mbs, sp, zero, "
            "shard, recompute, schedule, first, last, overlap, reduce, tp-overlap, messages");
  EXPECT_EQ(refusal_of_condition("overlap=on"),
            "--only overlap=on: found \"on\", allowed for overlap: none, gather");
  EXPECT_EQ(refusal_of_condition("zero=4"), "--only zero=4: found \"4\", allowed for zero: 0 to 3");
  EXPECT_EQ(refusal_of_condition("sp=yes"), "--only sp=yes: found \"yes\", allowed for sp: on, off");
  EXPECT_EQ(parse_recipe_condition("tp=4,8", true).str(), "--not tp=4,8");
}

}  // namespace
}  // namespace pipesim
