#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "sim/base/rng.h"
#include "taskgraph/plan/parallel_config.h"
#include "topologies/topology.h"

namespace pipesim {

/// A list of devices on which configs are placed.
struct DeviceList {
  std::string what;  ///< "single", "aligned block of 4", "one device per node, 2nd of each"
  std::vector<DeviceId> devices;
};

/// Sizes of a mesh's axes: {8, 4}.
using MeshAxes = std::vector<std::int32_t>;

/// The configs that search algorithms draw from, shared by MCMC and exhaustive search: every legal way to
/// split an operator over one of a fixed set of device lists. Plans written by hand may use any list.
///
/// Lists: every single device; aligned contiguous blocks whose size divides a node's devices, whole nodes,
/// aligned blocks of whole nodes whose number divides the nodes, all devices; and one device of every node (a
/// list for each position). Shards take the list in order (last factor fastest); with copies, both copies
/// slowest and copies fastest.
class CandidateSet {
 public:
  CandidateSet(const OperatorGraph& graph, const Topology& topology);
  /// Takes these lists alone, each once.
  CandidateSet(const OperatorGraph& graph, const Topology& topology, std::vector<DeviceList> lists);
  /// Takes configs on all devices, as a mesh with axes of these sizes, the last one fastest. Copies and
  /// degrees are each 1 or the product of adjacent axes, in the order in which shards take the devices.
  /// InputError where the mesh has another number of devices.
  CandidateSet(const OperatorGraph& graph, const Topology& topology, MeshAxes mesh);

  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] std::span<const DeviceList> device_lists() const { return lists_; }
  /// Number of configs of the operator.
  [[nodiscard]] std::size_t size(OperatorId op) const;
  /// Operators of one class have the same configs by number.
  [[nodiscard]] std::size_t class_of(OperatorId op) const { return class_of_[op.index()]; }
  /// The i-th config, 0 ≤ i < size(op); distinct for distinct i.
  [[nodiscard]] ParallelConfig config(OperatorId op, std::size_t i) const;
  /// Draws uniformly from all configs of the operator.
  [[nodiscard]] ParallelConfig random(OperatorId op, Rng& rng) const;
  /// The i-th config as a size of lists, a list and a split. Lists of one size are numbered from 0, and so
  /// are the splits for that size.
  struct Position {
    std::size_t size = 0, list = 0, split = 0;
    bool operator==(const Position&) const = default;
  };
  [[nodiscard]] Position position(OperatorId op, std::size_t i) const;
  [[nodiscard]] std::size_t index(OperatorId op, Position p) const;
  [[nodiscard]] std::size_t num_sizes() const { return sizes_.size(); }
  [[nodiscard]] std::size_t num_lists(std::size_t size) const { return sizes_[size].lists.size(); }
  [[nodiscard]] std::size_t num_splits(OperatorId op, std::size_t size) const;
  [[nodiscard]] const DeviceList& list(std::size_t size, std::size_t i) const {
    return lists_[sizes_[size].lists[i]];
  }
  /// The number of a config, or nothing when it is not in the set.
  [[nodiscard]] std::optional<std::size_t> find(OperatorId op, const ParallelConfig& config) const;
  /// Degree vectors (with copies) that give a shard to each device of a list of this size.
  struct Split {
    std::vector<std::int32_t> degrees;
    std::int32_t replicas = 1;
    bool replicas_fastest = false;
    bool operator==(const Split&) const = default;
  };
  [[nodiscard]] const std::vector<Split>& splits(OperatorId op, std::size_t size) const;
  [[nodiscard]] static ParallelConfig place(const Split& split, std::span<const DeviceId> devices);
  /// A few lines for people: how many lists of each kind, configs per operator.
  [[nodiscard]] std::string str() const;

 private:
  struct SizeClass {
    std::int64_t shards;
    std::vector<std::size_t> lists;
  };
  void add_list(std::string what, std::vector<DeviceId> devices);
  void add_blocks();
  void add_one_per_node();
  void sort_by_size();
  void enumerate(OperatorId op);

  const OperatorGraph& graph_;
  const Topology& topology_;
  std::vector<DeviceList> lists_;
  MeshAxes mesh_;                                        // none: any split
  std::vector<SizeClass> sizes_;                         // ascending
  std::vector<std::vector<std::vector<Split>>> splits_;  // [operator's class][size class]
  std::vector<std::size_t> class_of_;  // operators with equal factors and uses share their splits
  std::vector<std::vector<std::size_t>> first_config_;  // [operator's class][size class], last: the total
};

}  // namespace pipesim
