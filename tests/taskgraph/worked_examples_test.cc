// The worked examples of the operator algebra: which collectives, among whom, how many bytes.
#include <gmock/gmock.h>

#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Sizes = std::vector<std::int64_t>;

OperatorGraph one_linear() {
  GraphBuilder b("linear", 8);
  b.add("linear", "fc", {b.data("x", {8, 16})}, {{"out", Sizes{32}}});
  return b.build();
}

TEST(WorkedExamples, DataParallelLinearSynchronisesEveryWeightOnce) {
  for (const std::int32_t d : {2, 4, 8}) {
    const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"b", d}}, devices_from(0, d)}}});
    EXPECT_EQ(e.bytes_of_everything(), 2 * (d - 1) * 4 * (16 * 32 + 32));
    EXPECT_EQ(e.bytes_of(TaskKind::GradientSync), e.bytes_of_everything());
  }
  const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"b", 4}}, {3, 1, 0, 2}}}});
  EXPECT_THAT(e.traffic(), ElementsAre("sync fc.w: all-reduce 0,1,2,3 of 12288 B",  // 2·3·2048
                                       "sync fc.b: all-reduce 0,1,2,3 of 768 B"));
}

TEST(WorkedExamples, SynchronisationUsesTheGradientType) {
  PlanOptions half;
  half.gradient_type = DataType::Float16;
  const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"b", 2}}, {0, 1}}}}, half);
  EXPECT_EQ(e.bytes_of(TaskKind::GradientSync), 2 * 2 * (16 * 32 + 32));
}

TEST(WorkedExamples, SynchronisationIsCutIntoPieces) {
  PlanOptions small;
  small.gradient_piece = Bytes(1000);
  const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"b", 2}}, {0, 1}}}}, small);
  EXPECT_THAT(e.traffic(),
              ElementsAre("sync fc.w: all-reduce 0,1 of 1364 B",  // 2·682
                          "sync fc.w: all-reduce 0,1 of 1366 B",  // 2·683
                          "sync fc.w: all-reduce 0,1 of 1366 B", "sync fc.b: all-reduce 0,1 of 256 B"));
}

TEST(WorkedExamples, OutputSplitLinearNeedsNoSynchronisation) {
  const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"o", 4}}, devices_from(0, 4)}}});
  EXPECT_THAT(e.traffic(), IsEmpty());
}

TEST(WorkedExamples, BiasBesideASplitReductionLivesOnOneShard) {
  const Expansion e(one_linear(), "p100-4x4", {{"fc", {{{"b", 2}, {"i", 2}}, devices_from(0, 4)}}});
  // w [8:16 rows each] between the copies of each half; b only where i's coordinate is 0.
  EXPECT_THAT(e.traffic(),
              ElementsAre("sync fc.w: all-reduce 0,2 of 2048 B", "sync fc.w: all-reduce 1,3 of 2048 B",
                          "sync fc.b: all-reduce 0,2 of 256 B"));
}

// A transformer layer between a stem with weights and a projection of its result.
OperatorGraph transformer_layer() {
  GraphBuilder b("layer", 2);
  const auto linear = [&](const char* name, TensorId x, Sizes out, std::int64_t contract = 1) {
    return b.add("linear", name, {x}, {{"out", std::move(out)}, {"contract", contract}});
  };
  TensorId x = linear("stem", b.data("x", {2, 8, 16}), {16});
  const TensorId n1 = b.add("layer_norm", "norm1", {x});
  const TensorId q = linear("q", n1, {4, 1, 4}), k = linear("k", n1, {4, 4}), v = linear("v", n1, {4, 4});
  const TensorId o = linear("out", b.add("attention", "attention", {q, k, v}), {16}, 3);
  x = b.add("add", "add1", {x, b.add("dropout", "dropout1", {o}, {{"rate", 0.1}})});
  const TensorId h = b.add("gelu", "gelu", {linear("ffn1", b.add("layer_norm", "norm2", {x}), {64})});
  b.add("add", "add2", {x, b.add("dropout", "dropout2", {linear("ffn2", h, {16})}, {{"rate", 0.1}})});
  return b.build();
}

