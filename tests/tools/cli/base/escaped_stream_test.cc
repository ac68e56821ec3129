#include "tools/cli/base/escaped_stream.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/seeds.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

std::string escaped(const std::string& text) {
  std::ostringstream out;
  EscapedStream stream(out);
  stream << text << std::flush;
  return out.str();
}

TEST(EscapedStream, ShowsControlCharactersAsText) {
  EXPECT_EQ(escaped("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(escaped("\x1b[2Jcleared\x1b]0;title\x07"), "\\u001b[2Jcleared\\u001b]0;title\\u0007");
  EXPECT_EQ(escaped("over\rwritten\b\x7f"), "over\\u000dwritten\\u0008\\u007f");
  EXPECT_EQ(escaped(std::string("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "2J \xc2\xb5s \xc3\xa9 \xe2\x80\xa6"),
            "\\u009b"
            "2J \xc2\xb5s \xc3\xa9 \xe2\x80\xa6");
  EXPECT_EQ(escaped("ends in \xc2"), "ends in ");  // until the rest comes, or the stream ends
}

// However the text is cut, the same comes out, and nothing of it controls a terminal.
TEST(EscapedStream, DoesNotDependOnWhereTextIsCut) {
  for_each_seed(100, [](Rng& rng) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      constexpr unsigned char kBytes[] = {0x1b, 0xc2, 0x9b, 0x80, 0xb5, 'a', '\n', 0x00, 0x7f, 0xe2};
      text += static_cast<char>(kBytes[rng.below(sizeof kBytes)]);
    }
    std::ostringstream whole, cut;
    {
      EscapedStream to_whole(whole), to_cut(cut);
      to_whole << text;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = std::min(text.size() - at, std::size_t{1} + rng.below(4));
        to_cut << text.substr(at, length);
        at += length;
      }
    }
    EXPECT_EQ(whole.str(), cut.str());
    EXPECT_EQ(whole.str().find('\x1b'), std::string::npos);
    EXPECT_EQ(whole.str().find("\xc2\x9b"), std::string::npos);
  });
}

TEST(EscapedStream, IsWhatCommandsWriteTo) {
  const Outcome outcome = pipesim_run({"models", "\x1b[2Jmodel"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("\\u001b[2J"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace pipesim
