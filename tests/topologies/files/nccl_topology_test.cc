#include "topologies/files/nccl_topology.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/rng.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/topologies/files/link_rate.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string fixture(const std::string& name) {
  return read_file(std::string(PIPESIM_SOURCE_DIR) + "/tests/topologies/fixtures/" + name);
}

ImportedTopology imported(const std::string& text, std::int64_t copies = 1) {
  return topology_of(parse_nccl_dump(text, "node.xml"), {"node", "node.xml", copies, {}});
}

// Rates as the preset of such servers has them.
TEST(NcclTopology, HasSwitchesOfNvlinksBridgesAndSockets) {
  const ImportedTopology result = imported(fixture("nccl_h200_quarter.xml"));
  const Topology& t = result.topology;
  EXPECT_THAT(result.notes, IsEmpty());
  ASSERT_EQ(t.num_devices(), 2U);
  EXPECT_EQ(t.num_nodes(), 1U);
  EXPECT_EQ(t.device(DeviceId(0)).name, "gpu0");
  EXPECT_EQ(t.kind(DeviceId(1)).name, "H200");
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "nvswitch"), 18 * 20.6);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu1", "nvswitch"), 18 * 20.6);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "pcie0"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "pcie1", "cpu1"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "cpu0", "cpu1"), 40);
  EXPECT_EQ(t.parts().links.size(), 7U);  // NICs of a single host lead nowhere
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(1)).lanes.size(), 2U);
}

TEST(NcclTopology, OfSeveralHostsHasTheirNicsOnOneNetwork) {
  const Topology t = imported(fixture("nccl_h200_quarter.xml"), 3).topology;
  EXPECT_EQ(t.num_devices(), 6U);
  EXPECT_EQ(t.num_nodes(), 3U);
  EXPECT_EQ(t.device(DeviceId(5)).name, "node2.gpu1");
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node1.nic1", "network"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node1.pcie1", "node1.nic1"), 48);
  const Route route = t.route(DeviceId(0), DeviceId(2));
  EXPECT_EQ(route.lanes.size(), 6U);
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 48e9);
}

TEST(NcclTopology, OfHostsThatAreNamedApartKeepsThemApart) {
  std::string text = fixture("nccl_h200_quarter.xml");
  text.replace(text.rfind("0x16fe"), 6, "0x26fe");
  const ImportedTopology result = imported(text);
  EXPECT_EQ(result.topology.num_nodes(), 2U);
  EXPECT_EQ(result.topology.device(DeviceId(1)).name, "node1.gpu1");
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node1.gpu1", "node1.nvswitch"), 18 * 20.6);
  EXPECT_THAT(result.notes, ElementsAre("NVSwitches of different hosts are taken to be apart; "
                                        "--nvlink-domain joined joins them"));
}

TEST(NcclTopology, ConnectsPairsOnceAndSaysWhatItAssumes) {
  const ImportedTopology result = imported(fixture("nccl_a100_pairs.xml"), 2);
  const Topology& t = result.topology;
  EXPECT_THAT(
      result.notes,
      ElementsAre("line 19: GPU 0003:00:00.0 has no NVLinks, though 2 others of its host do; it is "
                  "reached over PCIe",
                  "links of PCIe whose speed or width is not told count as PCIe 3.0 and as 16 lanes"));
  EXPECT_EQ(t.device(DeviceId(0)).name, "node0.gpu0");
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu0", "node0.gpu1"), 12 * 20);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu0", "node0.cpu0"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu2", "node0.cpu1"), 12);  // 8 lanes of 4.0
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.cpu0", "node0.cpu1"), 24);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.nic0", "network"), 12);
  EXPECT_EQ(gigabytes_between(t, "node0.nic1", "network"), 0);
  for (const Link& link : t.parts().links) {
    const auto is_network = [&](std::int32_t v) {
      return t.parts().vertices[static_cast<std::size_t>(v)].name == "network";
    };
    if (is_network(link.a) || is_network(link.b)) {
      EXPECT_DOUBLE_EQ(link.latency.value, 37.5e-6);
    }
  }
}

TEST(NcclTopology, TakesTheKindThatIsGiven) {
  const NcclImport import{"node", "node.xml", 1, *find_built_in_device_kind("A100-40GB")};
  const Topology t =
      topology_of(parse_nccl_dump(fixture("nccl_a100_pairs.xml"), "node.xml"), import).topology;
  EXPECT_EQ(t.kind(DeviceId(2)).name, "A100-40GB");
}

