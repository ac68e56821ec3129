#include "models/graph_builder.h"

#include <gmock/gmock.h>

#include "sim/base/errors.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

/// The message of the InputError that adding such an operator to a graph of batch 64 throws.
std::string refused_operator(const std::string& kind, const std::vector<Sizes>& shapes,
                             const Attributes& attributes = {}, DataType type = DataType::Float32) {
  GraphBuilder builder("m", 64);
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(builder.data(fmt::format("x{}", i), shapes[i], type));
  }
  return refusal([&] { builder.add_all(kind, "op", inputs, attributes); });
}

TEST(GraphBuilder, NamesTensorsAfterOperators) {
  GraphBuilder builder("m", 64);
  const TensorId x = builder.data("x", {64, 10});
  const TensorId y = builder.add("linear", "fc", {x}, {{"out", 5}});
  const auto state = builder.add_all("lstm_cell", "cell", {x, y, y}, {{"hidden", 5}});
  const OperatorGraph graph = builder.build();
  std::vector<std::string> names;
  for (const Tensor& t : graph.tensors()) names.push_back(t.name);
  EXPECT_THAT(names,
              ElementsAre("x", "fc.w", "fc.b", "fc", "cell.wx", "cell.wh", "cell.b", "cell.h", "cell.c"));
  EXPECT_EQ(graph.tensor(y).shape, (Sizes{64, 5}));
  EXPECT_EQ(graph.tensor(y).producer, OperatorId(0));
  EXPECT_EQ(graph.tensor(state[1]).name, "cell.c");
}

TEST(GraphBuilder, FillsInDefaultsAndLists) {
  Bench t;
  const Operator conv = t.op("conv2d", {t.x({4, 3, 8, 8})}, {{"out", 8}, {"kernel", 3}});
  EXPECT_EQ(conv.attributes.at("kernel"), AttributeValue(Sizes{3, 3}));
  EXPECT_EQ(conv.attributes.at("groups"), AttributeValue(std::int64_t{1}));
  const Operator pool = t.op("pool2d", {t.x({4, 3, 8, 8})}, {{"kernel", Sizes{2, 4}}});
  EXPECT_EQ(pool.attributes.at("stride"), AttributeValue(Sizes{2, 4}));
}

TEST(GraphBuilder, SharesWeightsByName) {
  GraphBuilder builder("m", 4);
  const TensorId words = builder.data("words", {4, 7}, DataType::Int64);
  const TensorId h = builder.add("embedding", "words_in", {words}, {{"rows", 11}, {"width", 6}}, {"table"});
  builder.add("linear", "words_out", {h}, {{"out", 11}, {"transpose_weight", 1}, {"bias", 0}}, {"table"});
  const OperatorGraph graph = builder.build();
  EXPECT_EQ(graph.parameter_count(), 66);
  EXPECT_EQ(graph.op(OperatorId(0)).uses[1].tensor, graph.op(OperatorId(1)).uses[1].tensor);
}

TEST(GraphBuilder, RefusesSharedWeightsOfOtherShapes) {
  GraphBuilder builder("m", 4);
  const TensorId x = builder.data("x", {4, 7});
  builder.add("linear", "a", {x}, {{"out", 5}}, {"w"});
  try {
    builder.add("linear", "b", {x}, {{"out", 6}}, {"w"});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "operator \"b\" (linear): shared weight \"w\" has shape [7, 5], allowed: [7, 6]");
  }
}

TEST(GraphBuilder, RefusesToFreezeASharedWeightForOneOnly) {
  GraphBuilder b("m", 64);
  const TensorId x = b.data("x", {64, 8});
  b.add_operator({"linear", "a", {x}, {{"out", Sizes{8}}, {"bias", 0}}, {"w"}, {}, "", true});
  EXPECT_EQ(
      refusal<InputError>([&] {
        b.add_operator({"linear", "b", {x}, {{"out", Sizes{8}}, {"bias", 0}}, {"w"}, {}, "", false});
      }),
      "operator \"b\" (linear): shared weight \"w\" is frozen, allowed: frozen for all that share it or "
      "for none");
}

