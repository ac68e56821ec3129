#include "tools/analysis/plans/pipeline_strip.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Sizes = std::vector<std::size_t>;

// Each letter takes 10 ns of one row: "FFB" is forward for 20 ns, then backward.
std::vector<Activity> work(const std::vector<std::string>& rows) {
  std::vector<Activity> activities;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const auto begin = static_cast<Nanoseconds>(10 * c);
      if (rows[r][c] != '.') activities.push_back({r, rows[r][c], begin, begin + 10});
    }
  }
  return activities;
}

// 1F1B of equal stages, F one column and B two.
std::vector<std::string> one_forward_one_backward(std::size_t stages, std::size_t microbatches) {
  std::vector<std::string> rows(stages);
  std::vector<std::size_t> free(stages, 0), forward(stages, 0), backward(stages, 0);
  std::vector<std::vector<std::size_t>> f(stages, std::vector<std::size_t>(microbatches, 0)), b = f;
  const auto put = [&](std::size_t s, std::size_t from, const std::string& what) {
    rows[s].resize(std::max(rows[s].size(), from), '.');
    rows[s] += what;
    return rows[s].size();
  };
  for (std::size_t done = 0; done < 2 * stages * microbatches;) {
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t warm = std::min(microbatches, stages - s);
      const bool may_forward = forward[s] < microbatches && forward[s] - backward[s] < warm;
      if (may_forward && (s == 0 || forward[s - 1] > forward[s])) {
        const std::size_t ready = s == 0 ? 0 : f[s - 1][forward[s]];
        f[s][forward[s]] = put(s, std::max(rows[s].size(), ready), "F");
        ++forward[s], ++done;
      } else if (backward[s] < forward[s] && (s + 1 == stages || backward[s + 1] > backward[s]) &&
                 !(may_forward && s > 0 && forward[s] - backward[s] < warm)) {
        const std::size_t ready = s + 1 == stages ? f[s][backward[s]] : b[s + 1][backward[s]];
        b[s][backward[s]] = put(s, std::max(rows[s].size(), ready), "BB");
        ++backward[s], ++done;
      }
    }
  }
  return rows;
}

Nanoseconds length(const std::vector<std::string>& rows) {
  std::size_t most = 0;
  for (const std::string& row : rows) most = std::max(most, row.size());
  return static_cast<Nanoseconds>(10 * most);
}

TEST(PipelineStrip, DrawsWhatFits) {
  const std::vector<std::string> rows{"FF....BBBB......", "..FFBBBBFFBBBBUU"};
  const PipelineStrip strip = draw_pipeline(work(rows), Sizes{1, 1}, 160, 2, 16);
  EXPECT_THAT(strip.rows, ElementsAre("FF....BBBB......", "..FFBBBBFFBBBBUU"));
  EXPECT_THAT(strip.left_out, IsEmpty());
  EXPECT_EQ(strip.column, 10);
}

TEST(PipelineStrip, IdleIsADotOrTravel) {
  std::vector<Activity> activities{{0, 'F', 0, 20}, {0, '-', 20, 30}, {0, '-', 35, 40}};
  EXPECT_EQ(draw_pipeline(activities, Sizes{1}, 160, 1, 16).rows.front(), "FF-.............");
  // One of four devices works: idle.
  EXPECT_EQ(draw_pipeline(activities, Sizes{4}, 160, 1, 16).rows.front(), "................");
}

// Forward again takes a quarter of the time everywhere, and is drawn although never the most.
TEST(PipelineStrip, ShortKindsOfWorkAreDrawn) {
  std::vector<Activity> activities;
  for (Nanoseconds t = 0; t < 1600; t += 20) {
    activities.push_back({0, 'F', t, t + 5});
    activities.push_back({0, 'R', t + 5, t + 10});
    activities.push_back({0, 'B', t + 10, t + 20});
  }
  const std::string row = draw_pipeline(activities, Sizes{1}, 1600, 2, 16).rows.front();
  EXPECT_EQ(std::ranges::count(row, 'F'), 4) << row;
  EXPECT_EQ(std::ranges::count(row, 'R'), 4) << row;
  EXPECT_EQ(std::ranges::count(row, 'B'), 8) << row;
}

// 200 microbatches on four stages: filling up, draining and some in between.
TEST(PipelineStrip, LeavesOutTheMiddleOfManyMicrobatches) {
  const std::vector<std::string> rows = one_forward_one_backward(4, 200);
  const PipelineStrip strip = draw_pipeline(work(rows), Sizes{1, 1, 1, 1}, length(rows), 200, 61);
  ASSERT_THAT(strip.left_out, SizeIs(1));
  EXPECT_LT(strip.column, 10);
  const std::size_t cut = strip.rows.front().find('~');
  for (const std::string& row : strip.rows) {
    EXPECT_EQ(std::ranges::count(row, '~'), 1);
    EXPECT_EQ(row.find('~'), cut);
    EXPECT_LE(row.size(), 61);
  }
  // The first forward of each stage, and each stage's last backward.
  EXPECT_TRUE(strip.rows[0].starts_with("FF"));
  EXPECT_TRUE(strip.rows[3].starts_with("...")) << strip.rows[3];
  EXPECT_TRUE(strip.rows[0].ends_with("BB"));
  EXPECT_TRUE(strip.rows[3].ends_with("....")) << strip.rows[3];
  // Stages are always busy there.
  EXPECT_NEAR(strip.left_out.front().idle, 0, 1e-9);
  EXPECT_GT(strip.left_out.front().end - strip.left_out.front().begin, length(rows) * 9 / 10);
}

TEST(PipelineStrip, LeavesOutNothingOfFewMicrobatches) {
  const std::vector<std::string> rows = one_forward_one_backward(4, 8);
  EXPECT_THAT(draw_pipeline(work(rows), Sizes{1, 1, 1, 1}, length(rows), 8, 96).left_out, IsEmpty());
}

// First all forward, then all backward: the turn is visible too.
TEST(PipelineStrip, EveryChangeOfWorkIsDrawn) {
  const std::vector<std::string> rows{std::string(300, 'F') + std::string(600, 'B')};
  const PipelineStrip strip = draw_pipeline(work(rows), Sizes{1}, 9000, 300, 30);
  ASSERT_THAT(strip.left_out, SizeIs(2));
  const std::string& row = strip.rows.front();
  const std::size_t first = row.find('~'), second = row.rfind('~');
  EXPECT_EQ(row.substr(0, first), std::string(first, 'F'));
  EXPECT_NE(row.substr(first, second - first).find("FB"), std::string::npos) << row;
  EXPECT_EQ(row.substr(second + 1), std::string(row.size() - second - 1, 'B'));
}

// Letters get the columns that their time is worth, but for one of each.
TEST(PipelineStrip, SharesOfLettersAreSharesOfTime) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Activity> activities;
    std::map<char, Nanoseconds> spent;
    Nanoseconds now = 0;
    while (now < 40'000) {
      const char mark = "FBR"[random() % 3];
      const auto time = static_cast<Nanoseconds>(1 + random() % 300);
      activities.push_back({0, mark, now, now + time});
      spent[mark] += time;
      now += time;
    }
    constexpr std::size_t kColumns = 40;
    const PipelineStrip strip = draw_pipeline(activities, Sizes{1}, now, 1, kColumns);
    for (const auto& [mark, time] : spent) {
      const double worth = static_cast<double>(time) / static_cast<double>(now) * kColumns;
      EXPECT_NEAR(static_cast<double>(std::ranges::count(strip.rows.front(), mark)), worth, 2) << mark;
    }
  }
}

}  // namespace
}  // namespace pipesim
