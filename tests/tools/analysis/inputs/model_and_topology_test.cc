#include "tools/analysis/inputs/model_and_topology.h"

#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const char* const kProfile =
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=4096.000, "
    "parameter_size=0.000\n"
    "node2 -- Linear(10, 5) -- forward_compute_time=1.500, backward_compute_time=3.000, "
    "activation_size=2048.000, "
    "parameter_size=200.000\n"
    "\tnode1 -- node2\n";

std::string refused_model(const std::string& text) {
  return refusal([&] { open_model(text); });
}
std::string refused_topology(const std::string& text) {
  return refusal([&] { open_topology(text); });
}

TEST(OpenModel, TakesTheZooAndModelFiles) {
  EXPECT_EQ(open_model("lenet:batch=8"), make_zoo_model("lenet:batch=8"));
  const TemporaryFolder folder;
  const std::string file = folder.file("lenet.json", to_json(make_zoo_model("lenet:batch=8")));
  EXPECT_EQ(open_model(file), make_zoo_model("lenet:batch=8"));
}

TEST(OpenModel, LeavesOutNotesThatKeysBehindTheFileOverrule) {
  const TemporaryFolder folder;
  const std::string file = folder.file(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64, "num_nextn_predict_layers": 1})");
  const std::string note = "num_nextn_predict_layers = 1: no further tokens are predicted";
  EXPECT_THAT(left_out_of_config(file), testing::ElementsAre(note));
  EXPECT_THAT(left_out_of_config(file + ":layers=3"), testing::ElementsAre(note));
  EXPECT_THAT(left_out_of_config(file + ":layers=3,further_tokens=1"), testing::IsEmpty());
  EXPECT_THAT(left_out_of_config(with_settings(file, {"further_tokens=1"})), testing::IsEmpty());
}

TEST(OpenModel, TakesProfilesWithTheirBatch) {
  const TemporaryFolder folder;
  const std::string file = folder.file("graph.txt", kProfile);
  EXPECT_EQ(open_model(file).batch(), 64);
  EXPECT_EQ(open_model(file + ":batch=128").batch(), 128);
  EXPECT_EQ(
      refused_model(file + ":batch=0"),
      "profile \"" + file +
          ":batch=0\": found \":batch=0\" after the file, allowed :batch=N,profile-batch=N, N from 1 to "
          "1048576");
  EXPECT_THAT(refused_model(file + ":batch=1x"), HasSubstr("found \":batch=1x\" after the file"));
  EXPECT_THAT(refused_model(file + ":size=1"), HasSubstr("found \":size=1\" after the file"));
}

TEST(OpenModel, ScalesProfilesToOtherBatches) {
  const TemporaryFolder folder;
  const std::string file = folder.file("graph.txt", kProfile);
  const OperatorGraph graph = open_model(file + ":batch=16,profile-batch=64");
  EXPECT_EQ(graph.batch(), 16);
  EXPECT_EQ(graph.operators()[1].measured->forward, Seconds(1.5e-3 / 4));
  EXPECT_EQ(graph.tensor(graph.operators()[1].uses.back().tensor).elements(), 2048 / 4);
  EXPECT_EQ(open_model(file + ":profile-batch=2"), open_model(file + ":batch=2"));
}

