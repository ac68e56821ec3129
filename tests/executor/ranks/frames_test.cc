#include "executor/ranks/frames.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(Frames, TextsSurviveJoiningAndSplitting) {
  const std::vector<std::string> texts{"a", "", std::string("\0\n\xff", 3), std::string(100'000, 'x')};
  EXPECT_EQ(split_texts(join_texts(texts), 4), texts);
  EXPECT_TRUE(split_texts("", 0).empty());
}

TEST(Frames, TextsThatAreCutOrTooManyAreRefused) {
  const std::string joined = join_texts({"one", "two"});
  EXPECT_EQ(refusal<DeviceError>([&] { (void)split_texts(joined.substr(1), 2); }),
            "a message of 21 bytes does not hold 2 texts");
  for (const std::size_t count : {0U, 1U, 3U})
    EXPECT_NE(refusal<DeviceError>([&] { (void)split_texts(joined, count); }), "accepted") << count;
  EXPECT_NE(refusal<DeviceError>([&] { (void)split_texts(joined + "x", 2); }), "accepted");
}

TEST(Frames, AreFoundInWhateverPortionsTheyCome) {
  const std::vector<Frame> frames{
      {Frame::Kind::Text, "hello"}, {Frame::Kind::Bye, ""}, {Frame::Kind::Result, "x"}};
  std::string stream;
  for (const Frame& frame : frames) stream += encoded(frame);
  for (std::size_t portion = 1; portion <= stream.size(); ++portion) {
    FrameReader reader;
    std::vector<Frame> found;
    for (std::size_t at = 0; at < stream.size(); at += portion) {
      reader.add(stream.substr(at, portion));
      while (auto frame = reader.next(5)) found.push_back(*frame);
    }
    EXPECT_EQ(found, frames) << portion;
  }
}

TEST(Frames, WhatIsNoFrameIsRefusedBeforeItsBytesAreThere) {
  FrameReader longer;
  longer.add(encoded({Frame::Kind::Text, "123456"}).substr(0, 9));
  EXPECT_EQ(refusal<DeviceError>([&] { (void)longer.next(5); }),
            "found a message of 6 bytes, at most 5 are allowed");
  FrameReader stranger;
  stranger.add("GET / HTTP/1.1\r\n");
  EXPECT_NE(refusal<DeviceError>([&] { (void)stranger.next(1 << 30); }), "accepted");
}

}  // namespace
}  // namespace pipesim
