#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/tools/interop/documented_settings.h"
#include "tests/tools/interop/framework_case.h"
#include "tests/tools/interop/torchtitan_case.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/torchtitan/torchtitan.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_files.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"

namespace pipesim {
namespace {

// A step as its cell says.
struct Cell {
  int stage = 0, microbatch = 0;
  char action = 'F';
};

Cell cell_of(const std::string& text) {
  Cell cell;
  std::istringstream stream(text);
  stream >> cell.stage >> cell.action >> cell.microbatch;
  EXPECT_FALSE(stream.fail()) << text;
  EXPECT_TRUE(stream.eof() || stream.peek() == EOF) << text;
  return cell;
}

std::vector<std::vector<Cell>> cells_of(const std::string& csv) {
  std::vector<std::vector<Cell>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell_of(cell));
  }
  return rows;
}

// Every stage runs each microbatch forward once, then its gradients, at once or in two steps; stages go round
// the groups, or lie on them in a V; and the rows can be carried out, each step when those that it needs are
// done.
void expect_complete(const std::string& csv, int groups, int stages, int microbatches, bool in_v = false) {
  const auto rows = cells_of(csv);
  ASSERT_EQ(static_cast<int>(rows.size()), groups);
  std::set<std::tuple<int, int, char>> done;
  std::vector<std::size_t> next(rows.size(), 0);
  const auto possible = [&](const Cell& c) {
    const bool last = c.stage + 1 == stages;
    if (c.action == 'F') return c.stage == 0 || done.contains({c.stage - 1, c.microbatch, 'F'});
    if (c.action == 'W') return done.contains({c.stage, c.microbatch, 'I'});
    return done.contains({c.stage, c.microbatch, 'F'}) &&
           (last || done.contains({c.stage + 1, c.microbatch, 'B'}) ||
            done.contains({c.stage + 1, c.microbatch, 'I'}));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      while (next[g] < rows[g].size() && possible(rows[g][next[g]])) {
        const Cell& c = rows[g][next[g]++];
        EXPECT_EQ(device_of_stage(c.stage, groups, in_v), static_cast<int>(g));
        EXPECT_TRUE(done.insert({c.stage, c.microbatch, c.action}).second);
        moved = true;
      }
    }
  }
  for (std::size_t g = 0; g < rows.size(); ++g) EXPECT_EQ(next[g], rows[g].size()) << csv;
  for (int s = 0; s < stages; ++s) {
    for (int m = 0; m < microbatches; ++m) {
      EXPECT_TRUE(done.contains({s, m, 'F'}));
      EXPECT_NE(done.contains({s, m, 'B'}), done.contains({s, m, 'I'}) && done.contains({s, m, 'W'}));
    }
  }
}

TEST(Torchtitan, SchedulesAreWrittenForAllThatItKnows) {
  const Topology topology = make_topology("dgx-h100:1");
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string name = std::string(kind.name) + (kind.takes_number() ? ":8" : "");
    const int chunks = kind.takes_chunks ? 2 : 1;
    const FrameworkPlan plan = framework_plan(
        "llama3-8b", parse_recipe(fmt::format("pp4,vpp{},dp2,mbs1,fsdp,schedule={}", chunks, name)),
        topology);
    const bool known = kind.weights == WeightChange::AfterIteration && !kind.both_ways && !kind.pairs;
    EXPECT_EQ(framework_named("torchtitan").refusals(plan).empty(), known) << name;
    if (known) expect_complete(file_of(plan, "schedule.csv"), 4, 4 * chunks, 8, kind.in_v);
    EXPECT_EQ(fields_by_path(plan).at("parallelism.pipeline_parallel_schedule"),
              name == "zb-v"         ? "ZBVZeroBubble"
              : name == "dualpipe-v" ? "DualPipeV"
                                     : "PipelineScheduleMulti");
  }
}

