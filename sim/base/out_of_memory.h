#pragma once

#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// Memory ran out: what was being made, how large it was, and what would take less. The program prints it and
/// exits with 1.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What keeps this process from having more memory.
struct MemoryLimit {
  std::string set_by;  ///< "ulimit -v allows", "the control group allows" or "this host has"
  Bytes limit, left;
  Bytes taken;  ///< by this process

  [[nodiscard]] std::string str() const;  ///< "3 GB are left of the 4 GB that ulimit -v allows"
};

/// The memory limit with the least left: that of the process (getrlimit), of its control groups (version 2),
/// or of the host. `root` is where proc and sys are. Nothing where none is known.
std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root = "/");

/// `out of memory while MAKING; ulimit -v allows 4 GB. ADVICE`
OutOfMemory out_of_memory(const std::string& making, const std::string& advice);

/// make(). Where that throws std::bad_alloc, what `error()` returns is thrown, once make() has given back
/// what it had. The innermost of nested calls speaks; in any thread.
template <class Error, class Make>
decltype(auto) with_memory(Error error, Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw error();
  }
}

}  // namespace pipesim
