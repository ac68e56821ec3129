#include "topologies/files/nccl_completion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/topologies/files/link_rate.h"
#include "topologies/device_kinds.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string completion_fixture(const std::string& name) {
  return read_file(std::string(PIPESIM_SOURCE_DIR) + "/tests/topologies/fixtures/" + name);
}

struct Asked {
  std::int64_t copies = 1;
  std::string kind = {};
  NvlinkDomain domain = NvlinkDomain::Auto;
};

ImportedTopology completed(const std::string& text, const Asked& asked = {}) {
  NcclImport import{"node", "node.xml", asked.copies, {}};
  if (!asked.kind.empty()) import.kind = *find_built_in_device_kind(asked.kind);
  import.domain = asked.domain;
  return topology_of(parse_nccl_dump(text, "node.xml"), import);
}

std::string refused_import(const std::string& text, const Asked& asked = {}) {
  return refusal([&] { completed(text, asked); });
}

// GPUs and NICs below one processor, by their PCI ids.
std::string cloud_file(int gpus, const std::string& gpu_ids, int nics = 0, const std::string& nic_ids = "",
                       const std::string& speed = "16 GT/s") {
  std::string text =
      "<system version=\"1\">\n"
      "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n";
  for (int i = 0; i < gpus; ++i)
    text += fmt::format(
        "<pci busid=\"0000:{:02x}:00.0\" class=\"0x030200\" {} link_speed=\"{}\" link_width=\"16\"/>\n",
        16 + i, gpu_ids, speed);
  for (int i = 0; i < nics; ++i)
    text += fmt::format(
        "<pci busid=\"0000:{:02x}:00.0\" class=\"0x020000\" {} link_speed=\"{}\" link_width=\"16\"/>\n",
        64 + i, nic_ids, speed);
  return text + "</cpu>\n</system>\n";
}

std::string changed(std::string text, const std::string& found, const std::string& instead) {
  return text.replace(text.find(found), found.size(), instead);
}

// 12 · 20 GB/s to NVSwitches, NICs of 100 Gbit/s: 12 GB/s.
TEST(NcclCompletion, AddsNvswitchesAndNicsByPciIds) {
  const ImportedTopology result = completed(completion_fixture("nccl_cloud_a100.xml"), {2});
  const Topology& t = result.topology;
  ASSERT_EQ(t.num_devices(), 8U);
  EXPECT_EQ(t.kind(DeviceId(0)).name, "A100-40GB");
  for (int gpu = 0; gpu < 4; ++gpu)
    EXPECT_DOUBLE_EQ(gigabytes_between(t, fmt::format("node1.gpu{}", gpu), "node1.nvswitch"), 240);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.nic0", "network"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node1.nic1", "network"), 12);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(3)).lanes.size(), 2U);
  EXPECT_DOUBLE_EQ(t.route(DeviceId(0), DeviceId(4)).latency.value,
                   75e-6 + 4 * 0.5e-6);  // as the plugin tells
  EXPECT_THAT(
      result.notes,
      ElementsAre(
          "added, as NCCL finds them on the machine: 12 NVLinks to NVSwitches from each of 4 GPUs of "
          "A100-40GB (NVIDIA A100-SXM4-40GB); boards of four without NVSwitch have them between every two",
          "added by their PCI ids: 2 NICs of 100 Gbit/s (Elastic Fabric Adapter); they count with "
          "--nodes"));
}

TEST(NcclCompletion, KnowsGenerationsApart) {
  const auto to_switch = [](const std::string& device) {
    const std::string ids = fmt::format("vendor=\"0x10de\" device=\"{}\"", device);
    return gigabytes_between(completed(cloud_file(8, ids)).topology, "gpu7", "nvswitch");
  };
  EXPECT_DOUBLE_EQ(to_switch("0x20b2"), 12 * 20);    // A100
  EXPECT_DOUBLE_EQ(to_switch("0x20f3"), 8 * 20);     // A800
  EXPECT_DOUBLE_EQ(to_switch("0x2330"), 18 * 20.6);  // H100
  EXPECT_DOUBLE_EQ(to_switch("0x2324"), 8 * 20.6);   // H800
  EXPECT_DOUBLE_EQ(to_switch("0x2901"), 18 * 40.1);  // B200
  EXPECT_DOUBLE_EQ(to_switch("0x26b9"), 0);          // L40S
  const ImportedTopology cards = completed(cloud_file(2, "vendor=\"0x10de\" device=\"0x2331\""));
  EXPECT_THAT(cards.notes, Contains("no links are added between 2 GPUs of H100-PCIe: whether bridges are "
                                    "mounted is not known"));
}

