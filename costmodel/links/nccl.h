#pragma once

/// Seconds that NCCL adds to what the links take. From its own model, src/graph/tuning.cc of NCCL 2.x, unless
/// said.
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

}  // namespace pipesim::nccl
