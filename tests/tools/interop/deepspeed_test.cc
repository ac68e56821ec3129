#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/tools/interop/documented_settings.h"
#include "tests/tools/interop/framework_case.h"
#include "tools/interop/deepspeed/deepspeed.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/megatron/megatron_model.h"
#include "tools/interop/reading/read_run.h"

namespace pipesim {
namespace {

nlohmann::json config_in(const FrameworkPlan& plan) {
  return nlohmann::json::parse(deepspeed_files(plan).front().content);
}

void expect_documented(const DocumentedSettings& documented, const std::string& path,
                       const nlohmann::json& json) {
  if (!json.is_object()) {
    documented.expect(path, {json.is_string() ? json.get<std::string>() : json.dump()});
    return;
  }
  for (const auto& [key, value] : json.items())
    expect_documented(documented, path.empty() ? key : path + "." + key, value);
}

TEST(DeepSpeed, KeysAreDocumentedAndBatchesComeOutEven) {
  const DocumentedSettings documented("deepspeed");
  for_random_plans(
      framework_named("deepspeed"), 60, [&](const FrameworkPlan& plan, const RecipeModel&, const Topology&) {
        const nlohmann::json config = config_in(plan);
        expect_documented(documented, "", config);
        const auto number = [&](const char* key) { return config.at(key).get<std::int64_t>(); };
        EXPECT_EQ(number("train_batch_size"), number("train_micro_batch_size_per_gpu") *
                                                  number("gradient_accumulation_steps") * plan.recipe.data);
        const bool divides_weights = config["zero_optimization"]["stage"] >= 2;
        EXPECT_FALSE(config.contains("pipeline") && divides_weights);
      });
}

// With the arguments of a model, an export reads back to the plan. How its types are sharded without ZeRO,
// and whether layers are computed again, is not in the configuration.
TEST(DeepSpeed, ExportsReadBackWithAProgram) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "deepspeed_back";
  for_random_plans(framework_named("deepspeed"), 100,
                   [&](const FrameworkPlan& plan, const RecipeModel& model, const Topology& topology) {
                     if (plan.sizes.type == DataType::BFloat16 && !plan.recipe.state_sharding.any()) return;
                     std::filesystem::create_directories(folder);
                     for (const ExportedFile& file : deepspeed_files(plan))
                       write_file(folder / file.name, file.content);
                     MegatronWriter writer;
                     write_megatron_model(plan, writer);
                     std::string script = "sh launch.sh pretrain_gpt.py";
                     for (const MegatronArgument& argument : std::move(writer).take())
                       script += fmt::format(" {} {}", argument.flag, fmt::join(argument.values, " "));
                     write_file(folder / "mine.sh", script + "\n");
                     const FrameworkRun run = read_framework_run((folder / "mine.sh").string(), 8, 8);
                     std::filesystem::remove_all(folder);
                     EXPECT_EQ(run.samples, plan.samples);
                     EXPECT_EQ(run.optimizer, plan.optimizer);
                     EXPECT_EQ(run.gradient_type, plan.gradient_type);
                     EXPECT_EQ(decoder_sizes(run.model).type, plan.sizes.type);
                     EXPECT_EQ(run.recipe.microbatch, plan.recipe.microbatch);
                     Recipe written = plan.recipe;
                     if (written.pipeline == 1) written.recompute = run.recipe.recompute;
                     // An amended plan may be of another batch than the model.
                     constexpr std::int64_t kBatch = 8;
                     if (written.data * written.microbatch == kBatch)
                       expect_same_plan(run.recipe, written, model, topology);
                   },
                   {kSmallDecoders[0], kSmallDecoders[1]});
}

TEST(DeepSpeed, WritesAConfigurationAndALaunchLine) {
  const Topology topology = make_topology("dgx-h100:2");
  const FrameworkPlan plan =
      framework_plan("llama3-8b", parse_recipe("pp4,dp4,mbs2,zero1,recompute=full"), topology, 4);
  EXPECT_EQ(config_in(plan), nlohmann::json::parse(R"({
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.0001}},
    "zero_optimization": {"stage": 1, "overlap_comm": true}, "bf16": {"enabled": true},
    "data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32",
    "pipeline": {"stages": 4, "partition": "type:layer", "activation_checkpoint_interval": 1}})"));
  const std::string launch = deepspeed_files(plan)[1].content;
  EXPECT_NE(launch.find("# For DeepSpeed 0.19 (v0.19.5). Start it on the first host"), std::string::npos)
      << launch;
  EXPECT_NE(launch.find("case $found${ANY_VERSION:+any} in 0.19.*|*any) ;; *)\n"), std::string::npos)
      << launch;
  EXPECT_NE(launch.find("# The model is a PipelineModule with num_stages=4, partition_method=\"type:layer\""),
            std::string::npos)
      << launch;
  EXPECT_NE(launch.find("deepspeed --hostfile \"$here/hostfile\" --num_nodes 2 --num_gpus 8 \\\n  "
                        "\"${@:?is your program and its arguments}\" --deepspeed --deepspeed_config "
                        "\"$here/ds_config.json\"\n"),
            std::string::npos)
      << launch;
}

