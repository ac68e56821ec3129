#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/slow_test.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::string plan_of_recipe(const TemporaryFolder& folder, const std::string& model, const std::string& recipe,
                           const std::string& batch = "64", const std::string& topology = "dgx-h100:1",
                           const std::string& framework = "pipesim") {
  std::string file = folder.path("plan.json");
  pipesim_run({"simulate", "--model", model, "--topology", topology, "--batch", batch, "--recipe", recipe,
               "--for", framework, "-o", file});  // it need not fit into memory
  EXPECT_TRUE(fs::exists(file)) << recipe;
  return file;
}

std::string written_for_main(const std::string& plan) {
  return "pipesim: " + plan +
         ": written for Megatron-LM's main branch (d98e8a64dd of August 2026, core 0.20); --to "
         "megatron:VERSION names another of 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19, main\n";
}

TEST(Export, WritesFilesAndReplacesThemOnlyWithForce) {
  const TemporaryFolder folder;
  const std::string plan = plan_of_recipe(folder, "llama3-8b", "tp4,dp2,sp,mbs1,zero1");
  const std::string out = folder.path("run");
  const std::vector<std::string> command{"export", "--plan", plan, "--to", "megatron", "-o", out};
  const Outcome written{0,
                        "tp4,dp2,sp,mbs1,zero1 for Megatron-LM, on a host of 8 devices\n  " + out +
                            "/megatron.args\n  " + out + "/launch.sh\n  " + out + "/hostfile\n  " + out +
                            "/ranks.csv\n",
                        written_for_main(plan)};
  EXPECT_EQ(pipesim_run(command), written);
  write_file(out + "/hostfile", "mine\n");
  EXPECT_EQ(pipesim_run(command),
            (Outcome{1, "", "pipesim: " + out + "/megatron.args: is there already; --force replaces it\n"}));
  EXPECT_EQ(read_file(out + "/hostfile"), "mine\n");
  fs::remove(out + "/megatron.args");
  EXPECT_EQ(pipesim_run(command),
            (Outcome{1, "", "pipesim: " + out + "/launch.sh: is there already; --force replaces it\n"}));
  EXPECT_FALSE(fs::exists(out + "/megatron.args"));
  std::vector<std::string> forced = command;
  forced.emplace_back("--force");
  EXPECT_EQ(pipesim_run(forced), written);
  EXPECT_EQ(read_file(out + "/hostfile"), "node0 slots=8\n");
}

// The plan that is read back is the plan that was written, byte for byte.
TEST(Export, ReadsBackToTheSamePlanFile) {
  const TemporaryFolder folder;
  const std::string back = folder.path("back.json"), out = folder.path("run");
  for (const auto& [model, recipe] :
       {std::pair{
            "llama3-8b",
            "tp2,pp2,dp2,sp,mbs1,zero1,overlap=gather,recompute=selective,reduce=overlapped,tp-overlap"},
        {"llama3-8b:layers=30", "pp4,vpp2,dp2,mbs2,first=7,last=7,zero1"},
        {"llama3-8b:products=float8", "tp2,dp4,sp,mbs1,zero1"},
        {"gpt3-1.3b:vocab=50304", "tp2,cp2,ring,dp2,mbs2,recompute=full"},
        {"mixtral-8x7b:layers=4", "dp8,ep8,etp1,mbs1,zero1"},
        {"llama3-8b:layers=4,rotary_scaling=llama3,rotary_factor=32", "dp8,mbs1,zero1"},
        {"llama3-8b:layers=4,rotary_scaling=yarn,rotary_factor=4,norm_epsilon=1e-06", "dp8,mbs1,zero1"},
        {"deepseek-v3:layers=4,router_scale=2,init_deviation=0.02", "dp8,ep8,etp1,mbs1,zero1"},
        {"deepseek-v3:layers=4,rotary_scaling=none", "dp8,ep8,etp1,mbs1,zero1"},
        {"qwen3-8b:layers=4", "cp4,ulysses=2,ring,dp2,mbs1,zero3"}}) {
    const std::string plan = plan_of_recipe(folder, model, recipe, "64", "dgx-h100:1", "megatron");
    ASSERT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", out, "--force"}).status, 0);
    const Outcome read = pipesim_run(
        {"import", "plan", out + "/megatron.args", "--topology", "dgx-h100:1", "--seconds", "0", "-o", back});
    // Some of them do not fit, which is all that may be told.
    EXPECT_THAT(read.err, testing::MatchesRegex("(pipesim: [^:]+: the plan does not fit: [^\n]+\n)?"))
        << recipe;
    EXPECT_TRUE(read_file(back) == read_file(plan)) << recipe;
  }
}