// torchtitan's own rule (pipeline_module_split) for schedules by these names: zip(range(pp), range(2 pp - 1,
// pp - 1, -1)) are the stages of each rank, and model parts are those of the stages.
TEST(Torchtitan, StagesInAVAreOnTheRanksThatItPutsThemOn) {
  const FrameworkPlan plan = framework_plan("llama3-8b", parse_recipe("pp4,dp2,mbs1,fsdp,schedule=zb-v"),
                                            make_topology("dgx-h100:1"), 4);
  ASSERT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  ASSERT_EQ(plan.layers, std::vector<std::int64_t>(8, 4));
  const auto rows = cells_of(file_of(plan, "schedule.csv"));
  ASSERT_EQ(rows.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    std::set<int> stages;
    for (const Cell& cell : rows[static_cast<std::size_t>(rank)]) stages.insert(cell.stage);
    EXPECT_EQ(stages, (std::set<int>{rank, 7 - rank}));
  }
  const std::string config = file_of(plan, "pipesim_plan.py");
  EXPECT_NE(config.find("    put(config, \"parallelism.pipeline_parallel_schedule\", \"ZBVZeroBubble\")\n"
                        "    # Stages lie in a V because of the schedule's name. Their steps are these.\n"
                        "    put(config, \"parallelism.pipeline_parallel_schedule_csv\", "
                        "str(Path(__file__).with_name(\"schedule.csv\")))\n"
                        "    put(config, \"parallelism.num_pp_microbatches\", 4)\n"),
            std::string::npos)
      << config;
  EXPECT_NE(
      config.find("    put(config, \"compile.enable\", False)\n"
                  "    put(config, \"parallelism.module_fqns_per_model_part\", [\n"
                  "        [\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\", \"layers.3\"],\n"
                  "        [\"layers.4\", "),
      std::string::npos)
      << config;
  EXPECT_NE(config.find("        [\"layers.28\", \"layers.29\", \"layers.30\", \"layers.31\", \"norm\", "
                        "\"lm_head\"],\n    ])\n"),
            std::string::npos)
      << config;
}

// Beyond 4096 positions, as 0.2 stretches them only then.
FrameworkPlan dual_pipe_plan(const std::string& recipe) {
  return with_version(
      framework_plan("deepseek-v3:sequence=8192", parse_recipe(recipe), make_topology("dgx-h100:1")),
      "torchtitan", "0.2");
}

// DualPipeV alone runs forward beside backward, so it is named and takes no steps.
TEST(Torchtitan, DualPipeIsItsOwn) {
  const FrameworkPlan plan =
      dual_pipe_plan("pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v");
  EXPECT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  const DocumentedSettings documented("torchtitan-0.2");
  for (const TorchtitanField& field : torchtitan_fields(plan)) documented.expect(field.path, {field.value});
  auto fields = fields_by_path(plan);
  EXPECT_EQ(fields["parallelism.pipeline_parallel_schedule"], "DualPipeV");
  EXPECT_EQ(fields["parallelism.pipeline_parallel_expert_parallel_overlap"], "True");
  EXPECT_EQ(fields["activation_checkpoint.mode"], "none");
  EXPECT_EQ(fields["compile.enable"], "False");
  EXPECT_FALSE(fields.contains("parallelism.pipeline_parallel_schedule_csv"));
  EXPECT_EQ(file_of(plan, "schedule.csv"), "");
  EXPECT_EQ(
      refusals_text("torchtitan", "deepseek-v3",
                    "pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v"),
      "schedule=dualpipe-v: forward and backward of a pair run one after the other; torchtitan 0.2 runs "
      "them side by side\n");
}

