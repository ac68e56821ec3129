#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "executor/operators/device_code.h"

namespace pipesim::gpu {

// A body is code that a device runs many times in parallel: a plain struct of numbers and device addresses.
// It has either
//
//   void operator()(std::int64_t i) const                             for every i below a count, or
//   template <class Team> void operator()(Team& team, std::int64_t i) const
//
// where the threads of a team (a block of threads) share one i. A team has
//
//   int rank(), size()          this thread's number, 0 ≤ rank < size
//   double sum(double)          over its threads, always in the same order
//   float max(float)            over its threads
//   void barrier()              what its threads wrote to memory before is seen by all of them after
//
// which all of its threads call, in the same order. A body whose work for an index is short says
//
//   static constexpr bool in_small_teams = true;
//
// and gets teams of fewer threads (a warp), which meet faster.

/// A team of one thread. Shows the functions that bodies may call.
struct OneThread {
  [[nodiscard]] PIPESIM_DEVICE int rank() const { return 0; }
  [[nodiscard]] PIPESIM_DEVICE int size() const { return 1; }
  PIPESIM_DEVICE double sum(double x) const { return x; }
  PIPESIM_DEVICE float max(float x) const { return x; }
  PIPESIM_DEVICE void barrier() const {}
};

template <class Body>
inline constexpr bool runs_in_teams = requires(const Body& body, OneThread& team, std::int64_t i) {
  body(team, i);
};

template <class Body>
inline constexpr bool runs_in_small_teams = runs_in_teams<Body>&& requires {
  requires Body::in_small_teams;
};

template <class... Body>
struct BodyList {
  static constexpr std::size_t size = sizeof...(Body);
};

/// The place of a body in a list.
template <class Body, class... All>
constexpr std::size_t place_in(BodyList<All...> /*list*/) {
  std::size_t place = 0;
  const bool found = ((std::is_same_v<Body, All> || (++place, false)) || ...);
  return found ? place : sizeof...(All);
}

}  // namespace pipesim::gpu
