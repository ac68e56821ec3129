// Volumes and memory of one transformer block under tensor and sequence parallelism, against the closed forms
// of Korthikanti et al. 2023 ("Reducing activation recomputation in large transformer models").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "taskgraph/memory/peak_memory.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr std::int64_t kSequence = 64, kHidden = 128, kHeads = 16, kSamples = 2, kTensor = 8;

struct Amounts {
  std::int64_t forward = 0, again = 0, backward = 0;  // bytes on links
  std::int64_t rotated = 0;                           // the same, inside attention
  std::int64_t kept = 0;                              // at the peak of a device, of activations and inputs
  Amounts operator-(const Amounts& other) const {
    return {forward - other.forward, again - other.again, backward - other.backward, rotated - other.rotated,
            kept - other.kept};
  }
};

Amounts amounts_of(const std::string& model, std::int64_t layers, const std::string& recipe,
                   const std::string& more, const std::string& devices = "dgx-a100:1") {
  const OperatorGraph graph =
      make_zoo_model(model + ":layers=" + std::to_string(layers) + ",hidden=" + std::to_string(kHidden) +
                     ",heads=" + std::to_string(kHeads) + ",sequence=" + std::to_string(kSequence) +
                     ",vocab=64,dtype=bfloat16,batch=" + std::to_string(kSamples) + more);
  const Topology topology = make_topology(devices);
  const CostModel costs(topology);
  PlanOptions options;
  const RecipeStrategy made = expand_recipe(parse_recipe(recipe), RecipeModel(graph), topology);
  made.apply_to(options);
  Evaluator evaluator(graph, costs, options);
  const Evaluated found =
      evaluator.evaluate(made.strategy, {.extent = Extent::All, .peaks = true, .part = Labels::Make});
  Amounts amounts;
  for (const TaskLabel& l : found.part->labels()) {
    const std::int64_t bytes =
        is_communication(l.kind) ? bytes_on_links(l.collective, l.group_size, l.size) : 0;
    if (l.kind == TaskKind::ForwardTransfer) amounts.forward += bytes;
    if (l.kind == TaskKind::RecomputeTransfer) amounts.again += bytes;
    if (l.kind == TaskKind::BackwardTransfer) amounts.backward += bytes;
    if (l.kind == TaskKind::Rotation) amounts.rotated += bytes;
  }
  const DeviceMemory& memory = found.peaks.front();
  for (const MemoryCategory c : {MemoryCategory::Activations, MemoryCategory::Transfers})
    amounts.kept += memory.at_peak[static_cast<std::size_t>(c)].value;
  return amounts;
}

// What one more block adds.
Amounts of_block(const std::string& recipe) {
  const std::string positions = ",positions=" + std::to_string(kSequence);
  return amounts_of("gpt", 4, recipe, positions) - amounts_of("gpt", 3, recipe, positions);
}

constexpr std::int64_t kValues = kSamples * kSequence * kHidden;
constexpr std::int64_t kGathered =
    (kTensor - 1) * kValues * 2;  // bytes on links to gather 16-bit activations
// Kept in full precision: mean and deviation of a row in each of two norms, and for each head the logarithm
// of a row's sum.
constexpr std::int64_t kStatistics = (2 * 2 + kHeads) * kSamples * kSequence * 4;

TEST(MegatronClosedForms, TensorParallelismReducesFourTimesABlock) {
  const Amounts block = of_block("tp8,dp1,mbs2");
  EXPECT_EQ(block.forward, 2 * 2 * kGathered);
  EXPECT_EQ(block.backward, 2 * 2 * kGathered);
  EXPECT_EQ(block.again, 0);
}

TEST(MegatronClosedForms, SequenceParallelismGathersTwiceMoreForBackward) {
  const Amounts block = of_block("tp8,dp1,sp,mbs2");
  EXPECT_EQ(block.forward, 4 * kGathered);
  EXPECT_EQ(block.backward, 4 * kGathered);
  EXPECT_EQ(block.again, 2 * kGathered);
  EXPECT_EQ(of_block("tp8,dp1,sp,mbs2,gathered=keep").again, 0);
}

