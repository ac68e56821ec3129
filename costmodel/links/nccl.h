#pragma once

/// Seconds that NCCL adds to what the links take, and how it chooses among protocols. From its own model,
/// src/graph/tuning.cc of NCCL 2.x, unless said.
namespace pipesim::nccl {

/// Once a call: a ring or tree in the low-latency protocol. Every step adds its route's latency.
inline constexpr double call_overhead = 6.6e-6;

// κ, a chunk's cost beside its bytes: a step of the bandwidth protocol over NVLink, over the network. Fits of
// T + 2√(κT) to public NCCL sweeps on V100, A100 and H100 give κ = 3–10 µs inside nodes.
inline constexpr double chunk_overhead = 3.4e-6;
inline constexpr double network_chunk_overhead = 14e-6;

/// A further peer in an all-to-all: slope over 2, 4, 8 GPUs at 1 KiB in ai-dynamo/aiconfigurator's NCCL
/// sweeps.
inline constexpr double peer_overhead = 0.3e-6;

/// A protocol on rings inside a node. `believed`: what NCCL's model has (2.28). The rest is what a call
/// takes, in units of the kind's own figures: fitted (least |log error|) to ai-dynamo/aiconfigurator's sweeps
/// on A100 and H100 and to VIA-Research/vTrain's on V100, one set for all. Fitted to A100 and V100 alone,
/// they are off by 6 % on H100 from 1 MiB on (median); fitted to all three, by 4 %.
struct RingProtocol {
  double calls = 1;                             ///< before the first byte moves, by CollectiveTraits::call
  double step_factor = 1;                       ///< of a step, by the latency of its links
  double bandwidth_share = 1;                   ///< of the links
  double own_parts = 1;                         ///< how often the device's own part passes its memory
  double chunk_calls = 0;                       ///< κ by CollectiveTraits::call
  double believed_base = 0, believed_step = 0;  ///< seconds
  double believed_bandwidth_share = 1;
};
/// Half of the bytes are flags. NCCL caps it at 39, 87.7, 141 and 282 GB/s on Volta to Blackwell, which are
/// 0.30 to 0.39 of their rings.
inline constexpr RingProtocol low_latency{1, 1, 0.5, 5, 0, 6.6e-6, 0.6e-6, 0.375};
/// Eight of each 128 bytes are flags.
inline constexpr RingProtocol low_latency_128{2, 1.5, 0.76, 1, 0, 14e-6, 1.9e-6, 0.92};
inline constexpr RingProtocol simple{2.5, 3.5, 1, 1, 0.05, 8.4e-6, 3.4e-6, 1};

/// What a device's memory gives to copies of its own part, by its peak bandwidth.
inline constexpr double own_part_share = 0.28;

/// NVLS, by the rings' bandwidth: NCCL counts 0.85 of 8 × 40 GB/s for eight H100, whose rings have 370.8, and
/// 0.74 of 8 × 90 for B200, 721.8. Each GPU brings a channel, so fewer GPUs have less.
inline constexpr double switch_rate = 0.733, switch_devices = 8;
inline constexpr double switch_calls = 4, switch_chunk_calls = 0.6, switch_believed_latency = 25e-6;

/// All-to-all inside a node, in the units of RingProtocol.
inline constexpr double direct_calls = 1.25, direct_chunk_calls = 0.4;

}  // namespace pipesim::nccl
