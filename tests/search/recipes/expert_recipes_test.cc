// Expert parallelism: where recipes put experts, and what is sent between them and their tokens.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "models/zoo/zoo.h"
#include "search/recipes/expand_recipe.h"
#include "search/recipes/recipe_mesh.h"
#include "tests/refusal.h"
#include "tests/taskgraph/expansion.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// 32 positions of `width` numbers; every token goes to 2 of 8 experts of width 24, whose load is balanced.
std::string small_mixtral(std::int64_t batch, const std::string& more = "", std::int64_t width = 16) {
  return fmt::format(
      "mixtral-8x7b:layers=1,hidden={},heads=8,kv_heads=4,vocab=48,sequence=32,ffn=24,dtype=float32,batch={}{"
      "}",
      width, batch, more);
}

class ExpandedExperts : public Expansion {
 public:
  ExpandedExperts(const std::string& text, const std::string& topology_name, const std::string& more = "")
      : ExpandedExperts(completed_on(text, topology_name), topology_name, more) {}
  ExpandedExperts(const Recipe& recipe, const std::string& topology_name, const std::string& more,
                  std::int64_t width = 16)
      : Expansion([&](const OperatorGraph& g,
                      const Topology& t) { return expand_recipe(recipe, RecipeModel(g), t).strategy; },
                  make_zoo_model(small_mixtral(recipe.data * recipe.microbatch, more, width)),
                  topology_name) {}

  static Recipe completed_on(const std::string& text, const std::string& topology_name) {
    return completed(parse_recipe(text),
                     static_cast<std::int64_t>(make_topology(topology_name).num_devices()));
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    return strategy[find(name)].str(graph.operators()[find(name)]);
  }
  [[nodiscard]] std::vector<std::int32_t> devices(const std::string& name) const {
    std::vector<std::int32_t> numbers;
    for (const DeviceId d : strategy[find(name)].devices) numbers.push_back(d.value);
    return numbers;
  }
  [[nodiscard]] std::vector<std::string> traffic_of(std::string_view part) const {
    std::vector<std::string> lines = traffic();
    std::erase_if(lines, [&](const std::string& line) { return line.find(part) == std::string::npos; });
    return lines;
  }

 private:
  [[nodiscard]] std::size_t find(const std::string& name) const {
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      if (graph.operators()[i].name == name) return i;
    }
    throw std::invalid_argument("no operator " + name);
  }
};

TEST(ExpertRecipes, SplitExpertsOverTheirOwnMesh) {
  const ExpandedExperts e("tp2,dp4,ep4", "dgx-a100");
  EXPECT_EQ(e.text("layer1.router"), "b/4 x2 copies on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.dispatch"), "g/4 x2 copies on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gate"), "e/4 f/2 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gated"), "c/4 w/2 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.down"), "e/4 h/2 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.combine"), "g/4 x2 copies on 8 devices from 0");
}

TEST(ExpertRecipes, SplitSamplesOverCopiesOfExperts) {
  const ExpandedExperts e("dp8,ep2", "dgx-a100");
  EXPECT_EQ(e.text("layer1.dispatch"), "g/8 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gate"), "g/4 e/2 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gated"), "n/4 c/2 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.combine"), "g/8 on 8 devices from 0");
}

TEST(ExpertRecipes, SplitExpertsOverTensorAndDataParallelDevices) {
  const ExpandedExperts e("tp4,dp4,ep8,etp1", "dgx-h100:2");
  EXPECT_EQ(e.text("layer1.query"), "b/4 o/4 on 16 devices from 0");
  EXPECT_EQ(e.text("layer1.gate"), "g/2 e/8 on 16 devices from 0");
}

TEST(ExpertRecipes, SplitFeaturesOfExpertsFurtherThanAllElse) {
  const ExpandedExperts e("dp8,ep2,etp4", "dgx-a100");
  EXPECT_EQ(e.text("layer1.query"), "b/8 on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gate"), "e/2 f/4 on 8 devices from 0");
}

