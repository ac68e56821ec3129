#include "tools/base/search_progress.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

SearchProgress progress_after(double seconds, std::int64_t proposals, Nanoseconds best) {
  SearchProgress progress;
  progress.seconds = seconds;
  progress.proposals = proposals;
  progress.best = best;
  return progress;
}

TEST(SearchProgress, TellsRateBestGapAndWhatIsLeft) {
  EXPECT_EQ(progress_text(progress_after(30, 3688, 153'000'000), {155, 0}, 130'000'000),
            "3688 proposals, 123/s, best 153 ms (1.18 x the lower bound), at most 2 min 5 s left");
}

TEST(SearchProgress, HasNoGapWithoutALowerBound) {
  EXPECT_EQ(progress_text(progress_after(2, 100, 5'000'000), {30, 0}, std::nullopt),
            "100 proposals, 50/s, best 5 ms, at most 28 s left");
  EXPECT_EQ(progress_text(progress_after(2, 100, 0), {30, 0}, 1'000'000),
            "100 proposals, 50/s, best none yet, at most 28 s left");
}

TEST(SearchProgress, CountsToTheNearerEndOfTheBudget) {
  const SearchProgress p = progress_after(10, 1000, 1'000'000);  // 100 a second
  EXPECT_EQ(progress_text(p, {0, 3000}, {}), "1000 proposals, 100/s, best 1 ms, at most 20 s left");
  EXPECT_EQ(progress_text(p, {15, 3000}, {}), "1000 proposals, 100/s, best 1 ms, at most 5 s left");
  EXPECT_EQ(progress_text(p, {3600, 3000}, {}), "1000 proposals, 100/s, best 1 ms, at most 20 s left");
  EXPECT_EQ(progress_text(p, {9, 0}, {}), "1000 proposals, 100/s, best 1 ms, at most 0 s left");
  EXPECT_EQ(progress_text(p, {0, 0}, {}), "1000 proposals, 100/s, best 1 ms");
}

TEST(SearchProgress, WritesLongTimesInTwoUnits) {
  const SearchProgress p = progress_after(0, 0, 0);
  const auto left = [&](double seconds) {
    const std::string text = progress_text(p, {seconds, 0}, {});
    return text.substr(text.find("at most"));
  };
  EXPECT_EQ(left(59.4), "at most 59 s left");
  EXPECT_EQ(left(59.6), "at most 1 min 0 s left");
  EXPECT_EQ(left(8 * 3600 + 5 * 60 + 7), "at most 8 h 5 min left");
  EXPECT_EQ(left(1e6), "at most 11 d 13 h left");
}

}  // namespace
}  // namespace pipesim