// Two data groups {0,1,2,3} and {4,5,6,7}, four tensor ranks in each; `between`: norms, dropouts and
// residuals.
std::map<std::string, Split> megatron(const Split& between) {
  const auto tensor = [](const char* factor) { return Split{{{"b", 2}, {factor, 4}}, devices_from(0, 8)}; };
  std::map<std::string, Split> splits{{"q", tensor("o")},         {"k", tensor("o")},   {"v", tensor("o")},
                                      {"attention", tensor("g")}, {"out", tensor("i")}, {"ffn1", tensor("o")},
                                      {"gelu", tensor("h")},      {"ffn2", tensor("i")}};
  for (const char* op : {"stem", "norm1", "norm2", "dropout1", "add1", "dropout2", "add2"})
    splits[op] = between;
  return splits;
}

std::vector<std::string> only(std::string_view part, const std::vector<std::string>& lines) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::size_t count_of(std::string_view part, const std::vector<std::string>& lines) {
  return only(part, lines).size();
}

TEST(WorkedExamples, MegatronLayerWithReplicas) {
  const Split copies{{{"b", 2}}, {0, 4, 1, 5, 2, 6, 3, 7}, 4};
  const Expansion e(transformer_layer(), "p100-4x4", megatron(copies));
  const std::vector<std::string> lines = e.traffic();
  // Per data group S = 1·8·16·4 B = 512 B: each all-reduce moves 2·3·512 B.
  EXPECT_THAT(only("forward", lines), ElementsAre("forward out: all-reduce 0,1,2,3 of 3072 B",
                                                  "forward out: all-reduce 4,5,6,7 of 3072 B",
                                                  "forward ffn2: all-reduce 0,1,2,3 of 3072 B",
                                                  "forward ffn2: all-reduce 4,5,6,7 of 3072 B"));
  EXPECT_THAT(only("backward", lines), ElementsAre("backward norm1: all-reduce 0,1,2,3 of 3072 B",
                                                   "backward norm1: all-reduce 4,5,6,7 of 3072 B",
                                                   "backward norm2: all-reduce 0,1,2,3 of 3072 B",
                                                   "backward norm2: all-reduce 4,5,6,7 of 3072 B"));
  EXPECT_EQ(count_of("sync norm1.gamma: all-reduce", lines), 4);  // one per tensor rank, over the data groups
  EXPECT_EQ(count_of("sync norm1.gamma: all-reduce 0,4 of", lines), 1);
  EXPECT_THAT(only("sync out.b", lines), ElementsAre("sync out.b: all-reduce 0,4 of 128 B"));
  EXPECT_THAT(only("sync ffn1.w", lines),
              ElementsAre("sync ffn1.w: all-reduce 0,4 of 2048 B", "sync ffn1.w: all-reduce 1,5 of 2048 B",
                          "sync ffn1.w: all-reduce 2,6 of 2048 B", "sync ffn1.w: all-reduce 3,7 of 2048 B"));
  EXPECT_THAT(check_schedule(e.tasks.dag, simulate(e.tasks.dag)), IsEmpty());
}

