#include "tools/render/page/packed_text.h"

#include <gtest/gtest.h>

#include "tests/seeds.h"
#include "tests/tools/render/page/unpack_page.h"

namespace pipesim {
namespace {

// By another reader of DEFLATE, which checks length and sum.
TEST(PackedText, IsReadBack) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("{\"parts\": [1, 2, 3]}"), std::string(300'000, 'x')})
    EXPECT_EQ(unpacked_text(packed_text(text), static_cast<std::uint32_t>(text.size()), crc_of(text)), text);
}

TEST(PackedText, IsReadBackOfAnyBytes) {
  for_each_seed(20, [](Rng& rng) {
    std::string text;
    for (std::uint64_t left = rng.below(200'000); left > 0; --left)
      text += static_cast<char>(rng.below(rng.below(2) == 0 ? 4 : 256));
    EXPECT_EQ(unpacked_text(packed_text(text), static_cast<std::uint32_t>(text.size()), crc_of(text)), text);
  });
}

TEST(PackedText, IsShorterThanNumbersInColumns) {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i % 1000) + ",";
  EXPECT_LT(packed_text(text).size(), text.size() / 20);
}

}  // namespace
}  // namespace pipesim
