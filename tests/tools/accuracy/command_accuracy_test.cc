#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

TEST(Accuracy, OfMegatronsMemoryIsWithinAFewPercent) {
  const Outcome outcome = pipesim_run({"accuracy", "--data", kFolder, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const Json table = Json::parse(outcome.out)["tables"][0];
  EXPECT_EQ(table["table"], "megatron_golden.csv");
  ASSERT_EQ(table["runs"].size(), 9U);
  std::size_t predicted = 0;
  for (const Json& run : table["runs"]) {
    if (!run.contains("error")) continue;
    ++predicted;
    EXPECT_LT(std::abs(run["error"].get<double>()), 0.03) << run;
    const double state = run["predicted_state_bytes"].get<double>();
    EXPECT_NEAR(state / run["measured_state_bytes"].get<double>(), 1, 0.04) << run;
  }
  EXPECT_EQ(predicted, 7U);
  EXPECT_EQ(table["groups"][0]["group"], "all");
  EXPECT_EQ(table["groups"][0]["runs"], 7);
  EXPECT_LT(table["groups"][0]["median"], 0.02);
}

// By hand: 64,109,568 weights of 2 bytes and gradients of 4; an eighth of master weights and moments, 12
// bytes; two workspaces of cuBLAS, 32 MiB each, and one of Transformer Engine on Ampere, 4 MiB.
TEST(Accuracy, CountsTheStateOfADistributedOptimizer) {
  const Json table = Json::parse(pipesim_run({"accuracy", "--data", kFolder, "--json"}).out)["tables"][0];
  const Json run = table["runs"][0];
  EXPECT_EQ(run["predicted_state_bytes"], 64'109'568 * 6 + 64'109'568 / 8 * 12 + (2 * 32 + 4) * 1'048'576);
  EXPECT_EQ(run["measured_state_bytes"], 552'128'512);
  EXPECT_EQ(run["recipe"], "tp1,cp1,dp8,pp1,mbs4,zero1,shard=8");
}

TEST(Accuracy, CountsRunsThatItCannotExpress) {
  const Outcome outcome = pipesim_run({"accuracy", "--data", kFolder, "--rows"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("megatron_golden.csv: 9 runs, 7 of them predicted\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  runs  not predicted because of\n"
                                     "     1  8-bit types\n"
                                     "     1  Megatron-LM's own form of T5\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  gpt3_mcore_te_tp1_pp4_vp1 dgx_a100 dev "));
  const Outcome markdown = pipesim_run({"accuracy", "--data", kFolder, "--markdown"});
  EXPECT_THAT(markdown.out,
              testing::StartsWith("| runs of | runs | median | mean | bias | worst | state, "
                                  "median |\n|---|---:|---:|---:|---:|---:|---:|\n| all | 7 |"));
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

TEST(Accuracy, SaysWhatIsWrongWithAFolder) {
  const TemporaryFolder empty;
  EXPECT_EQ(pipesim_run({"accuracy", "--data", empty.path()}),
            (Outcome{1, "",
                     "pipesim: " + empty.path() +
                         ": has no table that accuracy knows, allowed: megatron_golden.csv\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", "/nowhere"}),
            (Outcome{1, "", "pipesim: /nowhere: is no folder\n"}));
  EXPECT_EQ(pipesim_run({"accuracy", "--data", kFolder, "--json", "--markdown"}),
            (Outcome{2, "", "pipesim: accuracy: --json and --markdown exclude each other\n"}));
  EXPECT_EQ(pipesim_run({"accuracy"}).status, 2);
}

}  // namespace
}  // namespace pipesim
