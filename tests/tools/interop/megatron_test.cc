#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/tools/interop/documented_settings.h"
#include "tests/tools/interop/framework_case.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/megatron/megatron_arguments.h"
#include "tools/interop/megatron/megatron_files.h"
#include "tools/interop/megatron/megatron_flags.h"
#include "tools/interop/megatron/megatron_run.h"

namespace pipesim {
namespace {

const std::string kMegatronFile = "run.sh";

std::string content_named(const std::vector<ExportedFile>& files, const std::string& name) {
  for (const ExportedFile& file : files) {
    if (file.name == name) return file.content;
  }
  ADD_FAILURE() << "no file " << name;
  return "";
}

FrameworkRun run_of_text(const std::string& text, std::int64_t devices) {
  return megatron_run(MegatronFile::parse(text, kMegatronFile), devices);
}

// What is written is read back to the same plan of the same model.
TEST(Megatron, ArgumentsReadBackToThePlan) {
  for_random_plans(framework_named("megatron"), 60,
                   [](const FrameworkPlan& plan, const RecipeModel& model, const Topology& topology) {
                     const std::string text = content_named(megatron_files(plan), "megatron.args");
                     const FrameworkRun run = run_of_text(text, 8);
                     EXPECT_EQ(decoder_sizes(run.model), plan.sizes) << text;
                     EXPECT_EQ(run.samples, plan.samples);
                     EXPECT_EQ(run.optimizer, plan.optimizer);
                     EXPECT_EQ(run.gradient_type, plan.gradient_type) << text;
                     EXPECT_EQ(run.recipe.microbatch, plan.recipe.microbatch);
                     EXPECT_EQ(run.recipe.tensor_overlap.value_or(false),
                               plan.recipe.tensor_overlap.value_or(false) && plan.recipe.sequence_parallel);
                     const bool overlaps = plan.recipe.reduction.has_value();
                     EXPECT_TRUE(run.left_out.empty() || overlaps) << run.left_out.front();
                     expect_same_plan(run.recipe, plan.recipe, model, topology);
                   });
}

TEST(Megatron, ArgumentsAreDocumented) {
  for (const FrameworkVersion& version : megatron_versions()) {
    const DocumentedSettings documented("megatron", version.number);
    int written = 0;
    for_random_plans(framework_named("megatron"), 15,
                     [&](FrameworkPlan plan, const RecipeModel&, const Topology&) {
                       plan.version = version;
                       if (!framework_named("megatron").refusals(plan).empty()) return;
                       ++written;
                       for (const MegatronArgument& a : megatron_arguments(plan))
                         documented.expect(a.flag, a.values);
                     });
    EXPECT_GT(written, 10) << version.name;
  }
}

std::string arguments_text(const std::string& model, const std::string& recipe,
                           std::string_view version = "main") {
  const FrameworkPlan plan = with_version(
      framework_plan(model, parse_recipe(recipe), make_topology("dgx-h100:1")), "megatron", version);
  EXPECT_TRUE(framework_named("megatron").refusals(plan).empty()) << model;
  return content_named(megatron_files(plan), "megatron.args");
}

// What stands between two arguments, the first with it.
std::string between(const std::string& text, const std::string& first, const std::string& next) {
  const std::size_t from = text.find(first + " "), to = text.find("\n" + next);
  if (from == std::string::npos || to == std::string::npos) return text;
  return text.substr(from, to - from);
}

// An export is the same model: what defines it is written, whatever the framework's defaults are.
TEST(Megatron, WritesWhatDefinesTheModel) {
  const auto positions = [](const std::string& model, std::string_view version = "main") {
    return between(arguments_text(model, "dp8,mbs1,zero1", version), "--position-embedding-type",
                   "--normalization");
  };
  const auto router = [](const std::string& model) {
    return between(arguments_text(model, "dp8,mbs1,zero1"), "--moe-router-topk", "--moe-ffn-hidden-size");
  };
  EXPECT_EQ(positions("gpt3-1.3b"), "--position-embedding-type learned_absolute");
  EXPECT_EQ(positions("llama3-8b"),
            "--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 1");
  EXPECT_EQ(positions("llama3-8b:rotary_scaling=llama3,rotary_factor=8"),
            "--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 1\n--use-rope-scaling\n"
            "--rope-scaling-factor 8");
  EXPECT_EQ(positions("llama3-8b:rotary_scaling=linear,rotary_factor=4"),
            "--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 1\n"
            "--rotary-seq-len-interpolation-factor 4");
  EXPECT_EQ(positions("qwen3-8b:rotary_scaling=yarn,rotary_factor=4,rotary_original=32768,rotary_high=32"),
            "--position-embedding-type yarn\n--rotary-base 1000000\n--rotary-percent 1\n"
            "--rotary-scaling-factor 4\n--yarn-original-max-position-embeddings 32768\n--yarn-beta-slow 1\n"
            "--yarn-beta-fast 32\n--mscale 1\n--mscale-all-dim 0");
  const std::string latent = "--position-embedding-type rope\n--rotary-base 10000\n--rotary-percent 1\n";
  EXPECT_EQ(positions("deepseek-v3"),
            latent + "--rope-type yarn\n--rotary-scaling-factor 40\n--mscale 1\n--mscale-all-dim 1");
  EXPECT_EQ(positions("deepseek-v3:rotary_scaling=none"), latent + "--rope-type rope\n--no-rope-fusion");
  // Before core 0.14 it is YaRN always, and a factor of 1 switches it off.
  EXPECT_EQ(positions("deepseek-v3:rotary_scaling=none", "0.13"),
            latent + "--rotary-scaling-factor 1\n--mscale 1\n--mscale-all-dim 0");
  EXPECT_EQ(router("mixtral-8x7b"),
            "--moe-router-topk 2\n--moe-router-score-function softmax\n"
            "--moe-router-load-balancing-type aux_loss\n--moe-aux-loss-coeff 0.02");
  EXPECT_EQ(router("qwen3-235b:expert_shares=all,balance_loss=0"),
            "--moe-router-topk 8\n--moe-router-score-function softmax\n--moe-router-pre-softmax\n"
            "--moe-router-load-balancing-type none\n--moe-aux-loss-coeff 0");
  EXPECT_EQ(router("deepseek-v3"),
            "--moe-router-topk 8\n--moe-router-score-function sigmoid\n--moe-router-dtype fp32\n"
            "--moe-router-enable-expert-bias\n--moe-router-bias-update-rate 0.001\n"
            "--moe-router-num-groups 8\n--moe-router-group-topk 4\n--moe-router-topk-scaling-factor 2.5\n"
            "--moe-router-load-balancing-type seq_aux_loss\n--moe-aux-loss-coeff 0.0001");
  EXPECT_NE(arguments_text("qwen3-8b", "dp8,mbs1").find("--norm-epsilon 1e-06\n"), std::string::npos);
  EXPECT_NE(arguments_text("deepseek-v3", "dp8,mbs1").find("--v-head-dim 128\n--qk-layernorm\n"),
            std::string::npos);
}

// They lie with the loss, which a layout says.
TEST(Megatron, PredictsFurtherTokens) {
  const std::string text =
      arguments_text("deepseek-v3:layers=8,further_tokens=2", "pp2,dp4,mbs1,first=5,last=3");
  EXPECT_THAT(text, testing::HasSubstr("--pipeline-model-parallel-layout Et*5|t*3mmL\n"));
  EXPECT_THAT(text, testing::HasSubstr("--mtp-num-layers 2\n"));
  const FrameworkRun run = run_of_text(text, 8);
  EXPECT_EQ(decoder_sizes(run.model).further_tokens, 2);
  EXPECT_EQ(run.recipe.layers.empty() ? run.recipe.first : std::nullopt, 5);
  EXPECT_TRUE(run.left_out.empty());
  EXPECT_EQ(refusals_text("megatron", "deepseek-v3:further_tokens=1", "cp2,dp4,mbs1,ring", "0.13"),
            "cp2 with further_tokens=1: before core 0.14, --mtp-num-layers goes without "
            "--context-parallel-size\n");
  EXPECT_EQ(refusals_text("megatron", "deepseek-v3:further_tokens=1", "cp2,dp4,mbs1,ring", "0.14"), "");
  EXPECT_THAT(
      run_of_text(arguments_text("llama3-8b", "dp8,mbs1") + "--mtp-num-layers 1\n", 8).left_out,
      testing::ElementsAre("--mtp-num-layers: further tokens are not predicted: their layers and losses "
                           "are missing"));
}

TEST(Megatron, RefusesModelsThatArgumentsCannotSay) {
  const auto refused = [](const std::string& model, std::string_view version = "main") {
    return refusals_text("megatron", model, "dp8,mbs1", version);
  };
  EXPECT_EQ(refused("llama3-8b:rotary_base=500000.5"),
            "rotary_base=500000.5: --rotary-base is a whole number up to 2147483647\n");
  EXPECT_EQ(
      refused("llama3-8b:rotary_scaling=llama3,rotary_factor=8,rotary_high=8"),
      "rotary_original=8192,rotary_low=1,rotary_high=8: --use-rope-scaling stretches 8192 positions, with "
      "factors 1 and 4\n");
  EXPECT_EQ(refused("llama3-8b:rotary_scaling=linear,rotary_factor=2.5"),
            "rotary_factor=2.5: --rotary-seq-len-interpolation-factor is a whole number\n");
  EXPECT_EQ(refused("llama3-8b:rotary_scaling=yarn,rotary_factor=4", "0.18"),
            "rotary_scaling=yarn: --position-embedding-type yarn came with core 0.19\n");
  EXPECT_EQ(refused("deepseek-v3:rotary_scaling=llama3"),
            "rotary_scaling=llama3: --multi-latent-attention stretches positions by YaRN or not at all\n");
  EXPECT_EQ(
      refused("deepseek-v3:rotary_original=8192"),
      "rotary_original=8192,rotary_low=1,rotary_high=32: --multi-latent-attention stretches 4096 positions, "
      "from 1 to 32 turns\n");
  EXPECT_EQ(refused("llama3-8b:lora=16"), "lora=16: all weights are trained, without adapters\n");
  EXPECT_EQ(
      refused("llama:partial=yes"),
      "partial=yes: the plan's model goes without what its config.json asks for, which \"pipesim import "
      "model\" lists; partial=no exports it all the same\n");
  EXPECT_EQ(refused("deepseek-v3:router_groups=3"),
            "router_groups=3,router_top_groups=4: --moe-router-num-groups divides 256 experts, and "
            "--moe-router-group-topk the 8 of a token\n");
  EXPECT_EQ(refused("mixtral-8x7b:top_k=1"),
            "expert_shares=chosen with top_k=1: a single expert's weight is its share of all, by "
            "--moe-router-pre-softmax\n");
  EXPECT_EQ(refused("mixtral-8x7b:shared_ffn=64", "0.15"),
            "shared_ffn=64: --moe-shared-expert-gate, for shared experts with a gate, came with core 0.16\n");
  EXPECT_EQ(refused("gpt:experts=8"),
            "bias=yes with experts: experts have biases wherever other products have them\n");
}

// Core 0.12 has no layouts, and FSDP by another name.
TEST(Megatron, WritesWhatAVersionHas) {
  const auto stages = [](const std::string& recipe, std::string_view version) {
    return between(arguments_text("llama3-8b", recipe, version), "--pipeline-model-parallel-size",
                   "--optimizer");
  };
  EXPECT_EQ(stages("pp4,vpp2,dp2,mbs1", "0.12"),
            "--pipeline-model-parallel-size 4\n--num-virtual-stages-per-pipeline-rank 2");
  EXPECT_EQ(stages("pp4,dp2,mbs1,first=6,last=10", "0.12"),
            "--pipeline-model-parallel-size 4\n--decoder-first-pipeline-num-layers 6\n"
            "--decoder-last-pipeline-num-layers 10");
  EXPECT_EQ(stages("pp4,dp2,mbs1,first=6,last=10", "0.13"),
            "--pipeline-model-parallel-size 4\n--pipeline-model-parallel-layout Et*6|t*8|t*8|t*10L");
  EXPECT_EQ(refusals_text("megatron", "llama3-8b", "pp4,dp2,mbs1,layers=8-7-9-8", "0.12"),
            "stages of 8, 7, 9, 8 layers: stages of other layers than the first and the last rank's are for "
            "--pipeline-model-parallel-layout, which came with core 0.13\n");
  EXPECT_EQ(refusals_text("megatron", "qwen3-235b", "tp8,dp1,sp,mbs1", "0.15"),
            "tp8 with kv_heads=4: before core 0.16, --num-query-groups is a multiple of tp\n");
  EXPECT_NE(arguments_text("llama3-8b", "dp8,mbs1,zero3", "0.13").find("--use-custom-fsdp\n"),
            std::string::npos);
  EXPECT_NE(arguments_text("llama3-8b", "dp8,mbs1,zero3", "0.14")
                .find("--use-megatron-fsdp\n--data-parallel-sharding-strategy optim_grads_params\n"
                      "--no-gradient-accumulation-fusion\n--ckpt-format fsdp_dtensor\n"),
            std::string::npos);
  EXPECT_NE(arguments_text("llama3-8b", "tp8,dp1,mbs1", "0.13").find("--make-vocab-size-divisible-by 1\n"),
            std::string::npos);
}

// FSDP refuses what tensor parallelism asks for.
TEST(Megatron, SetsTheConnectionsOfDevices) {
  const auto launch = [](const std::string& recipe) {
    return content_named(
        megatron_files(framework_plan("llama3-8b", parse_recipe(recipe), make_topology("dgx-h100:1"))),
        "launch.sh");
  };
  EXPECT_NE(launch("tp2,dp4,mbs1").find("\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n"), std::string::npos);
  EXPECT_NE(launch("tp2,dp4,mbs1,zero3").find("\nunset CUDA_DEVICE_MAX_CONNECTIONS\n"), std::string::npos);
  EXPECT_EQ(launch("dp8,mbs1,zero1").find("CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
}

// A name alone is enough to build a zoo model again.
TEST(Megatron, SizesOfTheZooAreReadBackToItsNames) {
  for (const char* name : {"gpt", "gpt3-760m", "gpt3-175b", "llama", "llama3-8b", "llama3-70b", "qwen3-8b",
                           "mixtral-8x7b", "mixtral-8x22b", "qwen3-235b", "deepseek-v3"})
    EXPECT_EQ(zoo_text(decoder_sizes(name)), name);
  EXPECT_EQ(zoo_text(decoder_sizes("llama3-8b:layers=4,sequence=32768")),
            "llama3-8b:sequence=32768,layers=4");
  EXPECT_EQ(
      refusal([] { decoder_sizes("vgg16"); }),
      "model \"vgg16\": frameworks are given the sizes of a decoder, allowed: gpt, llama, mixtral, qwen3 "
      "and deepseek models of the zoo, or a config.json of Hugging Face");
}

TEST(Megatron, WritesArgumentsAndALaunchLine) {
  const Topology topology = make_topology("dgx-h100:2");
  Recipe recipe = parse_recipe("tp4,pp4,vpp2,dp1,sp,mbs1,zero1,first=6,last=6,recompute=full");
  const FrameworkPlan plan = framework_plan("llama3-8b:layers=28", recipe, topology, 16);
  const std::vector<ExportedFile> files = megatron_files(plan);
  EXPECT_EQ(
      content_named(files, "megatron.args"),
      "--num-layers 28\n--hidden-size 4096\n--ffn-hidden-size 14336\n--num-attention-heads 32\n"
      "--group-query-attention\n--num-query-groups 8\n--seq-length 8192\n--max-position-embeddings 8192\n"
      "--position-embedding-type rope\n--rotary-base 500000\n--rotary-percent 1\n--normalization RMSNorm\n"
      "--norm-epsilon 1e-05\n--swiglu\n--disable-bias-linear\n"
      "--untie-embeddings-and-output-weights\n--hidden-dropout 0\n--attention-dropout 0\n"
      "--init-method-std 0.02\n"
      "--padded-vocab-size 128256\n--bf16\n--tensor-model-parallel-size 4\n--sequence-parallel\n"
      "--context-parallel-size 1\n--pipeline-model-parallel-size 4\n"
      "--pipeline-model-parallel-layout Et*3|t*4|t*4|t*3|t*3|t*4|t*4|t*3L\n--optimizer adam\n"
      "--accumulate-allreduce-grads-in-fp32\n--use-distributed-optimizer\n--micro-batch-size 1\n"
      "--global-batch-size 16\n--recompute-granularity full\n--recompute-method uniform\n"
      "--recompute-num-layers 1\n");
  EXPECT_EQ(content_named(files, "hostfile"), "node0 slots=8\nnode1 slots=8\n");
  const std::string ranks = content_named(files, "ranks.csv");
  EXPECT_NE(ranks.find("rank,host,local_rank,device,tp,cp,dp,pp\n0,node0,0,node0.gpu0,0,0,0,0\n"),
            std::string::npos)
      << ranks;
  EXPECT_NE(ranks.find("13,node1,5,node1.gpu5,1,0,0,3\n"), std::string::npos) << ranks;
  EXPECT_EQ(
      content_named(files, "launch.sh"),
      "#!/bin/sh\n# tp4,pp4,vpp2,dp1,sp,mbs1,zero1,first=6,last=6,recompute=full\n"
      "# For Megatron-LM's main branch (d98e8a64dd of August 2026, core 0.20). Start it in its folder, on "
      "each host. Data,\n# learning rate and checkpoints are yours: replace the last line's arguments, or "
      "add to them.\nset -f\nhere=$(dirname \"$0\")\n"
      "found=$(sed -n 's/^M[AJINOR]* = //p' megatron/core/package_info.py 2>/dev/null | paste -sd .)\n"
      "if [ \"$found\" != 0.20 ] && [ -z \"$ANY_VERSION\" ]; then\n"
      "  echo \"$0: found Megatron-LM core ${found:-(none) in this folder}, allowed: 0.20; pipesim export "
      "--to megatron:VERSION writes for others, ANY_VERSION=1 starts it all the same\" >&2\n"
      "  exit 1\nfi\n"
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nnodes 2 --nproc-per-node 8 \\\n"
      "  --node-rank \"${NODE_RANK:?is the number of this host, from 0 to 1}\" \\\n"
      "  --master-addr \"${MASTER_ADDR:-node0}\" --master-port \"${MASTER_PORT:-29500}\" \\\n"
      "  pretrain_gpt.py $(cat \"$here/megatron.args\") \\\n"
      "  --mock-data --tokenizer-type NullTokenizer --vocab-size 128255 --train-iters 20 --lr 1e-4 "
      "--log-interval 1 \"$@\"\n");
}

TEST(Megatron, RefusesWhatHasNoArgument) {
  const auto refused = [](const std::string& recipe, const char* model = "llama3-8b") {
    return refusals_text("megatron", model, recipe);
  };
  EXPECT_EQ(refused("pp4,dp2,mbs1,schedule=zb-h1"),
            "schedule=zb-h1: its pipelines run 1f1b, or interleaved where there is vpp\n");
  EXPECT_EQ(
      refused("pp4,dp2,mbs1,zero3"),
      "zero3 with pp4: its FSDP is documented with tp, cp and ep alone, and --use-distributed-optimizer is "
      "zero1\n");
  EXPECT_EQ(refused("tp2,dp4,mbs1,order=dp-tp-cp-ep-pp"),
            "order=dp-tp: ranks are in the order tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp with "
            "--use-tp-pp-dp-mapping\n");
  EXPECT_EQ(refused("tp2,dp2,pp2,mbs1,order=cp-tp-ep-pp-dp"), "");
  EXPECT_EQ(refused("dp8,mbs1,fsdp"),
            "weights=float32: weights are kept in the model's type, with a float32 copy\n");
  EXPECT_EQ(refused("tp8,dp1,mbs1,ep8", "mixtral-8x7b"),
            "tp8 without sp: models with experts need --sequence-parallel where there is tp\n");
}

TEST(Megatron, ReadsAScript) {
  const std::string script = R"(#!/bin/bash
# An interleaved run.
TP=4
GPT_ARGS="
    --num-layers 32 \
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 2048
    --max-position-embeddings 2048
"
PARALLEL=(
    --tensor-model-parallel-size $TP  # within a node
    --pipeline-model-parallel-size ${PP:-2}
    --num-layers-per-virtual-pipeline-stage 4
    --sequence-parallel
)
torchrun --nproc_per_node 8 --nnodes=2 pretrain_gpt.py $GPT_ARGS "${PARALLEL[@]}" \
    --micro-batch-size 2 --global-batch-size=64 --bf16 --vocab-size 50257 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --save $DIR --lr 0.00015
)";
  const MegatronFile file = MegatronFile::parse(script, kMegatronFile);
  EXPECT_EQ(megatron_run(file, 16).launched, 16);
  const FrameworkRun run = megatron_run(file, 16);
  EXPECT_EQ(run.recipe.str(), "tp4,pp2,vpp4,dp2,sp,mbs2,zero1,overlap=gather,reduce=overlapped");
  EXPECT_EQ(run.samples, 64);
  EXPECT_EQ(run.model, "gpt3-6.7b:dtype=bfloat16,vocab=50688");
  EXPECT_TRUE(run.left_out.empty());
}

TEST(Megatron, ReadsArraysAndDefaultsOfAScript) {
  const MegatronFile file = MegatronFile::parse(R"sh(
GPUS_PER_NODE=8
MORE=yes
NNODES=${SLURM_NNODES:-"4"}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
mkdir -p "$(dirname "$SAVE")"
LAUNCH=(--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES)
ARGS=(
    "--num-layers 4"
    "--hidden-size  64"  "--num-attention-heads 4"
#-- seq - length 99
    --seq-length 128 # it's short
)
if [ -n "${MORE}" ]; then
  ARGS+=(--micro-batch-size 2)
fi
torchrun ${
    LAUNCH[@]} pretrain_gpt.py "${ARGS[@]}" --vocab-size 512 --save $SAVE
)sh",
                                                kMegatronFile);
  EXPECT_EQ(megatron_run(file, 32).launched, 32);
  EXPECT_EQ(file.count("--num-layers"), 4);
  EXPECT_EQ(file.count("--hidden-size"), 64);
  EXPECT_EQ(file.count("--seq-length"), 128);
  EXPECT_EQ(file.count("--micro-batch-size"), 2);
  EXPECT_EQ(megatron_run(file, 32).recipe.str(), "dp32,mbs2");
}

TEST(Megatron, ReadsYaml) {
  const FrameworkRun run = run_of_text(
      "MODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n  --seq-length: "
      "1024\n"
      "  --max-position-embeddings: 1024\n  --micro-batch-size: 4\n  --global-batch-size: 32\n  --bf16: "
      "true\n"
      "  --sequence-parallel: false\n  --tensor-model-parallel-size: 2\n  --vocab-size: 1000\n"
      "  --overlap-grad-reduce: true\n",
      8);
  EXPECT_EQ(run.recipe.str(), "tp2,dp4,mbs4,reduce=overlapped");
  EXPECT_EQ(decoder_sizes(run.model).vocabulary, 1024);
}

TEST(Megatron, ReadsLayouts) {
  const auto recipe_with = [](const std::string& layout, int layers, int stages) {
    return run_of_text(fmt::format("--num-layers {} --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
                                   "--micro-batch-size 1 --vocab-size 512 --pipeline-model-parallel-size {} "
                                   "--pipeline-model-parallel-layout \"{}\"",
                                   layers, stages, layout),
                       stages)
        .recipe.str();
  };
  EXPECT_EQ(recipe_with("Et*2|(tt|)*2,t*2L", 8, 4), "pp4,dp1,mbs1");
  EXPECT_EQ(recipe_with("E|t*3|t*3|t*2L", 8, 4), "pp4,dp1,mbs1,first=0,last=2");
  EXPECT_EQ(recipe_with("Et|t|t|tL", 4, 2), "pp2,vpp2,dp1,mbs1");
  EXPECT_EQ(recipe_with("Et*2|t*4|t|tL", 8, 4), "pp4,dp1,mbs1,layers=2-4-1-1");
  // What no recipe has is told: groups of devices keep their layers.
  EXPECT_EQ(recipe_with("Et*3|t|t|t*3L", 8, 2), "pp2,vpp2,dp1,mbs1");
  EXPECT_EQ(
      refusal([&] { recipe_with("Et*2|t*4L", 8, 2); }),
      "run.sh:1: --pipeline-model-parallel-layout: found \"Et*2|t*4L\", allowed: E, 8 times t and L, with "
      "| between stages, such as Et*4|t*4L");
}

TEST(Megatron, SaysWhatItLeavesOutOrCannotRead) {
  const std::string usual =
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "
      "--vocab-size 512 ";
  const auto refused = [&](const std::string& more, std::int64_t devices = 8) {
    return refusal([&] { run_of_text(usual + more, devices); });
  };
  EXPECT_EQ(refused("--fp4-format e2m1"), "run.sh:1: --fp4-format: 4-bit types can't be expressed");
  EXPECT_EQ(refused("--tensor-model-parallel-size 3"),
            "run.sh: tp3 x cp1 x pp1 is 3 devices, which do not divide the 8 of the run");
  EXPECT_EQ(refused("--tensor-model-parallel-size $TP"),
            "run.sh:1: --tensor-model-parallel-size: found \"$TP\", allowed: a whole number from 1 to "
            "1048576; the file "
            "gives this variable of the shell no plain value");
  EXPECT_EQ(
      refused("--micro-batch-size $2"),
      "run.sh:1: --micro-batch-size: found \"$2\", allowed: a whole number from 1 to 1048576; the script is "
      "given it as an argument");
  EXPECT_EQ(refused("--global-batch-size 12"),
            "run.sh:1: --global-batch-size: found 12, allowed: a multiple of --micro-batch-size 1 x dp8");
  EXPECT_EQ(refused("--optimizer soap"),
            "run.sh:1: --optimizer: found \"soap\", allowed: adam, sgd, muon, lion");
  EXPECT_EQ(refused("--hidden-dropout two"),
            "run.sh:1: --hidden-dropout: found \"two\", allowed: a number from 0 up to 1");
  EXPECT_EQ(refusal([] { MegatronFile::parse("hello", kMegatronFile); }),
            "run.sh: has no arguments of Megatron-LM, allowed: a file with words such as --num-layers 32");
  EXPECT_EQ(refusal([] { MegatronFile::parse("--a 1\n--b \"2", kMegatronFile); }),
            "run.sh:2: a quote is not closed");
  EXPECT_EQ(refusal([] { run_of_text("--hidden-size 64", 8); }), "run.sh: --num-layers is missing");
  const FrameworkRun run = run_of_text(usual +
                                           "--swiglu --recompute-granularity selective "
                                           "--recompute-modules core_attn mlp",
                                       8);
  EXPECT_EQ(
      run.left_out,
      (std::vector<std::string>{
          "--hidden-dropout: 0.1: nothing is dropped with --swiglu",
          "--normalization: LayerNorm is taken as RMSNorm with --swiglu",
          "--position-embedding-type: learned positions are taken as rotary with --swiglu",
          "--disable-bias-linear: missing; products have no biases with --swiglu, but for queries, keys "
          "and values"}));
  EXPECT_EQ(run.recipe.recompute.str(), "core_attn+mlp");
}

std::string optimizer_of(const std::string& arguments, const std::string& told = "") {
  const FrameworkRun run = run_of_text(
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "
      "--vocab-size 512 --overlap-grad-reduce --use-distributed-optimizer " +
          arguments,
      8);
  EXPECT_EQ(fmt::format("{}", fmt::join(run.left_out, "; ")), told) << arguments;
  return fmt::format("{} {}", run.optimizer.str(), name_of(run.gradient_type));
}

TEST(Megatron, ReadsTypesOfTheState) {
  EXPECT_EQ(optimizer_of("--bf16"), "adam float32");
  EXPECT_EQ(optimizer_of("--bf16 --optimizer lion"), "lion float32");
  EXPECT_EQ(optimizer_of("--bf16 --optimizer dist_muon --muon-momentum 0.9"), "muon float32");
  EXPECT_EQ(optimizer_of("--bf16 --optimizer adaptive_muon",
                         "--optimizer: adaptive_muon is taken as muon, without the scale of each row"),
            "muon float32");
  const std::string aware = "--use-precision-aware-optimizer ";
  EXPECT_EQ(optimizer_of("--bf16 " + aware), "adam,main=remainder float32");
  EXPECT_EQ(optimizer_of("--bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 " + aware),
            "adam,moments=bfloat16,main=remainder float32");
  EXPECT_EQ(optimizer_of("--bf16 --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16 --main-params-dtype fp16 "
                         "--main-grads-dtype bf16 " +
                         aware),
            "adam,moments=float8+float16,main=float16 bfloat16");
  EXPECT_EQ(optimizer_of("--fp16 --accumulate-allreduce-grads-in-fp32 --exp-avg-dtype fp16 " + aware),
            "adam,moments=float16+float32 float32");
  // Weights in float8 are found from whole copies, but with delayed scales.
  EXPECT_EQ(optimizer_of("--bf16 --fp8-format hybrid " + aware), "adam,main=remainder float32");
  EXPECT_EQ(optimizer_of("--bf16 --fp8-format hybrid --fp8-recipe blockwise " + aware), "adam float32");
  EXPECT_EQ(optimizer_of("--bf16 --exp-avg-dtype bf16",
                         "--exp-avg-dtype: the optimizer's state is in float32 without "
                         "--use-precision-aware-optimizer"),
            "adam float32");
  EXPECT_EQ(refusal([&] { optimizer_of("--bf16 --exp-avg-dtype int8 " + aware); }),
            "run.sh:1: --exp-avg-dtype: found \"int8\", allowed: fp32, fp16, bf16, fp8");
  EXPECT_EQ(refusal([&] { optimizer_of("--bf16 --main-params-dtype bf16 " + aware); }),
            "run.sh:1: --main-params-dtype: found \"bf16\", allowed: fp32, fp16");
}

TEST(Megatron, WritesTypesOfTheState) {
  const auto plan_with = [](const std::string& recipe, const std::string& optimizer, const char* version) {
    FrameworkPlan plan = with_version(
        framework_plan("llama3-8b", parse_recipe(recipe), make_topology("dgx-h100:1")), "megatron", version);
    plan.optimizer = parse_optimizer(optimizer);
    return plan;
  };
  const auto written = [&](const std::string& optimizer) {
    std::string text;
    for (const FrameworkSetting& s :
         framework_named("megatron").settings(plan_with("tp8,sp,dp1,mbs1,zero1", optimizer, "main"))) {
      for (const char* part : {"optimizer", "exp-avg", "main-", "momentum"})
        if (s.name.find(part) != std::string::npos && s.name != "--use-distributed-optimizer")
          text += s.name + (s.value.empty() ? "" : " ") + s.value + " ";
    }
    return text;
  };
  EXPECT_EQ(written("adam"), "--optimizer adam ");
  EXPECT_EQ(written("muon"), "--optimizer muon ");
  EXPECT_EQ(written("adam,main=remainder"), "--optimizer adam --use-precision-aware-optimizer ");
  EXPECT_EQ(written("adam,moments=float8+bfloat16,main=float16"),
            "--optimizer adam --use-precision-aware-optimizer --main-params-dtype fp16 --exp-avg-dtype fp8 "
            "--exp-avg-sq-dtype bf16 ");
  const auto refused = [&](const std::string& recipe, const std::string& optimizer,
                           const char* version = "main") {
    std::string text;
    for (const Refusal& r : framework_named("megatron").refusals(plan_with(recipe, optimizer, version)))
      text += r.part + ": " + r.reason + "\n";
    return text;
  };
  EXPECT_EQ(refused("dp8,mbs1,zero1", "adam8bit"),
            "--optimizer adam8bit: its optimizers are adam, sgd, lion and muon\n");
  EXPECT_EQ(refused("dp8,mbs1,zero1", "lion", "0.19"),
            "--optimizer lion: lion and muon are written for versions after core 0.19\n");
  EXPECT_EQ(refused("dp8,mbs1,zero1", "lion,moments=bfloat16"),
            "--optimizer lion,moments=bfloat16: --use-precision-aware-optimizer, which keeps state in other "
            "types, is for adam\n");
  EXPECT_EQ(
      refused("dp8,mbs1,zero1", "adam,main=none"),
      "--optimizer adam,main=none: with --use-precision-aware-optimizer main weights are in float16, or "
      "of bfloat16 ones the remainder\n");
  EXPECT_EQ(refused("dp8,mbs1,zero1", "adam,moments=bfloat16,main=remainder", "0.12"),
            "--optimizer adam,moments=bfloat16,main=remainder: moments in bfloat16 came with core 0.13\n");
  EXPECT_EQ(refused("dp8,mbs1", "adam,main=remainder"),
            "--optimizer adam,main=remainder without zero1: --use-precision-aware-optimizer needs "
            "--use-distributed-optimizer, and its FSDP has types of its own\n");
  EXPECT_EQ(refused("dp8,mbs1,zero3", "muon"), "zero3 with --optimizer muon: its FSDP is for adam and sgd\n");
}

const std::string kUsualArguments =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "
    "--vocab-size 512 --overlap-grad-reduce ";

TEST(Megatron, TellsWhatItDoesNotModelOrKnow) {
  const FrameworkRun run = run_of_text(
      kUsualArguments +
          "--recompute-granularty full --lr 1e-4 --rampup-batch-size 1 1 100 --cuda-graph-impl none "
          "--partition-activations --fine-grained-activation-offloading --moe-enable-deepep "
          "--lora-rank 16 --enable-cuda-graph --save $DIR --my-own-switch",
      8);
  EXPECT_EQ(run.left_out,
            (std::vector<std::string>{
                "--recompute-granularty: no version of Megatron-LM has it, so it is left out (did you mean "
                "\"--recompute-granularity\"?)",
                "--rampup-batch-size: the batch is that of --global-batch-size from the start",
                "--partition-activations: the kept inputs of layers are whole on each device of tp",
                "--fine-grained-activation-offloading: activations stay on their device",
                "--moe-enable-deepep: tokens are exchanged as by the dispatcher alltoall",
                "--lora-rank: all weights are trained, without adapters",
                "--enable-cuda-graph: kernels are started one by one",
                "--my-own-switch: no version of Megatron-LM has it, so it is left out"}));
}

TEST(Megatron, FlagsAreKnownOnce) {
  const std::vector<std::string>& names = megatron_flag_names();
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << *std::ranges::adjacent_find(sorted);
  for (const std::string& name : names) {
    EXPECT_TRUE(name.starts_with("--") && name.find_first_of(" _") == std::string::npos) << name;
    EXPECT_NE(megatron_flag(MegatronFile::modern(name)), nullptr) << name;
  }
  const MegatronFlag* const told = megatron_flag("--cuda-graph-impl");
  ASSERT_NE(told, nullptr);
  EXPECT_FALSE(asks_for(*told, "none"));
  EXPECT_TRUE(asks_for(*told, "local"));
}

// Names of forks and of earlier versions.
TEST(Megatron, OlderNamesMeanTodays) {
  const FrameworkRun run = run_of_text(
      kUsualArguments +
          "--checkpoint-activations --checkpoint-num-layers 1 --model-parallel-size 2 --deepspeed "
          "--zero_stage=1 --deepspeed-activation-checkpointing --num-key-value-heads 2 --fp16",
      8);
  EXPECT_EQ(run.recipe.str(), "tp2,dp4,mbs1,zero1,recompute=full,reduce=overlapped");
  EXPECT_EQ(decoder_sizes(run.model).kv_heads, 2);
  EXPECT_TRUE(decoder_sizes(run.model).writes_scores);  // as no flag asks for fused attention
  EXPECT_EQ(run_of_text(kUsualArguments + "--cpu-optimizer", 8).left_out,
            (std::vector<std::string>{
                "--cpu-optimizer: the optimizer's state stays on the devices, and so does its update"}));
  EXPECT_EQ(refusal([] { run_of_text(kUsualArguments + "--model-parallel-size two", 8); }),
            "run.sh:1: --model-parallel-size: found \"two\", allowed: a whole number from 1 to 1048576");
  EXPECT_EQ(run_of_text(kUsualArguments + "--pipe-parallel-size 2 --gas 6", 8).samples, 24);
  EXPECT_EQ(run_of_text(kUsualArguments + "--use-megatron-fsdp", 8).recipe.str(), "dp8,mbs1,zero3");
  EXPECT_EQ(run_of_text(kUsualArguments + "--use-custom-fsdp", 8).recipe.str(), "dp8,mbs1,reduce=overlapped");
}

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

TEST(Megatron, ReadsAlibi) {
  const std::string bloom =
      "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --micro-batch-size 2 "
      "--tensor-model-parallel-size 4 --pad-vocab-size-to 250880 --position-embedding-type alibi --bf16 "
      "--hidden-dropout 0 --embed-layernorm --overlap-grad-reduce ";
  const FrameworkRun run = run_of_text(bloom, 8);
  EXPECT_EQ(run.model, "bloom-176b");
  EXPECT_TRUE(run.left_out.empty());
  EXPECT_EQ(refusal([&] { run_of_text(bloom + "--group-query-attention --num-query-groups 8", 8); }),
            "run.sh:1: --position-embedding-type: ALiBi with experts or grouped heads can't be expressed");
}

TEST(Megatron, ReadsLayersWithExperts) {
  const auto run_with = [](const std::string& pattern) {
    return run_of_text(
        kUsualArguments +
            "--swiglu --num-experts 4 --multi-latent-attention --q-lora-rank 8 --moe-layer-freq " + pattern,
        8);
  };
  EXPECT_EQ(decoder_sizes(run_with("\"([0]*1+[1]*7)\"").model).experts->dense_layers, 1);
  EXPECT_EQ(decoder_sizes(run_with("'[0, 0] + [1] * 6'").model).experts->dense_layers, 2);
  EXPECT_EQ(decoder_sizes(run_with("1").model).experts->dense_layers, 0);
  EXPECT_EQ(refusal([&] { run_with("2"); }),
            "run.sh:1: --moe-layer-freq: found \"2\", dense layers between others can't be expressed, "
            "allowed: 1, or "
            "([0]*D+[1]*E) with D dense layers in front of E others");
  EXPECT_EQ(
      refusal([&] { run_with("([0]*1+[1]*5)"); }),
      "run.sh:1: --moe-layer-freq: found \"([0]*1+[1]*5)\", which are 6 layers and not 8, allowed: 1, or "
      "([0]*D+[1]*E) with D dense layers in front of E others");
}

TEST(Megatron, DividesNoExpertsWhereThereAreNone) {
  const std::string degrees = "--tensor-model-parallel-size 4 --expert-tensor-parallel-size 2 ";
  EXPECT_EQ(run_of_text(kUsualArguments + degrees, 8).recipe.str(), "tp4,dp2,mbs1,reduce=overlapped");
  EXPECT_EQ(run_of_text(kUsualArguments + degrees + "--num-experts 4", 8).recipe.str(),
            "tp4,dp2,etp2,mbs1,reduce=overlapped");
}

TEST(Megatron, KnowsTokenizers) {
  const auto words_with = [](const std::string& more) {
    return decoder_sizes(
               run_of_text("--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
                           "--micro-batch-size 1 --make-vocab-size-divisible-by 1 " +
                               more,
                           8)
                   .model)
        .vocabulary;
  };
  EXPECT_EQ(words_with("--tokenizer-type GPT2BPETokenizer"), 50257);
  EXPECT_EQ(words_with("--vocab-file v.json --merge-file m.txt"), 50257);
  EXPECT_EQ(words_with("--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B"),
            128256);
  EXPECT_EQ(words_with("--tokenizer-type NullTokenizer --vocab-size 100"), 101);
  const FrameworkRun bert = run_of_text(
      "python pretrain_bert.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
      "--micro-batch-size 1 --make-vocab-size-divisible-by 1",
      8);
  EXPECT_EQ(bert.model, "bert-large");
}

TEST(Megatron, ReadsOtherProgramsAsWhatTheyTrain) {
  const auto model_of = [](const std::string& program, const std::string& more = "") {
    return run_of_text("torchrun --nproc-per-node 8 " + program + " " + kUsualArguments + more + "\n", 8)
        .model;
  };
  EXPECT_EQ(model_of("pretrain_bert.py"),
            "bert48:sequence=64,layers=8,hidden=64,heads=4,vocab=512,positions=64");
  EXPECT_EQ(model_of("pretrain_t5.py", "--decoder-seq-length 32 --kv-channels 16").substr(0, 3), "t5-");
  EXPECT_EQ(refusal([&] { model_of("pretrain_vision_classify.py"); }),
            "run.sh: pretrain_vision_classify.py: vision models can't be expressed");
  EXPECT_EQ(
      refusal([&] { model_of("pretrain_t5.py", "--pipeline-model-parallel-size 2"); }),
      "run.sh:1: --pipeline-model-parallel-size: pipelines of an encoder and a decoder can't be expressed");
  EXPECT_EQ(
      refusal([] { MegatronFile::parse("\npython train.py --config a.yaml\n", kMegatronFile); }),
      "run.sh:2: starts train.py, which is no program of Megatron-LM, allowed: a script that trains with "
      "Megatron-LM");
  EXPECT_EQ(
      refusal([] {
        run_of_text("python run_clm.py --hidden-size 64 --model-name x --block-size 4 --do-train\n", 8);
      }),
      "run.sh: starts run_clm.py, which is no program of Megatron-LM, allowed: a script that trains with "
      "Megatron-LM");
  EXPECT_EQ(refusal([] { MegatronFile::parse("bash other.sh\n", kMegatronFile); }),
            "run.sh: needs other.sh, which is not there");
}

TEST(Megatron, TakesTheFirstOfSeveralRuns) {
  const MegatronFile file = MegatronFile::parse(
      "for N in 4 8; do\n  python pretrain_gpt.py --num-layers $N --lr 1\ndone\n", kMegatronFile);
  EXPECT_EQ(file.count("--num-layers"), 4);
  EXPECT_EQ(file.notes(),
            (std::vector<std::string>{"line 2: of 2 runs that are started, this one is taken"}));
}

// What is exported is launched by a script that reads the arguments beside it.
TEST(Megatron, ReadsTheLaunchScriptThatExportWrites) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "launch_script";
  std::filesystem::create_directories(folder);
  const Topology topology = make_topology("dgx-h100:2");
  const FrameworkPlan plan =
      framework_plan("llama3-8b:layers=28", parse_recipe("tp4,pp4,dp1,sp,mbs1,zero1"), topology, 16);
  for (const ExportedFile& file : megatron_files(plan)) write_file(folder / file.name, file.content);
  const MegatronFile launch = MegatronFile::load((folder / "launch.sh").string());
  EXPECT_EQ(megatron_run(launch, 16).launched, 16);
  const FrameworkRun run = megatron_run(launch, 16);
  EXPECT_EQ(run.recipe.str(), "tp4,pp4,dp1,sp,mbs1,zero1");
  EXPECT_EQ(decoder_sizes(run.model), plan.sizes);
  std::filesystem::remove(folder / "megatron.args");
  EXPECT_EQ(refusal([&] { megatron_run(MegatronFile::load((folder / "launch.sh").string()), 16); }),
            fmt::format("{0}/launch.sh: needs {0}/megatron.args, which is not there", folder.string()));
  std::filesystem::remove_all(folder);
}

// Whatever stands in a file, it is read or refused.
TEST(Megatron, ReadsOrRefusesAnything) {
  const std::vector<std::string> parts{"--num-layers",
                                       "--hidden-size",
                                       "--num-attention-heads",
                                       "--seq-length",
                                       "--micro-batch-size",
                                       "--swiglu",
                                       "--num-experts",
                                       "--pipeline-model-parallel-size",
                                       "--pipeline-model-parallel-layout",
                                       "--num-virtual-stages-per-pipeline-rank",
                                       "--decoder-first-pipeline-num-layers",
                                       "--kv-channels",
                                       "--moe-layer-freq",
                                       "--multi-latent-attention",
                                       "--q-lora-rank",
                                       "--context-parallel-size",
                                       "--cp-comm-type",
                                       "--tensor-model-parallel-size",
                                       "--num-query-groups",
                                       "--group-query-attention",
                                       "--use-distributed-optimizer",
                                       "--num-distributed-optimizer-instances",
                                       "1",
                                       "2",
                                       "4",
                                       "8",
                                       "64",
                                       "1048576",
                                       "9999999999999",
                                       "-1",
                                       "0",
                                       "0.5",
                                       "Et*4|t*4L",
                                       "(t*9999)*9999",
                                       "(((",
                                       "a2a+p2p",
                                       "([0]*1+[1]*7)",
                                       "\\",
                                       "\\\n",
                                       "\n",
                                       "#",
                                       "'",
                                       "\"",
                                       "$",
                                       "${",
                                       "${X",
                                       "${X:-2}",
                                       "X=3",
                                       "$X",
                                       "A=(",
                                       ")",
                                       "=",
                                       "pretrain_gpt.py",
                                       "pretrain_bert.py",
                                       "--deepspeed",
                                       "--position-embedding-type",
                                       "alibi",
                                       "if",
                                       "fi",
                                       "--",
                                       "--=",
                                       ":"};
  int read = 0;
  for_each_seed(3000, [&](Rng& rng) {
    std::string text = rng.below(2) == 0 ? ""
                                         : "--num-layers 8 --hidden-size 64 --num-attention-heads 8 "
                                           "--seq-length 64 --micro-batch-size 1 ";
    for (std::uint64_t i = rng.below(20); i > 0; --i)
      text += parts[rng.below(parts.size())] + (rng.below(8) == 0 ? "" : " ");
    try {
      const FrameworkRun run = run_of_text(text, 8);
      EXPECT_EQ(run.recipe.devices(), 8) << text;
      EXPECT_GT(decoder_sizes(run.model).layers, 0) << text;
      ++read;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()), "") << text;
    }
  });
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace pipesim
