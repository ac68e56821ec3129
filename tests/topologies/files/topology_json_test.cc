#include "topologies/files/topology_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/rng.h"
#include "tests/refusal.h"
#include "topologies/device_kinds.h"
#include "topologies/presets/cpu.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

// Two servers of two GPUs behind a network.
const std::string kLab = R"({
  "pipesim_topology": 1,
  "name": "lab",
  "device_kinds": {"slow": {"peak": {"float32": "1 TFLOP/s"}, "memory": "4 GB", "memory_bandwidth": "100 GB/s"}},
  "node_kinds": {
    "server": {
      "devices": [{"name": "gpu", "count": 2, "kind": "slow"}],
      "switches": ["pcie"],
      "nics": ["nic"],
      "links": [
        {"between": ["gpu*", "pcie"], "bandwidth": "12 GB/s", "latency": "1 us"},
        {"between": ["nic", "pcie"], "bandwidth": "12 GB/s", "latency": "1 us"}
      ]
    }
  },
  "nodes": {"count": 2, "of": "server"},
  "network": {"bandwidth": "100 Gb/s", "latency": "2 us"}
})";

std::string refused_file(const std::string& text) {
  const std::string message = refusal([&] { (void)parse_topology(text, "lab.json"); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

std::string refused_file(std::string_view what, std::string_view by) {
  return refused_file(replaced(kLab, what, by));
}

TEST(TopologyJson, RoundTripsEveryPreset) {
  for (const TopologyPreset& preset : topology_presets()) {
    for (const std::int64_t nodes : {std::int64_t{1}, std::int64_t{2}, preset.default_nodes}) {
      const Topology t = preset_topology(preset, nodes);
      const Topology back = parse_topology(to_json(t), "round trip");
      EXPECT_TRUE(back == t) << preset.name << " " << nodes;
      EXPECT_EQ(back.fingerprint(), t.fingerprint());
      EXPECT_EQ(to_json(back), to_json(t));
    }
  }
  const Topology levels = make_topology("levels:4@10GB/s@1us,2@1.25GB/s,3@1GB/s");
  EXPECT_TRUE(parse_topology(to_json(levels), "round trip") == levels);
}

TEST(TopologyJson, ReadsNodesOfAKindOverANetwork) {
  const Topology t = parse_topology(kLab, "lab.json");
  EXPECT_EQ(t.num_devices(), 4u);
  EXPECT_EQ(t.device(DeviceId(3)).name, "node1.gpu1");
  const Route route = t.route(DeviceId(0), DeviceId(3));
  EXPECT_EQ(route.lanes.size(), 6u);
  EXPECT_EQ(t.lane_name(route.lanes[2]), "node0.nic -> network");
  EXPECT_EQ(route.bandwidth, BytesPerSecond(12e9));
  EXPECT_EQ(t.lane_bandwidth(route.lanes[2]), BytesPerSecond(12.5e9));
  EXPECT_EQ(t.kind(DeviceId(0)).products.efficiency, (std::vector<EfficiencyPoint>{{Flops(1), 1}}));
  EXPECT_TRUE(parse_topology(to_json(t), "round trip") == t);
}

TEST(TopologyJson, ReadsAHandWrittenHeterogeneousFile) {
  const Topology t = make_topology(PIPESIM_SOURCE_DIR "/tests/topologies/fixtures/two_generations.json");
  EXPECT_EQ(t.num_devices(), 11u);
  EXPECT_EQ(t.num_nodes(), 4u);
  EXPECT_EQ(t.kind(t.device_named("node1.gpu3")).name, "A100-80GB");
  EXPECT_EQ(t.kind(t.device_named("volta.gpu1")).name, "V100-PCIe");
  EXPECT_FALSE(t.kind(t.device_named("desk.gpu")).overlap);
  const Route far = t.route(t.device_named("desk.gpu"), t.device_named("node0.gpu0"));
  EXPECT_EQ(far.bandwidth, BytesPerSecond(0.125e9));
  EXPECT_EQ(t.lane_name(far.lanes[1]), "desk.nic <-> office");
  EXPECT_TRUE(parse_topology(to_json(t), "round trip") == t);
}

// Device names leave out a single node, like those of presets; names with the node find its devices all the
// same.
TEST(TopologyJson, OneNodeHasNamesWithoutIt) {
  const std::string two = replaced(kLab, "\"network\": ",
                                   "\"links\": [{\"between\": [\"node*.nic\", \"network\"], "
                                   "\"bandwidth\": \"1 GB/s\", \"latency\": \"1 us\"}], \"network\": ");
  const Topology t =
      parse_topology(replaced(two, "\"count\": 2, \"of\"", "\"count\": 1, \"of\""), "lab.json");
  const Topology preset = make_topology("p100-4x4:1");
  for (const DeviceId d : {DeviceId(0), DeviceId(1)}) EXPECT_EQ(t.device(d).name, preset.device(d).name);
  EXPECT_EQ(t.device_named("node0.gpu1"), DeviceId(1));
  EXPECT_EQ(t.find_device("gpu1"), DeviceId(1));
  EXPECT_EQ(t.find_device("node1.gpu1"), std::nullopt);
  EXPECT_EQ(preset.find_device("node0.gpu3"), DeviceId(3));
  EXPECT_EQ(make_topology("p100-4x4").find_device("gpu3"), std::nullopt);
  EXPECT_EQ(t.parts().nodes, std::vector<std::string>{"node0"});
  EXPECT_EQ(t.parts().links.size(), parse_topology(kLab, "lab.json").parts().links.size() / 2 + 1);
}

TEST(TopologyJson, ANodeThatHasANameOfItsOwnIsNotPartOfOthersEither) {
  const std::string text = R"({"pipesim_topology": 1, "name": "desk", "nodes": [{"name": "desk", "devices":
    [{"kind": "V100-PCIe", "count": 2}], "links": [{"between": ["gpu0", "gpu1"], "bandwidth": "8 GB/s",
    "latency": "1 us"}]}]})";
  const Topology t = parse_topology(text, "desk.json");
  EXPECT_EQ(t.device(DeviceId(1)).name, "gpu1");
  EXPECT_EQ(t.device_named("desk.gpu1"), DeviceId(1));
}

