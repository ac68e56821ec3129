#include "tools/render/searching/search_chart.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

constexpr Nanoseconds kMs = 1'000'000;

// A row is 10 ms, a column 100 proposals or half a second.
SearchChart falling_chart() {
  SearchChart chart;
  chart.history = {{0.1, 0, 2080 * kMs, 0},
                   {0.5, 4, 220 * kMs, 0},
                   {2.5, 500, 170 * kMs, 0},
                   {5, 1000, 160 * kMs, 1},
                   {18, 3500, 150 * kMs, 2}};
  chart.end = 6000;
  chart.baseline = {"data-parallel", 200 * kMs};
  chart.lower_bound = {"lower bound", 130 * kMs};
  return chart;
}

TEST(SearchChart, FallsFromTheBaselineTowardsTheLowerBound) {
  EXPECT_EQ(search_chart(falling_chart()),
            R"(  best iteration time, by proposals
  200 ms ┤┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  data-parallel 200 ms
         ┤     │
         ┤     │
         ┤     ╰────╮
         ┤          ╰────────────────────────╮
         ┤                                   ╰────────────────────────  best 150 ms
         ┤
  130 ms ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  lower bound 130 ms
         └────────────────────────────────────────────────────────────
          0                                             6000 proposals
)");
}

TEST(SearchChart, TimingDecidesNothingOverProposals) {
  SearchChart slow = falling_chart();
  for (SearchImprovement& i : slow.history) i.seconds *= 7, i.chain = 0;
  EXPECT_EQ(search_chart(slow), search_chart(falling_chart()));
}

TEST(SearchChart, IsOverWallTimeAndWithoutALowerBound) {
  SearchChart chart = falling_chart();
  chart.axis = ChartAxis::WallTime;
  chart.end = 30;
  chart.lower_bound.reset();
  EXPECT_EQ(search_chart(chart),
            R"(  best iteration time, by wall time
  200 ms ┤┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  data-parallel 200 ms
         ┤     │
         ┤     │
         ┤     │
         ┤     ╰────╮
         ┤          │
         ┤          ╰─────────────────────────╮
  150 ms ┤                                    ╰───────────────────────  best 150 ms
         └────────────────────────────────────────────────────────────
          0                                                     30.0 s
)");
}

TEST(SearchChart, BeginsWhereSomethingFitsAndJoinsNamesOfARow) {
  SearchChart chart = falling_chart();
  chart.history.erase(chart.history.begin(), chart.history.begin() + 2);
  chart.baseline.reset();
  chart.lower_bound = {"lower bound", 149 * kMs};
  EXPECT_EQ(search_chart(chart),
            R"(  best iteration time, by proposals
  170 ms ┤     ─────╮
         ┤          │
         ┤          │
         ┤          ╰────────────────────────╮
         ┤                                   │
         ┤                                   │
         ┤                                   │
  149 ms ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╰────────────────────────  best 150 ms, lower bound 149 ms
         └────────────────────────────────────────────────────────────
          0                                             6000 proposals
)");
}

TEST(SearchChart, LeavesOutALowerBoundFarBelow) {
  SearchChart chart = falling_chart();
  chart.lower_bound->time = 99 * kMs;
  EXPECT_EQ(search_chart(chart).find("lower bound"), std::string::npos);
  chart.lower_bound->time = 100 * kMs;
  EXPECT_NE(search_chart(chart).find("100 ms ┤┄"), std::string::npos);
}

TEST(SearchChart, DrawsNothingWhereNothingFell) {
  SearchChart chart;
  EXPECT_EQ(search_chart(chart), "");
  chart.history = {{0, 1, 150 * kMs, 0}};
  EXPECT_EQ(search_chart(chart), "");
  chart.baseline = {"data-parallel", 200 * kMs};
  EXPECT_EQ(search_chart(chart), "");
}

}  // namespace
}  // namespace pipesim
