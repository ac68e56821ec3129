#include "models/onnx/onnx_writer.h"

#include <gmock/gmock.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <map>
#include <set>
#include <sstream>

#include "models/graph_builder.h"
#include "models/onnx/onnx_model.h"
#include "models/operator_kind.h"
#include "models/zoo/zoo.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

onnx::ModelProto onnx_of(const OperatorGraph& graph) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(to_onnx(graph)));
  return model;
}

int type_in_onnx(DataType type) {
  static const std::map<DataType, int> types = {
      {DataType::Float32, onnx::TensorProto::FLOAT},   {DataType::TensorFloat32, onnx::TensorProto::FLOAT},
      {DataType::Float16, onnx::TensorProto::FLOAT16}, {DataType::BFloat16, onnx::TensorProto::BFLOAT16},
      {DataType::Float64, onnx::TensorProto::DOUBLE},  {DataType::Int64, onnx::TensorProto::INT64},
      {DataType::Int32, onnx::TensorProto::INT32},     {DataType::UInt8, onnx::TensorProto::UINT8}};
  return types.at(type);
}

std::string text_of(int type, const std::vector<std::int64_t>& shape) {
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type)) + " " +
         to_text(shape);
}

std::string text_of(const onnx::ValueInfoProto& info) {
  std::vector<std::int64_t> shape;
  for (const auto& dim : info.type().tensor_type().shape().dim())
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  return text_of(info.type().tensor_type().elem_type(), shape);
}

std::string text_of(const Tensor& tensor) { return text_of(type_in_onnx(tensor.type), tensor.shape); }

/// Weights become inputs, as their data is in a file that does not exist.
void drop_weights(onnx::ModelProto& model) {
  auto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> constants;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) {
      *constants.Add() = tensor;
      continue;
    }
    onnx::ValueInfoProto& input = *graph.add_input();
    input.set_name(tensor.name());
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    type.mutable_shape();
    for (const std::int64_t extent : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(extent);
  }
  graph.mutable_initializer()->Swap(&constants);
}

/// Leaves shapes of those values that nodes of pipesim's domain make.
void drop_shapes(onnx::ModelProto& model) {
  std::set<std::string> own;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!node.domain().empty()) own.insert(node.output().begin(), node.output().end());
  }
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
  for (const onnx::ValueInfoProto& info : model.graph().value_info()) {
    if (own.contains(info.name())) *kept.Add() = info;
  }
  model.mutable_graph()->mutable_value_info()->Swap(&kept);
  for (onnx::ValueInfoProto& output : *model.mutable_graph()->mutable_output()) {
    if (!own.contains(output.name())) output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
}

/// What ONNX's own shape inference finds for values of another type or shape than the graph's.
std::vector<std::string> inference_differences(const OperatorGraph& graph, onnx::ModelProto model) {
  drop_weights(model);
  drop_shapes(model);
  constexpr bool check_type = true, data_propagation = true;
  constexpr int strict = 1;
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions{check_type, strict, data_propagation});
  } catch (const std::exception& error) {
    return {error.what()};
  }
  std::map<std::string, std::string> found;
  for (const auto* list : {&model.graph().input(), &model.graph().value_info(), &model.graph().output()}) {
    for (const onnx::ValueInfoProto& info : *list) found[info.name()] = text_of(info);
  }
  std::vector<std::string> differences;
  for (const Tensor& tensor : graph.tensors()) {
    const std::string inferred = found.contains(tensor.name) ? found.at(tensor.name) : "nothing";
    if (inferred != text_of(tensor))
      differences.push_back(tensor.name + ": " + inferred + ", not " + text_of(tensor));
  }
  return differences;
}

std::string checker_complaint(onnx::ModelProto model) {
  drop_weights(model);
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::int64_t weight_elements(const onnx::ModelProto& model) {
  std::int64_t sum = 0;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.dims()) elements *= extent;
    sum += elements;
  }
  return sum;
}

