#include "sim/base/json_text.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

TEST(SpacedJson, PutsSpacesOutsideOfStrings) {
  EXPECT_EQ(spaced_json(R"({"a":[1,2],"b":"c,d:\"e,\\","f":null})"),
            R"({"a": [1, 2], "b": "c,d:\"e,\\", "f": null})");
  EXPECT_EQ(spaced_json(""), "");
}

}  // namespace
}  // namespace pipesim
