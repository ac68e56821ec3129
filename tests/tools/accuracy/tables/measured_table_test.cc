#include "tools/accuracy/tables/measured_table.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace pipesim {
namespace {

std::string refused_table(const std::string& text) {
  return refusal([&] { MeasuredTable::parse(text, "runs.csv"); });
}

TEST(MeasuredTable, ReadsCellsByColumn) {
  const MeasuredTable table =
      MeasuredTable::parse("name,bytes,sharded\r\nfirst,12,True\n\"a, \"\"b\"\"\nc\",,\n", "runs.csv");
  table.require({"name", "bytes", "sharded"});
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.text(0, "name"), "first");
  EXPECT_EQ(table.count(0, "bytes"), 12);
  EXPECT_TRUE(table.flag(0, "sharded"));
  EXPECT_EQ(table.text(1, "name"), "a, \"b\"\nc");
  EXPECT_EQ(table.count(1, "bytes"), std::nullopt);
  EXPECT_FALSE(table.flag(1, "sharded"));
}

TEST(MeasuredTable, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(refused_table(""), "runs.csv: is empty, allowed: a line of column names, then rows");
  EXPECT_EQ(refused_table("name,bytes\n"), "runs.csv: has no rows below its column names");
  EXPECT_EQ(refused_table("name,bytes,name\na,1,b\n"), "runs.csv:1: two columns are named \"name\"");
  EXPECT_EQ(refused_table("name,bytes\na,1\nb"),
            "runs.csv:3: found 1 cells, allowed: 2, one for each column");
  EXPECT_EQ(refused_table("name\n\"a\n\nb"), "runs.csv:2: a quote is opened and never closed");
  EXPECT_EQ(refused_table("name\n\"a\"b\n"),
            "runs.csv:2: found \"b\" behind a quoted cell, allowed: a comma or the line's end");
}

TEST(MeasuredTable, SaysWhatIsWrongWithARow) {
  const MeasuredTable table =
      MeasuredTable::parse("name,bytes,sharded\na,-1,yes\n\"b\n\",1.5,True\na,,\n", "runs.csv");
  EXPECT_EQ(refusal([&] { table.require({"name", "peak"}); }), "runs.csv:1: has no column \"peak\"");
  EXPECT_EQ(refusal([&] { (void)table.count(0, "bytes"); }),
            "runs.csv:2: column \"bytes\": found \"-1\", allowed: a whole number, or nothing");
  EXPECT_EQ(refusal([&] { (void)table.flag(0, "sharded"); }),
            "runs.csv:2: column \"sharded\": found \"yes\", allowed: True, False, or nothing");
  EXPECT_EQ(refusal([&] { (void)table.count(1, "bytes"); }),
            "runs.csv:3: column \"bytes\": found \"1.5\", allowed: a whole number, or nothing");
  EXPECT_EQ(refusal([&] { table.require_unique("name"); }),
            "runs.csv:5: column \"name\": \"a\" is in line 2 already");
}

}  // namespace
}  // namespace pipesim
