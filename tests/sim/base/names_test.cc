#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

const std::vector<std::string> kNames{"alexnet", "resnet50", "resnet101", "vgg16"};

TEST(Suggest, FindsTypingMistakesOnly) {
  EXPECT_EQ(nearest_name("resnet5", kNames), "resnet50");
  EXPECT_EQ(nearest_name("alxnet", kNames), "alexnet");
  EXPECT_EQ(nearest_name("transformer", kNames), "");
  EXPECT_EQ(did_you_mean("vgg61", kNames), " (did you mean \"vgg16\"?)");
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

TEST(Counted, NounsAreOneOrMany) {
  EXPECT_EQ(counted(1, "stage"), "1 stage");
  EXPECT_EQ(counted(0, "stage"), "0 stages");
  EXPECT_EQ(counted(1, "microbatch"), "1 microbatch");
  EXPECT_EQ(counted(2, "microbatch"), "2 microbatches");
}

}  // namespace
}  // namespace pipesim
