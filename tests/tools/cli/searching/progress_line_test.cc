#include "tools/cli/searching/progress_line.h"

#include <gtest/gtest.h>

#include <sstream>

namespace pipesim {
namespace {

TEST(ProgressLine, WritesNothingElsewhereThanOnStandardError) {
  std::istringstream in;
  std::ostringstream out, err;
  ProgressLine line(Streams{in, out, err}, {1, 0}, {});
  line.note({.proposals = 1, .seconds = 1, .best = 1});
  line.finish();
  EXPECT_EQ(err.str(), "");
}

}  // namespace
}  // namespace pipesim
