#include "tests/layers/include_rules.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<SourceFile> sources() { return source_tree({".h", ".cc", ".cu", ".cuh"}); }

std::vector<std::string> broken(const std::string& path, const std::string& text) {
  return broken_include_rules({path, text});
}

TEST(IncludeRules, HoldInTheWholeRepository) {
  const auto files = sources();
  ASSERT_GT(files.size(), 30U) << "the scan did not find the sources";
  for (const SourceFile& file : files) EXPECT_THAT(broken_include_rules(file), IsEmpty()) << file.path;
}

TEST(IncludeRules, EveryProjectHeaderExists) {
  const std::filesystem::path root = PIPESIM_SOURCE_DIR;
  for (const SourceFile& file : sources()) {
    for (const Include& include : includes_of(file)) {
      if (include.quoted) {
        EXPECT_TRUE(std::filesystem::exists(root / include.target)) << file.path << ":" << include.line;
      }
    }
  }
}

TEST(IncludeRules, NoHeadersIncludeOneAnotherInACircle) { EXPECT_EQ(include_cycle(sources()), ""); }

std::vector<SourceFile> sources_but_tests() {
  std::vector<SourceFile> files = sources();
  std::erase_if(files, [](const SourceFile& file) { return file.path.starts_with("tests/"); });
  return files;
}

TEST(IncludeRules, NoFoldersIncludeOneAnotherInACircle) { EXPECT_EQ(room_cycle(sources_but_tests()), ""); }

TEST(IncludeRules, CatchAPlantedStepUpTheLayers) {
  EXPECT_THAT(broken("sim/schedule.cc", "#include \"models/operator.h\"\n"),
              ElementsAre("sim/schedule.cc:1: sim may not include models/operator.h"));
  EXPECT_THAT(broken("search/mcmc/mcmc.cc",
                     "\n"
                     "#include \"executor/executor.h\"\n"),
              ElementsAre("search/mcmc/mcmc.cc:2: search may not include executor/executor.h"));
  EXPECT_THAT(broken("executor/cpu/run.cc", "#include \"search/evaluator.h\"\n"),
              ElementsAre("executor/cpu/run.cc:1: executor may not include search/evaluator.h"));
  EXPECT_THAT(broken("costmodel/a.h", "#include \"taskgraph/plan/plan.h\"\n"),
              ElementsAre("costmodel/a.h:1: costmodel may not include taskgraph/plan/plan.h"));
  EXPECT_THAT(broken("taskgraph/a.h", "#include \"tests/layers/source_tree.h\"\n"),
              ElementsAre("taskgraph/a.h:1: taskgraph may not include tests/layers/source_tree.h"));
}

// The program that searches is built without it.
TEST(IncludeRules, OnlyTheFoldersThatRunPlansSeeTheExecutor) {
  EXPECT_THAT(broken("tools/analysis/inputs/plan_set.cc", "#include \"executor/run/training.h\"\n"),
              ElementsAre("tools/analysis/inputs/plan_set.cc:1: tools/analysis may not include "
                          "executor/run/training.h"));
  EXPECT_THAT(broken("tools/cli/commands/execute.cc", "#include \"tools/running/plan_run.h\"\n"),
              ElementsAre("tools/cli/commands/execute.cc:1: tools/cli may not include "
                          "tools/running/plan_run.h"));
  EXPECT_THAT(
      broken("tools/render/page/a.cc", "#include \"tools/render/execution/a.h\"\n"),
      ElementsAre("tools/render/page/a.cc:1: tools/render may not include tools/render/execution/a.h"));
  EXPECT_THAT(broken("tools/running/a.cc", "#include \"executor/run/training.h\"\n"), IsEmpty());
  EXPECT_THAT(broken("tools/render/execution/a.cc", "#include \"tools/running/plan_run.h\"\n"), IsEmpty());
  EXPECT_THAT(
      broken("tools/cli/execution/execute.cc",
             "#include \"executor/run/training.h\"\n#include \"tools/cli/commands/execution_commands.h\"\n"),
      IsEmpty());
  EXPECT_THAT(broken("search/a.cc", "#include \"tools/running/plan_run.h\"\n"),
              ElementsAre("search/a.cc:1: search may not include tools/running/plan_run.h"));
}