SLOW_TEST(Export, RefusesWithTheNearestRecipeAndItsCost) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  const std::string plan = plan_of_recipe(folder, "llama3-8b:layers=8", "pp4,dp2,mbs1,schedule=zb-h1");
  const Outcome megatron = pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", out});
  EXPECT_EQ(megatron.status, 1);
  EXPECT_THAT(
      megatron.err,
      testing::MatchesRegex(
          "pipesim: .*plan.json: Megatron-LM can't run this plan: schedule=zb-h1: its pipelines run "
          "1f1b, or interleaved where there is vpp; the best that it runs is [^ ]+: [0-9.]+ "
          "m?s an iteration, [0-9.]+ % less than [0-9.]+ m?s; \"pipesim simulate --model "
          "llama3-8b:layers=8,batch=2 --topology dgx-h100:1 --batch 64 --for megatron --recipe [^ ]+ -o "
          "FILE\" writes it\n"));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(
      pipesim_run({"export", "--plan", plan, "--to", "torchtitan", "-o", out}).err,
      "pipesim: " + plan +
          ": torchtitan can't run this plan: model \"llama3-8b:layers=8,batch=2\": it has llama3 "
          "debugmodel, 1B, 3B, 8B, 70B, 405B; deepseek_v3 671B; qwen3 0.6B, 1.7B, 4B, 8B, 14B, 32B, 30B-A3B, "
          "235B-A22B, with any sequence; --base names one of yours; dp2 without FSDP: its DDP goes with no "
          "other parallelism\n");
}

// The command that the message names writes a plan of the time that it says, which can be exported.
SLOW_TEST(Export, NamesTheBestRecipeOfTheFramework) {
  const TemporaryFolder folder;
  const std::string plan =
      plan_of_recipe(folder, "llama3-70b", "tp8,pp8,sp,mbs1,recompute=full,zero1", "64", "dgx-h100:8");
  const Outcome outcome =
      pipesim_run({"export", "--plan", plan, "--to", "deepspeed", "-o", folder.path("run")});
  const std::string before = "; the best that it runs is ";
  const std::size_t at = outcome.err.find(before);
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const std::string rest = outcome.err.substr(at + before.size());
  const std::string recipe = rest.substr(0, rest.find(':')),
                    time = rest.substr(recipe.size() + 2, rest.find(" an iteration") - recipe.size() - 2);
  const std::string best = folder.path("best.json");
  const Outcome simulated =
      pipesim_run({"simulate", "--model", "llama3-70b:batch=1", "--topology", "dgx-h100:8", "--batch", "64",
                   "--for", "deepspeed", "--recipe", recipe, "-o", best});
  EXPECT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_THAT(simulated.out, HasSubstr("  iteration      " + time + "\n"));
  EXPECT_EQ(pipesim_run({"export", "--plan", best, "--to", "deepspeed", "-o", folder.path("best")}).status,
            0);
}