TEST(GraphBuilder, NamesRepeats) {
  GraphBuilder builder("m", 4);
  TensorId x = builder.data("x", {4, 7});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    builder.begin_repeat("layer", layer);
    x = builder.add("relu", "act", {x});
    builder.begin_repeat("head", 3);
    x = builder.add("tanh", "act", {x});
    builder.end_repeat();
    builder.end_repeat();
  }
  builder.add("relu", "last", {x});
  const OperatorGraph graph = builder.build();
  EXPECT_EQ(graph.operators()[2].name, "layer1.act");
  EXPECT_EQ(graph.operators()[2].repeat, "layer#.act");
  EXPECT_EQ(graph.operators()[3].name, "layer1.head3.act");
  EXPECT_EQ(graph.operators()[3].repeat, "layer#.head#.act");
  EXPECT_EQ(graph.operators()[4].repeat, "");
  EXPECT_THROW(builder.end_repeat(), InternalError);
}

TEST(GraphBuilder, FollowsTheSampleDimension) {
  Bench t;
  const Operator transpose = t.op("transpose", {t.x({4, 7, 8})}, {{"order", Sizes{1, 0, 2}}});
  const TensorId turned = t.builder.find("op0");
  const Operator linear = t.op("linear", {turned}, {{"out", 6}});
  EXPECT_EQ(linear.factors[0].kind, FactorKind::Attribute);
  EXPECT_EQ(linear.factors[1].kind, FactorKind::Sample);
  const Operator positions = t.op("embedding", {t.words({7})}, {{"rows", 7}, {"width", 8}});
  EXPECT_EQ(positions.factors[0].kind, FactorKind::Attribute);
  const Operator groups = t.op("reshape", {t.x({4, 6, 8})}, {{"shape", Sizes{2, 12, 8}}});
  EXPECT_EQ(groups.factors[0].kind, FactorKind::Sample);
  EXPECT_EQ(groups.factors[0].size, 2);
  const TensorId learned = t.builder.add("parameter", "learned", {}, {{"shape", Sizes{1, 8}}});
  EXPECT_EQ(t.op("expand", {learned}, {{"shape", Sizes{4, 8}}}).factors[0].kind, FactorKind::Sample)
      << "once for each sample";
  EXPECT_EQ(t.op("expand", {learned}, {{"shape", Sizes{5, 8}}}).factors[0].kind, FactorKind::Attribute);
}

TEST(GraphBuilder, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(refused_operator("conv2d", {{64, 10}}, {{"out", 8}, {"kernel", 3}}),
            "operator \"op\" (conv2d): input 0 has shape [64, 10], allowed: [n, c, h, w]");
  EXPECT_EQ(refused_operator("lstm_cell", {{64, 10}, {64, 7}, {64, 8}}, {{"hidden", 8}}),
            "operator \"op\" (lstm_cell): input 1 has shape [64, 7], allowed: [64, 8]");
  EXPECT_EQ(refused_operator("matmul", {{64, 3, 4}, {64, 5, 6}}),
            "operator \"op\" (matmul): input 1 has shape [64, 5, 6], allowed: [64, 4, 6]");
  EXPECT_EQ(refused_operator("linear", {{64}}, {{"out", 8}}),
            "operator \"op\" (linear): input 0 has shape [64], allowed: [batch…, 1 contracted]");
  EXPECT_EQ(refused_operator("add", {{64, 3}, {64, 2}}),
            "operator \"op\" (add): input 1 has shape [64, 2], allowed: [64, 3], its last dimensions, or 1 "
            "for some of "
            "them");
  EXPECT_EQ(refused_operator("concat", {{64, 3}, {32, 2}}, {{"axis", 1}}),
            "operator \"op\" (concat): input 1 has shape [32, 2], allowed: [64, 2]");
  EXPECT_EQ(refused_operator("split", {{64, 8}}, {{"axis", 1}, {"sizes", Sizes{3, 4}}}),
            "operator \"op\" (split): attribute \"sizes\" is [3, 4] and input 0 has shape [64, 8], allowed: "
            "sizes that "
            "add up to 8");
  EXPECT_EQ(
      refused_operator("split", {{64, 8}}, {{"axis", 2}, {"sizes", 8}}),
      "operator \"op\" (split): attribute \"axis\" is 2 and input 0 has shape [64, 8], allowed: 0 to 1");
  EXPECT_EQ(refused_operator("reshape", {{64, 8}}, {{"shape", Sizes{64, 9}}}),
            "operator \"op\" (reshape): attribute \"shape\" is [64, 9] and input 0 has shape [64, 8], "
            "allowed: as many "
            "elements");
  EXPECT_EQ(
      refused_operator("flatten", {{64, 8}}, {{"from", 2}}),
      "operator \"op\" (flatten): attribute \"from\" is 2 and input 0 has shape [64, 8], allowed: 0 to 1");
  EXPECT_EQ(
      refused_operator("scored_attention", {{4, 6, 2, 1, 4}, {4, 6, 2, 4}, {4, 6, 2, 4}},
                       {{"buckets", 8}, {"alibi", 1}}),
      "operator \"op\" (scored_attention): attributes \"buckets\" and \"alibi\" are given, allowed: one of "
      "them");
  EXPECT_EQ(
      refused_operator("broadcast", {{64, 8}}, {{"axis", 3}, {"size", 4}}),
      "operator \"op\" (broadcast): attribute \"axis\" is 3 and input 0 has shape [64, 8], allowed: 1 to 2");
  EXPECT_EQ(refused_operator("transpose", {{64, 8}}, {{"order", Sizes{0, 0}}}),
            "operator \"op\" (transpose): attribute \"order\" is [0, 0] and input 0 has shape [64, 8], "
            "allowed: each "
            "axis once");
  EXPECT_EQ(refused_operator("reduce", {{64, 8}}, {{"axes", 2}}),
            "operator \"op\" (reduce): attribute \"axes\" is [2] and input 0 has shape [64, 8], allowed: "
            "distinct axes "
            "from 0 to 1");
}