TEST(NcclTopology, RefusesWhatIsNone) {
  const auto said = [](const std::string& text) { return refusal([&] { imported(text); }); };
  EXPECT_EQ(
      said("<topology><object/></topology>"),
      "node.xml:1: found <topology>, allowed: <system>; NCCL writes it where NCCL_TOPO_DUMP_FILE names a "
      "file");
  EXPECT_THAT(said("\n\n{}"), HasSubstr("node.xml:3: found no XML ("));
  EXPECT_THAT(said("<system><cpu>\n<pci busid=\"a\"></system>"), HasSubstr("node.xml:2: found no XML ("));
  EXPECT_THAT(said("<system version=\"1\"/>"), HasSubstr("node.xml:1: found no <cpu> in <system>"));
  EXPECT_EQ(said("<system><cpu><pci busid=\"0000:00:16.0\"/></cpu></system>"),
            "node.xml:1: found no GPU; where a file names bridges and NICs alone, NCCL finds the GPUs on the "
            "machine, and writes them where NCCL_TOPO_DUMP_FILE names a file");
  EXPECT_THAT(said("<system>\n<cpu>\n<gpu dev=\"0\"/></cpu></system>"),
              HasSubstr("node.xml:3: found <gpu> in <cpu>, allowed: in <pci>"));
  EXPECT_EQ(said("<system><cpu><pci/></cpu></system>"), "node.xml:1: <pci> has no busid");
  std::string text = fixture("nccl_a100_pairs.xml");
  const auto with = [&](const std::string& found, const std::string& instead) {
    std::string changed = text;
    changed.replace(changed.find(found), found.size(), instead);
    return said(changed);
  };
  EXPECT_EQ(with("count=\"12\"", "count=\"0\""), "node.xml:5: <nvlink> has count=\"0\", allowed: 1 to 1000");
  EXPECT_EQ(with("count=\"12\"", "count=\"11\""),
            "node.xml:5: 11 NVLinks between 0002:00:00.0 and 0001:00:00.0, which were 12 from the other end");
  EXPECT_EQ(with("sm=\"80\"", "sm=\"many\""),
            "node.xml:4: <gpu> has sm=\"many\", allowed: whole numbers up to 999");
  const NcclImport own{"node", "node.xml", 1, DeviceKind(*find_built_in_device_kind("K80"))};
  std::string unknown = text;
  for (const std::string& left_out : {std::string(" sm=\"80\""), std::string("device=\"0x20b5\"")})
    unknown.erase(unknown.find(left_out), left_out.size());
  EXPECT_EQ(refusal([&] { topology_of(parse_nccl_dump(unknown, "node.xml"), own); }), "accepted");
  EXPECT_EQ(
      with("<gpu dev=\"0\"", "<gpu dev=\"5\"/><gpu dev=\"0\""),
      "node.xml:9: 0001:00:00.0 has a second <gpu>, allowed: one; two ranks or two parts of a GPU are no "
      "two devices");
  EXPECT_EQ(with("busid=\"0002:00:00.0\"", "busid=\"0001:00:00.0\""),
            "node.xml:3: busid 0001:00:00.0 was found before");
  EXPECT_THAT(with("0x20b5", "0xffff"),
              HasSubstr("node.xml:3: GPU 0002:00:00.0 has the unknown PCI device id 0xffff; its kind"));
  text = fixture("nccl_h200_quarter.xml");
  for (int nic = 0; nic < 2; ++nic) {
    text.erase(text.find("<nic>"), text.find("</nic>") + 6 - text.find("<nic>"));
    text.replace(text.find("class=\"0x020000\""), 16, "class=\"0x010000\"");
  }
  EXPECT_EQ(refusal([&] { imported(text, 4); }), "node.xml:1: found no <net>, and 4 hosts need a network");
}

TEST(NcclTopology, RefusesEndlessBridges) {
  std::string text = "<system><cpu>";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\n<pci busid=\"{}\">", i);
  for (int i = 0; i < 100'000; ++i) text += "</pci>";
  EXPECT_EQ(refusal([&] { imported(text + "</cpu></system>"); }),
            "node.xml:66: <pci> stands in 64 others, allowed: up to 63");
}

