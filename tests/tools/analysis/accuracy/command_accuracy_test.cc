#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/accuracy/tables/runs_table.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// Nine of the golden values of Megatron-LM's functional tests (NVIDIA/Megatron-LM, BSD-3): bytes that
// PyTorch's allocator handed out, at an iteration's end and at the peak.
const std::string kFolder = PIPESIM_SOURCE_DIR "/docs/examples";

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
  EXPECT_THAT(markdown.out, testing::StartsWith("### megatron_golden.csv\n\nErrors of the peak memory:\n\n| "
                                                "runs of | runs | median | mean | bias | worst "
                                                "|\n|---|---:|---:|---:|---:|---:|\n| all | 7 |"));
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

// Under sequence parallelism the devices of a tensor group hand out the tokens of their parts by themselves.
TEST(Accuracy, PredictsExpertsAsSimulateDoes) {
  const std::string model = "mixtral-8x7b:layers=2,sequence=1024", recipe = "tp2,dp4,ep8,etp1,sp,mbs1,zero1";
  const Outcome simulated = pipesim_run({"simulate", "--model", model, "--topology", "dgx-h100", "--batch",
                                         "8", "--recipe", recipe, "--runtime", "megatron", "--json"});
  const TemporaryFolder folder;
  const std::string table = folder.file(
      "experts.csv",
      fmt::format("model,devices,recipe,batch,time\n\"{}\",dgx-h100,\"{}\",8,1 s\n", model, recipe));
  const Outcome judged = pipesim_run({"accuracy", "--data", table, "--rows", "--json"});
  EXPECT_DOUBLE_EQ(Json::parse(judged.out)["tables"][0]["runs"][0]["predicted_time_s"].get<double>(),
                   Json::parse(simulated.out)["iteration_time_s"].get<double>());
}

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
  EXPECT_EQ(
      outcome.err,
      "note: " + folder.path() +
          "other.csv is left out, it is no table of measured runs: has no columns model, devices, recipe, "
          "batch, allowed: model, devices, recipe, batch and what \"pipesim help accuracy --all\" "
          "names; scripts in data/measured/convert write such tables from published ones\n");
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
  refused(head + "gpt2,dgx-a100,dp8,0,1 s,\n",
          ":2: column \"batch\": found \"0\", allowed: a whole number of 1 or more");
  refused(head + "gpt2,dgx-a100,dp8,x,1 s,\n",
          ":2: column \"batch\": found \"x\", allowed: a whole number of 1 or more");
  refused(head + "gpt2,dgx-a100,dp8,64,-1 s,\n",
          ":2: column \"time\": \"-1 s\" is not a duration: it is negative; write a number and one of ns, "
          "us, µs, ms, s, min, h, d, like \"3 us\"");
  refused(head + "gpt2,dgx-a100,dp8,64,1 s,12\n",
          ":2: column \"memory\": \"12\" is not a size in bytes: the unit is missing; write a number and one "
          "of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, like \"16 GB\"");
}

// Qi et al., ICLR 2024 (arXiv:2401.10241), tables 3 to 5; runtimes as docs/fidelity.md has them.
constexpr const char* kSchedules =
    "name,model,devices,recipe,batch,runtime,time,time_of,memory,compared_with\n"
    "ZB-2p,MODEL,dgx-a100:1,\"pp8,mbs6,first=2,last=2,schedule=zb-auto:16\",144,MEGATRON=beside,1.2414 "
    "s,device,59 "
    "GB,1F1B\n"
    "1F1B,MODEL,dgx-a100:1,\"pp8,mbs6,first=2,last=2\",144,MEGATRON=blocking,1.5254 s,,30 GB,\n"
    "1F1B-I,MODEL,dgx-a100:1,\"pp8,mbs6,vpp3\",144,MEGATRON=blocking,1.3740 s,,40 GB,1F1B\n";

