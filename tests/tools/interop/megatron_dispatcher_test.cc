// How tokens get to experts, read from and written for Megatron-LM.
#include <gtest/gtest.h>

#include <string>

#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "tests/tools/interop/megatron_case.h"
#include "tools/interop/frameworks.h"

namespace pipesim {
namespace {

TEST(MegatronDispatcher, IsReadAsItIsWritten) {
  for (const auto& [recipe, flags] :
       {std::pair<std::string, std::string>{"dp8,ep8,mbs1,schedule=interleaved-beside:1",
                                            "--overlap-moe-expert-parallel-comm\n"},
        {"pp2,vpp2,dp4,ep4,mbs1,schedule=interleaved-beside:3",
         "--overlap-moe-expert-parallel-comm\n--microbatch-group-size-per-virtual-pipeline-stage 3\n"},
        {"dp8,ep8,mbs1", ""}}) {
    FrameworkPlan plan = framework_plan("mixtral-8x7b", parse_recipe(recipe), make_topology("dgx-h100:1"), 9);
    plan.dispatcher = Dispatcher::HybridEp;
    plan.dispatcher_multiprocessors = 32;
    EXPECT_TRUE(framework_named("megatron").refusals(plan).empty()) << recipe;
    const std::string text = content_named(megatron_files(plan), "megatron.args");
    EXPECT_NE(text.find(flags), std::string::npos) << text;
    EXPECT_EQ(text.find("--overlap-moe") == std::string::npos, flags.empty());
    EXPECT_NE(text.find("--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep\n"
                        "--moe-hybridep-num-sms 32\n"),
              std::string::npos)
        << text;
    const FrameworkRun run = run_of_text(text, 8);
    EXPECT_EQ(run.recipe.str(), parse_recipe(recipe).str());
    EXPECT_EQ(run.dispatcher, Dispatcher::HybridEp);
    EXPECT_EQ(run.dispatcher_multiprocessors, 32);
  }
}

TEST(MegatronDispatcher, HasDeepEpAsTheFlexibleOneOfOlderCores) {
  const FrameworkRun run = run_of_text(
      kUsualArguments + "--num-experts 8 --moe-token-dispatcher-type flex --moe-enable-deepep ", 8);
  EXPECT_EQ(run.dispatcher, Dispatcher::DeepEp);
  EXPECT_EQ(
      run_of_text(kUsualArguments + "--num-experts 8 --moe-token-dispatcher-type alltoall ", 8).dispatcher,
      Dispatcher::AsModel);
}

TEST(MegatronDispatcher, RefusesWhatMegatronDoes) {
  const auto reasons = [](const std::string& recipe, const char* version) {
    const FrameworkPlan plan =
        with_version(framework_plan("mixtral-8x7b", parse_recipe(recipe), make_topology("dgx-h100:1")),
                     "megatron", version);
    std::string text;
    for (const Refusal& r : framework_named("megatron").refusals(plan)) text += r.reason + ";";
    return text;
  };
  EXPECT_EQ(reasons("dp8,ep8,mbs1,schedule=interleaved-beside:1", "0.13"),
            "--overlap-moe-expert-parallel-comm came with core 0.14;");
  EXPECT_EQ(reasons("dp8,mbs1,schedule=interleaved-beside:1", "main"),
            "it runs forward beside backward where ep divides experts;");
  EXPECT_EQ(reasons("pp2,dp4,ep4,mbs1,schedule=interleaved-beside:2", "main"),
            "it runs forward beside backward where there is vpp;");
  EXPECT_EQ(reasons("dp8,ep8,mbs1,recompute=full,schedule=interleaved-beside:1", "main"),
            "it runs forward beside backward of layers that are kept;");
  EXPECT_EQ(refusal([] {
              run_of_text(kUsualArguments +
                              "--num-experts 8 --expert-model-parallel-size 2 "
                              "--pipeline-model-parallel-size 2 --overlap-moe-expert-parallel-comm ",
                          8);
            }),
            "run.sh:1: --overlap-moe-expert-parallel-comm: pipelines need several stages a rank for it, by "
            "--num-virtual-stages-per-pipeline-rank");
}

}  // namespace
}  // namespace pipesim
