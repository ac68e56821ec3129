#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "sim/base/files.h"
#include "sim/base/rng.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "topologies/device_kinds.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/files/topology_json.h"
#include "topologies/gpu_share.h"
#include "topologies/presets/cpu.h"
#include "topologies/presets/presets.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

std::ptrdiff_t line_count(const std::string& text) { return std::ranges::count(text, '\n'); }

void expect_round_trip(const Topology& t) {
  const std::string text = to_compact_json(t);
  const Topology back = parse_topology(text, "compact");
  EXPECT_TRUE(back == t) << text;
  EXPECT_EQ(back.fingerprint(), t.fingerprint());
  EXPECT_EQ(to_json(back), to_json(t)) << "names and sources, too";
  EXPECT_LE(line_count(text), line_count(to_json(t)));
}

TEST(CompactTopology, ReadsBackToEveryPreset) {
  for (const TopologyPreset& preset : topology_presets()) {
    for (const std::int64_t nodes : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, preset.default_nodes,
                                     std::int64_t{11}, std::int64_t{20}}) {
      SCOPED_TRACE(fmt::format("{}:{}", preset.name, nodes));
      const Topology t = preset_topology(preset, nodes);
      expect_round_trip(t);
      if (nodes > 2) {
        EXPECT_LT(line_count(to_compact_json(t)), 90);
      }
    }
  }
}

TEST(CompactTopology, ReadsBackToLevelsHostsAndPartsOfGpus) {
  for (const char* text :
       {"levels:4@10GB/s", "levels:1@10GB/s,8@1GB/s", "levels:4@10GB/s@1us,2@1.25GB/s,3@1GB/s",
        "levels:2@10GB/s,2@1GB/s,2@0.5GB/s,2@0.1GB/s@20us", "cpu", "cpu:1", "cpu:64"}) {
    SCOPED_TRACE(text);
    expect_round_trip(make_topology(text));
    EXPECT_LT(line_count(to_compact_json(make_topology(text))), 30);
  }
  expect_round_trip(divided_gpu("parts", *find_built_in_device_kind("H200"), {8, 16, 132}));
  EXPECT_LT(
      line_count(to_compact_json(divided_gpu("parts", *find_built_in_device_kind("H200"), {8, 16, 132}))),
      33);
}

TEST(CompactTopology, ReadsBackToFilesAndImports) {
  const std::string fixtures = PIPESIM_SOURCE_DIR "/tests/topologies/fixtures/";
  expect_round_trip(make_topology(fixtures + "two_generations.json"));
  for (const char* dump : {"nccl_a100_pairs.xml", "nccl_h200_quarter.xml"}) {
    NcclImport import;
    import.name = dump;
    import.source = dump;
    for (const std::int64_t copies : {1, 2, 5}) {
      import.copies = copies;
      expect_round_trip(topology_of(parse_nccl_dump(read_file(fixtures + dump), dump), import).topology);
    }
  }
}

TEST(CompactTopology, IsWhatAPersonWouldWrite) {
  EXPECT_EQ(to_compact_json(make_topology("dgx-a100:8")), R"({
  "pipesim_topology": 1,
  "name": "dgx-a100:8",
  "source": "NVIDIA DGX A100 datasheet; NVIDIA/nccl#1505",
  "core_switches": ["network"],
  "node_kinds": {
    "node": {
      "devices": {"count": 8, "kind": "A100-80GB"},
      "switches": ["nvswitch"],
      "nics": ["nic0", "nic1", "nic2", "nic3", "nic4", "nic5", "nic6", "nic7"],
      "links": [
        {"between": ["gpu*", "nvswitch"], "bandwidth": "230 GB/s", "latency": "500 ns"},
        {
          "count": 8,
          "links": [
            {"between": ["gpu#", "nic#"], "bandwidth": "24 GB/s", "latency": "500 ns"},
            {"between": ["nic#", "network"], "bandwidth": "24 GB/s", "latency": "1.35 us"}
          ]
        }
      ]
    }
  },
  "nodes": {"count": 8, "of": "node"}
}
)");
  EXPECT_EQ(line_count(to_json(make_topology("dgx-a100:8"))), 344);
  EXPECT_EQ(to_compact_json(make_topology("levels:4@10GB/s,2@1.25GB/s@5us")), R"({
  "pipesim_topology": 1,
  "name": "levels:4@10GB/s,2@1.25GB/s@5us",
  "source": "a plain hierarchy; devices are taken to be V100-SXM2-16GB",
  "levels": [{"size": 4, "bandwidth": "10 GB/s"}, {"size": 2, "bandwidth": "1.25 GB/s", "latency": "5 us"}]
}
)");
}

