#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

inline constexpr std::int64_t kNvidiaVendor = 0x10de, kAmdVendor = 0x1002;

/// A product whose kind of device is built in, as its PCI ids and its driver name it. Sources: NVIDIA's table
/// of supported products (github.com/NVIDIA/open-gpu-kernel-modules, README.md), AMD's list of device ids
/// (github.com/AMD-AGI and rocm.docs.amd.com), pci-ids.ucw.cz.
struct GpuProduct {
  /// How its NVLinks or xGMI links are wired where several are in one host.
  enum class Wiring : std::uint8_t {
    None,      ///< no such links
    Switch,    ///< all lead to NVSwitches
    CubeMesh,  ///< eight in a DGX-1: two quads, fully meshed, joined corner to corner
    Mesh,      ///< every pair has one
    Bridge,    ///< bridges between two cards, where someone mounted them
    Unknown,   ///< differs from machine to machine
  };
  std::int64_t vendor, device_id;
  std::string_view name;            ///< as the driver tells it
  std::string_view kind;            ///< of device_kinds.h
  std::int64_t compute_capability;  ///< 90 for 9.0; 0: AMD's
  std::int64_t links;               ///< NVLinks of one GPU
  Wiring wiring;
};

/// By the driver's name, else by PCI ids. Null when there is none.
const GpuProduct* find_gpu_product(std::string_view name);
const GpuProduct* find_gpu_product(std::int64_t vendor, std::int64_t device_id);
/// The product of that kind that is sold most, which is the one with NVSwitches where there are several.
const GpuProduct* product_of_kind(std::string_view kind);

/// The kind of AMD's GPU by its instruction set ("gfx942") and its compute units (0: not told); "" when there
/// is none. Its processor "910" is gfx90a (RCCL, src/misc/archinfo.cc).
std::string_view amd_kind_of(std::string_view architecture, std::int64_t units);
std::string amd_architecture(std::string_view gcn);      ///< "gfx90a" of "910"
std::string amd_architecture_of(std::string_view kind);  ///< "gfx90a" of "MI250X"; "": no kind of AMD

/// A network interface with its line rate, or one without RDMA, which serves the host and not collectives.
struct NicProduct {
  std::int64_t vendor, device_id;
  std::string_view name;
  std::int64_t gigabits;    ///< a second, of all ports that NCCL drives at a time; 0: not for collectives
  double microseconds = 0;  ///< latency that the plugin tells NCCL; 0: none
};
const NicProduct* find_nic_product(std::int64_t vendor, std::int64_t device_id);

}  // namespace pipesim
