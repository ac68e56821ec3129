#include "models/onnx/onnx_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/models/onnx/onnx_graph.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> kinds_of(const OperatorGraph& graph) {
  std::vector<std::string> kinds;
  for (const Operator& op : graph.operators()) kinds.push_back(op.kind);
  return kinds;
}

const Operator& operator_of(const OperatorGraph& graph, const std::string& kind) {
  const auto found = std::ranges::find(graph.operators(), kind, &Operator::kind);
  EXPECT_NE(found, graph.operators().end()) << kind;
  return *found;
}

std::vector<std::int64_t> shape_of(const OperatorGraph& graph, const std::string& tensor) {
  for (const Tensor& t : graph.tensors()) {
    if (t.name == tensor) return t.shape;
  }
  return {-1};
}

// x[batch, 8] · w[8, 4] + b, and relu.
OnnxGraph small_linear() {
  OnnxGraph g;
  g.input("x", {-2, 8});
  g.weight("fc.weight", {4, 8});
  g.weight("fc.bias", {4});
  OnnxGraph::set(g.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"}, "/fc/Gemm"), "transB", 1);
  g.node("Relu", {"y"}, {"z"}, "/Relu");
  g.output("z");
  return g;
}

TEST(OnnxModel, IsALinearWithTheFilesNames) {
  const OnnxModel model = small_linear().read({{"batch", 16}});
  EXPECT_EQ(model.graph.name(), "net:batch=16");
  EXPECT_EQ(model.graph.batch(), 16);
  EXPECT_THAT(kinds_of(model.graph), ElementsAre("linear"));
  EXPECT_EQ(model.graph.operators()[0].name, "fc");
  EXPECT_EQ(std::get<std::string>(model.graph.operators()[0].attributes.at("activation")), "relu");
  EXPECT_EQ(shape_of(model.graph, "fc.weight"), (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(shape_of(model.graph, "fc.bias"), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(model.graph.parameter_count(), 36);
  EXPECT_TRUE(model.notes.empty());
}

TEST(OnnxModel, ReadsFlattenedRowsAsTheyWere) {
  OnnxGraph g;
  g.input("x", {2, 6, 8});
  g.weight("w", {8, 4});
  g.integers("rows", {-1, 8});
  g.node("Reshape", {"x", "rows"}, {"flat"});
  g.node("MatMul", {"flat", "w"}, {"y"});
  g.node("Shape", {"x"}, {"shape"});
  g.integers("first", {0, 1});
  g.node("Gather", {"shape", "first"}, {"lead"});
  g.integers("last", {4});
  OnnxGraph::set(g.node("Concat", {"lead", "last"}, {"whole"}), "axis", std::int64_t{0});
  g.node("Reshape", {"y", "whole"}, {"z"});
  g.output("z");
  const OnnxModel model = g.read();
  EXPECT_THAT(kinds_of(model.graph), ElementsAre("linear"));
  EXPECT_EQ(shape_of(model.graph, model.results.at("z")), (std::vector<std::int64_t>{2, 6, 4}));
}

TEST(OnnxModel, TiesTheWeightOfATable) {
  OnnxGraph g;
  g.input("ids", {2, 6}, onnx::TensorProto::INT64);
  g.weight("table.weight", {10, 8});
  g.node("Gather", {"table.weight", "ids"}, {"x"});
  OnnxGraph::set(g.node("Transpose", {"table.weight"}, {"turned"}), "perm", std::vector<std::int64_t>{1, 0});
  g.node("MatMul", {"x", "turned"}, {"y"});
  g.output("y");
  const OperatorGraph graph = g.read().graph;
  EXPECT_THAT(kinds_of(graph), ElementsAre("embedding", "linear"));
  EXPECT_EQ(graph.parameter_count(), 80);
  EXPECT_EQ(graph.operators()[0].name, "table");
}

// Samples and heads are one dim, as torch's MultiheadAttention has them.
TEST(OnnxModel, RecognisesAttentionOverSamplesTimesHeads) {
  OnnxGraph g;
  g.input("x", {-2, 6, 12});
  OnnxGraph::set(g.node("Transpose", {"x"}, {"rows"}), "perm", std::vector<std::int64_t>{1, 0, 2});
  g.integers("heads", {6, -1, 4});
  for (const std::string part : {"q", "k", "v"}) {
    g.weight(part + ".weight", {12, 12});
    g.node("MatMul", {"rows", part + ".weight"}, {part});
    g.node("Reshape", {part, "heads"}, {part + "h"});
    OnnxGraph::set(g.node("Transpose", {part + "h"}, {part + "t"}), "perm",
                   part == "k" ? std::vector<std::int64_t>{1, 2, 0} : std::vector<std::int64_t>{1, 0, 2});
  }
  g.number("factor", 0.5F);
  g.node("Mul", {"qt", "factor"}, {"scaled"});
  g.node("MatMul", {"scaled", "kt"}, {"scores"});
  OnnxGraph::set(g.node("Softmax", {"scores"}, {"weights"}), "axis", std::int64_t{-1});
  g.node("MatMul", {"weights", "vt"}, {"mixed"});
  OnnxGraph::set(g.node("Transpose", {"mixed"}, {"back"}), "perm", std::vector<std::int64_t>{1, 0, 2});
  g.integers("joined", {6, -1, 12});
  g.node("Reshape", {"back", "joined"}, {"together"});
  g.weight("o.weight", {12, 12});
  g.node("MatMul", {"together", "o.weight"}, {"out"});
  OnnxGraph::set(g.node("Transpose", {"out"}, {"y"}), "perm", std::vector<std::int64_t>{1, 0, 2});
  g.output("y");
  const OperatorGraph graph = g.read({{"batch", 3}}).graph;
  const Operator& attention = operator_of(graph, "attention");
  EXPECT_EQ(graph.tensor(attention.uses[0].tensor).shape, (std::vector<std::int64_t>{3, 6, 3, 1, 4}));
  const auto kinds = kinds_of(graph);
  EXPECT_EQ(std::ranges::count(kinds, "transpose"), 0) << "samples come first everywhere";
  EXPECT_EQ(std::ranges::count(kinds, "affine"), 0) << "the factor is attention's own";
  EXPECT_EQ(std::ranges::count(kinds, "linear"), 4);
}

TEST(OnnxModel, KeepsWhatNobodyKnowsAsOpaque) {
  OnnxGraph g;
  g.input("x", {4, 8});
  g.weight("w", {8, 8});
  auto& node = g.node("Secret", {"x", "w"}, {"y"}, "/layer/Secret");
  node.set_domain("com.example");
  g.value("y", {4, 16});
  g.node("Relu", {"y"}, {"z"});
  g.output("z");
  const OnnxModel model = g.read();
  EXPECT_THAT(kinds_of(model.graph), ElementsAre("opaque", "relu"));
  EXPECT_EQ(std::get<std::string>(model.graph.operators()[0].attributes.at("what")), "com.example.Secret");
  EXPECT_EQ(model.graph.parameter_count(), 64);
  EXPECT_THAT(model.notes, ElementsAre("opaque, known by their shapes only: com.example.Secret (1, first at "
                                       "/layer/Secret)"));
}

TEST(OnnxModel, WritesFunctionsInPlaceOfTheirCalls) {
  OnnxGraph g;
  g.input("x", {4, 8});
  auto* function = g.model.add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  function->add_opset_import()->set_version(17);
  auto* inner = function->add_node();
  inner->set_op_type("LeakyRelu");
  inner->add_input("a");
  inner->add_output("m");
  auto* slope = inner->add_attribute();
  slope->set_name("alpha");
  slope->set_ref_attr_name("slope");
  slope->set_type(onnx::AttributeProto::FLOAT);
  auto* outer = function->add_node();
  outer->set_op_type("Add");
  outer->add_input("m");
  outer->add_input("m");
  outer->add_output("b");
  auto& call = g.node("Twice", {"x"}, {"y"}, "call");
  call.set_domain("local");
  auto* given = call.add_attribute();
  given->set_name("slope");
  given->set_type(onnx::AttributeProto::FLOAT);
  given->set_f(0.25F);
  g.output("y");
  const OperatorGraph graph = g.read().graph;
  EXPECT_THAT(kinds_of(graph), ElementsAre("leaky_relu", "add"));
  EXPECT_EQ(std::get<double>(graph.operators()[0].attributes.at("slope")), 0.25);
}

TEST(OnnxModel, TakesTheBranchThatAConstantChooses) {
  OnnxGraph g;
  g.input("x", {4, 8});
  g.node("Shape", {"x"}, {"shape"});
  g.integers("zero", {0});
  g.integers("four", {4});
  g.node("Gather", {"shape", "zero"}, {"rows"});
  g.node("Equal", {"rows", "four"}, {"is_four"});
  auto& condition = g.node("If", {"is_four"}, {"y"}, "choice");
  for (const std::string branch : {"then_branch", "else_branch"}) {
    auto* attribute = condition.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* body = attribute->mutable_g();
    body->set_name(branch);
    OnnxGraph::add_node(*body, branch == "then_branch" ? "Tanh" : "Exp", {"x"}, {branch + "_result"});
    body->add_output()->set_name(branch + "_result");
  }
  g.output("y");
  EXPECT_THAT(kinds_of(g.read().graph), ElementsAre("tanh"));
  g.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(5);
  EXPECT_THAT(kinds_of(g.read().graph), ElementsAre("exp"));
}

TEST(OnnxModel, AsksForSizesThatHaveNone) {
  OnnxGraph g = small_linear();
  EXPECT_EQ(
      refusal([&] { (void)g.read(); }),
      "net.onnx: dimension 0 of input \"x\" has the name \"batch\" and no length; set it: --set batch=N");
  EXPECT_EQ(refusal([&] {
              (void)g.read({{"btach", 3}});
            }),
            "net.onnx: no dimension is named \"btach\" (did you mean \"batch\"?), allowed: batch");
  g.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->clear_value();
  EXPECT_EQ(refusal([&] {
              (void)g.read({{"batch", 3}});
            }),
            "net.onnx: dimension 1 of input \"x\" has no length; set it: --set x.1=N");
  EXPECT_EQ(g.read({{"batch", 3}, {"x.1", 8}}).graph.batch(), 3);
  g.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(refusal([&] { (void)g.read(); }),
            "net.onnx: input \"x\", which node \"/fc/Gemm\" (Gemm) reads, has no shape; write its dimensions "
            "into the "
            "file");
}

TEST(OnnxModel, NamesTheNodeThatItCannotRead) {
  const auto refused = [](const std::string& op, const std::string& domain) {
    OnnxGraph g;
    g.input("x", {4, 8});
    auto& node = g.node(op, {"x"}, {"y"}, "n1");
    node.set_domain(domain);
    g.output("y");
    return refusal([&] { (void)g.read(); });
  };
  EXPECT_EQ(
      refused("Loop", ""),
      "net.onnx: node \"n1\" (Loop): loops cannot be read; allowed: a graph whose steps are written out");
  EXPECT_EQ(refused("If", ""),
            "net.onnx: node \"n1\" (If): a branch on values cannot be read; allowed: a condition that is a "
            "constant");
  EXPECT_EQ(refused("Secret", "com.example"),
            "net.onnx: node \"n1\" (com.example.Secret): the shape of its result \"y\" is not known; write "
            "it into the "
            "file's value_info");
  OnnxGraph g;
  g.input("x", {4, 8});
  g.node("Add", {"x", "nobody"}, {"y"}, "n1");
  g.output("y");
  EXPECT_EQ(
      refusal([&] { (void)g.read(); }),
      "net.onnx: node \"n1\" (Add): it reads \"nobody\", which is no input, and no node before it makes it");
}

// The library's rules and ours read dims, axes and strides that such nodes do not have.
TEST(OnnxModel, RefusesNodesThatDoNotFitTheirInputs) {
  struct Wrong {
    const char* op;
    std::vector<std::int64_t> shape;
    const char* attribute;
    std::vector<std::int64_t> list;  // of one: a number
    std::int64_t opset;
  };
  const std::vector<Wrong> nodes{{"MaxPool", {1, 1, 5, 5}, "strides", {2, 0}, 12},
                                 {"Transpose", {2, 3}, "perm", {0, 7}, 13},
                                 {"Transpose", {2, 3}, "perm", {0, 1, 1}, 13},
                                 {"LayerNormalization", {2, 3}, "axis", {-5}, 17},
                                 {"Softmax", {2, 3}, "axis", {99}, 13},
                                 {"Unsqueeze", {2, 3}, "axes", {0, 0, -1}, 11},
                                 {"Gemm", {3}, "transA", {1}, 6},
                                 {"ConvInteger", {1, 1, 3, 3, 4}, "group", {1}, 10},
                                 {"DepthToSpace", {1, 4, 2, 2}, "blocksize", {std::int64_t{1} << 32}, 13}};
  for (const Wrong& wrong : nodes) {
    OnnxGraph g(wrong.opset);
    g.input("x", wrong.shape);
    g.input("y", {2, 2});
    auto& node = g.node(wrong.op, {"x"}, {"z"}, "n1");
    if (wrong.op == std::string("Gemm") || wrong.op == std::string("ConvInteger")) node.add_input("y");
    if (wrong.op == std::string("Gemm")) node.add_input("y");
    if (wrong.list.size() == 1) {
      OnnxGraph::set(node, wrong.attribute, wrong.list[0]);
    } else {
      OnnxGraph::set(node, wrong.attribute, wrong.list);
    }
    g.output("z");
    const std::string message = refusal([&] { (void)g.read(); });
    EXPECT_THAT(message, HasSubstr(std::string("net.onnx: node \"n1\" (") + wrong.op + "): ")) << wrong.op;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(OnnxModel, RefusesNamesThatCouldNotBePrinted) {
  OnnxGraph g = small_linear();
  g.graph().mutable_node(1)->set_name("two\nlines");
  EXPECT_EQ(refusal([&] {
              (void)g.read({{"batch", 4}});
            }),
            "net.onnx: a name has a control character, 10, at its byte 3");
  g.graph().mutable_node(1)->set_name("\xff");
  EXPECT_EQ(refusal([&] {
              (void)g.read({{"batch", 4}});
            }),
            "net.onnx: a name is no UTF-8 from its byte 0 on");
}

TEST(OnnxModel, OfNewerOperatorSetsUsesItsOwnRulesOrTheFilesShapes) {
  OnnxGraph g(23);
  g.input("x", {4, 8});
  g.weight("gamma", {8});
  g.node("RMSNormalization", {"x", "gamma"}, {"y"});
  g.integers("axes", {1});
  g.node("ReduceMean", {"y", "axes"}, {"mean"});
  g.node("Unheard", {"mean"}, {"z"}, "late");
  g.output("z");
  EXPECT_EQ(refusal([&] { (void)g.read(); }),
            "net.onnx: node \"late\" (Unheard): operator set 23 is newer than 17, which is known, and the "
            "file has no "
            "shape of its result \"z\"");
  g.value("z", {4, 1});
  EXPECT_THAT(kinds_of(g.read().graph), ElementsAre("rms_norm", "reduce", "reshape", "opaque"));
}

TEST(OnnxModel, FindsNothingToRun) {
  OnnxGraph g;
  g.input("ids", {4}, onnx::TensorProto::INT64);
  g.node("Add", {"ids", "ids"}, {"y"}, "sum");
  g.output("y");
  EXPECT_EQ(refusal([&] { (void)g.read(); }),
            "net.onnx: there is nothing to run: result \"y\", of node \"sum\" (Add), is made of constants, "
            "or of integers "
            "that come in");
}

// Each layer the same: labels differ in their number alone, and plans change them together.
TEST(OnnxModel, LabelsLayersThatRepeat) {
  OnnxGraph g;
  g.input("x", {4, 8});
  std::string last = "x";
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string name = "layers." + layer + ".fc";
    g.weight(name + ".weight", {8, 8});
    g.node("MatMul", {last, name + ".weight"}, {name + ".y"}, "/layers." + layer + "/fc/MatMul");
    last = name + ".y";
  }
  g.output(last);
  const OperatorGraph graph = g.read().graph;
  ASSERT_EQ(graph.operators().size(), 3U);
  EXPECT_EQ(graph.operators()[2].name, "layers.2.fc");
  for (const Operator& op : graph.operators()) EXPECT_EQ(op.repeat, "layers#.fc");
}

}  // namespace
}  // namespace pipesim
