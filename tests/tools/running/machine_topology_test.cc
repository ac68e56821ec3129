#include "tools/running/machine_topology.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/base/files.h"
#include "tests/refusal.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr PcieLink kGeneration4{4, 16}, kGeneration5{5, 16};
constexpr const char* kEmeraldRapids =
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon\n\n";
constexpr const char* kMilan =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: EPYC\n\n";

// Without any switch or NVLink.
Gpu gpu_of(const std::string& name, const std::string& bus_id, int capability, std::int64_t memory) {
  Gpu gpu;
  gpu.name = name;
  gpu.bus_id = bus_id;
  gpu.capability = capability;
  gpu.memory = memory;
  gpu.pcie = capability >= 90 ? kGeneration5 : kGeneration4;
  gpu.numa_node = 0;
  return gpu;
}

// All have access to all, and no NVLinks.
GpuInventory inventory_of(std::vector<Gpu> gpus) {
  GpuInventory found;
  found.gpus = std::move(gpus);
  const int number = static_cast<int>(found.gpus.size());
  found.switch_nvlinks.resize(found.gpus.size());
  for (int a = 0; a < number; ++a) {
    for (int b = a + 1; b < number; ++b) found.pairs.push_back({a, b, true, 0});
  }
  return found;
}

GpuPair& pair_of(GpuInventory& found, int first, int second) {
  for (GpuPair& pair : found.pairs) {
    if (pair.first == first && pair.second == second) return pair;
  }
  return found.pairs.at(found.pairs.size());
}

ImportedTopology made(const GpuInventory& found, const char* cpuinfo = kEmeraldRapids) {
  return topology_of({"here", processor_of(cpuinfo, "x86_64"), found}, {});
}

// Returns a route like "gpu0 -> nvswitch -> gpu1 at 371 GB/s, 1 us".
std::string way(const Topology& t, std::size_t from, std::size_t to) {
  const Route route = t.route(DeviceId(from), DeviceId(to));
  std::string text = t.device(DeviceId(from)).name;
  for (const LaneId lane : route.lanes) {
    const std::string name = t.lane_name(lane);
    text += name.substr(name.find(" -> "));
  }
  return text + " at " + pretty(route.bandwidth) + ", " + pretty(route.latency);
}

std::int64_t memory_of(const Topology& t, std::size_t device) {
  return t.kind(DeviceId(device)).memory.value;
}

constexpr std::int64_t kH200Memory = 150'111'911'936;

TEST(MachineTopology, OfOneGpuHasItsProcessorAndMemory) {
  const ImportedTopology result =
      made(inventory_of({gpu_of("NVIDIA H200", "0000:18:00.0", 90, kH200Memory)}));
  const Topology& t = result.topology;
  ASSERT_EQ(t.num_devices(), 1U);
  EXPECT_EQ(t.name(), "here");
  EXPECT_EQ(t.device(DeviceId(0)).name, "gpu0");
  EXPECT_EQ(t.kind(DeviceId(0)).name, "H200");
  EXPECT_EQ(memory_of(t, 0), kH200Memory);
  EXPECT_THAT(t.kind(DeviceId(0)).source, HasSubstr("; memory as the driver tells"));
  EXPECT_EQ(t.kind(DeviceId(0)).peak, find_built_in_device_kind("H200")->peak);
  ASSERT_EQ(t.parts().links.size(), 1U);
  EXPECT_DOUBLE_EQ(t.parts().links[0].bandwidth.value, 48e9);
  EXPECT_THAT(result.notes, ElementsAre("found no NVLinks"));
  EXPECT_EQ(parse_topology(to_json(t), "here.json"), t);
}

