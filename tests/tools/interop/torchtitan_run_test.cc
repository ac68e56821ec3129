#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/tools/interop/framework_case.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/torchtitan/torchtitan.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_files.h"
#include "tools/interop/torchtitan/torchtitan_model.h"
#include "tools/interop/torchtitan/torchtitan_run.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// Gone with this object.
class RunFolder {
 public:
  explicit RunFolder(const std::string& name) : path_(fs::path(testing::TempDir()) / name) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~RunFolder() { fs::remove_all(path_); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    write_file(path_ / name, text);
    return (path_ / name).string();
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

FrameworkRun run_of(const std::string& path, std::int64_t devices) {
  return torchtitan_run(load_torchtitan(path), devices);
}

FrameworkRun run_of_toml(const std::string& text, std::int64_t devices = 8) {
  const RunFolder folder("torchtitan_toml");
  return run_of(folder.write("run.toml", text), devices);
}

// What compilation is not asked for is told, as plans for torchtitan are of compiled kernels; so is the check
// of the version in the script.
std::vector<std::string> without_compile(std::vector<std::string> left_out) {
  std::erase_if(left_out, [](const std::string& what) {
    return what.starts_with("compile.") ||
           what.ends_with("a condition is not known here, and taken as false");
  });
  return left_out;
}

// Nothing says whether weights in the model's type are wide, or whether one copy is divided.
Recipe as_written(const FrameworkPlan& plan) {
  Recipe recipe = plan.recipe;
  StateSharding& s = recipe.state_sharding;
  if (plan.copies() == 1 || s.group == 1) s = StateSharding();
  if (s.any()) s.wide_weights = !is_all_bfloat16(plan);
  s.wide_gathers = false;
  if (recipe.tensor == 1) recipe.sequence_parallel = false;
  return recipe;
}

void expect_read_back(const FrameworkPlan& plan, const RecipeModel& model, const Topology& topology,
                      const std::string& start) {
  const RunFolder folder("torchtitan_back");
  std::string all;
  for (const ExportedFile& file : torchtitan_files(plan)) {
    folder.write(file.name, file.content);
    all += file.content;
  }
  const FrameworkRun run = run_of(folder.file(start), 8);
  EXPECT_EQ(decoder_sizes(run.model), plan.sizes) << all;
  EXPECT_EQ(run.samples, plan.samples);
  EXPECT_EQ(run.optimizer, plan.optimizer);
  EXPECT_EQ(run.gradient_type, plan.gradient_type);
  EXPECT_EQ(run.recipe.microbatch, plan.recipe.microbatch);
  EXPECT_EQ(run.recipe.schedule_name(), plan.recipe.schedule_name());
  EXPECT_EQ(run.recipe.tensor_overlap.value_or(false),
            plan.recipe.tensor_overlap.value_or(false) && plan.recipe.tensor > 1);
  EXPECT_THAT(without_compile(run.left_out), testing::IsEmpty()) << all;
  // The model of a plan that was amended may have another batch.
  constexpr std::int64_t kBatch = 8;
  EXPECT_EQ(run.recipe.data, plan.recipe.data);
  if (plan.recipe.data * plan.recipe.microbatch == kBatch)
    expect_same_plan(run.recipe, as_written(plan), model, topology);
}

// What is written, for either version, is read back to the same plan of the same model.
TEST(TorchtitanRun, ExportsReadBackToThePlan) {
  int of_toml = 0;
  for_random_plans(
      framework_named("torchtitan"), 150,
      [&](const FrameworkPlan& plan, const RecipeModel& model, const Topology& topology) {
        expect_read_back(plan, model, topology, "pipesim_plan.py");
        expect_read_back(plan, model, topology, "launch.sh");
        const FrameworkPlan toml = with_version(plan, "torchtitan", "0.2");
        if (!framework_named("torchtitan").refusals(toml).empty()) return;
        ++of_toml;
        expect_read_back(toml, model, topology, "launch.sh");
      },
      {"llama3-8b:batch=8", "llama3-8b:batch=8,rotary_scaling=llama3,rotary_factor=8,norm_epsilon=1e-6",
       "deepseek-v3:batch=8,sequence=8192", "qwen3-8b:batch=8"});
  EXPECT_GT(of_toml, 10);
}

// With positions and norms of their own.
TEST(TorchtitanRun, ReadsBackEachModelThatIsWritten) {
  const Framework& torchtitan = framework_named("torchtitan");
  const RunFolder folder("torchtitan_flavors");
  std::map<std::string_view, int> written;
  for (const TorchtitanFlavor& flavor : torchtitan_flavors()) {
    if (flavor.zoo.empty() || !flavor.what.empty()) continue;
    for (const FrameworkVersion& version : torchtitan.versions()) {
      SCOPED_TRACE(fmt::format("{} {} {}", flavor.module, flavor.flavor, version.name));
      FrameworkPlan plan =
          framework_plan(std::string(flavor.zoo), parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1"));
      plan.version = version;
      plan.sizes.sequence = 6144;
      plan.sizes.norm_epsilon = 1e-4;
      plan.sizes.rotary_base = 1234567;
      if (!torchtitan.refusals(plan).empty()) {
        EXPECT_EQ(refusals_text("torchtitan", plan.model, "dp8,mbs1,fsdp", version.name).substr(0, 7),
                  "model \"");
        EXPECT_TRUE(flavor.function.empty() || flavor.main_only);
        continue;
      }
      ++written[version.name];
      for (const ExportedFile& file : torchtitan.files(plan)) folder.write(file.name, file.content);
      const FrameworkRun run =
          run_of(folder.file(takes_toml(plan) ? "pipesim_plan.toml" : "pipesim_plan.py"), 8);
      EXPECT_THAT(run.left_out, testing::IsEmpty());
      DecoderSizes read = decoder_sizes(run.model), asked = plan.sizes;
      for (DecoderSizes* sizes : {&read, &asked}) {
        sizes->init_deviation = 0;
        if (sizes->experts) sizes->experts->balance_loss = 0;
      }
      EXPECT_EQ(read, asked) << run.model;
      EXPECT_EQ(run.recipe.str(), plan.recipe.str());
    }
  }
  EXPECT_GE(written["0.2"], 12);
  EXPECT_GE(written["main"], 14);
}

TEST(TorchtitanRun, ReadsAToml) {
  const FrameworkRun run = run_of_toml(
      "[job]\ndump_folder = \"out\"\n[model]\nname = \"llama3\"\nflavor = "
      "\"70B\"\n[training]\nlocal_batch_size = 8\n"
      "seq_len = 8192\n[parallelism]\ntensor_parallel_degree = 8\ndata_parallel_shard_degree = -1\n"
      "[activation_checkpoint]\nmode = \"full\"\n[compile]\nenable = true\n",
      64);
  EXPECT_EQ(run.framework, "torchtitan");
  EXPECT_EQ(run.model, "llama3-70b:rotary_scaling=llama3,rotary_factor=8");
  EXPECT_EQ(run.recipe.str(), "tp8,dp8,sp,mbs8,zero3,weights=float32,recompute=full");
  EXPECT_EQ(run.samples, 64);
  EXPECT_THAT(run.left_out, testing::IsEmpty());
}

// Keys of releases before 0.2 have moved.
TEST(TorchtitanRun, ReadsOlderKeys) {
  const FrameworkRun run = run_of_toml(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 4\nseq_len = 8192\ncompile = "
      "true\n"
      "tensor_parallel_degree = 2\n[experimental]\npipeline_parallel_degree = 2\n"
      "pipeline_parallel_schedule = \"GPipe\"\n[activation_checkpoint]\nmode = \"none\"\n");
  EXPECT_EQ(run.recipe.str(), "tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,schedule=gpipe");
  EXPECT_EQ(run.samples, 8);
  EXPECT_THAT(run.left_out, testing::IsEmpty());
}

TEST(TorchtitanRun, TellsWhatIsTakenOtherwise) {
  const FrameworkRun run = run_of_toml(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"float8\"]\n[training]\nlocal_batch_size "
      "= 1\n"
      "seqlen = 4096\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
      "\"InterleavedZeroBubble\"\n[optimizer]\nname = \"Adam\"\nimplementation = \"foreach\"\n");
  EXPECT_THAT(
      run.left_out,
      testing::ElementsAre(
          "training.seqlen: no version of torchtitan has it, so it is left out (did you mean "
          "\"training.seq_len\"?)",
          "parallelism.pipeline_parallel_schedule: InterleavedZeroBubble is taken as Interleaved1F1B: "
          "backward is one step",
          "parallelism.pipeline_parallel_schedule: stages of 8, 9, 8, 7 layers are taken as 8, 8, 8, 8",
          "compile.enable: kernels are fused as the compiler does it"));
  EXPECT_EQ(run.optimizer_kernel, OptimizerKernel::Foreach);
  EXPECT_EQ(run.recipe.recompute.str(), "every:2");
  EXPECT_THAT(run.model, HasSubstr("products=float8"));
  EXPECT_EQ(run.recipe.schedule_name(), "interleaved");
}

TEST(TorchtitanRun, ReadsTypesOfTheState) {
  const auto run_with = [](const std::string& training, const std::string& optimizer) {
    return run_of_toml(
        fmt::format("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
                    "seq_len = 8192\n{}[activation_checkpoint]\nmode = \"full\"\n[compile]\nenable = true\n"
                    "[optimizer]\n{}",
                    training, optimizer));
  };
  const FrameworkRun narrow = run_with("", "implementation = \"fused_opt_states_bf16\"\n");
  EXPECT_EQ(narrow.optimizer.str(), "adam,moments=bfloat16");
  EXPECT_EQ(narrow.recipe.state_sharding.str(), "zero3,weights=float32");
  EXPECT_THAT(narrow.left_out, testing::IsEmpty());
  const FrameworkRun whole = run_with("dtype = \"bfloat16\"\n", "");
  EXPECT_EQ(whole.optimizer.str(), "adam,moments=bfloat16,main=none");
  EXPECT_EQ(whole.recipe.state_sharding.str(), "zero3");
  EXPECT_THAT(whole.left_out, testing::IsEmpty());
  EXPECT_EQ(run_with("", "").optimizer_kernel, std::nullopt);
  EXPECT_EQ(run_with("", "implementation = \"for-loop\"\n").optimizer_kernel, OptimizerKernel::Single);
}

TEST(TorchtitanRun, ReadsBackHowTheOptimizerRuns) {
  FrameworkPlan plan =
      framework_plan("llama3-8b", parse_recipe("dp8,mbs1,fsdp,recompute=full"), make_topology("dgx-h100:1"));
  for (const OptimizerKernel kernel : {OptimizerKernel::Foreach, OptimizerKernel::Single}) {
    plan.optimizer_kernel = kernel;
    const RunFolder folder("torchtitan_optimizer");
    for (const ExportedFile& file : torchtitan_files(plan)) folder.write(file.name, file.content);
    EXPECT_EQ(run_of(folder.file("launch.sh"), 8).optimizer_kernel, kernel);
  }
}

TEST(TorchtitanRun, RefusesWithTheKeyAndItsLine) {
  const RunFolder folder("torchtitan_refusals");
  const auto refused = [&](const std::string& text) {
    const std::string path = folder.write("run.toml", text), message = refusal([&] { run_of(path, 8); });
    return message.substr(message.rfind("run.toml"));
  };
  const std::string model = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
  EXPECT_EQ(refused("[model\n"),
            "run.toml:1: is no TOML: Error while parsing table header: expected ']', saw '\\n'");
  EXPECT_EQ(refused("[model]\nname = \"lama3\"\n[training]\n"),
            "run.toml:2: model.name: found \"lama3\" (did you mean \"llama3\"?), allowed: llama3, llama4, "
            "deepseek_v3, "
            "qwen3, gpt_oss, flux, vlm, qwen3_5, kimi_k2_7, muse_glimmer, transformers_modeling_backend, "
            "deepseek_v2");
  EXPECT_EQ(refused("[model]\nname = \"llama3\"\nflavor = \"80B\"\n"),
            "run.toml:3: model.flavor: found \"80B\" (did you mean \"8B\"?), allowed for llama3: debugmodel, "
            "1B, 3B, 8B, 70B, 405B");
  EXPECT_EQ(refused("[model]\nname = \"gpt_oss\"\nflavor = \"20b\"\n"),
            "run.toml:2: model.name: found \"gpt_oss\": windows of attention with sinks can't be expressed");
  EXPECT_EQ(
      refused(model + "[parallelism]\ntensor_parallel_degree = \"two\"\n"),
      "run.toml:5: parallelism.tensor_parallel_degree: found \"two\", allowed: a whole number from 1 to "
      "1099511627776");
  EXPECT_EQ(refused(model + "[parallelism]\ntensor_parallel_degree = 3\n"),
            "run.toml: tp3 x cp1 x pp1 is 3 devices, which do not divide the 8 of the run");
  EXPECT_EQ(
      refused(model + "[parallelism]\ndata_parallel_shard_degree = 4\n"),
      "run.toml:5: parallelism.data_parallel_shard_degree: replicate 1 x shard 4 is no dp8, which are the 8 "
      "devices of the run by tp1 x cp1 x pp1");
  EXPECT_EQ(
      refused(model + "[training]\nenable_cpu_offload = true\n"),
      "run.toml:5: training.enable_cpu_offload: found true: state moved to the host can't be expressed");
  EXPECT_EQ(refused(model + "[optimizer]\nname = \"Muon\"\n"),
            "run.toml:5: optimizer.name: found \"Muon\", allowed: Adam, AdamW");
  EXPECT_EQ(
      refused(model + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
                      "\"PipelineScheduleMulti\"\n"),
      "run.toml:6: parallelism.pipeline_parallel_schedule: PipelineScheduleMulti has the steps of "
      "parallelism.pipeline_parallel_schedule_csv, which is not given, allowed: the script that gives it");
  EXPECT_EQ(refused(model + "[parallelism]\npipeline_parallel_schedule_csv = \"steps.csv\"\n"),
            "run.toml:5: parallelism.pipeline_parallel_schedule_csv: needs steps.csv, which is not there");
  EXPECT_EQ(
      refused("[model]\nname = \"mine\"\n[experimental]\ncustom_import = \"my.model\"\n"),
      "run.toml:4: experimental.custom_import: needs model.py for the model \"mine\", which is not there");
}

const char* const kRegistry = R"py(
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.models.qwen3 import model_registry
from torchtitan.trainer import Trainer


def _training(sequences) -> TrainingConfig:
    return TrainingConfig(
        num_tokens_per_microbatch_per_dp_rank=sequences * 4096,
        max_context_length=4096,
    )


def small() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("0.6B"),
        training=_training(2),
        activation_checkpoint=FullAC.Config(),
        compile=CompileConfig(enable=True),
        metrics=[m for m in ("a", "b")],
    )


def large():
    config = small()
    config.model_spec = model_registry("14B", attn_backend="flex")
    config.parallelism = ParallelismConfig(tensor_parallel_degree=2 if True else 4)
    config.parallelism.data_parallel_replicate_degree = 2
    config.override.imports.append("mine")
    return config


def open():
    config = small()
    config.training.max_context_length = length_of(config)
    return config


def unsure():
    if torch.cuda.is_available():
        return small()
)py";

TEST(TorchtitanRun, ReadsAFunctionOfPython) {
  const RunFolder folder("torchtitan_python");
  const std::string path = folder.write("config_registry.py", kRegistry);
  const FrameworkRun run = run_of(path + ":small", 8);
  EXPECT_EQ(run.model, "qwen3-8b:layers=28,hidden=1024,heads=16,ffn=3072,projection=tied");
  EXPECT_EQ(run.recipe.str(), "dp8,mbs2,zero3,weights=float32,recompute=full");
  EXPECT_EQ(run.samples, 16);
  EXPECT_THAT(run.left_out, testing::IsEmpty());
  const FrameworkRun large = run_of(path + ":large", 8);
  EXPECT_EQ(large.recipe.str(), "tp2,dp4,sp,mbs2,zero3,shard=2,weights=float32,recompute=full");
  EXPECT_THAT(large.left_out,
              testing::ElementsAre("line 30: config.override.imports.append(\"mine\") is not followed",
                                   "override.imports.append.0: modules are torchtitan's own"));
  const std::string several = refusal([&] { run_of(path, 8); });
  EXPECT_EQ(several, path + ": has 4 configurations, allowed: one of them, as " + path +
                         ":small: small, large, open, unsure");
  EXPECT_EQ(
      refusal([&] { run_of(path + ":smal", 8); }),
      path +
          ": found no function \"smal\" without arguments (did you mean \"small\"?), allowed: small, large, "
          "open, unsure");
  EXPECT_EQ(refusal([&] { run_of(path + ":open", 8); }),
            path +
                ":36: training.max_context_length: found length_of(…), which is no constant, allowed: a "
                "whole number "
                "from 1 to 1099511627776");
  EXPECT_EQ(refusal([&] { run_of(path + ":unsure", 8); }),
            path + ": unsure() returns no configuration of torchtitan");
}

TEST(TorchtitanRun, BeginsWithConfigurationsOfTorchtitan) {
  const RunFolder folder("torchtitan_base");
  const std::string path =
      folder.write("mine.py",
                   "from torchtitan.models.llama3.config_registry import llama3_70b\n"
                   "def mine():\n    config = llama3_70b()\n"
                   "    config.parallelism.tensor_parallel_degree = 4\n    return config\n");
  EXPECT_EQ(run_of(path, 32).recipe.str(), "tp4,dp8,sp,mbs8,zero3,weights=float32,recompute=full");
  const std::string other =
      folder.write("other.py", "from my.models import base\ndef mine():\n    return base()\n");
  EXPECT_THAT(
      refusal([&] { run_of(other, 32); }),
      testing::StartsWith(other + ":3: begins with my.models.base, which is in another file, allowed: "
                                  "llama3_debugmodel, llama3_8b, "));
}

TEST(TorchtitanRun, ReadsScriptsThatStartIt) {
  const RunFolder folder("torchtitan_script");
  folder.write(
      "a.toml",
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n");
  const std::string script = folder.write(
      "run.sh",
      "NGPU=${NGPU:-\"8\"}\nCONFIG_FILE=${CONFIG_FILE:-\"./a.toml\"}\ntorchrun --nproc_per_node=${NGPU} "
      "--rdzv_backend c10d -m torchtitan.train --job.config_file ${CONFIG_FILE} "
      "--parallelism.tensor_parallel_degree 4 --compile.enable --activation_checkpoint.mode=none \"$@\"\n");
  const FrameworkRun run = run_of(script, 8);
  EXPECT_EQ(run.recipe.str(), "tp4,dp2,sp,mbs1,zero3,weights=float32");
  EXPECT_EQ(run.launched, 8);
  EXPECT_THAT(run.left_out, testing::IsEmpty());
}

}  // namespace
}  // namespace pipesim
