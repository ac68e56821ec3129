#include "models/zoo/decoder/layer_pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/rng.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

constexpr const char* kPatternLetters = "FWE-";

TEST(LayerPattern, RepeatsLettersAndParts) {
  const auto layers = [](const char* pattern, std::int64_t count) {
    return letters_of_layers(pattern, count, kPatternLetters);
  };
  EXPECT_EQ(layers("F", 3), "FFF");
  EXPECT_EQ(layers("(W2F)2", 6), "WWFWWF");
  EXPECT_EQ(layers("F(E-)3W", 8), "FE-E-E-W");
  EXPECT_EQ(layers("((F2W)2E)1", 14), "FFWFFWEFFWFFWE");
  EXPECT_EQ(layers("WF", 6), "WFWFWF");
  EXPECT_EQ(layers("(W2F)4", 4), "WWFW");
}

TEST(LayerPattern, SaysWhatIsWrong) {
  const auto message = [](const std::string& pattern, std::int64_t count) {
    return refusal([&] { (void)letters_of_layers(pattern, count, kPatternLetters); });
  };
  EXPECT_EQ(message("WX", 2), "pattern \"WX\" at character 2: expected a letter or \"(\"; letters are FWE-");
  EXPECT_EQ(
      message("(WF", 2),
      "pattern \"(WF\" at character 4: expected a letter, and \")\" behind the last one; letters are FWE-");
  EXPECT_EQ(message("W)", 2), "pattern \"W)\" at character 2: expected a letter or \"(\"; letters are FWE-");
  EXPECT_EQ(message("W0", 2),
            "pattern \"W0\" at character 2: expected a count from 1 to 1000; letters are FWE-");
  EXPECT_EQ(
      message("W99999999999999999999", 2),
      "pattern \"W99999999999999999999\" at character 2: expected a count from 1 to 1000; letters are FWE-");
  EXPECT_EQ(message("((W1000)1000)1000", 2),
            "pattern \"((W1000)1000)1000\" at character 13: expected at most 1000 layers; letters are FWE-");
  EXPECT_EQ(message("WWF", 4), "pattern \"WWF\" has 3 layers, allowed: a divisor of layers=4");
  EXPECT_EQ(
      message("()", 4),
      "pattern \"()\" at character 2: expected a letter, and \")\" behind the last one; letters are FWE-");
}

TEST(LayerPattern, IsReadAsItWasWritten) {
  EXPECT_EQ(pattern_of_layers("FFFFFFFF"), "F");
  EXPECT_EQ(pattern_of_layers("WWWFWWWF"), "W3F");
  EXPECT_EQ(pattern_of_layers("DDDEEEEE"), "D3E5");
  EXPECT_EQ(pattern_of_layers("FWFWFWWWWW"), "(FW)3W4");
  Rng rng(11);
  for (int i = 0; i < 2000; ++i) {
    // Parts that repeat, as in models, and letters at random between them.
    std::string letters;
    while (letters.size() < 1 + rng.below(60)) {
      std::string part;
      for (std::uint64_t n = 1 + rng.below(5); n > 0; --n) part += kPatternLetters[rng.below(4)];
      for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) letters += part;
    }
    const std::string pattern = pattern_of_layers(letters);
    EXPECT_LE(pattern.size(), letters.size() + 2) << letters;
    EXPECT_EQ(letters_of_layers(pattern, static_cast<std::int64_t>(letters.size()), kPatternLetters), letters)
        << pattern;
  }
}

}  // namespace
}  // namespace pipesim
