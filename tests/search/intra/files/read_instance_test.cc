#include "search/intra/files/read_instance.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/refusal.h"
#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kContest =
    R"({"name": "x", "problem": {"nodes": {"intervals": [[0, 2], [1, 1]], "costs": [[1, 2], [1e18]],)"
    R"( "usages": [[3, 4], [5]]}, "edges": {"nodes": [[0, 1]], "costs": [[-7, 2000000000000000000]]},)"
    R"( "usage_limit": 9}})";

IntraInstance instance_of(const std::string& text) {
  std::istringstream stream(text);
  return read_instance(stream, "x.json");
}

// The contest's example with some text replaced.
std::string refused(const std::string& what, const std::string& by) {
  std::string text = kContest;
  text.replace(text.find(what), what.size(), by);
  return refusal([&] { instance_of(text); });
}

TEST(IntraReader, ReadsWhatIsWritten) {
  for_each_seed(50, [](Rng& rng) {
    const IntraInstance made = random_instance(rng, 6, 4);
    const IntraInstance read = instance_of(instance_text(made, "random"));
    EXPECT_EQ(read.limit, made.limit);
    ASSERT_EQ(read.nodes.size(), made.nodes.size());
    for (std::size_t n = 0; n < made.nodes.size(); ++n) {
      EXPECT_EQ(read.nodes[n].begin, made.nodes[n].begin);
      EXPECT_EQ(read.nodes[n].end, made.nodes[n].end);
      EXPECT_EQ(read.nodes[n].cost, made.nodes[n].cost);
      EXPECT_EQ(read.nodes[n].usage, made.nodes[n].usage);
    }
    ASSERT_EQ(read.edges.size(), made.edges.size());
    for (std::size_t e = 0; e < made.edges.size(); ++e) {
      EXPECT_EQ(read.edges[e].a, made.edges[e].a);
      EXPECT_EQ(read.edges[e].b, made.edges[e].b);
      EXPECT_EQ(read.edges[e].cost, made.edges[e].cost);
    }
  });
}

TEST(IntraReader, ReadsTheContestsFormat) {
  const IntraInstance instance = instance_of(kContest);
  ASSERT_EQ(instance.nodes.size(), 2U);
  EXPECT_EQ(instance.nodes[0].begin, 0);
  EXPECT_EQ(instance.nodes[0].end, 2);
  EXPECT_THAT(instance.nodes[0].cost, ElementsAre(1, 2));
  EXPECT_THAT(instance.nodes[0].usage, ElementsAre(3, 4));
  EXPECT_THAT(instance.nodes[1].cost, ElementsAre(kForbidden));
  ASSERT_EQ(instance.edges.size(), 1U);
  EXPECT_THAT(instance.edges[0].cost, ElementsAre(-7, kForbidden));
  EXPECT_EQ(instance.limit, 9);
}

