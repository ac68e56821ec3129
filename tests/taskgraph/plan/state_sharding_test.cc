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
  EXPECT_EQ(parse_state_sharding("zero1,overlap=gather,gather=float32").str(),
            "zero1,gather=float32,overlap=gather");
  EXPECT_EQ(parse_state_sharding("zero3,weights=own,gather=own,reshard=always").str(), "zero3");
  EXPECT_EQ(parse_state_sharding("zero1,overlap=none").str(), "zero1");
  EXPECT_EQ(parse_state_sharding("zero3,weights=float32,reshard=last").str(),
            "zero3,reshard=last,weights=float32");
  EXPECT_EQ(parse_state_sharding("zero3,gradients=whole").str(), "zero3,gradients=whole");
}

TEST(StateSharding, ActsOnceAnIterationOrInEachMicrobatch) {
  struct Acts {
    const char* text;
    bool each_microbatch, in_forward;
    int gathers;  // of each microbatch
  };
  for (const Acts& a :
       {Acts{"zero1", false, false, 0}, Acts{"zero1,overlap=gather", false, true, 0},
        Acts{"zero2", true, false, 0}, Acts{"zero3", true, false, 2},
        Acts{"zero3,reshard=never", true, false, 1}, Acts{"zero3,gradients=whole", false, false, 2},
        Acts{"zero3,reshard=last", false, true, 0}}) {
    const StateSharding sharding = parse_state_sharding(a.text);
    EXPECT_EQ(sharding.each_microbatch(), a.each_microbatch) << a.text;
    EXPECT_EQ(sharding.gathers_in_forward(), a.in_forward) << a.text;
    EXPECT_EQ(sharding.gathers_each_microbatch(), a.gathers) << a.text;
    EXPECT_EQ(sharding.gathers_to_use(), a.gathers > 0) << a.text;
  }
}

TEST(StateSharding, WidensNarrowTypesAlone) {
  const StateSharding fsdp = parse_state_sharding("zero3,weights=float32"),
                      wide = parse_state_sharding("zero3,gather=float32");
  for (const DataType narrow : {DataType::BFloat16, DataType::Float16}) {
    EXPECT_EQ(fsdp.kept_type(narrow), DataType::Float32);
    EXPECT_EQ(fsdp.gather_type(narrow), narrow);
    EXPECT_TRUE(fsdp.copies_to_use(narrow));
    EXPECT_EQ(wide.kept_type(narrow), narrow);
    EXPECT_EQ(wide.gather_type(narrow), DataType::Float32);
    EXPECT_FALSE(wide.copies_to_use(narrow));
  }
  for (const DataType type : {DataType::Float32, DataType::Float64}) {
    EXPECT_EQ(fsdp.kept_type(type), type);
    EXPECT_EQ(wide.gather_type(type), type);
    EXPECT_FALSE(fsdp.copies_to_use(type));
  }
}

TEST(StateSharding, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("zero4"), HasSubstr("\"zero4\": allowed: zero with a number from 1 to 3"));
  EXPECT_THAT(refusal("zero1,shard=0"), HasSubstr("allowed: shard with a number from 1 to"));
  EXPECT_THAT(refusal("shard=8"), HasSubstr("allowed: none, or zero1, zero2 or zero3"));
  EXPECT_THAT(refusal("zero1,prefetch=2"), HasSubstr("prefetch belongs to zero3"));
  EXPECT_THAT(refusal("zero1,reshard=never"), HasSubstr("reshard and weights belong to zero3"));
  EXPECT_EQ(refusal("zero2,weights=float32"),
            "state sharding \"zero2,weights=float32\": reshard and weights belong to zero3, which divides "
            "weights");
  EXPECT_EQ(refusal("zero3,overlap=gather"),
            "state sharding \"zero3,overlap=gather\": overlap belongs to zero1 and zero2; zero3 gathers "
            "weights before each use");
  EXPECT_EQ(refusal("zero3,weights=bfloat16"),
            "state sharding \"zero3,weights=bfloat16\": \"weights=bfloat16\": allowed: weights=float32, "
            "weights=own");
  EXPECT_EQ(refusal("zero1,gather=16"),
            "state sharding \"zero1,gather=16\": \"gather=16\": allowed: gather=float32, gather=own");
  EXPECT_EQ(refusal("zero1,overlap=yes"),
            "state sharding \"zero1,overlap=yes\": \"overlap=yes\": allowed: overlap=gather, "
            "overlap=none");
  EXPECT_EQ(refusal("zero3,reshard=maybe"),
            "state sharding \"zero3,reshard=maybe\": \"reshard=maybe\": allowed: reshard=always, "
            "reshard=never, reshard=last");
  EXPECT_THAT(refusal("zero2,reshard=last"), HasSubstr("reshard and weights belong to zero3"));
  EXPECT_THAT(refusal("zero2,gradients=whole"), HasSubstr("gradients=whole belongs to zero3"));
  EXPECT_THAT(refusal("zero3,gradients=whole,reshard=last"), HasSubstr("says nothing more"));
  EXPECT_THAT(refusal("zero3,gradients=half"), HasSubstr("allowed: gradients=whole, gradients=own"));
  EXPECT_THAT(refusal("fsdp"), HasSubstr("unknown part \"fsdp\""));
}

TEST(StateSharding, NeedsWeightsThatChangeOnce) {
  const StateSharding sharding = parse_state_sharding("zero1");
  EXPECT_EQ(illegal(sharding, Pipeline{"1f1b", {0, 1}}, 4), std::nullopt);
  EXPECT_THAT(*illegal(sharding, Pipeline{"pipedream", {0, 1}}, 4), HasSubstr("changes them in between"));
  EXPECT_THAT(*illegal(sharding, Pipeline{"inference", {0, 1}}, 4), HasSubstr("trains nothing"));
  for (const char* schedule : {"chimera", "dualpipe"}) {
    for (const char* once : {"zero1", "zero1,shard=2", "zero1,overlap=gather", "zero3,reshard=last"})
      EXPECT_EQ(illegal(parse_state_sharding(once), Pipeline{schedule, {0, 1}}, 4), std::nullopt);
    for (const char* each : {"zero2", "zero3", "zero3,gradients=whole"})
      EXPECT_THAT(*illegal(parse_state_sharding(each), Pipeline{schedule, {0, 1}}, 4),
                  HasSubstr("allowed: zero1, or zero3 with reshard=last"));
  }
}

}  // namespace
}  // namespace pipesim
