#include "topologies/files/topology_matrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/rng.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/topologies/files/link_rate.h"
#include "topologies/device_kinds.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

ImportedTopology read_matrix(const std::string& text, const std::string& kind = "", std::int64_t copies = 1) {
  NcclImport import{"node", "topo.txt", copies, {}};
  if (!kind.empty()) import.kind = *find_built_in_device_kind(kind);
  return topology_of(parse_topology_matrix(text, "topo.txt", import.kind), import);
}

std::string refused_matrix(const std::string& text, const std::string& kind = "A100-80GB") {
  return refusal([&] { read_matrix(text, kind); });
}

std::string with_other(std::string text, const std::string& found, const std::string& instead) {
  return text.replace(text.find(found), found.size(), instead);
}

// The driver prints this of a part of an HGX H100, with escapes that underline the header.
const char* const kHopper =
    "\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNODE\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tSYS\tPIX\t48-95,144-191\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tPIX\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

TEST(TopologyMatrix, OfNvidiaHasSwitchesBridgesAndProcessors) {
  const ImportedTopology result = read_matrix(kHopper, "H100-SXM5", 2);
  const Topology& t = result.topology;
  ASSERT_EQ(t.num_devices(), 6U);
  EXPECT_EQ(t.num_nodes(), 2U);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu2", "node0.nvswitch"), 18 * 20.6);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu0", "node0.pcie0"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.nic0", "node0.pcie0"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu1", "node0.cpu0"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.gpu2", "node0.pcie1"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node0.pcie1", "node0.cpu1"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "node1.nic1", "network"), 48);
  EXPECT_THAT(
      result.notes,
      ElementsAre("PCIe counts as 16 lanes of 32.0 GT/s PCIe, as with such GPUs; the text does not tell it",
                  "added, a guess: 2 NICs of 400 Gbit/s, as much as its PCIe lanes carry, since their "
                  "PCI id is unknown; they count with --nodes",
                  "processors that NCCL does not know, or that are not told, count as 6 GB/s between them"));
}

TEST(TopologyMatrix, TakesKindsFromTheNamesOfGpus) {
  std::string text;
  for (int i = 0; i < 3; ++i) text += fmt::format("GPU {}: NVIDIA H200 (UUID: GPU-1-2-{})\n", i, i);
  const Topology t = read_matrix(text + kHopper).topology;
  EXPECT_EQ(t.kind(DeviceId(2)).name, "H200");
  EXPECT_THAT(refused_matrix(kHopper, ""),
              HasSubstr("topo.txt:2: GPU0 has no name here; its kind must be given "
                        "(--device KIND), one of K80, "));
  EXPECT_THAT(refused_matrix(with_other(text, "H200", "H900") + kHopper, ""),
              HasSubstr("is of the unknown kind \"NVIDIA H900\""));
}

