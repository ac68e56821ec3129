#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The hardware that NCCL found on the hosts of a communicator, as it writes it to the file that
/// NCCL_TOPO_DUMP_FILE names (NCCL src/graph/xml.cc), or is given in one that NCCL_TOPO_FILE names; RCCL's
/// files for AMD's GPUs likewise. Figures are the file's. `line` is where an element
/// begins, for messages.

/// NVLinks or, between AMD's GPUs, xGMI links of a GPU to one neighbour.
struct NcclNvlink {
  /// Untold: to a GPU if one is there, else to a switch.
  enum class To : std::uint8_t { Gpu, Switch, Cpu, Untold };
  To to = To::Gpu;
  std::string bus_id;  ///< of a GPU
  std::int64_t count = 0;
  std::int64_t line = 0;
  bool seen = false;  ///< it leads to an address that the host sees; a switch there is the host's own
};

struct NcclGpu {
  std::string name;                                ///< "NVIDIA H200"; "": not told, as in all files
  std::int64_t memory = 0;                         ///< bytes, 0: not told, as in all files
  std::optional<std::int64_t> number;              ///< NVML's
  std::optional<std::int64_t> compute_capability;  ///< 90 for 9.0; lacking where the file is not a dump
  std::string architecture;                        ///< "gfx942" of AMD's; "": NVIDIA's
  std::int64_t units = 0;                          ///< compute units of AMD's, 0: not told
  std::int64_t maker = 0;                          ///< vendor, as links or the program tell it; 0: not told
  std::vector<NcclNvlink> nvlinks;
  double chip_to_chip = 0;  ///< GB/s to its CPU (NVLink-C2C), 0: none
  /// The file names the PCI device only, as those that NCCL is given do: NCCL asks the driver for the rest.
  bool bare = false;
};

struct NcclNet {
  std::string name;        ///< "mlx5_0"
  std::int64_t speed = 0;  ///< Mbit/s
  double latency = 0;      ///< µs, 0: not told
};

/// A GPU, a NIC, or a bridge with what is below it.
struct NcclPci {
  std::string bus_id;
  std::int64_t vendor = 0, device_id = 0;  ///< 0: not told
  std::int64_t subsystem_vendor = 0, subsystem_device = 0;
  std::string link_speed;       ///< "16.0 GT/s PCIe"; "": not told
  std::int64_t link_width = 0;  ///< lanes, 0: not told
  std::optional<NcclGpu> gpu;
  bool nic = false;  ///< a network controller by its class
  std::vector<NcclNet> nets;
  std::vector<NcclPci> below;
  std::int64_t line = 0;
};

/// A NUMA domain.
struct NcclCpu {
  std::string host;  ///< hash of the host's name; "" where the file tells none
  std::string architecture, vendor;
  std::int64_t family = 0, model = 0;
  std::vector<NcclPci> pci;
  std::vector<NcclNet> nets;  ///< of virtual machines, which do not tell where they are
};

struct NcclDump {
  std::int64_t line = 0;  ///< of <system>; 0: it was read from no file
  std::vector<NcclCpu> cpus;
  std::vector<std::string> notes;  ///< what was left out or had to be guessed, with its line
};

/// What messages call a GPU: "GPU 0000:18:00.0", or "GPU0" where the file has no addresses.
std::string called(const NcclPci& gpu);

/// What two spellings of a bus id have in common: NCCL compares its hexadecimal digits alone.
std::string bus_key(std::string_view bus_id);

/// InputError `FILE:LINE: …` when the text is no such file.
NcclDump parse_nccl_dump(std::string_view text, const std::string& source);

}  // namespace pipesim
