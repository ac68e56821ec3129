#include "sim/base/out_of_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <vector>

namespace pipesim {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

Bytes resident(const fs::path& root) {
  std::ifstream file(root / "proc/self/statm");
  std::int64_t all = 0, pages = 0;
  return file >> all >> pages ? Bytes(pages * sysconf(_SC_PAGESIZE)) : Bytes(0);
}

// In lines such as "MemTotal:  16384 kB" and "inactive_file 4096": the number after the word.
std::optional<std::int64_t> number_after(std::string_view word, const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(word)) continue;
    const std::size_t digit = line.find_first_of("0123456789", word.size());
    std::int64_t number = 0;
    if (digit == std::string::npos) continue;
    std::from_chars(line.data() + digit, line.data() + line.size(), number);
    return number;
  }
  return std::nullopt;
}

void add_host(const fs::path& root, std::vector<MemoryLimit>& limits) {
  const auto total = number_after("MemTotal:", root / "proc/meminfo");
  const auto left = number_after("MemAvailable:", root / "proc/meminfo");
  if (total && left)
    limits.push_back({"this host has", Bytes(*total * 1024), Bytes(*left * 1024), resident(root)});
}

// A group may have as much as all that it lies in. What it has read from files is given back when needed.
void add_control_groups(const fs::path& root, std::vector<MemoryLimit>& limits) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::/")) continue;
    const fs::path top = root / "sys/fs/cgroup";
    for (fs::path group = fs::path(line.substr(4));; group = group.parent_path()) {
      const fs::path folder = top / group;
      const auto most = number_in(folder / "memory.max"), used = number_in(folder / "memory.current");
      if (most && used) {
        const std::int64_t cached = number_after("inactive_file ", folder / "memory.stat").value_or(0);
        const std::int64_t held = std::max<std::int64_t>(0, *used - cached);
        limits.push_back({"the control group allows", Bytes(*most),
                          Bytes(std::max<std::int64_t>(0, *most - held)), resident(root)});
      }
      if (group.empty()) break;
    }
  }
}

void add_process(const fs::path& root, std::vector<MemoryLimit>& limits) {
  rlimit allowed{};
  const auto pages = number_in(root / "proc/self/statm");
  if (getrlimit(RLIMIT_AS, &allowed) != 0 || allowed.rlim_cur == RLIM_INFINITY || !pages) return;
  const auto most = static_cast<std::int64_t>(std::min<rlim_t>(allowed.rlim_cur, INT64_MAX));
  const std::int64_t used = *pages * sysconf(_SC_PAGESIZE);
  limits.push_back(
      {"ulimit -v allows", Bytes(most), Bytes(std::max<std::int64_t>(0, most - used)), Bytes(used)});
}

}  // namespace

std::optional<MemoryLimit> memory_limit(const fs::path& root) {
  std::vector<MemoryLimit> limits;
  add_process(root, limits);
  add_control_groups(root, limits);
  add_host(root, limits);
  const auto least = std::ranges::min_element(limits, {}, &MemoryLimit::left);
  if (least == limits.end()) return std::nullopt;
  return *least;
}

std::string MemoryLimit::str() const {
  return fmt::format("{} are left of the {} that {}", pretty(left), pretty(limit), set_by);
}

OutOfMemory out_of_memory(const std::string& making, const std::string& advice) {
  const std::optional<MemoryLimit> limit = memory_limit();
  const std::string allowed = limit ? fmt::format("; {} {}", limit->set_by, pretty(limit->limit)) : "";
  return OutOfMemory(fmt::format("out of memory while {}{}. {}", making, allowed, advice));
}

}  // namespace pipesim