TEST(TopologyJson, ReadsLevels) {
  const std::string text = R"({"pipesim_topology": 1, "name": "levels:4@10GB/s,2@1.25GB/s", "levels": [
    {"size": 4, "bandwidth": "10 GB/s"}, {"size": 2, "bandwidth": "1.25 GB/s"}]})";
  const Topology t = parse_topology(text, "levels.json");
  EXPECT_EQ(t.fingerprint(), make_topology("levels:4@10GB/s,2@1.25GB/s").fingerprint());
  const Topology other =
      parse_topology(replaced(text, "\"levels\":", "\"device\": \"H200\", \"levels\":"), "levels.json");
  EXPECT_EQ(other.kind(DeviceId(7)).name, "H200");
}

TEST(TopologyJson, ReadsTheExampleOfTheReadme) {
  std::istringstream readme(read_file(PIPESIM_SOURCE_DIR "/topologies/README.md"));
  std::string example;
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with("    ")) example += line + "\n";
  EXPECT_EQ(parse_topology(example, "README.md").num_devices(), 32u);
}

TEST(TopologyJson, GivesABuiltInKindAnotherName) {
  const std::string alias = R"({"pipesim_topology": 1, "name": "t", "device_kinds": {"v": "V100-PCIe"},
    "nodes": ["box"], "devices": [{"name": "gpu", "kind": "v", "node": "box"}]})";
  const Topology t = parse_topology(alias, "alias.json");
  EXPECT_EQ(t.kind(DeviceId(0)).name, "v");
  EXPECT_EQ(t.kind(DeviceId(0)).peak, find_built_in_device_kind("V100-PCIe")->peak);
}

// Whatever a file holds, reading it ends in a topology or in an InputError of one line.
TEST(TopologyJson, SurvivesDamagedFiles) {
  constexpr std::uint64_t kSeed = 20240612;
  const std::string pieces[] = {"{",     "}",    "[]",       "{}", "null", "-1",
                                "1e999", "\"\"", "\"gpu*\"", ",",  "0",    "true"};
  int read = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    SCOPED_TRACE(fmt::format("seed {}, split {}", kSeed, i));
    Rng rng = Rng(kSeed).split(i);
    std::string text = kLab;
    const std::size_t at = rng.below(text.size());
    text.replace(at, rng.below(8), pieces[rng.below(std::size(pieces))]);
    read += refused_file(text) == "accepted";
  }
  EXPECT_LT(read, 1500);
}

TEST(TopologyJson, LinksEveryPairOfAPattern) {
  const std::string mesh = R"({"pipesim_topology": 1, "name": "mesh", "nodes": [{"name": "box",
    "devices": {"count": 4, "kind": "V100-PCIe"},
    "links": [{"between": ["gpu*", "gpu*"], "bandwidth": "10 GB/s", "latency": "0 s"}]}]})";
  EXPECT_EQ(parse_topology(mesh, "mesh.json").parts().links.size(), 6u);
}