std::string schedules() {
  const std::string model =
      "\"gpt:dtype=float16,sequence=1024,positions=1024,layers=22,hidden=2304,heads=24,vocab=32000,"
      "projection=untied,attention=scores,kept=megatron\"";
  std::string text = kSchedules;
  for (int row = 0; row < 3; ++row)
    text = replaced(replaced(text, ",MODEL,", "," + model + ","),
                    "MEGATRON=", "\"megatron:gradient-sums=in-products,messages=");
  for (const char* word : {"=beside,", "=blocking,1.5", "=blocking,1.3"})
    text = replaced(text, word, replaced(word, ",", "\","));
  return text;
}

// The table of a folder that holds this text alone.
Json judged_table(const std::string& text) {
  const TemporaryFolder folder;
  (void)folder.file("table.csv", text);
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  return outcome.status == 0 ? table_of(outcome) : Json();
}

TEST(Accuracy, JudgesSpeedupsOfSchedules) {
  const Json table = judged_table(schedules());
  const Json runs = table["runs"];
  EXPECT_EQ(table["predicted"], 3);
  EXPECT_NEAR(runs[0]["measured_speedup"].get<double>(), 1.5254 / 1.2414, 1e-9);
  EXPECT_FALSE(runs[1].contains("measured_speedup"));
  const auto time = [&](std::size_t run) { return runs[run]["predicted_time_s"].get<double>(); };
  EXPECT_NEAR(runs[0]["predicted_speedup"].get<double>(), time(1) / time(0), 1e-9);
  EXPECT_NEAR(runs[0]["speedup_error"].get<double>(), time(1) / time(0) / (1.5254 / 1.2414) - 1, 1e-9);
  for (const std::size_t run : {0, 2}) EXPECT_LT(std::abs(runs[run]["speedup_error"].get<double>()), 0.04);
  for (const std::size_t run : {0, 1, 2}) EXPECT_LT(std::abs(runs[run]["peak_error"].get<double>()), 0.04);
  EXPECT_EQ(table["errors"][1]["of"], "speedup");
  EXPECT_EQ(table["errors"][1]["groups"][0]["runs"], 2);
}

