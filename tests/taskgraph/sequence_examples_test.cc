// Worked examples over sequences: context and head parallelism of attention, unrolled LSTMs.
#include <gmock/gmock.h>

#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Lines of the kind, by what they do to which tensor: "forward k: all-gather".
std::vector<std::string> moves(const Expansion& e, std::string_view without = "sync") {
  std::vector<std::string> found;
  for (const std::string& line : e.traffic()) {
    if (line.find(without) != 0) found.push_back(line.substr(0, line.find(' ', line.find(": ") + 2)));
  }
  return found;
}

// Projections split by sequence around an attention that is split otherwise.
Expansion attention_between(const Split& attention) {
  GraphBuilder b("attention", 2);
  const auto linear = [&](const char* name, TensorId x, Sizes out, std::int64_t contract = 1) {
    return b.add("linear", name, {x}, {{"out", std::move(out)}, {"contract", contract}, {"bias", 0}});
  };
  const TensorId x = b.data("x", {2, 8, 16});
  const TensorId q = linear("q", x, {4, 1, 4}), k = linear("k", x, {4, 4}), v = linear("v", x, {4, 4});
  linear("out", b.add("attention", "mix", {q, k, v}), {16}, 3);
  const Split sequence{{{"s", 4}}, devices_from(0, 4)};
  return {b.build(),
          "p100-4x4",
          {{"q", sequence}, {"k", sequence}, {"v", sequence}, {"mix", attention}, {"out", sequence}}};
}

TEST(SequenceExamples, ContextParallelismGathersKeysAndValues) {
  const Expansion e = attention_between({{{"s", 4}}, devices_from(0, 4)});
  EXPECT_THAT(moves(e), testing::ElementsAre("forward k: all-gather", "forward v: all-gather",
                                             "backward k: reduce-scatter", "backward v: reduce-scatter"));
  EXPECT_EQ(e.bytes_of(TaskKind::ForwardTransfer), 2 * 3 * 2 * 8 * 16 * 4);
  EXPECT_EQ(e.bytes_of(TaskKind::BackwardTransfer), 2 * 3 * 2 * 8 * 16 * 4);
}

// The same bytes in three steps each for keys and values forward, again backward, and for their gradients.
TEST(SequenceExamples, ARingPassesKeysAndValuesOn) {
  const Expansion e = attention_between({{{"s", 4}}, devices_from(0, 4), 1, true});
  const std::int64_t part = 2 * 2 * 2 * 16 * 4;  // of keys and values
  const std::string bytes = fmt::format(" of {} B", part);
  std::vector<std::string> sends;
  for (const std::string pass : {"forward", "backward"}) {
    for (int step = 0; step < (pass == "forward" ? 3 : 6); ++step) {
      for (const char* pair : {"0,1", "1,2", "2,3", "3,0"})
        sends.push_back(pass + " mix inside: send " + pair + bytes);
    }
  }
  std::vector<std::string> traffic = e.traffic();
  std::erase_if(traffic, [](const std::string& line) { return line.starts_with("sync"); });
  EXPECT_EQ(traffic, sends);
  EXPECT_EQ(e.bytes_of(TaskKind::Rotation), 3 * 2 * 3 * 2 * 8 * 16 * 4);
}

TEST(SequenceExamples, HeadParallelismExchangesAllToAll) {
  const Expansion e = attention_between({{{"g", 4}}, devices_from(0, 4)});
  EXPECT_THAT(moves(e), testing::ElementsAre("forward q: all-to-all", "forward k: all-to-all",
                                             "forward v: all-to-all", "forward mix: all-to-all",
                                             "backward q: all-to-all", "backward k: all-to-all",
                                             "backward v: all-to-all", "backward mix: all-to-all"));
  EXPECT_EQ(e.bytes_of_everything() - e.bytes_of(TaskKind::GradientSync), 8 * 3 * 2 * 8 * 16);
}

TEST(SequenceExamples, SplitKeysReduceStatisticsInside) {
  const Expansion e = attention_between({{{"t", 4}}, devices_from(0, 4)});
  EXPECT_THAT(moves(e), testing::ElementsAre("forward mix inside: all-reduce",
                                             "forward mix inside: all-reduce", "forward q: all-gather",
                                             "forward mix: reduce-scatter", "backward mix inside: all-reduce",
                                             "backward q: reduce-scatter", "backward mix: all-gather"));
  EXPECT_EQ(e.bytes_of(TaskKind::InnerReduce), 3 * 2 * 3 * 2 * 8 * 4 * 4);  // one float a row, of 2·8·4 rows
}

// Three steps of one cell with shared weights; the first state is data.
Expansion lstm(const Split& cell) {
  GraphBuilder b("lstm", 4);
  TensorId h = b.data("h0", {4, 8}), c = b.data("c0", {4, 8});
  std::map<std::string, Split> splits;
  for (int step = 0; step < 3; ++step) {
    const std::string name = fmt::format("step{}", step);
    const std::vector<TensorId> out =
        b.add_all("lstm_cell", name, {b.data("x" + name, {4, 3}), h, c}, {{"hidden", 8}}, {"wx", "wh", "b"});
    h = out[0], c = out[1];
    splits[name] = cell;
  }
  return {b.build(), "p100-4x4", splits};
}

TEST(SequenceExamples, HiddenSplitLstmGathersItsStateEveryStep) {
  const Expansion e = lstm({{{"h", 2}}, {0, 1}});
  EXPECT_THAT(e.traffic(), testing::ElementsAre("forward step0.h: all-gather 0,1 of 128 B",
                                                "forward step1.h: all-gather 0,1 of 128 B",
                                                "backward step0.h: reduce-scatter 0,1 of 128 B",
                                                "backward step1.h: reduce-scatter 0,1 of 128 B"));
}

TEST(SequenceExamples, SampleSplitLstmSynchronisesOnceForAllSteps) {
  const Expansion e = lstm({{{"n", 4}}, devices_from(0, 4)});
  EXPECT_THAT(e.traffic(), testing::ElementsAre("sync wx: all-reduce 0,1,2,3 of 2304 B",  // 6·4·3·4·8
                                                "sync wh: all-reduce 0,1,2,3 of 6144 B",
                                                "sync b: all-reduce 0,1,2,3 of 768 B"));
}

}  // namespace
}  // namespace pipesim