// The steps of PyTorch's ScheduleDualPipeV, of two ranks and four microbatches, and of three and seven. A
// step with a star overlaps the one before it.
TEST(Torchtitan, TheStepsOfDualPipeAreThoseOfPyTorch) {
  const auto steps = [](int devices, int microbatches) {
    std::string text;
    for (const auto& row :
         make_schedule("dualpipe-v", {.devices = devices, .microbatches = microbatches, .chunks = 2})) {
      std::string cells = torchtitan_schedule({row});
      for (std::size_t i = 0, at = 0; i < row.size(); ++i, at = cells.find(',', at) + 1) {
        if (row[i].beside) cells.insert(at, "*");
      }
      text += cells;
    }
    return text;
  };
  EXPECT_EQ(steps(2, 4),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,0F3,*3B1,3F2,*0B0,3B2,3F3,*0B1,3B3,0I2,0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,2F2,*1B0,1F3,*2B1,2F3,*1B1,2B2,1B2,2I3,1I3,2W3,1W3\n");
  EXPECT_EQ(
      steps(3, 7),
      "0F0,0F1,0F2,0F3,0F4,5F0,5I0,5W0,5F1,5I1,5W1,5F2,0F5,*5B2,5F3,*0B0,0F6,*5B3,5F4,*0B1,5B4,5F5,*0B2,"
      "5B5,5F6,*0B3,5B6,0I4,0W4,0I5,0W5,0I6,0W6\n"
      "1F0,1F1,1F2,4F0,1F3,4F1,4I0,4W0,4F2,1F4,*4B1,4F3,*1B0,1F5,*4B2,4F4,*1B1,1F6,*4B3,4F5,*1B2,4B4,4F6,"
      "*1B3,4B5,1B4,4I6,1I5,4W6,1I6,1W5,1W6\n"
      "2F0,3F0,2F1,3F1,2F2,3F2,2F3,3B0,3F3,*2B0,2F4,*3B1,3F4,*2B1,2F5,*3B2,3F5,*2B2,2F6,*3B3,3F6,*2B3,3B4,"
      "2B4,3B5,2I5,3I6,2I6,2W5,3W6,2W6\n");
}

// Else torchtitan would run forward and backward one after the other, as zb-v does, which keeps less.
TEST(Torchtitan, DualPipeNeedsExpertsAndNoRecomputation) {
  const Framework& torchtitan = framework_named("torchtitan");
  const OperatorGraph graph = open_model("deepseek-v3:sequence=8192");
  const RecipeModel model(graph);
  const auto refused = [&](const std::string& recipe, const std::string& nearest) {
    const FrameworkPlan plan = dual_pipe_plan(recipe);
    const Refusals refusals = framework_named("torchtitan").refusals(plan);
    std::string text;
    for (const Refusal& r : refusals) text += r.part + ": " + r.reason + "\n";
    const auto found = nearest_expressible(torchtitan, plan, refusals, model);
    EXPECT_EQ(found ? found->recipe.str() : "none", nearest);
    return text;
  };
  EXPECT_EQ(
      refused("pp2,dp4,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v",
              "pp2,dp4,mbs1,zero3,reshard=last,weights=float32,first=30,last=31,schedule=zb-v"),
      "schedule=dualpipe-v without ep: its DualPipeV runs forward beside backward only where there is expert "
      "parallelism\n");
  EXPECT_EQ(refused("pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,recompute=full,schedule=dualpipe-v",
                    "pp2,dp4,ep4,etp1,mbs1,zero3,reshard=last,weights=float32,first=30,last=31,recompute="
                    "full,schedule=zb-v"),
            "schedule=dualpipe-v with recompute=full: its DualPipeV runs forward beside backward only where "
            "nothing is computed again\n");
}

// tests/assets/custom_schedule.csv of pytorch/torchtitan (BSD-3).
TEST(Torchtitan, SchedulesHaveTheFormOfItsOwnExample) {
  std::string example;
  for (int g = 0; g < 2; ++g) {
    const auto cells = [&](int stage, const char* actions, int first, int last) {
      for (int m = first; m <= last; ++m) {
        for (const char* a = actions; *a != 0; ++a)
          example +=
              fmt::format("{}{}{}{}", example.empty() || example.back() == '\n' ? "" : ",", stage, *a, m);
      }
    };
    cells(g, "F", 0, 7);
    cells(g + 2, "F", 0, 7);
    for (int m = 0; m < 8; m += 2) {
      cells(g + 2, "IW", m, m + 1);
      cells(g, "IW", m, m + 1);
    }
    example += '\n';
  }
  EXPECT_TRUE(example.starts_with("0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,2F0,")) << example;
  expect_complete(example, 2, 4, 8);
}

TEST(Torchtitan, WritesASmallScheduleAsItsOwnExamplesDo) {
  EXPECT_EQ(torchtitan_schedule(make_schedule("1f1b", {.devices = 2, .microbatches = 3})),
            "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(torchtitan_schedule(make_schedule("zb-h1", {.devices = 1, .microbatches = 1})), "0F0,0I0,0W0\n");
}

}  // namespace
}  // namespace pipesim