std::int64_t parameters_and_states(const OperatorGraph& graph) {
  std::int64_t sum = graph.parameter_count();
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::State) sum += tensor.elements();
  }
  return sum;
}

void expect_sound(const OperatorGraph& graph) {
  const onnx::ModelProto model = onnx_of(graph);
  EXPECT_EQ(checker_complaint(model), "") << graph.name();
  EXPECT_THAT(inference_differences(graph, model), IsEmpty()) << graph.name();
  EXPECT_EQ(weight_elements(model), parameters_and_states(graph)) << graph.name();
  std::set<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node())
    EXPECT_TRUE(names.insert(node.name()).second) << graph.name() << ": two nodes " << node.name();
  for (const Operator& op : graph.operators()) EXPECT_TRUE(names.contains(op.name)) << op.name;
}

SLOW_TEST(OnnxWriter, OnnxAcceptsTheZooAndInfersTheSameShapes) {
  for (const ZooModel& model : zoo_models()) expect_sound(make_zoo_model(model.name));
}

// Scales, masks and rotations come back as operators of their own, which adds next to nothing.
SLOW_TEST(OnnxWriter, TheZooIsReadBackWithItsWeightsAndWork) {
  for (const ZooModel& model : zoo_models()) {
    SCOPED_TRACE(model.name);
    const OperatorGraph graph = make_zoo_model(model.name);
    const std::string file = to_onnx(graph);
    std::istringstream in(file);
    const OnnxModel read = read_onnx_model(in, static_cast<std::int64_t>(file.size()), model.name);
    EXPECT_EQ(read.graph.batch(), graph.batch());
    EXPECT_EQ(read.graph.parameter_count(), graph.parameter_count());
    EXPECT_THAT(read.notes, IsEmpty());
    EXPECT_NEAR(read.graph.forward_flops().value / graph.forward_flops().value, 1, 0.002);
  }
}

OperatorGraph example_in(DataType type, const OperatorKind& kind) {
  GraphBuilder builder(kind.name, 64, type);
  std::vector<TensorId> inputs;
  for (const OperatorExample::Input& input : kind.example.inputs)
    inputs.push_back(
        builder.data(input.name, input.shape, input.type == DataType::Float32 ? type : input.type));
  builder.add_all(kind.name, "operator", inputs, kind.example.attributes);
  return builder.build();
}

// Its inference knows no lengths behind Einsum.
TEST(OnnxWriter, OnnxAcceptsEveryKind) {
  for (const DataType type : {DataType::Float32, DataType::BFloat16}) {
    for (const OperatorKind& kind : operator_kinds()) {
      const OperatorGraph graph = example_in(type, kind);
      if (kind.name == "einsum") {
        EXPECT_EQ(checker_complaint(onnx_of(graph)), "");
      } else {
        expect_sound(graph);
      }
    }
  }
}

// "y = Add(x, b)" for each node.
std::vector<std::string> written_nodes(const OperatorGraph& graph) {
  std::vector<std::string> lines;
  const onnx::ModelProto model = onnx_of(graph);
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::string line;
    for (const std::string& output : node.output()) line += (line.empty() ? "" : ", ") + output;
    line += " = " + (node.domain().empty() ? "" : node.domain() + ".") + node.op_type() + "(";
    for (int i = 0; i < node.input_size(); ++i) line += (i == 0 ? "" : ", ") + node.input(i);
    lines.push_back(line + ")");
  }
  return lines;
}

