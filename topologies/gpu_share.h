#pragma once

#include <string>
#include <string_view>

#include "topologies/topology.h"

namespace pipesim {

/// The part of a GPU that a device is. Parts share the GPU's memory, its caches and the path to them.
struct GpuShare {
  int parts = 1;            ///< of equally many multiprocessors; 1: the device is the whole GPU
  int multiprocessors = 0;  ///< of each part, as the driver gave them
  int of = 0;               ///< of the whole GPU
  bool operator==(const GpuShare&) const = default;
};

/// The name of the kind of devices that are such a part: "H200/8 (16 of 132 SMs)". When `kind` is such a name
/// already, the GPU in it counts as the whole GPU.
std::string name_of_share(std::string_view kind, const GpuShare& share);

/// Whether `kind` is the name of a part of a GPU.
bool names_share(std::string_view kind);
/// The same devices under kinds named as such a part of a GPU. Figures stay the same. Kinds that get the same
/// name become one; InputError when their figures differ.
Topology with_share(const Topology& topology, const GpuShare& share);

/// The kind of device that is such a part of `whole`. Its compute rates are those of the part's
/// multiprocessors; those that no part has are idle. Memory and its bandwidth are divided equally, as when
/// all parts are busy; a part that is busy alone is faster than this. `source` says which figures are
/// derived.
DeviceKind share_of(const DeviceKind& whole, const GpuShare& share);

/// The parts of one GPU as devices "part0", "part1" …, on one bus that every copy from part to part holds:
/// each byte is read from the GPU's memory and written to it, at half its achievable bandwidth. A copy begins
/// like a kernel. InputError unless 2 ≤ parts ≤ max_devices and 1 ≤ multiprocessors ≤ of / parts.
Topology divided_gpu(const std::string& name, const DeviceKind& whole, const GpuShare& share);

}  // namespace pipesim
