#include "costmodel/training/optimizer.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using testing::ThrowsMessage;
using enum DataType;
using Main = Optimizer::Main;

// Bytes for each of 1024 elements.
double bytes_of_state(const char* optimizer, const WeightShape& shape) {
  return static_cast<double>(state_bytes(1024, shape, parse_optimizer(optimizer)).value) / 1024;
}

TEST(OptimizerState, IsAsLargeAsItsKindSays) {
  EXPECT_EQ(bytes_of_state("sgd", Float32), 0);
  EXPECT_EQ(bytes_of_state("momentum", Float32), 4);
  EXPECT_EQ(bytes_of_state("lion", Float32), 4);
  EXPECT_EQ(bytes_of_state("adam", Float32), 8);
  EXPECT_EQ(bytes_of_state("adam", Float64), 16);
  EXPECT_EQ(bytes_of_state("adam8bit", Float32), 2 + 2 * 4.0 / 256);
  EXPECT_EQ(bytes_of_state("adafactor", Float32), 4);
  EXPECT_EQ(bytes_of_state("adafactor", WeightShape(Float32, 32, 64, true)), 4.0 / 32 + 4.0 / 64);
  EXPECT_EQ(bytes_of_state("muon", Float32), 8);
  EXPECT_EQ(bytes_of_state("muon", WeightShape(Float32, 32, 64, false)), 8);
  EXPECT_EQ(bytes_of_state("muon", WeightShape(Float32, 32, 64, true)), 4);
}

TEST(OptimizerState, HasMainWeightsBesideNarrowOnes) {
  EXPECT_EQ(bytes_of_state("sgd", BFloat16), 4);
  EXPECT_EQ(bytes_of_state("sgd,main=bfloat16", BFloat16), 2);
  EXPECT_EQ(bytes_of_state("sgd,main=float16", Float16), 2);
  EXPECT_EQ(bytes_of_state("sgd,main=none", BFloat16), 0);
  EXPECT_EQ(bytes_of_state("sgd,main=remainder", BFloat16), 2);
  EXPECT_EQ(bytes_of_state("sgd,main=remainder", Float16), 4);
  for (const char* main : {"sgd", "sgd,main=bfloat16", "sgd,main=remainder", "sgd,main=none"})
    EXPECT_EQ(bytes_of_state(main, Float32), 0) << main;
}

// Megatron-LM's docs/user-guide/features/dist_optimizer.md and megatron/core/optimizer/__init__.py: 4 + 8
// beside bfloat16 weights; with the precision-aware optimizer and moments in bfloat16, 2 + 4, or 4 + 4 where
// weights are in float8.
TEST(OptimizerState, IsThatOfMegatron) {
  EXPECT_EQ(bytes_of_state("adam", BFloat16), 4 + 8);
  EXPECT_EQ(bytes_of_state("adam,moments=bfloat16,main=remainder", BFloat16), 2 + 4);
  EXPECT_EQ(bytes_of_state("adam,moments=bfloat16", BFloat16), 4 + 4);
  EXPECT_EQ(bytes_of_state("adam,moments=float8+float16,main=float16", BFloat16), 2 + 1 + 2);
}

// torchtitan's AdamW on float32 shards; with optimizer.implementation = "fused_opt_states_bf16"; and with
// training.dtype = "bfloat16", in which everything is.
TEST(OptimizerState, IsThatOfTorchtitan) {
  EXPECT_EQ(bytes_of_state("adam", Float32), 8);
  EXPECT_EQ(bytes_of_state("adam,moments=bfloat16", Float32), 4);
  EXPECT_EQ(bytes_of_state("adam,moments=bfloat16,main=none", BFloat16), 4);
}

// DeepSpeed's ZeRO; and with bf16_master_weights_and_grads and bf16_optimizer_states.
TEST(OptimizerState, IsThatOfDeepspeed) {
  EXPECT_EQ(bytes_of_state("adam", BFloat16), 12);
  EXPECT_EQ(bytes_of_state("adam,moments=bfloat16,main=bfloat16", BFloat16), 6);
}

TEST(Optimizer, ReadsWhatItWrites) {
  for (const OptimizerKind& kind : optimizer_kinds()) {
    EXPECT_EQ(parse_optimizer(kind.name), Optimizer(kind.kind));
    EXPECT_EQ(Optimizer(kind.kind).str(), kind.name);
  }
  for (const char* text :
       {"adam,moments=bfloat16", "adam,moments=float8+float16", "adam,moments=float32+bfloat16",
        "lion,moments=float16,main=none", "sgd,main=remainder", "adam8bit,main=bfloat16",
        "muon,moments=bfloat16,main=float16", "adafactor,moments=bfloat16", "momentum,moments=float8"})
    EXPECT_EQ(parse_optimizer(text).str(), text);
  EXPECT_EQ(parse_optimizer("adam,main=float32,moments=bfloat16+bfloat16").str(), "adam,moments=bfloat16");
  EXPECT_EQ(parse_optimizer("adam,moments=bfloat16,main=none"),
            Optimizer(Optimizer::Adam, BFloat16, Main::None));
}

void expect_refused(const char* text, const char* message) {
  EXPECT_THAT([&] { parse_optimizer(text); }, ThrowsMessage<InputError>(message)) << text;
}

TEST(Optimizer, SaysWhatIsAllowed) {
  expect_refused("adma",
                 "unknown optimizer \"adma\": allowed are sgd, momentum, adam, adam8bit, adafactor, lion, "
                 "muon (did you mean \"adam\"?)");
  expect_refused("adam,moment=bfloat16",
                 "optimizer \"adam,moment=bfloat16\": unknown part \"moment=bfloat16\", allowed: "
                 "moments=TYPE, main=WHAT");
  expect_refused("adam,", "optimizer \"adam,\": unknown part \"\", allowed: moments=TYPE, main=WHAT");
  expect_refused("adam,moments=int8",
                 "optimizer \"adam,moments=int8\": moments of type \"int8\", allowed: float32, bfloat16, "
                 "float16, float8");
  expect_refused("adam,main=float8",
                 "optimizer \"adam,main=float8\": main weights \"float8\", allowed: float32, float16, "
                 "bfloat16, remainder, none");
  expect_refused("sgd,moments=bfloat16", "optimizer \"sgd,moments=bfloat16\": sgd has no moments");
  expect_refused("adam8bit,moments=bfloat16",
                 "optimizer \"adam8bit,moments=bfloat16\": adam8bit keeps its moments in 8 bits");
  expect_refused(
      "lion,moments=float8+float16",
      "optimizer \"lion,moments=float8+float16\": only adam has two moments of types of their own");
}

}  // namespace
}  // namespace pipesim
