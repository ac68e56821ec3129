#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipesim {

/// Whether moves of a cycle change repeats of a block together, or single operators.
enum class Grain : std::uint8_t { Repeats, Operators };
constexpr std::size_t kGrains = 2;

/// A cycle of rounds in which chains cool down.
struct Cycle {
  Grain grain = Grain::Operators;
  std::size_t chains = 0;              ///< number of chains that take part, the first ones
  std::int64_t round = 0, rounds = 0;  ///< done, and of the cycle
  double cost_before = 0;              ///< the least cost when it began
  std::vector<double> begun;           ///< by rung: what its chain cost when it began
  bool operator==(const Cycle&) const = default;

  [[nodiscard]] bool over() const { return round >= rounds; }
  [[nodiscard]] double done() const { return static_cast<double>(round) / static_cast<double>(rounds); }
};

/// The n-th cycle of a grain, n from 0. Each is longer than the one before. The first has few chains, so that
/// a large model soon has a first good plan.
Cycle nth_cycle(Grain grain, std::int64_t n, std::size_t chains);

/// The heat at which the grain's next cycle begins, after one that began at `heat`. It is cooler when more
/// than half of the chains ended above their initial cost, since they had too little time to come down.
/// Otherwise it is hotter, but above 1 only while nothing is gained.
double next_heat(double heat, const std::vector<double>& begun, const std::vector<double>& ended,
                 bool gained);

}  // namespace pipesim