// Two PCIe switches with two GPUs each on either processor.
TEST(MachineTopology, OfEightGpusOnNvswitchesGoesThroughThem) {
  std::vector<Gpu> gpus;
  for (int g = 0; g < 8; ++g) {
    gpus.push_back(gpu_of("NVIDIA H200", "0000:" + std::to_string(10 + g) + ":00.0", 90, kH200Memory - g));
    gpus.back().numa_node = g / 4;
    gpus.back().switches = {{"0000:0" + std::to_string(g / 2) + ":00.0", kGeneration5}};
  }
  GpuInventory found = inventory_of(std::move(gpus));
  found.switch_nvlinks.assign(8, 18);
  const ImportedTopology result = made(found);
  const Topology& t = result.topology;
  EXPECT_THAT(result.notes, IsEmpty());
  ASSERT_EQ(t.num_devices(), 8U);
  EXPECT_EQ(way(t, 0, 7), "gpu0 -> nvswitch -> gpu7 at 371 GB/s, 1 us");
  EXPECT_EQ(way(t, 0, 1), "gpu0 -> nvswitch -> gpu1 at 371 GB/s, 1 us");
  EXPECT_EQ(t.parts().links.size(), 8U + 8U + 4U + 1U);  // NVLinks, GPUs, switches, processors
  EXPECT_EQ(memory_of(t, 0), kH200Memory - 7) << "the least of a kind";

  // Without access (as where the switches are not managed), their NVLinks are of no use.
  for (GpuPair& pair : found.pairs) pair.peer_access = false;
  const ImportedTopology shut = made(found);
  EXPECT_THAT(shut.notes, Contains("NVLinks of GPU 7 to switches do not count: it has access to no other"));
  EXPECT_EQ(way(shut.topology, 0, 7), "gpu0 -> cpu0 -> cpu1 -> gpu7 at 40 GB/s, 1.5 us");
}

TEST(MachineTopology, OfPairsOnNvlinksSendsTheRestOverPcie) {
  std::vector<Gpu> gpus;
  for (int g = 0; g < 4; ++g)
    gpus.push_back(gpu_of("NVIDIA A100-SXM4-40GB", "0000:0" + std::to_string(g) + ":00.0", 80, 42e9));
  GpuInventory found = inventory_of(std::move(gpus));
  pair_of(found, 0, 1).nvlinks = 4;
  pair_of(found, 2, 3).nvlinks = 4;
  const ImportedTopology result = made(found, kMilan);
  EXPECT_THAT(result.notes, IsEmpty());
  const Topology& t = result.topology;
  EXPECT_EQ(t.kind(DeviceId(3)).name, "A100-40GB");
  EXPECT_EQ(way(t, 0, 1), "gpu0 -> gpu1 at 80 GB/s, 1 us");
  EXPECT_EQ(way(t, 3, 2), "gpu3 -> gpu2 at 80 GB/s, 1 us");
  EXPECT_EQ(way(t, 1, 2), "gpu1 -> cpu0 -> gpu2 at 24 GB/s, 1 us");
  EXPECT_EQ(t.parts().links.size(), 2U + 4U);

  pair_of(found, 2, 3).peer_access = false;
  const ImportedTopology shut = made(found, kMilan);
  EXPECT_THAT(shut.notes, Contains("NVLinks between GPUs 2 and 3 do not count: no access to each other"));
  EXPECT_EQ(way(shut.topology, 2, 3), "gpu2 -> cpu0 -> gpu3 at 24 GB/s, 1 us");
}

TEST(MachineTopology, OfTwoGpusOverPcieTurnsAtTheSwitchOrAtTheProcessor) {
  std::vector<Gpu> gpus{gpu_of("NVIDIA A100-PCIE-40GB", "0000:03:00.0", 80, 42e9),
                        gpu_of("NVIDIA A100-PCIE-40GB", "0000:04:00.0", 80, 42e9)};
  for (Gpu& gpu : gpus) gpu.switches = {{"0000:01:00.0", {3, 16}}};
  GpuInventory found = inventory_of(std::move(gpus));
  const ImportedTopology direct = made(found, kMilan);
  EXPECT_THAT(direct.notes, ElementsAre("found no NVLinks"));
  EXPECT_EQ(way(direct.topology, 0, 1), "gpu0 -> pcie0 -> gpu1 at 24 GB/s, 1 us");

  found.pairs[0].peer_access = false;
  const ImportedTopology shut = made(found, kMilan);
  EXPECT_THAT(shut.notes,
              ElementsAre("found no NVLinks",
                          "GPUs without access to each other go through the host's memory, at the rate of "
                          "the narrowest link between them"));
  EXPECT_EQ(way(shut.topology, 0, 1), "gpu0 -> cpu0 -> gpu1 at 12 GB/s, 1 us");
}