// Keys and values, 2·b·s·h, gathered forward, gathered again, and their gradients reduced and scattered.
TEST(MegatronClosedForms, ContextParallelismGathersKeysAndValues) {
  const Amounts block = of_block("cp8,dp1,mbs2");
  EXPECT_EQ(block.forward, 2 * kGathered);
  EXPECT_EQ(block.again, 2 * kGathered);
  EXPECT_EQ(block.backward, 2 * kGathered);
}

// The same bytes in cp − 1 steps, and the same kept: a part of keys and values.
TEST(MegatronClosedForms, ARingPassesTheBytesThatContextParallelismGathers) {
  const Amounts ring = of_block("cp8,ring,dp1,mbs2"), gathered = of_block("cp8,dp1,mbs2");
  EXPECT_EQ(ring.rotated, gathered.forward + gathered.again + gathered.backward);
  EXPECT_EQ(ring.rotated, 6 * kGathered);
  EXPECT_EQ(ring.forward + ring.again + ring.backward, 0);
  EXPECT_EQ(ring.kept, gathered.kept);
  const std::int64_t others = 2 * kValues * 2 * (kTensor - 1) / kTensor;  // parts of keys and values
  EXPECT_EQ(of_block("cp8,dp1,mbs2,gathered=keep").kept, ring.kept + others);
}

// Groups of two exchange heads, and rings of four pass keys and values of half of the heads.
TEST(MegatronClosedForms, AHybridExchangesAndPassesRound) {
  const Amounts ring = of_block("cp8,ulysses=2,ring,dp1,mbs2"), gathered = of_block("cp8,ulysses=2,dp1,mbs2");
  const std::int64_t bytes = kValues * 2, exchanged = 4 * bytes / 2, gathered_once = 2 * bytes * 3;
  EXPECT_EQ(ring.forward, exchanged);
  EXPECT_EQ(ring.backward, exchanged);
  EXPECT_EQ(gathered.forward, exchanged + gathered_once);
  EXPECT_EQ(ring.rotated, 3 * gathered_once);
}

// Forward runs again, and so do its messages.
TEST(MegatronClosedForms, RecomputationPassesRoundAgain) {
  EXPECT_EQ(of_block("cp8,ring,dp1,mbs2,recompute=full").rotated, 8 * kGathered);
}

// Queries, keys, values and results, of which a device keeps one part of eight (Jacobs et al. 2023, section
// 3.1).
TEST(MegatronClosedForms, UlyssesExchangesFourTensors) {
  const Amounts block = of_block("cp8,ulysses=8,dp1,mbs2");
  EXPECT_EQ(block.forward, 4 * kGathered / kTensor);
  EXPECT_EQ(block.backward, 4 * kGathered / kTensor);
  EXPECT_EQ(block.again, 0);
}

// Groups of four exchange heads, each device's of two groups gather keys and values of a quarter of the
// heads.
TEST(MegatronClosedForms, AHybridExchangesAndGathers) {
  const Amounts block = of_block("cp8,ulysses=4,dp1,mbs2");
  const std::int64_t bytes = kValues * 2, exchanged = 4 * bytes * 3 / 4, gathered = 2 * bytes;
  EXPECT_EQ(block.forward, exchanged + gathered);
  EXPECT_EQ(block.backward, exchanged + gathered);
}

