#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

const std::vector<std::string> kNames{"alexnet", "resnet50", "resnet101", "vgg16"};

TEST(Suggest, FindsTypingMistakesOnly) {
  EXPECT_EQ(nearest_name("resnet5", kNames), "resnet50");
  EXPECT_EQ(nearest_name("alxnet", kNames), "alexnet");
  EXPECT_EQ(nearest_name("transformer", kNames), "");
  EXPECT_EQ(did_you_mean("vgg61", kNames), " (did you mean \"vgg16\"?)");
}

TEST(Suggest, FindsWhatIsWrittenOtherwise) {
  const std::vector<std::string> names{"batch",     "layers",   "hidden",        "sequence",
                                       "seed",      "heads",    "vocab",         "learning-rate",
                                       "float32",   "bfloat16", "data-parallel", "model-parallel",
                                       "gpt3-175b", "dgx-a100", "dgx-h100"};
  const std::vector<std::pair<std::string, std::string>> meant{{"seq", "sequence"},
                                                               {"seq_len", "sequence"},
                                                               {"sequence_length", "sequence"},
                                                               {"num_layers", "layers"},
                                                               {"n_heads", "heads"},
                                                               {"vocab-size", "vocab"},
                                                               {"hid", "hidden"},
                                                               {"BATCH", "batch"},
                                                               {"batch_size", "batch"},
                                                               {"bs", "batch"},
                                                               {"lr", "learning-rate"},
                                                               {"dp", "data-parallel"},
                                                               {"data_parallel", "data-parallel"},
                                                               {"ddp", "data-parallel"},
                                                               {"tp", "model-parallel"},
                                                               {"bf16", "bfloat16"},
                                                               {"fp32", "float32"},
                                                               {"fp16", ""},
                                                               {"GPT3_175B", "gpt3-175b"},
                                                               {"gpt", "gpt3-175b"},
                                                               {"a100", "dgx-a100"},
                                                               {"H100", "dgx-h100"},
                                                               {"se", "seed"},
                                                               {"l", ""},
                                                               {"--", ""},
                                                               {"", ""}};
  for (const auto& [said, name] : meant) EXPECT_EQ(nearest_name(said, names), name) << said;
}

TEST(Suggest, ListsAreCut) {
  EXPECT_EQ(list_names(kNames, 2), "alexnet, resnet50, … (4 in all)");
  EXPECT_EQ(list_names(kNames), "alexnet, resnet50, resnet101, vgg16");
}

TEST(DataType, NamesRoundTrip) {
  for (const DataType type :
       {DataType::Float32, DataType::TensorFloat32, DataType::Float16, DataType::BFloat16, DataType::Float64,
        DataType::Int64, DataType::Int32, DataType::UInt8}) {
    EXPECT_EQ(parse_data_type(name_of(type)), type);
  }
  EXPECT_EQ(bytes_per_element(DataType::BFloat16), 2);
  for (const DataType type :
       {DataType::Float8, DataType::Float8Block, DataType::MxFloat8, DataType::NvFloat4}) {
    EXPECT_EQ(parse_rate_type(name_of(type)), type);
    EXPECT_TRUE(is_narrow(type));
  }
  EXPECT_FALSE(is_narrow(DataType::UInt8));
  EXPECT_EQ(parse_rate_type("bfloat16"), DataType::BFloat16);
}

TEST(DataType, BlocksAreStoredWithTheirScales) {
  EXPECT_EQ(stored_bytes(DataType::BFloat16, 1000), 2000);
  EXPECT_EQ(stored_bytes(DataType::Float8, 1000), 1000);
  EXPECT_EQ(stored_bytes(DataType::Float8Block, 1000), 1000 + 8 * 4);  // 8 blocks of 128, the last one of 104
  EXPECT_EQ(stored_bytes(DataType::MxFloat8, 1000), 1000 + 32);
  EXPECT_EQ(stored_bytes(DataType::NvFloat4, 1001), 501 + 63);
  EXPECT_EQ(stored_bytes(DataType::NvFloat4, 0), 0);
}

TEST(DataType, UnknownNamesAreRefused) {
  try {
    parse_data_type("float23");
    FAIL() << "float23 was accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown data type \"float23\" (did you mean \"float32\"?); allowed: float32, tf32, "
                 "float16, bfloat16, "
                 "float64, int64, int32, uint8");
  }
}

TEST(DataType, ShortNamesAreNamesOfOtherPrograms) {
  const std::vector<std::pair<std::string, std::string>> meant{
      {"bf16", "bfloat16"}, {"fp16", "float16"}, {"half", "float16"},   {"fp32", "float32"},
      {"f32", "float32"},   {"fp64", "float64"}, {"double", "float64"}, {"TF32", "tf32"}};
  for (const auto& [said, name] : meant) {
    EXPECT_EQ(refusal([&said = said] { parse_data_type(said); }),
              "unknown data type \"" + said + "\" (did you mean \"" + name +
                  "\"?); allowed: float32, tf32, float16, bfloat16, float64, int64, int32, uint8");
  }
}

TEST(Counted, NounsAreOneOrMany) {
  EXPECT_EQ(counted(1, "stage"), "1 stage");
  EXPECT_EQ(counted(0, "stage"), "0 stages");
  EXPECT_EQ(counted(1, "microbatch"), "1 microbatch");
  EXPECT_EQ(counted(2, "microbatch"), "2 microbatches");
}

}  // namespace
}  // namespace pipesim