TEST(WorkedExamples, MegatronLayerWithSequenceParallelism) {
  const Expansion e(transformer_layer(), "p100-4x4", megatron({{{"b", 2}, {"s", 4}}, devices_from(0, 8)}));
  const std::vector<std::string> lines = e.traffic();
  const std::vector<std::string> moved = only("ward ", lines);
  EXPECT_EQ(moved.size(), 16);
  EXPECT_EQ(count_of("all-gather", moved), 8);
  EXPECT_EQ(count_of("reduce-scatter", moved), 8);
  EXPECT_EQ(e.bytes_of(TaskKind::ForwardTransfer) + e.bytes_of(TaskKind::BackwardTransfer), 2 * 8 * 3 * 512);
  EXPECT_THAT(only("forward norm1", lines), ElementsAre("forward norm1: all-gather 0,1,2,3 of 1536 B",
                                                        "forward norm1: all-gather 4,5,6,7 of 1536 B"));
  EXPECT_THAT(only("backward norm1", lines), ElementsAre("backward norm1: reduce-scatter 0,1,2,3 of 1536 B",
                                                         "backward norm1: reduce-scatter 4,5,6,7 of 1536 B"));
  EXPECT_THAT(only("sync norm1.gamma", lines),
              ElementsAre("sync norm1.gamma: all-reduce 0,1,2,3,4,5,6,7 of 896 B"));  // 2·7·64
}

struct HaloCase {
  std::int64_t height, kernel, stride, pad, dilation, rows;
};

TEST(WorkedExamples, ConvolutionOverHeightMovesItsHaloAndBack) {
  for (const HaloCase& c :
       {HaloCase{56, 3, 1, 1, 1, 2}, HaloCase{56, 3, 2, 1, 1, 1}, HaloCase{224, 7, 2, 3, 1, 5},
        HaloCase{8, 1, 1, 0, 1, 0}, HaloCase{12, 3, 1, 2, 2, 4}, HaloCase{9, 3, 1, 1, 1, 2}}) {
    GraphBuilder b("halo", 2);
    const TensorId x =
        b.add("batch_norm", "before", {b.data("x", {2, 3, c.height, 4})}, {{"statistics", "local"}});
    b.add("conv2d", "conv", {x},
          {{"out", 5},
           {"kernel", Sizes{c.kernel, 1}},
           {"stride", Sizes{c.stride, 1}},
           {"pad", Sizes{c.pad, 0}},
           {"dilation", Sizes{c.dilation, 1}},
           {"bias", 0}});
    const Split halves{{{"h", 2}}, {0, 1}};
    const Expansion e(b.build(), "p100-4x4", {{"before", halves}, {"conv", halves}});
    const std::string where = fmt::format("height {} kernel {} stride {}", c.height, c.kernel, c.stride);
    EXPECT_EQ(e.bytes_of(TaskKind::ForwardTransfer), c.rows * 2 * 3 * 4 * 4) << where;
    EXPECT_EQ(e.bytes_of(TaskKind::BackwardTransfer), c.rows * 2 * 3 * 4 * 4) << where;
    EXPECT_THAT(only("sync conv.w", e.traffic()),
                ElementsAre(fmt::format("sync conv.w: all-reduce 0,1 of {} B", 2 * 4 * 5 * 3 * c.kernel)));
    EXPECT_EQ(count_of("send", e.traffic()), c.rows == 0 ? 0 : c.rows == 1 ? 2 : 4) << where;
  }
}

// Embedding, an element-wise operator, the tied projection, the loss.
OperatorGraph tied_words() {
  GraphBuilder b("words", 2);
  const TensorId e =
      b.add("embedding", "words", {b.data("x", {2, 4}, DataType::Int64)}, {{"rows", 8}, {"width", 4}});
  const TensorId p = b.add("linear", "projection", {b.add("tanh", "middle", {e})},
                           {{"out", Sizes{8}}, {"bias", 0}, {"transpose_weight", 1}}, {"words.w"});
  b.add("cross_entropy", "loss", {p, b.data("labels", {2, 4}, DataType::Int64)});
  return b.build();
}

