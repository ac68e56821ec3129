#include "executor/gpu/activity/clock_alignment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using Pairs = std::vector<ClockPair>;

TEST(ClockAlignment, IsTheLineThroughTheNarrowestPairs) {
  // The GPU's clock is 1000 ahead and the host's a tenth of a percent faster.
  const Pairs at_start = {{0, 1050, 100}, {200, 1201, 204}, {300, 1400, 390}};
  const Pairs at_stop = {{100'302, 101'201, 100'304}, {100'400, 101'299, 100'490}};
  const ClockAlignment clocks(at_start, at_stop);
  EXPECT_DOUBLE_EQ(clocks.drift(), 101.0 / 100'000);
  EXPECT_EQ(clocks.host_time(1201), 202);
  EXPECT_EQ(clocks.host_time(101'201), 100'303);
  EXPECT_EQ(clocks.host_time(51'201), 50'253);  // 50 252.5
  EXPECT_EQ(clocks.error(1201), 2 + 1);
  EXPECT_EQ(clocks.error(101'201), 1 + 1);
  EXPECT_EQ(clocks.error(51'201), 2 + 1);   // 1.5
  EXPECT_EQ(clocks.error(201'201), 4 + 1);  // 2·1 + 1·2, as far outside as the pairs are apart
  EXPECT_EQ(clocks.error(-98'799), 5 + 1);  // 2·2 + 1·1
}

// A host's clock that runs `ppm` millionths faster than the GPU's.
struct TrueClocks {
  Nanoseconds host = 0, gpu = 0, ppm = 0;
  // What the host's clock shows beyond `host` then.
  [[nodiscard]] Nanoseconds femtoseconds(Nanoseconds at) const { return (at - gpu) * (1'000'000 + ppm); }
  [[nodiscard]] ClockPair pair(Nanoseconds at, Rng& rng, Nanoseconds widest) const {
    const Nanoseconds after = femtoseconds(at), exact = host + after / 1'000'000;
    return {exact - rng.between(0, widest), at, exact + 1 + rng.between(0, widest)};
  }
};

TEST(ClockAlignment, IsRightToItsErrorBound) {
  for_each_seed(200, [&](Rng rng) {
    const TrueClocks clocks{rng.between(0, 1'000'000'000'000), 1'795'354'602'882'942'934,
                            rng.between(-500, 500)};
    const Nanoseconds passed = rng.between(1'000'000, 1'000'000'000'000);
    Pairs at_start, at_stop;
    for (int i = 0; i < 5; ++i) {
      at_start.push_back(clocks.pair(clocks.gpu + i * 1000, rng, 2000));
      at_stop.push_back(clocks.pair(clocks.gpu + passed + i * 1000, rng, 2000));
    }
    const ClockAlignment found(at_start, at_stop);
    EXPECT_EQ(found.why_doubtful(), "");
    for (int i = 0; i < 50; ++i) {
      // Up to a tenth of the time outside the pairs.
      const Nanoseconds gpu = clocks.gpu + rng.between(-passed / 10, passed + passed / 10);
      const Nanoseconds off = (found.host_time(gpu) - clocks.host) * 1'000'000 - clocks.femtoseconds(gpu);
      ASSERT_LE(std::abs(off), found.error(gpu) * 1'000'000) << gpu - clocks.gpu << " of " << passed;
    }
    Nanoseconds widest = 0;
    for (const Pairs& pairs : {at_start, at_stop}) {
      Nanoseconds narrowest = 10'000;
      for (const ClockPair& p : pairs) narrowest = std::min(narrowest, p.host_after - p.host_before);
      widest = std::max(widest, narrowest);
    }
    EXPECT_LE(found.error(clocks.gpu + passed / 2), (widest + 1) / 2 + 1);
  });
}

TEST(ClockAlignment, DoubtsAClockThatWasSet) {
  const Pairs at_start = {{0, 500, 1000}};
  const Pairs steady = {{1'000'000'000, 1'000'000'600, 1'000'001'000}};
  const Pairs set_back = {{1'000'000'000, 900'000'500, 1'000'001'000}};
  const Pairs set_forth = {{1'000'000'000, 1'100'000'500, 1'000'001'000}};
  EXPECT_EQ(ClockAlignment(at_start, steady).why_doubtful(), "");
  EXPECT_EQ(ClockAlignment(at_start, set_back).why_doubtful(),
            "CUPTI's clock was set while it was used: the host's clock ran 11.1 % faster");
  EXPECT_EQ(ClockAlignment(at_start, set_forth).why_doubtful(),
            "CUPTI's clock was set while it was used: the host's clock ran 9.09 % slower");
  // Pairs that are close together don't tell the drift.
  EXPECT_EQ(ClockAlignment(at_start, Pairs{{2000, 2700, 3000}}).why_doubtful(), "");
}

TEST(ClockAlignment, RefusesClocksThatStoodStill) {
  const Pairs good = {{0, 500, 1000}};
  const auto refused = [](const Pairs& at_start, const Pairs& at_stop) {
    return refusal<DeviceError>([&] { ClockAlignment(at_start, at_stop); });
  };
  EXPECT_EQ(refused({}, good), "the GPU's clock was not read at the start");
  EXPECT_EQ(refused(good, {}), "the GPU's clock was not read at the stop");
  EXPECT_EQ(refused(good, good), "while the host's clock advanced by 0 ns, the GPU's did by 0 ns");
  EXPECT_EQ(refused(good, {{2000, 400, 2000}}),
            "while the host's clock advanced by 1500 ns, the GPU's did by -100 ns");
  EXPECT_EQ(refused(good, {{2000, 2000, 1000}}), "the host's clock ran backwards at the stop");
}

}  // namespace
}  // namespace pipesim
