#include "topologies/gpu_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

// Before "/8 (16 of 132 SMs)".
std::string_view whole_name(std::string_view kind) {
  constexpr std::string_view digits = "0123456789", middle = " of ", end = " SMs)";
  const auto drop_number = [&](std::string_view& text) {
    const std::size_t before = text.find_last_not_of(digits);
    if (before == std::string_view::npos || before + 1 == text.size()) return false;
    text = text.substr(0, before + 1);
    return true;
  };
  const auto drop = [](std::string_view& text, std::string_view suffix) {
    if (!text.ends_with(suffix)) return false;
    text.remove_suffix(suffix.size());
    return true;
  };
  std::string_view rest = kind;
  const bool share = drop(rest, end) && drop_number(rest) && drop(rest, middle) && drop_number(rest) &&
                     drop(rest, " (") && drop_number(rest) && drop(rest, "/") && !rest.empty();
  return share ? rest : kind;
}

void check(const std::string& name, const GpuShare& share) {
  if (share.parts >= 2 && share.parts <= max_devices && share.multiprocessors >= 1 &&
      share.of / share.parts >= share.multiprocessors)
    return;
  throw InputError(fmt::format(
      "topology \"{}\": found {} parts of {} multiprocessors, allowed: from 2 parts on, of as many as a GPU "
      "has, which are {}",
      name, share.parts, share.multiprocessors, share.of));
}

}  // namespace

std::string name_of_share(std::string_view kind, const GpuShare& share) {
  const std::string_view whole = whole_name(kind);
  if (share.parts == 1) return std::string(whole);
  return fmt::format("{}/{} ({} of {} SMs)", whole, share.parts, share.multiprocessors, share.of);
}

bool names_share(std::string_view kind) { return whole_name(kind) != kind; }

Topology with_share(const Topology& topology, const GpuShare& share) {
  TopologyParts parts = topology.parts();
  std::vector<DeviceKind> kinds;
  std::vector<std::int32_t> number;  // of each kind in `kinds`
  for (DeviceKind& kind : parts.kinds) {
    const std::string before = std::exchange(kind.name, name_of_share(kind.name, share));
    const auto same = std::ranges::find(kinds, kind.name, &DeviceKind::name);
    number.push_back(static_cast<std::int32_t>(same - kinds.begin()));
    if (same == kinds.end()) {
      kinds.push_back(std::move(kind));
    } else if (*same != kind) {
      throw InputError(fmt::format(
          "topology \"{}\": its device kind \"{}\" and one before it would both be \"{}\", but differ; all "
          "devices here are alike: take a topology with one of these kinds",
          topology.name(), before, same->name));
    }
  }
  parts.kinds = std::move(kinds);
  for (Device& device : parts.devices) device.kind = number[static_cast<std::size_t>(device.kind)];
  if (parts == topology.parts()) return topology;
  return Topology(std::move(parts)).with_memory_margin(topology.memory_margin());
}

DeviceKind share_of(const DeviceKind& whole, const GpuShare& share) {
  DeviceKind part = whole;
  part.name = name_of_share(whole.name, share);
  const double computing = static_cast<double>(share.multiprocessors) / share.of;
  for (auto& [type, rate] : part.peak) rate = FlopsPerSecond(rate.value * computing);
  part.memory = Bytes(whole.memory.value / share.parts);
  part.memory_bandwidth = BytesPerSecond(whole.memory_bandwidth.value / share.parts);
  part.memory_overhead = {};  // no figures of parts
  part.collectives.reset();
  part.source = fmt::format(
      "{}; derived: peak rates are {} of {} multiprocessors', memory and its bandwidth 1/{} of the GPU's, as "
      "when all parts are busy; the rest is the whole GPU's",
      whole.source, share.multiprocessors, share.of, share.parts);
  return part;
}

Topology divided_gpu(const std::string& name, const DeviceKind& whole, const GpuShare& share) {
  check(name, share);
  const double achievable = whole.memory_bandwidth.value * whole.memory_efficiency;
  TopologyDraft draft(
      name, fmt::format("{} as {} devices of {} of its {} multiprocessors, as the driver gave them; derived: "
                        "copies between them share half the achievable bandwidth of its memory ({} x {:g} of "
                        "its kind), since each byte is read and written, and begin like a kernel",
                        whole.name, share.parts, share.multiprocessors, share.of,
                        pretty(whole.memory_bandwidth), whole.memory_efficiency));
  const std::int32_t node = draft.add_node("gpu"), kind = draft.kind(share_of(whole, share));
  const DraftVertex memory = draft.add_bus("memory", node);
  const Cable way{BytesPerSecond(achievable / 2), Seconds(whole.launch_overhead.value / 2), false};
  for (int p = 0; p < share.parts; ++p)
    draft.connect(draft.add_device(fmt::format("part{}", p), kind, node), memory, way);
  return Topology(std::move(draft).finish());
}

}  // namespace pipesim
