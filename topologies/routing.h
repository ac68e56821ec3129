#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// A link in one direction: 2·link is a→b, 2·link+1 is b→a. Half-duplex links have two arcs but one lane.
struct Arc {
  std::int32_t value = -1;
  [[nodiscard]] std::size_t link() const { return static_cast<std::size_t>(value / 2); }
  [[nodiscard]] bool forward() const { return value % 2 == 0; }
};

/// The cost of a route; compared member by member.
struct RouteCost {
  std::int32_t forwarding_devices = 0;  ///< devices in the middle of the way
  std::int64_t picoseconds = 0;         ///< Σ latency + 1 MB / bandwidth; integers, so both directions agree
  auto operator<=>(const RouteCost&) const = default;
};
inline constexpr RouteCost unreached{std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int64_t>::max()};
RouteCost operator+(RouteCost a, RouteCost b);

/// Cost of crossing `link` alone.
std::int64_t crossing_picoseconds(const Link& link);

/// Shortest routes between devices by Dijkstra's algorithm. There is one tree per source, computed on first
/// use. A device with a single link uses the tree of the switch at its end, and trees leave such devices out.
/// A tree takes 4 bytes per remaining vertex. Where nodes hang on a network, trees are over that and one node
/// (node_routes.h). Trees are kept up to 256 MiB in all; then the oldest of the same shard is dropped. Safe
/// to call from several threads. The order of calls does not change the answers.
class Router {
 public:
  /// `parts` must outlive the router and have passed check_parts.
  explicit Router(const TopologyParts& parts, std::size_t tree_bytes = std::size_t{256} << 20);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// The arcs in order from one vertex to another; empty when they are the same.
  [[nodiscard]] std::vector<Arc> way(std::int32_t from, std::int32_t to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipesim
