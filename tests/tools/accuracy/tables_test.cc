#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// The one table of a folder that holds this text.
Json judged_table(const std::string& text) {
  const TemporaryFolder folder;
  (void)folder.file("table.csv", text);
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path(), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  return outcome.status == 0 ? Json::parse(outcome.out)["tables"][0] : Json();
}

// Qi et al., ICLR 2024 (arXiv:2401.10241), tables 3 to 5.
TEST(AccuracyTables, ReadsSchedulesOfZeroBubblePipelines) {
  const Json table = judged_table(
      "model,layers,heads,hidden,seq,gpu,n_gpus(=pp stages),microbatch_size,n_microbatches,schedule,"
      "samples_per_gpu_per_s,peak_mem_GB\n"
      "1.5B,22,24,2304,1024,A100-80GB-SXM (4 nodes RoCE),8,6,24,ZB-2p,14.5,59\n"
      "1.5B,22,24,2304,1024,A100-80GB-SXM (4 nodes RoCE),8,6,24,1F1B,11.8,30\n"
      "1.5B,22,24,2304,1024,A100-80GB-SXM (4 nodes RoCE),8,6,24,1F1B-I,13.1,40\n"
      "1.5B,22,24,2304,1024,A100-80GB-SXM (4 nodes RoCE),8,6,24,gpipe,9,40\n"
      "6.2B,31,32,4096,1024,A100-80GB-SXM (4 nodes RoCE),8,3,24,1F1B,5,40\n");
  const Json runs = table["runs"];
  EXPECT_EQ(table["predicted"], 3);
  EXPECT_EQ(runs[0]["recipe"], "pp8,mbs6,first=2,last=2,schedule=zb-auto:16");
  EXPECT_EQ(runs[1]["recipe"], "pp8,mbs6,first=2,last=2");
  EXPECT_EQ(runs[2]["recipe"], "pp8,mbs6,vpp3");
  EXPECT_EQ(runs[3]["reason"], "schedule gpipe");
  EXPECT_EQ(runs[4]["reason"], "layers that stages do not divide");
  EXPECT_NEAR(runs[0]["measured_time_s"].get<double>(), 144 / (14.5 * 8), 1e-9);
  EXPECT_NEAR(runs[0]["measured_speedup"].get<double>(), 14.5 / 11.8, 1e-9);
  EXPECT_FALSE(runs[1].contains("measured_speedup"));
  const auto time = [&](std::size_t run) { return runs[run]["predicted_time_s"].get<double>(); };
  EXPECT_NEAR(runs[0]["predicted_speedup"].get<double>(), time(1) / time(0), 1e-9);
  EXPECT_NEAR(runs[0]["speedup_error"].get<double>(), time(1) / time(0) / (14.5 / 11.8) - 1, 1e-9);
  for (const std::size_t run : {0, 2}) EXPECT_LT(std::abs(runs[run]["speedup_error"].get<double>()), 0.04);
  for (const std::size_t run : {0, 1, 2}) EXPECT_LT(std::abs(runs[run]["peak_error"].get<double>()), 0.04);
  EXPECT_EQ(table["errors"][1]["of"], "speedup");
  EXPECT_EQ(table["errors"][1]["groups"][0]["runs"], 2);
}

// Devices that need not wait for each other begin an iteration before the last one has ended the one before.
TEST(AccuracyTables, LetsIterationsOverlapBehindZeroBubbles) {
  const std::string rows =
      "model,layers,heads,hidden,seq,gpu,n_gpus(=pp stages),microbatch_size,n_microbatches,schedule,"
      "samples_per_gpu_per_s,peak_mem_GB\n"
      "1.5B,22,24,2304,1024,A100-80GB-SXM,8,6,24,ZB-2p,14.5,59\n";
  const Json run = judged_table(rows)["runs"][0];
  const Outcome whole =
      pipesim_run({"simulate", "--model", run["model"].get<std::string>(), "--topology", "dgx-a100:1",
                   "--batch", "144", "--recipe", run["recipe"].get<std::string>(), "--runtime",
                   "megatron:gradient-sums=in-products", "--json"});
  ASSERT_EQ(whole.status, 0) << whole;
  const Json simulated = Json::parse(whole.out);
  EXPECT_LT(run["predicted_time_s"].get<double>(), 0.99 * simulated["iteration_time_s"].get<double>());
  std::int64_t fullest = 0;
  for (const auto& [device, bytes] : simulated["peak_memory_bytes"].items())
    fullest = std::max(fullest, bytes.get<std::int64_t>());
  EXPECT_EQ(run["predicted_peak_bytes"], fullest);
}

