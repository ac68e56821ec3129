#include "tools/analysis/accuracy/tables/measured_table.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace pipesim {
namespace {

std::string refused_table(const std::string& text) {
  return refusal([&] { MeasuredTable::parse(text, "runs.csv"); });
}

TEST(MeasuredTable, ReadsCellsByColumn) {
  const MeasuredTable table =
      MeasuredTable::parse("name,bytes,model\r\nfirst,12,gpt2\n\"a, \"\"b\"\"\nc\",,\n", "runs.csv");
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"name", "bytes", "model"}));
  EXPECT_TRUE(table.has({"model", "name"}));
  EXPECT_FALSE(table.has({"model", "peak"}));
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.text(0, "name"), "first");
  EXPECT_EQ(table.positive(0, "bytes"), 12);
  EXPECT_EQ(table.text(1, "name"), "a, \"b\"\nc");
  EXPECT_EQ(table.text(1, "bytes"), "");
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
  const MeasuredTable table = MeasuredTable::parse("name,bytes\na,-1\n\"b\n\",1.5\na,\n", "runs.csv");
  const auto refused = [&](std::size_t row) { return refusal([&] { (void)table.positive(row, "bytes"); }); };
  EXPECT_EQ(refused(0), "runs.csv:2: column \"bytes\": found \"-1\", allowed: a whole number of 1 or more");
  EXPECT_EQ(refused(1), "runs.csv:3: column \"bytes\": found \"1.5\", allowed: a whole number of 1 or more");
  EXPECT_EQ(refused(2), "runs.csv:5: column \"bytes\": found \"\", allowed: a whole number of 1 or more");
  EXPECT_EQ(refusal([&] { table.refuse(1, "no"); }), "runs.csv:3: no");
  EXPECT_EQ(refusal([&] { table.refuse_columns("no"); }), "runs.csv:1: no");
}

}  // namespace
}  // namespace pipesim
