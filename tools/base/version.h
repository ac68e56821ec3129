#pragma once

#include <string>

namespace pipesim {

/// The commit that was built: "f59e218d3a01", with "-modified" where files differed from it, or "" where
/// there was no git checkout. Written by tools/packaging/commit.cmake at every build.
extern const char* const kCommit;
extern const char* const kCommitDate;  ///< "2026-11-22" or ""

/// "pipesim 0.1.0 (commit f59e218d3a01, modified)\n"
std::string version_text();
std::string version_number();  ///< "0.1.0"

}  // namespace pipesim
