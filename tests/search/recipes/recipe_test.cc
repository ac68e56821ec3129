#include "search/recipes/recipe.h"

#include <gmock/gmock.h>

#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(Recipe, ReadsWhatPeopleWrite) {
  const Recipe r = parse_recipe(
      "tp8,pp=4,vpp2,dp16,cp2,ep=8,etp1,sp,mbs1,recompute=selective,schedule=interleaved,first=3,last=0");
  EXPECT_EQ(r.tensor, 8);
  EXPECT_EQ(r.pipeline, 4);
  EXPECT_EQ(r.chunks, 2);
  EXPECT_EQ(r.data, 16);
  EXPECT_EQ(r.context, 2);
  EXPECT_EQ(r.expert, 8);
  EXPECT_EQ(r.expert_tensor, 1);
  EXPECT_EQ(r.microbatch, 1);
  EXPECT_TRUE(r.sequence_parallel);
  EXPECT_EQ(r.recompute, Recompute::selective());
  EXPECT_EQ(r.schedule, "interleaved");
  EXPECT_EQ(r.first, 3);
  EXPECT_EQ(r.last, 0);
  EXPECT_EQ(r.devices(), 8 * 4 * 16 * 2);
  EXPECT_EQ(parse_recipe("order=ep-dp-pp-cp-tp").order,
            (std::array{MeshAxis::Expert, MeshAxis::Data, MeshAxis::Pipeline, MeshAxis::Context,
                        MeshAxis::Tensor}));
}

TEST(Recipe, IsWrittenAsItIsRead) {
  for (const char* text :
       {"tp8,pp4,vpp2,cp2,dp16,sp,mbs1,first=3,last=0,recompute=full,schedule=gpipe", "dp1", "tp2",
        "tp4,dp8,ep16,etp2", "dp8,ep8", "cp8,ulysses=2,ring,dp1", "pp2,order=pp-tp-cp-ep-dp",
        "pp4,layers=3-4-4-12", "pp4,recompute=full:3", "recompute=core_attn+mlp", "pp2,zero3,reshard=last",
        "zero3,gradients=whole", "recompute=op", "pp4,schedule=zb-v", "pp4,vpp1,schedule=zb-v",
        "pp4,vpp4,schedule=zb-v"}) {
    const Recipe r = parse_recipe(text);
    EXPECT_EQ(r.str(), text);
    EXPECT_EQ(parse_recipe(r.str()), r);
  }
}

TEST(Recipe, GathersInputsAgainWhereTheSequenceIsDivided) {
  EXPECT_EQ(parse_recipe("tp8").gathered_inputs(), GatheredInputs::Keep);
  EXPECT_EQ(parse_recipe("tp8,sp").gathered_inputs(), GatheredInputs::Again);
  EXPECT_EQ(parse_recipe("cp8").gathered_inputs(), GatheredInputs::Again);
  EXPECT_EQ(parse_recipe("tp8,sp,gathered=keep").gathered_inputs(), GatheredInputs::Keep);
  EXPECT_EQ(parse_recipe("tp8,gathered=again").gathered_inputs(), GatheredInputs::Again);
  EXPECT_EQ(parse_recipe("tp8,sp,gathered=keep").str(), "tp8,sp,gathered=keep");
}

TEST(Recipe, ReducesGradientsBehindTheStepsOfAPipeline) {
  EXPECT_EQ(parse_recipe("dp8,zero1").gradient_reduction(), GradientReduction::Overlapped);
  EXPECT_EQ(parse_recipe("pp2,dp4,zero1").gradient_reduction(), GradientReduction::AfterSteps);
  EXPECT_EQ(parse_recipe("pp2,dp4,zero2").gradient_reduction(), GradientReduction::Overlapped);
  EXPECT_EQ(parse_recipe("pp2,reduce=overlapped").gradient_reduction(), GradientReduction::Overlapped);
  EXPECT_EQ(parse_recipe("pp2,reduce=overlapped").str(), "pp2,reduce=overlapped");
  EXPECT_EQ(parse_recipe("tp8,sp,tp-overlap").str(), "tp8,sp,tp-overlap");
  EXPECT_EQ(parse_recipe("tp8,tp-overlap=always").tensor_overlap, true);
  EXPECT_EQ(parse_recipe("tp8,tp-overlap=never").str(), "tp8,tp-overlap=never");
  EXPECT_EQ(refusal([] { (void)parse_recipe("pp2,reduce=late"); }),
            "recipe: \"reduce=late\": gradient reduction \"late\", allowed: overlapped, after-steps");
}

TEST(Recipe, SaysWhatDevicesDoDuringMessages) {
  EXPECT_EQ(parse_recipe("pp2").messages, std::nullopt);
  EXPECT_EQ(parse_recipe("pp2,messages=beside").messages, StageMessages::Beside);
  EXPECT_EQ(parse_recipe("pp2,vpp2,messages=blocking").str(), "pp2,vpp2,messages=blocking");
  EXPECT_EQ(refusal([] { (void)parse_recipe("pp2,messages=late"); }),
            "recipe: \"messages=late\": messages \"late\", allowed: beside, blocking");
}