// A plan for Megatron-LM says what its kernels keep; those of torchtitan keep more.
SLOW_TEST(Export, NamesTheBestOfWhatTheOtherFrameworkKeeps) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), best = folder.path("best.json");
  ASSERT_EQ(pipesim_run({"simulate", "--model", "llama3-8b", "--topology", "dgx-h100", "--batch", "16",
                         "--for", "megatron", "--recipe", "tp8,dp1,sp,mbs1,zero1", "-o", plan})
                .status,
            0);
  EXPECT_THAT(read_file(plan), HasSubstr("kept=megatron"));
  const Outcome outcome = pipesim_run(
      {"export", "--plan", plan, "--to", "torchtitan", "--seconds", "600", "-o", folder.path("run")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("; the best that it runs"), HasSubstr("kept=torch"),
                                 testing::Not(HasSubstr("kept=megatron"))));
}

TEST(Export, NamesAnOperatorThatIsSplitOtherwise) {
  const TemporaryFolder folder;
  const std::string plan = plan_of_recipe(folder, "llama3-8b:layers=2", "tp4,dp2,mbs1");
  std::string text = read_file(plan);
  const std::string before = R"({"operator":"layer1.gate","split":[["b",2],["o",4]])";
  const std::size_t at = text.find(before);
  ASSERT_NE(at, std::string::npos) << text.substr(0, 3000);
  text.replace(at, before.size(), R"({"operator":"layer1.gate","split":[["b",2],["s",4]])");
  write_file(plan, text);
  const Outcome outcome =
      pipesim_run({"export", "--plan", plan, "--to", "deepspeed", "-o", folder.path("run")});
  EXPECT_THAT(
      outcome.err,
      HasSubstr("DeepSpeed can't run this plan: operator \"layer1.gate\": is split or placed otherwise "
                "than tp4,dp2,mbs1 says, and frameworks split all layers alike; the best that it runs is "));
}

TEST(Export, SaysWhatTheFrameworkDoesOtherwise) {
  const TemporaryFolder folder;
  const std::string plan = plan_of_recipe(folder, "mixtral-8x7b:layers=2,loss_chunks=4,token_groups=1",
                                          "tp2,dp4,ep4,etp1,sp,mbs1,zero1");
  EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", folder.path("run")}).err,
            written_for_main(plan) + "pipesim: " + plan +
                ": token_groups=1: Megatron-LM hands out the tokens of each device by themselves, as "
                "token_groups=2 does\npipesim: " +
                plan + ": left out is loss_chunks=4, which belongs to the model's own code\n");
  const nlohmann::json json =
      nlohmann::json::parse(pipesim_run({"export", "--plan", plan, "--to", "megatron:0.15", "-o",
                                         folder.path("run"), "--force", "--json"})
                                .out);
  EXPECT_EQ(json["notes"],
            (std::vector<std::string>{"token_groups=1: Megatron-LM hands out the tokens of each device by "
                                      "themselves, as token_groups=2 does",
                                      "left out is loss_chunks=4, which belongs to the model's own code"}));
}

TEST(Export, SaysThatHowTokensTravelIsTheCodesOwn) {
  const TemporaryFolder folder;
  const std::string plan = plan_of_recipe(
      folder, "mixtral-8x7b:layers=2,kept=megatron,swiglu_inputs=float8,dispatch=float8,token_nodes=2",
      "dp8,ep8,etp1,mbs1,zero1");
  const nlohmann::json json = nlohmann::json::parse(
      pipesim_run({"export", "--plan", plan, "--to", "megatron:0.15", "-o", folder.path("run"), "--json"})
          .out);
  EXPECT_EQ(json["notes"], (std::vector<std::string>{
                               "left out is token_nodes=2, which belongs to the model's own code",
                               "left out is dispatch=float8, which belongs to the model's own code",
                               "left out is swiglu_inputs=float8, which belongs to the model's own code"}));
}

