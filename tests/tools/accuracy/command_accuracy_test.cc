#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// Nine of the golden values of Megatron-LM's functional tests (NVIDIA/Megatron-LM, BSD-3): bytes that
// PyTorch's allocator handed out, at an iteration's end and at the peak.
const std::string kFolder = PIPESIM_SOURCE_DIR "/docs/examples";

std::string fixture() { return read_file(kFolder + "/megatron_golden.csv"); }

Outcome with_table(const std::string& table, const std::string& option = "--rows") {
  const TemporaryFolder folder;
  (void)folder.file("megatron_golden.csv", table);
  Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), option});
  for (std::string* text : {&outcome.out, &outcome.err}) {
    const std::size_t at = text->find(folder.path());
    if (at != std::string::npos) text->replace(at, folder.path().size(), "FOLDER/");
  }
  return outcome;
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

Json table_of(const Outcome& outcome) { return Json::parse(outcome.out)["tables"][0]; }

SLOW_TEST(Accuracy, OfMegatronsMemoryIsWithinAFewPercent) {
  const Outcome outcome = pipesim_run({"accuracy", "--data", kFolder, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json table = table_of(outcome);
  EXPECT_EQ(table["table"], "megatron_golden.csv");
  ASSERT_EQ(table["runs"].size(), 9U);
  std::size_t predicted = 0;
  for (const Json& run : table["runs"]) {
    if (!run.contains("peak_error")) continue;
    ++predicted;
    EXPECT_LT(std::abs(run["peak_error"].get<double>()), 0.03) << run;
    const double state = run["predicted_state_bytes"].get<double>();
    EXPECT_NEAR(state / run["measured_state_bytes"].get<double>(), 1, 0.04) << run;
  }
  EXPECT_EQ(predicted, 7U);
  EXPECT_EQ(table["predicted"], 7);
  ASSERT_EQ(table["errors"].size(), 2U);
  EXPECT_EQ(table["errors"][0]["of"], "peak");
  EXPECT_EQ(table["errors"][1]["of"], "state");
  const Json all = table["errors"][0]["groups"][0];
  EXPECT_EQ(all["group"], "all");
  EXPECT_EQ(all["runs"], 7);
  EXPECT_LT(all["median"], 0.02);
}

// By hand: 64,109,568 weights of 2 bytes and gradients of 4; an eighth of master weights and moments, 12
// bytes; two workspaces of cuBLAS, 32 MiB each, and one of Transformer Engine on Ampere, 4 MiB.
SLOW_TEST(Accuracy, CountsTheStateOfADistributedOptimizer) {
  const Json run = table_of(pipesim_run({"accuracy", "--data", kFolder, "--json"}))["runs"][0];
  EXPECT_EQ(run["predicted_state_bytes"], 64'109'568 * 6 + 64'109'568 / 8 * 12 + (2 * 32 + 4) * 1'048'576);
  EXPECT_EQ(run["measured_state_bytes"], 552'128'512);
  EXPECT_EQ(run["recipe"], "tp1,cp1,dp8,pp1,mbs4,zero1,shard=8");
}

SLOW_TEST(Accuracy, CountsRunsThatItCannotExpress) {
  const Outcome outcome = pipesim_run({"accuracy", "--data", kFolder, "--rows"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("megatron_golden.csv: 9 runs, 7 of them predicted\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  runs  not predicted because of\n"
                                     "     1  8-bit types\n"
                                     "     1  Megatron-LM's own form of T5\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  gpt3_mcore_te_tp1_pp4_vp1 dgx_a100 dev "));
  const Outcome markdown = pipesim_run({"accuracy", "--data", kFolder, "--markdown"});
  EXPECT_THAT(
      markdown.out,
      testing::StartsWith("Errors of the peak memory:\n\n| runs of | runs | median | mean | bias | worst "
                          "|\n|---|---:|---:|---:|---:|---:|\n| all | 7 |"));
}

TEST(Accuracy, SaysWhatIsWrongWithATable) {
  const auto refused = [](const std::string& table, const std::string& message) {
    EXPECT_EQ(with_table(table), (Outcome{1, "", "pipesim: FOLDER/megatron_golden.csv" + message + "\n"}));
  };
  const std::string good = fixture();
  refused(replaced(good, ",tp,", ",tensor,"), ":1: has no column \"tp\"");
  refused(replaced(good, ",dev,8,1,1,", ",dev,8,-1,1,"),
          ":3: column \"tp\": found \"-1\", allowed: a whole number, or nothing");
  refused(replaced(good, ",dev,8,1,1,", ",dev,8,0,1,"), ":3: column \"tp\": found \"0\", allowed: 1 or more");
  refused(replaced(good, "True,,,,,bf16", "yes,,,,,bf16"),
          ":2: column \"dist_opt\": found \"yes\", allowed: True, False, or nothing");
  refused(good.substr(0, good.find("gpt/gpt3_mcore_te_tp2_pp2_res") - 40),
          ":4: found 16 cells, allowed: 31, one for each column");
  const std::string first = good.substr(good.find('\n') + 1);
  refused(good + first.substr(0, first.find('\n') + 1),
          ":11: column \"path\": "
          "\"gpt/gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer_no_mmap_bin_files/"
          "golden_values_dev_dgx_a100.json\" is in line 2 already");
}

// Two ways to train a small model, as the simulator itself predicts them but for a factor; one that did not
// fit, one that failed, and one whose recipe does not suit it.
constexpr const char* kOwnRuns =
    "name,model,devices,batch,recipe,time,memory,status,group\n"
    "slow,gpt2,dgx-a100,64,\"tp4,dp2,mbs8\",SLOW,20 GB,ok,one node;tp\n"
    "fast,gpt2,dgx-a100,64,\"dp8,mbs8\",FAST,,,one node\n"
    ",llama3-70b,dgx-a100:gpus=1,1,mbs1,,,oom,\n"
    ",gpt2,dgx-a100,64,\"dp8,mbs8\",,,crashed,\n"
    "odd,gpt2,dgx-a100,64,\"tp5,mbs8\",1 s,,ok,\n";

TEST(Accuracy, JudgesRunsOfOnesOwn) {
  const auto simulated = [](const std::string& recipe) {
    const Outcome outcome = pipesim_run({"simulate", "--model", "gpt2", "--topology", "dgx-a100", "--batch",
                                         "64", "--recipe", recipe, "--runtime", "megatron", "--json"});
    return Json::parse(outcome.out)["iteration_time_s"].get<double>();
  };
  const double slow = simulated("tp4,dp2,mbs8"), fast = simulated("dp8,mbs8");
  ASSERT_LT(fast, slow);
  // Measured: the one that is predicted to be slower took a fifth less than the other.
  std::string text = replaced(kOwnRuns, "SLOW", fmt::format("{:.9f} s", 2 * fast));
  text = replaced(text, "FAST", fmt::format("{:.9f} s", 2.5 * fast));
  const TemporaryFolder folder;
  (void)folder.file("mine.csv", text);
  (void)folder.file("other.csv", "a,b\n1,2\n");
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  EXPECT_EQ(outcome.err, "note: " + folder.path() +
                             "other.csv is left out, its columns are of no form that accuracy knows\n");
  const Json table = table_of(outcome);
  EXPECT_EQ(table["predicted"], 3);
  EXPECT_EQ(table["errors"][0]["of"], "time");
  const Json groups = table["errors"][0]["groups"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1]["group"], "one node");
  EXPECT_NEAR(groups[0]["bias"].get<double>(), (slow / fast / 2 + 1 / 2.5) / 2 - 1, 1e-6);
  EXPECT_NEAR(groups[2]["median"].get<double>(), std::abs(slow / fast / 2 - 1), 1e-6);
  EXPECT_NEAR(table["order"]["spearman"].get<double>(), -1, 1e-9);
  EXPECT_EQ(table["order"]["workloads"], 1);
  EXPECT_NEAR(table["order"]["top1_regret"]["mean"].get<double>(), 0.25, 1e-6);
  EXPECT_EQ(table["memory_verdicts"]["ran_and_fits"], 2);
  EXPECT_EQ(table["memory_verdicts"]["short_and_does_not_fit"], 1);
  EXPECT_EQ(table["not_predicted"].size(), 2U);
  EXPECT_EQ(table["not_predicted"][0]["reason"], "a run that failed: crashed");
}

TEST(Accuracy, SaysWhatIsWrongWithRunsOfOnesOwn) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& message) {
    (void)folder.file("mine.csv", text);
    const std::string path = folder.path() + "mine.csv";
    EXPECT_EQ(pipesim_run({"accuracy", "--data", path}),
              (Outcome{1, "", "pipesim: " + path + message + "\n"}));
  };
  const std::string head = "model,devices,recipe,batch,time,memory\n";
  refused(head + ",dgx-a100,dp8,64,1 s,\n", ":2: column \"model\": is empty");
  refused(head + "gpt2,dgx-a100,dp8,0,1 s,\n", ":2: column \"batch\": found \"0\", allowed: 1 or more");
  refused(head + "gpt2,dgx-a100,dp8,x,1 s,\n",
          ":2: column \"batch\": found \"x\", allowed: a whole number, or nothing");
  refused(head + "gpt2,dgx-a100,dp8,64,-1 s,\n",
          ":2: column \"time\": \"-1 s\" is not a duration: it is negative; write a number and one of ns, "
          "us, µs, ms, s, min, h, d, like \"3 us\"");
  refused(head + "gpt2,dgx-a100,dp8,64,1 s,12\n",
          ":2: column \"memory\": \"12\" is not a size in bytes: the unit is missing; write a number and one "
          "of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, like \"16 GB\"");
}

