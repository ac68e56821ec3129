#include "sim/base/rng.h"

#include <bit>

#include "sim/base/mixing.h"

namespace pipesim {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::uint64_t splitmix(std::uint64_t& x) {
  const std::uint64_t number = mixed_bits(x);
  x += 0x9E3779B97F4A7C15ULL;
  return number;
}

}  // namespace

Rng::Rng(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = splitmix(seed);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t n) {
  // Lemire's multiply-shift; the rejected draws are those that would favour small results.
  const std::uint64_t threshold = (0 - n) % n;
  while (true) {
    const auto product = static_cast<Wide>(next()) * n;
    if (static_cast<std::uint64_t>(product) >= threshold) return static_cast<std::uint64_t>(product >> 64);
  }
}

std::int64_t Rng::between(std::int64_t lo, std::int64_t hi) {
  return lo + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(hi - lo) + 1));
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

Rng Rng::split(std::uint64_t stream) const {
  std::uint64_t x =
      state_[0] ^ std::rotl(state_[2], 29) ^ (stream * 0xD1342543DE82EF95ULL + 0x2545F4914F6CDD1DULL);
  return Rng(splitmix(x));
}

}  // namespace pipesim
