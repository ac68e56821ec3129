#include "topologies/files/link_rates.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pipesim {

double nvlink_gigabytes(std::int64_t capability) {
  if (capability >= 100) return 40.1;
  if (capability >= 90) return 20.6;
  if (capability == 86) return 12;
  if (capability >= 70) return 20;
  return 18;
}

double xgmi_gigabytes(std::string_view architecture) {
  if (architecture.starts_with("gfx94") || architecture.starts_with("gfx95")) return 48;
  return architecture == "gfx90a" ? 36 : 24;
}

// AMD's families are numbered as /proc/cpuinfo does, or with the extended part shifted by a digit, as NCCL
// itself does.
double between_processors(const NcclCpu& cpu, bool amd_gpus) {
  if (cpu.architecture == "arm64") return 6;
  if (cpu.architecture == "ppc64") return 32;
  if (cpu.vendor == "AuthenticAMD") {
    const bool zen_3_or_4 = cpu.family == 0x19 || cpu.family == 0xaf;
    const bool later = cpu.family == 0x1a || cpu.family == 0xbf;
    return amd_gpus ? 16 : later ? 32 : zen_3_or_4 ? 24 : 16;
  }
  constexpr std::int64_t emerald_rapids = 0xcf, sapphire_rapids = 0x8f, skylake = 0x55;
  if (cpu.vendor != "GenuineIntel" || cpu.family != 6) return 6;
  if (amd_gpus) return cpu.model >= skylake ? 10 : 6;
  if (cpu.model >= emerald_rapids) return 40;
  if (cpu.model >= sapphire_rapids) return 22;
  return cpu.model >= skylake ? 10 : 6;
}

bool knows_processor(const NcclCpu& cpu) {
  if (cpu.architecture == "arm64" || cpu.architecture == "ppc64") return true;
  return cpu.vendor == "AuthenticAMD" || cpu.vendor == "GenuineIntel" || cpu.vendor == "CentaurHauls" ||
         cpu.vendor == "  Shanghai  ";
}

PcieRate pcie_rate(const NcclPci& pci) {
  constexpr std::array<std::pair<std::string_view, double>, 6> rates{
      {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}}};
  constexpr double third_generation = 60, to_gigabytes = 80;  // 100 Mbit/s a lane
  constexpr std::int64_t usual_lanes = 16;
  const std::string_view speed =
      std::string_view(pci.link_speed).substr(0, pci.link_speed.find_first_of(" "));
  const std::string_view digits = speed.ends_with(".0") ? speed.substr(0, speed.size() - 2) : speed;
  const auto* const known = std::ranges::find(rates, digits, &std::pair<std::string_view, double>::first);
  const double rate = known == rates.end() ? third_generation : known->second;
  const std::int64_t width = pci.link_width > 0 ? pci.link_width : usual_lanes;
  return {static_cast<double>(width) * rate / to_gigabytes, known == rates.end() || pci.link_width == 0};
}

}  // namespace pipesim