// Nodes of a few bodies, in random order and with random links: whatever the short forms can't say is spelled
// out, and always the same topology is read.
TEST(CompactTopology, ReadsBackToRandomTopologies) {
  int shorter = 0;
  for_each_seed(200, [&](Rng& rng) {
    TopologyDraft draft("random", rng.below(2) ? "a source" : "");
    DeviceKind own = *find_built_in_device_kind("K80");
    if (rng.below(2)) own.name = "own \"kind\"";
    own.overlap = rng.below(2) != 0;
    own.shape_losses = rng.below(2) != 0;
    if (rng.below(2)) own.fused_attention = {0.5, 0.25};
    if (own.fused_attention && own.overlap) own.flash_attention_2 = {0.4, 0.2};  // not drawn, as seeds are
    if (own.shape_losses && own.overlap) own.products.sustained = 0.875;
    if (own.flash_attention_2) {
      own.fused_attention->half_rate_keys = 400, own.flash_attention_2->half_rate_rows = 30000;
      own.peak[DataType::MxFloat8] = FlopsPerSecond(1e15);
      own.product_rates[DataType::MxFloat8] = {{{Flops(1e10), 0.25}, {Flops(1e11), 0.5}}, 0.75};
    }
    if (rng.below(2)) own.products.efficiency = {{Flops(1e6), 0.25}, {Flops(1e9), 0.5}};
    std::vector<std::int32_t> kinds{draft.kind(own), draft.kind(*find_built_in_device_kind("H200"))};
    const auto cable = [&] {
      return Cable{BytesPerSecond(1e9 * static_cast<double>(1 + rng.below(3))),
                   Seconds(static_cast<double>(rng.below(2)) * 1e-6), rng.below(8) != 0};
    };
    const Cable usual = cable();
    std::vector<DraftVertex> joined;
    const bool core_first = rng.below(2);
    const bool spread = rng.below(4) == 0;  // links to the core among those of nodes
    DraftVertex core;
    if (core_first) core = draft.add_switch("core");
    const std::uint64_t nodes = 1 + rng.below(12), shapes = 1 + rng.below(2);
    for (std::uint64_t n = 0; n < nodes; ++n) {
      const std::uint64_t shape = rng.below(shapes);
      const std::string name = rng.below(12) == 0 ? fmt::format("odd{}", n) : fmt::format("node{}", n);
      const std::string prefix = rng.below(12) == 0 ? fmt::format("p{}-", n) : name + ".";
      const std::int32_t node = draft.add_node(name);
      const bool bus = shape == 1 && rng.below(3) == 0;
      const DraftVertex hub =
          bus ? draft.add_bus(prefix + "hub", node) : draft.add_switch(prefix + "hub", node);
      std::vector<DraftVertex> gpus;
      for (std::uint64_t g = 0; g < 2 + 2 * shape; ++g) {
        gpus.push_back(draft.add_device(fmt::format("{}gpu{}", prefix, g), kinds[shape], node));
        draft.connect(gpus.back(), hub, bus ? Cable{BytesPerSecond(1e9), Seconds(0), false} : usual);
      }
      if (rng.below(4) == 0) draft.connect(gpus[0], gpus[1], cable());
      if (spread && rng.below(3) != 0) draft.add_switch(prefix + "between", node), joined.push_back(hub);
      const DraftVertex nic = draft.add_nic(prefix + "nic0", node);
      draft.connect(bus ? gpus[0] : hub, nic, usual);
      if (core_first) {
        draft.connect(nic, core, rng.below(10) == 0 ? cable() : usual);
      } else {
        joined.push_back(nic);
      }
      if (rng.below(30) == 0 && n > 0) draft.connect(gpus[0], gpus[1], usual);
    }
    if (!core_first) {
      core = draft.add_switch(rng.below(2) ? "network" : "spine");
      for (const DraftVertex v : joined) draft.connect(v, core, rng.below(10) == 0 ? cable() : usual);
    }
    TopologyParts parts = std::move(draft).finish();
    try {
      const Topology t(parts);
      expect_round_trip(t);
      shorter += line_count(to_compact_json(t)) < line_count(to_json(t));
    } catch (const InputError& error) {
      // A switch that nothing is linked to, or a bus with links of unlike rates.
      EXPECT_THAT(error.what(), testing::StartsWith("topology \"random\": ")) << error.what();
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(shorter, sanitized ? 15 : 60);
}

// What the short form adds to the format, and how its mistakes are told.
const char* const kRails = R"({"pipesim_topology": 1, "name": "rails", "core_switches": ["spine"],
  "node_kinds": {"box": {"devices": {"count": 2, "kind": "H200"}, "nics": ["nic0", "nic1"],
    "links": [{"count": 2, "links": [
      {"between": ["gpu#", "nic#"], "bandwidth": "48 GB/s", "latency": "1 us"},
      {"between": ["nic#", "spine"], "bandwidth": "48 GB/s", "latency": "1 us"}]}]}},
  "nodes": {"count": 2, "of": "box"}})";

std::string refused_rails(std::string_view what, std::string_view by) {
  std::string text = kRails;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), by);
  return refusal([&] { (void)parse_topology(text, "rails.json"); });
}

