#include "executor/measuring/host_noise.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "executor/backend/cores.h"

namespace pipesim {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t spin(std::int64_t rounds, std::uint64_t x) {
  for (std::int64_t i = 0; i < rounds; ++i) x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL + 1;
  return x;
}

double spread_here(double seconds) {
  constexpr std::int64_t first_rounds = 100'000;
  std::uint64_t x = 1;
  double begin = seconds_now();
  x = spin(first_rounds, x);
  const double each = std::max(1e-10, (seconds_now() - begin) / first_rounds);
  const auto rounds = static_cast<std::int64_t>(1e-3 / each);
  std::vector<double> times;
  for (const double end = seconds_now() + seconds; times.size() < 10 || seconds_now() < end;) {
    begin = seconds_now();
    x = spin(rounds, x);
    times.push_back(seconds_now() - begin);
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  return x == 0 ? 0 : (at(0.95) - at(0.05)) / at(0.5);  // looks at x, so that the loop must be run
}

}  // namespace

HostNoise measure_noise(std::size_t cores, double seconds, bool real_time) {
  const std::size_t used = std::min(std::max<std::size_t>(1, cores), allowed_cores().size());
  HostNoise noise;
  for (std::size_t c = 0; c < used; ++c) {
    double spread = 0;
    std::thread([&] {
      pin_to_core_of(c);
      if (real_time && run_in_real_time()) noise.realtime = true;
      spread = spread_here(seconds / static_cast<double>(used));
    }).join();
    noise.spread = std::max(noise.spread, spread);
  }
  return noise;
}

}  // namespace pipesim
