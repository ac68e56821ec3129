#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/mcmc/moves.h"

namespace pipesim {

/// A memory of the costs of proposed states: a cold chain gets the same few proposals again and again. It is
/// direct-mapped, so a state may replace another one. It only saves time and never changes a result.
///
/// States are identified by 64 bits (Zobrist, "A new hashing method with application for game playing",
/// 1970). Among a million states, two have the same bits with a probability of 3 · 10^-8.
class KnownCosts {
 public:
  using Digest = std::uint64_t;
  static Digest digest_of(std::span<const std::size_t> configs);
  /// The digest of the state that the changes make of `configs`.
  static Digest after(Digest digest, std::span<const std::size_t> configs,
                      std::span<const ConfigChange> changes);

  /// A bound that the state's cost is known to exceed. Nothing when the state was not seen, or is forgotten.
  [[nodiscard]] std::optional<double> above(Digest state) const;
  void keep(Digest state, double above);
  [[nodiscard]] std::size_t bytes() const { return entries_.size() * sizeof(Entry); }

 private:
  struct Entry {
    Digest state = 0;
    double above = -1;  // −1: no entry
  };
  static constexpr std::size_t kEntries = std::size_t{1} << 17;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace pipesim