TEST(GraphBuilder, RefusesWindowsAndGroupsThatDoNotFit) {
  EXPECT_EQ(refused_operator("conv2d", {{64, 3, 4, 4}}, {{"out", 8}, {"kernel", 7}, {"pad", 1}}),
            "operator \"op\" (conv2d): input 0 has shape [64, 3, 4, 4], too small for kernel [7, 7] with pad "
            "[1, 1] and "
            "dilation [1, 1]");
  EXPECT_EQ(
      refused_operator("conv2d", {{64, 3, 4, 4}}, {{"out", 8}, {"kernel", 3}, {"groups", 2}}),
      "operator \"op\" (conv2d): input 0 has shape [64, 3, 4, 4] and \"out\" is 8, allowed: channels that 2 "
      "groups divide");
  EXPECT_EQ(refused_operator("conv2d", {{64, 3, 4, 4}}, {{"out", 8}, {"kernel", Sizes{1, 2, 3}}}),
            "operator \"op\" (conv2d): attribute \"kernel\" is [1, 2, 3], allowed: [rows, columns]");
  EXPECT_EQ(refused_operator("moe_dispatch", {{64, 3, 4}, {64, 3, 2}}, {{"top_k", 3}, {"capacity", 1}}),
            "operator \"op\" (moe_dispatch): attribute \"top_k\" is 3, allowed: at most 2 experts");
  EXPECT_EQ(refused_operator("moe_dispatch", {{64, 6, 4}, {64, 6, 2}},
                             {{"top_k", 1}, {"capacity", 1}, {"groups", 4}}),
            "operator \"op\" (moe_dispatch): attribute \"groups\" is 4, allowed: divisors of the 6 tokens");
  EXPECT_EQ(
      refused_operator("linear", {{64, 6, 4}}, {{"out", 2}, {"router", 1}, {"router_groups", 4}}),
      "operator \"op\" (linear): attribute \"router_groups\" is 4, allowed: divisors of dim 1 of the input");
  for (const std::int64_t groups : {4, 6})
    EXPECT_EQ(
        refused_operator("rms_norm", {{64, 3, 6}}, {{"groups", groups}}),
        fmt::format("operator \"op\" (rms_norm): input 0 has shape [64, 3, 6], allowed: a last dimension of "
                    "{} groups of more than an element",
                    groups));
  for (const std::int64_t width : {3, 8})
    EXPECT_EQ(
        refused_operator("rotary", {{64, 3, 6}}, {{"width", width}}),
        fmt::format("operator \"op\" (rotary): attribute \"width\" is {}, allowed: even numbers up to 6, "
                    "the last dimension",
                    width));
  EXPECT_EQ(
      refused_operator("swiglu", {{64, 3, 4}, {64, 3, 4}, {64, 1, 1}}, {}),
      "operator \"op\" (swiglu): input 2 has shape [64, 1, 1], allowed: [64, 3, 1], a weight for each row "
      "of input 0");
  EXPECT_EQ(refused_operator("moe_combine", {{64, 4, 2, 1, 4}, {64, 6, 2}}, {{"top_k", 1}}),
            "operator \"op\" (moe_combine): input 0 has 4 groups, allowed: divisors of the 6 tokens");
  EXPECT_EQ(refused_operator("attention", {{64, 3, 1, 1, 2}, {64, 5, 1, 2}, {64, 5, 1, 2}}, {{"causal", 1}}),
            "operator \"op\" (attention): inputs 0 and 2 have shapes [64, 3, 1, 1, 2] and [64, 5, 1, 2], "
            "allowed: a "
            "causal mask needs as many keys as queries");
  EXPECT_EQ(refused_operator("relative_attention", {{64, 3, 1, 1, 2}, {64, 5, 1, 2}, {64, 5, 1, 2}},
                             {{"buckets", 6}, {"farthest", 9}}),
            "operator \"op\" (relative_attention): \"buckets\" is 6 and \"farthest\" 9, allowed: buckets "
            "that 4 divides, and more than buckets / 4");
  EXPECT_EQ(
      refused_operator("select_keys", {{64, 3, 2, 4}, {64, 5, 4}, {64, 3, 2}}, {{"count", 2}}),
      "operator \"op\" (select_keys): inputs 0 and 1 have shapes [64, 3, 2, 4] and [64, 5, 4], allowed: as "
      "many keys as queries");
  EXPECT_EQ(refused_operator("select_keys", {{64, 3, 2, 4}, {64, 3, 4}}, {{"count", 2}}),
            "operator \"op\" (select_keys): has 2 inputs, allowed: q, k and w without \"by_head\"");
  EXPECT_EQ(refused_operator("select_keys", {{64, 3, 2, 4}, {64, 3, 4}},
                             {{"count", 3}, {"block", 2}, {"by_head", 1}}),
            "operator \"op\" (select_keys): \"count\" is 3 and \"block\" 2, allowed: a count that is a "
            "number of whole blocks");
  EXPECT_EQ(
      refused_operator("rotary", {{64, 3, 5}}, {}),
      "operator \"op\" (rotary): input 0 has shape [64, 3, 5], allowed: an even last dimension, which is "
      "rotated in pairs");
  EXPECT_EQ(
      refused_operator("pool2d", {{64, 3, 4, 4}}, {{"kernel", Sizes{2, 3}}, {"pad", Sizes{2, 1}}}),
      "operator \"op\" (pool2d): \"pad\" is [2, 1] and \"kernel\" [2, 3], allowed: less pad than kernel, so "
      "that no window is all pad");
  EXPECT_EQ(refused_operator("pool2d", {{64, 3, 4, 4}}, {{"kernel", 2}, {"pad", 1}}), "accepted");
}

