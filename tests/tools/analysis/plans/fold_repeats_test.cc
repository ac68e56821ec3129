#include "tools/analysis/plans/fold_repeats.h"

#include <gmock/gmock.h>

#include <random>
#include <string>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<RepeatedPart> folded(const std::string& letters, std::size_t most_period, std::size_t least) {
  return fold_repeats(std::vector<int>(letters.begin(), letters.end()), most_period, least);
}

TEST(FoldRepeats, FindsRunsAndRounds) {
  EXPECT_THAT(folded("", 4, 1), IsEmpty());
  EXPECT_THAT(folded("abc", 4, 1),
              ElementsAre(RepeatedPart{0, 1, 1}, RepeatedPart{1, 2, 1}, RepeatedPart{2, 3, 1}));
  EXPECT_THAT(folded("aaaab", 4, 1), ElementsAre(RepeatedPart{0, 4, 1}, RepeatedPart{4, 5, 1}));
  EXPECT_EQ(folded("aaaab", 4, 1).front().repeats(), 3);
  // The last round is not whole.
  EXPECT_THAT(folded("xabababa", 4, 1),
              ElementsAre(RepeatedPart{0, 1, 1}, RepeatedPart{1, 7, 2}, RepeatedPart{7, 8, 1}));
}

TEST(FoldRepeats, LeavesWhatIsShort) {
  EXPECT_EQ(folded("aaab", 4, 3).size(), 4);
  EXPECT_EQ(folded("aaaab", 4, 3).size(), 2);
  EXPECT_EQ(folded("abcabc", 2, 1).size(), 6);
  EXPECT_EQ(folded("abcabc", 3, 1).size(), 1);
}

TEST(FoldRepeats, TakesThePeriodThatLeavesOutMost) {
  // "aab" three times leaves out six, "a" twice one.
  EXPECT_THAT(folded("aabaabaab", 4, 1), ElementsAre(RepeatedPart{0, 9, 3}));
  // The shortest of equal periods.
  EXPECT_THAT(folded("aaaa", 3, 1), ElementsAre(RepeatedPart{0, 4, 1}));
}

// Written out, the parts are the list; whatever is left out is at least as much as asked.
TEST(FoldRepeats, PartsWrittenOutAreTheList) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> list(random() % 60);
    for (int& i : list) i = static_cast<int>(random() % 2);
    const std::size_t most_period = 1 + random() % 6, least = 1 + random() % 4;
    std::vector<int> written;
    for (const RepeatedPart& part : fold_repeats(list, most_period, least)) {
      ASSERT_EQ(part.begin, written.size());
      ASSERT_LE(part.period, most_period);
      ASSERT_EQ((part.end - part.begin) % part.period, 0);
      if (part.repeats() > 0) {
        ASSERT_GE(part.end - part.begin - part.period, least);
      }
      for (std::size_t i = 0; i < part.end - part.begin; ++i)
        written.push_back(list[part.begin + i % part.period]);
    }
    EXPECT_EQ(written, list);
  }
}

}  // namespace
}  // namespace pipesim
