#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "models/zoo/zoo.h"
#include "taskgraph/plan/layer_modules.h"
#include "tests/executor/cpu/tested_kernels.h"
#include "tests/executor/equality_case.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_pipelines.h"

namespace pipesim {
namespace {

/// Layers of the zoo's decoder, small enough to be trained many times.
struct DecoderLayersCase {
  const char* name;
  const char* options;
};

class EqualDecoders : public testing::TestWithParam<DecoderLayersCase> {};

TEST_P(EqualDecoders, ASplitModelComputesWhatTheUnsplitOneDoes) {
  const EqualityCase c(
      std::string("decoder:batch=4,dtype=float32,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,"
                  "vocab=48,sequence=8,") +
      GetParam().options);
  if (!make_tested_devices(c.graph, most_devices)->has_all_kernels())
    GTEST_SKIP() << "not all kinds of these layers have GPU kernels";
  Reference reference = c.reference();
  for_each_seed(8, [&](Rng& rng) {
    reference.check(random_strategy(c.graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
  EXPECT_FALSE(HasFailure()) << GetParam().options;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, EqualDecoders,
    testing::Values(
        DecoderLayersCase{"Windows", "mixers=WF,window=3,window_kv_heads=4,window_head_width=8,sinks=window"},
        DecoderLayersCase{"Chunks", "mixers=CG,chunk=4,norms=both,head_norm=all"},
        DecoderLayersCase{"Caps", "score_cap=2,logit_cap=3,sinks=all,norms=after,activation=gelu"},
        DecoderLayersCase{"Parallel",
                          "residual=parallel-two-norms,norm=layer,gated=no,activation=gelu,ffn_bias=yes,"
                          "attention_bias=all,head_width=8,rotary_width=4"},
        DecoderLayersCase{"Gates",
                          "attention_gate=element,head_norm=each,value_width=6,swiglu=fused,activation=gelu"},
        DecoderLayersCase{"GatedHeads", "attention_gate=head,values=keys,position=learned,positions=8"},
        DecoderLayersCase{"Delta",
                          "mixers=DF,delta_key_heads=2,delta_value_heads=4,delta_key_width=4,"
                          "delta_value_width=4,delta_kernel=3"},
        DecoderLayersCase{"DeltaByChannel",
                          "mixers=D,ffns=DE,delta_key_heads=2,delta_value_heads=2,delta_key_width=4,"
                          "delta_value_width=6,delta_decay=channel,delta_decay_latent=4,delta_gate_latent=4,"
                          "experts=4,top_k=2,expert_ffn=8,shared_ffn=8,router=sigmoid"},
        DecoderLayersCase{"StateSpaces",
                          "mixers=M-,ffns=-D,ssm_heads=4,ssm_head_width=4,ssm_groups=2,ssm_states=4,"
                          "ssm_kernel=3,activation=relu2,gated=no"},
        DecoderLayersCase{"Selective",
                          "mixers=VG,ssm_heads=4,ssm_head_width=4,ssm_states=4,ssm_rank=4,ssm_norms=yes"},
        DecoderLayersCase{"Latents",
                          "mixers=F,latent_of_keys=8,latent_of_queries=8,latent_rotary_width=4,"
                          "head_width=4,attention_gate=element"},
        DecoderLayersCase{"SparseLatents",
                          "mixers=SR,latent_of_keys=8,latent_of_queries=8,latent_rotary_width=4,"
                          "head_width=4,index_heads=2,index_width=4,index_keys=3"},
        DecoderLayersCase{"SparseBlocks",
                          "mixers=FS,index_heads=2,index_width=4,index_keys=4,index_block=2,"
                          "index_by_head=yes"},
        DecoderLayersCase{"LatentExperts",
                          "ffns=E,experts=4,top_k=2,expert_ffn=8,expert_latent=8,shared_ffn=8,"
                          "shared_gate=yes,expert_bias=yes"},
        DecoderLayersCase{"Both", "ffns=Ba,further_ffns=12,experts=4,top_k=2,expert_ffn=8,norms=both"},
        DecoderLayersCase{"Linear", "mixers=NF,ffns=DN,projection=tied"},
        DecoderLayersCase{"FurtherTokens", "further_tokens=1,projection=tied"},
        DecoderLayersCase{"Images",
                          "vision_words=2,vision_layers=2,vision_hidden=8,vision_heads=2,vision_ffn=12,"
                          "vision_patch_values=6,vision_positions=16,vision_mergers=2"},
        DecoderLayersCase{
            "GatedImages",
            "vision_words=2,vision_layers=1,vision_hidden=8,vision_heads=2,"
            "vision_head_width=6,vision_ffn=12,vision_patch_values=6,vision_positions=0,vision_pooled=2,"
            "vision_gated=yes"}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace pipesim
