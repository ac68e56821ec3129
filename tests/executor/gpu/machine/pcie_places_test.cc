#include "executor/gpu/machine/pcie_places.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

namespace fs = std::filesystem;

// Folders as Linux has them: devices/ holds the tree, bus/ a link to each device.
class Bus {
 public:
  Bus() {
    fs::create_directories(folder_.path("bus"));
    fs::create_directories(folder_.path("devices"));
  }

  // The path of a device names all that is above it.
  void add(const std::string& path, const std::string& speed, const std::string& lanes,
           const std::string& numa_node = "0") const {
    const fs::path at = fs::path(folder_.path("devices")) / path;
    fs::create_directories(at);
    write_file(at / "max_link_speed", speed + "\n");
    write_file(at / "max_link_width", lanes + "\n");
    write_file(at / "numa_node", numa_node + "\n");
    fs::create_directory_symlink(at, fs::path(folder_.path("bus")) / at.filename());
  }

  [[nodiscard]] Gpu placed(const std::string& bus_id, PcieLink told = {}) const {
    GpuInventory inventory;
    inventory.gpus.resize(1);
    inventory.gpus[0].bus_id = bus_id;
    inventory.gpus[0].pcie = told;
    add_pcie_places(inventory, folder_.path("bus"));
    return inventory.gpus[0];
  }

 private:
  TemporaryFolder folder_;
};

// Root port, switch (upper and lower port), GPU.
TEST(PciePlaces, FindTheSwitchAboveAndTheNarrowerEndOfEachLink) {
  const Bus bus;
  const std::string root = "pci0000:15/0000:15:01.0", upper = root + "/0000:16:00.0",
                    lower = upper + "/0000:17:01.0", device = lower + "/0000:1b:00.0";
  bus.add(root, "16.0 GT/s PCIe", "16", "1");
  bus.add(upper, "32.0 GT/s PCIe", "16", "1");
  bus.add(lower, "32.0 GT/s PCIe", "16", "1");
  bus.add(device, "32.0 GT/s PCIe", "8", "1");
  const Gpu gpu = bus.placed("0000:1B:00.0");
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_EQ(gpu.pcie, (PcieLink{5, 8}));
  EXPECT_THAT(gpu.switches, ElementsAre(PcieSwitch{"0000:16:00.0", {4, 16}}));
  EXPECT_EQ(bus.placed("0000:1b:00.0", {3, 4}).pcie, (PcieLink{3, 4})) << "the driver knows better";
}

TEST(PciePlaces, ListSwitchesFromTheProcessorDown) {
  const Bus bus;
  const std::string outer = "pci0000:15/0000:15:01.0/0000:16:00.0",
                    inner = outer + "/0000:17:00.0/0000:18:00.0",
                    device = inner + "/0000:19:00.0/0000:1a:00.0";
  bus.add(outer, "16.0 GT/s PCIe", "16");
  bus.add(inner, "8.0 GT/s PCIe", "4");
  bus.add(device, "2.5 GT/s PCIe", "16");
  const Gpu gpu = bus.placed("0000:1a:00.0");
  EXPECT_THAT(gpu.switches,
              ElementsAre(PcieSwitch{"0000:16:00.0", {4, 16}}, PcieSwitch{"0000:18:00.0", {3, 4}}));
  EXPECT_EQ(gpu.pcie, (PcieLink{1, 16}));
}

TEST(PciePlaces, OfAVirtualMachineTellLittle) {
  const Bus bus;
  bus.add("pci0001:00/0001:00:00.0", "Unknown", "255", "-1");
  Gpu gpu = bus.placed("0001:00:00.0");
  EXPECT_EQ(gpu.pcie, PcieLink());
  EXPECT_EQ(gpu.numa_node, -1);
  EXPECT_THAT(gpu.switches, IsEmpty());
  gpu = bus.placed("0001:00:00.0", {5, 0});
  EXPECT_EQ(gpu.pcie, (PcieLink{5, 0}));
}

TEST(PciePlaces, OfUnknownDevicesStayAsTheyWere) {
  const Bus bus;
  for (const std::string bus_id : {"0000:99:00.0", "", "..", "/etc", "nothing"}) {
    const Gpu gpu = bus.placed(bus_id, {4, 16});
    EXPECT_EQ(gpu.pcie, (PcieLink{4, 16})) << bus_id;
    EXPECT_EQ(gpu.numa_node, -1) << bus_id;
    EXPECT_THAT(gpu.switches, IsEmpty()) << bus_id;
  }
}

}  // namespace
}  // namespace pipesim
