#include "topologies/memory_margin.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"
#include "topologies/presets/presets.h"
#include "topologies/topology.h"

namespace pipesim {
namespace {

TEST(MemoryMargin, IsAShareOrASize) {
  EXPECT_EQ(MemoryMargin::parse("10%"), (MemoryMargin{0.1, Bytes(0)}));
  EXPECT_EQ(MemoryMargin::parse("2.5 %"), (MemoryMargin{0.025, Bytes(0)}));
  EXPECT_EQ(MemoryMargin::parse("2GB"), (MemoryMargin{0, Bytes(2'000'000'000)}));
  EXPECT_EQ(MemoryMargin::parse("512 MiB"), (MemoryMargin{0, Bytes(512 << 20)}));
  EXPECT_TRUE(MemoryMargin::parse("0%").is_none());
  for (const char* text : {"10 %", "0.125 %", "99.9 %", "0 %", "2 GB", "512 MB"}) {
    EXPECT_EQ(MemoryMargin::parse(text).str(), text);
    EXPECT_EQ(MemoryMargin::parse(MemoryMargin::parse(text).str()), MemoryMargin::parse(text));
  }
}

TEST(MemoryMargin, IsRoundedUpToBytes) {
  EXPECT_EQ(MemoryMargin::parse("10%").of(Bytes(16'000'000'000)), Bytes(1'600'000'000));
  EXPECT_EQ(MemoryMargin::parse("10%").of(Bytes(10)), Bytes(1));
  EXPECT_EQ(MemoryMargin::parse("10%").of(Bytes(11)), Bytes(2));
  EXPECT_EQ(MemoryMargin::parse("30%").of(Bytes(10)), Bytes(3));
  EXPECT_EQ(MemoryMargin::parse("7 B").of(Bytes(10)), Bytes(7));
  EXPECT_EQ(MemoryMargin().of(Bytes(10)), Bytes(0));
}

TEST(MemoryMargin, RefusesWhatIsNeither) {
  for (const char* text : {"0.1", "2", "100%", "-1%", "ten%", "%", " %", "nan%", "inf%", "1e3%", "-2GB",
                           "0 B", "2 GB/s", "GB", "10%%", ""}) {
    EXPECT_EQ(
        refusal([&] { (void)MemoryMargin::parse(text); }),
        "found \"" + std::string(text) +
            "\", allowed: a share of each device's memory from 0% to below 100%, or a size such as 2 GB");
  }
}

TEST(MemoryMargin, IsLeftFreeOnEveryDevice) {
  const Topology whole = make_topology("p100-4x4");  // 16 GB each
  const Topology part = whole.with_memory_margin(MemoryMargin::parse("25%"));
  EXPECT_EQ(whole.usable_memory(DeviceId(0)), Bytes(16'000'000'000));
  EXPECT_EQ(part.usable_memory(DeviceId(15)), Bytes(12'000'000'000));
  EXPECT_EQ(part.kind(DeviceId(15)).memory, Bytes(16'000'000'000));
  EXPECT_EQ(part.fingerprint(), whole.fingerprint());
  EXPECT_FALSE(part == whole);
  EXPECT_EQ(part.with_memory_margin({}), whole);
  EXPECT_EQ(refusal([&] { (void)whole.with_memory_margin(MemoryMargin::parse("16GB")); }),
            "a margin of 16 GB leaves nothing of the 16 GB of device \"node0.gpu0\"");
}

}  // namespace
}  // namespace pipesim