// Two links of 20 GB/s between the first and the fourth, one between the first and the second.
TEST(NcclCompletion, WiresVoltaAsInADgx1) {
  const std::string ids = "vendor=\"0x10de\" device=\"0x1db5\"";
  const ImportedTopology eight = completed(cloud_file(8, ids));
  EXPECT_DOUBLE_EQ(gigabytes_between(eight.topology, "gpu0", "gpu3"), 40);
  EXPECT_DOUBLE_EQ(gigabytes_between(eight.topology, "gpu0", "gpu1"), 20);
  EXPECT_DOUBLE_EQ(gigabytes_between(eight.topology, "gpu0", "gpu4"), 40);
  EXPECT_DOUBLE_EQ(gigabytes_between(eight.topology, "gpu0", "gpu5"), 0);
  EXPECT_THAT(eight.notes, Contains(HasSubstr("in the order of the file, which is a guess")));
  const ImportedTopology three = completed(cloud_file(3, ids));
  EXPECT_DOUBLE_EQ(gigabytes_between(three.topology, "gpu0", "gpu1"), 0);
  EXPECT_THAT(three.notes,
              Contains("no NVLinks are added between 3 GPUs of V100-SXM2-32GB: of a DGX-1, 4 or 8 "
                       "are known"));
}

TEST(NcclCompletion, GuessesNicsOfUnknownIdsByTheirLanes) {
  const std::string h100 = "vendor=\"0x10de\" device=\"0x2330\"";
  const auto rate = [&](const std::string& ids, const std::string& speed) {
    const ImportedTopology result = completed(cloud_file(2, h100, 1, ids, speed), {2});
    EXPECT_THAT(result.notes,
                Contains(HasSubstr(ids == "" ? "added, a guess: 1 NIC of" : "by their PCI ids")));
    return gigabytes_between(result.topology, "node0.nic0", "network");
  };
  EXPECT_DOUBLE_EQ(rate("", "8 GT/s"), 12);
  EXPECT_DOUBLE_EQ(rate("", "16 GT/s"), 24);
  EXPECT_DOUBLE_EQ(rate("", "32.0 GT/s PCIe"), 48);
  EXPECT_DOUBLE_EQ(rate("vendor=\"0x15b3\" device=\"0x1021\"", "16 GT/s"), 48);
  EXPECT_DOUBLE_EQ(rate("vendor=\"0x15b3\" device=\"0x101b\"", "16 GT/s"), 24);
}

// The files that Azure and Oracle ship have no PCI ids; their addresses tell.
TEST(NcclCompletion, KnowsMachinesByTheirAddresses) {
  const std::string text =
      "<system version=\"1\">\n"
      "  <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"23\" modelid=\"49\">\n"
      "    <pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
      "      <pci busid=\"0003:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
      "      <pci busid=\"0103:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
      "      <pci busid=\"0004:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
      "    </pci>\n"
      "  </cpu>\n"
      "</system>\n";
  const ImportedTopology result = completed(text, {2});
  EXPECT_EQ(result.topology.kind(DeviceId(0)).name, "A100-40GB");
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node0.gpu1", "node0.nvswitch"), 240);
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node0.nic0", "network"), 24);
  EXPECT_THAT(
      result.notes,
      ElementsAre("no PCI ids: by addresses and processor a part of Azure ND A100 v4; GPUs are taken for "
                  "A100-40GB; --device A100-80GB takes them for the others that it has",
                  HasSubstr("12 NVLinks to NVSwitches from each of 2 GPUs of A100-40GB"),
                  "added, a guess: 1 NIC of 200 Gbit/s, as Azure ND A100 v4 has; they count with "
                  "--nodes"));
  EXPECT_EQ(completed(text, {1, "A100-80GB"}).topology.kind(DeviceId(0)).name, "A100-80GB");
  EXPECT_THAT(refused_import(changed(text, "0004:00", "0014:00")),
              HasSubstr("node.xml:4: GPU 0003:00:00.0 has no PCI device id of NVIDIA; its kind must be given "
                        "(--device KIND), one of K80, "));
  EXPECT_THAT(refused_import(changed(text, "modelid=\"49\"", "modelid=\"17\"")), HasSubstr("must be given"));
}

