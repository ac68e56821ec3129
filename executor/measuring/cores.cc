#include "executor/measuring/cores.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "sim/base/out_of_memory.h"

namespace pipesim {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t spin(std::int64_t rounds, std::uint64_t x) {
  for (std::int64_t i = 0; i < rounds; ++i) x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL + 1;
  return x;
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
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

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &set)) cores.push_back(c);
  }
  return cores;
}

void pin_to_core_of(std::size_t device) {
  static const std::vector<int> cores = allowed_cores();  // before any thread was pinned
  if (!cores.empty()) pin(cores[device % cores.size()]);
}

bool run_in_real_time() {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

HostNoise measure_noise(std::size_t cores, double seconds, bool real_time) {
  const std::vector<int> allowed = allowed_cores();
  const std::size_t used = std::min(std::max<std::size_t>(1, cores), allowed.size());
  HostNoise noise;
  for (std::size_t c = 0; c < used; ++c) {
    double spread = 0;
    std::thread([&] {
      pin(allowed[c]);
      if (real_time && run_in_real_time()) noise.realtime = true;
      spread = spread_here(seconds / static_cast<double>(used));
    }).join();
    noise.spread = std::max(noise.spread, spread);
  }
  return noise;
}

std::optional<Bytes> available_memory() {
  const std::optional<MemoryLimit> limit = memory_limit();
  return limit ? std::optional(limit->left) : std::nullopt;
}

}  // namespace pipesim