TEST(MachineTopology, SaysWhatIsNotTold) {
  GpuInventory found = inventory_of({gpu_of("NVIDIA H200", "0001:00:00.0", 90, kH200Memory)});
  found.gpus[0].pcie = {};
  found.gpus[0].numa_node = -1;
  EXPECT_THAT(made(found).notes,
              ElementsAre("found no NVLinks",
                          "links of PCIe whose speed or width is not told count as PCIe 3.0 and as 16 lanes",
                          "GPUs whose NUMA node is not told are taken to be at one processor"));
}

TEST(MachineTopology, AsksForTheKindOfUnknownGpus) {
  const GpuInventory found = inventory_of({gpu_of("NVIDIA GeForce RTX 2080", "0000:01:00.0", 89, 25e9)});
  EXPECT_EQ(
      refusal([&] { made(found); }),
      "this machine: GPU 0000:01:00.0 is of the unknown kind \"NVIDIA GeForce RTX 2080\"; its kind must "
      "be given (--device KIND), one of K80, P100-SXM2, P100-PCIe, V100-SXM2-16GB, V100-SXM2-32GB, "
      "V100-PCIe, A100-40GB, A100-80GB, A800, H100-SXM5, H100-500W, H800, H200, H100-PCIe, H100-NVL, H20, "
      "B200, "
      "GB200, B300, GB300, \u2026 (26 in all)");
  const Topology t =
      topology_of({"here", processor_of("", ""), found}, *find_built_in_device_kind("A100-40GB")).topology;
  EXPECT_EQ(t.kind(DeviceId(0)).name, "A100-40GB");
  EXPECT_EQ(memory_of(t, 0), 25e9);
  EXPECT_THAT(
      refusal([&] {
        topology_of({"here", processor_of("", ""), found}, *find_built_in_device_kind("MI300X"));
      }),
      HasSubstr("this machine: found --device MI300X, a kind of AMD, for GPU 0000:01:00.0, which is of "
                "NVIDIA; allowed: K80, "));
}

// The first of two GPUs is divided, as the driver did it.
TEST(MachineTopology, OfVirtualDevicesHasPartsOfTheFirstGpu) {
  GpuInventory found = inventory_of({gpu_of("NVIDIA H200", "0000:18:00.0", 90, kH200Memory),
                                     gpu_of("NVIDIA A100-PCIE-40GB", "0000:03:00.0", 80, 42e9)});
  found.switch_nvlinks = {18, 18};
  const MachineDescription machine{"here", processor_of(kEmeraldRapids, "x86_64"), found};
  const ImportedTopology result = topology_of(machine, {16, 8, 132}, {});
  const Topology& t = result.topology;
  EXPECT_EQ(t.name(), "here");
  ASSERT_EQ(t.num_devices(), 16U);
  EXPECT_EQ(t.kind(DeviceId(15)).name, "H200/16 (8 of 132 SMs)");
  EXPECT_EQ(memory_of(t, 0), kH200Memory / 16);
  EXPECT_THAT(t.kind(DeviceId(0)).source, HasSubstr("; memory as the driver tells; derived: "));
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(15)).lanes, t.route(DeviceId(7), DeviceId(8)).lanes);
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("nothing is measured: memory's bandwidth is divided")));
  EXPECT_EQ(parse_topology(to_json(t), "here.json"), t);
  EXPECT_EQ(topology_of(machine, {2, 66, 132}, *find_built_in_device_kind("H100-SXM5"))
                .topology.kind(DeviceId(0))
                .name,
            "H100-SXM5/2 (66 of 132 SMs)");
}

TEST(MachineTopology, OfNoGpusGivesTheReason) {
  GpuInventory none;
  none.no_gpus = "no driver of NVIDIA is loaded (libcuda.so.1)";
  EXPECT_EQ(refusal<DeviceError>([&] { made(none); }),
            "this machine has no GPUs of NVIDIA: no driver of NVIDIA is loaded (libcuda.so.1)");
  EXPECT_EQ(refusal<DeviceError>([&] {
              topology_of({"here", {}, none}, {8, 16, 132}, {});
            }),
            "this machine has no GPUs of NVIDIA: no driver of NVIDIA is loaded (libcuda.so.1)");
}

