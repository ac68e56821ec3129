#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Where a link is: inside a node; inside one, with a NIC at an end; or on the way to other nodes.
enum class LinkPlace : std::uint8_t { InsideNode, ToNic, BetweenNodes };

/// The places of a topology's links, as the links were when this was made.
class LinkPlaces {
 public:
  explicit LinkPlaces(const TopologyParts& parts);

  [[nodiscard]] LinkPlace place(std::size_t link) const { return places_[link]; }
  /// Returns the numbers of the links at a place.
  [[nodiscard]] const std::vector<std::size_t>& of(LinkPlace place) const {
    return links_[static_cast<std::size_t>(place)];
  }
  /// There must be a link at the place.
  [[nodiscard]] BytesPerSecond narrowest(LinkPlace place) const;
  [[nodiscard]] BytesPerSecond widest(LinkPlace place) const;
  [[nodiscard]] Seconds longest_latency(LinkPlace place) const;
  /// Returns the bandwidth of the widest link from the NIC of this link to other nodes; 0 where it has none.
  [[nodiscard]] BytesPerSecond behind_nic(std::size_t link) const {
    return std::max(widest_to_others_[static_cast<std::size_t>(all_[link].a)],
                    widest_to_others_[static_cast<std::size_t>(all_[link].b)]);
  }
  /// Returns the number of NICs of the node that has most.
  [[nodiscard]] std::int64_t nics_of_node() const { return nics_of_node_; }

 private:
  std::int64_t nics_of_node_ = 0;
  std::vector<LinkPlace> places_;
  std::vector<Link> all_;
  std::array<std::vector<std::size_t>, 3> links_;  // by place
  std::vector<BytesPerSecond> widest_to_others_;   // by vertex
};

}  // namespace pipesim