// Heads of keys and values are fewer than the devices that exchange them: each goes to all devices that
// compute one of its query heads (Jacobs et al. 2023 replicate them). Queries and results as before.
TEST(MegatronClosedForms, UlyssesCopiesFewHeadsOfKeysAndValues) {
  constexpr std::int64_t kKeys = kHeads / 4;  // heads; half as many as devices
  const auto block = [&](const char* recipe) {
    return amounts_of("llama", 4, recipe, ",kv_heads=4") - amounts_of("llama", 3, recipe, ",kv_heads=4");
  };
  const Amounts amounts = block("cp8,ulysses=8,dp1,mbs2");
  const std::int64_t bytes = kValues * 2, head = bytes / kHeads;
  const std::int64_t exchanged = 2 * bytes * 7 / 8 + 2 * (kTensor * head) * 7 / 8;
  static_assert(kKeys * 2 == kTensor);
  EXPECT_EQ(amounts.forward, exchanged);
  EXPECT_EQ(amounts.backward, exchanged);
}

// 34 bytes less the masks of dropout, of which there is none here.
TEST(MegatronClosedForms, SequenceParallelismKeepsItsShareOfABlock) {
  EXPECT_EQ(of_block("tp8,dp1,sp,mbs2").kept, (32 * kValues + kStatistics) / kTensor);
}

// Norms, their inputs and what attention and the second product give to the sum are not divided: 10 bytes,
// less a mask for each of two dropouts.
TEST(MegatronClosedForms, TensorParallelismAloneKeepsWhatNormsRead) {
  const std::int64_t norms = 2 * 2 * kSamples * kSequence * 4;
  EXPECT_EQ(of_block("tp8,dp1,mbs2").kept,
            8 * kValues + norms + (24 * kValues + kStatistics - norms) / kTensor);
}

// Each of these experts, on a device of its own, keeps of a token that is sent to it: the token as it
// arrived, both halves of the gated product, which are its operands, and its weighted result, which the last
// product reads. Megatron-LM's experts (core 0.13 and later: megatron/core/transformer/moe/experts.py,
// TEGroupedMLP) keep the same; nothing that was sent, or that experts return, is kept. Routes are kept twice,
// as 8 bytes.
TEST(MegatronClosedForms, ExpertsKeepWhatTheirProductsRead) {
  constexpr std::int64_t kInner = 48;
  const auto of_tokens = [&](const std::string& recipe, const std::string& kept) {
    const auto block = [&](const char* top_k) {
      const std::string more = ",kv_heads=8,experts=8,ffn=48,token_groups=8,kept=" + kept + ",top_k=" + top_k;
      return amounts_of("mixtral-8x7b", 4, recipe, more).kept -
             amounts_of("mixtral-8x7b", 3, recipe, more).kept;
    };
    return block("4") - block("2");
  };
  constexpr std::int64_t kRows = 2 * kSamples * kSequence / kTensor, kWeight = 2, kRoute = 8;
  const std::string recipe = "tp8,dp1,sp,ep8,etp1,mbs2";
  EXPECT_EQ(of_tokens(recipe, "megatron"), kRows * (2 * kHidden + 6 * kInner + kWeight + 2 * kRoute));
  EXPECT_EQ(of_tokens(recipe + ",recompute=moe_act", "megatron"),
            kRows * (2 * kHidden + 4 * kInner + kWeight + 2 * kRoute));
  // Weighted where they are added up, results are kept, too.
  EXPECT_EQ(of_tokens(recipe, "once,swiglu=fused"), kRows * (4 * kHidden + 6 * kInner + kRoute));
}

TEST(MegatronClosedForms, FullRecomputationKeepsTheInputOfABlock) {
  EXPECT_EQ(of_block("tp8,dp1,mbs2,recompute=full").kept, 2 * kValues);
  EXPECT_EQ(of_block("tp8,dp1,sp,mbs2,recompute=full").kept, 2 * kValues / kTensor);
}

constexpr std::int64_t kKeyHeads = 8, kWide = 320, kWidth = kHidden / kHeads, kTokens = kSamples * kSequence;

std::int64_t kept_of_llama(std::int64_t layers, const std::string& recipe, const std::string& options) {
  const std::string more =
      fmt::format(",kv_heads={},ffn={}{}", kKeyHeads, kWide, options.empty() ? "" : "," + options);
  return amounts_of("llama", layers, recipe, more,
                    recipe.starts_with("tp8") ? "dgx-h100:1" : "dgx-h100:gpus=1")
      .kept;
}