// Heads as two dims of the result, an activation, and the table of words again as what predicts them.
TEST(OnnxWriter, WritesProductsAndWhatIsBehindThem) {
  GraphBuilder builder("words", 4);
  const TensorId words = builder.data("words", {4, 6}, DataType::Int64);
  const TensorId labels = builder.data("labels", {4, 6}, DataType::Int64);
  TensorId value = builder.add("embedding", "table", {words}, {{"rows", 10}, {"width", 8}});
  value = builder.add("linear", "up", {value},
                      {{"out", std::vector<std::int64_t>{2, 3}}, {"activation", "silu"}});
  value = builder.add("linear", "down", {value}, {{"out", 8}, {"contract", 2}, {"bias", 0}});
  value = builder.add("linear", "logits", {value}, {{"out", 10}, {"bias", 0}, {"transpose_weight", 1}},
                      {"table.w"});
  builder.add("cross_entropy", "loss", {value, labels});
  EXPECT_THAT(written_nodes(builder.build()),
              ElementsAre("table = Gather(table.w, words)",                            //
                          "up/Reshape = Reshape(up.w, constant/[8, 6])",               //
                          "up/MatMul = MatMul(table, up/Reshape)",                     //
                          "up/Reshape_1 = Reshape(up/MatMul, constant/[4, 6, 2, 3])",  //
                          "up/Add = Add(up/Reshape_1, up.b)",                          //
                          "up/Sigmoid = Sigmoid(up/Add)",                              //
                          "up = Mul(up/Add, up/Sigmoid)",                              //
                          "down/Reshape = Reshape(up, constant/[4, 6, 6])",            //
                          "down/Reshape_1 = Reshape(down.w, constant/[6, 8])",         //
                          "down = MatMul(down/Reshape, down/Reshape_1)",               //
                          "logits/Transpose = Transpose(table.w)",                     //
                          "logits = MatMul(down, logits/Transpose)",                   //
                          "loss/Transpose = Transpose(logits)",                        //
                          "loss = SoftmaxCrossEntropyLoss(loss/Transpose, labels)"));
}

TEST(OnnxWriter, WritesImages) {
  GraphBuilder builder("image", 2);
  TensorId value = builder.data("image", {2, 3, 9, 9});
  value = builder.add("conv2d", "conv", {value}, {{"out", 8}, {"kernel", 3}, {"pad", 1}, {"bias", 0}});
  value = builder.add("batch_norm", "norm", {value}, {{"activation", "relu"}});
  value = builder.add("group_norm", "groups", {value}, {{"groups", 2}});
  value = builder.add("pool2d", "pool", {value}, {{"kernel", 2}, {"ceil", 1}});
  builder.add("adaptive_pool", "mean", {value}, {{"out", 1}});
  EXPECT_THAT(
      written_nodes(builder.build()),
      ElementsAre("conv = Conv(image, conv.w)",
                  "norm/BatchNormalization = BatchNormalization(conv, norm.gamma, norm.beta, "
                  "norm.running_mean, norm.running_var)",
                  "norm = Relu(norm/BatchNormalization)",                                    //
                  "groups/Reshape = Reshape(norm, constant/[2, 2, 324])",                    //
                  "shared/float32 1 [2]/Expand = Expand(constant/float32 1, constant/[2])",  //
                  "shared/float32 0 [2]/Expand = Expand(constant/float32 0, constant/[2])",
                  "groups/InstanceNormalization = InstanceNormalization(groups/Reshape, shared/float32 1 "
                  "[2]/Expand, shared/float32 0 [2]/Expand)",
                  "groups/Reshape_1 = Reshape(groups/InstanceNormalization, constant/[2, 8, 9, 9])",
                  "groups/Unsqueeze = Unsqueeze(groups.gamma, constant/[1, 2])",
                  "groups/Mul = Mul(groups/Reshape_1, groups/Unsqueeze)",
                  "groups/Unsqueeze_1 = Unsqueeze(groups.beta, constant/[1, 2])",
                  "groups = Add(groups/Mul, groups/Unsqueeze_1)",  //
                  "pool = MaxPool(groups)",                        //
                  "mean = GlobalAveragePool(pool)"));
}

