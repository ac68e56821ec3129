#include "tools/render/base/table.h"

#include <gtest/gtest.h>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoTrailingSpaces) {
  Table table({{"operator", Align::Left}, {"parameters", Align::Right}, {"kind", Align::Left}});
  table.add({"conv1", "9408", "conv2d"});
  table.add({"fc", "2048000", ""});
  EXPECT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.str(),
            "operator  parameters  kind\n"
            "conv1           9408  conv2d\n"
            "fc           2048000\n");
}

TEST(Table, WithoutTitlesHasNoHeadLine) {
  Table table({{}, {}});
  table.add({"a", "b"});
  EXPECT_EQ(table.str(2), "  a  b\n");
}

TEST(Table, MeasuresTextAsTheTerminalShowsIt) {
  EXPECT_EQ(display_width("3 µs"), 4U);
  EXPECT_EQ(display_width("a → b"), 5U);
  EXPECT_EQ(display_width("e\u0301"), 1U) << "a combining accent";
  EXPECT_EQ(display_width("模型"), 4U) << "East Asian wide characters";
  EXPECT_EQ(display_width("🙂"), 2U);
  EXPECT_EQ(display_width("\xE6"), 1U) << "a cut character must not read past the end";
  Table table({{"latency", Align::Right}, {"", Align::Left}});
  table.add({"3 µs", "x"});
  table.add({"12 us", "y"});
  EXPECT_EQ(table.str(), "latency\n   3 µs  x\n  12 us  y\n");
}

TEST(Table, RefusesRowsOfAnotherLength) {
  Table table({{"one"}});
  try {
    table.add({"a", "b"});
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_STREQ(
        error.what(),
        "a table of 1 columns was given a row of 2 cells (this is a bug in pipesim, please report it)");
  }
}

}  // namespace
}  // namespace pipesim
