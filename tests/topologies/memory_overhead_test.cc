#include "topologies/memory_overhead.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/refusal.h"
#include "tests/seeds.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

Bytes any_bytes(Rng& rng, std::uint64_t below) { return Bytes(static_cast<std::int64_t>(rng.below(below))); }

TEST(MemoryOverhead, LeavesTheLargestPeakThatFits) {
  int limited = 0;
  for_each_seed(300, [&](Rng& rng) {
    const MemoryOverhead overhead{any_bytes(rng, 2000), any_bytes(rng, 300), any_bytes(rng, 300),
                                  static_cast<double>(rng.below(5)) / 4};
    const Bytes memory = any_bytes(rng, 1500);
    std::int64_t most = 0;  // found by trying all; quarters are exact
    const auto communicators = static_cast<std::int32_t>(rng.below(4));
    const Bytes fixed = overhead.context + communicators * overhead.communicator;
    for (std::int64_t peak = 0; peak <= overhead.installed.value; ++peak) {
      const double needed =
          static_cast<double>(peak) * (1 + overhead.fragmentation) + static_cast<double>(fixed.value);
      if (needed <= static_cast<double>(overhead.installed.value)) most = peak;
    }
    if (overhead.is_none()) most = memory.value;
    const Bytes usable = overhead.usable(memory, communicators);
    if (fixed > overhead.installed && !overhead.is_none()) {
      EXPECT_LT(usable, Bytes(0));
    } else {
      EXPECT_EQ(usable, Bytes(most));
    }
    limited += most > 0 && most < overhead.installed.value ? 1 : 0;
  });
  EXPECT_GT(limited, 20);
}

TEST(MemoryOverhead, OfOlderKindsIsNone) {
  for (const char* name :
       {"K80", "P100-SXM2", "P100-PCIe", "V100-SXM2-16GB", "V100-SXM2-32GB", "V100-PCIe"}) {
    const DeviceKind& kind = *find_built_in_device_kind(name);
    EXPECT_TRUE(kind.memory_overhead.is_none()) << name;
    EXPECT_EQ(kind.memory_overhead.usable(kind.memory, 9), kind.memory) << name;
  }
}

// docs/reports.md names the kinds that have figures.
TEST(MemoryOverhead, IsKnownOfNvidiaFromA100OnButOfSuperchips) {
  std::vector<std::string> none;
  for (const DeviceKind& kind : built_in_device_kinds()) {
    if (kind.memory_overhead.is_none()) none.push_back(kind.name);
  }
  EXPECT_THAT(none, testing::UnorderedElementsAre(
                        "K80", "P100-SXM2", "P100-PCIe", "V100-SXM2-16GB", "V100-SXM2-32GB", "V100-PCIe",
                        "GB200", "GB300", "MI60", "MI100", "MI210", "MI250", "MI250X", "MI300A", "MI300X",
                        "MI325X", "MI350X", "MI355X", "TPU-v5e", "TPU-v5p", "TPU-v6e"));
}

// Where the driver reports much more than the datasheet, plans may use more than the datasheet's memory.
TEST(MemoryOverhead, OfNewerKindsIsTakenFromWhatTheDriverReports) {
  const auto left = [](const char* name) {
    const DeviceKind& kind = *find_built_in_device_kind(name);
    return pretty(kind.memory_overhead.usable(kind.memory, 4));
  };
  EXPECT_EQ(left("A100-40GB"), "37.7 GB");
  EXPECT_EQ(left("A100-80GB"), "79.4 GB");
  EXPECT_EQ(left("H100-SXM5"), "79.1 GB");
  EXPECT_EQ(left("H800"), "79.1 GB");
  EXPECT_EQ(left("H200"), "142 GB");
  EXPECT_EQ(left("B200"), "183 GB");
}