// Rows of vTrain's and nanotron's tables (VIA-Research/vTrain, MIT; huggingface/nanotron, Apache-2.0).
TEST(Accuracy, ReadsPublishedRuns) {
  const TemporaryFolder folder;
  (void)folder.file(
      "gpt.csv",
      "set,n_gpus,gbs,mbs,hidden,heads,layers,seq,tp,dp,pp,iter_time_ms,recompute,schedule,gpu\n"
      "single,2,16,8,1024,16,24,1024,1,1,2,372.160408,full,1F1B,A100-80GB\n"
      "single,8,32,4,1024,16,24,1024,2,2,2,219.732754,full,1F1B,A100-80GB\n"
      "single,12,32,4,1024,16,24,1024,2,3,2,219.7,full,1F1B,A100-80GB\n");
  (void)folder.file("nanotron.csv",
                    "model,n_gpus,mbs,grad_acc,gbs,dp,pp,tp,zero,status,mfu_pct,tokens_per_s,gpu_mem_GB\n"
                    "1B,16,2,8,256,16,1,1,1,ok,37.9,621437,35.0\n"
                    "1B,16,2,8,256,16,1,1,1,failed,,,\n"
                    "1B,16,4,32,256,2,8,1,1,ok,20.6,346652,30.0\n");
  // mosaicml/llm-foundry (Apache-2.0)
  (void)folder.file("mpt.csv",
                    "Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,GlobalBatchSize,Throughput "
                    "(T/s),Precision,Sharding Strategy,Activation Checkpointing\n"
                    "7b,2048,128,h100_80gb,6,1,768,1340830,amp_bf16,FULL_SHARD,False\n"
                    "1b,2048,8,a100_40gb,6,1,48,61440,amp_bf16,FULL_SHARD,True\n");
  // arXiv:2205.05198, table 5
  (void)folder.file(
      "papers.csv",
      "source,model,hidden,ffn,heads,layers,vocab,seq,gpu,n_gpus,tp,pp,dp,vpp,schedule,recompute,"
      "seq_par,gbs,mbs,iter_time_s\n"
      "arXiv:2205.05198,GPT3-175B,12288,49152,96,96,51200,2048,A100-80GB-SXM,64,8,8,1,3,"
      "interleaved-1F1B,selective,1,64,1,13.75\n"
      "arXiv:2104.04473,GPT-7.5B,4096,16384,32,36,51200,2048,A100-80GB-SXM,128,4,1,32,,,full,,512,,"
      "3.696\n");
  // ai-dynamo/aiconfigurator (Apache-2.0)
  (void)folder.file("nccl.csv",
                    "system,nccl_version,op,dtype,n_gpus,bytes,latency_us\n"
                    "a100_sxm,2.27.3,all_gather,half,2,1024,9.08\n"
                    "a100_sxm,2.27.3,all_gather,half,16,1024,9.08\n");
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json tables = Json::parse(outcome.out)["tables"];
  ASSERT_EQ(tables.size(), 5U);
  const Json gpt = tables[0]["runs"], mpt = tables[1]["runs"], nanotron = tables[2]["runs"],
             nccl = tables[3]["runs"], papers = tables[4]["runs"];
  EXPECT_EQ(mpt[0]["recipe"], "dp128,mbs6,zero3");
  EXPECT_NEAR(mpt[0]["measured_time_s"].get<double>(), 768.0 * 2048 / 1340830, 1e-9);
  EXPECT_EQ(mpt[1]["reason"], "nodes of A100 with 40 GB");
  EXPECT_EQ(papers[0]["recipe"], "tp8,pp8,dp1,mbs1,vpp3,sp,recompute=selective");
  EXPECT_THAT(papers[0]["model"].get<std::string>(), HasSubstr("attention=scores"));
  EXPECT_EQ(papers[0]["measured_time_s"], 13.75);
  EXPECT_EQ(papers[1]["reason"], "a microbatch that is not told");
  const Outcome collective = pipesim_run({"collective", "--topology", "dgx-a100", "--kind", "all-gather",
                                          "--devices", "0,1", "--sizes", "1KiB", "--json"});
  EXPECT_EQ(nccl[0]["predicted_time_s"], Json::parse(collective.out)["sizes"][0]["time_s"]);
  EXPECT_NEAR(nccl[0]["measured_time_s"].get<double>(), 9.08e-6, 1e-12);
  EXPECT_EQ(nccl[1]["reason"], "other than 2 to 8 GPUs");
  EXPECT_EQ(gpt[0]["topology"], "dgx-a100:gpus=2");
  EXPECT_EQ(gpt[0]["recipe"], "tp1,pp2,dp1,mbs8,recompute=full");
  EXPECT_EQ(gpt[0]["measured_time_s"], 0.372160408);
  EXPECT_EQ(gpt[1]["topology"], "dgx-a100:1");
  EXPECT_THAT(gpt[1]["model"].get<std::string>(), HasSubstr("vocab=50432,"));
  EXPECT_EQ(gpt[2]["reason"], "nodes that are not whole");
  EXPECT_EQ(nanotron[0]["recipe"], "tp1,pp1,dp16,mbs2,zero1");
  EXPECT_NEAR(nanotron[0]["measured_time_s"].get<double>(), 256.0 * 4096 / 621437, 1e-9);
  EXPECT_EQ(nanotron[0]["measured_peak_bytes"], 35'000'000'000);
  EXPECT_EQ(nanotron[1]["reason"], "a run that failed: the table does not tell why");
  // 16 layers and a head that counts as four: 2.5 a group.
  EXPECT_EQ(nanotron[2]["recipe"], "tp1,pp8,dp2,mbs4,zero1,layers=2-3-2-3-2-3-1-0");
  for (std::size_t t = 0; t < tables.size(); ++t)
    EXPECT_EQ(tables[t]["predicted"], t == 0 || t == 2 ? 2 : 1) << t;
}

// Rows of NVIDIA/NeMo and NVIDIA-NeMo/Megatron-Bridge, and of mlcommons/training_results (all Apache-2.0).
SLOW_TEST(Accuracy, ReadsRunsInFloat8) {
  const TemporaryFolder folder;
  (void)folder.file(
      "bridge.csv",
      "task,model,#-GPUs,Precision,GBS,MBS,Sequence Length,TP,PP,CP,VP,EP,Tokens / sec / GPU,FSDP\n"
      "Pre-Training Performance,LLAMA3_8B,8,FP8-CS,128,1,8192,1,1,1,n/a,1,14451,8\n"
      "Pre-Training Performance,GPT OSS 120B,64,BF16,1280,1,4096,1,4,1,n/a,8,5824,0\n"
      "Pre-Training Performance,LLAMA3_8B,8,,128,1,8192,1,1,1,n/a,1,14079,8\n"
      "LoRA Performance,LLAMA3_70B,8,FP8,32,1,4096,2,4,1,20,n/a,2643,\n");
  (void)folder.file(
      "mlperf.csv",
      "round,system,n_gpus,tp,pp,vpp,cp,mbs,minibs,gbs,grad_acc,seq,throughput_reported,other_flags,"
      "config_unique\n"
      "v4.1,eos_n32,256,4,8,6,,2,256,2048,128,2048,208833.724,TP_COMM_OVERLAP=True,1\n"
      "v3.1,eos_n512,4096,4,8,,,1,16,2048,16,2048,2347971.6,TP_COMM_OVERLAP=True,1\n"
      "v4.1,tpu,,,,,,,1,2048,1,2048,,,0\n");
  (void)folder.file("nemo.csv",
                    "section,Model,#-GPUs,GBS,MBS,Sequence Length,TP,PP,CP,VP,Tokens / sec / GPU\n"
                    "Pretraining,LLAMA2-7B,8,128,1,4096,1,1,1,1,16934\n"
                    "Finetuning,LLAMA2-7B,8,32,1,,1,1,,,16891\n"
                    "Pretraining,LLAMA2-13B,16,128,1,4096,1,4,1,,8646\n"
                    "Pretraining,LLAMA2-7B,8,128,1,4096,1,1,1,1,\n");
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json tables = Json::parse(outcome.out)["tables"];
  ASSERT_EQ(tables.size(), 3U);
  const Json bridge = tables[0]["runs"], mlperf = tables[1]["runs"], nemo = tables[2]["runs"];
  EXPECT_EQ(bridge[0]["recipe"], "dp8,mbs1,zero3");
  EXPECT_EQ(bridge[0]["model"], "llama3-8b:dtype=bfloat16,sequence=8192,products=float8");
  EXPECT_NEAR(bridge[0]["measured_time_s"].get<double>(), 128.0 * 8192 / (14451 * 8), 1e-9);
  EXPECT_EQ(bridge[1]["reason"], "a model that pipesim does not know: GPT OSS 120B");
  EXPECT_EQ(bridge[2]["reason"], "a precision that is not told");
  EXPECT_EQ(bridge[3]["reason"], "finetuning, some of it of adapters only");
  EXPECT_EQ(mlperf[0]["recipe"], "tp4,pp8,cp1,dp8,mbs2,zero1,sp,vpp6,overlap=gather,reduce=overlapped");
  EXPECT_NEAR(mlperf[0]["measured_time_s"].get<double>(), 2048 * 2048 / 208833.724, 1e-9);
  EXPECT_EQ(mlperf[1]["reason"], "a number of stages that is not told and matters, with few microbatches");
  EXPECT_EQ(mlperf[2]["reason"], "a configuration that is not told for sure, or not of GPUs");
  EXPECT_EQ(nemo[0]["recipe"], "tp1,pp1,cp1,dp8,mbs1,zero1,overlap=gather");
  EXPECT_EQ(nemo[1]["reason"], "finetuning, some of it of adapters only");
  EXPECT_EQ(nemo[2]["reason"], "a number of stages that is not told");
  EXPECT_EQ(nemo[3]["reason"], "no rate measured");
  for (const Json& table : tables) EXPECT_EQ(table["predicted"], 1);
}

TEST(Accuracy, SaysWhatIsWrongWithAFolder) {
  const TemporaryFolder empty;
  EXPECT_EQ(
      pipesim_run({"accuracy", "--data", empty.path()}),
      (Outcome{1, "",
               "pipesim: " + empty.path() +
                   ": has no table that accuracy knows, allowed: CSV files with the columns model, devices, "
                   "recipe, batch, or those that `pipesim help accuracy --all` names\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", "/nowhere"}),
            (Outcome{1, "", "pipesim: /nowhere: is no folder and no file\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", kFolder, "--json", "--markdown"}),
            (Outcome{2, "", "pipesim: accuracy: --json and --markdown exclude each other\n"}));
  EXPECT_EQ(pipesim_run({"accuracy"}).status, 2);
}

}  // namespace
}  // namespace pipesim
