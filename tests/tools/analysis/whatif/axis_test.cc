#include "tools/analysis/whatif/axis.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

std::vector<std::string> values_of_axis(const std::string& text) { return parse_axis("path=" + text).values; }

TEST(StudyAxes, AreListsWithTheLastUnit) {
  EXPECT_EQ(parse_axis("inter_node.bandwidth=10,25,50Gb/s"),
            (StudyAxis{"inter_node.bandwidth", {"10Gb/s", "25Gb/s", "50Gb/s"}}));
  EXPECT_THAT(values_of_axis("10 GB/s,1TB/s"), ElementsAre("10 GB/s", "1TB/s"));
  EXPECT_THAT(values_of_axis("1,2,4"), ElementsAre("1", "2", "4"));
  EXPECT_THAT(values_of_axis("x0.5,x1,x2"), ElementsAre("x0.5", "x1", "x2"));
  EXPECT_THAT(values_of_axis("a100,h100"), ElementsAre("a100", "h100"));
  EXPECT_THAT(values_of_axis("tp8,pp2;tp4,pp4"), ElementsAre("tp8,pp2", "tp4,pp4"));
  EXPECT_THAT(values_of_axis("tp8,pp2;"), ElementsAre("tp8,pp2"));
  EXPECT_EQ(parse_axis("topology=dgx-h100:gpus=4"), (StudyAxis{"topology", {"dgx-h100:gpus=4"}}));
}

TEST(StudyAxes, AreRanges) {
  EXPECT_THAT(values_of_axis("1..64*2"), ElementsAre("1", "2", "4", "8", "16", "32", "64"));
  EXPECT_THAT(values_of_axis("1..10*2"), ElementsAre("1", "2", "4", "8"));
  EXPECT_THAT(values_of_axis("1..2+0.25"), ElementsAre("1", "1.25", "1.5", "1.75", "2"));
  EXPECT_THAT(values_of_axis("10..40*2Gb/s"), ElementsAre("10Gb/s", "20Gb/s", "40Gb/s"));
  EXPECT_THAT(values_of_axis("0.1..0.5+0.1"), ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5"));
  EXPECT_THAT(values_of_axis("x1..x1.2+0.1"), ElementsAre("x1", "x1.1", "x1.2"));
}

TEST(StudyAxes, HaveSeveralPathsThatChangeTogether) {
  const StudyAxis axis = parse_axis("nodes|recipe=1|tp2,pp2;2|tp4");
  EXPECT_EQ(axis.paths(), (std::vector<std::string>{"nodes", "recipe"}));
  EXPECT_EQ(axis.values, (std::vector<std::string>{"1|tp2,pp2", "2|tp4"}));
  ASSERT_EQ(axis.assignments(0).size(), 2U);
  EXPECT_EQ(axis.assignments(0)[1].path, "recipe");
  EXPECT_EQ(axis.assignments(0)[1].value, "tp2,pp2");
  EXPECT_THROW((void)parse_axis("nodes|batch=1|2;3"), InputError);
  EXPECT_THROW((void)parse_axis("nodes|batch=1|;2|3"), InputError);
}

TEST(StudyAxes, HaveValuesThatPeopleRead) {
  EXPECT_EQ(short_value("11.6286269357Gb/s"), "11.63Gb/s");
  EXPECT_EQ(short_value("x1.23456"), "x1.235");
  EXPECT_EQ(short_value("4096"), "4096");
  EXPECT_EQ(short_value("tp8,pp2"), "tp8,pp2");
}

TEST(StudyAxes, AreRefusedWhereTheyMeanNothing) {
  for (const char* wrong :
       {"nodes", "=1", "nodes=", "nodes=1,,2", "nodes=1,1", "nodes=1..8*1", "nodes=8..1*2", "nodes=0..8*2",
        "nodes=1..8+0", "nodes=1..x*2", "nodes=1..100000000+1"})
    EXPECT_THROW((void)parse_axis(wrong), InputError) << wrong;
}

TEST(StudyPoints, AreCountedWithTheLastAxisFastest) {
  const std::vector<StudyAxis> axes{{"a", {"1", "2"}}, {"b", {"1", "2", "3"}}};
  ASSERT_EQ(number_of_points(axes), 6U);
  EXPECT_THAT(place_of_point(axes, 0), ElementsAre(0, 0));
  EXPECT_THAT(place_of_point(axes, 4), ElementsAre(1, 1));
  EXPECT_EQ(number_of_points({}), 0U);
  const std::vector<StudyAxis> many(20, StudyAxis{"a", std::vector<std::string>(1000, "1")});
  EXPECT_EQ(number_of_points(many), 1'000'000'000'000'000U);
}

}  // namespace
}  // namespace pipesim
