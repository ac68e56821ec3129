#include "costmodel/links/protocols.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "costmodel/links/nccl.h"

namespace pipesim::nccl {

namespace {

constexpr Bytes largest(std::numeric_limits<std::int64_t>::max());

/// A protocol, and what NCCL thinks of it.
struct Candidate {
  ProtocolTime time;
  double believed_latency = 0, believed_seconds_per_byte = 0;
  [[nodiscard]] double believed(double size) const {
    return believed_latency + size * believed_seconds_per_byte;
  }
};

std::vector<Candidate> candidates(const RingCall& call) {
  const auto n = static_cast<double>(call.devices);
  const double steps = (call.all_reduce ? 2 : 1) * (n - 1);
  const double hop = steps / n / call.bandwidth, own = 1 / (n * own_part_share * call.memory);
  const double start = call.traits.call.value, step = call.step_latency;
  const auto ring = [&](std::string_view name, const RingProtocol& p) {
    return Candidate{
        {name, p.calls * start + p.step_factor * step * steps, hop / p.bandwidth_share + p.own_parts * own,
         p.chunk_calls * start, Bytes(0), Bytes(0), false},
        p.believed_base + p.believed_step * steps,
        hop / p.believed_bandwidth_share};
  };
  std::vector<Candidate> found{ring("ring LL", low_latency), ring("ring LL128", low_latency_128),
                               ring("ring Simple", simple)};
  if (call.traits.in_switch && call.all_reduce) {
    const double rate = switch_rate * std::min(1.0, n / switch_devices) * call.bandwidth;
    found.push_back(
        {{"NVLS", switch_calls * start, 1 / rate, switch_chunk_calls * start, Bytes(0), Bytes(0), true},
         switch_believed_latency,
         1 / rate});
  }
  return found;
}

/// The size at which `later` becomes the faster one, as NCCL believes; infinite when it never does.
double crossing(const Candidate& now, const Candidate& later) {
  const double gain = now.believed_seconds_per_byte - later.believed_seconds_per_byte;
  if (gain <= 0) return std::numeric_limits<double>::infinity();
  return std::max(0.0, (later.believed_latency - now.believed_latency) / gain);
}

}  // namespace

std::vector<ProtocolTime> protocols_of(const RingCall& call) {
  const std::vector<Candidate> all = candidates(call);
  const auto quicker = [](const Candidate& a, const Candidate& b) {
    return a.believed_latency < b.believed_latency;
  };
  const Candidate* now = &*std::min_element(all.begin(), all.end(), quicker);
  std::vector<ProtocolTime> taken{now->time};
  while (true) {
    const auto sooner = [now](const Candidate& a, const Candidate& b) {
      return crossing(*now, a) < crossing(*now, b);
    };
    const Candidate* next = &*std::min_element(all.begin(), all.end(), sooner);
    const double size = std::ceil(crossing(*now, *next));
    if (!(size < static_cast<double>(largest.value))) break;
    const Bytes from = std::max(taken.back().least, Bytes(static_cast<std::int64_t>(size)));
    taken.back().most = from;
    taken.push_back(next->time);
    taken.back().least = from;
    now = next;
  }
  taken.back().most = largest;
  return taken;
}

}  // namespace pipesim::nccl
