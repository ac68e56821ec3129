#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/tools/interop/framework_case.h"
#include "tests/tools/interop/megatron_case.h"
#include "tools/interop/megatron/megatron_run.h"

namespace pipesim {
namespace {

TEST(Megatron, ReadsDeepSpeedsConfiguration) {
  const std::string script =
      "CONFIG=\"./ds.$JOB.json\"\ncat <<EOT > $CONFIG\n{\"zero_optimization\": {\"stage\": 2%s}}\nEOT\n"
      "deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py " +
      kUsualArguments + "--fp16 --deepspeed --deepspeed_config $CONFIG\n";
  const auto file_with = [&](const std::string& more) {
    std::string text = script;
    return MegatronFile::parse(text.replace(text.find("%s"), 2, more), kMegatronFile);
  };
  EXPECT_EQ(megatron_run(file_with(""), 8).launched, 8);
  EXPECT_EQ(megatron_run(file_with(""), 8).recipe.str(), "dp8,mbs1,zero2");
  EXPECT_EQ(
      megatron_run(file_with(", \"offload_optimizer\": {\"device\": \"cpu\"}"), 8).left_out,
      (std::vector<std::string>{
          "./ds.$JOB.json: zero_optimization.offload_optimizer.device: the optimizer's state stays on the "
          "devices, and so does its update"}));
  // What the runtime says by default is not told.
  EXPECT_EQ(megatron_run(file_with(", \"reduce_bucket_size\": 2e8, \"sub_group_size\": 1e9, "
                                   "\"stage3_max_reuse_distance\": 1000000000"),
                         8)
                .left_out,
            (std::vector<std::string>{"./ds.$JOB.json: zero_optimization.reduce_bucket_size: --runtime "
                                      "deepspeed:buckets=… says it"}));
  const FrameworkRun run = run_of_text(kUsualArguments + "--deepspeed --deepspeed-config none.json", 8);
  EXPECT_EQ(run.left_out,
            (std::vector<std::string>{"--deepspeed-config: none.json is not there, so no state is sharded"}));
}

// What arguments do not say stands in the configuration, where a script names it.
TEST(Megatron, TakesFromDeepSpeedsConfigurationWhatArgumentsDoNotSay) {
  const auto run_with = [](const std::string& json, const std::string& more) {
    return run_of_text(
        "cat <<EOT > ds.json\n" + json +
            "\nEOT\ndeepspeed pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 "
            "--seq-length 64 --max-position-embeddings 64 --vocab-size 512 --deepspeed "
            "--deepspeed_config ds.json " +
            more + "\n",
        8);
  };
  const std::string json =
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 3, "overlap_comm": true, "stage3_max_live_parameters": 1e9},
          "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
          "data_types": {"grad_accum_dtype": "bf16"}, "gradient_cliping": 1, "sequence_parallel_size": 2})";
  const FrameworkRun run = run_with(json, "");
  EXPECT_EQ(run.recipe.str(), "cp2,ulysses=2,dp4,mbs2,zero3");
  EXPECT_EQ(run.samples, 32);
  EXPECT_EQ(decoder_sizes(run.model).type, DataType::BFloat16);
  EXPECT_EQ(run.gradient_type, DataType::BFloat16);
  EXPECT_EQ(run.optimizer, Optimizer::Momentum);
  EXPECT_EQ(run.left_out, (std::vector<std::string>{
                              "ds.json: gradient_cliping: no version of DeepSpeed has it, so it is left out "
                              "(did you mean \"gradient_clipping\"?)"}));
  const std::string narrow =
      R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "optimizer": {"type": "Lion"},
          "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})";
  EXPECT_EQ(run_with(narrow, "").optimizer.str(), "lion,moments=bfloat16,main=bfloat16");
  EXPECT_EQ(run_with(narrow, "--optimizer adam").optimizer.str(), "adam,moments=bfloat16,main=bfloat16");
  EXPECT_TRUE(run_with(narrow, "").left_out.empty());
  const std::string torch =
      R"({"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})";
  EXPECT_EQ(run_with(torch, "").optimizer_kernel, OptimizerKernel::Foreach);
  EXPECT_EQ(run_with(torch, "--optimizer adam").optimizer_kernel, std::nullopt);
  EXPECT_EQ(run_with(narrow, "").optimizer_kernel, std::nullopt);
  EXPECT_EQ(run_with(json, "--micro-batch-size 1 --global-batch-size 8 --zero-stage 1 --optimizer adam")
                .left_out[1],
            "--deepspeed-config: train_micro_batch_size_per_gpu is 2, and 1 is taken of the arguments");
  EXPECT_EQ(refusal([&] { run_with(R"({"zero_optimization": {"stage": 4}})", ""); }),
            "ds.json: zero_optimization.stage: found 4, allowed: 0, 1, 2, 3");
  EXPECT_EQ(refusal([&] { run_with(R"({"train_micro_batch_size_per_gpu": "two"})", ""); }),
            "ds.json: train_micro_batch_size_per_gpu: found \"two\", allowed: a whole number from 1 to "
            "1099511627776");
  EXPECT_EQ(refusal([&] { run_with(R"({"train_micro_batch_size_per_gpu": "auto"})", ""); }),
            "run.sh: --micro-batch-size is missing");
}

// DeepSpeed fills stages up to the largest share, and counts embeddings where it is told to.
TEST(Megatron, DividesLayersAsDeepSpeed) {
  const auto recipe_of = [](int layers, const std::string& more) {
    return run_of_text(fmt::format("--num-layers {} --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
                                   "--micro-batch-size 1 --vocab-size 512 --pipeline-model-parallel-size 4 "
                                   "--deepspeed --zero-stage 0 {}",
                                   layers, more),
                       4)
        .recipe.str();
  };
  EXPECT_EQ(recipe_of(8, ""), "pp4,dp1,mbs1");
  EXPECT_EQ(recipe_of(10, "--pp-partition-method 'type:transformer|embedding'"), "pp4,dp1,mbs1");
  EXPECT_EQ(divide_layers(parse_recipe("pp4,dp1,mbs1"), 10).layers, (std::vector<std::int64_t>{2, 3, 3, 2}));
  EXPECT_EQ(recipe_of(10, ""), "pp4,dp1,mbs1,first=3,last=1");
}

}  // namespace
}  // namespace pipesim