TEST(NcclCompletion, LeavesOutWhatIsNoGpu) {
  std::string text = cloud_file(2, "vendor=\"0x10de\" device=\"0x2330\"");
  text = changed(text, "</cpu>", "<pci busid=\"0000:01:00.0\" class=\"0x030000\" vendor=\"0x1a03\"/></cpu>");
  const ImportedTopology result = completed(text);
  EXPECT_EQ(result.topology.num_devices(), 2U);
  EXPECT_THAT(result.notes,
              Contains("line 5: 0000:01:00.0 is left out: a display controller of vendor 0x1a03"));
  const std::string ena = "vendor=\"0x1d0f\" device=\"0xec20\"";
  EXPECT_THAT(
      completed(cloud_file(1, "vendor=\"0x10de\" device=\"0x2330\"", 1, ena)).notes,
      Contains("line 4: 0000:40:00.0 is left out: Elastic Network Adapter has no RDMA, and serves the host"));
  const std::string dump = completion_fixture("nccl_h200_quarter.xml");
  const ImportedTopology without = completed(changed(dump, "<gpu dev=\"1\"", "<gpu dev=\"-1\""));
  EXPECT_EQ(without.topology.num_devices(), 1U);
  EXPECT_THAT(without.notes, Contains("line 27: GPU 0000:5d:00.0 is left out: its dev is -1, for which NCCL "
                                      "leaves it out"));
}

// A file may lack the class of a device whose ids are known; ids may be written in capitals.
TEST(NcclCompletion, NeedsNoClassWhereIdsAreKnown) {
  std::string text = completion_fixture("nccl_cloud_a100.xml");
  for (const char* left_out : {" class=\"0x030200\"", " class=\"0x020000\""}) {
    while (text.find(left_out) != std::string::npos) text = changed(text, left_out, "");
  }
  text = changed(text, "0x20b0", "0x20B0");
  const std::string no_vendor = changed(completion_fixture("nccl_cloud_a100.xml"), "vendor=\"0x10de\" ", "");
  EXPECT_EQ(completed(no_vendor).topology.kind(DeviceId(0)).name, "A100-40GB");
  EXPECT_THAT(completed(no_vendor).notes,
              Contains("line 5: GPU 0000:11:1c.0 tells no vendor; by its device id it is "
                       "taken for NVIDIA's"));
  const ImportedTopology result = completed(text, {2});
  EXPECT_EQ(result.topology.num_devices(), 8U);
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node1.nic1", "network"), 12);
}

// Broadcom's switches of the fifth generation show a tree, and NCCL counts them as one.
TEST(NcclCompletion, MakesOneOfSwitchesWithTwoLevels) {
  const auto bridge = [](const std::string& bus, const std::string& shown) {
    return fmt::format(
        "<pci busid=\"{}\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" "
        "subsystem_vendor=\"0x1000\" subsystem_device=\"{}\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\">",
        bus, shown);
  };
  const std::string gpu =
      "<pci busid=\"0000:0f:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x26b9\" link_speed=\"32.0 "
      "GT/s "
      "PCIe\" link_width=\"16\"/>";
  const auto links = [&](const std::string& below) {
    const Topology t =
        completed("<system version=\"1\"><cpu arch=\"x86_64\">" + bridge("0000:08:00.0", "0x0072") +
                  bridge("0000:0d:00.0", below) + gpu + "</pci></pci></cpu></system>")
            .topology;
    EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", below == "0x1003" ? "pcie0" : "pcie1"), 48);
    return t.parts().links.size();
  };
  EXPECT_EQ(links("0x1003"), 2U);
  EXPECT_EQ(links("0x2003"), 3U);
}

