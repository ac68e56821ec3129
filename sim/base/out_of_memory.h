#pragma once

#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// Memory ran out. The message says what was being made, how large it was, and how to need less. The program
/// prints it and exits with 1.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The limit on this process's memory.
struct MemoryLimit {
  std::string set_by;  ///< "ulimit -v allows", "the control group allows" or "this host has"
  Bytes limit, left;
  Bytes taken;  ///< by this process

  [[nodiscard]] std::string str() const;  ///< "3 GB are left of the 4 GB that ulimit -v allows"
};

/// The memory limit with the least memory left: that of the process (getrlimit), of its control groups
/// (version 2), or of the host. `root` is the folder that holds proc and sys. Nothing when no limit is known.
std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root = "/");

/// `out of memory while MAKING; ulimit -v allows 4 GB. ADVICE`
OutOfMemory out_of_memory(const std::string& making, const std::string& advice);

/// Returns make(). When make() throws std::bad_alloc, throws error() instead, after make() has freed its
/// memory. When calls nest, the innermost one reports. Usable in any thread.
template <class Error, class Make>
decltype(auto) with_memory(Error error, Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw error();
  }
}

}  // namespace pipesim