// pytorch/torchtitan, docs/performance.md and benchmarks/ (BSD-3).
constexpr const char* kTitanColumns =
    "commit,path,section,Quantization,Vanilla TP tokens/sec,Async TP tokens/sec,TP type,Average "
    "TPS,NUM_NODES,"
    "TPS/GPU,Techniques,Parallelism,Sequence Length,Schedule,Model size,Activation checkpointing,WPS\n";

TEST(AccuracyTables, ReadsRunsOfTorchtitan) {
  const std::string section = "\"Llama3 8b on 64 H100s with FSDP=8, TP=8, local batch size 12\"";
  const Json table = judged_table(kTitanColumns + ("a,async.md," + section) +
                                  ",None (bfloat16),4378,4809.4,,,,,,,,,,,\n"
                                  "b,async.md," +
                                  section +
                                  ",None (bfloat16),,,Vanilla TP,4378,,,,,,,,,\n"
                                  "b,async.md," +
                                  section +
                                  ",float8 rowwise,,,Vanilla TP,3708.5,,,,,,,,,\n"
                                  "a,h200.md,Results,,,,,,4,10938,,,,,,,\n"
                                  "a,h100.md,Results,,,,,,,\"5,762\",FSDP,,,,,,\n"
                                  "a,h100.md,Results,,,,,,,\"3,890\",,\"FSDP 8, CP 1\",32768,,,,\n"
                                  "a,h100.md,Results,,,,,,,548,,\"FSDP 1, CP 8\",262144,,,,\n"
                                  "a,h100.md,Results,,,,,,,\"5,605\",FSDP,,,,,,\n"
                                  "a,performance.md,Llama 3.1,,,,,,,,,,,,405B,full,109\n"
                                  "a,performance.md,Llama 3,,,,,,,,,,,,8B,selective layer,2904\n"
                                  "a,performance.md,Llama 3,,,,,,,,,,,,8B,selective op,2973\n");
  const Json runs = table["runs"];
  ASSERT_EQ(runs.size(), 12U);
  EXPECT_EQ(runs[0]["recipe"], "tp8,cp1,pp1,dp8,mbs12,sp,fsdp");
  EXPECT_EQ(runs[0]["topology"], "grand-teton:8");
  EXPECT_NEAR(runs[1]["measured_speedup"].get<double>(), 4809.4 / 4378, 1e-9);
  EXPECT_EQ(runs[2]["reason"], "a repetition of a row before");
  EXPECT_EQ(runs[3]["reason"], "float8 with a scale for each row");
  EXPECT_EQ(runs[4]["model"], "llama3-8b:dtype=bfloat16,sequence=8192,products=float8");
  EXPECT_EQ(runs[4]["batch"], 64);
  EXPECT_EQ(runs[5]["topology"], "grand-teton:1");
  EXPECT_NEAR(runs[5]["measured_time_s"].get<double>(), 16.0 * 8192 / (5762 * 8), 1e-9);
  EXPECT_EQ(runs[6]["recipe"], "tp1,cp1,pp1,dp8,mbs1,fsdp,recompute=full");
  EXPECT_EQ(runs[7]["reason"], "sequences longer than those of pipesim's models");
  EXPECT_EQ(runs[8]["topology"], "grand-teton:16");  // the document's second table of this kind
  EXPECT_EQ(runs[9]["reason"], "devices that are not told");
  // Whole layers, every second one, take longer to compute again than a part of each.
  EXPECT_GT(runs[10]["predicted_time_s"], runs[11]["predicted_time_s"]);
  EXPECT_EQ(table["predicted"], 8);
}

