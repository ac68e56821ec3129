#include "topologies/files/cloud_machines.h"

#include <algorithm>
#include <array>

namespace pipesim {
namespace {

struct KnownFile {
  CloudMachine machine;
  std::string_view vendor;
  std::int64_t family, model;
  std::array<std::string_view, 8> gpus;  // bus ids
};

// Files: github.com/Azure/azhpc-images, topology/; github.com/oracle-quickstart/oci-hpc, samples/gpu. Kinds
// and NICs: the makers' pages of the machines. Oracle's NICs have two ports of 100 Gbit/s.
constexpr std::array<KnownFile, 5> kKnownFiles{
    {{{"Azure ND v2", "V100-SXM2-32GB", "", 100},
      "GenuineIntel",
      6,
      85,
      {"0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0", "0005:00:00.0", "0006:00:00.0",
       "0007:00:00.0", "0008:00:00.0"}},
     {{"Azure ND A100 v4", "A100-40GB", "A100-80GB", 200},
      "AuthenticAMD",
      23,
      49,
      {"0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0", "000b:00:00.0", "000c:00:00.0",
       "000d:00:00.0", "000e:00:00.0"}},
     {{"Azure ND H100 v5", "H100-SXM5", "H200", 400},
      "GenuineIntel",
      6,
      143,
      {"0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0008:00:00.0", "0009:00:00.0", "000a:00:00.0",
       "000b:00:00.0", "000c:00:00.0"}},
     {{"Oracle BM.GPU4.8", "A100-40GB", "", 200},
      "AuthenticAMD",
      143,
      49,
      {"0000:0f:00.0", "0000:15:00.0", "0000:51:00.0", "0000:54:00.0", "0000:8d:00.0", "0000:92:00.0",
       "0000:d6:00.0", "0000:da:00.0"}},
     {{"Oracle BM.GPU.B4.8", "A100-40GB", "", 200},
      "AuthenticAMD",
      175,
      1,
      {"0000:0f:00.0", "0000:15:00.0", "0000:50:00.0", "0000:53:00.0", "0000:8c:00.0", "0000:91:00.0",
       "0000:d6:00.0", "0000:da:00.0"}}}};

bool lists(const KnownFile& file, const NcclPci& gpu) {
  return std::ranges::any_of(file.gpus,
                             [&](std::string_view bus_id) { return bus_key(bus_id) == bus_key(gpu.bus_id); });
}

}  // namespace

const CloudMachine* find_cloud_machine(const NcclCpu& cpu, std::span<const NcclPci* const> gpus) {
  for (const KnownFile& file : kKnownFiles) {
    if (file.vendor == cpu.vendor && file.family == cpu.family && file.model == cpu.model &&
        std::ranges::all_of(gpus, [&](const NcclPci* gpu) { return lists(file, *gpu); }))
      return &file.machine;
  }
  return nullptr;
}

}  // namespace pipesim
