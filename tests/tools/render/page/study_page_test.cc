#include "tools/render/page/study_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/render/page/drawn_inputs.h"
#include "tools/render/page/svg/chart_pictures.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(StudyPage, DrawsWhatVaries) {
  const StudyPage page = study_page_of(drawn_study(), "s.json");
  ASSERT_THAT(page.axes, SizeIs(2));  // the batch is the same everywhere
  EXPECT_EQ(page.facts.back(), (PageFact{"batch", "16"}));
  EXPECT_THAT(page.axes[1].numbers, ElementsAre(25, 50));
  EXPECT_EQ(page.axes[1].unit, "Gb/s");
  ASSERT_THAT(page.points, SizeIs(4));
  EXPECT_THAT(page.points[1].at, ElementsAre(0, 1));
  EXPECT_EQ(page.points[1].scaling, 1);
  EXPECT_EQ(page.points[2].scaling, 0.5);
  EXPECT_EQ(json_of(page)["points"][3], (nlohmann::ordered_json{{"at", {1, 1}}, {"error", "nothing fits"}}));
}

TEST(StudyPage, PutsCrossoversOnTheirCurve) {
  const StudyPage page = study_page_of(drawn_study(), "s.json");
  ASSERT_THAT(page.crossovers, SizeIs(1));
  EXPECT_EQ(page.crossovers[0].others, "nodes 1");
  EXPECT_EQ(page.crossovers[0].high, "37.51Gb/s");
  EXPECT_NEAR(page.crossovers[0].place, 0.25, 0.001);  // halfway to what is halfway to 50
}

TEST(StudyPage, SaysOnceHowFlopsAreCounted) {
  const auto note = [](const char* first, const char* others) {
    Study study = drawn_study();
    for (std::size_t p = 0; p < 3; ++p) study.points[p]->counted = p == 0 ? first : others;
    return study_page_of(study, "s.json").tables.front().note;
  };
  const std::string scaling =
      "Scaling: samples a second and device, by those of the first point along nodes or devices.";
  EXPECT_EQ(note("", ""), scaling);
  EXPECT_EQ(note("this", "this"), scaling + " MFU counts this.");
  EXPECT_EQ(note("this", "that"), scaling + " MFU counts this; or counts that.");
}

TEST(StudyPage, LeavesPlacesOutThatAreNotOnTheAxis) {
  Study study = drawn_study();
  study.crossovers[0].high = "x9";
  EXPECT_EQ(study_page_of(study, "s.json").crossovers[0].place, -1);
}

TEST(StudyPage, KnowsTextsFromNumbers) {
  Study study = drawn_study();
  study.axes[1].values = {"800Gb/s", "1.6Tb/s"};
  EXPECT_THAT(study_page_of(study, "s.json").axes[1].numbers, ElementsAre());
  study.axes[1].values = {"x1", "x2"};
  EXPECT_EQ(study_page_of(study, "s.json").axes[1].unit, "x");
}

TEST(StudyPictures, HaveFrontsOfWhatDiffers) {
  const auto names = [](const Study& study) {
    std::vector<std::string> list;
    for (const NamedPicture& picture : pictures_of(study_page_of(study, "s.json")))
      list.push_back(picture.name);
    return list;
  };
  Study study = drawn_study();
  EXPECT_THAT(names(study), ElementsAre("curves", "scaling", "devices"));
  for (std::size_t p = 0; p < 3; ++p) study.points[p]->price_per_hour = 2;
  EXPECT_THAT(names(study), ElementsAre("curves", "scaling", "cost", "devices"));
  study.points.resize(2);
  study.axes[0].values = {"1"};
  EXPECT_THAT(names(study), ElementsAre("curves", "cost"));
}

}  // namespace
}  // namespace pipesim
