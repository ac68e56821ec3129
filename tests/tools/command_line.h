#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"
#include "tools/cli/run_pipesim.h"

namespace pipesim {

/// What a run of pipesim left behind.
struct Outcome {
  int status = -1;
  std::string out, err;
  bool operator==(const Outcome&) const = default;
};

inline Outcome pipesim_run(const std::vector<std::string>& args, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int status = run_pipesim(args, in, out, err);
  return {status, out.str(), err.str()};
}

/// A plan file.
inline std::string data_parallel_lenet(const TemporaryFolder& folder) {
  std::string plan = folder.path("plan.json");
  EXPECT_EQ(pipesim_run({"search", "--model", "lenet", "--topology", "p100-4x4:1", "--algorithm",
                         "data-parallel", "-o", plan})
                .status,
            0);
  return plan;
}

inline std::ostream& operator<<(std::ostream& stream, const Outcome& outcome) {
  return stream << "status " << outcome.status << "\nout:\n" << outcome.out << "\nerr:\n" << outcome.err;
}

}  // namespace pipesim
