#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// An entry of a file's "links": links between all that `a` and `b` stand for, or `count` times `links`.
struct LinkEntry {
  std::string a, b;  ///< names, or patterns with one '*' for a number; in repeated ones '#' is the repetition
  Link cable;        ///< its figures
  std::int64_t count = 0;
  std::vector<LinkEntry> links;
};

/// Can do the same.
bool same_cable(const Link& a, const Link& b);

/// Links in few entries, in their order. `order`: the vertices that patterns see, as a reader adds them;
/// `name`: what links call any vertex.
std::vector<LinkEntry> folded_links(std::span<const Link> links, std::vector<std::int32_t> order,
                                    std::map<std::int32_t, std::string> name);

}  // namespace pipesim
