#include "tools/interop/mlir/mlir.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/box.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "tests/tools/command_line.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

TEST(Mlir, WritesMeshesAndShardings) {
  GraphBuilder b("two", 4);
  const TensorId hidden =
      b.add("linear", "fc1", {b.data("x", {4, 6})}, {{"out", std::vector<std::int64_t>{8}}, {"bias", 0}});
  b.add("linear", "fc2", {hidden}, {{"out", std::vector<std::int64_t>{2}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("p100-4x4:1");
  Plan plan;
  for (const auto& [op, split] : {std::pair(0, "b/2 o/2"), std::pair(1, "b/2 i/2")}) {
    plan.strategy.push_back(parse_split(graph.operators()[static_cast<std::size_t>(op)], split));
    for (std::int32_t d = 0; d < 4; ++d) plan.strategy.back().devices.emplace_back(d);
  }
  EXPECT_EQ(mlir_text(graph, plan, topology), R"(module @"two" attributes {
  pipesim.topology = "p100-4x4:1",
  pipesim.devices = 4 : i64,
  pipesim.microbatches = 1 : i64
} {
  "sdy.mesh"() {sym_name = "mesh0", mesh = #sdy.mesh<["b"=2, "o"=2]>} : () -> ()
  "sdy.mesh"() {sym_name = "mesh1", mesh = #sdy.mesh<["b"=2, "i"=2]>} : () -> ()
  func.func @main(
      %x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{"b"}, {}]>, mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      %fc1.w: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {"o"}]>, mhlo.sharding = "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}"},
      %fc2.w: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh1, [{"i"}, {}]>, mhlo.sharding = "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}"}) -> (tensor<4x2xf32>) {
    %fc1 = "pipesim.linear"(%x, %fc1.w) {pipesim.name = "fc1", activation = "none", bias = 0 : i64, contract = 1 : i64, out = [8], router = 0 : i64, transpose_weight = 0 : i64, uneven = 0 : i64, sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{"b"}, {"o"}]>]>, mhlo.sharding = "{devices=[2,2]<=[4]}"} : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
    %fc1_as_1 = "sdy.sharding_constraint"(%fc1) {sharding = #sdy.sharding<@mesh1, [{"b"}, {"i"}]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %fc2 = "pipesim.linear"(%fc1_as_1, %fc2.w) {pipesim.name = "fc2", activation = "none", bias = 0 : i64, contract = 1 : i64, out = [2], router = 0 : i64, transpose_weight = 0 : i64, uneven = 0 : i64, sdy.sharding = #sdy.sharding_per_value<[<@mesh1, [{"b"}, {}], unreduced={"i"}>]>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    return %fc2 : tensor<4x2xf32>
  }
}
)");
}

/// Reads a text of mlir_text() by its words alone.
struct ReadMlir {
  explicit ReadMlir(const std::string& text) {
    static const std::regex mesh(R"(sym_name = \"(mesh\d+)\", mesh = #sdy.mesh<\[(.*?)\])"),
        axis(R"(\"(\w+)\"=(\d+))");
    for (std::sregex_iterator m(text.begin(), text.end(), mesh), end; m != end; ++m) {
      const std::string axes = (*m)[2];
      for (std::sregex_iterator a(axes.begin(), axes.end(), axis); a != end; ++a)
        meshes[(*m)[1]][(*a)[1]] = std::stoll((*a)[2]);
    }
  }
  /// Parts of each dim of "<@mesh3, [{"b"}, {}]>".
  [[nodiscard]] std::vector<std::int64_t> parts(const std::string& sharding) const {
    static const std::regex mesh(R"(@(mesh\d+))"), name(R"(\"(\w+)\")");
    std::smatch which;
    EXPECT_TRUE(std::regex_search(sharding, which, mesh)) << sharding;
    std::vector<std::int64_t> counts;
    const std::size_t end = sharding.find(']');
    for (std::size_t open = sharding.find('{'); open < end; open = sharding.find('{', open + 1)) {
      const std::string dim = sharding.substr(open, sharding.find('}', open) - open);
      std::int64_t& count = counts.emplace_back(1);
      for (std::sregex_iterator a(dim.begin(), dim.end(), name), last; a != last; ++a)
        count *= meshes.at(which[1]).at((*a)[1]);
    }
    return counts;
  }
  std::map<std::string, std::map<std::string, std::int64_t>> meshes;
};

