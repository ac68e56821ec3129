#include "models/import_profile.h"

#include <gmock/gmock.h>

#include "models/model_json.h"
#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

const std::string one =
    "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=0";

std::string refused_profile(const std::string& text) {
  return refusal([&] { import_profile(text, "graph.txt", 4, 4); });
}

// Nodes out of order, lists, integers, tabs and non-breaking spaces, a stage, an empty line, no final
// newline.
const std::string small_profile =
    "node3 -- Add(inplace) -- forward_compute_time=0.5, backward_compute_time=0, activation_size=40.0, "
    "parameter_size=0.000 -- stage_id=1\n"
    "node1 -- Input -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=[24; 16.0], "
    "parameter_size=0.000  \n"
    "node2 -- Conv2d(3, 8, kernel_size=(3, 3), pad=1) -- forward_compute_time=1.25, "
    "backward_compute_time=2.5, "
    "activation_size=42, parameter_size=10.000\r\n"
    "\n"
    "\tnode1 -- node2\n"
    "\xc2\xa0 node2 -- node3 \n"
    "\xa0node1 -- node3\n"
    "    node1 -- node3";

TEST(ImportProfile, ReadsLayersAndEdges) {
  const OperatorGraph graph = import_profile(small_profile, "profiles/graph.txt", 4, 4);
  ASSERT_EQ(graph.operators().size(), 3);
  EXPECT_EQ(graph.name(), "graph");
  EXPECT_EQ(graph.batch(), 4);
  const Operator& input = graph.operators()[0];
  const Operator& conv = graph.operators()[1];
  const Operator& add = graph.operators()[2];
  EXPECT_EQ(input.name, "node1 Input");
  EXPECT_EQ(conv.name, "node2 Conv2d(3, 8, kernel_size=(3, 3), pad=1)");
  EXPECT_EQ(add.name, "node3 Add(inplace)");
  EXPECT_EQ(conv.measured, (MeasuredTime{Seconds(1.25 * 1e-3), Seconds(2.5 * 1e-3)}));
  EXPECT_EQ(conv.factors.size(), 1);
  EXPECT_EQ(add.uses.size(), 3);
  EXPECT_EQ(graph.tensor(add.uses[0].tensor).name, conv.name);
  EXPECT_EQ(graph.tensor(add.uses[1].tensor).name, input.name);
}

TEST(ImportProfile, RoundsBytesUpToSamplesAndFloats) {
  const OperatorGraph graph = import_profile(small_profile, "graph.txt", 4, 4);
  const Operator& conv = graph.operators()[1];
  const Tensor& weight = graph.tensor(conv.uses[1].tensor);
  const Tensor& result = graph.tensor(conv.uses[2].tensor);
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(weight.type, DataType::Float32);
  EXPECT_EQ(result.shape, (std::vector<std::int64_t>{4, 11}));
  EXPECT_EQ(result.type, DataType::UInt8);
  const Tensor& summed = graph.tensor(graph.operators()[0].uses[0].tensor);
  EXPECT_EQ(summed.shape, (std::vector<std::int64_t>{4, 10}));
}

