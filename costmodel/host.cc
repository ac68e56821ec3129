#include "costmodel/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <fstream>

namespace pipesim {
namespace {

// x86 says "model name"; other processors at least have a number.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && (line.starts_with("model name") || line.starts_with("CPU part")))
      return line.substr(colon + 2);
  }
  return "";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

template <class Value>
void compare(const std::string& what, const Value& measured, const Value& here,
             std::vector<std::string>& found) {
  if (measured != here) found.push_back(fmt::format("{}: measured on {}, here {}", what, measured, here));
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

HostDescription this_host() {
  HostDescription host;
  utsname system{};
  if (uname(&system) == 0) {
    host.name = system.nodename;
    host.kernel = fmt::format("{} {}", system.sysname, system.release);
  }
  host.processor = processor_name();
  host.cores = usable_cores();
  return host;
}

std::vector<std::string> differences(const HostDescription& measured, const HostDescription& here) {
  std::vector<std::string> found;
  compare("host", quoted(measured.name), quoted(here.name), found);
  compare("processor", quoted(measured.processor), quoted(here.processor), found);
  compare("cores", measured.cores, here.cores, found);
  compare("kernel", quoted(measured.kernel), quoted(here.kernel), found);
  for (const auto& [library, version] : measured.versions) {
    const auto other = here.versions.find(library);
    if (other != here.versions.end()) compare(library, quoted(version), quoted(other->second), found);
  }
  return found;
}

}  // namespace pipesim
