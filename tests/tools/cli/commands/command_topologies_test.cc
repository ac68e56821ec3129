#include <gmock/gmock.h>

#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Topologies, ListsAllPresets) {
  const Outcome outcome = pipesim_run({"topologies"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("name "));
  for (const TopologyPreset& preset : topology_presets()) {
    EXPECT_THAT(outcome.out, HasSubstr("\n" + preset.name + " "));
    EXPECT_THAT(outcome.out, HasSubstr(preset.description));
  }
}

// By hand: two devices a node on its switch, two nodes: 4 + 2 links; 2 ordered pairs in each node, 8 between
// them, which pass the slower links.
TEST(Topologies, ShowsLinksAndPairs) {
  const Outcome outcome = pipesim_run({"topologies", "levels:2@10GB/s,2@1.25GB/s"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\n  devices      4\n  nodes        2\n  links        6\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("  links  between                        bandwidth  latency\n"
                        "      4  node*.gpu* - node*.switch        10 GB/s     0 ns  each way\n"
                        "      2  node*.switch - level*.switch*  1.25 GB/s     0 ns  each way\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("  pairs  within       bandwidth  hops  latency  for example\n"
                        "      4  a node         10 GB/s     2     0 ns  node0.gpu0 -> node0.gpu1\n"
                        "      8  the network  1.25 GB/s     4     0 ns  node0.gpu0 -> node1.gpu0\n"));
}

TEST(Topologies, LargeOnesAreShownFromTheFirstNode) {
  const Outcome outcome = pipesim_run({"topologies", "dgx-a100:32"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\n  devices      256\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  pairs from the first node  within "));
  EXPECT_THAT(outcome.out, HasSubstr("\n                         56  a node "));
}

TEST(Topologies, ShowsASingleDevice) {
  const Outcome outcome = pipesim_run({"topologies", "dapple-b:1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\n  devices      1\n"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("pairs")));
}

TEST(Topologies, TellsWhatFiguresRestOn) {
  const Outcome outcome = pipesim_run({"topologies", "dgx-a100"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("\n\n  figures\n  A100-80GB: datasheet: peak rates, memory and its "
                        "bandwidth, NVIDIA A100 (float64 on tensor cores); measured by others: "));
}

TEST(Topologies, JsonIsATopologyFileOfTheSameTopology) {
  const Outcome outcome = pipesim_run({"topologies", "dgx1-v100:2", "--json"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(parse_topology(outcome.out, "stdout"), make_topology("dgx1-v100:2"));
  EXPECT_EQ(outcome.out, to_compact_json(make_topology("dgx1-v100:2")));
  EXPECT_EQ(pipesim_run({"topologies", "dgx1-v100:2", "--expanded"}),
            (Outcome{0, to_json(make_topology("dgx1-v100:2")), ""}));
  EXPECT_EQ(pipesim_run({"topologies", "--expanded"}),
            (Outcome{2, "", "pipesim: topologies: --expanded needs TOPOLOGY\n"}));
  EXPECT_THAT(pipesim_run({"topologies", "--json"}).out,
              StartsWith("{\n  \"topologies\": [\n    {\n      \"name\": \""));
}

TEST(Topologies, RefusesWhatIsNoTopology) {
  const Outcome outcome = pipesim_run({"topologies", "dgx3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              StartsWith("pipesim: unknown topology \"dgx3\" (did you mean \"dgx2\"?); allowed: "));
  const TemporaryFolder folder;
  EXPECT_EQ(pipesim_run({"topologies", folder.path("no.json")}),
            (Outcome{1, "",
                     "pipesim: " + folder.path("no.json") + ": can't be read: No such file or directory\n"}));
}

}  // namespace
}  // namespace pipesim
