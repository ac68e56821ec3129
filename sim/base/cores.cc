#include "sim/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace pipesim {
namespace fs = std::filesystem;

namespace {

// "0::/user.slice/session.scope" of /proc/self/cgroup as "user.slice/session.scope".
fs::path own_control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<int> cores_of_control_group(const fs::path& root, const fs::path& group) {
  std::optional<int> fewest;
  fs::path folder = root;
  const auto look = [&] {
    std::ifstream file(folder / "cpu.max");
    double quota = 0, period = 0;  // microseconds; "max" is no number
    if (!(file >> quota >> period) || quota <= 0 || period <= 0) return;
    constexpr double kMost = 1e6;
    const int cores = static_cast<int>(std::min(kMost, std::ceil(quota / period)));
    fewest = std::min(fewest.value_or(cores), cores);
  };
  look();
  for (const fs::path& part : group) {
    folder /= part;
    look();
  }
  return fewest;
}

int available_cores() {
  const int cores = cores_by_affinity();
  return std::max(
      1, std::min(cores, cores_of_control_group("/sys/fs/cgroup", own_control_group()).value_or(cores)));
}

}  // namespace pipesim
