#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string dump_file(const std::string& name) {
  return std::string(PIPESIM_SOURCE_DIR "/tests/topologies/fixtures/") + name;
}

TEST(Import, WritesTheTopologyOfAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path("cluster.json"), dump = dump_file("nccl_h200_quarter.xml");
  const Outcome outcome = pipesim_run({"import", "topology", dump, "--nodes", "2", "-o", path});
  EXPECT_EQ(
      outcome,
      (Outcome{0, path + ": 4 devices in 2 nodes, 22 links; \"pipesim topologies " + path + "\" shows it\n",
               ""}));
  EXPECT_EQ(load_topology(path).name(), "nccl_h200_quarter");
  const Outcome text = pipesim_run({"import", "topology", dump_file("nccl_a100_pairs.xml")});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(parse_topology(text.out, "stdout").num_devices(), 3U);
  EXPECT_THAT(text.err, HasSubstr("nccl_a100_pairs.xml: links of PCIe whose speed or width is not told"));
}

TEST(Import, ListsWhatItAddsAndGuesses) {
  const std::string dump = dump_file("nccl_cloud_a100.xml");
  const Outcome text = pipesim_run({"import", "topology", dump, "--nodes", "2"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.err,
              HasSubstr(dump + ": added, as NCCL finds them on the machine: 12 NVLinks to NVSwitches"));
  const Outcome json = pipesim_run({"import", "topology", dump, "--nodes", "2", "--json"});
  EXPECT_EQ(json.err, text.err);
  const nlohmann::json document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document.at("devices"), 8);
  EXPECT_EQ(document.at("notes").size(), 2U);
  EXPECT_EQ(parse_topology(document.at("topology").dump(), "stdout"), parse_topology(text.out, "stdout"));
  const TemporaryFolder folder;
  const Outcome written = pipesim_run({"import", "topology", dump, "--json", "-o", folder.path("t.json")});
  EXPECT_EQ(nlohmann::json::parse(written.out).at("file"), folder.path("t.json"));
  EXPECT_EQ(load_topology(folder.path("t.json")).num_devices(), 4U);
}

TEST(Import, TakesAKindOfOnesOwn) {
  const TemporaryFolder folder;
  const std::string kind = folder.path("mine.json");
  write_file(kind, R"({"mine": {
    "peak": {"bfloat16": "300 TFLOP/s"},
    "memory": "48 GB",
    "memory_bandwidth": "900 GB/s"
  }})");
  const auto run = [&] {
    return pipesim_run({"import", "topology", dump_file("nccl_cloud_a100.xml"), "--device", kind});
  };
  const Outcome outcome = run();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Topology topology = parse_topology(outcome.out, "stdout");
  EXPECT_EQ(topology.kind(DeviceId(0)).name, "mine");
  EXPECT_THAT(outcome.err, HasSubstr("12 NVLinks to NVSwitches"));  // of the product that the PCI ids name
  write_file(kind, R"({"mine": {"peak": {"bfloat16": "300 TFLOP/s"}, "memory": "48 GB"}})");
  EXPECT_EQ(run().err, "pipesim: " + kind + ": /mine: \"memory_bandwidth\" is missing\n");
  write_file(kind, R"({})");
  EXPECT_EQ(run().err,
            "pipesim: " + kind + ": /: found 0 members, allowed: one, the kind's name with its figures\n");
}

TEST(Import, JoinsOrPartsTheHostsOfAFile) {
  const auto nodes = [&](const std::string& domain) {
    const Outcome outcome =
        pipesim_run({"import", "topology", dump_file("nccl_two_trays.xml"), "--nvlink-domain", domain});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return parse_topology(outcome.out, "stdout").num_nodes();
  };
  EXPECT_EQ(nodes("auto"), 1U);
  EXPECT_EQ(nodes("joined"), 1U);
  EXPECT_EQ(nodes("hosts"), 2U);
}

TEST(Import, WritesTheModelOfAConfig) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.json"), config = folder.path("config.json");
  write_file(config,
             R"({"model_type": "mistral", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
                 "num_attention_heads": 4, "vocab_size": 100, "attention_dropout": 0.1, "torch_dtype": "float32"})");
  EXPECT_EQ(pipesim_run({"import", "model", config + ":sequence=32,batch=8", "-o", path}),
            (Outcome{0,
                     path +
                         ": llama:batch=8,dtype=float32,sequence=32,layers=3,hidden=64,heads=4,head_width=16,"
                         "kv_heads=4,ffn=128,vocab=100,partial=yes, 49 operators; \"pipesim models " +
                         path + "\" shows it\n",
                     "pipesim: " + config + ": attention_dropout: no scores are dropped\n"}));
  const Outcome file = pipesim_run({"simulate", "--model", path, "--topology", "cpu:2", "--recipe", "tp2"});
  const Outcome own = pipesim_run({"simulate", "--model", config + ":sequence=32", "--set", "batch=8",
                                   "--topology", "cpu:2", "--recipe", "tp2"});
  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(own.status, 0) << own.err;
  const auto figures = [](const Outcome& o) { return o.out.substr(o.out.find("  iteration")); };
  EXPECT_EQ(figures(file), figures(own));
  EXPECT_EQ(pipesim_run({"import", "model"}).err,
            "pipesim: import: a model is read from a FILE, and there is none\n");
  EXPECT_EQ(pipesim_run({"import", "model", config, "--nodes", "2"}).err,
            "pipesim: import: --nodes goes with topology\n");
  EXPECT_EQ(
      pipesim_run({"import", "model", path}).err,
      "pipesim: " + path +
          ": is no ONNX file, and no config.json of a model of Hugging Face: it has no \"model_type\"\n");
}