// What one more block of Llama keeps.
std::int64_t kept_of_block(const std::string& recipe, const std::string& options) {
  return kept_of_llama(4, recipe, options) - kept_of_llama(3, recipe, options);
}

// What a token's rows take outside norms: queries and results, keys and values in 16 bits, a row's sum for
// each head, both halves of the gated part in 16 bits, its result, and the copy of attention's result.
std::int64_t inside(std::int64_t bytes_of_gated, std::int64_t bytes_of_copy) {
  return 2 * (2 * kHeads + 2 * kKeyHeads) * kWidth + 4 * kHeads + (4 + bytes_of_gated) * kWide +
         bytes_of_copy * kHeads * kWidth;
}

// Transformer Engine keeps in 8 bits what products read: both norms' results, the gated part's, and a copy of
// attention's. Norms' inputs, 2 bytes each, and their statistics, 4 a row, are as before.
TEST(MegatronClosedForms, ProductsInFloat8KeepTheirInputsInIt) {
  const std::string in16 = "kept=megatron", in8 = "kept=megatron,products=float8";
  EXPECT_EQ(kept_of_block("dp1,mbs2", in16), kTokens * (8 * kHidden + 8 + inside(2, 2)));
  EXPECT_EQ(kept_of_block("dp1,mbs2", in8), kTokens * (6 * kHidden + 8 + inside(1, 1)));
  EXPECT_EQ(kept_of_block("tp8,dp1,mbs2", in8),
            kTokens * (6 * kHidden + 8) + kTokens / kTensor * inside(1, 1));
  EXPECT_EQ(kept_of_block("tp8,dp1,sp,mbs2", in8), kTokens / kTensor * (6 * kHidden + 8 + inside(1, 1)));
  EXPECT_EQ(kept_of_block("dp1,mbs2", in8 + ",swiglu_inputs=float8"),
            kTokens * (6 * kHidden + 8 + inside(1, 1) - 2 * kWide));
}

// Experts keep their tokens and the gated part's results in 8 bits. The norm before the router is kept in 16.
TEST(MegatronClosedForms, ExpertsInFloat8KeepTheirTokensInIt) {
  const std::string sizes = fmt::format(",kv_heads={},ffn={},kept=megatron", kKeyHeads, kWide);
  const auto kept_of_block_with = [&](const std::string& products, const std::string& recompute = "none") {
    const auto kept = [&](std::int64_t layers) {
      return amounts_of("mixtral-8x7b", layers, "dp1,mbs2,recompute=" + recompute, sizes + products,
                        "dgx-h100:gpus=1")
          .kept;
    };
    return kept(4) - kept(3);
  };
  const OperatorGraph graph =
      make_zoo_model(fmt::format("mixtral-8x7b:layers=1,hidden={},heads={},sequence={},vocab=64,batch={}{}",
                                 kHidden, kHeads, kSequence, kSamples, sizes));
  std::int64_t routed = 0;  // rows of all experts
  for (const Operator& op : graph.operators()) {
    if (op.kind == "expert_linear" && graph.tensor(op.uses[0].tensor).shape.back() == kHidden)
      routed = graph.tensor(op.uses[0].tensor).elements() / kHidden;
  }
  EXPECT_GE(routed, 2 * kTokens);
  EXPECT_EQ(kept_of_block_with("") - kept_of_block_with(",products=float8"),
            kTokens * (kHidden + kHeads * kWidth) + routed * (kHidden + kWide));
  // Both halves of the gated part, too, in 8 bits, whether the gated part's result is kept or made again.
  for (const char* recompute : {"none", "moe_act"}) {
    EXPECT_EQ(kept_of_block_with(",products=float8", recompute) -
                  kept_of_block_with(",products=float8,swiglu_inputs=float8", recompute),
              routed * 2 * kWide)
        << recompute;
  }
}

