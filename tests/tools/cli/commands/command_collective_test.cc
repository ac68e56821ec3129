#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/accuracy/collective_report.h"
#include "tools/analysis/inputs/collective_run.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<DeviceId> ids(const std::vector<std::size_t>& numbers) {
  std::vector<DeviceId> devices;
  for (const std::size_t n : numbers) devices.emplace_back(n);
  return devices;
}

TEST(DeviceLists, AreNumbersAndRanges) {
  EXPECT_EQ(parse_device_list("all", 3), ids({0, 1, 2}));
  EXPECT_EQ(parse_device_list("7,0-2", 8), ids({7, 0, 1, 2}));
  EXPECT_EQ(parse_device_list("0-20:8,5", 24), ids({0, 8, 16, 5}));
  for (const char* wrong :
       {"", "all,", "1", "0,,1", "0-8", "2-1", "0-3,3", "0-3:0", "-1", "0-", "x", "0:2:3"})
    EXPECT_THROW(parse_device_list(wrong, 8), InputError) << wrong;
}

TEST(SizeLists, AreDoubledOrListed) {
  EXPECT_THAT(parse_sizes("1MiB..4MiB"), ElementsAre(Bytes(1 << 20), Bytes(2 << 20), Bytes(4 << 20)));
  EXPECT_THAT(parse_sizes("3 kB..7 kB"), ElementsAre(Bytes(3000), Bytes(6000)));
  EXPECT_THAT(parse_sizes("25MB"), ElementsAre(Bytes(25'000'000)));
  EXPECT_THAT(parse_sizes("2B,1B"), ElementsAre(Bytes(2), Bytes(1)));
  EXPECT_EQ(parse_sizes("1B..4000000000GB").size(), 62U);
  for (const char* wrong : {"", "1MiB..", "..1MiB", "2MiB..1MiB", "1MiB,,2MiB", "12"})
    EXPECT_THROW(parse_sizes(wrong), InputError) << wrong;
}

// Times are the cost model's. nccl-tests' bus bandwidth is what each device sends, by the time, where every
// device sends the same; no device sends faster than its link.
TEST(CollectiveReport, HasTheTermsOfNcclTests) {
  const Topology topology = make_topology("dgx-h100:2");
  const CostModel costs(topology);
  const std::vector<DeviceId> node = ids({0, 1, 2, 3, 4, 5, 6, 7}), pair = ids({0, 8});
  const std::vector<Bytes> sizes = parse_sizes("1KiB..1GiB");
  for (const char* name :
       {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "send"}) {
    const Collective kind = parse_collective(name);
    const std::vector<DeviceId>& group = kind == Collective::Send ? pair : node;
    const auto n = static_cast<std::int64_t>(group.size());
    const std::vector<CollectiveRow> rows = time_collective(costs, kind, group, sizes);
    ASSERT_EQ(rows.size(), sizes.size());
    for (const CollectiveRow& row : rows) {
      const Bytes whole(row.size.value * (kind == Collective::AllToAll ? n : 1));
      const CollectiveTime expected = costs.collective_time(kind, group, whole);
      EXPECT_EQ(row.time, expected.duration) << name;
      EXPECT_EQ(row.algorithm, expected.algorithm) << name;
      EXPECT_FALSE(row.measured);
      EXPECT_TRUE(
          std::ranges::any_of(row.algorithms, [&](const auto& one) { return one.first == row.algorithm; }));
      EXPECT_NEAR(row.algorithm_bandwidth.value * row.time.value, static_cast<double>(row.size.value), 1e-3);
      const bool everybody = kind == Collective::AllReduce || kind == Collective::ReduceScatter ||
                             kind == Collective::AllGather || kind == Collective::AllToAll;
      const double sent =
          static_cast<double>(bytes_on_links(kind, n, whole)) / static_cast<double>(everybody ? n : n - 1);
      EXPECT_NEAR(row.bus_bandwidth.value * row.time.value, sent, 1) << name << " " << row.size.value;
      // Where the switch adds, a link carries the data once, and 2 (n - 1) / n times in a ring.
      const double fastest =
          370.8e9 * (row.algorithm == "NVLS" ? 2 * static_cast<double>(n - 1) / static_cast<double>(n) : 1);
      EXPECT_LT(row.bus_bandwidth.value, fastest) << name;
    }
    EXPECT_GT(rows.back().bus_bandwidth, rows.front().bus_bandwidth) << name;
  }
}

TEST(CollectiveCommand, PrintsATableAndJson) {
  const Outcome text = pipesim_run({"collective", "--topology", "dgx-a100", "--sizes", "1MiB..2MiB"});
  ASSERT_EQ(text.status, 0) << text;
  EXPECT_THAT(text.out, testing::StartsWith("all-reduce on 8 of 8 devices of dgx-a100\n\n"));
  EXPECT_THAT(text.out, HasSubstr("1 MiB  1048576 "));
  EXPECT_THAT(text.out, HasSubstr("2 MiB  2097152 "));
  const Outcome json = pipesim_run({"collective", "--topology", "dgx-a100:2", "--kind", "broadcast",
                                    "--devices", "9,1", "--sizes", "8MB", "--json"});
  ASSERT_EQ(json.status, 0) << json;
  const nlohmann::json found = nlohmann::json::parse(json.out);
  EXPECT_EQ(found["kind"], "broadcast");
  EXPECT_EQ(found["devices"], 2);
  ASSERT_EQ(found["sizes"].size(), 1U);
  EXPECT_EQ(found["sizes"][0]["bytes"], 8'000'000);
  EXPECT_GT(found["sizes"][0]["time_s"].get<double>(), 8e6 / 24e9);
}

TEST(CollectiveCommand, RefusesWhatIsNone) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"collective", "--topology", "dgx-h100"});
    const Outcome outcome = pipesim_run(arguments);
    EXPECT_EQ(outcome.status, 1) << outcome;
    return outcome.err;
  };
  EXPECT_EQ(said({"--kind", "allreduce"}),
            "pipesim: unknown collective \"allreduce\" (did you mean \"all-reduce\"?); allowed: all-reduce, "
            "reduce-scatter, all-gather, all-to-all, broadcast, reduce, send\n");
  EXPECT_EQ(said({"--devices", "0-8"}),
            "pipesim: devices \"0-8\": there is no device 8; allowed: all, or numbers from 0 to 7, such as "
            "0-7,16 or 0-63:8\n");
  EXPECT_EQ(said({"--kind", "send"}), "pipesim: a send has two devices, source and destination; found 8\n");
  EXPECT_EQ(pipesim_run({"collective"}).status, 2);
}

}  // namespace
}  // namespace pipesim
