#include "tests/printers.h"

#include <gtest/gtest.h>

#include "models/box.h"
#include "search/evaluator.h"
#include "sim/base/data_type.h"

namespace pipesim {
namespace {

using testing::PrintToString;

TEST(Printers, SayWhatValuesAre) {
  EXPECT_EQ(PrintToString(DeviceId(3)), "#3");
  EXPECT_EQ(PrintToString(Bytes(16)), "16");
  EXPECT_EQ(PrintToString(DataType::BFloat16), "bfloat16");
  EXPECT_EQ(PrintToString(TaskKind::ForwardTransfer), "forward-transfer");
  EXPECT_EQ(PrintToString(Range{2, 5}), "2:5");
  EXPECT_EQ(PrintToString(Box(std::vector<Range>{{0, 4}, {8, 16}})), "[0:4, 8:16]");
  EXPECT_EQ(PrintToString(LaneUse{LaneId(1), 20}), "lane 1 for 20 ns");
  EXPECT_EQ(PrintToString(TaskKey{0x10, 0x2}), "10:2");
  EXPECT_EQ(PrintToString(Evaluation{30, Bytes(4)}), "30 ns, 4 bytes too many");
  EXPECT_EQ(PrintToString(ParallelConfig{{2, 1}, 1, {DeviceId(0), DeviceId(5)}}),
            "degrees 2 1, 1 copies, devices 0 5");
  EXPECT_EQ(PrintToString(std::vector<PipelineStep>{{StepKind::Forward, 1, 2}}),
            "{ step kind 0 of microbatch 1, stage 2 }");
  EXPECT_EQ(PrintToString(DeviceMemory{Bytes(7), 9, {}}), "7 bytes at 9 ns");
}

}  // namespace
}  // namespace pipesim
