#include "taskgraph/binding/reused_weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/taskgraph/copies.h"

namespace pipesim {
namespace {

constexpr const char* kReusedLlama =
    "llama:batch=2,layers=3,hidden=8,heads=2,kv_heads=2,vocab=16,sequence=4,ffn=12,dtype=bfloat16";

// The weights in the order of their first uses, which are all alone in their operators.
struct Ordered {
  TensorId weight;
  OperatorId op;
  std::int64_t elements;
};
std::vector<Ordered> ordered_weights(const OperatorGraph& graph) {
  std::vector<Ordered> weights;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    for (const TensorUse& use : graph.op(OperatorId(i)).uses) {
      if (graph.tensor(use.tensor).kind == TensorKind::Weight)
        weights.push_back({use.tensor, OperatorId(i), graph.tensor(use.tensor).elements()});
    }
  }
  return weights;
}

std::vector<bool> reused(const OperatorGraph& graph, const Recompute& recompute, std::int64_t distance) {
  return reused_weights(graph, BackwardUses(graph, true), Recomputation(graph, recompute, {}), distance);
}

// What is behind a weight lies between forward and backward twice.
TEST(ReusedWeights, AreThoseWithLittleBetweenForwardAndBackward) {
  const OperatorGraph graph = make_zoo_model(kReusedLlama);
  const std::vector<Ordered> weights = ordered_weights(graph);
  std::int64_t behind = 0;
  for (std::size_t w = weights.size(); w-- > 0; behind += weights[w].elements) {
    EXPECT_TRUE(reused(graph, {}, 2 * behind + 1)[weights[w].weight.index()]) << w;
    EXPECT_FALSE(reused(graph, {}, 2 * behind)[weights[w].weight.index()]) << w;
  }
  const std::vector<bool> none = reused(graph, {}, 0);
  EXPECT_THAT(none, testing::Each(false));
}

// Weights of the embedding and the head have 128 elements, those of a layer 8, four times 64, 8 and three
// times 96, 560 in all, and the last norm 8. The last product of a layer does not run again but in the last
// one, which runs again before the last norm's backward.
TEST(ReusedWeights, CountWhatRunsAgain) {
  const OperatorGraph graph = make_zoo_model(kReusedLlama);
  constexpr std::int64_t kEnd = 128 + 560 + 8 + 560;  // until the backward of the last layer is done
  const std::map<std::string, std::int64_t> between{
      {"projection", 0},
      {"norm", 128 + 128 + 560},
      {"layer3.down", 136 + 128 + 464},
      {"layer3.attention_norm", 552 + 136 + 128},
      {"layer2.down", 560 + 136 + kEnd + 464},
      {"layer2.attention_norm", 552 + 560 + 136 + kEnd},
      {"layer1.up", 96 + 560 + 560 + 136 + kEnd + 464 + 560 + 368},
      {"word_embedding", 3 * 560 + 136 + kEnd + 2 * (464 + 560)}};
  std::size_t met = 0;
  for (const Ordered& w : ordered_weights(graph)) {
    const auto found = between.find(graph.op(w.op).name);
    if (found == between.end()) continue;
    ++met;
    const Recompute full{Recompute::Kind::Full};
    EXPECT_TRUE(reused(graph, full, found->second + 1)[w.weight.index()]) << found->first;
    EXPECT_FALSE(reused(graph, full, found->second)[w.weight.index()]) << found->first;
  }
  EXPECT_EQ(met, between.size());
}

// Nothing is read of frozen weights below the first adapter in backward, so they do not stay.
TEST(ReusedWeights, HaveABackward) {
  const OperatorGraph graph = make_zoo_model(std::string(kReusedLlama) + ",lora=2");
  const std::vector<bool> all = reused(graph, {}, 1'000'000);
  const std::vector<Ordered> weights = ordered_weights(graph);
  EXPECT_FALSE(all[weights.front().weight.index()]);  // the embedding
  EXPECT_TRUE(all[weights.back().weight.index()]);
  const BackwardUses none(graph, false);
  EXPECT_THAT(reused_weights(graph, none, Recomputation(graph, {}, {}), 1'000'000), testing::Each(false));
}

// What stays gathered is not gathered again, and is there when backward begins.
TEST(DividedState, StaysGatheredWithinTheReuseDistance) {
  const auto copies = [](const std::string& runtime) {
    return std::make_unique<Copies>(kCopiedLlama, "zero3,prefetch=0", 2, DataType::BFloat16, kCopies,
                                    ("deepspeed:buckets=0,step-gradients=own" + runtime).c_str());
  };
  const auto gathered = [](const Copies& c) {
    return c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)];
  };
  const auto none = copies(",reuse-distance=0"), all = copies("");
  const std::int64_t elements = none->parameters();
  const auto bytes = [](const Copies& c) { return c.bytes_of(TaskKind::WeightGather); };
  EXPECT_EQ(bytes(*none), 2 * bytes(*all));
  EXPECT_EQ(gathered(*all), Bytes(2 * elements));
  EXPECT_EQ(bytes(*all), bytes(Copies(kCopiedLlama, "zero3,reshard=never", 2, DataType::BFloat16)));
  // A layer has four matrices for attention, three for the feed-forward part and two norms, and behind the
  // last of three are a norm and the head. Within twice what is behind its first weight, a norm, the last
  // layer stays but for that, which is gathered once more for the layer's backward.
  constexpr std::int64_t kMatrix = 64 * 64, kLayer = 7 * kMatrix + 2 * 64, kStays = kLayer + kMatrix;
  const auto last = copies(fmt::format(",reuse-distance={}", 2 * kStays));
  EXPECT_EQ(bytes(*last) * 2 * elements, bytes(*none) * (2 * elements - kStays));
  EXPECT_EQ(gathered(*last), Bytes(2 * kStays));
  EXPECT_LE(last->peak().peak, allocated_memory(last->expanded)[3]);
}

}  // namespace
}  // namespace pipesim
