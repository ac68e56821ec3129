#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipesim {

/// What moves change in a cycle: repeats of a block together, or single operators.
enum class Grain : std::uint8_t { Repeats, Operators };
constexpr std::size_t kGrains = 2;

/// A cycle of rounds in which chains cool down.
struct Cycle {
  Grain grain = Grain::Operators;
  std::size_t chains = 0;              ///< that take part: the first so many
  std::int64_t round = 0, rounds = 0;  ///< done, and of the cycle
  double cost_before = 0;              ///< the least cost when it began
  std::vector<double> begun;           ///< by rung: what its chain cost when it began
  bool operator==(const Cycle&) const = default;

  [[nodiscard]] bool over() const { return round >= rounds; }
  [[nodiscard]] double done() const { return static_cast<double>(round) / static_cast<double>(rounds); }
};

/// The n-th cycle of a grain, n from 0: each longer than the one before; the first with few chains, so that a
/// large model's first way down is short.
Cycle nth_cycle(Grain grain, std::int64_t n, std::size_t chains);

/// How hot the next cycle of the grain begins, after one that began at `heat`: cooler when more than half of
/// the chains ended above where they began, since then they had no time to come down; else hotter, above 1
/// only while nothing is gained.
double next_heat(double heat, const std::vector<double>& begun, const std::vector<double>& ended,
                 bool gained);

}  // namespace pipesim