// Two layers share a mask; keys are those of two heads each.
TEST(OnnxWriter, WritesAttentionOfGroupedHeads) {
  GraphBuilder builder("attention", 2);
  const TensorId q = builder.data("q", {2, 6, 2, 2, 4}), k = builder.data("k", {2, 6, 2, 4}),
                 v = builder.data("v", {2, 6, 2, 4});
  const TensorId first = builder.add("attention", "a", {q, k, v}, {{"causal", 1}});
  builder.add("attention", "b", {first, k, v}, {{"causal", 1}});
  const auto nodes = written_nodes(builder.build());
  ASSERT_EQ(nodes.size(), 36);
  EXPECT_THAT(
      std::vector(nodes.begin(), nodes.begin() + 18),
      ElementsAre("a/Reshape = Reshape(q, constant/[2, 6, 4, 4])", "a/Transpose = Transpose(a/Reshape)",
                  "a/Unsqueeze = Unsqueeze(k, constant/[3])",
                  "a/Expand = Expand(a/Unsqueeze, constant/[2, 6, 2, 2, 4])",
                  "a/Reshape_1 = Reshape(a/Expand, constant/[2, 6, 4, 4])",
                  "a/Transpose_1 = Transpose(a/Reshape_1)", "a/Unsqueeze_1 = Unsqueeze(v, constant/[3])",
                  "a/Expand_1 = Expand(a/Unsqueeze_1, constant/[2, 6, 2, 2, 4])",
                  "a/Reshape_2 = Reshape(a/Expand_1, constant/[2, 6, 4, 4])",
                  "a/Transpose_2 = Transpose(a/Reshape_2)",  //
                  "a/MatMul = MatMul(a/Transpose, a/Transpose_1)",
                  "a/Mul = Mul(a/MatMul, constant/float32 0.5)",
                  "shared/float32 -inf [6, 6]/Expand = Expand(constant/float32 -inf, constant/[6, 6])",
                  "shared/causal mask float32 6/Trilu = Trilu(shared/float32 -inf [6, "
                  "6]/Expand, constant/int64 1)",
                  "a/Add = Add(a/Mul, shared/causal mask float32 6/Trilu)",
                  "a/Softmax = Softmax(a/Add)",                     //
                  "a/MatMul_1 = MatMul(a/Softmax, a/Transpose_2)",  //
                  "a/Transpose_3 = Transpose(a/MatMul_1)"));
  EXPECT_EQ(nodes[18], "a = Reshape(a/Transpose_3, constant/[2, 6, 2, 2, 4])");
  EXPECT_EQ(nodes.back(), "b = Reshape(b/Transpose_3, constant/[2, 6, 2, 2, 4])");
}