// Two pairs by 12 NVLinks; four of a DGX-1 by one or two.
TEST(TopologyMatrix, KeepsDirectNvlinks) {
  const std::string pairs =
      "        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV12    SYS     0-23    0\n"
      "GPU1    NV12     X      SYS     24-47   1\n"
      "GPU2    SYS     SYS      X      48-71   2\n";
  std::string named =
      "GPU 0: NVIDIA A100 80GB PCIe (UUID: a)\nGPU 1: NVIDIA A100 80GB PCIe (UUID: b)\n"
      "GPU 2: NVIDIA A100 80GB PCIe (UUID: c)\n" +
      pairs;
  const ImportedTopology bridged = read_matrix(named);
  EXPECT_DOUBLE_EQ(gigabytes_between(bridged.topology, "gpu0", "gpu1"), 240);
  EXPECT_DOUBLE_EQ(gigabytes_between(bridged.topology, "gpu2", "cpu2"), 24);
  EXPECT_THAT(bridged.notes, Contains("line 7: GPU2 has no NVLinks, though 2 others of its host do; it is "
                                      "reached over PCIe"));
  EXPECT_DOUBLE_EQ(gigabytes_between(read_matrix(pairs, "A100-80GB").topology, "gpu0", "nvswitch"), 240);
  const std::string quad =
      "        GPU0    GPU1    GPU2    GPU3    mlx5_0  CPU Affinity\n"
      "GPU0     X      NV1     NV1     NV2     PIX     0-19\n"
      "GPU1    NV1      X      NV2     NV1     PIX     0-19\n"
      "GPU2    NV1     NV2      X      NV2     PHB     0-19\n"
      "GPU3    NV2     NV1     NV2      X      PHB     0-19\n"
      "mlx5_0  PIX     PIX     PHB     PHB      X\n";
  const Topology volta = read_matrix(quad, "V100-SXM2-16GB").topology;
  EXPECT_DOUBLE_EQ(gigabytes_between(volta, "gpu0", "gpu3"), 40);
  EXPECT_DOUBLE_EQ(gigabytes_between(volta, "gpu0", "gpu1"), 20);
  EXPECT_DOUBLE_EQ(gigabytes_between(volta, "gpu0", "pcie0"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(volta, "gpu1", "pcie0"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(volta, "gpu2", "cpu0"), 12);
}

// NICs may have any name, and old drivers say SOC.
TEST(TopologyMatrix, ReadsOldDriversAndAnyNic) {
  const ImportedTopology result = read_matrix(
      "        GPU0    ibp24s0 CPU Affinity\n"
      "GPU0     X      SOC     0-19\n"
      "ibp24s0 SOC      X\n",
      "P100-SXM2", 2);
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node0.gpu0", "node0.cpu0"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node0.nic0", "node0.cpu1"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_between(result.topology, "node1.nic0", "network"), 12);
}

TEST(TopologyMatrix, OfCardsHasPcieOnly) {
  const std::string text =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tPIX\tPXB\tSYS\t0-31\t0\n"
      "GPU1\tPIX\t X \tPXB\tSYS\t0-31\t0\n"
      "GPU2\tPXB\tPXB\t X \tSYS\t0-31\t0\n"
      "GPU3\tSYS\tSYS\tSYS\t X \t32-63\t1\n";
  const ImportedTopology result = read_matrix(text, "L40S");
  const Topology& t = result.topology;
  EXPECT_THAT(result.notes, Contains("found no NVLinks"));
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "pcie1"), 24);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "pcie0", "pcie1"), 24);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu2", "pcie0"), 24);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu3", "cpu1"), 24);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(1)).lanes.size(), 2U);
  EXPECT_DOUBLE_EQ(t.route(DeviceId(0), DeviceId(3)).bandwidth.value, 6e9);
}

const char* const kInstinct =
    "============================ ROCm System Management Interface ============================\n"
    "================================ Weight between two GPUs =================================\n"
    "       GPU0         GPU1         GPU2         \n"
    "GPU0   0            15           30           \n"
    "GPU1   15           0            15           \n"
    "GPU2   30           15           0            \n"
    "================================= Hops between two GPUs ==================================\n"
    "       GPU0         GPU1         GPU2         \n"
    "GPU0   0            1            2            \n"
    "GPU1   1            0            1            \n"
    "GPU2   2            1            0            \n"
    "=============================== Link Type between two GPUs ===============================\n"
    "       GPU0         GPU1         GPU2         \n"
    "GPU0   0            XGMI         XGMI         \n"
    "GPU1   XGMI         0            XGMI         \n"
    "GPU2   XGMI         XGMI         0            \n"
    "======================================= Numa Nodes =======================================\n"
    "GPU[0]\t\t: (Topology) Numa Node: 0\n"
    "GPU[0]\t\t: (Topology) Numa Affinity: 0\n"
    "GPU[1]\t\t: (Topology) Numa Node: 0\n"
    "GPU[2]\t\t: (Topology) Numa Node: 1\n"
    "================================== End of ROCm SMI Log ===================================\n";

