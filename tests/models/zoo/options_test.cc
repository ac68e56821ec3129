#include "models/zoo/options.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace pipesim {
namespace {

const ZooOptions net_options = {ZooOption::integer("layers", 4, 1, 64, "layers"),
                                ZooOption::real("rate", 0.5, 0, 0.9, "rate"),
                                ZooOption::word("dtype", {"float32", "float16"}, "float32", "type"),
                                ZooOption::integer("heads", 2, 1, 64, "heads")};

std::string parse_error(const std::string& text) {
  return refusal([&] { ZooValues("net", net_options, text); });
}

TEST(ZooValues, TakesDefaultsWhereNothingIsGiven) {
  const ZooValues values("net", net_options, "rate=0.25");
  EXPECT_EQ(values.integer("layers"), 4);
  EXPECT_EQ(values.real("rate"), 0.25);
  EXPECT_EQ(values.data_type(), DataType::Float32);
  EXPECT_TRUE(values.has("heads"));
  EXPECT_FALSE(values.has("ffn"));
}

TEST(ZooValues, NameLeavesDefaultsOutAndHasTheTablesOrder) {
  EXPECT_EQ(ZooValues("net", net_options, "").name(), "net");
  EXPECT_EQ(ZooValues("net", net_options, "dtype=float32,layers=4,rate=0.50").name(), "net");
  EXPECT_EQ(ZooValues("net", net_options, "dtype=float16,rate=0.250,layers=08").name(),
            "net:layers=8,rate=0.25,dtype=float16");
  EXPECT_EQ(ZooValues("net", net_options, "rate=-0").name(), "net:rate=0");
}

TEST(ZooValues, RefusesKeysThatAreUnknownMissingOrRepeated) {
  EXPECT_EQ(parse_error("layer=3"),
            "model \"net:layer=3\": unknown option \"layer\" (did you mean \"layers\"?); "
            "allowed: layers, rate, dtype, heads");
  EXPECT_EQ(parse_error("layers"), "model \"net:layers\": expected key=value, got \"layers\"");
  EXPECT_EQ(parse_error("layers=2,"), "model \"net:layers=2,\": expected key=value, got \"\"");
  EXPECT_EQ(parse_error("=2"), "model \"net:=2\": expected key=value, got \"=2\"");
  EXPECT_EQ(parse_error("layers=2,layers=2"), "model \"net:layers=2,layers=2\": layers is given twice");
}

TEST(ZooValues, RefusesIntegersThatAreNoneOrOutOfRange) {
  for (const char* bad : {"0", "65", "-3", "2.5", "x", "", "3 ", "+3", "1e1", "99999999999999999999"}) {
    EXPECT_EQ(parse_error(std::string("layers=") + bad),
              std::string("model \"net:layers=") + bad +
                  "\": layers must be an integer from 1 to 64, got \"" + bad + "\"");
  }
}

TEST(ZooValues, RefusesNumbersThatAreNoneOrOutOfRange) {
  for (const char* bad : {"nan", "-nan", "inf", "0.91", "-0.1", "half", ""}) {
    EXPECT_EQ(parse_error(std::string("rate=") + bad), std::string("model \"net:rate=") + bad +
                                                           "\": rate must be a number from 0 to 0.9, got \"" +
                                                           bad + "\"");
  }
}

TEST(ZooValues, RefusesWordsThatAreNotAllowed) {
  EXPECT_EQ(parse_error("dtype=flaot16"),
            "model \"net:dtype=flaot16\": dtype must be one of float32, float16, got \"flaot16\" "
            "(did you mean \"float16\"?)");
}

TEST(ZooValues, QuotientFailsWhenSizesDoNotDivide) {
  EXPECT_EQ(ZooValues("net", net_options, "").quotient("layers", "heads"), 2);
  const ZooValues values("net", net_options, "heads=3");
  EXPECT_EQ(refusal([&] { (void)values.quotient("layers", "heads"); }),
            "model \"net:heads=3\": heads=3 does not divide layers=4");
}

}  // namespace
}  // namespace pipesim
