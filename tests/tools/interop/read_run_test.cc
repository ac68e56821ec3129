#include "tools/interop/reading/read_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

// What reading a file of this name and text says, without its folder.
std::string refused_file(const std::string& name, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "read_run";
  std::filesystem::create_directories(folder);
  write_file(folder / name, text);
  const std::string message = refusal([&] { read_framework_run((folder / name).string(), 8, 8); });
  std::filesystem::remove_all(folder);
  return message.substr(folder.string().size() + 1);
}

constexpr const char* kAllowedRuns =
    ", which is not read, allowed: a run of Megatron-LM, Megatron-Bridge, torchtitan or DeepSpeed, as a "
    "script that starts it "
    "or its "
    "configuration";

TEST(ReadRun, NamesConfigurationsOfOtherTools) {
  const auto of_tool = [](const char* name, const char* tool) {
    return std::string(name) + ": is of " + tool + kAllowedRuns;
  };
  EXPECT_EQ(refused_file("a.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"),
            of_tool("a.yaml", "Hugging Face Accelerate"));
  EXPECT_EQ(refused_file("a.yaml", "### model\nmodel_name_or_path: x\nstage: sft\n"),
            of_tool("a.yaml", "LLaMA-Factory"));
  EXPECT_EQ(refused_file("a.yml", "base_model: x\nsequence_len: 8\n"), of_tool("a.yml", "axolotl"));
  EXPECT_EQ(refused_file("a.yaml", "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"),
            of_tool("a.yaml", "torchtune"));
  EXPECT_EQ(refused_file("a.yaml", "trainer:\n  devices: 8\nexp_manager:\n  name: x\n"),
            of_tool("a.yaml", "NeMo 1"));
  EXPECT_EQ(refused_file("a.py", "from nemo.collections import llm\n"), of_tool("a.py", "NeMo 2"));
}

TEST(ReadRun, NamesScriptsOfOtherTools) {
  const auto starts = [](const char* tool) { return std::string("a.sh: starts ") + tool + kAllowedRuns; };
  EXPECT_EQ(refused_file("a.sh", "#!/bin/bash\nCUDA_VISIBLE_DEVICES=0,1 accelerate launch train.py --lr 1\n"),
            starts("Hugging Face Accelerate"));
  EXPECT_EQ(refused_file("a.sh", "llamafactory-cli train a.yaml\n"), starts("LLaMA-Factory"));
  EXPECT_EQ(refused_file("a.sh", "tune run --nproc_per_node 8 lora --config a.yaml\n"), starts("torchtune"));
  EXPECT_EQ(refused_file("a.sh", "axolotl train a.yaml\n"), starts("axolotl"));
}

TEST(ReadRun, SaysWhatIsNeeded) {
  EXPECT_EQ(
      refused_file("a.py", "import torch\n"),
      "a.py: is a program of Python, allowed: the script that starts it, or a configuration of torchtitan");
  EXPECT_EQ(refused_file("ds.json", "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 1}}"),
            "ds.json: is a configuration of DeepSpeed, which has no sizes of a model, allowed: the script "
            "that starts "
            "the run with --deepspeed_config ds.json");
  EXPECT_EQ(refused_file("launch.sh",
                         "deepspeed \"${@:?is your program}\" --deepspeed --deepspeed_config ds.json\n"),
            "launch.sh: starts a program with DeepSpeed that it does not name, allowed: a script that calls "
            "it with one, "
            "as sh launch.sh pretrain_gpt.py --num-layers 32 …");
  EXPECT_EQ(refused_file("a.json", "{\"lr\": 8}"),
            "a.json: is JSON, allowed: arguments of Megatron-LM, or a script that has them");
}

}  // namespace
}  // namespace pipesim