/// Tiles and devices of "{devices=[4,2]<=[8]}".
struct GspmdTiles {
  explicit GspmdTiles(const std::string& text) {
    static const std::regex whole(R"(devices=\[([\d,]+)\](?:<=\[(\d+)\]|([\d,]+)))");
    std::smatch m;
    if (!std::regex_search(text, m, whole)) return;
    counts = numbers(m[1]);
    devices = numbers(m[3]);
    if (m[2].matched) {
      for (std::int64_t d = 0; d < std::stoll(m[2]); ++d) devices.push_back(d);
    }
  }
  static std::vector<std::int64_t> numbers(const std::string& list) {
    std::vector<std::int64_t> result;
    std::istringstream in(list);
    for (std::string word; std::getline(in, word, ',');) result.push_back(std::stoll(word));
    return result;
  }
  std::vector<std::int64_t> counts, devices;
};

/// Checks that every result has as many parts along each dim as its shards, and each device the tile of its
/// shard.
void check_results(const OperatorGraph& graph, const Plan& plan, const Topology& topology) {
  const std::string text = mlir_text(graph, plan, topology);
  const ReadMlir read(text);
  static const std::regex per_value(R"(sharding_per_value<\[(<.*?>)\]>)");
  static const std::regex tiled("mhlo.sharding = \"(.*?)\"");
  std::istringstream lines(text);
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, per_value)) continue;
    const Operator& op = graph.operators()[at];
    const ParallelConfig& config = plan.strategy[at++];
    const TensorUse& use = op.uses.back();
    const std::string all = found[1], last = all.substr(all.rfind('<'));
    const std::vector<std::int64_t> parts = read.parts(last);
    ASSERT_EQ(parts.size(), use.dims.size()) << line;
    std::vector<Range> ranges;
    ShardGrid(op, config).ranges(0, ranges);
    const Box first = box_of(use, op, ranges);
    bool even = true;
    for (std::size_t d = 0; d < parts.size(); ++d) even = even && use.dims[d].extent % parts[d] == 0;
    for (std::size_t d = 0; even && d < parts.size(); ++d)
      EXPECT_EQ(first[d].length(), use.dims[d].extent / parts[d]) << line;
    if (!even || !std::regex_search(line, found, tiled)) continue;
    const GspmdTiles tiles(found[1]);
    if (tiles.devices.empty()) continue;
    const std::int64_t copies = tiles.counts.size() > parts.size() ? tiles.counts.back() : 1;
    for (std::int64_t k = 0; k < config.num_shards(); ++k) {
      ShardGrid(op, config).ranges(k, ranges);
      const Box box = box_of(use, op, ranges);
      std::int64_t tile = 0;
      for (std::size_t d = 0; d < parts.size(); ++d)
        tile = tile * parts[d] + box[d].begin / (use.dims[d].extent / parts[d]);
      const auto place = std::ranges::find(tiles.devices, config.devices[static_cast<std::size_t>(k)].value);
      ASSERT_NE(place, tiles.devices.end()) << line;
      EXPECT_EQ((place - tiles.devices.begin()) / copies, tile) << line;
    }
  }
  EXPECT_EQ(at, graph.operators().size());
}

TEST(Mlir, DividesResultsAsShardsDo) {
  const Topology topology = make_topology("p100-4x4:2");
  for (const char* model :
       {"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,positions=8", "lenet:batch=8",
        "bert-base:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,positions=8,objective=both"}) {
    const OperatorGraph graph = make_zoo_model(model);
    for_each_seed(10, [&](Rng& rng) {
      Plan plan;
      plan.strategy = random_strategy(graph, rng, 8, 8);
      check_results(graph, plan, topology);
    });
  }
}

// Words of a result that a compiler would read as a name end where MLIR's names do.
TEST(Mlir, NamesValuesApart) {
  GraphBuilder b("names \"quoted\"", 4);
  const TensorId x = b.data("x/y", {4, 6});
  b.add("relu", "x:y", {x});
  const OperatorGraph graph = b.build();
  Plan plan;
  plan.strategy = {single_device(graph.operators()[0], DeviceId(1))};
  const std::string text = mlir_text(graph, plan, make_topology("p100-4x4:1"));
  EXPECT_THAT(text, testing::HasSubstr("module @\"names \\\"quoted\\\"\""));
  EXPECT_THAT(text, testing::HasSubstr("%x_y_2 = \"pipesim.relu\"(%x_y)"));
  EXPECT_THAT(text, testing::HasSubstr("mesh = #sdy.mesh<[], device_ids=[1]>"));
  EXPECT_THAT(text, testing::HasSubstr("mhlo.sharding = \"{maximal device=1}\""));
}

}  // namespace
}  // namespace pipesim
