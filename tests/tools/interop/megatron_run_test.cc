#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
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

TEST(Megatron, ReadsWhatTheAllocatorIsTold) {
  const auto run = [](const std::string& before, const std::string& launcher = "torchrun") {
    return run_of_text(
        before + launcher + " --nproc-per-node 8 pretrain_gpt.py " + std::string(kUsualArguments) + "\n", 8);
  };
  EXPECT_FALSE(run("").expandable_segments);
  EXPECT_TRUE(run("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n").expandable_segments);
  EXPECT_TRUE(run("export PYTORCH_ALLOC_CONF='expandable_segments:True'\n").expandable_segments);
  EXPECT_TRUE(run("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ").expandable_segments);
  EXPECT_TRUE(run("", "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun").expandable_segments);
  EXPECT_TRUE(run("", "mpirun -x PYTORCH_ALLOC_CONF=expandable_segments:True python").expandable_segments);
  EXPECT_FALSE(run("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n").expandable_segments)
      << "no program sees it";
  EXPECT_FALSE(run("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False\n").expandable_segments);
  EXPECT_FALSE(run("export PYTORCH_ALLOC_CONF=expandable_segments:False\n"
                   "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n")
                   .expandable_segments);
  const FrameworkRun both =
      run("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True\n");
  EXPECT_TRUE(both.expandable_segments);
  EXPECT_NE(
      std::ranges::find(both.left_out,
                        "PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb:512: the allocator is taken to work "
                        "without it"),
      both.left_out.end());
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
  EXPECT_EQ(refused("--fp4-quantizer-factory a.b"),
            "run.sh:1: --fp4-quantizer-factory: 4-bit types of one's own code can't be expressed");
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

TEST(Megatron, TellsWhatItDoesNotModelOrKnow) {
  const FrameworkRun run = run_of_text(
      kUsualArguments +
          "--recompute-granularty full --lr 1e-4 --rampup-batch-size 1 1 100 --optimizer-cuda-graph "
          "--partition-activations --fine-grained-activation-offloading "
          "--lora-rank 16 --save $DIR --my-own-switch",
      8);
  EXPECT_EQ(run.left_out,
            (std::vector<std::string>{
                "--recompute-granularty: no version of Megatron-LM has it, so it is left out (did you mean "
                "\"--recompute-granularity\"?)",
                "--rampup-batch-size: the batch is that of --global-batch-size from the start",
                "--optimizer-cuda-graph: kernels of the optimizer are started one by one",
                "--partition-activations: the kept inputs of layers are whole on each device of tp",
                "--fine-grained-activation-offloading: activations stay on their device",
                "--lora-rank: all weights are trained, without adapters",
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
  const MegatronFlag* const told = megatron_flag("--megatron-fsdp-grad-comm-dtype");
  ASSERT_NE(told, nullptr);
  EXPECT_FALSE(asks_for(*told, "fp32"));
  EXPECT_TRUE(asks_for(*told, "bf16"));
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
  const FrameworkRun without_latent = run_of_text(
      kUsualArguments + "--swiglu --num-experts 4 --multi-latent-attention --moe-layer-freq 1", 8);
  EXPECT_EQ(decoder_sizes(without_latent.model).latent->query_rank, 0);
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