TEST(CompactTopology, RepeatsLinksByNumber) {
  const Topology t = parse_topology(kRails, "rails.json");
  ASSERT_EQ(t.parts().links.size(), 8U);
  EXPECT_EQ(t.lane_name(t.parts().links[2].forward), "node0.gpu1 -> node0.nic1");
  EXPECT_EQ(t.lane_name(t.parts().links[7].forward), "node1.nic1 -> spine");
}

TEST(CompactTopology, GivesNamesOfASingleNodeWithoutPrefixUnlessTheyHaveOne) {
  const Topology t = parse_topology(R"({"pipesim_topology": 1, "name": "host", "nodes": {"name": "here",
    "devices": {"count": 2, "kind": "H200"}, "vertices": [{"name": "memory", "kind": "bus"}],
    "links": [{"between": ["gpu*", "memory"], "bandwidth": "5 GB/s", "latency": "1 us", "duplex": false}]}})",
                                    "host.json");
  EXPECT_EQ(t.device(DeviceId(1)).name, "gpu1");
  EXPECT_EQ(t.parts().vertices[2], (Vertex{"memory", VertexKind::Bus, 0}));
  const Topology prefixed =
      parse_topology(R"({"pipesim_topology": 1, "name": "host", "nodes": {"name": "here",
    "prefix": "here.", "devices": {"count": 2, "kind": "H200"}, "links": [{"between": ["gpu0", "gpu1"],
    "bandwidth": "5 GB/s", "latency": "1 us"}]}})",
                     "host.json");
  EXPECT_EQ(prefixed.device(DeviceId(1)).name, "here.gpu1");
  EXPECT_EQ(parse_topology(to_compact_json(prefixed), "again.json"), prefixed);
}

TEST(CompactTopology, RefusesBadRepetition) {
  EXPECT_EQ(refused_rails("\"count\": 2, \"links\"", "\"count\": 3, \"links\""),
            "rails.json: /node_kinds/box/links/0/links/0/between/0: unknown vertex \"gpu2\" (did you mean "
            "\"gpu0\"?); there are gpu0, gpu1, nic0, nic1");
  EXPECT_EQ(refused_rails("\"count\": 2, \"links\"", "\"count\": 0, \"links\""),
            "rails.json: /node_kinds/box/links/0/count: found 0, an integer from 1 to 1000000 is needed");
  EXPECT_EQ(refused_rails("{\"count\": 2, \"links\": [", "{\"count\": 2, \"links\": [], \"link\": ["),
            "rails.json: /node_kinds/box/links/0/link: unknown key \"link\" (did you mean \"links\"?); "
            "allowed: count, links");
  EXPECT_EQ(
      refused_rails("{\"between\": [\"gpu#\", \"nic#\"], \"bandwidth\": \"48 GB/s\", \"latency\": \"1 us\"}",
                    "{\"count\": 2, \"links\": []}"),
      "rails.json: /node_kinds/box/links/0/links/0/count: unknown key \"count\"; allowed: between, "
      "bandwidth, latency, duplex");
  EXPECT_EQ(refused_rails("\"spine\"],\n", "\"spine\", \"spine\"],\n"),
            "rails.json: /core_switches/1: two vertices are called \"spine\"");
}

}  // namespace
}  // namespace pipesim
