#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "models/onnx/reader/folding/constant.h"
#include "tests/models/onnx/onnx_graph.h"

// Which constants of a file are weights: that follows from the nodes that read them.

namespace pipesim {
namespace {

using Dims = std::vector<std::int64_t>;

enum class Stored { Initializers, Nodes, VectorsAsNodes, External };

onnx::TensorProto floats(const std::string& name, const Dims& dims, const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return tensor;
}

// Numbers that are no mask and no table.
std::vector<float> some(const Dims& dims) {
  std::vector<float> values(static_cast<std::size_t>(*onnx_elements(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1F + 0.01F * static_cast<float>(i % 7);
  return values;
}

class ConstantsGraph : public OnnxGraph {
 public:
  explicit ConstantsGraph(Stored stored) : stored_(stored) {}

  void constant(const std::string& name, const onnx::TensorProto& tensor) {
    auto* value = node("Constant", {}, {name}).add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    *value->mutable_t() = tensor;
  }
  // The ways in which a file stores its weights.
  std::string put(const std::string& name, const Dims& dims) { return put(name, dims, some(dims)); }
  std::string put(const std::string& name, const Dims& dims, const std::vector<float>& values) {
    onnx::TensorProto tensor = floats(name, dims, values);
    if (stored_ == Stored::External) {
      tensor.clear_raw_data();
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    }
    const bool vector = stored_ == Stored::VectorsAsNodes && dims.size() == 1;
    if (stored_ == Stored::Nodes || stored_ == Stored::External || vector) {
      constant(name, tensor);
    } else {
      *graph().add_initializer() = tensor;
    }
    return name;
  }
  std::string setting(const std::string& name, const std::vector<float>& values) {
    constant(name, floats(name, {static_cast<std::int64_t>(values.size())}, values));
    return name;
  }
  std::string then(const std::string& op, const std::vector<std::string>& inputs) {
    const std::string result = op + std::to_string(++made_);
    node(op, inputs, {result});
    return result;
  }

 private:
  Stored stored_;
  int made_ = 0;
};

std::map<std::string, int> kinds_counted(const OperatorGraph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators()) ++counts[op.kind];
  return counts;
}

std::vector<std::string> data_of(const OperatorGraph& graph) {
  std::vector<std::string> names;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Data) names.push_back(tensor.name);
  }
  return names;
}

// Two convolutions and a norm, with an image that grows between them.
ConstantsGraph image_graph(Stored stored) {
  ConstantsGraph g(stored);
  g.input("x", {8, 3, 32, 32});
  std::string y = g.then("Conv", {"x", g.put("w0", {16, 3, 3, 3}), g.put("b0", {16})});
  y = g.then("BatchNormalization",
             {y, g.put("scale", {16}), g.put("shift", {16}), g.put("mean", {16}), g.put("var", {16})});
  y = g.then("Resize", {y, g.setting("roi", {}), g.setting("scales", {1, 1, 2, 2})});
  g.node("Conv", {y, g.put("w1", {1, 16, 3, 3}), g.put("b1", {1})}, {"y"});
  g.output("y");
  return g;
}
constexpr std::int64_t kImageParameters = 16 * 3 * 9 + 16 + 2 * 16 + 16 * 9 + 1;

TEST(OnnxConstants, AreWeightsWhereTheyStandForThem) {
  for (const Stored stored :
       {Stored::Initializers, Stored::Nodes, Stored::VectorsAsNodes, Stored::External}) {
    const OnnxModel model = image_graph(stored).read();
    EXPECT_EQ(kinds_counted(model.graph),
              (std::map<std::string, int>{{"conv2d", 2}, {"batch_norm", 1}, {"resize", 1}}));
    EXPECT_EQ(model.graph.parameter_count(), kImageParameters);
    EXPECT_EQ(data_of(model.graph), std::vector<std::string>{"x"});
    EXPECT_TRUE(model.notes.empty());
  }
}

TEST(OnnxConstants, ThatNobodyReadsDecideNothing) {
  for (const std::int64_t rows : {4, 2048}) {
    ConstantsGraph g = image_graph(Stored::Nodes);
    g.weight("unused", {rows, 1024});
    const OnnxModel model = g.read();
    EXPECT_EQ(model.graph.parameter_count(), kImageParameters);
    EXPECT_EQ(kinds_counted(model.graph)["conv2d"], 2);
    EXPECT_EQ(model.notes, rows == 4 ? std::vector<std::string>{}
                                     : std::vector<std::string>{"left out: 1 initializer of 2097152 elements "
                                                                "that no node reads, first \"unused\""});
  }
}

// A norm that is written out, a product with a bias, and scores with a mask.
ConstantsGraph scores_graph(Stored stored, const std::vector<float>& mask, const std::vector<float>& table) {
  constexpr std::int64_t length = 16, width = 8;
  ConstantsGraph g(stored);
  g.input("x", {4, length, width});
  std::string start = "x";
  if (!table.empty()) start = g.then("Add", {start, g.put("table", {length, width}, table)});
  const auto mean = [&](const std::string& of) {
    const std::string result = of + ".mean";
    OnnxGraph::set(g.node("ReduceMean", {of}, {result}), "axes", Dims{-1});
    return result;
  };
  const std::string centred = g.then("Sub", {start, mean(start)});
  const std::string variance = mean(g.then("Mul", {centred, centred}));
  const std::string root = g.then("Sqrt", {g.then("Add", {variance, g.setting("epsilon", {1e-5F})})});
  std::string y = g.then("Mul", {g.then("Div", {centred, root}), g.put("gamma", {width})});
  y = g.then("Add", {y, g.put("beta", {width})});
  y = g.then("Add", {g.then("MatMul", {y, g.put("w", {width, length})}), g.put("bias", {length})});
  if (!mask.empty()) y = g.then("Add", {y, g.put("mask", {length, length}, mask)});
  g.node("Softmax", {y}, {"y"});
  g.output("y");
  return g;
}
constexpr std::int64_t kScoresParameters = 8 + 8 + 8 * 16 + 16;

TEST(OnnxConstants, AreBiasesAndFactorsOfNorms) {
  for (const Stored stored :
       {Stored::Initializers, Stored::Nodes, Stored::VectorsAsNodes, Stored::External}) {
    const OnnxModel model = scores_graph(stored, {}, {}).read();
    EXPECT_EQ(model.graph.parameter_count(), kScoresParameters);
    EXPECT_EQ(data_of(model.graph), std::vector<std::string>{"x"});
  }
}

TEST(OnnxConstants, AreNoWeightsAsMasksAndTablesOfPositions) {
  std::vector<float> mask(16UL * 16), window(16UL * 16), waves(16UL * 8), halves(16UL * 8), learned(16UL * 8);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = i % 16 > i / 16 ? -std::numeric_limits<float>::infinity() : 0;
    window[i] = i % 16 / 8 != i / 16 / 8 ? -100.0F : 0;
  }
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const auto position = static_cast<float>(i / 8);
    const std::size_t column = i % 8;
    const auto wave = [&](std::size_t pair, bool sine) {
      const float angle = position * std::pow(10000.0F, -static_cast<float>(pair) / 4.0F);
      return sine ? std::sin(angle) : std::cos(angle);
    };
    waves[i] = wave(column / 2, column % 2 == 0);
    halves[i] = wave(column % 4, column < 4);
    learned[i] = 0.02F * static_cast<float>(i % 11) - 0.1F;
  }
  for (const Stored stored : {Stored::Initializers, Stored::Nodes}) {
    const auto parameters = [&](const std::vector<float>& scores, const std::vector<float>& table) {
      return scores_graph(stored, scores, table).read().graph.parameter_count();
    };
    EXPECT_EQ(parameters(mask, {}), kScoresParameters);
    EXPECT_EQ(parameters(window, {}), kScoresParameters);
    EXPECT_EQ(parameters({}, waves), kScoresParameters);
    EXPECT_EQ(parameters({}, halves), kScoresParameters);
    EXPECT_EQ(parameters({}, learned), kScoresParameters + 16 * 8);
  }
}