TEST(GraphBuilder, PoolingRemembersPlacesInAsManyBytesAsTheyNeed) {
  for (const auto& [kernel, bytes] : {std::pair{16, 1.0}, {17, 4.0}}) {
    GraphBuilder b("pools", 1);
    const TensorId x = b.data("x", {1, 1, 20, 20});
    b.add("pool2d", "pool", {x}, {{"kernel", std::int64_t{kernel}}, {"stride", std::int64_t{1}}});
    const OperatorGraph graph = b.build();
    EXPECT_EQ(graph.op(OperatorId(0)).saved_extra_bytes.front().coefficient, bytes) << kernel;
  }
}

TEST(GraphBuilder, RefusesChoicesOfElementsThatDoNotFit) {
  EXPECT_EQ(
      refused_operator("slice", {{64, 9}}, {{"axis", 1}, {"start", 3}, {"length", 4}, {"step", 2}}),
      "operator \"op\" (slice): \"start\" is 3, \"length\" 4, \"step\" 2 and input 0 has shape [64, 9], "
      "allowed: up to its end");
  EXPECT_EQ(refused_operator("roll", {{64, 9}}, {{"axis", 2}, {"shift", 1}}),
            "operator \"op\" (roll): attribute \"axis\" is 2 and input 0 has shape [64, 9], allowed: 0 to 1");
  EXPECT_EQ(
      refused_operator("pad", {{64, 9}}, {{"before", Sizes{0}}, {"after", Sizes{0, 1}}}),
      "operator \"op\" (pad): \"before\" is [0], \"after\" [0, 1] and input 0 has shape [64, 9], allowed: a "
      "number for each dimension");
  EXPECT_EQ(refused_operator("pad", {{64, 3}},
                             {{"before", Sizes{0, 3}}, {"after", Sizes{0, 0}}, {"mode", "reflect"}}),
            "operator \"op\" (pad): \"before\" is [0, 3], \"after\" [0, 0] and input 0 has shape [64, 3], "
            "allowed with "
            "mode=reflect: less than the dimension");
  EXPECT_EQ(refused_operator("gather", {{64, 9}, {3}}, {{"axis", 1}}),
            "operator \"op\" (gather): input 1 has type float32, allowed: an integer type");
  EXPECT_EQ(
      refused_operator("expand", {{64, 3}}, {{"shape", Sizes{64, 6}}}),
      "operator \"op\" (expand): attribute \"shape\" is [64, 6] and input 0 has shape [64, 3], allowed: the "
      "same dims, longer where the input has 1, and more on the left");
}