TEST(IntraReader, ReadsWhatAlpaMerged) {
  const IntraInstance instance =
      instance_of(R"({"desc": "x", "node_cost": [[0.5, 2.0], [1]], "edges": [[0, 1, [10.01, 0]]],)"
                  R"( "forbid": [[1, 0, [0, 1]]], "optimum": 10.51})");
  EXPECT_THAT(instance.nodes[0].cost, ElementsAre(50, 200));
  ASSERT_EQ(instance.edges.size(), 2U);
  EXPECT_THAT(instance.edges[0].cost, ElementsAre(1001, 0));
  EXPECT_THAT(instance.edges[1].cost, ElementsAre(0, kForbidden));
  EXPECT_EQ(instance.edges[1].a, 1U);
  EXPECT_EQ(instance.unit, 0.01);  // no cost has more decimals
  EXPECT_EQ(instance_of(R"({"node_cost": [[7.0], [30]], "edges": []})").unit, 1);
  EXPECT_EQ(instance_of(R"({"node_cost": [[0.1234567], [1]], "edges": []})").nodes[0].cost[0], 123'457);
}

TEST(IntraReader, SaysWhereWhatAndWhatIsAllowed) {
  EXPECT_EQ(refused("[3, 4]", "[3]"),
            "x.json: /problem/nodes/usages/0: found 1 usages, allowed: 2, as many as costs");
  EXPECT_EQ(refused("[3, 4]", "[3, -4]"),
            "x.json: /problem/nodes/usages/0/1: found -4, allowed: whole numbers from 0 to 9007199254740992");
  EXPECT_EQ(refused("[0, 1]]", "[0, 2]]"),
            "x.json: /problem/edges/nodes/0: found node 2, allowed: nodes below 2");
  EXPECT_EQ(refused("[-7, 2000000000000000000]", "[-7]"),
            "x.json: /problem/edges/costs/0: found 1 costs, allowed: 2 (2 strategies of node 0 times 1 of "
            "node 1)");
  EXPECT_EQ(refused("[1, 1]", "[2, 1]"),
            "x.json: /problem/nodes/intervals/1: found 2 numbers (2, 1), allowed: two times, the first no "
            "later than the second");
  EXPECT_EQ(refused("[1e18]", "[]"),
            "x.json: /problem/nodes/costs/1: found 0 numbers, allowed: the costs of at least one strategy");
  EXPECT_EQ(refused(", [1, 1]", ""),
            "x.json: /problem/nodes/intervals: found 1 nodes, allowed: 2, as in costs");
  EXPECT_EQ(refused("[[0, 1]]", "[]"),
            "x.json: /problem/edges/costs: found 1 edges, allowed: 0, as in nodes");
  EXPECT_EQ(refused(": 9}", ": null}"), "x.json: /problem/usage_limit: found null, allowed: numbers");
  EXPECT_EQ(refused("\"usage_limit\": 9", "\"limit\": 9"),
            "x.json: /problem/usage_limit: is missing, allowed: an instance of the contest, or one that Alpa "
            "merged");
  EXPECT_EQ(refused("[3, 4]", "[3, [4]]"),
            "x.json: /problem/nodes/usages/0/1/0: found a list, allowed: numbers");
  EXPECT_EQ(refused("[1, 2]", "[1, 2.5]"),
            "x.json: /problem/nodes/costs/0/1: found 2.5, allowed: whole numbers from -999999999999999999 to "
            "1000000000000000000");
  EXPECT_EQ(refused("[1, 2]", "3"), "x.json: /problem/nodes/costs/0: found a number, allowed: a list");
}

TEST(IntraReader, RefusesWhatIsNoInstance) {
  EXPECT_THAT(refusal([] { instance_of("nonsense"); }), HasSubstr("x.json: byte 2: "));
  EXPECT_THAT(refusal([] { instance_of(""); }), HasSubstr("allowed: JSON of an instance"));
  EXPECT_THAT(refusal([] { instance_of(std::string(kContest).substr(0, 100)); }),
              HasSubstr("x.json: byte 10"));
  EXPECT_THAT(refusal([] { instance_of(std::string(1000, '[')); }),
              HasSubstr("found a list, allowed: numbers"));
  EXPECT_THAT(refusal([] { instance_of("{\"a\": " + std::string(1000, '[')); }),
              HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(refusal([] { instance_of("{}"); }), HasSubstr("/problem/nodes/intervals: is missing"));
}

TEST(IntraReader, ReadsAnswersBack) {
  const IntraInstance instance = instance_of(kContest);
  const auto answer_of = [&](const std::string& text) {
    std::istringstream stream(text);
    return read_answer(stream, "a.json", instance);
  };
  EXPECT_THAT(answer_of(answer_text({1, 0}, 3)), ElementsAre(1, 0));
  EXPECT_THAT(answer_of("[1, 0]"), ElementsAre(1, 0));
  EXPECT_EQ(refusal([&] { answer_of("[1]"); }),
            "a.json: /strategies: found 1 strategies, allowed: 2, one for each node");
  EXPECT_EQ(refusal([&] { answer_of("[2, 0]"); }),
            "a.json: /0: found 2, allowed: whole numbers below 2, the strategies of the node");
  EXPECT_EQ(refusal([&] { answer_of("[1, 0, 0]"); }),
            "a.json: /2: found more strategies, allowed: 2, one for each node");
  EXPECT_THAT(refusal([&] { answer_of("{}"); }), HasSubstr("/strategies: is missing"));
}

}  // namespace
}  // namespace pipesim
