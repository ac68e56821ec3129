#include "sim/base/json_reader.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <string>

namespace pipesim {
namespace {

JsonValue parse(const std::string& text) { return JsonDocument::parse(text, "a.json"); }

TEST(JsonReader, ReadsTypedMembers) {
  const JsonValue root = parse(R"({"n": 3, "x": 0.5, "s": "hi", "l": [1, 2], "b": "300 GB/s", "t": true})");
  EXPECT_EQ(root.at("n").integer(0, 10), 3);
  EXPECT_EQ(root.at("x").number(), 0.5);
  EXPECT_EQ(root.at("s").string(), "hi");
  EXPECT_EQ(root.at("l").integers(0, 5), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(root.at("b").bandwidth(), BytesPerSecond(300e9));
  EXPECT_TRUE(root.at("t").boolean());
  EXPECT_FALSE(root.find("missing").has_value());
}

TEST(JsonReader, MembersKeepTheFilesOrder) {
  const auto members = parse(R"({"z": 1, "a": 2})").members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].first, "z");
  EXPECT_EQ(members[1].second.pointer(), "/a");
}

TEST(JsonReader, MessagesNameFilePlaceFoundAndAllowed) {
  EXPECT_EQ(refusal([] { (void)parse(R"({"a": {"n": "x"}})").at("a").at("n").integer(1, 5); }),
            "a.json: /a/n: found \"x\", an integer from 1 to 5 is needed");
  EXPECT_EQ(refusal([] { (void)parse(R"({"a": [1, 9]})").at("a").integers(0, 5); }),
            "a.json: /a/1: found 9, an integer from 0 to 5 is needed");
  EXPECT_EQ(refusal([] { (void)parse("{}").at("nodes"); }), "a.json: /: \"nodes\" is missing");
  EXPECT_EQ(refusal([] { (void)parse("[]").at("nodes"); }), "a.json: /: found an array, an object is needed");
  EXPECT_EQ(refusal([] { (void)parse(R"({"s": 3})").at("s").string(); }),
            "a.json: /s: found a number, a string is needed");
}

TEST(JsonReader, UnknownKeysGetASuggestion) {
  EXPECT_EQ(refusal([] {
              parse(R"({"bandwith": 1})").allow_only({"bandwidth", "latency"});
            }),
            "a.json: /bandwith: unknown key \"bandwith\" (did you mean \"bandwidth\"?); allowed: bandwidth, "
            "latency");
}

TEST(JsonReader, SyntaxErrorsNameLineAndColumn) {
  EXPECT_EQ(refusal([] { parse("{\n  \"a\": 1,\n"); }).substr(0, 30), "a.json:3:1: not valid JSON: sy");
  EXPECT_EQ(refusal([] { parse("{\"a\": \"\xff\"}"); }), "a.json:1:8: byte 0xff is not UTF-8");
  EXPECT_NE(refusal([] { parse(""); }), "accepted");
}

TEST(JsonReader, RepeatedKeysAreRefused) {
  EXPECT_EQ(refusal([] { parse(R"({"x": {"a": 1, "b": 2, "a": 3}})"); }),
            "a.json: the key \"a\" stands twice in one object");
  EXPECT_EQ(refusal([] { parse(R"([{"a": 1}, {"a": 2}, {"b": {"a": 1}, "a": 3}])"); }), "accepted");
}

TEST(JsonReader, HugeNumbersAreRefused) {
  EXPECT_NE(refusal([] { (void)parse(R"({"n": 99999999999999999999})").at("n").integer(0, INT64_MAX); }),
            "accepted");
  EXPECT_NE(
      refusal([] { (void)parse(R"({"n": 18446744073709551615})").at("n").integer(INT64_MIN, INT64_MAX); }),
      "");
  EXPECT_NE(refusal([] { (void)parse(R"({"n": 1e999})").at("n").number(); }), "accepted");
  EXPECT_NE(refusal([] { (void)parse(R"({"n": 2.5})").at("n").integer(0, 5); }), "accepted");
}

TEST(JsonReader, PointersEscape) {
  EXPECT_EQ(parse(R"({"a/b~c": 1})").members()[0].second.pointer(), "/a~1b~0c");
}

}  // namespace
}  // namespace pipesim