TEST(IncludeRules, FloorsOfToolsSeeOnlyThoseBelow) {
  const std::vector<std::string> floors = {"tools/base", "tools/analysis", "tools/interop", "tools/render",
                                           "tools/cli"};
  for (std::size_t from = 0; from < floors.size(); ++from) {
    for (std::size_t to = 0; to < floors.size(); ++to) {
      const std::string path = floors[from] + "/deep/a.cc", target = floors[to] + "/deep/b.h";
      const auto found = broken(path, "#include \"" + target + "\"\n");
      if (to <= from) {
        EXPECT_THAT(found, IsEmpty());
      } else {
        EXPECT_THAT(found, ElementsAre(path + ":1: " + floors[from] + " may not include " + target));
      }
    }
  }
  EXPECT_THAT(
      broken("tools/running/a.cc", "#include \"tools/cli/base/status_line.h\"\n"),
      ElementsAre("tools/running/a.cc:1: tools/running may not include tools/cli/base/status_line.h"));
  EXPECT_THAT(broken("tools/running/a.cc", "#include \"tools/render/base/table.h\"\n"),
              ElementsAre("tools/running/a.cc:1: tools/running may not include tools/render/base/table.h"));
  EXPECT_THAT(broken("tools/main.cc", "#include \"tools/cli/run_pipesim.h\"\n"), IsEmpty());
}

// Python asks the floors below for values. Whole commands are added where commands are.
TEST(IncludeRules, PythonsModuleKnowsNoCommandLine) {
  EXPECT_THAT(broken("python/module/a.cc", "#include \"tools/cli/run_pipesim.h\"\n"),
              ElementsAre("python/module/a.cc:1: python may not include tools/cli/run_pipesim.h"));
  EXPECT_THAT(broken("python/module/a.cc", "#include \"tools/cli/python/command_call.h\"\n"),
              ElementsAre("python/module/a.cc:1: python may not include tools/cli/python/command_call.h"));
  EXPECT_THAT(broken("python/module/a.cc", "#include \"tools/render/base/table.h\"\n"),
              ElementsAre("python/module/a.cc:1: python may not include tools/render/base/table.h"));
  EXPECT_THAT(broken("python/module/a.cc", "#include \"search/problem.h\"\n"), IsEmpty());
  EXPECT_THAT(broken("tools/cli/python/a.cc",
                     "#include \"python/module/bindings.h\"\n#include \"tools/cli/run_pipesim.h\"\n"),
              IsEmpty());
  EXPECT_THAT(broken("tools/cli/commands/a.cc", "#include \"python/module/bindings.h\"\n"),
              ElementsAre("tools/cli/commands/a.cc:1: tools/cli may not include python/module/bindings.h"));
  EXPECT_THAT(broken("tools/main.cc", "#include \"tools/cli/python/command_call.h\"\n"),
              ElementsAre("tools/main.cc:1: tools may not include tools/cli/python/command_call.h"));
}

TEST(IncludeRules, AnalysisMakesNoJson) {
  EXPECT_THAT(broken("tools/analysis/plans/a.h", "#include <nlohmann/json_fwd.hpp>\n"),
              ElementsAre("tools/analysis/plans/a.h:1: declarations of nlohmann JSON (nlohmann/json_fwd.hpp) "
                          "may be included only in other folders than tools/analysis"));
  EXPECT_THAT(
      broken("tools/analysis/plans/a.cc", "#include <nlohmann/json.hpp>\n"),
      ElementsAre("tools/analysis/plans/a.cc:1: nlohmann JSON (nlohmann/json.hpp) may be included only "
                  "in .cc files outside tools/analysis"));
  EXPECT_THAT(broken("tools/render/plans/a.h", "#include <nlohmann/json_fwd.hpp>\n"), IsEmpty());
}

TEST(IncludeRules, ModelsAndTopologiesDoNotKnowEachOther) {
  EXPECT_THAT(broken("models/a.cc", "#include \"topologies/topology.h\"\n"),
              ElementsAre("models/a.cc:1: models may not include topologies/topology.h"));
  EXPECT_THAT(broken("topologies/a.cc", "#include \"models/operator.h\"\n"),
              ElementsAre("topologies/a.cc:1: topologies may not include models/operator.h"));
}

