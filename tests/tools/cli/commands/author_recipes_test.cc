// docs/examples/author_recipes.json, of which tools/scripts/author-recipes makes a table.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "taskgraph/plan/plan_json.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/interop/framework/framework.h"
#include "tools/interop/frameworks.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

// A row of the file.
struct AuthorRecipe {
  std::string configuration, model, topology, recipe;
  std::int64_t samples = 0;
};

std::vector<AuthorRecipe> author_recipes() {
  const Json rows = Json::parse(read_file(PIPESIM_SOURCE_DIR "/docs/examples/author_recipes.json"));
  std::vector<AuthorRecipe> recipes;
  for (const Json& row : rows) {
    recipes.push_back(
        {row.at("configuration"), row.at("model"), row.at("topology"), row.at("recipe"), row.at("samples")});
    for (const char* fact : {"type", "repository", "commit", "path", "row"})
      EXPECT_FALSE(row.at(fact).get<std::string>().empty()) << row;
  }
  return recipes;
}

// No part of it contradicts the model, the devices or the samples, and Megatron-LM has a setting for each.
void expect_legal(const AuthorRecipe& row) {
  const Topology topology = open_topology(row.topology);
  Recipe recipe = parse_recipe(row.recipe);
  const BatchRequest asked{.batch = row.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun run =
      run_of_recipe(row.model, static_cast<std::int64_t>(topology.num_devices()), asked, recipe);
  EXPECT_EQ(recipe, parse_recipe(row.recipe));  // complete
  const OperatorGraph graph = open_model(run.model);
  EXPECT_EQ(decoder_sizes(row.model).type, DataType::BFloat16);
  const RecipeModel model(graph);
  Plan plan;
  plan.model = run.model;
  plan.topology = row.topology;
  plan.options.microbatches = run.microbatches;
  plan.options.gradient_type = DataType::BFloat16;
  plan.runtime = with_policies(runtime_for_recipes(topology), recipe);
  apply_recipe(recipe, model, topology, plan);
  const ReadPlan read = read_framework_plan(plan, model, topology);
  EXPECT_EQ(read.plan.recipe.str(), recipe.str());
  EXPECT_EQ(read.plan.samples, row.samples);
  const Framework& megatron = framework_named("megatron");
  for (const Refusal& refusal : megatron.refusals(read.plan)) ADD_FAILURE() << refusal.part << refusal.reason;
}

SLOW_TEST(AuthorRecipes, AreLegalAndOfMegatron) {
  const std::vector<AuthorRecipe> rows = author_recipes();
  std::set<std::string> names;
  for (const AuthorRecipe& row : rows) {
    SCOPED_TRACE(row.configuration);
    names.insert(row.configuration);
    expect_legal(row);
  }
  EXPECT_EQ(names.size(), rows.size());
  EXPECT_GE(names.size(), 10U);
}

// The smallest two, as tools/scripts/author-recipes judges them.
SLOW_TEST(AuthorRecipes, TheBestIsNoSlowerThanTheirs) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), run = folder.path("run");
  std::size_t judged = 0;
  for (const AuthorRecipe& row : author_recipes()) {
    if (open_topology(row.topology).num_devices() > 8) continue;
    ++judged;
    const std::vector<Outcome> steps{
        pipesim_run({"simulate", "--model", row.model, "--topology", row.topology, "--batch",
                     std::to_string(row.samples), "--recipe", row.recipe, "--gradient-type", "bfloat16", "-o",
                     plan}),
        pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", run, "--force"}),
        pipesim_run({"import", "plan", run + "/megatron.args", "--topology", row.topology, "--json"})};
    for (const Outcome& step : steps) ASSERT_EQ(step.status, 0) << step;
    const Json verdict = Json::parse(steps.back().out);
    EXPECT_EQ(verdict["proven"], true);
    EXPECT_EQ(verdict["left_out"], Json::array());
    EXPECT_LE(verdict["best"]["iteration_time_s"], verdict["yours"]["iteration_time_s"]);
    EXPECT_EQ(verdict["because"].get<std::string>().find("because "), 0U) << verdict["because"];
  }
  EXPECT_EQ(judged, 2U);
}

}  // namespace
}  // namespace pipesim