// 18 · 40.1 GB/s from any GPU of a tray to any of the other.
TEST(NcclCompletion, JoinsTheTraysOfOneNvlinkDomain) {
  const std::string text = completion_fixture("nccl_two_trays.xml");
  const ImportedTopology joined = completed(text);
  const Topology& t = joined.topology;
  EXPECT_EQ(t.num_nodes(), 1U);
  ASSERT_EQ(t.num_devices(), 4U);
  EXPECT_EQ(t.device(DeviceId(3)).name, "gpu3");
  EXPECT_EQ(t.kind(DeviceId(3)).name, "GB200");
  EXPECT_DOUBLE_EQ(t.route(DeviceId(0), DeviceId(3)).bandwidth.value, 721.8e9);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(3)).lanes.size(), 2U);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu2", "cpu1"), 5 * 44.712 + 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "cpu0", "cpu1"), 0);  // of different hosts
  EXPECT_THAT(joined.notes,
              ElementsAre("2 hosts are one NVLink domain and one node, as NCCL joins the hosts of a "
                          "file; --nvlink-domain hosts keeps them apart"));

  const Topology apart = completed(text, {1, "", NvlinkDomain::Hosts}).topology;
  EXPECT_EQ(apart.num_nodes(), 2U);
  EXPECT_DOUBLE_EQ(apart.route(DeviceId(0), DeviceId(3)).bandwidth.value, 48e9);

  const Topology racks = completed(text, {3}).topology;
  EXPECT_EQ(racks.num_nodes(), 3U);
  EXPECT_EQ(racks.num_devices(), 12U);
  EXPECT_DOUBLE_EQ(racks.route(DeviceId(0), DeviceId(2)).bandwidth.value, 721.8e9);
  EXPECT_DOUBLE_EQ(racks.route(DeviceId(0), DeviceId(4)).bandwidth.value, 48e9);
}

// Eighteen trays of an NVL72, of which the file has one.
TEST(NcclCompletion, JoinsTheCopiesOfATrayWhenAsked) {
  const std::string text = completion_fixture("nccl_two_trays.xml");
  const std::size_t second = text.find("  <cpu", text.find("</cpu>"));
  const std::string tray = text.substr(0, second) + "</system>\n";
  const ImportedTopology rack = completed(tray, {18, "", NvlinkDomain::Joined});
  EXPECT_EQ(rack.topology.num_nodes(), 1U);
  EXPECT_EQ(rack.topology.num_devices(), 36U);
  EXPECT_DOUBLE_EQ(rack.topology.route(DeviceId(0), DeviceId(35)).bandwidth.value, 721.8e9);
  EXPECT_DOUBLE_EQ(gigabytes_between(rack.topology, "gpu35", "cpu17"), 5 * 44.712 + 48);
  const ImportedTopology apart = completed(tray, {18});
  EXPECT_EQ(apart.topology.num_nodes(), 18U);
  EXPECT_THAT(apart.notes, ElementsAre("copies of the host are taken to be NVLink domains of their own; "
                                       "--nvlink-domain joined makes them one, as in an NVL72"));
}

TEST(NcclCompletion, JoinsHostsWithSwitchesOfTheirOwnOnlyWhenAsked) {
  const std::string text =
      changed(completion_fixture("nccl_h200_quarter.xml"), "host_hash=\"0x16fe256e956b115c\" numaid=\"1\"",
              "host_hash=\"0x2\" numaid=\"1\"");
  EXPECT_EQ(completed(text).topology.num_nodes(), 2U);
  EXPECT_EQ(completed(text, {1, "", NvlinkDomain::Joined}).topology.num_nodes(), 1U);
  const std::string pairs =
      changed(completion_fixture("nccl_a100_pairs.xml"), "numaid=\"1\"", "host_hash=\"0x2\" numaid=\"1\"");
  EXPECT_EQ(refused_import(pairs, {1, "", NvlinkDomain::Joined}),
            "node.xml:1: --nvlink-domain joined: a host has no NVLinks to NVSwitches, which could join it to "
            "others");
}