TEST(GraphBuilder, RefusesEinsumsThatDoNotFit) {
  for (const char* equation : {"bi", "bi->bj", "bb->b", "b1->b", "bi,ij->bj"}) {
    EXPECT_THAT(refused_operator("einsum", {{64, 9}}, {{"equation", equation}}),
                testing::StartsWith(std::string("operator \"op\" (einsum): attribute \"equation\" is \"") +
                                    equation + "\" for 1 inputs, allowed: "));
  }
  EXPECT_EQ(refused_operator("einsum", {{64, 9}, {8, 4}}, {{"equation", "bi,ij->bj"}}),
            "operator \"op\" (einsum): input 1 has shape [8, 4], allowed: 9 for letter \"i\"");
  EXPECT_EQ(
      refused_operator("einsum", {{64, 9}}, {{"equation", "bij->b"}}),
      "operator \"op\" (einsum): input 0 has shape [64, 9], allowed: a dimension for each letter of \"bij\"");
}

TEST(GraphBuilder, RefusesOperatorsOfUnknownKindsThatDoNotFit) {
  EXPECT_EQ(refused_operator("opaque", {{64, 9}}, {{"what", "sort"}, {"shape", Sizes{9}}, {"samples", 1}}),
            "operator \"op\" (opaque): \"samples\" is given and \"shape\" has shape [9], allowed: 64 samples "
            "first");
  EXPECT_EQ(
      refused_operator("opaque", {{64, 9}}, {{"what", "sort"}, {"shape", Sizes{9}}, {"shape3", Sizes{9}}}),
      "operator \"op\" (opaque): \"shape3\" is given, allowed: \"shape2\" before it");
  EXPECT_EQ(refused_operator("opaque", {{64, 9}}, {{"shape", Sizes{9}}}),
            "operator \"op\" (opaque): attribute \"what\" is missing (its name where it came from)");
  EXPECT_EQ(refused_operator("clip", {{64, 9}}, {{"low", 2.0}, {"high", 1.0}}),
            "operator \"op\" (clip): attribute \"low\" is 2 and \"high\" 1, allowed: low up to high");
  EXPECT_EQ(refused_operator("squared_error", {{64, 9}, {64, 8}}, {}),
            "operator \"op\" (squared_error): input 1 has shape [64, 8], allowed: [64, 9]");
}

TEST(GraphBuilder, RefusesTypesThatDoNotFit) {
  EXPECT_EQ(refused_operator("relu", {{64, 10}}, {}, DataType::Int64),
            "operator \"op\" (relu): input 0 has type int64, allowed: a floating-point type");
  EXPECT_EQ(refused_operator("embedding", {{64, 10}}, {{"rows", 5}, {"width", 6}}),
            "operator \"op\" (embedding): input 0 has type float32, allowed: an integer type");
  EXPECT_EQ(refused_operator("reshape", {{64, 10}}, {{"shape", 640}}, DataType::Int64), "accepted");
}