TEST(TopologyJson, NamesThePlaceOfABadFigure) {
  EXPECT_EQ(refused_file("\"100 Gb/s\"", "\"-1 GB/s\"").find("lab.json: /network/bandwidth: "), 0u);
  EXPECT_EQ(refused_file("\"100 Gb/s\"", "\"0 GB/s\"").find("lab.json: /network/bandwidth: "), 0u);
  EXPECT_EQ(refused_file("\"100 Gb/s\"", "\"nan B/s\"").find("lab.json: /network/bandwidth: "), 0u);
  EXPECT_EQ(
      refused_file("\"100 Gb/s\"", "\"300 Gb\"")
          .find("lab.json: /network/bandwidth: \"300 Gb\" is not a bandwidth: unknown unit \"Gb\"; write "),
      0u);
  EXPECT_EQ(refused_file("\"100 Gb/s\"", "\"1 B/s\""),
            "lab.json: /network/bandwidth: found 1 B/s, allowed 1 MB/s to 900 TB/s");
  EXPECT_EQ(refused_file("\"100 Gb/s\"", "100"),
            "lab.json: /network/bandwidth: found 100, a string with a unit like \"300 GB/s\" is needed");
  EXPECT_EQ(refused_file("\"2 us\"", "\"20 s\""),
            "lab.json: /network/latency: found 20 s, allowed 0 ns to 10 s");
  EXPECT_EQ(refused_file("\"4 GB\"", "\"4 B\""),
            "lab.json: /device_kinds/slow/memory: found 4 B, allowed 1 MB to 900 TB");
  EXPECT_EQ(refused_file("\"1 TFLOP/s\"", "\"1 FLOP/s\""),
            "lab.json: /device_kinds/slow/peak/float32: found 1 FLOP/s, allowed 1 MFLOP/s to 900 PFLOP/s");
  EXPECT_EQ(refused_file("\"memory\"", "\"memory_efficiency\": 1.5, \"memory\""),
            "lab.json: /device_kinds/slow/memory_efficiency: found 1.5, allowed above 0 up to 1");
  EXPECT_EQ(
      refused_file("\"memory\"", "\"product_rates\": {\"fp6\": {\"efficiency\": [[1, 0.5]]}}, \"memory\""),
      "lab.json: /device_kinds/slow/product_rates/fp6: unknown data type \"fp6\"; allowed: float32, tf32, "
      "float16, bfloat16, float64, float8, fp8-block, mxfp8, nvfp4");
  EXPECT_EQ(refused_file("\"memory\"", "\"product_rates\": {\"mxfp8\": {\"sustained\": 0.5}}, \"memory\""),
            "lab.json: /device_kinds/slow/product_rates/mxfp8: \"efficiency\" is missing");
  EXPECT_EQ(refused_file("\"memory\"", "\"efficiency\": [[1e9, 0.5], [1e8, 0.6]], \"memory\""),
            "lab.json: /device_kinds/slow/efficiency: found 100000000 operations after 1000000000, allowed "
            "rising numbers "
            "up to 1e30");
  EXPECT_EQ(refused_file("\"memory\"", "\"efficiency\": [1e9, 0.5], \"memory\""),
            "lab.json: /device_kinds/slow/efficiency/0: found a number, an array is needed");
}

TEST(TopologyJson, NamesThePlaceOfABadCount) {
  EXPECT_EQ(refused_file("\"count\": 2, \"of\"", "\"count\": 1000000000, \"of\""),
            "lab.json: /nodes/count: found 1000000000, an integer from 1 to 100000 is needed");
  EXPECT_EQ(refused_file("\"count\": 2, \"of\"", "\"count\": 100000, \"of\""),
            "lab.json: /node_kinds/server/devices/0/count: found more than 100000 devices in all, at most "
            "100000 are allowed");
  EXPECT_EQ(refused_file("\"count\": 2, \"of\"", "\"count\": 0, \"of\""),
            "lab.json: /nodes/count: found 0, an integer from 1 to 100000 is needed");
  EXPECT_EQ(refused_file("\"count\": 2, \"kind\"", "\"count\": 2.5, \"kind\""),
            "lab.json: /node_kinds/server/devices/0/count: found 2.5, an integer from 1 to 100000 is needed");
  EXPECT_EQ(refused_file("\"pipesim_topology\": 1", "\"pipesim_topology\": 2"),
            "lab.json: /pipesim_topology: found version 2, allowed is 1");
}

