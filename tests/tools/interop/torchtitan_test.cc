#include <fmt/format.h>
#include <gtest/gtest.h>

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

const std::vector<const char*> kTorchtitanModels{"llama3-8b:batch=8"};

TEST(Torchtitan, FieldsAreDocumented) {
  const DocumentedSettings of_main("torchtitan"), of_toml("torchtitan-0.2");
  int for_toml = 0;
  for_random_plans(
      framework_named("torchtitan"), 150,
      [&](const FrameworkPlan& plan, const RecipeModel&, const Topology&) {
        for (const TorchtitanField& field : torchtitan_fields(plan))
          of_main.expect(field.path, {field.value});
        of_main.expect("parallelism.module_fqns_per_model_part", {"[[]]"});
        const FrameworkPlan toml = with_version(plan, "torchtitan", "0.2");
        if (!framework_named("torchtitan").refusals(toml).empty()) return;
        ++for_toml;
        for (const TorchtitanField& field : torchtitan_fields(toml))
          of_toml.expect(field.path, {field.value});
        of_toml.expect("parallelism.module_fqns_per_model_part", {"[[]]"});
      },
      kTorchtitanModels);
  EXPECT_GT(for_toml, 10);
}

void expect_batches_of_toml(const FrameworkPlan& plan) {
  const auto fields = fields_by_path(plan);
  const auto number = [&](const std::string& path) { return std::stoll(fields.at(path)); };
  EXPECT_EQ(number("training.global_batch_size"), plan.samples);
  EXPECT_EQ(number("training.global_batch_size") % (number("training.local_batch_size") * plan.recipe.data),
            0);
  if (plan.recipe.pipeline == 1) return;
  EXPECT_EQ(number("training.local_batch_size") / number("parallelism.pipeline_parallel_microbatch_size"),
            plan.microbatches());
}

// Degrees multiply up to the devices, and batches to the samples of an iteration.
TEST(Torchtitan, DegreesAndBatchesComeOutEven) {
  for_random_plans(
      framework_named("torchtitan"), 150,
      [&](const FrameworkPlan& plan, const RecipeModel&, const Topology&) {
        const auto fields = fields_by_path(plan);
        const auto number = [&](const std::string& path) { return std::stoll(fields.at(path)); };
        EXPECT_EQ(number("parallelism.data_parallel_replicate_degree") *
                      number("parallelism.data_parallel_shard_degree") *
                      number("parallelism.tensor_parallel_degree") *
                      number("parallelism.context_parallel_degree") *
                      number("parallelism.pipeline_parallel_degree"),
                  8);
        const std::int64_t of_a_microbatch = number("training.num_tokens_per_microbatch_per_dp_rank");
        EXPECT_EQ(of_a_microbatch, plan.recipe.microbatch * number("training.max_context_length"));
        EXPECT_EQ(number("training.num_tokens_per_train_step"),
                  of_a_microbatch * plan.recipe.data * plan.microbatches());
        expect_batches_of_toml(with_version(plan, "torchtitan", "0.2"));
        if (plan.recipe.pipeline == 1) return;
        EXPECT_EQ(number("parallelism.num_pp_microbatches"), plan.microbatches());
        // Every layer is in one model part, in order.
        const std::string config = file_of(plan, "pipesim_plan.py");
        std::size_t at = config.find("tok_embeddings");
        for (std::int64_t layer = 0; layer < plan.sizes.layers; ++layer) {
          at = config.find(fmt::format("\"layers.{}\"", layer), at);
          ASSERT_NE(at, std::string::npos) << layer << "\n" << config;
        }
        EXPECT_EQ(config.find("\"layers.", at + 1), std::string::npos);
      },
      kTorchtitanModels);
}

