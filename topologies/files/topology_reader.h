#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/json_reader.h"
#include "topologies/topology_draft.h"

namespace pipesim {

/// The device kind that `value` spells out under the name `name`, or whose built-in name it is (a string).
DeviceKind read_device_kind(const std::string& name, const JsonValue& value);

/// "bandwidth", "latency" and "duplex" of an object; `latency_needed` false: a missing latency is 0.
Cable read_cable(const JsonValue& value, bool latency_needed);

/// Reads one topology file, part by part, into a draft. Every mistake is an InputError at its place in the
/// file.
class TopologyReader {
 public:
  explicit TopologyReader(const JsonValue& root);
  [[nodiscard]] TopologyParts read() &&;

 private:
  /// The names that links of one part of the file may use: those that begin with `prefix`, from `first` on,
  /// and core switches.
  struct Scope {
    std::string prefix;
    std::size_t first = 0;
    std::optional<std::int64_t> number = {};  ///< what '#' stands for in links that are repeated
  };

  void read_levels(const JsonValue& levels);
  void read_named_parts();
  void read_node_group(const JsonValue& value);
  void read_node_copies(const JsonValue& group, const JsonValue& body);
  [[nodiscard]] std::string usual_prefix(const std::string& node) const;
  void add_node(const JsonValue& place, const std::string& name, const std::string& prefix,
                const JsonValue& body);
  void read_node_body(const JsonValue& body, std::int32_t node, const Scope& scope);
  void read_devices(const JsonValue& list, const std::string& prefix, std::int32_t node);
  void read_flat_device(const JsonValue& value);
  void read_flat_vertex(const JsonValue& value);
  void read_vertex(const JsonValue& value, const std::string& prefix, std::int32_t node);
  void read_core_switches(const JsonValue& list);
  void read_junctions(const JsonValue& list, VertexKind kind, const std::string& prefix, std::int32_t node);
  void read_network(const JsonValue& network);
  void read_links(const JsonValue& list, const Scope& scope);
  void read_repeated_links(const JsonValue& value, const Scope& scope);
  void read_link(const JsonValue& value, const Scope& scope);

  std::int32_t device_kind(const JsonValue& value);
  std::int32_t node_named(const JsonValue& value);
  [[nodiscard]] std::vector<DraftVertex> vertices_like(const JsonValue& value, const Scope& scope) const;
  void add_device(const JsonValue& place, const std::string& name, std::int32_t kind, std::int32_t node);
  void add_junction(const JsonValue& place, const std::string& name, VertexKind kind, std::int32_t node);
  void note(const JsonValue& place, const std::string& name, DraftVertex vertex);
  void connect(const JsonValue& place, DraftVertex a, DraftVertex b, Cable cable);

  struct Named {
    std::string name;
    DraftVertex vertex;
  };
  struct NodeNic {
    std::int32_t node;
    DraftVertex vertex;
  };

  JsonValue root_;
  TopologyDraft draft_;
  std::unordered_map<std::string, DeviceKind> kinds_;  ///< of the file
  std::unordered_map<std::string, JsonValue> node_kinds_;
  std::unordered_map<std::string, std::int32_t> nodes_;
  std::vector<std::string> node_names_;
  std::unordered_map<std::string, DraftVertex> vertices_;
  std::unordered_map<std::string, DraftVertex> core_;  ///< switches that links of nodes may name
  std::vector<Named> in_order_;                        ///< the vertices, as they were added
  std::vector<NodeNic> nics_;
  /// With a single node, its vertices are named without the node's name, but are known with it as well, so
  /// that links which are written for several nodes hold for one. The core switches and the node's vertices
  /// are the first `of_only_node_`.
  bool one_node_ = false;
  std::size_t of_only_node_ = 0;
};

}  // namespace pipesim
