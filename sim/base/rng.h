#pragma once

#include <array>
#include <cstdint>

namespace pipesim {

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded by
/// splitmix64. The same seed gives the same numbers on every machine; std::uniform_* distributions do not
/// promise that.
class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  std::uint64_t next();
  /// Uniform in [0, n), n > 0, without modulo bias.
  std::uint64_t below(std::uint64_t n);
  /// Uniform in [lo, hi].
  std::int64_t between(std::int64_t lo, std::int64_t hi);
  /// Uniform in [0, 1) with 53 bits.
  double uniform();
  /// An independent stream. Equal generators give equal split(k); streams of different k are unrelated.
  [[nodiscard]] Rng split(std::uint64_t stream) const;

  bool operator==(const Rng&) const = default;

  /// The state of the stream, to be stored in files. The constructor accepts only words that state()
  /// returned.
  using State = std::array<std::uint64_t, 4>;
  [[nodiscard]] const State& state() const { return state_; }
  explicit Rng(const State& state) : state_(state) {}

 private:
  State state_;
};

}  // namespace pipesim
