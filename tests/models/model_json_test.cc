#include "models/model_json.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

/// A model file with these inputs and operators.
std::string file(const std::string& inputs, const std::string& operators, const std::string& more = "") {
  return R"({"pipesim_model": 1, "name": "m", "batch": 64, )" + more + R"("inputs": [)" + inputs +
         R"(], "operators": [)" + operators + "]}";
}

std::string refused_model(const std::string& text) {
  return refusal([&] { parse_model(text, "m.json"); });
}

const std::string x = R"({"name": "x", "shape": [64, 10]})";

TEST(ModelJson, ReadsOperatorsInAnyOrder) {
  const OperatorGraph graph =
      parse_model(file(x + R"(, {"name": "labels", "shape": [64], "dtype": "int64"})",
                       R"({"name": "loss", "kind": "cross_entropy", "inputs": ["fc2", "labels"]},
              {"name": "fc2", "kind": "linear", "inputs": ["fc1"], "out": [5], "bias": false},
              {"name": "fc1", "kind": "linear", "inputs": ["x"], "out": 8, "activation": "relu"})",
                       R"("dtype": "bfloat16", )"),
                  "m.json");
  EXPECT_EQ(graph.name(), "m");
  EXPECT_EQ(graph.batch(), 64);
  EXPECT_EQ(graph.operators()[0].name, "fc1");
  EXPECT_EQ(graph.operators()[2].name, "loss");
  EXPECT_EQ(graph.parameter_count(), 80 + 8 + 40);
  EXPECT_EQ(graph.tensors()[0].type, DataType::BFloat16);
  EXPECT_EQ(graph.tensors()[1].type, DataType::Int64);
}

TEST(ModelJson, WritesAFileForPeople) {
  GraphBuilder builder("m", 4);
  const TensorId in = builder.data("x", {4, 10}), h = builder.data("h", {4, 8});
  const auto state = builder.add_all("lstm_cell", "step", {in, h, h}, {{"hidden", 8}}, {"wx"});
  builder.begin_repeat("layer", 0);
  const TensorId y =
      builder.add("linear", "fc", {state[0]}, {{"out", 5}, {"bias", 0}, {"activation", "gelu"}});
  builder.end_repeat();
  builder.add("cross_entropy", "loss", {y, builder.data("labels", {4}, DataType::Int64)});
  EXPECT_EQ(to_json(builder.build()), R"({
  "pipesim_model": 1,
  "name": "m",
  "batch": 4,
  "dtype": "float32",
  "inputs": [
    {"name":"x","shape":[4,10]},
    {"name":"h","shape":[4,8]},
    {"name":"labels","shape":[4],"dtype":"int64","before":"loss"}
  ],
  "operators": [
    {"name":"step","kind":"lstm_cell","inputs":["x","h","h"],"weights":["wx","step.wh","step.b"],"hidden":8},
    {"name":"layer0.fc","kind":"linear","inputs":["step.h"],"repeat":"layer#.fc","out":[5],"bias":false,"activation":"gelu"},
    {"name":"loss","kind":"cross_entropy","inputs":["layer0.fc","labels"]}
  ]
}
)");
}

TEST(ModelJson, RoundTripsEveryKind) {
  const OperatorGraph empty = GraphBuilder("nothing", 3).build();
  EXPECT_EQ(parse_model(to_json(empty), "m.json"), empty);
  Bench t(4, DataType::Float16);
  const TensorId in = t.x({4, 8, 9, 7});
  t.op("conv2d", {in}, {{"out", 4}, {"kernel", 3}, {"groups", 2}, {"activation", "silu"}});
  t.op("batch_norm", {t.builder.find("op0")}, {{"statistics", "local"}});
  t.op("split", {in}, {{"axis", 1}, {"sizes", Sizes{3, 5}}});
  t.op("dropout", {t.builder.find("op2.1")}, {{"rate", 0.1}});
  t.op("profiled", {in, t.x({4, 2})}, {{"forward_ms", 1.0 / 3}, {"backward_ms", 3}, {"parameter_bytes", 10}});
  t.op("embedding", {t.words({4})}, {{"rows", 11}, {"width", 6}});
  t.op("linear", {t.builder.find("op5")}, {{"out", 11}, {"transpose_weight", 1}});
  t.builder.add_operator({"relu", "named", {t.builder.find("op6")}, {}, {}, {"result"}, "again"});
  t.builder.add("tanh", "after", {t.builder.find("result")});
  t.builder.data("unused", {3});
  const OperatorGraph graph = t.builder.build();
  const OperatorGraph again = parse_model(to_json(graph), "m.json");
  EXPECT_EQ(again, graph);
  EXPECT_EQ(again.fingerprint(), graph.fingerprint());
  EXPECT_EQ(to_json(again), to_json(graph));
}

TEST(ModelJson, RoundTripsFrozenWeights) {
  GraphBuilder b("m", 4);
  const TensorId input = b.data("x", {4, 6});
  const TensorId y = b.add_operator(
      {"linear", "fixed", {input}, {{"out", std::vector<std::int64_t>{6}}}, {}, {}, "", true})[0];
  b.add("linear", "trained", {y}, {{"out", std::int64_t{6}}});
  const OperatorGraph graph = b.build();
  const std::string text = to_json(graph);
  EXPECT_THAT(
      text, testing::HasSubstr("\"name\":\"fixed\",\"kind\":\"linear\",\"inputs\":[\"x\"],\"frozen\":true"));
  EXPECT_EQ(parse_model(text, "m.json"), graph);
  std::string trained = text;
  trained.erase(trained.find(",\"frozen\":true"), 14);
  EXPECT_NE(parse_model(trained, "m.json").fingerprint(), graph.fingerprint());
}