TEST(NcclCompletion, SaysWhereNvlinksAreMissing) {
  const std::string text = completion_fixture("nccl_h200_quarter.xml");
  const ImportedTopology missing =
      completed(changed(text, "<nvlink target=\"0000:07:00.0\" count=\"18\" tclass=\"0x068000\"/>", ""));
  EXPECT_DOUBLE_EQ(gigabytes_between(missing.topology, "gpu1", "nvswitch"), 0);
  EXPECT_THAT(missing.notes,
              ElementsAre("line 26: GPU 0000:5d:00.0 has no NVLinks, though 1 other of its host "
                          "does; it is reached over PCIe"));
  const ImportedTopology many = completed(changed(text, "count=\"18\"", "count=\"36\""));
  EXPECT_THAT(many.notes, ElementsAre("line 26: GPU 0000:5d:00.0 has 36 NVLinks, and H200 has 18"));
  const std::string pairs = completion_fixture("nccl_a100_pairs.xml");
  const ImportedTopology one_end =
      completed(changed(pairs, "<nvlink target=\"0002:00:00.0\" count=\"12\" tclass=\"0x030200\"/>", ""));
  EXPECT_DOUBLE_EQ(gigabytes_between(one_end.topology, "gpu0", "gpu1"), 240);
  EXPECT_THAT(one_end.notes,
              Contains("line 5: NVLinks from 0002:00:00.0 to 0001:00:00.0 are told from one end "
                       "only; they count"));
}

// A container with two of a DGX-1's GPUs, and a file in which NVLinks lead back.
TEST(NcclCompletion, LeavesOutNvlinksToGpusThatAreNotThere) {
  const std::string pairs = completion_fixture("nccl_a100_pairs.xml");
  const ImportedTopology foreign =
      completed(changed(pairs, "<nvlink target=\"0001",
                        "<nvlink target=\"0009:00:00.0\" count=\"2\" tclass=\"0x030200\"/>"
                        "<nvlink target=\"0001"));
  EXPECT_DOUBLE_EQ(gigabytes_between(foreign.topology, "gpu0", "gpu1"), 240);
  EXPECT_THAT(foreign.notes, Contains("line 5: links to 1 GPU that the file does not list are left out "
                                      "(0009:00:00.0)"));
  const ImportedTopology own =
      completed(changed(pairs, "<nvlink target=\"0002:00:00.0\"", "<nvlink target=\"0001:00:00.0\""));
  EXPECT_THAT(own.notes, Contains("line 10: links of 1 GPU to themselves are left out (0001:00:00.0)"));
  // NCCL compares digits: capitals and longer domains are the same address.
  EXPECT_THAT(completed(changed(pairs, "target=\"0001:00:00.0\"", "target=\"00000001:00:00.0\"")).notes,
              Not(Contains(HasSubstr("left out"))));
}

TEST(NcclCompletion, SaysWhichNicsHaveNoNet) {
  std::string text = completion_fixture("nccl_h200_quarter.xml");
  text.erase(text.find("<nic>"), text.find("</nic>") + 6 - text.find("<nic>"));
  const ImportedTopology result = completed(text, {2});
  EXPECT_THAT(result.notes,
              ElementsAre("line 12: 1 NIC without <net>, beside others that have one, left out"));
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node1.nic0", "network"), 48);
}

TEST(NcclCompletion, ReadsSpeedsInAllUnitsOfPlugins) {
  const std::string dump = completion_fixture("nccl_h200_quarter.xml");
  const auto read = [&](const std::string& speed) {
    return completed(changed(dump, "speed=\"400000\"", speed), {2});
  };
  const auto rate = [](const ImportedTopology& result) {
    return gigabytes_between(result.topology, "node0.nic0", "network");
  };
  EXPECT_DOUBLE_EQ(rate(read("speed=\"200000000\"")), 24);
  EXPECT_THAT(
      read("speed=\"200000000\"").notes,
      ElementsAre("line 14: <net> mlx5_0 has speed=\"200000000\", which is taken for kbit/s: 200 Gbit/s"));
  EXPECT_DOUBLE_EQ(rate(read("speed=\"25000000\"")), 3);
  EXPECT_DOUBLE_EQ(rate(read("speed=\"400000000000\"")), 48);
  EXPECT_DOUBLE_EQ(rate(read("speed=\"10000000000\"")), 1.2);
  EXPECT_DOUBLE_EQ(rate(read("speed=\"1600000\"")), 192);  // four ports that NCCL merged
  EXPECT_THAT(read("speed=\"400000\"").notes, IsEmpty());
  for (const char* none : {"speed=\"-1\"", "speed=\"0\"", ""}) {
    EXPECT_DOUBLE_EQ(rate(read(none)), 1.2);
    EXPECT_THAT(
        read(none).notes,
        ElementsAre("line 14: <net> mlx5_0 tells no speed; it counts as 10 Gbit/s, as NCCL takes it"));
  }
  EXPECT_EQ(refused_import(changed(dump, "speed=\"400000\"", "speed=\"10000000000000\"")),
            "node.xml:14: <net> has speed=\"10000000000000\", allowed: 10 to 10000000 Mbit/s, or the same in "
            "kbit/s or bit/s");
  EXPECT_THAT(refused_import(changed(dump, "speed=\"400000\"", "speed=\"400 Gb/s\"")),
              HasSubstr("node.xml:14: <net> has speed=\"400 Gb/s\", allowed: whole numbers"));
}

