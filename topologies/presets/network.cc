#include "topologies/presets/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

namespace {

using Kind = NetworkOptions::Kind;

// Two levels of such switches, as many ports down as up, join 64 leaves of 32 NICs each: Quantum-2, of which
// NVIDIA's reference architecture of the DGX SuperPOD (B200) builds rails of 32 nodes, two levels up to 256.
constexpr std::int64_t kPorts = 64;
// The latency of a link between switches is 130 ns a switch (NVIDIA, InfiniBand Quantum, port to port) and
// the rest for some 30 m of fibre. It is an estimate; what a NIC costs is in its own link.
constexpr Seconds kBetweenSwitches{0.3e-6};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Adds the numbers of nodes that switches of kPorts take, where options do not say them.
NetworkOptions completed(NetworkOptions options, const NetworkNodes& nodes) {
  const std::int64_t on_a_leaf =
      options.kind == Kind::Rail ? divided_up(nodes.nics, nodes.rails) : nodes.nics;
  if (options.leaf == 0) options.leaf = std::max<std::int64_t>(1, kPorts / 2 / on_a_leaf);
  const std::int64_t most = kPorts * kPorts / 2 / nodes.nics;
  if (options.pod == 0) options.pod = std::max<std::int64_t>(1, most / options.leaf) * options.leaf;
  return options;
}

}  // namespace

std::string_view name_of(NetworkOptions::Kind kind) {
  return kind == Kind::Ideal ? "ideal" : kind == Kind::Rail ? "rail" : "fat-tree";
}

Network::Network(TopologyDraft& draft, const NetworkOptions& options, const NetworkNodes& nodes,
                 const std::string& name)
    : draft_(draft),
      oversubscription_(options.oversubscription),
      core_oversubscription_(options.core_oversubscription) {
  const auto fail = [&](const std::string& what) {
    throw InputError(fmt::format("topology \"{}\": {}", name, what));
  };
  if (options.kind == Kind::Ideal) {
    nodes_of_group_ = nodes.count;
    leaves_ = {{draft.add_switch("network")}};
    return;
  }
  if (nodes.count < 2) fail(fmt::format("network={} needs two nodes or more", name_of(options.kind)));
  const NetworkOptions full = completed(options, nodes);
  if (full.pod % full.leaf != 0) fail(fmt::format("pod={} is no multiple of leaf={}", full.pod, full.leaf));
  nodes_of_group_ = full.leaf;
  groups_of_pod_ = full.pod / full.leaf;

  const std::int64_t groups = divided_up(nodes.count, nodes_of_group_);
  const std::int64_t pods = divided_up(groups, groups_of_pod_);
  const std::int64_t rails = options.kind == Kind::Rail ? nodes.rails : 1;
  if (pods > 1) core_.push_back(draft.add_switch("core"));
  if (groups * rails > 1) {
    for (std::int64_t p = 0; p < pods; ++p)
      spines_.push_back(draft.add_switch(pods > 1 ? fmt::format("pod{}.spine", p) : "spine"));
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    std::vector<DraftVertex>& leaves = leaves_.emplace_back();
    for (std::int64_t r = 0; r < rails; ++r)
      leaves.push_back(draft.add_switch(options.kind == Kind::FatTree ? fmt::format("leaf{}", g)
                                        : groups > 1                  ? fmt::format("group{}.rail{}", g, r)
                                                                      : fmt::format("rail{}", r)));
  }
}

const std::vector<DraftVertex>& Network::switches_of(std::int64_t node) const {
  return leaves_[static_cast<std::size_t>(node / nodes_of_group_)];
}

void Network::link_switches() {
  if (spines_.empty()) return;
  const std::vector<double> below = draft_.junction_bandwidths();
  std::vector<double> of_pods(spines_.size(), 0);
  for (std::size_t g = 0; g < leaves_.size(); ++g) {
    const std::size_t pod = g / static_cast<std::size_t>(groups_of_pod_);
    for (const DraftVertex leaf : leaves_[g]) {
      const double up = below[static_cast<std::size_t>(leaf.index)] / oversubscription_;
      draft_.connect(leaf, spines_[pod], {BytesPerSecond(up), kBetweenSwitches, true});
      of_pods[pod] += up;
    }
  }
  if (core_.empty()) return;
  for (std::size_t p = 0; p < spines_.size(); ++p)
    draft_.connect(spines_[p], core_.front(),
                   {BytesPerSecond(of_pods[p] / core_oversubscription_), kBetweenSwitches, true});
}

}  // namespace pipesim