TEST(OnnxConstants, AreWeightsBehindNodesThatMoveThem) {
  for (const Stored stored : {Stored::Initializers, Stored::Nodes}) {
    ConstantsGraph g(stored);
    g.input("x", {2, 3, 8, 8});
    g.integers("kernel", {8, 3, 3, 3});
    const std::string kernel = g.then("Reshape", {g.then("Identity", {g.put("w", {8 * 3 * 9})}), "kernel"});
    g.node("Conv", {"x", kernel, g.then("Identity", {g.put("b", {8})})}, {"y"});
    g.output("y");
    const OperatorGraph graph = g.read().graph;
    EXPECT_EQ(kinds_counted(graph), (std::map<std::string, int>{{"conv2d", 1}}));
    EXPECT_EQ(graph.parameter_count(), 8 * 3 * 9 + 8);
  }
}

TEST(OnnxConstants, AreOneWeightForAllThatReadThem) {
  for (const Stored stored : {Stored::Initializers, Stored::Nodes}) {
    ConstantsGraph g(stored);
    g.input("ids", {2, 5}, onnx::TensorProto::INT64);
    const std::string rows = g.then("Gather", {g.put("table", {100, 16}), "ids"});
    g.node("MatMul", {rows, g.then("Transpose", {"table"})}, {"y"});
    g.output("y");
    const OperatorGraph graph = g.read().graph;
    EXPECT_EQ(kinds_counted(graph), (std::map<std::string, int>{{"embedding", 1}, {"linear", 1}}));
    EXPECT_EQ(graph.parameter_count(), 1600);
  }
}

