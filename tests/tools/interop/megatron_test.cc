#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/refusal.h"
#include "tests/tools/interop/documented_settings.h"
#include "tests/tools/interop/framework_case.h"
#include "tests/tools/interop/megatron_case.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/megatron/megatron_arguments.h"
#include "tools/interop/megatron/megatron_files.h"
#include "tools/interop/megatron/megatron_flags.h"
#include "tools/interop/megatron/megatron_run.h"

namespace pipesim {
namespace {

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

// Recipes of products are written and read back, for versions that have them.
TEST(Megatron, SaysInWhatProductsMultiply) {
  const auto precision = [](const std::string& model, std::string_view version = "main") {
    const std::string text = arguments_text(model, "dp8,mbs1,zero1", version);
    EXPECT_EQ(decoder_sizes(run_of_text(text, 8).model).products, decoder_sizes(model).products) << text;
    EXPECT_EQ(decoder_sizes(run_of_text(text, 8).model).own_at_end, decoder_sizes(model).own_at_end) << text;
    std::string found;
    for (const MegatronArgument& a : megatron_arguments(
             with_version(framework_plan(model, parse_recipe("dp8,mbs1,zero1"), make_topology("dgx-h100:1")),
                          "megatron", version))) {
      if (a.flag.starts_with("--fp") || a.flag.find("bf16") != std::string::npos)
        found += fmt::format("{} {};", a.flag, fmt::join(a.values, " "));
    }
    return found;
  };
  const std::string model = "llama3-8b:dtype=bfloat16,products=";
  EXPECT_EQ(precision(model + "fp8-delayed"), "--bf16 ;--fp8-format hybrid;");
  EXPECT_EQ(precision(model + "fp8-tensor", "0.12"), "--bf16 ;--fp8-format hybrid;--fp8-recipe tensorwise;");
  EXPECT_EQ(precision(model + "fp8-block"), "--bf16 ;--fp8-format hybrid;--fp8-recipe blockwise;");
  EXPECT_EQ(precision(model + "mxfp8,own_at_end=2"),
            "--bf16 ;--fp8-format hybrid;--fp8-recipe mxfp8;--first-last-layers-bf16 ;"
            "--num-layers-at-start-in-bf16 0;--num-layers-at-end-in-bf16 2;");
  EXPECT_EQ(precision(model + "nvfp4", "0.15"), "--bf16 ;--fp4-format e2m1;");
  const auto refused = [&](const std::string& products, std::string_view version) {
    return refusals_text("megatron", model + products, "dp8,mbs1,zero1", version);
  };
  EXPECT_EQ(refused("fp8-block", "0.12"), "products=fp8-block: --fp8-recipe blockwise came with core 0.13\n");
  EXPECT_EQ(refused("nvfp4", "0.14"), "products=nvfp4: --fp4-format came with core 0.15\n");
  EXPECT_EQ(refused("fp8-delayed,own_at_start=1", "main"),
            "products=fp8-delayed: --first-last-layers-bf16 needs scales of the same iteration\n");
}

TEST(Megatron, ReadsInWhatProductsMultiply) {
  const auto sizes = [](const std::string& arguments) {
    return decoder_sizes(run_of_text(kUsualArguments + "--bf16 " + arguments, 8).model);
  };
  EXPECT_EQ(sizes("").products, "own");
  EXPECT_EQ(sizes("--fp8-format e4m3").products, "fp8-delayed");
  const DecoderSizes both = sizes("--fp8-format hybrid --fp8-recipe mxfp8 --first-last-layers-bf16");
  EXPECT_EQ(std::tuple(both.products, both.own_at_start, both.own_at_end), std::tuple("mxfp8", 1, 1));
  const DecoderSizes end = sizes(
      "--fp4-format e2m1 --fp4-recipe nvfp4 --first-last-layers-bf16 --num-layers-at-start-in-bf16 0 "
      "--num-layers-at-end-in-bf16 3");
  EXPECT_EQ(std::tuple(end.products, end.own_at_start, end.own_at_end), std::tuple("nvfp4", 0, 3));
  EXPECT_EQ(refusal([&] { sizes("--fp8-format hybrid --fp8-recipe custom"); }),
            "run.sh:1: --fp8-recipe: found \"custom\", allowed: delayed, tensorwise, blockwise, mxfp8");
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
  EXPECT_EQ(refusal([] { decoder_sizes("vgg16"); }),
            "model \"vgg16\": frameworks are given the sizes of a decoder, allowed: gpt, llama, mixtral, "
            "qwen3, deepseek "
            "and decoder models of the zoo, or a config.json of Hugging Face");
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

TEST(Megatron, ReadsWhetherTheGateIsFused) {
  const std::string text = arguments_text("llama3-8b:swiglu=separate", "dp8,mbs1");
  EXPECT_NE(text.find("--no-bias-swiglu-fusion\n"), std::string::npos);
  const FrameworkRun run = run_of_text(text, 8);
  EXPECT_NE(run.model.find("swiglu=separate"), std::string::npos) << run.model;
  EXPECT_TRUE(run.left_out.empty()) << run.left_out.front();
  EXPECT_EQ(arguments_text("llama3-8b", "dp8,mbs1").find("swiglu-fusion"), std::string::npos);
  EXPECT_EQ(arguments_text("llama3-8b:swiglu=fused", "dp8,mbs1").find("swiglu-fusion"), std::string::npos);
}

}  // namespace
}  // namespace pipesim
