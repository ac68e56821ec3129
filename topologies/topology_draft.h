#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// A vertex of a draft. Devices and junctions (switches, NICs) are numbered separately until the draft is
/// finished.
struct DraftVertex {
  bool device = false;
  std::int32_t index = -1;
  bool operator==(const DraftVertex&) const = default;
};

/// The properties of a cable. Bandwidth is the payload rate per direction that software reaches.
struct Cable {
  BytesPerSecond bandwidth;
  Seconds latency;
  bool duplex = true;
};

/// Collects the parts of a topology in any order. Checks nothing: Topology's constructor does.
class TopologyDraft {
 public:
  TopologyDraft(std::string name, std::string source);

  /// The index of the kind of that name, added if there is none yet.
  std::int32_t kind(const DeviceKind& kind);
  std::int32_t add_node(std::string name);
  DraftVertex add_device(std::string name, std::int32_t kind, std::int32_t node);
  DraftVertex add_switch(std::string name, std::int32_t node = -1);
  DraftVertex add_nic(std::string name, std::int32_t node = -1);
  DraftVertex add_bus(std::string name, std::int32_t node = -1);
  void connect(DraftVertex a, DraftVertex b, Cable cable);

  [[nodiscard]] std::int64_t num_devices() const { return static_cast<std::int64_t>(parts_.devices.size()); }
  [[nodiscard]] std::int64_t num_nodes() const { return static_cast<std::int64_t>(parts_.nodes.size()); }
  [[nodiscard]] std::int64_t num_junctions() const { return static_cast<std::int64_t>(junctions_.size()); }
  [[nodiscard]] std::int64_t num_links() const { return static_cast<std::int64_t>(ends_.size()); }

  /// By a junction's index: the bandwidths of its links so far, added up, in bytes a second.
  [[nodiscard]] std::vector<double> junction_bandwidths() const;

  [[nodiscard]] TopologyParts finish() &&;

 private:
  struct Ends {
    DraftVertex a, b;
  };
  DraftVertex add_junction(std::string name, VertexKind kind, std::int32_t node);

  TopologyParts parts_;
  std::unordered_map<std::string, std::int32_t> kind_of_name_;
  std::vector<Vertex> junctions_;
  std::vector<Ends> ends_;  ///< of parts_.links, in their order
};

}  // namespace pipesim