TEST(Recipe, DividesState) {
  for (const char* text : {"dp8,zero1", "dp8,mbs1,zero2,shard=4", "dp8,zero3,reshard=never,prefetch=2",
                           "dp8,zero3,weights=float32,gather=float32", "dp8,zero1,prefetch=0,overlap=gather"})
    EXPECT_EQ(parse_recipe(text).str(), text);
  EXPECT_EQ(parse_recipe("dp8,fsdp"), parse_recipe("dp8,zero3,weights=float32"));
  EXPECT_EQ(parse_recipe("dp8,hsdp=4"), parse_recipe("dp8,zero3,weights=float32,shard=4"));
  const auto message = [](const char* text) { return refusal([&] { (void)parse_recipe(text); }); };
  EXPECT_EQ(message("zero4"), "recipe: \"zero4\": allowed: zero with a number from 1 to 3");
  EXPECT_EQ(message("dp8,shard=4"),
            "recipe \"dp8,shard=4\": shard, reshard, gradients, prefetch, weights, gather and overlap belong "
            "to zero1, zero2 or zero3");
  EXPECT_EQ(message("zero1,fsdp"), "recipe: \"fsdp\": is zero3, and the recipe says another zero as well");
  EXPECT_EQ(
      message("zero2,prefetch=2"),
      "recipe \"zero2,prefetch=2\": prefetch belongs to zero3, and to zero1 and zero2 with overlap=gather");
}

// Megatron-LM's rule.
TEST(Recipe, ImpliesThatExpertsAreSplitLikeAllElse) {
  EXPECT_EQ(parse_recipe("tp4,dp8").expert_tensor_degree(), 4);
  EXPECT_FALSE(parse_recipe("tp4,dp8").divides_experts());
  EXPECT_FALSE(parse_recipe("tp4,dp8,etp4").divides_experts());
  EXPECT_TRUE(parse_recipe("tp4,dp8,etp1").divides_experts());
  EXPECT_TRUE(parse_recipe("tp4,dp8,ep2").divides_experts());
  EXPECT_EQ(parse_recipe("tp4,cp2,dp8,ep4").expert_data(), 4);
  EXPECT_EQ(parse_recipe("tp4,cp2,dp8,ep4,etp1").expert_data(), 16);
}

TEST(Recipe, ImpliesItsSchedule) {
  EXPECT_EQ(parse_recipe("pp4").schedule_name(), "1f1b");
  EXPECT_EQ(parse_recipe("pp4,vpp2").schedule_name(), "interleaved");
  EXPECT_EQ(parse_recipe("pp4,schedule=zb-h1").schedule_name(), "zb-h1");
  EXPECT_EQ(parse_recipe("schedule=zb-v,pp4").chunks, 2);
  EXPECT_EQ(parse_recipe("vpp2,schedule=zb-v,pp4"), parse_recipe("pp4,schedule=zb-v"));
  EXPECT_TRUE(parse_recipe("pp4,schedule=zb-v").in_v());
  EXPECT_FALSE(parse_recipe("pp4,vpp2").in_v());
}

TEST(Recipe, RefusesWhatItDoesNotKnow) {
  const auto message = [](const char* text) { return refusal([&] { (void)parse_recipe(text); }); };
  EXPECT_EQ(message(""), "recipe \"\": a part is empty, allowed: parts such as tp8,pp4,dp16");
  EXPECT_EQ(message("tp8,,pp2"), "recipe \"tp8,,pp2\": a part is empty, allowed: parts such as tp8,pp4,dp16");
  EXPECT_EQ(
      message("tq8"),
      "recipe: \"tq8\": unknown part (did you mean \"tp\"?), allowed: tp, cp, ulysses, ring, dp, ep, etp, "
      "pp, vpp, mbs, sp, zero, fsdp, hsdp, shard, reshard, gradients, prefetch, weights, gather, … (31 in "
      "all)");
  EXPECT_EQ(message("cp2,ring=2"), "recipe: \"ring=2\": allowed: ring, without a value");
  EXPECT_EQ(message("tp0"), "recipe: \"tp0\": allowed: tp with a number from 1 to 1048576");
  EXPECT_EQ(message("tp"), "recipe: \"tp\": allowed: tp with a number from 1 to 1048576");
  EXPECT_EQ(message("tp8x"), "recipe: \"tp8x\": allowed: tp with a number from 1 to 1048576");
  EXPECT_EQ(message("first=-1"), "recipe: \"first=-1\": allowed: first with a number from 0 to 1048576");
  EXPECT_EQ(message("tp8,tp=4"), "recipe: \"tp=4\": tp stands there twice");
  EXPECT_EQ(message("gathered=no"), "recipe: \"gathered=no\": gathered inputs \"no\", allowed: keep, again");
  EXPECT_EQ(message("sp2"), "recipe: \"sp2\": allowed: sp, without a value");
  EXPECT_EQ(message("recompute=selective:2"),
            "recipe: \"recompute=selective:2\": recompute \"selective:2\": unknown (did you mean "
            "\"selective\"?), allowed: " +
                recompute_forms());
  EXPECT_EQ(message("recompute=full:0"),
            "recipe: \"recompute=full:0\": recompute \"full:0\": allowed: full: with a number from 1 to "
            "100000 alone");
  EXPECT_EQ(message("recompute=ful"),
            "recipe: \"recompute=ful\": recompute \"ful\": unknown (did you mean \"full\"?), allowed: " +
                recompute_forms());
  for (const char* order : {"order=tp-pp", "order=tp-cp-ep-dp-tp", "order=tp-cp-ep-dp-pp-pp", "order="})
    EXPECT_THAT(message(order),
                testing::EndsWith("allowed: tp, cp, ep, dp and pp once each, the closest first, such "
                                  "as order=tp-cp-ep-dp-pp"));
}

}  // namespace
}  // namespace pipesim