TEST(IncludeRules, CatchNamesThatDoNotStartAtTheRoot) {
  EXPECT_THAT(
      broken("sim/a.cc", "#include \"task_dag.h\"\n"),
      ElementsAre("sim/a.cc:1: \"task_dag.h\" must be named from the repository's root, like \"sim/…\""));
  EXPECT_THAT(
      broken("sim/a.cc", "#include \"../models/operator.h\"\n"),
      ElementsAre("sim/a.cc:1: \"../models/operator.h\" must be named from the repository's root, like "
                  "\"sim/…\""));
}

TEST(IncludeRules, CatchPackagesBeyondTheirPlace) {
  EXPECT_THAT(broken("models/json.h", "#include <nlohmann/json.hpp>\n"),
              ElementsAre("models/json.h:1: nlohmann JSON (nlohmann/json.hpp) may be included only in .cc "
                          "files outside tools/analysis"));
  EXPECT_THAT(
      broken("topologies/topology.cc", "#include <boost/graph/dijkstra_shortest_paths.hpp>\n"),
      ElementsAre("topologies/topology.cc:1: Boost.Graph (boost/graph/dijkstra_shortest_paths.hpp) may be "
                  "included only in topologies/routing.cc and models/topological_order.cc"));
  EXPECT_THAT(broken("tools/cli/run_pipesim.cc", "  #  include <boost/program_options.hpp> // why not\n"),
              ElementsAre("tools/cli/run_pipesim.cc:1: Boost.Program_options (boost/program_options.hpp) may "
                          "be included only in tools/cli/base/arguments.cc"));
  EXPECT_THAT(
      broken("sim/a.cc", "#include <tbb/parallel_for.h>\n"),
      ElementsAre("sim/a.cc:1: oneTBB (tbb/parallel_for.h) may be included only in taskgraph and search"));
  EXPECT_THAT(
      broken("executor/cpu/a.cc", "#include <cuda_runtime.h>\n"),
      ElementsAre("executor/cpu/a.cc:1: CUDA (cuda_runtime.h) may be included only in executor/cuda"));
  EXPECT_THAT(broken("tools/a.h", "#include <gtest/gtest.h>\n"),
              ElementsAre("tools/a.h:1: GoogleTest (gtest/gtest.h) may be included only in tests"));
  EXPECT_THAT(broken("sim/a.cc", "#include <boost/any.hpp>\n"),
              ElementsAre("sim/a.cc:1: no rule says where boost/any.hpp may be included"));
}

TEST(IncludeRules, AllowWhatTheLayersAllow) {
  EXPECT_THAT(broken("tools/running/a.cc",
                     "#include \"sim/base/units.h\"\n"
                     "#include \"executor/a.h\"\n"
                     "#include <vector>\n"),
              IsEmpty());
  EXPECT_THAT(broken("search/a.cc",
                     "#include <tbb/parallel_for.h>\n"
                     "#include \"costmodel/cost_model.h\"\n"),
              IsEmpty());
  EXPECT_THAT(broken("executor/cuda/a.cc", "#include <cuda_runtime.h>\n"), IsEmpty());
}

TEST(IncludeRules, CatchAPlantedCircle) {
  const std::vector<SourceFile> files = {{"sim/a.h", "#include \"sim/b.h\"\n"},
                                         {"sim/b.h", "#include \"sim/c.h\"\n"},
                                         {"sim/c.h", "#include \"sim/b.h\"\n"}};
  EXPECT_EQ(include_cycle(files), "sim/b.h -> sim/c.h -> sim/b.h");
}

TEST(IncludeRules, CatchAPlantedCircleOfFolders) {
  const std::vector<SourceFile> files = {
      {"sim/a.h", "#include \"sim/base/b.h\"\n#include \"sim/c.h\"\n"},
      {"sim/base/b.h", ""},
      {"sim/base/d.cc", "#include \"sim/base/b.h\"\n#include \"sim/c.h\"\n"},
      {"sim/c.h", ""}};
  EXPECT_EQ(include_cycle(files), "");
  EXPECT_EQ(room_cycle(files), "sim -> sim/base -> sim");
}

}  // namespace
}  // namespace pipesim