// Closed form: 1.2 GB for the context, 721,420,288 bytes for a communicator.
TEST(MemoryOverhead, CountsWhatAProcessHolds) {
  const MemoryOverhead& overhead = find_built_in_device_kind("H100-SXM5")->memory_overhead;
  EXPECT_EQ(overhead.of_process(Bytes(10'000'000'000), 2),
            Bytes(10'000'000'000 + 1'200'000'000 + 2 * 721'420'288));
  EXPECT_EQ(MemoryOverhead().of_process(Bytes(7), 2), Bytes(7));
}

// The two ways to ask whether a peak fits agree.
TEST(MemoryOverhead, ProcessFitsWhereThePeakDoes) {
  for_each_seed(300, [&](Rng& rng) {
    const MemoryOverhead overhead{any_bytes(rng, 2000), any_bytes(rng, 300), any_bytes(rng, 300),
                                  static_cast<double>(rng.below(5)) / 4};
    if (overhead.is_none()) return;
    const auto communicators = static_cast<std::int32_t>(rng.below(4));
    const Bytes peak = any_bytes(rng, 2000), usable = overhead.usable(Bytes(0), communicators);
    const Bytes gaps(static_cast<std::int64_t>(overhead.fragmentation * static_cast<double>(peak.value)));
    EXPECT_EQ(overhead.of_process(peak + gaps, communicators) <= overhead.installed, peak <= usable);
  });
}

TEST(MemoryOverhead, IsTakenBeforeTheMargin) {
  const Topology topology = make_topology("dgx-h100");
  const DeviceKind& kind = topology.kind(DeviceId(0));
  const Bytes left = kind.memory_overhead.usable(kind.memory, 4);
  EXPECT_LT(left, kind.memory);
  EXPECT_EQ(topology.usable_memory(DeviceId(0), 4), left);
  EXPECT_EQ(topology.with_memory_margin(MemoryMargin::parse("8 GB")).usable_memory(DeviceId(0), 4),
            left - Bytes(8'000'000'000));
}

Topology one_device(const std::string& overhead) {
  return parse_topology(R"({"pipesim_topology": 1, "name": "lab", "device_kinds": {"mine": {
    "peak": {"float32": "10 TFLOP/s"}, "memory": "10 GB", "memory_bandwidth": "600 GB/s")" +
                            overhead +
                            R"(}}, "nodes": {"name": "n", "devices": {"count": 1, "kind": "mine"}}})",
                        "lab.json");
}

TEST(MemoryOverhead, IsReadFromFilesAndWrittenBack) {
  const Topology topology = one_device(
      R"(, "memory_overhead": {"installed": "11 GB", "context": "1 GB", "communicator": "2 GB", "fragmentation": 0.25})");
  const MemoryOverhead expected{Bytes(11'000'000'000), Bytes(1'000'000'000), Bytes(2'000'000'000), 0.25};
  EXPECT_EQ(topology.kind(DeviceId(0)).memory_overhead, expected);
  EXPECT_EQ(topology.usable_memory(DeviceId(0)), Bytes(8'000'000'000));
  EXPECT_EQ(topology.usable_memory(DeviceId(0), 1), Bytes(6'400'000'000));
  EXPECT_EQ(topology.usable_memory(DeviceId(0), 3), Bytes(3'200'000'000));
  EXPECT_EQ(parse_topology(to_json(topology), "long"), topology);
  EXPECT_EQ(parse_topology(to_compact_json(topology), "short"), topology);
  EXPECT_EQ(topology.fingerprint(), one_device("").fingerprint());
  EXPECT_TRUE(one_device("").kind(DeviceId(0)).memory_overhead.is_none());
}

TEST(MemoryOverhead, RefusesWhatLeavesNothing) {
  const auto message = [](const std::string& parts) {
    return refusal([&] { (void)one_device(", \"memory_overhead\": {" + parts + "}"); });
  };
  EXPECT_EQ(message(R"("installed": "3 GB", "context": "1 GB", "communicator": "2 GB")"),
            "lab.json: /device_kinds/mine/memory_overhead: found 3 GB installed, of which context and one "
            "communicator take 3 GB, and nothing is left");
  EXPECT_NE(message(R"("installed": "3 GB", "fragmentation": 2)"), "");
  EXPECT_NE(message(R"("context": "3 GB")"), "");
}

}  // namespace
}  // namespace pipesim