TEST(ModelJson, RefusesWhatIsNotAModel) {
  EXPECT_EQ(refused_model("[]"), "m.json: /: found an array, an object is needed");
  EXPECT_EQ(refused_model("{}"), "m.json: /: \"pipesim_model\" is missing");
  EXPECT_EQ(refused_model(R"({"pipesim_model": 2})"),
            "m.json: /pipesim_model: found 2, an integer from 1 to 1 is needed");
  EXPECT_EQ(refused_model(file(x, "", R"("dtyp": "float32", )")),
            "m.json: /dtyp: unknown key \"dtyp\" (did you mean \"dtype\"?); allowed: pipesim_model, name, "
            "sizes, batch, dtype, fuse, inputs, operators");
  EXPECT_EQ(refused_model(file(x, "", R"("dtype": "int64", )")),
            "m.json: /dtype: found int64, a floating-point type is needed");
}

TEST(ModelJson, RefusesBadInputs) {
  EXPECT_EQ(refused_model(file(R"({"name": "x", "shape": [64, -1]})", "")),
            "m.json: /inputs/0/shape/1: found -1, an integer from 1 to 2147483647 is needed");
  EXPECT_EQ(refused_model(file(R"({"name": "x", "shape": [64, 0]})", "")),
            "m.json: /inputs/0/shape/1: found 0, an integer from 1 to 2147483647 is needed");
  EXPECT_EQ(refused_model(file(R"({"name": "x", "shape": [2147483647, 2147483647]})", "")),
            "m.json: /inputs/0: tensor \"x\" has shape [2147483647, 2147483647], allowed: 1125899906842624 "
            "elements in "
            "all tensors together");
  EXPECT_EQ(refused_model(file(R"({"name": "x", "shape": "64"})", "")),
            "m.json: /inputs/0/shape: found a string, an array is needed");
  EXPECT_EQ(refused_model(file(x + "," + x, "")), "m.json: /inputs/1/name: a second input named \"x\"");
  EXPECT_EQ(refused_model(file(R"({"name": "x", "shape": [4], "before": "los"})",
                               R"({"name": "loss", "kind": "relu", "inputs": ["x"]})")),
            "m.json: /inputs/0/before: unknown operator \"los\" (did you mean \"loss\"?)");
}

TEST(ModelJson, RefusesBadOperators) {
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "inputs": ["x"]})")),
            "m.json: /operators/0: \"kind\" is missing");
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "kind": "rellu", "inputs": ["x"]})")).substr(0, 79),
            "m.json: /operators/0/kind: unknown operator kind \"rellu\" (did you mean \"relu\"?)");
  EXPECT_EQ(
      refused_model(file(x, R"({"name": "a", "kind": "linear", "inputs": ["x"], "Out": 5})")),
      "m.json: /operators/0/Out: unknown key \"Out\" (did you mean \"out\"?); allowed: name, kind, inputs, "
      "outputs, weights, repeat, frozen, out, contract, bias, activation, transpose_weight, router, "
      "router_groups, "
      "uneven, narrow, keep_input, stored, products, cast_input, … (21 in all)");
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "kind": "linear", "inputs": ["x"], "out": "5"})")),
            "m.json: /operators/0/out: found \"5\", a number is written without quotes");
  EXPECT_EQ(
      refused_model(
          file(x, R"({"name": "a", "kind": "linear", "inputs": ["x"], "out": 5, "activation": "rely"})")),
      "m.json: /operators/0/activation: found \"rely\" (did you mean \"relu\"?), allowed: none, relu, gelu, "
      "silu, tanh, sigmoid, relu2");
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "kind": "linear", "inputs": ["x"]})")),
            "m.json: /operators/0: operator \"a\" (linear): attribute \"out\" is missing (output dims, e.g. "
            "[4096] or "
            "[heads, head_dim])");
  EXPECT_EQ(
      refused_model(file(
          x,
          R"({"name": "a", "kind": "relu", "inputs": ["x"]}, {"name": "a", "kind": "relu", "inputs": ["x"]})")),
      "m.json: /operators/1: operator \"a\" (relu): an operator of that name exists already");
  EXPECT_EQ(
      refused_model(file(x, R"({"name": "a", "kind": "conv2d", "inputs": ["x"], "out": 5, "kernel": 3})")),
      "m.json: /operators/0: operator \"a\" (conv2d): input 0 has shape [64, 10], allowed: [n, c, h, w]");
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "kind": "relu", "inputs": ["x"], "outputs": ["x"]})")),
            "m.json: /operators/0: tensor \"x\" exists already");
}

TEST(ModelJson, RefusesInputsOfNoOperator) {
  const std::string fc = R"({"name": "fc1", "kind": "linear", "inputs": ["x"], "out": 5})";
  EXPECT_EQ(refused_model(file(x, fc + R"(, {"name": "a", "kind": "relu", "inputs": ["fc"]})")),
            "m.json: /operators/1/inputs/0: unknown tensor \"fc\" (did you mean \"fc1\"?)");
  EXPECT_EQ(refused_model(file(x, fc + R"(, {"name": "a", "kind": "relu", "inputs": ["fc1.w"]})")),
            "m.json: /operators/1: operator \"a\" (relu): input 0 is the weight \"fc1.w\", allowed: inputs "
            "of the model "
            "and results of operators");
}

TEST(ModelJson, PrintsCycles) {
  EXPECT_EQ(refused_model(file(x, R"({"name": "a", "kind": "add", "inputs": ["x", "c"]},
                               {"name": "b", "kind": "relu", "inputs": ["a"]},
                               {"name": "c", "kind": "relu", "inputs": ["b"]})")),
            "m.json: /operators: operators form a cycle: a -> b -> c -> a");
}

}  // namespace
}  // namespace pipesim