TEST(DeepSpeed, WritesTypesOfTheState) {
  FrameworkPlan plan =
      framework_plan("llama3-8b", parse_recipe("dp8,mbs1,zero2"), make_topology("dgx-h100:1"));
  plan.optimizer_kernel = OptimizerKernel::Foreach;
  EXPECT_EQ(config_in(plan)["optimizer"]["params"]["torch_adam"], true);
  EXPECT_TRUE(framework_named("deepspeed").notes(plan).empty());
  plan.optimizer_kernel = OptimizerKernel::Single;
  EXPECT_FALSE(config_in(plan)["optimizer"]["params"].contains("torch_adam"));
  EXPECT_THAT(
      framework_named("deepspeed").notes(plan),
      testing::ElementsAre("left out is optimizer-kernel=single, which DeepSpeed's own code chooses"));
  plan.optimizer = parse_optimizer("adam,moments=bfloat16,main=bfloat16");
  const nlohmann::json config = config_in(plan);
  EXPECT_EQ(config["bf16"], nlohmann::json::parse(R"({"enabled": true, "bf16_master_weights_and_grads": true,
                                                      "bf16_optimizer_states": true})"));
  const auto refused = [&](const char* recipe, const char* optimizer) {
    plan.recipe = parse_recipe(recipe);
    plan.optimizer = parse_optimizer(optimizer);
    const Refusals refusals = framework_named("deepspeed").refusals(plan);
    return refusals.empty() ? "" : refusals.front().part + ": " + refusals.front().reason;
  };
  EXPECT_EQ(refused("dp8,mbs1,zero2", "muon"), "");
  EXPECT_EQ(refused("dp8,mbs1,zero2", "adafactor"), "--optimizer adafactor: it has Adam, SGD, Lion and Muon");
  EXPECT_EQ(
      refused("dp8,mbs1,zero2", "adam,main=none"),
      "--optimizer adam,main=none: state is in float32, or of Adam and bfloat16 weights all in bfloat16 "
      "(moments=bfloat16,main=bfloat16)");
  EXPECT_EQ(refused("dp8,mbs1", "adam,moments=bfloat16,main=bfloat16"),
            "--optimizer adam,moments=bfloat16,main=bfloat16 without zero1: bf16_optimizer_states goes with "
            "ZeRO stages 1, 2 and 3");
}

TEST(DeepSpeed, RefusesWhatHasNoKey) {
  const auto refused = [](const std::string& recipe) {
    return refusals_text("deepspeed", "llama3-8b", recipe);
  };
  EXPECT_EQ(refused("dp8,mbs1,zero3"), "");
  EXPECT_EQ(refusals_text("deepspeed", "mixtral-8x7b", "dp8,ep8,etp1,mbs1", "0.18"),
            "ep8: AutoEP came with DeepSpeed 0.19\n");
  EXPECT_EQ(refused("tp2,dp4,mbs1,zero2"), "");
  EXPECT_EQ(refused("cp8,ulysses=8,dp1,mbs1,zero3"), "");
  EXPECT_EQ(refused("pp4,dp2,mbs1,zero2"),
            "zero2 with pp4: ZeRO-2 and ZeRO-3 are incompatible with its pipelines\n");
  EXPECT_EQ(refused("pp4,dp2,mbs1,zero3"),
            "zero3 with pp4: ZeRO-2 and ZeRO-3 are incompatible with its pipelines\n");
  EXPECT_EQ(refused("pp4,vpp2,dp2,mbs1"), "vpp2: a device has one stage\n");
  EXPECT_EQ(refused("tp2,dp4,mbs1,zero3"), "");
  EXPECT_EQ(refused("tp2,cp2,ulysses=2,dp2,mbs1"),
            "tp2 with cp2: its sequence parallelism does not go with tensor parallelism\n");
  EXPECT_EQ(refused("tp2,dp4,mbs1,sp"), "sp: AutoTP copies norms and residuals\n");
  EXPECT_EQ(refused("pp4,dp2,mbs1,first=7,last=9"),
            "stages of 7 to 9 layers: its partition type:… gives each stage as many layers\n");
}

}  // namespace
}  // namespace pipesim
