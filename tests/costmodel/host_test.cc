#include "costmodel/host.h"

#include <gmock/gmock.h>

namespace pipesim {
namespace {

TEST(Host, SaysWhatDiffers) {
  const HostDescription a{"node1", "EPYC 9654", 96, "Linux 6.1", {{"oneDNN", "2.6.3"}, {"NCCL", "2.18"}}};
  HostDescription b = a;
  EXPECT_THAT(differences(a, b), testing::IsEmpty());
  b = {"node2", "Xeon 8480", 56, "Linux 6.5", {{"oneDNN", "3.4"}}};
  EXPECT_THAT(differences(a, b),
              testing::ElementsAre("host: measured on \"node1\", here \"node2\"",
                                   "processor: measured on \"EPYC 9654\", here \"Xeon 8480\"",
                                   "cores: measured on 96, here 56",
                                   "kernel: measured on \"Linux 6.1\", here \"Linux 6.5\"",
                                   "oneDNN: measured on \"2.6.3\", here \"3.4\""));
}

TEST(Host, KnowsThisOne) {
  const HostDescription here = this_host();
  EXPECT_FALSE(here.name.empty());
  EXPECT_GT(here.cores, 0);
  EXPECT_EQ(here, this_host());
}

}  // namespace
}  // namespace pipesim