// 48 GB/s a link, between every two; RCCL counts 10 GB/s between the sockets.
TEST(NcclCompletion, ReadsMeshesOfXgmi) {
  const std::string text = completion_fixture("rccl_mi300x_half.xml");
  const ImportedTopology result = completed(text, {2});
  const Topology& t = result.topology;
  ASSERT_EQ(t.num_devices(), 8U);
  EXPECT_EQ(t.kind(DeviceId(0)).name, "MI300X");
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu0", "node0.gpu3"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node1.gpu1", "node1.gpu2"), 48);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(3)).lanes.size(), 1U);
  EXPECT_THAT(result.notes, IsEmpty());

  std::string old = text;  // before gfx names, and without PCI ids
  while (old.find("gfx942") != std::string::npos) old = changed(old, "gfx942", "910");
  while (old.find("0x74a1") != std::string::npos)
    old = changed(old, "vendor=\"0x1002\" device=\"0x74a1\"", "");
  while (old.find("sm=\"304\"") != std::string::npos) old = changed(old, "sm=\"304\"", "sm=\"110\"");
  const ImportedTopology mi250x = completed(old);
  EXPECT_EQ(mi250x.topology.kind(DeviceId(0)).name, "MI250X");
  EXPECT_THAT(mi250x.notes, ElementsAre("GPUs of gfx90a with 110 compute units are taken for MI250X"));
}

// Without gcn, what RCCL writes as sm is no compute capability.
TEST(NcclCompletion, KnowsAmdByItsPciIdAlone) {
  std::string text = completion_fixture("rccl_mi300x_half.xml");
  while (text.find(" gcn=\"gfx942\"") != std::string::npos) text = changed(text, " gcn=\"gfx942\"", "");
  const Topology t = completed(text).topology;
  EXPECT_EQ(t.kind(DeviceId(0)).name, "MI300X");
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "gpu1"), 48);
  while (text.find("0x74a1") != std::string::npos) text = changed(text, "0x74a1", "0x75a3");
  EXPECT_EQ(completed(text).topology.kind(DeviceId(0)).name, "MI355X");
  const std::string ids = "vendor=\"0x1002\" device=\"0x74a5\"";
  const ImportedTopology bare = completed(cloud_file(8, ids));
  EXPECT_DOUBLE_EQ(gigabytes_between(bare.topology, "gpu0", "gpu7"), 48);
  EXPECT_THAT(
      bare.notes,
      ElementsAre("added, as RCCL finds them on the machine: an xGMI link between every two of 8 GPUs of "
                  "MI325X"));
}

TEST(NcclCompletion, RefusesUnequalEndsOfXgmi) {
  const std::string text = completion_fixture("rccl_mi300x_half.xml");
  EXPECT_THAT(
      refused_import(changed(text, "count=\"1\"", "count=\"2\"")),
      HasSubstr("1 xGMI links between 0000:15:00.0 and 0000:0c:00.0, which were 2 from the other end"));
  std::string unknown = changed(text, "device=\"0x74a1\"", "device=\"0x7000\"");
  unknown = changed(unknown, "gcn=\"gfx942\"", "gcn=\"gfx1201\"");
  EXPECT_THAT(refused_import(unknown),
              HasSubstr("node.xml:4: GPU 0000:0c:00.0 is AMD's gfx1201, of which there is no "
                        "kind; its kind must be given (--device KIND), one of MI60, MI100, "));
}

