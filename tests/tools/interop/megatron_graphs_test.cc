// CUDA graphs, read from and written for Megatron-LM.
#include <gmock/gmock.h>

#include <string>

#include "tests/tools/interop/megatron_case.h"
#include "tools/interop/frameworks.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

FrameworkPlan graphed_plan(const std::string& graphs, const char* version,
                           const std::string& model = "mixtral-8x7b") {
  FrameworkPlan plan = with_version(
      framework_plan(model, parse_recipe("dp8,mbs1"), make_topology("dgx-h100:1")), "megatron", version);
  plan.graphs = parse_cuda_graphs(graphs);
  return plan;
}

std::string graph_refusals(const FrameworkPlan& plan) {
  std::string text;
  for (const Refusal& r : framework_named("megatron").refusals(plan)) text += r.reason + ";";
  return text;
}

TEST(MegatronGraphs, AreReadAsTheyAreWritten) {
  for (const char* version : {"0.16", "0.18", "main"}) {
    for (const char* graphs : {"none", "iteration", "attn", "attn+moe_router+moe_preprocess"}) {
      const FrameworkPlan plan = graphed_plan(graphs, version);
      EXPECT_EQ(graph_refusals(plan), "") << graphs;
      const std::string text = content_named(megatron_files(plan), "megatron.args");
      EXPECT_EQ(name_of(run_of_text(text, 8).graphs), graphs) << version << "\n" << text;
    }
  }
}

TEST(MegatronGraphs, HaveTheNamesOfTheVersion) {
  const auto text = [](const char* graphs, const char* version) {
    return content_named(megatron_files(graphed_plan(graphs, version)), "megatron.args");
  };
  EXPECT_THAT(text("attn+moe_router", "0.16"),
              HasSubstr("--cuda-graph-impl transformer_engine\n--cuda-graph-scope attn moe_router\n"));
  EXPECT_THAT(text("attn+moe_router", "main"), HasSubstr("--cuda-graph-modules attn moe_router\n"));
  EXPECT_THAT(text("iteration", "0.16"),
              HasSubstr("--cuda-graph-impl local\n--cuda-graph-scope full_iteration\n"));
  EXPECT_THAT(text("iteration", "main"), HasSubstr("--cuda-graph-impl full_iteration\n"));
  EXPECT_THAT(text("none", "main"), Not(HasSubstr("graph")));
}

TEST(MegatronGraphs, OfOtherFormsMeanTheSame) {
  const auto graphs = [](const std::string& arguments) {
    const FrameworkRun run = run_of_text(kUsualArguments + arguments, 8);
    EXPECT_THAT(run.left_out, IsEmpty());
    return name_of(run.graphs);
  };
  EXPECT_EQ(graphs("--enable-cuda-graph "), "layer");
  EXPECT_EQ(graphs("--external-cuda-graph --cuda-graph-scope attn "), "attn");
  EXPECT_EQ(graphs("--cuda-graph-impl transformer_engine --cuda-graph-scope full "), "layer");
  EXPECT_EQ(graphs("--cuda-graph-impl local --cuda-graph-scope full_iteration "), "iteration");
  EXPECT_EQ(graphs("--cuda-graph-impl local --cuda-graph-modules attn moe_router "),
            "attn+moe_router+moe_preprocess");
  EXPECT_EQ(graphs("--cuda-graph-impl none --cuda-graph-scope attn "), "none");
  EXPECT_THAT(
      run_of_text(kUsualArguments + "--cuda-graph-impl local --cuda-graph-modules attn all ", 8).left_out,
      testing::ElementsAre("--cuda-graph-modules: all is launched kernel by kernel"));
  EXPECT_THAT(run_of_text(kUsualArguments + "--cuda-graph-impl other ", 8).left_out,
              testing::ElementsAre(HasSubstr("other is not known")));
}

TEST(MegatronGraphs, AreRefusedAsMegatronDoes) {
  EXPECT_THAT(graph_refusals(graphed_plan("attn", "0.14")), HasSubstr("came with core 0.15"));
  EXPECT_THAT(graph_refusals(graphed_plan("attn", "0.15")), HasSubstr("from core 0.16 on"));
  EXPECT_EQ(graph_refusals(graphed_plan("iteration", "0.15")), "");
  EXPECT_THAT(graph_refusals(graphed_plan("layer", "main")), HasSubstr("fixed number of tokens"));
  EXPECT_THAT(graph_refusals(graphed_plan("attn+mlp", "main")), HasSubstr("a layer has no experts"));
  EXPECT_THAT(graph_refusals(graphed_plan("attn+moe_router", "main", "llama3-8b")),
              HasSubstr("there are experts"));
  EXPECT_EQ(graph_refusals(graphed_plan("layer", "main", "llama3-8b")), "");
  FrameworkPlan again = graphed_plan("attn", "main", "llama3-8b");
  again.recipe.recompute = parse_recompute("full");
  EXPECT_THAT(graph_refusals(again), HasSubstr("with the whole iteration alone"));
  again.graphs = parse_cuda_graphs("iteration");
  EXPECT_EQ(graph_refusals(again), "");
}

}  // namespace
}  // namespace pipesim