TEST(TopologyMatrix, OfAmdHasXgmiWhereItIsOneHop) {
  const ImportedTopology result = read_matrix(kInstinct, "MI300X");
  const Topology& t = result.topology;
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "gpu1"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu0", "gpu2"), 0);
  EXPECT_DOUBLE_EQ(gigabytes_between(t, "gpu2", "cpu1"), 48);
  EXPECT_THAT(result.notes,
              Contains("each XGMI of one hop counts as one link: rocm-smi does not tell their number"));
  const std::string named = std::string(kInstinct) +
                            "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI325X\n"
                            "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI325X\n"
                            "GPU[2]\t\t: Card Series: \t\tAMD Instinct MI325X\n";
  EXPECT_EQ(read_matrix(named).topology.kind(DeviceId(2)).name, "MI325X");
  EXPECT_DOUBLE_EQ(gigabytes_between(read_matrix(kInstinct, "MI250X").topology, "gpu1", "gpu2"), 36);
  EXPECT_EQ(refused_matrix(with_other(kInstinct, "XGMI", "CXL"), "MI300X"),
            "topo.txt:14: found \"CXL\" in the row of GPU0 and the column of GPU1, allowed: XGMI or PCIE");
}

std::string with_all(std::string text, const std::string& found, const std::string& instead) {
  for (std::size_t at = 0; (at = text.find(found, at)) != std::string::npos; at += instead.size())
    text.replace(at, found.size(), instead);
  return text;
}

TEST(TopologyMatrix, OfAmdHasGpusAlone) {
  EXPECT_EQ(
      refused_matrix("Link Type between two GPUs\n  GPU0 NIC0\nGPU0 0 XGMI\nNIC0 XGMI 0\n", "MI300X"),
      "topo.txt:4: found a row of NIC0, allowed: of GPU#, since rocm-smi's tables have no other devices");
  for (const char* name : {"N", "GP", "GPU", "NIC0", "mlx5_0"}) {
    EXPECT_EQ(refused_matrix(with_all(kInstinct, "GPU1", name), "MI300X"),
              fmt::format("topo.txt:15: found a row of {}, allowed: of GPU#, since rocm-smi's tables have no "
                          "other devices",
                          name));
  }
}

// NVLinks have NVIDIA's rates and xGMI links AMD's, so the kind must be of whom the program is.
TEST(TopologyMatrix, RefusesKindsOfAnotherMaker) {
  EXPECT_THAT(
      refused_matrix(kHopper, "MI300X"),
      testing::AllOf(HasSubstr("topo.txt:2: found --device MI300X, a kind of AMD, for GPU0, which is of "
                               "NVIDIA; allowed: K80, "),
                     testing::Not(HasSubstr("\n"))));
  EXPECT_EQ(
      refused_matrix(kInstinct, "H200"),
      "topo.txt:14: found --device H200, a kind of NVIDIA, for GPU0, which is of AMD; allowed: MI60, "
      "MI100, MI210, MI250, MI250X, MI300A, MI300X, MI325X, MI350X, MI355X, or a .json file with a kind of "
      "your own");
}

TEST(TopologyMatrix, ReadsNamesBehindAnyBlanks) {
  const char* const line = "GPU0\nGPU0 X\n";
  for (const char* name : {"GPU 0: NVIDIA H200 (UUID: GPU-1)", "GPU 0:\tNVIDIA H200 (UUID: GPU-1)",
                           "GPU 0: \t NVIDIA H200\t(UUID: GPU-1)", "  GPU\t0:  NVIDIA H200 \r"})
    EXPECT_EQ(read_matrix(fmt::format("{}\n{}", name, line)).topology.kind(DeviceId(0)).name, "H200") << name;
}