TEST(GraphBuilder, RefusesAttributesOutsideTheSchema) {
  EXPECT_EQ(refused_operator("linear", {{64, 10}}, {{"ot", 5}}),
            "operator \"op\" (linear): unknown attribute \"ot\" (did you mean \"out\"?), allowed: out, "
            "contract, bias, "
            "activation, transpose_weight, router, router_groups, uneven, narrow, keep_input, stored, "
            "products, cast_input, keep_uncast");
  EXPECT_EQ(refused_operator("linear", {{64, 10}}),
            "operator \"op\" (linear): attribute \"out\" is missing (output dims, e.g. [4096] or [heads, "
            "head_dim])");
  EXPECT_EQ(refused_operator("linear", {{64, 10}}, {{"out", 0}}),
            "operator \"op\" (linear): attribute \"out\" is 0, allowed: integers from 1 to 2147483647");
  EXPECT_EQ(refused_operator("linear", {{64, 10}}, {{"out", Sizes{}}}),
            "operator \"op\" (linear): attribute \"out\" is [], allowed: one output dimension or more");
  EXPECT_EQ(refused_operator("linear", {{64, 10}}, {{"out", 5}, {"bias", 2}}),
            "operator \"op\" (linear): attribute \"bias\" is 2, allowed: 0 or 1");
  EXPECT_EQ(refused_operator("linear", {{64, 10}}, {{"out", 5}, {"activation", "relo"}}),
            "operator \"op\" (linear): attribute \"activation\" is \"relo\", allowed: none, relu, gelu, "
            "silu, tanh, sigmoid, relu2");
  EXPECT_EQ(refused_operator("dropout", {{64, 10}}, {{"rate", 1.5}}),
            "operator \"op\" (dropout): attribute \"rate\" is 1.5, allowed: a number from 0 to 1");
  EXPECT_EQ(refused_operator("relu", {{64, 10}}, {{"rate", 1.5}}),
            "operator \"op\" (relu): unknown attribute \"rate\", allowed: none");
}

TEST(GraphBuilder, RefusesUnknownKindsAndInputCounts) {
  EXPECT_EQ(refused_operator("linaer", {{64, 10}}).substr(0, 66),
            "operator \"op\": unknown operator kind \"linaer\" (did you mean \"linea");
  EXPECT_EQ(refused_operator("add", {{64, 10}}),
            "operator \"op\" (add): has 1 inputs, allowed: x[any dims], y[x's last dims, or 1 for some]");
}

TEST(GraphBuilder, RefusesTensorsTooLargeToCount) {
  EXPECT_EQ(
      refused_operator("linear", {{64, 2147483647}}, {{"out", 2147483647}}),
      "tensor \"op.w\" has shape [2147483647, 2147483647], allowed: 1125899906842624 elements in all tensors "
      "together");
  const std::int64_t huge = INT64_MAX;
  EXPECT_THROW(GraphBuilder("m", 4).data("x", {huge, huge}), InputError);
}

TEST(GraphBuilder, RefusesNamesThatExist) {
  GraphBuilder builder("m", 4);
  const TensorId x = builder.data("x", {4, 7});
  builder.add("relu", "act", {x});
  const auto message = [&](const auto& add) -> std::string {
    try {
      add();
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message([&] { builder.add("relu", "act", {x}); }),
            "operator \"act\" (relu): an operator of that name exists already");
  EXPECT_EQ(message([&] { builder.data("act", {4}); }),
            "tensor \"act\" exists already, made by operator \"act\"");
  EXPECT_EQ(message([&] { builder.add("relu", "x", {x}); }), "tensor \"x\" exists already");
  EXPECT_EQ(message([&] { builder.add("relu", "", {x}); }), "operator \"\" (relu): has no name");
  EXPECT_EQ(message([&] {
              builder.add("linear", "fc", {x}, {{"out", 2}}, {"a", "b", "c"});
            }),
            "operator \"fc\" (linear): 3 names of weights, allowed: at most 2");
  EXPECT_EQ(message([&] { builder.data("y", {0}); }),
            "input \"y\" has shape [0], allowed: at most 8 dimensions of 1 or more");
  EXPECT_EQ(message([&] { GraphBuilder("m", 0); }), "model \"m\": batch is 0, allowed: 1 or more");
  EXPECT_EQ(message([&] { GraphBuilder("m", 4, DataType::Int64); }),
            "model \"m\": type is int64, allowed: a floating-point type");
}

TEST(GraphBuilder, RefusesWeightsAsInputs) {
  GraphBuilder builder("m", 4);
  builder.add("linear", "fc", {builder.data("x", {4, 7})}, {{"out", 7}});
  try {
    builder.add("relu", "act", {builder.find("fc.w")});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "operator \"act\" (relu): input 0 is the weight \"fc.w\", allowed: inputs of the model and "
                 "results of "
                 "operators");
  }
}

}  // namespace
}  // namespace pipesim
