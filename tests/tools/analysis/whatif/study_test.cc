#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tools/analysis/whatif/study.h"
#include "tools/render/whatif/study_json.h"
#include "tools/render/whatif/study_text.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

PointResult trained(double time, std::int64_t devices, double tokens_per_s, double price_per_hour) {
  PointResult p;
  p.recipe = "tp2,dp4";
  p.kind = "tp2";
  p.time_s = time;
  p.samples_per_s = 1 / time;
  p.devices = devices;
  p.memory_bytes = 5;
  if (tokens_per_s > 0) p.tokens_per_s = tokens_per_s;
  if (price_per_hour > 0) p.price_per_hour = price_per_hour;
  return p;
}

Study two_axes() {
  Study study;
  study.words = {"--model=lenet", "--topology=p100-4x4"};
  study.plans = PointPlans::Recipes;
  study.objective = "p95";
  study.model = "lenet";
  study.model_fingerprint = "0123";
  study.axes = {{"nodes", {"1", "2"}}, {"device", {"a100", "h100"}}};
  study.points.resize(4);
  study.points[0] = trained(2, 8, 100, 8);
  study.points[1] = trained(1, 8, 200, 24);
  study.points[1]->counted = "causal attention at half; of 989 TFLOP/s, the rate of bfloat16";
  study.points[1]->opaque = "1 of 4 operators, 75.0 % of the compute: sort (aten::sort)";
  study.points[3] = PointResult{};
  study.points[3]->error = "no recipe";
  study.crossovers.push_back({1, {0, 0}, "a100", "h100", "tp2", "tp4"});
  return study;
}

TEST(Studies, ReadBack) {
  const TemporaryFolder folder;
  const Study study = two_axes();
  write_file(folder.path("s.json"), json_of(study).dump());
  const Study again = read_study(folder.path("s.json"));
  EXPECT_EQ(again.words, study.words);
  EXPECT_EQ(again.plans, study.plans);
  EXPECT_EQ(again.objective, study.objective);
  EXPECT_EQ(again.axes, study.axes);
  EXPECT_EQ(again.points, study.points);
  EXPECT_EQ(again.crossovers, study.crossovers);
  EXPECT_EQ(again.done(), 3U);
}

TEST(Studies, ThatAreNoneAreRefusedWithTheirPlace) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) -> std::string {
    write_file(folder.path("s.json"), text);
    try {
      (void)read_study(folder.path("s.json"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  auto json = json_of(two_axes());
  EXPECT_THAT(refusal("{"), HasSubstr("s.json:1:2: not valid JSON"));
  EXPECT_THAT(refusal("{}"), EndsWith("s.json: /: \"pipesim_study\" is missing"));
  EXPECT_THAT(refusal("{\"pipesim_plan\": 1}"), HasSubstr("s.json: this is a plan, not a study; "));
  json["pipesim_study"] = 2;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/pipesim_study: found 2, an integer from 1 to 1 is needed"));
  json["pipesim_study"] = 1;
  json["points"][1]["at"] = {0, 7};
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/points/1/at/1: found 7, an integer from 0 to 1 is needed"));
  json["points"][1]["at"] = {0};
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/points/1/at: found 1 places, allowed: 2, one for each axis"));
  json["points"] = nlohmann::ordered_json::array();
  json["crossovers"][0]["axis"] = "node";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/crossovers/0/axis: found \"node\", allowed: nodes, device"));
  json["crossovers"] = nlohmann::ordered_json::array();
  json["plans"] = "best";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/plans: found \"best\", allowed: same, recipes, search"));
  json["plans"] = "same";
  json["axes"] = nlohmann::ordered_json::array();
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/axes: they have 0 points"));
}

TEST(Studies, KnowTheCostOfWork) {
  EXPECT_DOUBLE_EQ(*cost_of_work(trained(2, 8, 100, 36)), 1e9 / 100 / 100);
  EXPECT_DOUBLE_EQ(*cost_of_work(trained(2, 8, 0, 36)), 1e6 * 2 / 100);
  EXPECT_FALSE(cost_of_work(trained(2, 8, 100, 0)).has_value());
}