TEST(TopologyJson, NamesThePlaceOfABadName) {
  EXPECT_EQ(refused_file("\"network\":", "\"netwrok\":"),
            "lab.json: /netwrok: unknown key \"netwrok\" (did you mean \"network\"?); allowed: "
            "pipesim_topology, name, source, price_per_hour, device_kinds, core_switches, node_kinds, nodes, "
            "devices, "
            "switches, vertices, "
            "network, links, levels, device");
  EXPECT_EQ(refused_file("[\"nic\", \"pcie\"]", "[\"nic\", \"pice\"]"),
            "lab.json: /node_kinds/server/links/1/between/1: unknown vertex \"pice\" (did you mean "
            "\"pcie\"?); there are "
            "gpu0, gpu1, pcie, nic");
  EXPECT_EQ(refused_file("[\"gpu*\", \"pcie\"]", "[\"gqu*\", \"pcie\"]"),
            "lab.json: /node_kinds/server/links/0/between/0: no vertex has a name like \"gqu*\" with a "
            "number for '*'");
  EXPECT_EQ(refused_file("[\"nic\", \"pcie\"]", "[\"nic\", \"nic\"]"),
            "lab.json: /node_kinds/server/links/1/between: found [\"nic\",\"nic\"], a vertex needs no link "
            "to itself");
  EXPECT_EQ(refused_file("[\"nic\", \"pcie\"]", "[\"nic\"]"),
            "lab.json: /node_kinds/server/links/1/between: found 1 ends, a link has 2");
  EXPECT_EQ(refused_file("[\"nic\"]", "[\"pcie\"]"),
            "lab.json: /node_kinds/server/nics/0: two vertices are called \"node0.pcie\"");
  EXPECT_EQ(refused_file("[\"nic\"]", "[\"\"]"), "lab.json: /node_kinds/server/nics/0: found an empty name");
  EXPECT_EQ(
      refused_file("\"kind\": \"slow\"", "\"kind\": \"V100-PCI\""),
      "lab.json: /node_kinds/server/devices/0/kind: unknown device kind \"V100-PCI\" (did you mean "
      "\"V100-PCIe\"?); "
      "there are slow, K80, P100-SXM2, P100-PCIe, V100-SXM2-16GB, V100-SXM2-32GB, V100-PCIe, A100-40GB, "
      "A100-80GB, A800, H100-SXM5, H100-500W, H800, H200, H100-PCIe, H100-NVL, H20, B200, GB200, B300, "
      "\u2026 (40 in all)");
  EXPECT_EQ(refused_file("\"of\": \"server\"", "\"of\": \"sever\""),
            "lab.json: /nodes/of: unknown node kind \"sever\" (did you mean \"server\"?); \"node_kinds\" has "
            "server");
  EXPECT_EQ(refused_file("{\"count\": 2, \"of\": \"server\"}",
                         "[{\"of\": \"server\", \"name\": \"a\"}, {\"of\": \"server\", \"name\": \"a\"}]"),
            "lab.json: /nodes/1: two nodes are called \"a\"");
  EXPECT_EQ(
      refused_file("\"float32\"", "\"float31\""),
      "lab.json: /device_kinds/slow/peak/float31: unknown data type \"float31\" (did you mean \"float32\"?); "
      "allowed: float32, tf32, float16, bfloat16, float64, float8, fp8-block, mxfp8, nvfp4");
}

TEST(TopologyJson, NamesWhatIsMissingOrCutOff) {
  EXPECT_EQ(refused_file(",\n  \"network\": {\"bandwidth\": \"100 Gb/s\", \"latency\": \"2 us\"}", ""),
            "lab.json: /: topology \"lab\": \"node0.gpu0\" can't reach \"node1.gpu0\": no chain of links "
            "joins them");
  EXPECT_EQ(refused_file("\"nics\": [\"nic\"],", "\"switches\": [\"nic\"],").find("lab.json: "), 0u);
  EXPECT_EQ(refused_file("\"of\": \"server\"}", "\"of\": \"server\"}, \"links\": []"), "accepted");
  EXPECT_EQ(refused_file("\"switches\": [\"pcie\"],\n      \"nics\": [\"nic\"]",
                         "\"switches\": [\"pcie\", \"nic\"]"),
            "lab.json: /network: node \"node0\" has no NIC to connect to the network");
  EXPECT_EQ(refused_file("\"name\": \"lab\",", ""), "lab.json: /: \"name\" is missing");
  EXPECT_EQ(refused_file(", \"latency\": \"2 us\"", ""), "lab.json: /network: \"latency\" is missing");
  EXPECT_EQ(refused_file("{\"count\": 2, \"of\": \"server\"}", "[]"),
            "lab.json: /nodes: found no devices in any node, at least one is needed");
  EXPECT_EQ(refused_file("\"nodes\"", "\"device\": \"H200\", \"nodes\""),
            "lab.json: /device: \"device\" goes with \"levels\", which is missing");
}

