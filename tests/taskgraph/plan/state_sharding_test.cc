#include "taskgraph/plan/state_sharding.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_state_sharding.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    (void)parse_state_sharding(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(StateSharding, ReadsWhatItWrites) {
  for_each_seed(100, [](Rng& rng) {
    const StateSharding sharding = random_state_sharding(rng);
    EXPECT_EQ(parse_state_sharding(sharding.str()), sharding) << sharding.str();
  });
  EXPECT_EQ(StateSharding().str(), "none");
  EXPECT_EQ(parse_state_sharding("zero3,shard=8,reshard=never,prefetch=2").str(),
            "zero3,shard=8,reshard=never,prefetch=2");
}

TEST(StateSharding, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("zero4"), HasSubstr("\"zero4\": allowed: zero with a number from 1 to 3"));
  EXPECT_THAT(refusal("zero1,shard=0"), HasSubstr("allowed: shard with a number from 1 to"));
  EXPECT_THAT(refusal("shard=8"), HasSubstr("allowed: none, or zero1, zero2 or zero3"));
  EXPECT_THAT(refusal("zero1,prefetch=2"), HasSubstr("belong to zero3"));
  EXPECT_THAT(refusal("zero3,reshard=maybe"), HasSubstr("reshard=never"));
  EXPECT_THAT(refusal("fsdp"), HasSubstr("unknown part \"fsdp\""));
}

TEST(StateSharding, NeedsWeightsThatChangeOnce) {
  const StateSharding sharding = parse_state_sharding("zero1");
  EXPECT_EQ(illegal(sharding, Pipeline{"1f1b", {0, 1}}, 4), std::nullopt);
  EXPECT_THAT(*illegal(sharding, Pipeline{"pipedream", {0, 1}}, 4), HasSubstr("changes them in between"));
  EXPECT_THAT(*illegal(sharding, Pipeline{"inference", {0, 1}}, 4), HasSubstr("trains nothing"));
  EXPECT_THAT(*illegal(sharding, Pipeline{"chimera", {0, 1}}, 4), HasSubstr("2 ways"));
}

}  // namespace
}  // namespace pipesim