TEST(AccuracyTables, SaysWhatIsWrongWithRatesOfTorchtitan) {
  const TemporaryFolder folder;
  (void)folder.file("table.csv", std::string(kTitanColumns) + "a,h100.md,Results,,,,,,,fast,FSDP,,,,,,\n");
  const Outcome outcome = pipesim_run({"accuracy", "--data", folder.path()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("table.csv:2: column \"TPS/GPU\": found \"fast\", allowed: a number above 0\n"));
}

// InternLM/InternEvo, doc/en/train_performance.md (Apache-2.0).
TEST(AccuracyTables, ReadsRunsOfInternEvo) {
  const Json table = judged_table(
      "section,GPU Number,Parallel Configuration,8 GPUs,16 GPUs,32 GPUs,64 GPUs,128 GPUs,256 GPUs,512 GPUs,"
      "1024 GPUs,TP,Zero1,Activation Ckpt,GPU Num,Seq Len,Micro Bsz,Micro Num,TGS,model,Number of GPU,GPU "
      "Memory (GB)\n"
      "Throughput,,\"(tp=1, zero1=-1)\",,3842,,,,,,,,,,,,,,,,,\n"
      "Throughput,,\"(tp=1, zero1=8)\",4078,3939,,,,,,,,,,,,,,,,,\n"
      "Throughput,,\"(tp=2, zero1=4)\",,3658,,,,,,,,,,,,,,,,,\n"
      "FLOPS,,,,,,,,,,,1,8,TRUE,16,2048,8,1,3268,,,\n"
      "FLOPS,,,,,,,,,,,1,8,FALSE,16,2048,2,4,3939,,,\n"
      "Memory,,,,,,,,,,,,,,,,,,,7B,4,61\n"
      "Throughput,TFLOPS,,,,,,,,,,,,,,,,,,,,\n");
  const Json runs = table["runs"];
  ASSERT_EQ(runs.size(), 8U);
  EXPECT_EQ(runs[0]["recipe"], "tp1,dp16,mbs2,zero1,overlap=gather");
  EXPECT_EQ(runs[0]["topology"], "roce-a100:2");
  EXPECT_NEAR(runs[0]["measured_speedup"].get<double>(), 3842.0 / 3939, 1e-9);
  EXPECT_EQ(runs[1]["topology"], "roce-a100:1");
  EXPECT_EQ(runs[2]["recipe"], "tp1,dp16,mbs2,zero1,shard=8,overlap=gather");
  EXPECT_EQ(runs[3]["recipe"], "tp2,dp8,mbs4,zero1,shard=4,overlap=gather");
  EXPECT_EQ(runs[4]["recipe"], "tp1,dp16,mbs8,zero1,shard=8,overlap=gather,recompute=full");
  EXPECT_NEAR(runs[4]["measured_time_s"].get<double>(), 8.0 * 2048 / 3268, 1e-9);
  EXPECT_EQ(runs[5]["reason"], "a run that a row before tells, too");
  EXPECT_EQ(runs[6]["reason"], "memory of a kind that is not told");
  EXPECT_EQ(runs[7]["reason"], "the best of other rows");
  EXPECT_EQ(table["predicted"], 5);
}

// VIA-Research/vTrain, trace/v100 (MIT).
TEST(AccuracyTables, ReadsAllReducesOnTheCubeMesh) {
  const Json table = judged_table(
      "gpu,n_gpus,bytes,time_us,busbw_GBps,source\n"
      "v100,2,1073741824,47610.0,22.55,vTrain\n"
      "v100,8,1073741824,13969.0,134.51,vTrain\n"
      "v100,16,1073741824,13969.0,134.51,vTrain\n");
  const Json runs = table["runs"];
  EXPECT_EQ(runs[0]["topology"], "dgx1-v100");
  for (const std::size_t run : {0, 1}) EXPECT_LT(std::abs(runs[run]["time_error"].get<double>()), 0.05);
  EXPECT_EQ(runs[2]["reason"], "other than 2 to 8 GPUs");
}

// Dazz993/Mist (Apache-2.0). Rates follow from the odd rows, here exactly: a product of 34.8 ms, a collective
// of 13.2, copies of 87 and 81.6.
TEST(AccuracyTables, ReadsMixturesOnANode) {
  const Json table = judged_table(
      "gpu,intra_group,gemm_n,gemm_m,gemm_k,g2g_MB,c2g_MB,g2c_MB,latency_ms\n"
      "a100,2,297552,4096,4096,0,0,0,34.8\n"
      "a100,2,297552,4096,4096,3936,0,0,41.4\n"
      "a100,2,0,4096,4096,3936,0,0,13.2\n"
      "a100,2,74388,4096,4096,3936,0,0,17.4\n"
      "a100,2,0,4096,4096,0,512,0,87\n"
      "a100,2,0,4096,4096,0,512,512,145\n"
      "a100,2,0,4096,4096,0,0,512,81.6\n"
      "a100,8,0,4096,4096,3936,0,0,16.75\n"
      "a100,2,0,4096,4096,0,0,0,1\n");
  const Json runs = table["runs"];
  EXPECT_EQ(runs[0]["reason"], "a row to which rates and slowdowns were fitted");
  // Half of the rate while the collective goes on: 13.2 + 34.8 - 13.2 / 2.
  EXPECT_NEAR(runs[1]["predicted_time_s"].get<double>(), 0.0414, 1e-9);
  EXPECT_NEAR(runs[1]["undisturbed_error"].get<double>(), 34.8 / 41.4 - 1, 1e-9);
  EXPECT_NEAR(runs[3]["predicted_time_s"].get<double>(), 13.2e-3 + 8.7e-3 - 6.6e-3, 1e-9);
  EXPECT_NEAR(runs[5]["predicted_time_s"].get<double>(), 81.6e-3 + 87e-3 - 81.6e-3 / 3.45, 1e-9);
  EXPECT_EQ(runs[7]["reason"], "no row has a collective alone");
  EXPECT_EQ(table["errors"][1]["of"], "undisturbed");
}

}  // namespace
}  // namespace pipesim
