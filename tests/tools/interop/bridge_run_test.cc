#include "tools/interop/megatron_bridge/bridge_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "tools/interop/framework/decoder_sizes.h"

namespace pipesim {
namespace {

const char* const kRecipes = R"py(
import torch
from megatron.bridge import AutoBridge
from megatron.bridge.recipes.common import _peft_common, _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.mixed_precision import bf16_mixed, get_mixed_precision_config


def _low(name: str):
    assert name in [
        "bf16_with_mxfp8_mixed",
        "bf16_mixed",
    ], f"not {name}"
    cfg = pretrain()
    cfg.mixed_precision = get_mixed_precision_config(name)
    return cfg


def pretrain() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-70B").get_model_config()
    cfg.tokenizer.vocab_size = SOME_SIZE
    cfg.dataset.seq_length = 8192
    cfg.model.seq_length = 8192
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.pipeline_dtype = torch.bfloat16
    cfg.model.sequence_parallel = True
    cfg.train.global_batch_size = 512
    cfg.train.micro_batch_size = 1
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    cfg.model.no_such_setting = 3
    return cfg


def low():
    return _low("bf16_with_mxfp8_mixed")


def adapters():
    return _peft_common()
)py";

TEST(MegatronBridge, ReadsARecipeOfPython) {
  const FrameworkRun run = bridge_run(kRecipes, "r.py", "pretrain", 64);
  EXPECT_EQ(run.framework, "megatron");
  EXPECT_EQ(run.model, "llama3-70b");
  EXPECT_EQ(run.recipe.str(), "tp4,pp4,vpp5,dp4,sp,mbs1,zero1,overlap=gather,reduce=overlapped,tp-overlap");
  EXPECT_EQ(run.samples, 512);
  EXPECT_EQ(run.gradient_type, DataType::BFloat16);
  EXPECT_THAT(
      run.left_out,
      testing::ElementsAre("model.no_such_setting: no argument of Megatron-LM says that, so it is left out",
                           "tokenizer.vocab_size: SOME_SIZE is no constant, so it is left out"));
  EXPECT_EQ(decoder_sizes(bridge_run(kRecipes, "r.py", "low", 64).model).products, "mxfp8");
}

TEST(MegatronBridge, RefusesRecipesByTheirPlace) {
  EXPECT_EQ(
      refusal([] { bridge_run(kRecipes, "r.py", "adapters", 8); }),
      "r.py:43: megatron.bridge.recipes.common._peft_common: the training of adapters can't be expressed");
  EXPECT_EQ(refusal([] { bridge_run(kRecipes, "r.py", "", 8); }),
            "r.py: has 3 recipes, allowed: one of them, as r.py:pretrain: pretrain, low, adapters");
  EXPECT_EQ(refusal([] {
              bridge_run("from megatron.bridge.a import base\ndef one():\n    return base()\n", "r.py", "",
                         8);
            }),
            "r.py:3: begins with megatron.bridge.a.base, which is in another file, allowed: ConfigContainer, "
            "_pretrain_common or _sft_common");
}

// This is the configuration as a run saves it.
const char* const kSaved = R"(_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  num_layers: 4
  hidden_size: 1024
  num_attention_heads: 16
  num_query_groups: 4
  ffn_hidden_size: 4096
  gated_linear_unit: true
  add_bias_linear: false
  normalization: RMSNorm
  layernorm_epsilon: 1.0e-05
  position_embedding_type: rope
  rotary_base: 500000
  share_embeddings_and_output_weights: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  vocab_size: 32000   # words
  seq_length: 2048
  tensor_model_parallel_size: 2
  sequence_parallel: true
  recompute_granularity: selective
  recompute_modules:
  - core_attn
  params_dtype:
    _target_: torch.bfloat16
train: {}
mixed_precision:
  bf16: true
  grad_reduce_in_fp32: true
ddp:
  use_distributed_optimizer: true
peft: null
)";

TEST(MegatronBridge, ReadsASavedConfiguration) {
  std::string saved = kSaved;
  saved.replace(saved.find("train: {}"), 9, "train:\n  micro_batch_size: 2\n  global_batch_size: 32");
  const FrameworkRun run = bridge_run(saved, "run.yaml", "", 8);
  EXPECT_EQ(run.recipe.str(), "tp2,dp4,sp,mbs2,zero1,recompute=selective");
  EXPECT_EQ(run.samples, 32);
  const DecoderSizes sizes = decoder_sizes(run.model);
  EXPECT_EQ(sizes.kv_heads, 4);
  EXPECT_EQ(sizes.vocabulary, 32000);
  EXPECT_EQ(sizes.type, DataType::BFloat16);
  EXPECT_THAT(run.left_out, testing::IsEmpty());
  EXPECT_EQ(refusal([] { bridge_run(kSaved, "run.yaml", "", 8); }),
            "run.yaml: --micro-batch-size is missing");
  std::string half = saved;
  half.replace(half.find("size: 2\n  seq"), 7, "size: two");
  EXPECT_EQ(
      refusal([&] { bridge_run(half, "run.yaml", "", 8); }),
      "run.yaml:20: --tensor-model-parallel-size: found \"two\", allowed: a whole number from 1 to 1048576");
}

TEST(MegatronBridge, AsksForAModel) {
  EXPECT_TRUE(
      is_bridge_file("a.yaml", "model:\n  tensor_model_parallel_size: 2\ntrain:\n  x: 1\nddp:\n  y: 1\n"));
  EXPECT_FALSE(is_bridge_file("a.yaml", "--num-layers: 4\n"));
  EXPECT_EQ(refusal([] {
              bridge_run("model:\n  tensor_model_parallel_size: 2\ntrain:\n  x: 1\n", "a.yaml", "", 8);
            }),
            "a.yaml: names no model: model.num_layers is missing, allowed: the configuration that a run "
            "saves, or a "
            "recipe in Python with AutoBridge.from_hf_pretrained(\"…\")");
}

}  // namespace
}  // namespace pipesim
