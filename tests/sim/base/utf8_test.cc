#include "sim/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace pipesim {
namespace {

TEST(Utf8, IsReadInItsShortestFormsOnly) {
  constexpr std::size_t all = std::string_view::npos;
  EXPECT_EQ(first_not_utf8(""), all);
  EXPECT_EQ(first_not_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"), all);
  EXPECT_EQ(first_not_utf8("\xef\xbf\xbf\xf4\x8f\xbf\xbf"), all);
  EXPECT_EQ(first_not_utf8("ab\xff"), 2U);
  EXPECT_EQ(first_not_utf8("a\x80"), 1U) << "a character begins otherwise";
  EXPECT_EQ(first_not_utf8("a\xe2\x82"), 1U) << "it ends too soon";
  EXPECT_EQ(first_not_utf8("\xe2\x28\xa1"), 0U);
  EXPECT_EQ(first_not_utf8("\xc1\xbf"), 0U) << "7 bits in two bytes";
  EXPECT_EQ(first_not_utf8("\xe0\x80\x80"), 0U);
  EXPECT_EQ(first_not_utf8("\xf0\x82\x82\xac"), 0U);
  EXPECT_EQ(first_not_utf8("\xed\xa0\x80"), 0U) << "a surrogate";
  EXPECT_EQ(first_not_utf8("\xf4\x90\x80\x80"), 0U) << "beyond U+10FFFF";
}

}  // namespace
}  // namespace pipesim