// The bias of four channels is the scales of an image as well; the bias of one channel is a factor, too.
TEST(OnnxConstants, MayBeWeightsAndSettingsAtOnce) {
  for (const Stored stored : {Stored::Initializers, Stored::Nodes}) {
    ConstantsGraph g(stored);
    g.input("x", {4, 4, 8, 8});
    std::string y = g.then("Conv", {"x", g.put("w", {4, 4, 1, 1}), g.put("scales", {4}, {1, 1, 2, 2})});
    y = g.then("Resize", {y, "", "scales"});
    y = g.then("Conv", {y, g.put("w1", {1, 4, 1, 1}), g.put("b1", {1}, {0.5F})});
    g.node("Mul", {y, "b1"}, {"y"});
    g.output("y");
    const OperatorGraph graph = g.read().graph;
    EXPECT_EQ(kinds_counted(graph)["conv2d"], 2);
    EXPECT_EQ(kinds_counted(graph)["resize"], 1);
    EXPECT_EQ(graph.parameter_count(), 16 + 4 + 4 + 1);
  }
}

TEST(OnnxConstants, BesidePositionsAreFrequencies) {
  ConstantsGraph g(Stored::Nodes);
  g.input("x", {4, 16, 8});
  g.input("positions", {4, 16, 1}, onnx::TensorProto::INT64);
  OnnxGraph::set(g.node("Cast", {"positions"}, {"p"}), "to", std::int64_t{onnx::TensorProto::FLOAT});
  const std::string waves = g.then("Cos", {g.then("Mul", {"p", g.put("frequencies", {8})})});
  g.node("Mul", {g.then("MatMul", {"x", g.put("w", {8, 8})}), waves}, {"y"});
  g.output("y");
  const OperatorGraph graph = g.read().graph;
  EXPECT_EQ(graph.parameter_count(), 64);
  EXPECT_EQ(data_of(graph).size(), 2U);
}

TEST(OnnxConstants, AreWeightsBehindTablesAndBranches) {
  for (const Stored stored : {Stored::Initializers, Stored::Nodes}) {
    ConstantsGraph g(stored);
    g.input("ids", {2, 5}, onnx::TensorProto::INT64);
    const std::string rows = g.then("Gather", {g.put("table", {100, 16}), "ids"});
    const std::string scaled = g.then("Mul", {rows, g.put("factor", {16})});
    auto* condition = g.graph().add_initializer();
    condition->set_name("condition");
    condition->set_data_type(onnx::TensorProto::BOOL);
    condition->add_int32_data(1);
    onnx::NodeProto& choice = g.node("If", {"condition"}, {"chosen"});
    for (const char* name : {"then_branch", "else_branch"}) {
      auto* branch = choice.add_attribute();
      branch->set_name(name);
      branch->set_type(onnx::AttributeProto::GRAPH);
      const std::string weight = std::string(name) + ".w", result = std::string(name) + ".y";
      *branch->mutable_g()->add_initializer() = floats(weight, {16, 16}, some({16, 16}));
      OnnxGraph::add_node(*branch->mutable_g(), "MatMul", {scaled, weight}, {result});
      branch->mutable_g()->add_output()->set_name(result);
    }
    g.node("MatMul", {"chosen", g.put("w", {16, 4})}, {"y"});
    g.output("y");
    const OperatorGraph graph = g.read().graph;
    EXPECT_EQ(graph.parameter_count(), 1600 + 16 + 16 * 16 + 16 * 4);
    EXPECT_EQ(kinds_counted(graph)["linear"], 2);
  }
}

TEST(OnnxConstants, OfTheWeightsTypeIsTheModel) {
  ConstantsGraph g(Stored::Nodes);
  g.input("x", {4, 8}, onnx::TensorProto::BFLOAT16);
  onnx::TensorProto weight;
  weight.set_data_type(onnx::TensorProto::BFLOAT16);
  for (const int dim : {8, 8}) weight.add_dims(dim);
  weight.set_raw_data(std::string(8UL * 8 * 2, '\1'));
  g.constant("w", weight);
  *g.graph().add_initializer() = floats("unused", {32, 32}, some({32, 32}));
  g.node("MatMul", {"x", "w"}, {"y"});
  g.output("y");
  const OperatorGraph graph = g.read().graph;
  EXPECT_EQ(graph.parameter_count(), 64);
  for (const Tensor& tensor : graph.tensors()) EXPECT_EQ(tensor.type, DataType::BFloat16) << tensor.name;
}

}  // namespace
}  // namespace pipesim
