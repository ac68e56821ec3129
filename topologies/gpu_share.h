#pragma once

#include <string>
#include <string_view>

#include "topologies/topology.h"

namespace pipesim {

/// What part of a GPU a device is. Parts share the GPU's memory, its caches and the way to them.
struct GpuShare {
  int parts = 1;            ///< of equally many multiprocessors; 1: the device is the whole GPU
  int multiprocessors = 0;  ///< of each part, as the driver gave them
  int of = 0;               ///< of the whole GPU
  bool operator==(const GpuShare&) const = default;
};

/// What a kind of device is called, of which devices are such a part: "H200/8 (16 of 132 SMs)". A kind that
/// has such a name already is taken for the whole GPU that it says.
std::string name_of_share(std::string_view kind, const GpuShare& share);

/// Devices of such a kind are parts of a GPU.
bool names_share(std::string_view kind);
/// The same devices, each such a part of a GPU: their kinds are called so. Figures are as before. Kinds that
/// are called alike then become one; InputError when their figures differ.
Topology with_share(const Topology& topology, const GpuShare& share);

/// That part of a kind. Rates of computing are the part's multiprocessors' (those that no part has are idle);
/// memory and its bandwidth are divided equally, as when all parts are busy: one that is busy alone is faster
/// than this. `source` says which figures are derived.
DeviceKind share_of(const DeviceKind& whole, const GpuShare& share);

/// The parts of one GPU as devices "part0", "part1" …, on one bus that every copy from part to part holds:
/// each byte is read from the GPU's memory and written to it, at half its achievable bandwidth. A copy begins
/// like a kernel. InputError unless 2 ≤ parts ≤ max_devices and 1 ≤ multiprocessors ≤ of / parts.
Topology divided_gpu(const std::string& name, const DeviceKind& whole, const GpuShare& share);

}  // namespace pipesim