// What kinds may do beside their examples.
TEST(OnnxWriter, OnnxAcceptsOtherAttributes) {
  for (const DataType type : {DataType::Float16, DataType::BFloat16, DataType::Float64}) {
    GraphBuilder builder("variants", 2, type);
    const TensorId q = builder.data("q", {2, 8, 3, 2, 4}), k = builder.data("k", {2, 8, 3, 4}),
                   v = builder.data("v", {2, 8, 3, 6});
    builder.add("attention", "documents", {q, k, v}, {{"causal", 1}, {"document_length", 3}});
    builder.add("attention", "zigzag", {q, k, v}, {{"causal", 1}, {"zigzag", 2}});
    builder.add("attention", "window", {q, k, v}, {{"causal", 1}, {"window", 3}, {"cap", 30.0}});
    builder.add("relative_attention", "sinks", {q, k, v}, {{"buckets", 8}, {"farthest", 6}, {"sinks", 1}});
    builder.add("alibi_attention", "alibi", {q, k, v}, {{"causal", 1}, {"zigzag", 2}});
    builder.add("relative_attention", "both_sides", {q, k, v}, {{"buckets", 8}, {"farthest", 6}});
    builder.add("scored_attention", "scored", {q, k, v},
                {{"causal", 1}, {"dropout", 0.25}, {"buckets", 4}, {"farthest", 6}});
    builder.add("biased_attention", "groups", {q, k, v, builder.data("by_group", {3, 1, 8, 8})});
    builder.add("biased_attention", "rows", {q, k, v, builder.data("by_row", {2, 1, 1, 1, 8})});
    builder.add("biased_attention", "members", {q, k, v, builder.data("by_member", {2, 1, 2, 8, 1})});
    builder.add("rotary", "turned", {q}, {{"zigzag", 2}});
    builder.add("rotary", "partly", {q}, {{"width", 2}});
    builder.add("layer_norm", "plain", {q}, {{"affine", 0}});
    builder.add("gelu", "gelu", {q});
    builder.add("relu2", "relu2", {q});
    builder.add("rms_norm", "in_groups", {q}, {{"groups", 2}});
    builder.add("rms_norm", "unscaled", {q}, {{"affine", 0}});
    builder.add("expert_linear", "biased_experts", {q}, {{"out", 5}, {"bias", 1}});
    for (const char* gate : {"gelu", "relu2", "sigmoid"})
      builder.add("swiglu", std::string("gated_by_") + gate, {q, q}, {{"activation", gate}});
    builder.add("reduce", "largest", {q}, {{"axes", std::vector<std::int64_t>{1, 3}}, {"mode", "max"}});
    builder.add("roll", "rolled", {q}, {{"axis", 1}, {"shift", 11}});
    builder.add("roll", "still", {q}, {{"axis", 1}, {"shift", 8}});
    builder.add("affine", "same", {q});
    builder.add("slice", "steps", {q}, {{"axis", 1}, {"start", 1}, {"length", 3}, {"step", 3}});
    builder.add("squared_error", "error", {k, k});
    expect_sound(builder.build());
  }
}

TEST(OnnxWriter, OnnxAcceptsOtherWindows) {
  using Sides = std::vector<std::int64_t>;
  GraphBuilder builder("windows", 2);
  const TensorId value = builder.data("x", {2, 4, 13, 10});
  builder.add("pool2d", "mean", {value}, {{"mode", "avg"}, {"kernel", 3}, {"stride", 2}, {"ceil", 1}});
  // The window that ONNX would add begins behind the image.
  builder.add("pool2d", "clipped", {value}, {{"kernel", 2}, {"stride", 3}, {"pad", 1}, {"ceil", 1}});
  builder.add("pool2d", "uneven", {value}, {{"kernel", 3}, {"pad", Sides{1, 0}}, {"pad_end", Sides{2, 1}}});
  builder.add("conv2d", "conv", {value},
              {{"out", 6},
               {"kernel", Sides{3, 2}},
               {"stride", 2},
               {"dilation", 2},
               {"groups", 2},
               {"pad", Sides{2, 0}},
               {"activation", "relu"}});
  builder.add("conv_transpose2d", "spread", {value},
              {{"out", 6}, {"kernel", 3}, {"stride", 2}, {"groups", 2}, {"pad", 1}, {"output_pad", 1}});
  builder.add("adaptive_pool", "fifths", {value}, {{"out", Sides{5, 3}}, {"mode", "max"}});
  builder.add("adaptive_pool", "halves", {value}, {{"out", Sides{13, 5}}});
  builder.add("adaptive_pool", "columns", {value}, {{"out", Sides{1, 3}}});
  builder.add("group_norm", "each", {value}, {{"groups", 4}, {"affine", 0}});
  for (const char* mode : {"nearest", "linear", "cubic"})
    builder.add("resize", mode, {value}, {{"out", Sides{7, 20}}, {"mode", mode}});
  for (const char* mode : {"reflect", "edge"})
    builder.add("pad", mode, {value},
                {{"before", Sides{0, 0, 1, 2}}, {"after", Sides{0, 0, 2, 0}}, {"mode", mode}});
  expect_sound(builder.build());
}

}  // namespace
}  // namespace pipesim