// With GPUs and without, with the library and without.
TEST(Import, WithoutAFileAsksThisMachine) {
  const Outcome outcome = pipesim_run({"import", "topology", "--name", "here", "--device", "H200"});
  if (outcome.status == 0) {
    EXPECT_EQ(parse_topology(outcome.out, "stdout").name(), "here");
    return;
  }
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, testing::AnyOf(StartsWith("pipesim: this machine has no GPUs of NVIDIA: "),
                                          HasSubstr("libpipesim_cuda.so")));
}

TEST(Import, OfVirtualDevicesAsksThisMachineToo) {
  const Outcome outcome =
      pipesim_run({"import", "topology", "--virtual-devices", "2", "--name", "here", "--device", "H200"});
  if (outcome.status == 0) {
    const Topology t = parse_topology(outcome.out, "stdout");
    EXPECT_EQ(t.num_devices(), 2U);
    EXPECT_THAT(t.kind(DeviceId(1)).name, StartsWith("H200/2 ("));
    EXPECT_THAT(pipesim_run({"import", "topology", "--virtual-devices", "1000"}).err,
                HasSubstr("multiprocessors, which can be divided into at most "));
    return;
  }
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.err, pipesim_run({"import", "topology"}).err) << "as without them";
}

TEST(Import, RefusesWhatDoesNotGoTogether) {
  EXPECT_EQ(pipesim_run({"import", "topology", dump_file("nccl_h200_quarter.xml"), "--virtual-devices", "2"}),
            (Outcome{2, "",
                     "pipesim: import: --virtual-devices goes without FILE: it is this machine's GPU that is "
                     "divided\n"}));
  EXPECT_EQ(pipesim_run({"import", "topology", "--virtual-devices", "1"}).status, 2);
  EXPECT_EQ(
      pipesim_run({"import", "topology", "--nodes", "2"}),
      (Outcome{2, "", "pipesim: import: --nodes goes with FILE: this machine is not asked for its NICs\n"}));
  EXPECT_EQ(pipesim_run({"import", "plans"}), (Outcome{2, "",
                                                       "pipesim: import: found \"plans\", allowed: topology, "
                                                       "model or plan, as in \"pipesim import topology "
                                                       "plans\"; see \"pipesim help import\"\n"}));
  EXPECT_THAT(
      pipesim_run({"import", "topology", "--device", "H202"}).err,
      StartsWith("pipesim: option --device: unknown kind \"H202\" (did you mean \"H200\"?); allowed: "));
}

TEST(Import, WritesTheModelOfAnOnnxFile) {
  const TemporaryFolder folder;
  const std::string onnx = PIPESIM_SOURCE_DIR "/docs/examples/resnet50.onnx";
  const auto written = pipesim_run({"import", "model", onnx + ":batch=64", "-o", folder.path("net.json")});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.err, "");
  EXPECT_THAT(written.out, HasSubstr("net.json: resnet50:batch=64, 142 operators"));
  // The batch keeps its name, and the file means the same as ONNX. The first line has the model's name.
  const auto simulated = [](const std::string& model) {
    const std::string text =
        pipesim_run({"simulate", "--model", model, "--topology", "p100-4x4:1", "--baseline", "data-parallel"})
            .out;
    return text.substr(text.find('\n'));
  };
  EXPECT_EQ(simulated(folder.path("net.json") + ":b=128"), simulated(onnx + ":batch=128"));
  const auto shown = pipesim_run({"models", onnx, "--set", "batch=8"});
  EXPECT_THAT(shown.out, HasSubstr("batch  the batch, see --batch"));
}

TEST(Import, RefusesOnnxFilesInOneLine) {
  const TemporaryFolder folder;
  const std::string onnx = PIPESIM_SOURCE_DIR "/docs/examples/resnet50.onnx";
  const auto refused = [&](const std::string& file) {
    const auto run = pipesim_run({"import", "model", file, "-o", folder.path("out.json")});
    EXPECT_EQ(run.status, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder.path("out.json")));
    return run.err;
  };
  EXPECT_EQ(refused(onnx),
            "pipesim: " + onnx +
                ": dimension 0 of input \"images\" has the name \"batch\" and no length; set it: --set "
                "batch=N\n");
  EXPECT_EQ(refused(onnx + ":batch=4,width=3"),
            "pipesim: " + onnx + ": no dimension is named \"width\", allowed: batch\n");
  const std::string half = read_file(onnx).substr(0, 30000), cut = folder.file("half.onnx", half);
  EXPECT_THAT(refused(cut), HasSubstr("half.onnx: is no ONNX model, or not all of it"));
}

}  // namespace
}  // namespace pipesim
