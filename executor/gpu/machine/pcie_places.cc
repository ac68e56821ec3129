#include "executor/gpu/machine/pcie_places.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace pipesim {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_in(const fs::path& path, int otherwise) {
  const std::string text = first_line(path);
  int value = otherwise;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? value : otherwise;
}

// "32.0 GT/s PCIe", or "Unknown" in many virtual machines.
int generation_of(std::string_view speed) {
  constexpr std::array<std::string_view, 6> rates{"2.5", "5", "8", "16", "32", "64"};
  std::string_view digits = speed.substr(0, speed.find(' '));
  if (digits.ends_with(".0")) digits.remove_suffix(2);
  const auto* const known = std::ranges::find(rates, digits);
  return known == rates.end() ? 0 : static_cast<int>(known - rates.begin()) + 1;
}

PcieLink end_of_link(const fs::path& device) {
  constexpr int most_lanes = 32;  // 255 stands for unknown
  const int lanes = number_in(device / "max_link_width", 0);
  return {generation_of(first_line(device / "max_link_speed")), lanes > 0 && lanes <= most_lanes ? lanes : 0};
}

int lower_known(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// "0000:18:00.0", apart from "pci0000:16", which is a root of the bus.
bool is_bus_id(std::string_view name) {
  const std::size_t dot = name.rfind('.'), colon = name.find(':');
  return dot != std::string_view::npos && colon != std::string_view::npos && colon > 0 && colon < dot &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isxdigit(c) || c == ':' || c == '.'; });
}

PcieLink link_above(const fs::path& device) {
  const PcieLink here = end_of_link(device), port = end_of_link(device.parent_path());
  if (!is_bus_id(device.parent_path().filename().string())) return here;
  return {lower_known(here.generation, port.generation), lower_known(here.lanes, port.lanes)};
}

// Above a device is a port of the root or the lower port of a switch, and above that the switch's upper one.
std::vector<PcieSwitch> switches_above(const fs::path& device) {
  std::vector<PcieSwitch> switches;
  for (fs::path at = device.parent_path().parent_path(); is_bus_id(at.filename().string());
       at = at.parent_path().parent_path())
    switches.insert(switches.begin(), {at.filename().string(), link_above(at)});
  return switches;
}

}  // namespace

void add_pcie_places(GpuInventory& inventory, const std::string& devices) {
  for (Gpu& gpu : inventory.gpus) {
    std::string name = gpu.bus_id;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::error_code missing;
    const fs::path device = fs::canonical(fs::path(devices) / name, missing);
    if (missing || !is_bus_id(name)) continue;
    const PcieLink link = link_above(device);
    if (gpu.pcie.generation == 0) gpu.pcie.generation = link.generation;
    if (gpu.pcie.lanes == 0) gpu.pcie.lanes = link.lanes;
    gpu.numa_node = number_in(device / "numa_node", gpu.numa_node);
    gpu.switches = switches_above(device);
  }
}

}  // namespace pipesim
