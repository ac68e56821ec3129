#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology_draft.h"

namespace pipesim {

/// The network that joins the nodes of a preset.
///
/// Ideal: one switch without limits. Rail: NIC i of all nodes of a group on leaf switch i of the group.
/// FatTree: all NICs of a group on one leaf switch. Above several leaves, in both, are the spines of a pod,
/// and above several pods the core. Traffic is taken to spread evenly over switches of the same sort: the
/// spines of a pod are one switch with the links of all, and so is the core.
struct NetworkOptions {
  enum class Kind : std::uint8_t { Ideal, Rail, FatTree };
  Kind kind = Kind::Ideal;
  std::int64_t leaf = 0;             ///< nodes of a group; 0: as many as switches of 64 ports take
  std::int64_t pod = 0;              ///< nodes below the same spines, a multiple of leaf; 0: so, too
  double oversubscription = 1;       ///< bandwidth of a leaf's NICs divided by that of its way to the spines
  double core_oversubscription = 1;  ///< leaf-to-spine bandwidth of a pod divided by that to the core
  bool operator==(const NetworkOptions&) const = default;
};

std::string_view name_of(NetworkOptions::Kind kind);  ///< "ideal", "rail", "fat-tree"

/// What a network must know of the nodes.
struct NetworkNodes {
  std::int64_t count = 1;
  std::int64_t nics = 1;   ///< of a node
  std::int64_t rails = 1;  ///< NIC i is on rail i modulo this
};

/// Builds a network: its switches before the nodes, the links between them when all nodes are there.
class Network {
 public:
  /// InputError, about the topology called `name`, when the options do not suit the nodes.
  Network(TopologyDraft& draft, const NetworkOptions& options, const NetworkNodes& nodes,
          const std::string& name);

  /// NIC i of the node is on switch i modulo their number.
  [[nodiscard]] const std::vector<DraftVertex>& switches_of(std::int64_t node) const;

  /// Gives each way up the bandwidth of what is below it, divided by the oversubscription.
  void link_switches();

 private:
  TopologyDraft& draft_;
  double oversubscription_, core_oversubscription_;
  std::int64_t nodes_of_group_ = 1, groups_of_pod_ = 1;
  std::vector<std::vector<DraftVertex>> leaves_;  ///< by group
  std::vector<DraftVertex> spines_, core_;        ///< by pod; none or one
};

}  // namespace pipesim