// Forward, tokens go to their experts in 8 bits, with four bytes for each 128 elements, and results come back
// in 16. Backward, gradients of results go there in 8 bits, and gradients of tokens come back in 16.
TEST(MegatronClosedForms, TokensTravelToExpertsInFloat8) {
  const auto of_block_with = [](const std::string& more) {
    const std::string recipe = "tp8,dp1,ep8,etp1,sp,mbs2", groups = ",token_groups=8,experts=8,top_k=2";
    return amounts_of("mixtral-8x7b", 4, recipe, groups + more) -
           amounts_of("mixtral-8x7b", 3, recipe, groups + more);
  };
  constexpr std::int64_t kOfExpert = (kSequence / 8 * 2 + 7) / 8;  // tokens of a group
  constexpr std::int64_t kIn16 = 2 * kSamples * 8 * 8 * kOfExpert * kHidden, kIn8 = kIn16 / 2 * 132 / 128;
  const Amounts own = of_block_with(""), in8 = of_block_with(",dispatch=float8");
  EXPECT_EQ(own.forward - in8.forward, (kIn16 - kIn8) * 7 / 8);
  EXPECT_EQ(own.backward - in8.backward, (kIn16 - kIn8) * 7 / 8);
  EXPECT_EQ(in8.again, own.again);
}

// Norms' results, which are gathered for products, are kept as gathered.
TEST(MegatronClosedForms, ProductsInFloat8KeepWhatWasGathered) {
  EXPECT_EQ(kept_of_block("tp8,dp1,sp,mbs2,gathered=keep", "kept=megatron,products=float8"),
            kTokens / kTensor * (4 * kHidden + 8 + inside(1, 1)) + kTokens * 2 * kHidden);
}

// What products were given is kept and cast again in torchao.
TEST(MegatronClosedForms, ProductsInFloat8KeepTheirInputsUncastAsTorchDoes) {
  for (const char* recipe : {"dp1,mbs2", "tp8,dp1,sp,mbs2"})
    EXPECT_EQ(kept_of_block(recipe, "kept=torch,products=float8"), kept_of_block(recipe, "kept=torch"));
}

// Copies are made again with the rest of a block, the inputs of which alone are kept.
TEST(MegatronClosedForms, FullRecomputationMakesCopiesInFloat8Again) {
  const std::string fused = "swiglu=fused", in8 = fused + ",products=float8";
  EXPECT_EQ(kept_of_block("dp1,mbs2,recompute=full", in8), 2 * kValues);
  EXPECT_EQ(kept_of_block("tp8,dp1,sp,mbs2,recompute=full", in8), 2 * kValues / kTensor);
  // The peak comes when backward has read the gated part's result: copies of both norms' results instead of
  // these, and one of attention's beside it.
  EXPECT_EQ(
      kept_of_llama(3, "dp1,mbs2,recompute=full", fused) - kept_of_llama(3, "dp1,mbs2,recompute=full", in8),
      kTokens * (2 * kHidden - kHeads * kWidth));
}

// Attention's result is made again for the projection, which then needs no copy of it.
TEST(MegatronClosedForms, SelectiveRecomputationKeepsNoCopyOfAttention) {
  const std::int64_t attention = 2 * kHeads * kWidth + 4 * kHeads + kHeads * kWidth;  // result, sums, copy
  EXPECT_EQ(kept_of_block("tp8,dp1,sp,mbs2,recompute=selective", "kept=megatron,products=float8"),
            kTokens / kTensor * (6 * kHidden + 8 + inside(1, 1) - attention));
}

// The feed-forward part keeps the input of its norm alone.
TEST(MegatronClosedForms, RecomputationOfAModuleKeepsNoCopiesInside) {
  EXPECT_EQ(kept_of_block("tp8,dp1,sp,mbs2,recompute=mlp", "kept=megatron,products=float8"),
            kTokens / kTensor * (5 * kHidden + 4 + inside(1, 1) - 5 * kWide));
}

}  // namespace
}  // namespace pipesim