// The launch script starts with no other version than its own.
TEST(Export, StartsOnlyTheVersionThatItIsFor) {
  const TemporaryFolder folder;
  const std::string plan = plan_of_recipe(folder, "llama3-8b:layers=4", "dp8,mbs1,zero1");
  const std::string out = folder.path("run");
  EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron:0.15", "-o", out}).err, "");
  fs::create_directories(folder.path("source/megatron/core"));
  fs::create_directories(folder.path("bin"));
  write_file(folder.path("bin/torchrun"), "#!/bin/sh\necho started\n");
  fs::permissions(folder.path("bin/torchrun"), fs::perms::owner_all);
  const auto started = [&](const std::string& minor) {
    write_file(folder.path("source/megatron/core/package_info.py"),
               "MAJOR = 0\nMINOR = " + minor + "\nPATCH = 3\n");
    const std::string said = folder.path("said");
    const int status = std::system(("cd " + folder.path("source") + " && PATH=" + folder.path("bin") +
                                    ":$PATH sh " + out + "/launch.sh >" + said + " 2>&1")
                                       .c_str());
    return fmt::format("{} {}", status == 0 ? "yes" : "no", read_file(said));
  };
  EXPECT_EQ(started("15"), "yes started\n");
  EXPECT_EQ(started("16"), "no " + out +
                               "/launch.sh: found Megatron-LM core 0.16, allowed: 0.15; pipesim export --to "
                               "megatron:VERSION writes for others, ANY_VERSION=1 starts it all the same\n");
}

TEST(Export, RefusesVersionsThatItDoesNotKnow) {
  EXPECT_EQ(
      pipesim_run({"export", "--plan", "x", "--to", "torchtitan:0.3", "-o", "y"}).err,
      "pipesim: export: --to torchtitan:0.3: found version \"0.3\" of torchtitan, allowed: 0.2, main; see "
      "\"pipesim help export\"\n");
}

// What a config.json says of its model is what Megatron-LM is told.
TEST(Export, WritesTheModelOfAConfigFile) {
  const TemporaryFolder folder;
  const std::string plan =
      plan_of_recipe(folder, PIPESIM_SOURCE_DIR "/docs/examples/config.json:layers=4", "dp8,mbs1,zero1");
  const std::string out = folder.path("run");
  ASSERT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", out}).status, 0);
  EXPECT_THAT(read_file(out + "/megatron.args"),
              HasSubstr("--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 1\n"
                        "--use-rope-scaling\n--rope-scaling-factor 32\n--normalization RMSNorm\n"
                        "--norm-epsilon 1e-05\n"));
}

TEST(Export, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron", "-o", folder.path("run")}).err,
            "pipesim: model \"lenet\": frameworks are given the sizes of a decoder, allowed: gpt, llama, "
            "mixtral, qwen3, "
            "deepseek and decoder models of the zoo, or a config.json of Hugging Face\n");
  EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatron"}).err,
            "pipesim: export: --output is missing; see \"pipesim help export\"\n");
  EXPECT_EQ(
      pipesim_run({"export", "--plan", plan, "-o", "x"}).err,
      "pipesim: export: --to is missing: the framework that the plan is written for; see \"pipesim help "
      "export\"\n");
  EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "megatorn", "-o", "x"}).err,
            "pipesim: export: option --to is one of megatron, torchtitan, deepspeed, mlir, instance, not "
            "\"megatorn\" (did "
            "you mean \"megatron\"?); see \"pipesim help export\"\n");
}

