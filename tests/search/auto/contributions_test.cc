#include "search/auto/contributions.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

using testing::ElementsAre;

Evaluation taking(Nanoseconds time, std::int64_t missing = 0) {
  Evaluation made;
  made.time = time;
  made.overflow = Bytes(missing);
  return made;
}

AutoEntry entry(const std::string& name, const std::optional<Evaluation>& evaluation, double seconds,
                const std::string& note = "") {
  AutoEntry made{{name, evaluation, seconds, note, 0}, std::nullopt};
  if (evaluation) made.plan.emplace();
  return made;
}

TEST(Contributions, PartsOfASearchAreToldAsOne) {
  Contributions all;
  all.add(entry("mcmc", taking(200), 1, "10 proposals"));
  all.add(entry("gpipe", taking(150), 2));
  all.add(entry("mcmc", taking(100), 3, "20 proposals"));
  all.add(entry("mcmc", taking(120), 4, "30 proposals"));
  ASSERT_EQ(all.all().size(), 2U);
  EXPECT_EQ(all.all()[0].name, "mcmc");
  EXPECT_EQ(all.all()[0].evaluation->time, 100);
  EXPECT_EQ(all.all()[0].seconds, 8);
  EXPECT_EQ(all.all()[0].note, "30 proposals");
  ASSERT_EQ(all.plans().size(), 2U);
  EXPECT_EQ(all.plans()[0].plan.evaluation.time, 100);
  EXPECT_EQ(all.best_of("mcmc"), std::pair(Bytes(0), Nanoseconds{100}));
}

TEST(Contributions, WhatFitsIsBetterThanWhatIsFast) {
  Contributions all;
  EXPECT_EQ(all.best(), nullptr);
  all.add(entry("none", std::nullopt, 1, "refused"));
  EXPECT_EQ(all.best(), nullptr);
  EXPECT_EQ(all.best_of("none").first, all.best_of("never asked").first);
  all.add(entry("fast", taking(100, 1), 1));
  all.add(entry("fits", taking(300), 1));
  all.add(entry("fits as well", taking(300), 1));
  EXPECT_EQ(all.best(), &all.plans()[1].plan);
}

TEST(Contributions, ThoseWithoutTimeAreOneRow) {
  const auto row = [](const std::string& name, const std::string& note) {
    return Contribution{name, std::nullopt, 1, note, 0};
  };
  const std::vector<Contribution> shown = without_late_repeats(
      std::vector{row("gpipe", kOutOfTime), row("gpipe, 2 microbatches", kOutOfTime),
                  row("alpa, 2 microbatches", kOutOfTime), row("gpipe, 4 microbatches", "no pipeline"),
                  row("gpipe, 8 microbatches", kOutOfTime), row("dapple, --microbatch a copy", kOutOfTime),
                  row("gpipe, 1 microbatch", kOutOfTime)});
  std::vector<std::string> names;
  for (const Contribution& c : shown) names.push_back(c.name);
  EXPECT_THAT(names, ElementsAre("gpipe", "gpipe, 3 other numbers of microbatches", "alpa, 2 microbatches",
                                 "gpipe, 4 microbatches", "dapple, --microbatch a copy"));
  EXPECT_EQ(shown[1].seconds, 3);
}

}  // namespace
}  // namespace pipesim