TEST(Torchtitan, OverridesOfTruthValuesTakeNoValue) {
  const std::string overrides =
      file_of(framework_plan("llama3-8b", parse_recipe("pp2,dp4,mbs1,fsdp,schedule=zb-h1"),
                             make_topology("dgx-h100:1")),
              "overrides.txt");
  EXPECT_NE(overrides.find("--training.disable_cuda_graphs\n"), std::string::npos) << overrides;
  EXPECT_NE(overrides.find("\nactivation_checkpoint:none\n"), std::string::npos) << overrides;
  EXPECT_NE(overrides.find("--compile.no-enable\n"), std::string::npos) << overrides;
  EXPECT_NE(file_of(framework_plan("llama3-8b", parse_recipe("tp8,dp1,sp,mbs1"), make_topology("dgx-h100:1")),
                    "overrides.txt")
                .find("--parallelism.enable_sequence_parallel\n"),
            std::string::npos);
}

TEST(Torchtitan, WritesAConfigurationAndALaunchLine) {
  const Topology topology = make_topology("dgx-h100:1");
  const FrameworkPlan plan = framework_plan(
      "llama3-8b:layers=32", parse_recipe("tp2,pp2,dp2,sp,mbs1,fsdp,recompute=full"), topology, 4);
  const std::string config = file_of(plan, "pipesim_plan.py");
  const std::string before_modules =
      R"py(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,recompute=full
# For torchtitan's main branch (b5bcd76c6 of August 2026).

from dataclasses import replace
from pathlib import Path

ALLOWED = (
    "allowed: torchtitan's main branch (b5bcd76c6 of August 2026); "
    "pipesim export --to torchtitan:VERSION writes for others"
)

try:
    from torchtitan.distributed.activation_checkpoint import FullAC
    from torchtitan.models.common import RMSNorm
    from torchtitan.models.llama3.config_registry import llama3_8b
except ImportError as error:
    raise SystemExit(f"pipesim_plan.py: found a torchtitan for which {error}, {ALLOWED}")


def put(config, path, value):
    *owners, name = path.split(".")
    for owner in owners:
        config = getattr(config, owner, None)
    if not hasattr(config, name):
        raise SystemExit(f"pipesim_plan.py: found a torchtitan without {path}, {ALLOWED}")
    setattr(config, name, value)


def pipesim_plan():
    config = llama3_8b()
    # Positions and norms of the plan's model.
    model = config.model_spec.model
    length = max(model.max_context_length, 8192)
    for layer in model.layers:
        layer.attention.rope = replace(
            layer.attention.rope, theta=500000.0, max_context_length=length, scaling="none"
        )
    for _, norm, _, _ in model.traverse(RMSNorm.Config):
        norm.eps = 1e-05
    put(config, "parallelism.data_parallel_replicate_degree", 1)
    put(config, "parallelism.data_parallel_shard_degree", 2)
    put(config, "parallelism.fsdp_reshard_after_forward", "never")
    put(config, "parallelism.tensor_parallel_degree", 2)
    put(config, "parallelism.enable_sequence_parallel", True)
    put(config, "parallelism.context_parallel_degree", 1)
    put(config, "parallelism.expert_parallel_degree", 1)
    put(config, "parallelism.pipeline_parallel_degree", 2)
    put(config, "parallelism.pipeline_parallel_schedule", "PipelineScheduleMulti")
    put(config, "parallelism.pipeline_parallel_schedule_csv", str(Path(__file__).with_name("schedule.csv")))
    put(config, "parallelism.num_pp_microbatches", 4)
    put(config, "training.num_tokens_per_microbatch_per_dp_rank", 8192)
    put(config, "training.num_tokens_per_train_step", 65536)
    put(config, "training.max_context_length", 8192)
    put(config, "training.disable_cuda_graphs", True)
    put(config, "training.mixed_precision_param", "bfloat16")
    put(config, "training.mixed_precision_reduce", "float32")
    put(config, "activation_checkpoint", FullAC.Config())
    put(config, "compile.enable_async_tensor_parallel", False)
    put(config, "compile.enable", True)
    put(config, "compile.components", ["model", "loss"])
    put(config, "parallelism.module_fqns_per_model_part", [
        ["tok_embeddings", "layers.0", )py";
  EXPECT_EQ(config.substr(0, before_modules.size()), before_modules);
  EXPECT_NE(config.find("\"layers.31\", \"norm\", \"lm_head\"],\n    ])\n    return config\n"),
            std::string::npos);
  EXPECT_NE(
      file_of(plan, "launch.sh")
          .find("torchrun --nnodes 1 --nproc-per-node 8 --standalone \\\n  -m torchtitan.train --module "
                "pipesim_plan --config pipesim_plan \"$@\"\n"),
      std::string::npos);
  EXPECT_NE(file_of(plan, "overrides.txt").find("--parallelism.tensor_parallel_degree 2\n"),
            std::string::npos);
}

TEST(Torchtitan, WritesATomlFileAndItsModel) {
  const FrameworkPlan plan = with_version(
      framework_plan("llama3-8b:rotary_scaling=llama3,rotary_factor=8",
                     parse_recipe("tp2,pp2,dp2,sp,mbs1,fsdp,schedule=zb-h1"), make_topology("dgx-h100:1"), 4),
      "torchtitan", "0.2");
  const std::string toml = file_of(plan, "pipesim_plan.toml");
  const std::string before_modules =
      R"(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,schedule=zb-h1
# For torchtitan 0.2 (v0.2.2).

[experimental]
custom_import = "pipesim_plan"

[model]
name = "pipesim_plan"
flavor = "plan"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 2
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 2
enable_async_tensor_parallel = false
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "PipelineScheduleMulti"
pipeline_parallel_microbatch_size = 1
module_fqns_per_model_part = [
    ["tok_embeddings", "layers.0", )";
  EXPECT_EQ(toml.substr(0, before_modules.size()), before_modules);
  const std::string after_modules = R"("layers.31", "norm", "output"],
]

[training]
local_batch_size = 4
global_batch_size = 8
seq_len = 8192
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[activation_checkpoint]
mode = "none"

[compile]
enable = false
)";
  EXPECT_TRUE(toml.ends_with(after_modules)) << toml;
  EXPECT_EQ(file_of(plan, "pipesim_plan.py"),
            R"(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,schedule=zb-h1
# The plan's model for torchtitan 0.2 (v0.2.2), which imports this file as experimental.custom_import.

from dataclasses import replace

from torchtitan.models.llama3 import get_train_spec
from torchtitan.protocols.train_spec import register_train_spec

spec = get_train_spec()
known = spec.model_args["8B"]
model = replace(
    known,
    rope_theta=500000.0,
    rope_scaling_args=replace(
        known.rope_scaling_args,
        scaling_factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    ),
    norm_eps=1e-05,
)
register_train_spec("pipesim_plan", replace(spec, model_args={"plan": model}))
)");
  EXPECT_EQ(file_of(plan, "launch.sh").find("expandable_segments"), std::string::npos);
  FrameworkPlan expandable = plan;
  expandable.expandable_segments = true;
  EXPECT_NE(file_of(expandable, "launch.sh").find("export PYTORCH_ALLOC_CONF=expandable_segments:True\n"),
            std::string::npos);
  EXPECT_NE(file_of(plan, "launch.sh")
                .find("  -m torchtitan.train --job.config_file \"$here/pipesim_plan.toml\" \\\n  "
                      "--parallelism.pipeline_parallel_schedule_csv \"$here/schedule.csv\" \"$@\"\n"),
            std::string::npos);
}

TEST(Torchtitan, WritesThePositionsOfTheModel) {
  const auto rope = [](const std::string& model) {
    const std::string config = file_of(
        framework_plan(model, parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1")), "pipesim_plan.py");
    const std::size_t from = config.find("layer.attention.rope, ");
    return config.substr(from, config.find('\n', from) - from);
  };
  EXPECT_EQ(rope("llama3-8b:rotary_scaling=llama3,rotary_factor=32"),
            "layer.attention.rope, theta=500000.0, max_context_length=length, scaling=\"llama\", "
            "scaling_factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, "
            "original_max_position_embeddings=8192");
  EXPECT_EQ(rope("deepseek-v3"),
            "layer.attention.rope, theta=10000.0, max_context_length=length, scaling=\"yarn\", "
            "rope_factor=40.0, beta_slow=1.0, beta_fast=32.0, original_seq_len=4096");
}

TEST(Torchtitan, RefusesModelsThatFieldsCannotSay) {
  const auto refused = [](const std::string& model, std::string_view version,
                          const char* recipe = "dp8,mbs1,fsdp") {
    return refusals_text("torchtitan", model, recipe, version);
  };
  EXPECT_EQ(refused("llama3-8b:rotary_scaling=linear,rotary_factor=2", "main"),
            "rotary_scaling=linear: its llama3 stretches positions by llama3\n");
  EXPECT_EQ(refused("deepseek-v3:rotary_mscale=0.7", "main"),
            "rotary_mscale=0.7,rotary_mscale_all=1: it has one mscale for both\n");
  EXPECT_EQ(refused("deepseek-v3:further_tokens=1", "main"),
            "further_tokens=1: its configurations predict one token; further_tokens=0 leaves them out\n");
  EXPECT_EQ(refused("deepseek-v3", "0.2"),
            "sequence=4096 with rotary_scaling=yarn: torchtitan 0.2 stretches positions only of more than "
            "rotary_original=4096\n");
  EXPECT_EQ(refused("llama3-8b", "0.2", "tp2,dp4,mbs1,fsdp"),
            "tp2 without sp: torchtitan 0.2 divides the sequence wherever there is tp\n");
  EXPECT_EQ(refused("llama3-8b", "main", "cp2,ring,dp4,mbs1,fsdp"),
            "cp2 with ring: context parallelism gathers keys and values\n");
  EXPECT_EQ(refused("deepseek-v3:sequence=8192", "0.2", "cp2,dp4,mbs1,fsdp"),
            "cp2: the flex attention of its deepseek_v3 goes with no context parallelism\n");
}

TEST(Torchtitan, RefusesWhatQwenDoesNotHave) {
  const auto refused = [](const char* model, const char* version, const char* recipe) {
    return refusals_text("torchtitan", model, recipe, version);
  };
  EXPECT_EQ(refused("qwen3-8b:rotary_scaling=yarn,rotary_factor=4", "main", "dp8,mbs1,fsdp"),
            "rotary_scaling=yarn: its qwen3 stretches no positions\n");
  EXPECT_EQ(refused("qwen3-8b", "0.2", "pp2,dp4,mbs1,fsdp"),
            "pp2: the qwen3 of torchtitan 0.2 has no pipelines\n");
  EXPECT_EQ(refused("qwen3-8b", "main", "pp2,dp4,mbs1,fsdp"), "");
}

TEST(Torchtitan, TakesAConfigurationOfTheUser) {
  FrameworkPlan plan =
      framework_plan("llama:layers=4", parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1"));
  EXPECT_EQ(framework_named("torchtitan").refusals(plan).size(), 1U);
  plan.base = "my_runs.llama:small";
  EXPECT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  EXPECT_NE(file_of(plan, "pipesim_plan.py")
                .find("def pipesim_plan():\n    config = small()\n    put(config, "
                      "\"parallelism.data_parallel_replicate_degree\", 1)\n"),
            std::string::npos);
  EXPECT_NE(file_of(plan, "pipesim_plan.py").find("    from my_runs.llama import small\nexcept ImportError"),
            std::string::npos);
  const FrameworkPlan toml = with_version(plan, "torchtitan", "0.2");
  EXPECT_EQ(framework_named("torchtitan").refusals(toml).front().reason,
            "torchtitan 0.2 has no functions that return configurations");
}

TEST(Torchtitan, RefusesWhatHasNoField) {
  const auto refused = [](const std::string& recipe, const char* model = "llama3-8b") {
    return refusals_text("torchtitan", model, recipe);
  };
  EXPECT_EQ(refused("dp8,mbs1"), "");
  EXPECT_EQ(refused("dp8,mbs1,hsdp=4"), "");
  EXPECT_EQ(refused("tp2,dp4,mbs1"), "dp4 without FSDP: its DDP goes with no other parallelism\n");
  EXPECT_EQ(refused("dp8,mbs1,zero2"),
            "zero2: its data parallelism divides weights as FSDP2 does, or nothing\n");
  EXPECT_EQ(refused("tp2,cp2,dp2,mbs1,fsdp", "llama3-8b:sequence=8196"),
            "tp2 with cp2: training.seq_len must be a multiple of tp x 2 cp, 8, and is 8196\n");
  EXPECT_EQ(refused("tp8,dp1,mbs1"),
            "dp1: 16-bit compute with tp or pp comes with FSDP, which needs two copies of a weight\n");
  EXPECT_EQ(
      refused("dp8,mbs1", "llama3-8b:layers=4"),
      "model \"llama3-8b:layers=4\": it has llama3 debugmodel, 1B, 3B, 8B, 70B, 405B; deepseek_v3 671B; "
      "qwen3 0.6B, 1.7B, 4B, 8B, 14B, 32B, 30B-A3B, 235B-A22B, with any sequence; --base names one of "
      "yours\n");
  EXPECT_EQ(refused("tp8,dp8,sp,mbs1,fsdp,ep8,etp1", "qwen3-235b"),
            "tp8 with 4 heads of keys: tp divides heads of keys and values\n");
}

// Its configurations of some models are of others with the same words; 405B's converts layers to float8.
TEST(Torchtitan, BeginsWithAnotherModelWhereItHasNoneOfThisSize) {
  const auto opening = [](const std::string& model) {
    const std::string config = file_of(
        framework_plan(model, parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1")), "pipesim_plan.py");
    const std::size_t from = config.find("def pipesim_plan");
    return config.substr(from, config.find("    # Positions", from) - from);
  };
  EXPECT_EQ(opening("qwen3-8b"),
            "def pipesim_plan():\n    config = qwen3_14b()\n    config.model_spec = model_registry(\"8B\")\n"
            "    config.hf_assets_path = \"./assets/hf/Qwen3-8B\"\n");
  EXPECT_EQ(
      opening("llama3-405b"),
      "def pipesim_plan():\n    config = llama3_70b()\n    config.model_spec = model_registry(\"405B\")\n"
      "    config.hf_assets_path = \"./assets/hf/Llama-3.1-405B\"\n");
  EXPECT_EQ(opening("llama3-70b"), "def pipesim_plan():\n    config = llama3_70b()\n");
}

TEST(Torchtitan, CompilesWherePyTorchTakesIt) {
  const auto notes = [](const char* schedule) {
    const FrameworkPlan plan =
        framework_plan("llama3-8b", parse_recipe(fmt::format("pp4,dp2,mbs1,fsdp,schedule={}", schedule)),
                       make_topology("dgx-h100:1"));
    return fields_by_path(plan).at("compile.enable") + " " +
           fmt::format("{}", fmt::join(framework_named("torchtitan").notes(plan), "; "));
  };
  EXPECT_EQ(notes("1f1b"), "True left out is init_deviation=0.02, which torchtitan's own code chooses");
  EXPECT_EQ(notes("zb-h1"),
            "False left out is init_deviation=0.02, which torchtitan's own code chooses; the plan's time is "
            "that of compiled kernels, which PyTorch refuses with schedule=zb-h1: compile.enable is off");
}

}  // namespace
}  // namespace pipesim
