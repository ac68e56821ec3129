#include "tools/analysis/inputs/plan_origin.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/zoo/zoo.h"
#include "sim/base/files.h"
#include "tests/tools/command_line.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

std::string exchanged(std::string text, const std::string& what, const std::string& by) {
  EXPECT_NE(text.find(what), std::string::npos) << what;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// The topology of the plan, written down with something else in it.
std::string file_of(const TemporaryFolder& folder, const std::string& what, const std::string& by) {
  std::string path = folder.path("other.json");
  write_file(path, exchanged(to_json(make_topology("p100-4x4:1")), what, by));
  return path;
}

std::vector<std::string> told(const std::string& what, const std::string& by) {
  const Topology before = make_topology("p100-4x4:1");
  return differences(before, parse_topology(exchanged(to_json(before), what, by), "other.json"));
}

TEST(PlanOrigin, TellsWhatDiffersBetweenTopologies) {
  EXPECT_THAT(told("\"memory\":\"16 GB\"", "\"memory\":\"8 GB\""),
              ElementsAre("4 devices (P100-SXM2) differ: 8 GB of memory instead of 16 GB"));
  EXPECT_THAT(told("P100-SXM2", "Mine"), ElementsAre("4 devices are Mine instead of P100-SXM2"));
  EXPECT_THAT(told("\"overlap\":true", "\"overlap\":false"),
              ElementsAre("4 devices (P100-SXM2) differ: transfers and kernels do not overlap"));
  EXPECT_THAT(told("\"node0\"", "\"lonely\""),
              ElementsAre("only names and nodes of devices and switches differ"));
  EXPECT_THAT(differences(make_topology("p100-4x4:1"), make_topology("pcie-v100-4")),
              testing::Contains("the links join other ends"));
  EXPECT_THAT(differences(make_topology("levels:4@10GB/s"), make_topology("levels:8@5GB/s")),
              ElementsAre("8 devices instead of 4", "the links join other ends",
                          "gpu0 to gpu1: 5 GB/s instead of 10 GB/s"));
  EXPECT_THAT(
      differences(make_topology("levels:4@10GB/s,2@2GB/s"), make_topology("levels:4@10GB/s,2@1GB/s")),
      ElementsAre("2 of 10 links have 1 GB/s instead of 2 GB/s (such as node0.switch - level1.switch0)"));
}

TEST(PlanOrigin, TellsWhatDiffersBetweenModels) {
  const OperatorGraph small = make_zoo_model("lenet:batch=32"), large = make_zoo_model("lenet:batch=64");
  const std::vector<std::string> batch = differences(small, large);
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch[0], "batch 64 instead of 32");
  EXPECT_THAT(batch[1], HasSubstr(" tensors have other shapes or types, such as "));
}

TEST(PlanOrigin, APlanServesSlowerLinksAndTheReportTellsThem) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  const Topology own = make_topology("p100-4x4:1");
  const std::string rate = to_text(own.parts().links.front().bandwidth);
  const std::string slower = file_of(folder, "\"bandwidth\":\"" + rate + "\"", "\"bandwidth\":\"1 GB/s\"");
  const Outcome text = pipesim_run({"simulate", "--plan", plan, "--topology", slower});
  ASSERT_EQ(text.status, 0) << text;
  EXPECT_THAT(text.out, HasSubstr("\n\n  the plan was made for topology p100-4x4:1; here\n    "));
  EXPECT_THAT(text.out, HasSubstr(" links have 1 GB/s instead of "));
  const Json json =
      Json::parse(pipesim_run({"simulate", "--plan", plan, "--topology", slower, "--json"}).out);
  const Json same = Json::parse(pipesim_run({"simulate", "--plan", plan, "--json"}).out);
  EXPECT_GT(json["iteration_time_s"], same["iteration_time_s"]);
  EXPECT_EQ(json["made_for"][0]["made_for"], "topology p100-4x4:1");
  EXPECT_EQ(json["made_for"][0]["here"].size(), 1U);
  EXPECT_FALSE(same.contains("made_for"));
  const Outcome run = pipesim_run({"execute", "--plan", plan, "--topology", slower, "--backend", "emulated",
                                   "--steps", "1", "--warmup", "0"});
  ASSERT_EQ(run.status, 0) << run;
  EXPECT_THAT(run.out, HasSubstr("\n\n  the plan was made for topology p100-4x4:1; here\n    "));
}

TEST(PlanOrigin, APlanServesAnotherBatch) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  const Outcome text = pipesim_run({"simulate", "--plan", plan, "--model", "lenet:batch=128"});
  ASSERT_EQ(text.status, 0) << text;
  EXPECT_THAT(text.out,
              HasSubstr("  the plan was made for model lenet; here\n    batch 128 instead of 64\n"));
  const Outcome odd = pipesim_run({"simulate", "--plan", plan, "--model", "lenet:batch=6"});
  EXPECT_EQ(odd.status, 1);
  EXPECT_THAT(odd.err, HasSubstr("degree 4 does not divide factor n of size 6"));
  const Outcome other = pipesim_run({"simulate", "--plan", plan, "--model", "vgg16:batch=64"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("/configs/"));
}

TEST(PlanOrigin, NamesTheDevicesThatAreMissing) {
  const TemporaryFolder folder;
  const std::string plan = data_parallel_lenet(folder);
  EXPECT_EQ(
      pipesim_run({"simulate", "--plan", plan, "--topology", "levels:2@10GB/s"}).err,
      "pipesim: " + plan +
          ": /configs: the plan uses 4 devices of \"p100-4x4:1\", but topology \"levels:2@10GB/s\" lacks "
          "2: gpu2..gpu3; it has gpu0..gpu1\n");
}

TEST(PlanOrigin, SaysWhenItIsNotKnownWhatDiffers) {
  const TemporaryFolder folder;
  const std::string file = folder.path("mine.json"), plan = folder.path("of_mine.json");
  write_file(file, to_json(make_topology("p100-4x4:1")));
  ASSERT_EQ(pipesim_run({"search", "--model", "lenet", "--topology", file, "--algorithm", "data-parallel",
                         "-o", plan})
                .status,
            0);
  EXPECT_THAT(pipesim_run({"simulate", "--plan", plan, "--topology", "p100-4x4:1"}).out,
              Not(HasSubstr("made for")));
  write_file(file,
             exchanged(to_json(make_topology("p100-4x4:1")), "\"memory\":\"16 GB\"", "\"memory\":\"8 GB\""));
  const Outcome changed = pipesim_run({"simulate", "--plan", plan});
  EXPECT_EQ(changed.status, 0);
  EXPECT_THAT(changed.out, HasSubstr("\n\n  the plan was made for topology " + file +
                                     ", which has changed since: what differs is not known\n\n"));
  std::filesystem::remove(file);
  const Outcome gone = pipesim_run({"simulate", "--plan", plan, "--topology", "levels:4@10GB/s"});
  EXPECT_EQ(gone.status, 0) << gone;
  EXPECT_THAT(gone.out, HasSubstr("\n\n  the plan was made for topology " + file +
                                  ", which can't be opened: what differs is not known\n\n"));
}

}  // namespace
}  // namespace pipesim