SLOW_TEST(ImportPlan, JudgesARunAgainstTheBestRecipe) {
  const TemporaryFolder folder;
  const std::string script = folder.path("run.sh"), plan = folder.path("yours.json");
  write_file(script,
             "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
             "--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --bf16 "
             "--tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 16 --vocab-size 1023 "
             "--tokenizer-type NullTokenizer --hidden-dropout 0 --fp8-margin 0\n");
  const Outcome outcome = pipesim_run({"import", "plan", script, "--topology", "dgx-h100:1", "-o", plan});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("  model      gpt"));
  EXPECT_THAT(outcome.out, HasSubstr("  recipe     tp8,dp1,mbs1\n  batch      16 in 16 microbatches of 1\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("  memory     174 MB on the fullest device, which fits\n  iteration  173 ms\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex(
                               "\nthe single changes that gain most\n  --micro-batch-size 2 instead of 1: "
                               "86.3 ms, 50.0 % less, 230 MB\n"));
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("\nthe best of [0-9,]+ recipes that Megatron-LM runs, proven\n  "
                                     "[^ \n]+\n  iteration  [0-9.]+ ms, [0-9.]+ % less, because "
                                     "[^\n]+\n  memory     [^\n]+, which fits\n"));
  EXPECT_EQ(pipesim_run({"simulate", "--plan", plan}).status, 0);
  const nlohmann::json json = nlohmann::json::parse(
      pipesim_run({"import", "plan", script, "--topology", "dgx-h100:1", "--json"}).out);
  EXPECT_EQ(json["yours"]["recipe"], "tp8,dp1,mbs1");
  EXPECT_EQ(json["framework"], "megatron");
  EXPECT_EQ(json["proven"], true);
  EXPECT_EQ(json["changes"].size(), 3);
  EXPECT_EQ(json["changes"][0]["change"], "--micro-batch-size 2 instead of 1");
  EXPECT_LT(json["best"]["iteration_time_s"], json["yours"]["iteration_time_s"]);
  EXPECT_THAT(json["because"].get<std::string>(), testing::StartsWith("because "));
  // What frameworks' rules are not about is judged all the same.
  const std::string t5 = folder.path("t5.sh");
  write_file(
      t5,
      "torchrun --nproc-per-node 8 pretrain_t5.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--kv-channels 16 --seq-length 64 --decoder-seq-length 32 --max-position-embeddings 64 "
      "--vocab-size 512 --micro-batch-size 1 --global-batch-size 8\n");
  const Outcome judged = pipesim_run({"import", "plan", t5, "--topology", "dgx-h100"});
  EXPECT_EQ(judged.status, 0);
  EXPECT_THAT(judged.err, HasSubstr("no other recipes are ranked: model \"t5-"));
  EXPECT_THAT(judged.out, HasSubstr("on the fullest device, which fits"));
  EXPECT_EQ(pipesim_run({"import", "plan", script}).err,
            "pipesim: import: --topology is missing: a plan needs the devices that it runs on\n");
  EXPECT_THAT(pipesim_run({"import", "plan", script, "--topology", "dgx-h100:2", "--seconds", "0"}).err,
              HasSubstr(script + ": --nproc-per-node: 8 devices are launched, taken are the 16 of topology "
                                 "\"dgx-h100:2\"\n"));
  // What does not fit ends with status 1, and says why where other errors are.
  const std::string large = folder.path("large.sh");
  write_file(large,
             "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
             "--num-attention-heads 16 --seq-length 1048576 --max-position-embeddings 1048576 "
             "--micro-batch-size 1 --global-batch-size 8 --vocab-size 1023\n");
  const Outcome refused =
      pipesim_run({"import", "plan", large, "--topology", "dgx-h100:1", "--seconds", "0"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("pipesim: " + large + ": the plan does not fit: gpu0 needs "));
  // What PyTorch's allocator is told stands in the plan.
  write_file(script, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + read_file(script));
  EXPECT_EQ(pipesim_run({"import", "plan", script, "--topology", "dgx-h100:1", "--seconds", "0", "-o", plan})
                .status,
            0);
  EXPECT_EQ(nlohmann::json::parse(read_file(plan))["runtime"],
            "megatron:gradient-sums=in-products,segments=expandable");
  EXPECT_EQ(pipesim_run({"import", "plan"}).err,
            "pipesim: import: a plan is read from a FILE, and there is none\n");
  EXPECT_EQ(pipesim_run({"import", "model", script, "--seconds", "2"}).err,
            "pipesim: import: --seconds goes with plan\n");
}

}  // namespace
}  // namespace pipesim
