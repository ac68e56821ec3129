#include "tools/base/version.h"

#include <fmt/format.h>

#include <string_view>

namespace pipesim {

std::string version_number() { return PIPESIM_VERSION; }

std::string version_text() {
  constexpr std::string_view kModified = "-modified";
  std::string_view commit = kCommit;
  if (commit.empty())
    return fmt::format("pipesim {} (commit unknown: not built from a git checkout)\n", version_number());
  const bool modified = commit.ends_with(kModified);
  if (modified) commit.remove_suffix(kModified.size());
  return fmt::format("pipesim {} (commit {}{})\n", version_number(), commit, modified ? ", modified" : "");
}

}  // namespace pipesim