// A link's rate goes by the kind, so that another maker's would be one that the machine does not have.
TEST(NcclCompletion, RefusesKindsOfAnotherMaker) {
  const std::string h200 = completion_fixture("nccl_h200_quarter.xml");
  const std::string mi300x = completion_fixture("rccl_mi300x_half.xml");
  const std::string cloud = completion_fixture("nccl_cloud_a100.xml");
  EXPECT_THAT(
      refused_import(h200, {1, "MI300X"}),
      testing::AllOf(testing::MatchesRegex("node\\.xml:[0-9]+: found --device MI300X, a kind of AMD, for "
                                           "GPU 0000:[0-9a-f]+:00\\.0, which is of NVIDIA; allowed: K80, "
                                           "[^\n]*, or a \\.json file with a kind of your own"),
                     Not(HasSubstr("MI60"))));
  EXPECT_EQ(
      refused_import(mi300x, {1, "H200"}),
      "node.xml:4: found --device H200, a kind of NVIDIA, for GPU 0000:0c:00.0, which is of AMD; allowed: "
      "MI60, MI100, MI210, MI250, MI250X, MI300A, MI300X, MI325X, MI350X, MI355X, or a .json file with a "
      "kind of your own");
  EXPECT_THAT(refused_import(cloud, {1, "MI60"}), HasSubstr("found --device MI60, a kind of AMD, for GPU"));
  EXPECT_THAT(refused_import(cloud, {1, "TPU-v5p"}),
              HasSubstr("found --device TPU-v5p, a kind of Google, for"));
  EXPECT_EQ(refused_import(h200, {1, "B200"}), "accepted");
  EXPECT_EQ(refused_import(mi300x, {1, "MI325X"}), "accepted");
  // Kinds of one's own are nobody's.
  NcclImport own{"node", "node.xml", 1, *find_built_in_device_kind("MI300X")};
  own.kind->name = "mine";
  EXPECT_EQ(refusal([&] { topology_of(parse_nccl_dump(h200, "node.xml"), own); }), "accepted");
}

// Without PCI ids, the sort of links and AMD's processor tell the maker.
TEST(NcclCompletion, KnowsMakersByLinks) {
  const auto without_ids = [](std::string text) {
    for (const char* ids : {" vendor=\"0x10de\" device=\"0x2335\"", " vendor=\"0x1002\" device=\"0x74a1\"",
                            " gcn=\"gfx942\""}) {
      while (text.find(ids) != std::string::npos) text = changed(text, ids, "");
    }
    return text;
  };
  const std::string h200 = without_ids(completion_fixture("nccl_h200_quarter.xml"));
  const std::string mi300x = without_ids(completion_fixture("rccl_mi300x_half.xml"));
  EXPECT_THAT(refused_import(h200, {1, "MI300X"}), HasSubstr("a kind of AMD, for"));
  EXPECT_THAT(refused_import(mi300x, {1, "H200"}), HasSubstr("a kind of NVIDIA, for"));
  EXPECT_DOUBLE_EQ(gigabytes_between(completed(mi300x, {1, "MI300X"}).topology, "gpu0", "gpu1"), 48);
  // Nothing tells.
  const std::string bare = cloud_file(8, "");
  EXPECT_EQ(refused_import(bare, {1, "MI300X"}), "accepted");
  EXPECT_EQ(refused_import(bare, {1, "H200"}), "accepted");
}

TEST(NcclCompletion, EveryProductHasAKind) {
  for (const std::string& kind : built_in_device_kind_names()) {
    if (const GpuProduct* product = product_of_kind(kind)) {
      EXPECT_EQ(find_gpu_product(product->vendor, product->device_id), product);
      EXPECT_EQ(product->kind, kind);
    }
  }
  for (std::int64_t id = 0; id <= 0xffff; ++id) {
    for (const std::int64_t vendor : {kNvidiaVendor, kAmdVendor}) {
      const GpuProduct* product = find_gpu_product(vendor, id);
      if (product == nullptr) continue;
      EXPECT_NE(find_built_in_device_kind(product->kind), nullptr) << product->name;
      EXPECT_EQ(product->compute_capability > 0, vendor == kNvidiaVendor) << product->name;
      EXPECT_NE(find_gpu_product(product->name), nullptr);
    }
  }
}

}  // namespace
}  // namespace pipesim