// By the first point along the axis of nodes, whatever the kind of devices.
TEST(Studies, KnowHowTheyScale) {
  Study study = two_axes();
  EXPECT_THAT(scaling_efficiencies(study), Each(std::nullopt));  // all have 8 devices
  study.points[2] = trained(1.25, 16, 100, 0);
  EXPECT_THAT(scaling_efficiencies(study), ElementsAre(1, 1, 0.8, std::nullopt));
  EXPECT_THAT(to_text(study), HasSubstr("80.0 %"));
  study.points[0].reset();
  EXPECT_THAT(scaling_efficiencies(study), Each(std::nullopt));
  study.points[3] = trained(0.25, 16, 100, 0);
  EXPECT_THAT(scaling_efficiencies(study), ElementsAre(std::nullopt, 1, 1, 2));
}

TEST(Studies, NameTheCheapestAndTheFastest) {
  const Study study = two_axes();
  // A million tokens take 10,000 s for 22.2, or 5,000 s for 33.3.
  EXPECT_EQ(cheapest_within(study, 1e6, 20'000)->point, 0U);
  EXPECT_EQ(cheapest_within(study, 1e6, 6'000)->point, 1U);
  EXPECT_FALSE(cheapest_within(study, 1e6, 100).has_value());
  EXPECT_EQ(fastest_for(study, 1e6, 30)->point, 0U);
  EXPECT_EQ(fastest_for(study, 1e6, 40)->point, 1U);
  EXPECT_NEAR(*fastest_for(study, 1e6, 40)->price, 33.33, 0.01);
  EXPECT_FALSE(fastest_for(study, 1e6, 1).has_value());
  Study free = study;
  free.points[0]->price_per_hour.reset();
  free.points[1]->price_per_hour.reset();
  EXPECT_THROW((void)fastest_for(free, 1e6, 1), InputError);
  EXPECT_EQ(cheapest_within(free, 1e6, 20'000)->point, 1U);  // as many devices, faster
  free.points[1]->fits = false;
  EXPECT_EQ(cheapest_within(free, 1e6, 20'000)->point, 0U);
}

TEST(Studies, HaveATableAndACurve) {
  const std::string text = to_text(two_axes());
  EXPECT_THAT(text, HasSubstr("no recipe"));
  EXPECT_THAT(text, HasSubstr("device from a100 to h100: tp2 becomes tp4 (nodes=1)"));
  Study row = two_axes();
  row.axes = {{"nodes", {"1", "2", "3"}}};
  row.points = {trained(1, 8, 1, 0), trained(3, 8, 1, 0), trained(2, 8, 1, 0)};
  row.crossovers.clear();
  EXPECT_THAT(to_text(row), HasSubstr("▁█▅"));
  // A line for each row of the grid, of one scale.
  Study grid = two_axes();
  grid.points[2] = trained(8, 16, 1, 0);
  grid.points[3] = trained(4.5, 16, 1, 0);
  EXPECT_THAT(to_text(grid),
              HasSubstr("  time over nodes, from 1 s to 8 s\n  device=a100  ▂█\n  device=h100  ▁▅\n"));
}

TEST(Studies, HaveARowOfCsvForEachPoint) {
  std::istringstream lines(to_csv(two_axes()));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 4U);  // the third point is not done
  EXPECT_EQ(rows[1], "1,a100,2,,0.5,100,,,8,5,true,8,22222.222222222223,tp2,\"tp2,dp4\",");
  for (const std::string& row : rows) {
    std::size_t commas = 0;
    bool quoted = false;
    for (const char c : row) {
      quoted ^= c == '"';
      commas += c == ',' && !quoted ? 1 : 0;
    }
    EXPECT_EQ(commas, 15U) << row;
  }
}

}  // namespace
}  // namespace pipesim