TEST(WorkedExamples, VocabularyParallelEmbeddingProjectionAndLoss) {
  const std::vector<std::int32_t> all = devices_from(0, 4);
  const Expansion e(tied_words(), "p100-4x4",
                    {{"words", {{{"v", 4}}, all}},
                     {"middle", {{}, all, 4}},
                     {"projection", {{{"o", 4}}, all}},
                     {"loss", {{{"v", 4}}, all}}});
  // 8 tokens of width 4: all-reduces of 128 B; 1 and 2 floats a token in the loss; the tied gradient stays.
  EXPECT_THAT(e.traffic(), ElementsAre("forward loss inside: all-reduce 0,1,2,3 of 192 B",
                                       "forward loss inside: all-reduce 0,1,2,3 of 384 B",
                                       "forward words: all-reduce 0,1,2,3 of 768 B",
                                       "backward middle: all-reduce 0,1,2,3 of 768 B"));
  EXPECT_EQ(e.bytes_of_everything(), 2 * 3 * 4 * 8 * (2 * 4 + 3));
}

TEST(WorkedExamples, TiedWeightsOnTwoStagesExchangeInPairs) {
  const Expansion e(tied_words(), "p100-4x4",
                    {{"words", {{{"v", 2}}, {0, 1}}},
                     {"middle", {{}, {0, 1}, 2}},
                     {"projection", {{{"o", 2}}, {2, 3}}},
                     {"loss", {{{"v", 2}}, {2, 3}}}});
  EXPECT_THAT(only("sync", e.traffic()),
              ElementsAre("sync words.w: all-reduce 0,2 of 128 B", "sync words.w: all-reduce 1,3 of 128 B"));
}

TEST(WorkedExamples, OneSynchronisationOfAWeightOnOverlappingDevices) {
  GraphBuilder b("shared", 4);
  const TensorId x = b.add("linear", "first", {b.data("x", {4, 4})}, {{"out", Sizes{4}}, {"bias", 0}});
  b.add("linear", "second", {x}, {{"out", Sizes{4}}, {"bias", 0}}, {"first.w"});
  const Expansion e(b.build(), "p100-4x4",
                    {{"first", {{{"b", 2}}, {0, 1}}}, {"second", {{{"b", 2}}, {1, 2}}}});
  EXPECT_THAT(only("sync", e.traffic()), ElementsAre("sync first.w: all-reduce 0,1,2 of 256 B"));
}

// Sample-split producer, output-split consumer elsewhere: a tensor of 2048·512 floats.
Expansion crossing(std::string_view topology, std::vector<std::int32_t> consumers) {
  GraphBuilder b("crossing", 2048);
  const TensorId x = b.add("linear", "p", {b.data("x", {2048, 8})}, {{"out", Sizes{512}}, {"bias", 0}});
  b.add("linear", "c", {x}, {{"out", Sizes{64}}, {"bias", 0}});
  return {b.build(), topology, {{"p", {{{"b", 2}}, {0, 1}}}, {"c", {{{"o", 2}}, std::move(consumers)}}}};
}

TEST(WorkedExamples, CrossMeshSendsDirectlyOnOneNode) {
  const Expansion e = crossing("p100-4x4", {2, 3});
  // X = 4 MiB: halves to both, and both addends of each half back.
  EXPECT_THAT(only("forward", e.traffic()),
              ElementsAre("forward p: send 0,2 of 2097152 B", "forward p: send 0,3 of 2097152 B",
                          "forward p: send 1,2 of 2097152 B", "forward p: send 1,3 of 2097152 B"));
  EXPECT_THAT(only("backward", e.traffic()),
              ElementsAre("backward p: send 2,0 of 2097152 B", "backward p: send 2,1 of 2097152 B",
                          "backward p: send 3,0 of 2097152 B", "backward p: send 3,1 of 2097152 B"));
}

TEST(WorkedExamples, CrossMeshCrossesTheSlowLinkOnce) {
  const Expansion e = crossing("levels:2@100GB/s,2@1GB/s", {2, 3});
  EXPECT_THAT(only("forward", e.traffic()),
              ElementsAre("forward p: send 0,2 of 2097152 B", "forward p: send 1,3 of 2097152 B",
                          "forward p: all-gather 2,3 of 4194304 B"));
  EXPECT_THAT(only("backward", e.traffic()),
              ElementsAre("backward p: reduce-scatter 2,3 of 4194304 B", "backward p: send 2,0 of 2097152 B",
                          "backward p: send 3,1 of 2097152 B"));
}

