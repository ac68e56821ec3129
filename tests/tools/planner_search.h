#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {

// Three layers of 3, 6 and 3 ms, next to no data.
inline constexpr const char* kThreeLayers =
    "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=0, "
    "parameter_size=0\n"
    "node2 -- Linear(2, 3) -- forward_compute_time=1, backward_compute_time=2, activation_size=8, "
    "parameter_size=0\n"
    "node3 -- Linear(3, 4) -- forward_compute_time=2, backward_compute_time=4, activation_size=8, "
    "parameter_size=0\n"
    "node4 -- Linear(4, 2) -- forward_compute_time=1, backward_compute_time=2, activation_size=8, "
    "parameter_size=0\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

/// Planners of `search` on a profile of three layers and four devices.
class PlannerSearch : public testing::Test {
 protected:
  PlannerSearch() { write_file(profile_, kThreeLayers); }
  [[nodiscard]] Outcome run(const std::vector<std::string>& more,
                            const std::string& algorithm = "pipedream") const {
    std::vector<std::string> args{"search",     "--model",         profile_ + ":batch=8",
                                  "--topology", "levels:4@10GB/s", "--algorithm",
                                  algorithm};
    args.insert(args.end(), more.begin(), more.end());
    return pipesim_run(args);
  }
  TemporaryFolder folder_;
  std::string profile_ = folder_.path("profile.txt");
};

}  // namespace pipesim