TEST(ExpertRecipes, CopyExpertsWhoseTokensAreCopied) {
  const ExpandedExperts e("tp4,dp2,ep2,etp2", "dgx-a100");
  // The two copies of a part of an expert have the same samples in each half of a tensor parallel group.
  EXPECT_EQ(e.text("layer1.gate"), "g/2 e/2 f/2 on 8 devices from 0");
  const ExpandedExperts copies("tp4,dp2,ep2,etp1", "dgx-a100");
  EXPECT_EQ(copies.text("layer1.gate"), "g/2 e/2 x2 copies on 8 devices from 0");
  EXPECT_EQ(copies.devices("layer1.gate"), (std::vector<std::int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(ExpertRecipes, LeaveModelsAsTheyAreWhereExpertsAreNotMentioned) {
  const ExpandedExperts plain("tp2,cp2,dp2", "dgx-a100");
  EXPECT_EQ(ExpandedExperts("tp2,cp2,dp2,etp2", "dgx-a100").strategy, plain.strategy);
  EXPECT_EQ(plain.text("layer1.gate"), "g/2 f/2 x2 copies on 8 devices from 0");
  EXPECT_EQ(plain.devices("layer1.gate"), (std::vector<std::int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(ExpertRecipes, ExchangeTokensAllToAll) {
  const ExpandedExperts e("dp8,ep4", "dgx-a100");
  // 4 samples of 32·2 routes of 16 numbers of 4 B, of which each device keeps 1/4.
  const std::int64_t bytes = 4 * 32 * 2 * 16 * 4 * 3 / 4;
  std::vector<std::string> expected;
  for (const char* way : {"forward", "backward"}) {
    for (const char* of : {"layer1.dispatch", "layer1.down"}) {
      for (const char* group : {"0,1,2,3", "4,5,6,7"})
        expected.push_back(fmt::format("{} {}: all-to-all {} of {} B", way, of, group, bytes));
    }
  }
  std::vector<std::string> lines = e.traffic_of("layer1.dispatch:");
  for (std::string& line : e.traffic_of("layer1.down:")) lines.push_back(std::move(line));
  EXPECT_THAT(lines, testing::UnorderedElementsAreArray(expected));
  // The two copies of an expert have a share of the samples each; all 8 devices have copies of the router.
  EXPECT_THAT(e.traffic_of("sync layer1.gate.w"),
              ElementsAre("sync layer1.gate.w: all-reduce 0,4 of 6144 B",
                          "sync layer1.gate.w: all-reduce 1,5 of 6144 B",
                          "sync layer1.gate.w: all-reduce 2,6 of 6144 B",
                          "sync layer1.gate.w: all-reduce 3,7 of 6144 B"));
  EXPECT_THAT(e.traffic_of("sync layer1.router.w"),
              ElementsAre("sync layer1.router.w: all-reduce 0,1,2,3,4,5,6,7 of 7168 B"));
}

TEST(ExpertRecipes, NeedNoSynchronisationWithoutCopies) {
  EXPECT_THAT(ExpandedExperts("dp8,ep8", "dgx-a100").traffic_of("sync layer1.gate.w"), IsEmpty());
  EXPECT_THAT(ExpandedExperts("tp2,dp4,ep4", "dgx-a100").traffic_of("sync layer1.gate.w"), IsEmpty());
  EXPECT_THAT(ExpandedExperts("dp8,ep4", "dgx-a100").traffic_of("sync layer1.gate.w"), Not(IsEmpty()));
}

// 2 all-to-alls forward and 2 backward for topk · (tokens of the device) · h · w · (1 − 1/ep) bytes of each
// device, where the load is balanced.
void check_closed_form(const std::string& text, const std::string& topology, std::int64_t token_groups) {
  SCOPED_TRACE(text);
  const Recipe recipe = ExpandedExperts::completed_on(text, topology);
  const ExpandedExperts e(recipe, topology, fmt::format(",token_groups={}", token_groups));
  const std::int64_t split = recipe.context * (recipe.sequence_parallel ? recipe.tensor : 1);
  const std::int64_t tokens = recipe.microbatch * 32 / split;
  const std::int64_t bytes = 2 * tokens * 16 * 4 * (recipe.expert - 1) / recipe.expert;
  for (const char* of : {"forward layer1.dispatch:", "forward layer1.down:", "backward layer1.dispatch:",
                         "backward layer1.down:"}) {
    SCOPED_TRACE(of);
    const std::vector<std::string> lines = e.traffic_of(of);
    EXPECT_EQ(std::ssize(lines) * recipe.expert, recipe.devices());
    for (const std::string& line : lines) {
      EXPECT_THAT(line, testing::HasSubstr(": all-to-all "));
      EXPECT_THAT(line, testing::EndsWith(fmt::format(" of {} B", bytes * recipe.expert)));
    }
  }
  // No device needs tokens of others before it dispatches its own.
  EXPECT_THAT(e.traffic_of("layer1.ffn_norm:"), IsEmpty());
  EXPECT_THAT(e.traffic_of("layer1.router_weights:"), IsEmpty());
}

TEST(ExpertRecipes, MoveWhatTheClosedFormSays) {
  check_closed_form("dp8,ep8", "dgx-a100", 1);
  check_closed_form("dp8,ep4,mbs2", "dgx-a100", 1);
  check_closed_form("dp8,ep4", "dgx-a100", 2);
  check_closed_form("cp2,dp4,ep8", "dgx-a100", 2);
  check_closed_form("cp4,dp2,ep2", "dgx-a100", 4);
  check_closed_form("tp2,dp4,ep8,etp1,sp", "dgx-a100", 2);
  check_closed_form("tp2,dp4,ep4,etp1,sp", "dgx-a100", 2);
  check_closed_form("tp4,dp2,ep2,etp1,sp", "dgx-a100", 4);
  check_closed_form("tp2,cp2,dp2,ep8,etp1,sp,mbs2", "dgx-a100", 4);
  check_closed_form("tp2,cp2,dp4,ep4,etp1,sp", "dgx-h100:2", 4);
  check_closed_form("tp8,dp2,ep8,etp1,sp", "dgx-h100:2", 8);
}

// The features of an expert are divided over etp. All its parts take its tokens: those of each rank of etp
// come all-to-all over ep, then they are gathered over etp. Results are addends: they are reduced over etp,
// and go back all-to-all. An all-to-all of each rank carries topk · (tokens of the device) · h · w · (1 −
// 1/ep) bytes of each device. So it is where etp is in a node and ep is not; else one all-to-all of all may
// be as fast.
void check_expert_tensor_parallelism(const std::string& text, const std::string& topology) {
  SCOPED_TRACE(text);
  const Recipe recipe = ExpandedExperts::completed_on(text, topology);
  const std::int64_t split = recipe.context * recipe.tensor, etp = recipe.expert_tensor_degree();
  constexpr std::int64_t kWidth = 1 << 17;  // so that latency does not decide
  const ExpandedExperts e(recipe, topology, fmt::format(",token_groups={}", split), kWidth);
  const std::int64_t held = 2 * (recipe.microbatch * 32 / split) * kWidth * 4, devices = recipe.devices();
  const auto lines = [&](const char* of, std::string_view kind) {
    std::vector<std::string> found = e.traffic_of(of);
    std::erase_if(found, [&](const std::string& line) { return line.find(kind) == std::string::npos; });
    return found;
  };
  for (const char* of : {"forward layer1.dispatch:", "forward layer1.down:", "backward layer1.dispatch:",
                         "backward layer1.down:"}) {
    SCOPED_TRACE(of);
    const bool gathers =
        std::string_view(of) == "forward layer1.dispatch:" || std::string_view(of) == "backward layer1.down:";
    const auto exchanges = lines(of, ": all-to-all "),
               sums = lines(of, gathers ? ": all-gather " : ": reduce-scatter ");
    EXPECT_EQ(std::ssize(exchanges) * recipe.expert, devices);
    for (const std::string& line : exchanges)
      EXPECT_THAT(line, testing::EndsWith(fmt::format(" of {} B", held * (recipe.expert - 1))));
    EXPECT_EQ(std::ssize(sums) * etp, devices);
    for (const std::string& line : sums)
      EXPECT_THAT(line, testing::EndsWith(fmt::format(" of {} B", (etp - 1) * etp * held)));
    EXPECT_EQ(exchanges.size() + sums.size(), e.traffic_of(of).size());
  }
}

TEST(ExpertRecipes, ReduceAndGatherOverTheFeaturesOfAnExpert) {
  check_expert_tensor_parallelism("tp2,dp4,ep4,etp2,sp", "p100-4x4:2");
  check_expert_tensor_parallelism("tp4,dp2,ep2,etp4,sp", "p100-4x4:2");
  check_expert_tensor_parallelism("tp4,dp4,ep4,etp4,sp", "dgx-h100:2");
  check_expert_tensor_parallelism("tp2,dp8,ep8,etp2,sp", "dgx-h100:2");
  check_expert_tensor_parallelism("tp2,dp8,ep4,etp2,sp,mbs2", "p100-4x4:4");
}

// Tensor parallel devices have copies of all tokens. Each of their experts takes a block from one copy, and
// gives it back to both.
TEST(ExpertRecipes, ExchangeCopiedTokensAllToAll) {
  const ExpandedExperts e("tp2,dp4,ep8,etp1", "dgx-a100");
  const std::int64_t block = 32 * 2 * 16 * 4 / 8;  // of a sample, for one expert
  for (const char* of : {"forward layer1.dispatch:", "backward layer1.down:"}) {
    EXPECT_THAT(e.traffic_of(of),
                ElementsAre(fmt::format("{} all-to-all 0,2,4,6 of {} B", of, 4 * 3 * block),
                            fmt::format("{} all-to-all 1,3,5,7 of {} B", of, 4 * 3 * block)));
  }
  for (const char* of : {"forward layer1.down:", "backward layer1.dispatch:"})
    EXPECT_THAT(e.traffic_of(of),
                ElementsAre(fmt::format("{} all-to-all 0,1,2,3,4,5,6,7 of {} B", of, 8 * 7 * block)));
}

// Split experts want the tokens of all their devices, and give back addends.
TEST(ExpertRecipes, GatherTokensWhereGroupsAreTooLong) {
  // 4 parts of the sequence, 2 groups of tokens.
  const ExpandedExperts e("tp4,dp2,ep2,etp1,sp", "dgx-a100", ",token_groups=2");
  EXPECT_EQ(e.text("layer1.dispatch"), "g/2 x4 copies on 8 devices from 0");
  EXPECT_EQ(e.text("layer1.gate"), "g/2 e/2 x2 copies on 8 devices from 0");
  EXPECT_THAT(e.traffic_of("forward layer1.ffn_norm:"), Not(IsEmpty()));
  const ExpandedExperts fine("tp4,dp2,ep2,etp1,sp", "dgx-a100", ",token_groups=4");
  EXPECT_EQ(fine.text("layer1.dispatch"), "g/2 m/4 on 8 devices from 0");
  EXPECT_EQ(fine.text("layer1.gate"), "g/2 m/2 e/2 on 8 devices from 0");
}

using Parts = std::vector<ExpertMeshPart>;

Parts mesh(const char* recipe, const char* topology) {
  const RecipeMesh mesh(ExpandedExperts::completed_on(recipe, topology), make_topology(topology));
  return {mesh.experts_slowest_first().begin(), mesh.experts_slowest_first().end()};
}

TEST(ExpertMesh, IsWithinTheDevicesOfAStage) {
  const ExpertMeshPart experts{MeshAxis::Expert, 4, {}}, whole{MeshAxis::Tensor, 1, {}};
  EXPECT_EQ(mesh("dp8,ep4", "dgx-h100"), (Parts{{MeshAxis::Data, 2, MeshAxis::Data}, experts, whole}));
  EXPECT_EQ(mesh("tp2,dp8,ep4", "dgx-h100:2"),
            (Parts{{MeshAxis::Data, 2, MeshAxis::Data}, experts, {MeshAxis::Tensor, 2, {}}}));
  EXPECT_EQ(mesh("tp2,pp2,dp4,ep4,etp1", "dgx-h100:2"),
            (Parts{{MeshAxis::Data, 2, MeshAxis::Data}, experts, whole}));
  // The tensor parallel devices hold copies of two of these experts.
  EXPECT_EQ(
      mesh("tp8,dp2,ep4,etp1", "dgx-h100:2"),
      (Parts{{MeshAxis::Data, 2, MeshAxis::Data}, {MeshAxis::Data, 2, MeshAxis::Tensor}, experts, whole}));
  EXPECT_EQ(
      mesh("tp2,cp4,dp2,ep4,etp1", "dgx-h100:2"),
      (Parts{{MeshAxis::Data, 2, MeshAxis::Data}, {MeshAxis::Data, 2, MeshAxis::Context}, experts, whole}));
  // In this order ep comes after dp, so the devices of an expert group are farther apart than the copies.
  EXPECT_EQ(mesh("tp2,dp4,ep4,etp1,order=tp-dp-cp-ep-pp", "dgx-h100"),
            (Parts{experts, {MeshAxis::Data, 2, MeshAxis::Tensor}, whole}));
  // 3 copies of experts on devices of 2 samples and 3 parts of each.
  EXPECT_EQ(mesh("tp3,dp2,ep2,etp1", "levels:6@1GB/s"),
            (Parts{{MeshAxis::Data, 3, std::nullopt}, {MeshAxis::Expert, 2, {}}, whole}));
}

TEST(ExpertRecipes, SayWhyNotAndWhatWouldBePossible) {
  const auto message = [](const char* model, const char* text) {
    return refusal([&] {
      const Topology topology = make_topology("dgx-a100");
      const Recipe recipe = ExpandedExperts::completed_on(text, "dgx-a100");
      const OperatorGraph graph =
          make_zoo_model(fmt::format("{},batch={}", model, recipe.data * recipe.microbatch));
      (void)expand_recipe(recipe, RecipeModel(graph), topology);
    });
  };
  const char* const dense = "gpt:layers=4,hidden=32,heads=8,vocab=50,sequence=16,positions=16";
  const char* const experts =
      "mixtral-8x7b:layers=1,hidden=16,heads=8,kv_heads=4,vocab=48,sequence=16,experts=4,ffn=18";
  EXPECT_EQ(message(dense, "tp2,ep2"),
            "recipe \"tp2,dp4,ep2,mbs1\": ep2 divides experts, and the model has none; the nearest that is "
            "possible: tp2,dp4,mbs1");
  EXPECT_EQ(message(dense, "tp2,etp2"),
            "recipe \"tp2,dp4,etp2,mbs1\": etp2 divides features of experts, and the model has none; the "
            "nearest that is possible: tp2,dp4,mbs1");
  EXPECT_EQ(message(experts, "ep8"),
            "recipe \"dp8,ep8,mbs1\": ep8 does not divide the 4 experts of \"layer1.gate\"; the nearest that "
            "is possible: dp8,ep4,mbs1");
  EXPECT_EQ(message(experts, "etp4"),
            "recipe \"dp8,etp4,mbs1\": etp4 does not divide the 18 features of \"layer1.gate\"; the nearest "
            "that is possible: dp8,etp2,mbs1");
  EXPECT_EQ(
      message(experts, "tp2,pp2,ep4,first=0"),
      "recipe \"tp2,pp2,dp2,ep4,mbs1,first=0\": etp2 x ep4 is 8 devices, which do not divide the 4 of tp2 "
      "x dp2; the nearest that is possible: tp2,pp2,dp2,ep2,mbs1,first=0");
}

}  // namespace
}  // namespace pipesim