TEST(TopologyMatrix, RefusesTablesThatAreNotWhole) {
  EXPECT_EQ(refused_matrix(with_other(kHopper, "GPU1\tNV18", "GPU1\tNV17")),
            "topo.txt:2: found \"NV18\" between GPU0 and GPU1, which is \"NV17\" in line 3");
  EXPECT_EQ(refused_matrix(with_other(kHopper, "PIX\tSYS\t0", "FAST\tSYS\t0")),
            "topo.txt:2: found \"FAST\" in the row of GPU0 and the column of NIC0, allowed: SYS, SOC, NODE, "
            "PHB, PXB or PIX; NVLinks are between GPUs alone");
  EXPECT_EQ(refused_matrix(with_other(kHopper, "GPU2\tNV18", "GPU3\tNV18")),
            "topo.txt:4: found a row of GPU3, allowed: of GPU2, as the header of line 1 goes on");
  EXPECT_EQ(refused_matrix("GPU0\tGPU1\nGPU0\t X \tSYS\n"),
            "topo.txt:1: found 1 rows below this header, allowed: 2");
  EXPECT_EQ(refused_matrix("GPU0\tGPU1\nGPU0\t X \n"), "topo.txt:2: found 1 cells of GPU0, allowed: 2");
  EXPECT_EQ(refused_matrix("GPU0\tGPU1\nGPU0\t X \tNV99\nGPU1\tNV99\t X \n"),
            "topo.txt:2: found 99 NVLinks between GPU0 and GPU1, allowed: up to 18");
  EXPECT_EQ(refused_matrix("GPU0\tGPU0\nGPU0\t X \tPIX\nGPU0\tPIX\t X \n"),
            "topo.txt:1: found a second column of GPU0, allowed: one of each device");
}

// A wrong cell is told where it stands, not where its other end does.
TEST(TopologyMatrix, TellsWhichCellIsWrong) {
  const std::string cards =
      "GPU0\tGPU1\tNIC0\n"
      "GPU0\t X \tPIX\tPIX\n"
      "GPU1\tFOO\t X \tPIX\n"
      "NIC0\tPIX\tPIX\t X \n";
  EXPECT_EQ(
      refused_matrix(cards),
      "topo.txt:3: found \"FOO\" in the row of GPU1 and the column of GPU0, allowed: SYS, SOC, NODE, PHB, "
      "PXB, PIX or NV# (the number of NVLinks)");
  EXPECT_EQ(refused_matrix(with_other(cards, "GPU1\tFOO\t X ", "GPU1\tPIX\tPIX")),
            "topo.txt:3: found \"PIX\" in the row of GPU1 and the column of GPU1, allowed: X");
  const std::string nics = with_other(cards, "FOO", "PIX");
  EXPECT_EQ(refused_matrix(nics), "accepted");
  EXPECT_EQ(
      refused_matrix(with_other(with_other(nics, "PIX\tPIX\n", "PIX\tNV4\n"), "NIC0\tPIX", "NIC0\tNV4")),
      "topo.txt:2: found \"NV4\" in the row of GPU0 and the column of NIC0, allowed: SYS, SOC, NODE, PHB, "
      "PXB or PIX; NVLinks are between GPUs alone");
}

TEST(TopologyMatrix, IsToldFromOtherFiles) {
  EXPECT_TRUE(is_topology_matrix(kHopper));
  EXPECT_TRUE(is_topology_matrix(kInstinct));
  for (const char* other :
       {"", "<system version=\"1\">\nGPU0 GPU1\n</system>", "{\"GPU0\": 1}", "GPU 0: NVIDIA H200"})
    EXPECT_FALSE(is_topology_matrix(other)) << other;
}

// A topology that can be written and read, or one clear message with file and line.
TEST(TopologyMatrix, SurvivesAThousandMutations) {
  int topologies = 0;
  for_each_seed(1'000, [&](Rng& rng) {
    const bool of_nvidia = rng.below(2) == 0;
    std::string text = of_nvidia ? kHopper : kInstinct;
    if (rng.below(4) == 0) {
      constexpr std::array<const char*, 4> names{"N", "NIC7", "GPU", "GPU0"};
      text = with_all(text, "GPU1", names.at(rng.below(names.size())));
    }
    for (std::uint64_t i = 0, n = 1 + rng.below(3); i < n && !text.empty(); ++i) {
      const std::size_t at = rng.below(text.size()), length = 1 + rng.below(12);
      if (rng.below(2) == 0)
        text.erase(at, length);
      else
        text.insert(at, text.substr(rng.below(text.size()), length));
    }
    try {
      const Topology t = read_matrix(text, of_nvidia ? "H100-SXM5" : "MI300X").topology;
      EXPECT_EQ(parse_topology(to_json(t), "node.json"), t);
      ++topologies;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::MatchesRegex("topo\\.txt:[0-9]+: [^\n]+")) << text;
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(topologies, sanitized ? 50 : 200);
}

}  // namespace
}  // namespace pipesim
