#include "sim/base/units.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/base/rng.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

TEST(Units, BytesAreDecimalOrBinary) {
  EXPECT_EQ(parse_bytes("16 GB"), Bytes(16'000'000'000));
  EXPECT_EQ(parse_bytes("1.5GiB"), Bytes(1'610'612'736));
  EXPECT_EQ(parse_bytes("25 MB"), Bytes(25'000'000));
}

TEST(Units, NetworksCountBits) {
  EXPECT_EQ(parse_bandwidth("100 Gb/s"), BytesPerSecond(12.5e9));
  EXPECT_EQ(parse_bandwidth("300 GB/s"), BytesPerSecond(300e9));
}

TEST(Units, EqualDurationsAreEqualNumbers) {
  EXPECT_EQ(parse_duration("500 ns"), parse_duration("0.5 us"));
  EXPECT_EQ(parse_duration("3 us"), Seconds(3e-6));
  EXPECT_EQ(parse_duration("0 s"), Seconds(0));
}

TEST(Units, ABandwidthNeedsPerSecond) {
  EXPECT_EQ(refusal([] { parse_bandwidth("300 Gb"); }),
            "\"300 Gb\" is not a bandwidth: unknown unit \"Gb\"; write a number and one of B/s, kB/s, MB/s, "
            "GB/s, TB/s, "
            "Mb/s, Gb/s, Tb/s, MiB/s, GiB/s, like \"300 GB/s\"");
}

TEST(Units, RefusesWhatIsNoQuantity) {
  for (const char* text :
       {"", "GB/s", "-3 GB/s", "0 GB/s", "nan GB/s", "inf GB/s", "300", "1e999 GB/s", "3 parsecs"}) {
    EXPECT_NE(refusal([&] { parse_bandwidth(text); }), "accepted") << text;
  }
  EXPECT_NE(refusal([] { parse_bytes("99999999 TB"); }), "accepted");
  EXPECT_NE(refusal([] { parse_duration("-1 s"); }), "accepted");
}

TEST(Units, TextReadsBackToTheSameValue) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (int i = 0; i < 2000; ++i) {
    const Bytes bytes(rng.between(1, std::int64_t{1} << rng.between(1, 50)));
    EXPECT_EQ(parse_bytes(to_text(bytes)), bytes);
    const BytesPerSecond rate(1 + rng.uniform() * 1e12);
    EXPECT_EQ(parse_bandwidth(to_text(rate)), rate);
    const Seconds time(static_cast<double>(rng.between(1, 1'000'000)) / 1e9);
    EXPECT_EQ(parse_duration(to_text(time)), time);
    const FlopsPerSecond flops(1 + rng.uniform() * 1e15);
    EXPECT_EQ(parse_compute_rate(to_text(flops)), flops);
  }
}

TEST(Units, TextIsShort) {
  EXPECT_EQ(to_text(BytesPerSecond(300e9)), "300 GB/s");
  EXPECT_EQ(to_text(Seconds(0.5e-6)), "500 ns");
  EXPECT_EQ(to_text(Bytes(16'000'000'000)), "16 GB");
  EXPECT_EQ(pretty(Bytes(91'234'000'000)), "91.2 GB");
  EXPECT_EQ(pretty(Seconds(0.0032149)), "3.21 ms");
}

TEST(Units, LargeFiguresHaveNoExponents) {
  EXPECT_EQ(pretty(Seconds(998)), "998 s");
  EXPECT_EQ(pretty(Seconds(2650)), "44.2 min");
  EXPECT_EQ(pretty(Seconds(-2650)), "-44.2 min");
  EXPECT_EQ(pretty(Seconds(7199)), "120 min");
  EXPECT_EQ(pretty(Seconds(7200)), "2 h");
  EXPECT_EQ(pretty(Seconds(200'000)), "55.6 h");
  EXPECT_EQ(pretty(Seconds(1'000'000)), "11.6 d");
  EXPECT_EQ(pretty(Seconds(1e9)), "11574 d");
  EXPECT_EQ(pretty(Bytes(2'650'000'000'000'000)), "2.65 PB");
  EXPECT_EQ(pretty(Bytes(-9'200'000'000'000'000'000)), "-9.2 EB");
  EXPECT_EQ(pretty(BytesPerSecond(2.65e15)), "2.65 PB/s");
  EXPECT_EQ(pretty(FlopsPerSecond(2.654e18)), "2654 PFLOP/s");
}

TEST(Units, SignificantDigitsKeepAllBeforeThePoint) {
  EXPECT_EQ(significant(0, 3), "0");
  EXPECT_EQ(significant(12345.6, 4), "12346");
  EXPECT_EQ(significant(2261.04, 4), "2261");
  EXPECT_EQ(significant(999.96, 4), "1000");
  EXPECT_EQ(significant(99.996, 4), "100");
  EXPECT_EQ(significant(493.30, 4), "493.3");
  EXPECT_EQ(significant(-1.5, 3), "-1.5");
  EXPECT_EQ(significant(0.0021349, 3), "0.00213");
  EXPECT_EQ(significant(8.12e9, 3), "8120000000");
  EXPECT_EQ(significant(1e-7, 3), "1e-07");
  EXPECT_EQ(significant(2.5e15, 3), "2.5e+15");
}

TEST(Units, SignificantDigitsReadBackAsThoseOfTheShortForm) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::exp(rng.uniform() * 40 - 13);
    const std::string text = significant(value, 4);
    const double shortest = std::stod(fmt::format("{:.4g}", value));
    EXPECT_EQ(std::stod(text), value < 9999.5 ? shortest
                               : value < 1e15 ? std::round(value)
                                              : shortest)
        << value;
  }
}

TEST(Units, NanosecondsRoundOnceAndRefuseOverflow) {
  EXPECT_EQ(to_nanoseconds(Seconds(1.4999e-9)), 1);
  EXPECT_EQ(to_nanoseconds(Seconds(2.5)), 2'500'000'000);
  EXPECT_NE(refusal([] { to_nanoseconds(Seconds(1e12)); }), "accepted");
}

}  // namespace
}  // namespace pipesim