// Devices that need not wait for each other begin an iteration before the last one has ended the one before.
TEST(Accuracy, LetsIterationsOverlapBehindZeroBubbles) {
  const Json run = judged_table(schedules())["runs"][0];
  const Outcome whole =
      pipesim_run({"simulate", "--model", run["model"].get<std::string>(), "--topology", "dgx-a100:1",
                   "--batch", "144", "--recipe", run["recipe"].get<std::string>(), "--runtime",
                   "megatron:gradient-sums=in-products", "--json"});
  ASSERT_EQ(whole.status, 0) << whole;
  const Json simulated = Json::parse(whole.out);
  EXPECT_LT(run["predicted_time_s"].get<double>(), 0.99 * simulated["iteration_time_s"].get<double>());
  // Memory is that of the fullest device, unless the table says otherwise.
  std::int64_t fullest = 0;
  for (const auto& [device, bytes] : simulated["peak_memory_bytes"].items())
    fullest = std::max(fullest, bytes.get<std::int64_t>());
  EXPECT_EQ(run["predicted_peak_bytes"], fullest);
  std::string last = replaced(schedules(), ",memory,", ",memory_of,memory,");
  for (const char* cell : {",59 GB,", ",30 GB,", ",40 GB,"})
    last = replaced(last, cell, ",last" + std::string(cell));
  EXPECT_LT(judged_table(last)["runs"][0]["predicted_peak_bytes"], fullest);
  // Tables may have other figures of memory: what the allocator holds, and that with context and
  // communicators.
  const auto peak_as = [](const std::string& figure) {
    std::string table = replaced(schedules(), ",memory,", ",memory_figure,memory,");
    for (const char* cell : {",59 GB,", ",30 GB,", ",40 GB,"})
      table = replaced(table, cell, "," + figure + std::string(cell));
    return judged_table(table)["runs"][0]["predicted_peak_bytes"].get<std::int64_t>();
  };
  const auto reserved = simulated["memory_overhead"].begin().value()["reserved_bytes"].get<std::int64_t>();
  EXPECT_GT(reserved, fullest);
  EXPECT_EQ(peak_as("reserved"), reserved);
  EXPECT_GT(peak_as("process"), reserved + 1'200'000'000);
}

// ai-dynamo/aiconfigurator (Apache-2.0); VIA-Research/vTrain, trace/v100 (MIT).
TEST(Accuracy, JudgesCollectives) {
  const Json table = judged_table(
      "name,devices,collective,members,size,type,time\n"
      "gather,dgx-a100,all-gather,2,1 KiB,float16,9.08 us\n"
      "ring,dgx1-v100,all-reduce,2,1 GiB,,47.61 ms\n"
      "cube,dgx1-v100,all-reduce,8,1 GiB,,13.969 ms\n"
      "switch,dgx-h100,all-reduce,8,1 GiB,float16,4 ms\n"
      "bytes,dgx-h100,all-reduce,8,1 GiB,uint8,4 ms\n"
      "many,dgx-a100,all-reduce,16,1 KiB,,1 ms\n");
  const Json runs = table["runs"];
  const Outcome collective = pipesim_run({"collective", "--topology", "dgx-a100", "--kind", "all-gather",
                                          "--devices", "0,1", "--sizes", "1KiB", "--json"});
  EXPECT_EQ(runs[0]["predicted_time_s"], Json::parse(collective.out)["sizes"][0]["time_s"]);
  EXPECT_NEAR(runs[0]["measured_time_s"].get<double>(), 9.08e-6, 1e-12);
  for (const std::size_t run : {1, 2}) EXPECT_LT(std::abs(runs[run]["time_error"].get<double>()), 0.05);
  EXPECT_LT(runs[3]["predicted_time_s"], runs[4]["predicted_time_s"]);
  EXPECT_EQ(runs[5]["reason"], "a collective of 16 devices on 8 of dgx-a100");
}

// Half of the product's rate while the collective goes on: 13.2 + 34.8 - 13.2 / 2. Copies: 3.45 times as
// long.
TEST(Accuracy, JudgesMixtures) {
  const Json table = judged_table(
      "name,product_alone,collective_alone,to_device_alone,to_host_alone,time\n"
      "products,34.8 ms,13.2 ms,,,41.4 ms\n"
      "copies,,,87 ms,81.6 ms,145 ms\n");
  const Json runs = table["runs"];
  EXPECT_NEAR(runs[0]["predicted_time_s"].get<double>(), 0.0414, 1e-9);
  EXPECT_NEAR(runs[0]["undisturbed_error"].get<double>(), 34.8 / 41.4 - 1, 1e-9);
  EXPECT_NEAR(runs[1]["predicted_time_s"].get<double>(), 81.6e-3 + 87e-3 - 81.6e-3 / 3.45, 1e-9);
  EXPECT_EQ(table["errors"][1]["of"], "undisturbed");
}

TEST(Accuracy, DescribesEachColumn) {
  const std::string help = pipesim_run({"help", "accuracy", "--all"}).out;
  for (const RunsColumn& column : runs_columns()) EXPECT_THAT(help, HasSubstr(column.name));
}

TEST(Accuracy, SaysWhatIsWrongWithAFolder) {
  const TemporaryFolder empty;
  EXPECT_EQ(
      pipesim_run({"accuracy", "--data", empty.path()}),
      (Outcome{1, "",
               "pipesim: " + empty.path() +
                   ": has no table of measured runs, allowed: CSV files as \"pipesim help accuracy --all\" "
                   "describes them\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", "/nowhere"}),
            (Outcome{1, "", "pipesim: /nowhere: is no folder and no file\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", kFolder, "--json", "--markdown"}),
            (Outcome{2, "", "pipesim: accuracy: --json and --markdown exclude each other\n"}));
  EXPECT_EQ(pipesim_run({"accuracy"}).status, 2);
}

}  // namespace
}  // namespace pipesim
