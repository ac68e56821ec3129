#include "sim/base/file_kind.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

std::string refused(const std::string& text, std::string_view key) {
  return refusal([&] { require_file_kind(JsonDocument::parse(text, "f.json"), key); });
}

TEST(FileKind, SaysWhatAFileIsAndWhereItGoes) {
  EXPECT_EQ(
      refused(R"({"pipesim_model": 1})", kPlanKey),
      "f.json: this is a model, not a plan; a model goes with --model f.json; \"pipesim search … -o FILE\" "
      "writes a plan");
  EXPECT_EQ(
      refused(R"({"pipesim_plan": 1})", kModelKey),
      "f.json: this is a plan, not a model; a plan goes with --plan f.json; \"pipesim models NAME --json\" "
      "prints a model");
  EXPECT_EQ(
      refused(R"({"pipesim_plan": 1})", kTopologyKey),
      "f.json: this is a plan, not a topology; a plan goes with --plan f.json; \"pipesim topologies NAME "
      "--json\" prints a topology");
  EXPECT_EQ(
      refused(R"({"pipesim_topology": 1})", kPlanKey),
      "f.json: this is a topology, not a plan; a topology goes with --topology f.json; \"pipesim search … -o "
      "FILE\" writes a plan");
  EXPECT_EQ(refused(R"({"pipesim_search": 3})", kPlanKey),
            "f.json: this is a checkpoint of a search, not a plan; \"pipesim search … --resume f.json\" goes "
            "on from "
            "it; \"pipesim search … -o FILE\" writes a plan");
  EXPECT_EQ(
      refused(R"({"pipesim_search": 3})", kAutoSearchKey),
      "f.json: this is a checkpoint of a search, not a checkpoint of a search with --algorithm auto; "
      "\"pipesim "
      "search … --resume f.json\" goes on from it; \"pipesim search … --algorithm auto --checkpoint FILE\" "
      "writes a checkpoint");
  EXPECT_EQ(
      refused(R"({"traceEvents": []})", kPlanKey),
      "f.json: this is a trace, not a plan; ui.perfetto.dev shows it, and \"pipesim report f.json -o FILE\" "
      "where execute wrote it; \"pipesim search … -o FILE\" writes a plan");
  EXPECT_EQ(refused(R"({"pipesim_study": 1})", kTopologyKey),
            "f.json: this is a study, not a topology; \"pipesim report f.json -o FILE\" draws it, \"pipesim "
            "whatif --resume f.json\" goes on with it; \"pipesim topologies NAME --json\" prints a topology");
  EXPECT_EQ(refused(R"({"pipesim_plan": 1})", kStudyKey),
            "f.json: this is a plan, not a study; a plan goes with --plan f.json; \"pipesim whatif … --vary "
            "PATH=VALUES -o FILE\" writes a study");
}

TEST(FileKind, KnowsResults) {
  const auto drawn = [](const std::string& name) {
    return "f.json: this is " + name +
           ", as --json prints it, not a plan; \"pipesim report f.json -o FILE\" draws it; \"pipesim search "
           "… "
           "-o FILE\" writes a plan";
  };
  EXPECT_EQ(refused(R"({"iteration_time_s": 1, "best": "mcmc"})", kPlanKey), drawn("a result of a search"));
  EXPECT_EQ(refused(R"({"predicted_s": 1, "backend": "cpu"})", kPlanKey), drawn("a result of execute"));
  EXPECT_EQ(refused(R"({"plans": [], "top1_regret": 0})", kPlanKey), drawn("a result of compare --execute"));
  EXPECT_EQ(refused(R"({"best": 1})", kPlanKey), "accepted");
  EXPECT_EQ(refused(R"({"iteration_time_s": 1})", kPlanKey),
            "f.json: this is a result of simulate, as --json prints it, not a plan; pipesim reads no such "
            "results: \"pipesim report\" draws the plan itself; \"pipesim search … -o FILE\" writes a plan");
}

TEST(FileKind, LetsOthersPass) {
  EXPECT_EQ(refused(R"({"pipesim_plan": 1, "pipesim_model": 1})", kPlanKey), "accepted");
  EXPECT_EQ(refused(R"({"model": 1})", kPlanKey), "accepted");
  EXPECT_EQ(refused("[]", kPlanKey), "accepted");
}

TEST(FileKind, KnowsWhatIsNoJson) {
  const auto parse = [](std::string_view text) {
    return refusal([&] { (void)JsonDocument::parse(text, "f"); });
  };
  EXPECT_EQ(
      parse(std::string("SQLite format 3\0", 16)),
      "f: this is an SQLite file, as calibrations are, not JSON; a calibration goes with --calibration f");
  EXPECT_EQ(
      parse("<system version=\"1\">"),
      "f: this is XML, not JSON; \"pipesim import topology f\" makes a topology of what NCCL wrote down of a "
      "machine");
  EXPECT_EQ(parse("seconds,proposals,best,chain\n1,2,,\n"),
            "f: this is a log of a search, not JSON; \"pipesim report f -o FILE\" draws it");
  EXPECT_EQ(parse("<!doctype html>"),
            "f: this is a page for a browser, as \"pipesim report\" writes it, not JSON");
  EXPECT_EQ(parse("PK\x03\x04..."), "f: this is a ZIP archive, as torch.save writes it, not JSON");
  EXPECT_EQ(parse("\x89HDF\r\n"), "f: this is an HDF5 file, not JSON");
}

TEST(FileKind, RefusesJsonWhereAnotherFileIsNeeded) {
  const TemporaryFolder folder;
  const std::string plan = folder.file("p.json", R"({"pipesim_plan": 1})"), other = folder.file("o", "{}");
  EXPECT_EQ(refusal([&] { refuse_json_as("a calibration", "calibrate writes one", plan); }),
            plan + ": this is a plan, not a calibration; a plan goes with --plan " + plan +
                "; calibrate writes one");
  EXPECT_EQ(refusal([&] { refuse_json_as("a calibration", "", other); }), "accepted");
  EXPECT_EQ(refusal([&] { refuse_json_as("a calibration", "", folder.file("b", "SQLite")); }), "accepted");
}

}  // namespace
}  // namespace pipesim