TEST(WithBatch, WritesTheSameModelWithOtherSamples) {
  const TemporaryFolder folder;
  const std::string profile = folder.file("graph.txt", kProfile),
                    file = folder.file("m.json", to_json(make_zoo_model("lenet:batch=8")));
  EXPECT_EQ(with_batch("lenet", 8), "lenet:batch=8");
  EXPECT_EQ(with_batch("gpt:layers=2,batch=4,hidden=64", 16), "gpt:layers=2,batch=16,hidden=64");
  EXPECT_EQ(with_batch(profile, 16), profile + ":profile-batch=64,batch=16");
  EXPECT_EQ(with_batch(profile + ":batch=4", 16), profile + ":batch=16,profile-batch=4");
  EXPECT_EQ(with_profile_batch(profile + ":batch=4", 2), profile + ":batch=4,profile-batch=2");
  EXPECT_EQ(with_batch(file, 8), file);
  EXPECT_EQ(
      refusal([&] { with_batch(file, 4); }),
      "model \"" + file +
          "\" has a batch of 8 in its file, found 4; to choose it, name it there: \"sizes\": {\"b\": 8}, "
          "\"batch\": \"b\", and \"b\" instead of 8 in the shapes of \"images\", \"labels\" and wherever "
          "else it counts samples");
  EXPECT_EQ(refusal([&] { with_batch("lenet", 0); }), "found a batch of 0, allowed: 1 to 1048576");
  EXPECT_EQ(refusal([&] { with_profile_batch("lenet", 4); }),
            "model \"lenet\" is no profile (FILE.txt), so it has no batch that was profiled");
}

TEST(OpenModel, SaysWhatIsWrongWithNames) {
  EXPECT_THAT(refused_model("lenett"),
              StartsWith("unknown model \"lenett\" (did you mean \"lenet\"?); allowed: "));
  EXPECT_THAT(refused_model("lenett:batch=3"),
              StartsWith("unknown model \"lenett\" (did you mean \"lenet\"?)"));
  EXPECT_THAT(refused_model(""), StartsWith("unknown model \"\"; allowed: "));
}

TEST(OpenModel, SaysWhatIsWrongWithFiles) {
  const TemporaryFolder folder;
  const std::string missing = folder.path("no.json"), profile = folder.path("no.txt"),
                    plain = folder.path("no");
  EXPECT_EQ(refused_model(missing), missing + ": can't be read: No such file or directory");
  EXPECT_EQ(refused_model(profile), profile + ": can't be read: No such file or directory");
  EXPECT_EQ(refused_model(plain), plain + ": can't be read: No such file or directory");
  EXPECT_EQ(refused_model(folder.path()), folder.path() + ": is a directory, a file is needed");
}

// 2^34 elements: 34 GB in bfloat16, 69 GB in float32, in which only weights that are trained are kept.
TEST(RequireRoom, CountsFrozenWeightsInTheirOwnType) {
  const auto model = [](bool frozen) {
    GraphBuilder b("wide", 1, DataType::BFloat16);
    b.add_operator({"linear",
                    "base",
                    {b.data("x", {1, 1 << 17})},
                    {{"out", std::vector<std::int64_t>{1 << 17}}, {"bias", 0}},
                    {},
                    {},
                    "",
                    frozen});
    return b.build();
  };
  const Topology topology = make_topology("p100-4x4:1");  // 64 GB
  PlanOptions options;
  options.state_sharding = parse_state_sharding("zero3,weights=float32");
  EXPECT_NO_THROW(require_room(model(true), topology, options));
  EXPECT_THROW(require_room(model(false), topology, options), InputError);
}

TEST(OpenTopology, TakesPresetsLevelsAndFiles) {
  EXPECT_EQ(open_topology("dgx2"), make_topology("dgx2"));
  EXPECT_EQ(open_topology("levels:2@10GB/s,2@1.25GB/s").num_devices(), 4U);
  const TemporaryFolder folder;
  const std::string file = folder.file("cluster.json", to_json(make_topology("dgx2")));
  EXPECT_EQ(open_topology(file), make_topology("dgx2"));
}

TEST(OpenTopology, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(refused_topology("dgx3"),
              StartsWith("unknown topology \"dgx3\" (did you mean \"dgx2\"?); allowed: "));
  EXPECT_EQ(refused_topology(folder.path()), folder.path() + ": is a directory, a file is needed");
  const std::string missing = folder.path("no.json");
  EXPECT_EQ(refused_topology(missing), missing + ": can't be read: No such file or directory");
}

}  // namespace
}  // namespace pipesim
