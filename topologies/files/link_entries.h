#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// An entry of a file's "links": links between all vertices that `a` and `b` match, or `count` repetitions of
/// `links`.
struct LinkEntry {
  std::string a, b;  ///< names, or patterns with one '*' for a number; in repeated ones '#' is the repetition
  Link cable;        ///< its figures
  std::int64_t count = 0;
  std::vector<LinkEntry> links;
};

/// Whether both links have the same bandwidth, latency and duplex.
bool same_cable(const Link& a, const Link& b);

/// Writes links in few entries, in their order. `order`: the vertices in the order in which a reader adds
/// them and matches patterns. `name`: the name of each vertex that links use.
std::vector<LinkEntry> folded_links(std::span<const Link> links, std::vector<std::int32_t> order,
                                    std::map<std::int32_t, std::string> name);

}  // namespace pipesim