TEST(TopologyJson, EveryDeviceKindIsWhole) {
  EXPECT_EQ(built_in_device_kinds().size(), 39u);
  for (const DeviceKind& kind : built_in_device_kinds()) {
    EXPECT_TRUE(kind.peak.contains(DataType::Float32)) << kind.name;
    ASSERT_FALSE(kind.products.efficiency.empty()) << kind.name;
    EXPECT_GT(kind.products.efficiency.back().fraction, 0.45) << kind.name;
    EXPECT_LE(kind.products.efficiency.back().fraction, 1) << kind.name;
    EXPECT_EQ(find_built_in_device_kind(kind.name), &kind);
  }
  EXPECT_EQ(find_built_in_device_kind("V200"), nullptr);
}

// Dense peaks of datasheets, which count with sparsity twice; the third root of 350 of 700 W is 0.794.
TEST(TopologyJson, FiguresOfDeviceKindsAreTheDatasheets) {
  const auto figures = [](const char* name) {
    const DeviceKind& kind = *find_built_in_device_kind(name);
    return std::tuple(kind.peak.at(DataType::BFloat16).value / 1e12,
                      kind.peak.contains(DataType::Float8) ? kind.peak.at(DataType::Float8).value / 1e12 : 0,
                      static_cast<double>(kind.memory.value) / 1e9, kind.memory_bandwidth.value / 1e9);
  };
  EXPECT_EQ(figures("H100-PCIe"), std::tuple(756, 1513, 80, 2000));
  EXPECT_EQ(figures("H20"), std::tuple(148, 296, 96, 4000));
  EXPECT_EQ(figures("L4"), std::tuple(121, 242.5, 24, 300));
  EXPECT_EQ(figures("GB300"), std::tuple(2500, 5000, 279, 8000));
  EXPECT_EQ(figures("MI300X"), std::tuple(1307.4, 2614.9, 192, 5300));
  EXPECT_EQ(figures("MI250X"), std::tuple(191.5, 0, 64, 1638.4));
  EXPECT_EQ(figures("TPU-v5p"), std::tuple(459, 0, 95, 2765));
  EXPECT_NEAR(find_built_in_device_kind("H100-PCIe")->products.sustained, 0.8 * 0.794, 1e-3);
  EXPECT_FALSE(find_built_in_device_kind("MI60")->fuses_attention());
  EXPECT_TRUE(find_built_in_device_kind("MI300X")->fuses_attention());
}

// A figure counts as measured only where the text says by whom.
TEST(TopologyJson, EveryDeviceKindSaysWhatItsFiguresRestOn) {
  for (const DeviceKind& kind : built_in_device_kinds()) {
    EXPECT_THAT(kind.source,
                MatchesRegex("datasheet: peak rates, memory and its bandwidth, (NVIDIA|AMD|Google) .+; "
                             "measured by others: (nothing|.+(arXiv:|aiconfigurator|ml-engineering).*); "
                             "estimated: .+"))
        << kind.name;
    EXPECT_THAT(kind.source, HasSubstr("launch overhead")) << kind.name;
    // How much of the peak and of the memory's bandwidth is reached.
    EXPECT_THAT(kind.source,
                HasSubstr(fmt::format("{:g} of peak", kind.products.efficiency.back().fraction)));
    const double memory = kind.memory_efficiency, full = kind.memory_bandwidth.value / 1e9;
    EXPECT_THAT(kind.source, AnyOf(HasSubstr(fmt::format("{:g} of memory bandwidth", memory)),
                                   HasSubstr(fmt::format("of {:g} GB/s", full))));
  }
  for (const TopologyPreset& preset : topology_presets()) {
    EXPECT_FALSE(preset.source.empty()) << preset.name;
    const Topology topology = make_topology(preset.name);
    for (const DeviceKind& kind : topology.parts().kinds)
      EXPECT_THAT(kind.source, AnyOf(StartsWith("datasheet: "), StartsWith("estimated: "))) << kind.name;
  }
  EXPECT_THAT(cpu_topology(2).parts().kinds[0].source, StartsWith("estimated: "));
}

}  // namespace
}  // namespace pipesim