// A tensor of 10 bytes measured with 4 samples has 7.5 bytes with three samples.
TEST(ImportProfile, KeepsFractionsOfBytes) {
  const OperatorGraph graph = import_profile(
      "a -- b -- forward_compute_time=1, backward_compute_time=2, activation_size=10, "
      "parameter_size=6\n",
      "graph.txt", 4, 3);
  const Operator& op = graph.operators()[0];
  EXPECT_EQ(std::get<double>(op.attributes.at("activation_bytes")), 7.5);
  EXPECT_EQ(std::get<double>(op.attributes.at("parameter_bytes")), 6);
  EXPECT_EQ(graph.tensor(op.uses[0].tensor).shape, (std::vector<std::int64_t>{2}));  // of 4 bytes
  EXPECT_EQ(graph.tensor(op.uses[1].tensor).shape, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(parse_model(to_json(graph), "m.json"), graph);
}

TEST(ImportProfile, RoundTripsAsAModelFile) {
  const OperatorGraph graph = import_profile(small_profile, "graph.txt", 4, 4);
  EXPECT_EQ(parse_model(to_json(graph), "m.json"), graph);
}

TEST(ImportProfile, RefusesOtherLines) {
  EXPECT_EQ(refused_profile("node1 -- Input\n\nnode2\n"),
            "graph.txt:3: found \"node2\", allowed: \"ID -- DESCRIPTION -- forward_compute_time=…, "
            "backward_compute_time=…, activation_size=…, parameter_size=…\" or \"ID -- ID\"");
  EXPECT_EQ(refused_profile("stage_id=1 -- stage_id=2\n").substr(0, 20), "graph.txt:1: found \"");
  EXPECT_EQ(refused_profile("stage_id=1\n").substr(0, 20), "graph.txt:1: found \"");
}

TEST(ImportProfile, RefusesBadFields) {
  EXPECT_EQ(refused_profile("a -- b -- forward_compute_time=fast"),
            "graph.txt:1: forward_compute_time is \"fast\", allowed: a number from 0 to 1e15");
  EXPECT_EQ(refused_profile("a -- b -- backward_compute_time=-1"),
            "graph.txt:1: backward_compute_time is \"-1\", allowed: a number from 0 to 1e15");
  EXPECT_EQ(refused_profile("a -- b -- parameter_size=nan"),
            "graph.txt:1: parameter_size is \"nan\", allowed: a number from 0 to 1e15");
  EXPECT_EQ(refused_profile("a -- b -- activation_size=[1; x]"),
            "graph.txt:1: activation_size is \"x\", allowed: a number from 0 to 1e15");
  EXPECT_EQ(refused_profile("a -- b -- parametr_size=1"),
            "graph.txt:1: unknown field \"parametr_size\" (did you mean \"parameter_size\"?), allowed: "
            "forward_compute_time, backward_compute_time, activation_size, parameter_size");
  EXPECT_EQ(refused_profile("a -- b -- parameter_size=1, parameter_size=1"),
            "graph.txt:1: field \"parameter_size\" stands twice");
  EXPECT_EQ(refused_profile("a -- b -- forward_compute_time=1, parameter_size=1"),
            "graph.txt:1: field \"backward_compute_time\" is missing");
}

TEST(ImportProfile, RefusesBrokenGraphs) {
  const std::string a = "node1 -- x -- " + one + "\n", b = "node2 -- y -- " + one + "\n";
  EXPECT_EQ(refused_profile(a + a), "graph.txt:2: a second layer \"node1\"");
  EXPECT_EQ(refused_profile(a + "\tnode1 -- node4\n"),
            "graph.txt:2: edge to unknown layer \"node4\" (did you mean \"node1\"?)");
  EXPECT_EQ(refused_profile(a + "\tnode3 -- node1\n"),
            "graph.txt:2: edge from unknown layer \"node3\" (did you mean \"node1\"?)");
  EXPECT_EQ(refused_profile(a + b + "\tnode1 -- node2\n\tnode2 -- node1\n"),
            "graph.txt: layers form a cycle: node1 -> node2 -> node1");
  EXPECT_EQ(refused_profile(""),
            "graph.txt: holds no layers, allowed: lines \"ID -- DESCRIPTION -- forward_compute_time=…, "
            "backward_compute_time=…, activation_size=…, parameter_size=…\"");
}

// Names stand in files of models, which are UTF-8.
TEST(ImportProfile, RefusesNamesThatAreNotUtf8) {
  EXPECT_EQ(refused_profile("node1 -- Input -- " + one + "\nnode2 -- p\x8b" + "d -- " + one),
            "graph.txt:2: byte 0x8b is not UTF-8");
}

}  // namespace
}  // namespace pipesim