// Router, dispatch, experts, combine on 4 groups of 6 tokens.
OperatorGraph experts() {
  GraphBuilder b("experts", 4);
  const TensorId x = b.add("linear", "stem", {b.data("x", {4, 6, 4})}, {{"out", Sizes{4}}});
  const TensorId p = b.add("linear", "router", {x}, {{"out", Sizes{4}}, {"bias", 0}, {"router", 1}});
  const TensorId z = b.add("moe_dispatch", "dispatch", {x, p}, {{"top_k", 2}, {"capacity", 3}});
  const TensorId u = b.add("expert_linear", "up", {z}, {{"out", 8}, {"activation", "relu"}});
  b.add("moe_combine", "combine", {b.add("expert_linear", "down", {u}, {{"out", 4}}), p}, {{"top_k", 2}});
  return b.build();
}

std::map<std::string, Split> expert_splits(const Split& tokens, const Split& dispatched, const Split& experts,
                                           const Split& combined) {
  return {{"stem", tokens}, {"router", tokens}, {"dispatch", dispatched},
          {"up", experts},  {"down", experts},  {"combine", combined}};
}

TEST(WorkedExamples, ExpertsExchangeTokensAllToAll) {
  const std::vector<std::int32_t> all = devices_from(0, 4);
  const Split tokens{{{"b", 4}}, all}, groups{{{"g", 4}}, all};
  const Expansion e(experts(), "p100-4x4", expert_splits(tokens, groups, {{{"e", 4}}, all}, groups));
  // Z = 4·4·3·4·4 B = 768 B, of which 3/4 move.
  EXPECT_THAT(
      e.traffic(),
      ElementsAre("forward dispatch: all-to-all 0,1,2,3 of 576 B",
                  "forward down: all-to-all 0,1,2,3 of 576 B",
                  "backward dispatch: all-to-all 0,1,2,3 of 576 B",
                  "backward down: all-to-all 0,1,2,3 of 576 B", "sync stem.w: all-reduce 0,1,2,3 of 384 B",
                  "sync stem.b: all-reduce 0,1,2,3 of 96 B", "sync router.w: all-reduce 0,1,2,3 of 384 B"));
}

TEST(WorkedExamples, ExpertsInTwoDataGroups) {
  const std::vector<std::int32_t> all = devices_from(0, 4);
  const Split tokens{{{"b", 4}}, all}, groups{{{"g", 4}}, all};
  const Expansion e(experts(), "p100-4x4",
                    expert_splits(tokens, groups, {{{"g", 2}, {"e", 2}}, all}, groups));
  const std::vector<std::string> lines = e.traffic();
  EXPECT_EQ(count_of("all-to-all 0,1 of 192 B", lines), 4);  // half of Z/2
  EXPECT_EQ(count_of("all-to-all 2,3 of 192 B", lines), 4);
  EXPECT_THAT(only("sync up.w", lines),
              ElementsAre("sync up.w: all-reduce 0,2 of 512 B", "sync up.w: all-reduce 1,3 of 512 B"));
}

TEST(WorkedExamples, ExpertsWithCopiedTokensReduceTheirResults) {
  const std::vector<std::int32_t> all = devices_from(0, 4);
  const Split copies{{}, all, 4}, experts_only{{{"e", 4}}, all};
  const Expansion e(experts(), "p100-4x4", expert_splits(copies, experts_only, experts_only, experts_only));
  const std::vector<std::string> lines = e.traffic();
  EXPECT_EQ(count_of("all-to-all", lines), 0);
  // The tokens' gradient lacks the experts in the dispatch, the probabilities' in the combination.
  EXPECT_THAT(only("backward", lines), ElementsAre("backward stem: all-reduce 0,1,2,3 of 2304 B",
                                                   "backward router: all-reduce 0,1,2,3 of 2304 B"));
}

}  // namespace
}  // namespace pipesim
