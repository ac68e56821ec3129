#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "topologies/topology.h"

namespace pipesim::nccl {

/// A ring of devices inside a node, as NCCL's protocols see it.
struct RingCall {
  bool all_reduce = true;  ///< else a reduce-scatter or an all-gather
  std::size_t devices = 2;
  double bandwidth = 0;     ///< bytes per second that all rings together carry over each hop
  double step_latency = 0;  ///< seconds of a hop, mean over the hops
  double memory = 0;        ///< peak bandwidth of a device's memory, bytes per second
  CollectiveTraits traits;
};

/// How long a protocol takes: latency + T + 2√(κT), T = size · seconds_per_byte.
struct ProtocolTime {
  std::string_view name;  ///< "ring LL", "ring LL128", "ring Simple", "NVLS"
  double latency = 0;     ///< seconds
  double seconds_per_byte = 0;
  double chunk_overhead = 0;  ///< κ in seconds
  Bytes least, most;          ///< NCCL takes it from `least` bytes up to below `most`
  bool in_switch = false;     ///< the switch adds and copies (NVLS), else a ring
};

/// The protocols that NCCL takes, by ascending size; the first from 0, the last up to the largest number of
/// bytes.
///
/// NCCL takes the protocol that its own model says is the fastest: latency + size / bandwidth with the
/// constants of src/graph/tuning.cc (2.28), LL, LL128 and Simple on rings, and NVLS where a switch adds. How
/// long that protocol then takes is another matter, for which nccl.h has the constants. A ring of n devices
/// takes k = 2(n−1) steps to reduce and gather, n−1 for either:
///   LL      call + k·step + T;     T: half of the bytes are flags
///   LL128   2·call + 1.5·k·step + T
///   Simple  2.5·call + 3.5·k·step + T + 2√(κT)
///   NVLS    4·call + T + 2√(κT)
/// T is k/n of the size at the protocol's share of the bandwidth, and the device's own n-th part copied
/// through its memory.
std::vector<ProtocolTime> protocols_of(const RingCall& call);

}  // namespace pipesim::nccl