TEST(MachineTopology, ReadsProcessors) {
  const NcclCpu intel = processor_of(kEmeraldRapids, "x86_64");
  EXPECT_EQ(intel.architecture, "x86_64");
  EXPECT_EQ(intel.vendor, "GenuineIntel");
  EXPECT_EQ(intel.family, 6);
  EXPECT_EQ(intel.model, 207);
  EXPECT_EQ(processor_of("CPU implementer\t: 0x41\n", "aarch64").architecture, "arm64");
  EXPECT_EQ(processor_of("", "ppc64le").architecture, "ppc64");
  for (const char* text : {"", "model", "model\t:", "model\t: \n", "modelx : 7", ":\n:\n", "model\t: many"})
    EXPECT_EQ(processor_of(text, "x86_64").model, 0) << text;
}

Topology of_dump(const std::string& name) {
  const std::string path = std::string(PIPESIM_SOURCE_DIR) + "/tests/topologies/fixtures/" + name;
  return topology_of(parse_nccl_dump(read_file(path), name), {"here", name, 1, {}}).topology;
}

void expect_same_wires(const Topology& found, const Topology& told) {
  const TopologyParts &a = found.parts(), &b = told.parts();
  EXPECT_EQ(a.devices, b.devices);
  EXPECT_EQ(a.vertices, b.vertices);
  EXPECT_EQ(a.nodes, b.nodes);
  ASSERT_EQ(a.kinds.size(), b.kinds.size());
  EXPECT_EQ(a.kinds[0].name, b.kinds[0].name);
  for (std::size_t i = 0; i < found.num_devices(); ++i) {
    for (std::size_t j = 0; j < found.num_devices(); ++j) {
      if (i == j) continue;
      const Route here = found.route(DeviceId(i), DeviceId(j)), there = told.route(DeviceId(i), DeviceId(j));
      EXPECT_EQ(way(found, i, j), way(told, i, j));
      EXPECT_EQ(here.bandwidth, there.bandwidth);
      EXPECT_EQ(here.latency, there.latency);
    }
  }
}

// What NCCL writes down of a machine and what the machine itself tells are wired alike, so that messages take
// the same time from any GPU to any other.
TEST(MachineTopology, IsThatOfNcclsDumpOfTheSameMachine) {
  std::vector<Gpu> h200{gpu_of("NVIDIA H200", "0000:18:00.0", 90, 141'000'000'000),
                        gpu_of("NVIDIA H200", "0000:5D:00.0", 90, 141'000'000'000)};
  h200[0].switches = {{"0000:16:00.0", kGeneration5}};
  h200[1].switches = {{"0000:5a:00.0", kGeneration5}};
  h200[1].numa_node = 1;
  GpuInventory found = inventory_of(std::move(h200));
  found.switch_nvlinks = {18, 18};
  const Topology quarter = of_dump("nccl_h200_quarter.xml");
  expect_same_wires(made(found).topology, quarter);
  EXPECT_EQ(made(found).topology.fingerprint(), quarter.fingerprint());
  // A slower slot lengthens the way over PCIe alone.
  found.gpus[1].pcie = kGeneration4;
  EXPECT_EQ(way(made(found).topology, 0, 1), way(quarter, 0, 1));

  // Neither speed nor width of the links to the first two are told.
  std::vector<Gpu> a100;
  for (int g = 0; g < 3; ++g)
    a100.push_back(
        gpu_of("NVIDIA A100 80GB PCIe", "000" + std::to_string(g + 1) + ":00:00.0", 80, 80'000'000'000));
  a100[0].pcie = a100[1].pcie = {};
  a100[2].pcie = {4, 8};
  a100[2].numa_node = 1;
  found = inventory_of(std::move(a100));
  pair_of(found, 0, 1).nvlinks = 12;
  const Topology pairs = of_dump("nccl_a100_pairs.xml");
  expect_same_wires(made(found, kMilan).topology, pairs);
}

}  // namespace
}  // namespace pipesim
