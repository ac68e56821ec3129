#pragma once

#include <algorithm>
#include <vector>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

inline constexpr Nanoseconds kNoChain = -1;  ///< no chain leads there

/// By shard: the end of the longest chain, or kNoChain.
using Moments = std::vector<Nanoseconds>;

inline Nanoseconds after(Nanoseconds moment, Nanoseconds duration) {
  return moment == kNoChain ? kNoChain : moment + duration;
}

inline Nanoseconds least(const Moments& moments) {
  return moments.empty() ? kNoChain : *std::ranges::min_element(moments);
}

/// Returns what this time adds at least to a task of a process, whose sum of times is rounded.
inline Nanoseconds least_host_time(Seconds time) {
  return std::max<Nanoseconds>(0, to_nanoseconds(time) - 1);
}

/// A pass of one shard: its stages follow one another.
inline Nanoseconds duration_of(const PassWork& work, std::size_t shard, std::size_t shards) {
  Nanoseconds sum = 0;
  for (std::size_t i = shard; i < work.durations.size(); i += shards) sum += work.durations[i];
  return sum;
}

}  // namespace pipesim