TEST(NcclTopology, RefusesFiguresThatAddUpToTooMuch) {
  const auto said = [](const std::string& text, std::int64_t copies = 1) {
    return refusal([&] { imported(text, copies); });
  };
  const auto with = [&](const std::string& found, const std::string& instead) {
    std::string text = fixture("nccl_a100_pairs.xml");
    return said(text.replace(text.find(found), found.size(), instead), 2);
  };
  EXPECT_EQ(
      with("speed=\"100000\"", "speed=\"9\""),
      "node.xml:14: <net> has speed=\"9\", allowed: 10 to 10000000 Mbit/s, or the same in kbit/s or bit/s");
  for (const std::string latency : {"-1", "1e7", "nan", "inf"})
    EXPECT_EQ(with("latency=\"75\"", "latency=\"" + latency + "\""),
              "node.xml:14: <net> has latency=\"" + latency + "\", allowed: 0 to 1000000 us");
  EXPECT_EQ(with("<nvlink", "<c2c count=\"1000\" bw=\"10000000\"/><nvlink"),
            "node.xml:5: <c2c> makes 1e+07 GB/s, allowed: up to 100000");
  EXPECT_EQ(said(fixture("nccl_h200_quarter.xml"), 50'001),
            "node.xml:1: found 2 GPUs, 50001 times; allowed: up to 100000 in all");
  const auto with_cpus = [&](int number) {
    std::string text = fixture("nccl_a100_pairs.xml"), cpus;
    for (int i = 0; i < number; ++i) cpus += "<cpu/>\n";
    return said(text.insert(text.rfind("</system>"), cpus));
  };
  EXPECT_EQ(with_cpus(254), "accepted");
  EXPECT_EQ(with_cpus(255), "node.xml:1: a host has 257 <cpu>, allowed: up to 256");
  EXPECT_EQ(with_cpus(9'999), "node.xml:10021: found one more <cpu>, allowed: up to 10000");
}

// The ends of a tag.
std::pair<std::size_t, std::size_t> any_tag(const std::string& text, Rng& rng) {
  const std::size_t open = std::min(text.find('<', rng.below(text.size())), text.rfind('<'));
  if (open == std::string::npos) return {0, 0};
  const std::size_t close = text.find('>', open);
  return {open, close == std::string::npos ? text.size() : close + 1};
}

void swap_two_tags(std::string& text, Rng& rng) {
  auto one = any_tag(text, rng), other = any_tag(text, rng);
  if (one.first > other.first) std::swap(one, other);
  if (one.second > other.first) return;
  const std::string first = text.substr(one.first, one.second - one.first);
  const std::string second = text.substr(other.first, other.second - other.first);
  text.replace(other.first, second.size(), first);
  text.replace(one.first, first.size(), second);
}

void replace_a_value(std::string& text, Rng& rng) {
  const std::array<std::string, 16> values{"",
                                           "0",
                                           "-1",
                                           "-2",
                                           "1",
                                           "3",
                                           "1e9",
                                           "9223372036854775808",
                                           "0xffffffffffffffff",
                                           "0x",
                                           "nan",
                                           "inf",
                                           "64",
                                           "0x20b5",
                                           "*",
                                           std::string(300, 'a')};
  const std::size_t open = text.find("=\"", rng.below(text.size()));
  if (open == std::string::npos) return;
  const std::size_t close = text.find('"', open + 2);
  if (close != std::string::npos) text.replace(open + 2, close - open - 2, values[rng.below(values.size())]);
}

void mutate(std::string& text, Rng& rng) {
  if (text.empty()) return;
  const std::size_t at = rng.below(text.size()), length = 1 + rng.below(20);
  switch (rng.below(8)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, text.substr(rng.below(text.size()), length));
      break;
    case 2:
      text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << rng.below(8)));
      break;
    case 3:
      if (rng.below(4) == 0) text.resize(at);
      break;
    case 4:
      swap_two_tags(text, rng);
      break;
    case 5:
    case 6:
      replace_a_value(text, rng);
      break;
    default:
      text[at] = "0123456789<>\"/= xg\n"[rng.below(19)];
  }
}

// A topology that can be written and read, or one clear message with file and line.
TEST(NcclTopology, SurvivesAThousandMutations) {
  const std::array<std::string, 5> dumps{fixture("nccl_h200_quarter.xml"), fixture("nccl_a100_pairs.xml"),
                                         fixture("nccl_cloud_a100.xml"), fixture("nccl_two_trays.xml"),
                                         fixture("rccl_mi300x_half.xml")};
  int topologies = 0, refused = 0;
  // Under sanitizers, too: what a file makes the reader do is what they watch for.
  constexpr std::uint64_t quarters = sanitized ? 4 : 1;
  for_each_seed(quarters * 1'000, [&](Rng& rng) {
    std::string text = dumps[rng.below(dumps.size())];
    for (std::uint64_t i = 0, n = 1 + rng.below(3); i < n; ++i) mutate(text, rng);
    try {
      const Topology t = imported(text, static_cast<std::int64_t>(1 + rng.below(2))).topology;
      EXPECT_EQ(parse_topology(to_json(t), "node.json"), t);
      ++topologies;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::MatchesRegex("node\\.xml:[0-9]+: [^\n]+")) << text;
      ++refused;
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(topologies, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace pipesim
