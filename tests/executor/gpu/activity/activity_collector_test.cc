#include "executor/gpu/activity/activity_collector.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "executor/gpu/machine/cuda_library.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using testing::AnyOf;
using testing::IsEmpty;
using testing::StartsWith;

// Nothing where libpipesim_cuda.so is not built, or what it needs is not installed.
const CudaLibrary* cuda_library_or_reason(std::string& reason) {
  try {
    return &load_cuda_library();
  } catch (const DeviceError& error) {
    reason = error.what();
    return nullptr;
  }
}

TEST(CudaActivityCollector, CollectsOrSaysWhyNot) {
  std::string reason;
  const CudaLibrary* cuda = cuda_library_or_reason(reason);
  if (cuda == nullptr) GTEST_SKIP() << reason;
  const std::unique_ptr<ActivityCollector> collector = cuda->activity_collector();
  EXPECT_GT(collector->api_version(), 0U);
  const bool collects = collector->start();
  EXPECT_EQ(collects, collector->unavailable().empty());
  // Pairs of calls that are refused do no harm.
  {
    const TaskActivityScope outer(collector.get(), 1);
    const TaskActivityScope inner(collector.get(), 2);
  }
  collector->stop();
  const CollectedActivity found = collector->collect();
  EXPECT_THAT(found.records, IsEmpty());  // nothing was enqueued
  if (collects) {
    EXPECT_EQ(ClockAlignment(found.clocks_at_start, found.clocks_at_stop).why_doubtful(), "");
  } else {
    EXPECT_THAT(collector->unavailable(),
                AnyOf(StartsWith("CUPTI refuses: CUPTI_ERROR_"), StartsWith("CUPTI has version ")));
    EXPECT_THAT(found.clocks_at_start, IsEmpty());
    EXPECT_FALSE(collector->start());
    GTEST_SKIP() << collector->unavailable();
  }
}

TEST(CudaActivityCollector, IsOneAtATime) {
  std::string reason;
  const CudaLibrary* cuda = cuda_library_or_reason(reason);
  if (cuda == nullptr) GTEST_SKIP() << reason;
  {
    const std::unique_ptr<ActivityCollector> first = cuda->activity_collector();
    const std::unique_ptr<ActivityCollector> second = cuda->activity_collector();
    EXPECT_EQ(second->unavailable(), "another collector is at work in this process");
    EXPECT_FALSE(second->start());
  }
  EXPECT_NE(cuda->activity_collector()->unavailable(), "another collector is at work in this process");
}

}  // namespace
}  // namespace pipesim
