#include <gmock/gmock.h>

#include "models/fusion.h"
#include "models/graph_builder.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

using Extents = std::vector<std::int64_t>;

/// A product without bias, and a parameter that is added to it.
struct AddedBias {
  const char* kind = "linear";
  Extents x{4, 6};
  Attributes attributes{{"out", Extents{8}}};
  Extents parameter{8};
  bool frozen = false;
  bool product_is_read = false;
  std::string activation = "none";

  [[nodiscard]] OperatorGraph graph() const {
    GraphBuilder b("biased", 4);
    Attributes all = attributes;
    all["bias"] = 0;
    all["activation"] = activation;
    const TensorId y = b.add(kind, "product", {b.data("x", x)}, all, {"w"});
    const TensorId bias =
        b.add_operator({"parameter", "bias", {}, {{"shape", parameter}}, {"bias_w"}, {}, "", frozen})[0];
    const TensorId sum = b.add("add", "sum", {y, bias});
    b.add("silu", "behind", {sum});
    if (product_is_read) b.add("silu", "beside", {y});
    return b.build();
  }
};

void expect_bias(const AddedBias& added, const Extents& shape) {
  const OperatorGraph written = added.graph(), graph = fuse(written);
  ASSERT_EQ(graph.operators().size(), 1U) << added.kind;
  const Operator& product = graph.operators()[0];
  EXPECT_EQ(product.name, "product");
  EXPECT_EQ(std::get<std::string>(product.attributes.at("activation")), "silu");
  EXPECT_EQ(graph.tensor(product.uses[1].tensor).name, "w");
  EXPECT_EQ(graph.tensor(product.uses[2].tensor).name, "bias_w");
  EXPECT_EQ(graph.tensor(product.uses[2].tensor).shape, shape);
  EXPECT_EQ(graph.tensor(product.uses[3].tensor).name, "behind");
  EXPECT_EQ(graph.parameter_count(), written.parameter_count());
}

TEST(AddedParameters, BecomeTheBiasOfAProduct) {
  expect_bias({}, {8});
  expect_bias({.x = {4, 3, 6}, .parameter = {1, 1, 8}}, {8});
  expect_bias({.attributes = {{"out", Extents{2, 3}}}, .parameter = {2, 3}}, {2, 3});
  const Attributes image{{"out", 8}, {"kernel", 3}};
  expect_bias({.kind = "conv2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {8, 1, 1}}, {8});
  expect_bias({.kind = "conv2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {1, 8, 1, 1}}, {8});
  expect_bias({.kind = "conv1d", .x = {4, 6, 5}, .attributes = image, .parameter = {8, 1}}, {8});
  expect_bias({.kind = "conv_transpose2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {8, 1, 1}},
              {8});
}

TEST(AddedParameters, StayWhereTheyAreNoBias) {
  const Attributes image{{"out", 5}, {"kernel", 1}};
  const std::vector<AddedBias> others{
      {.x = {4, 8, 6}, .parameter = {8, 8}},                                               // of each position
      {.kind = "conv2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {5}},        // of each column
      {.kind = "conv2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {5, 1}},     // of each row
      {.kind = "conv2d", .x = {4, 6, 5, 5}, .attributes = image, .parameter = {5, 5, 5}},  // of each element
      {.parameter = {1}},                                                                  // of all
      {.frozen = true},
      {.product_is_read = true},
      {.activation = "relu"}};
  for (const AddedBias& added : others) {
    const OperatorGraph graph = added.graph();
    EXPECT_EQ(fuse(graph), graph) << added.kind << " " << to_text(added.parameter);
  }
}

TEST(AddedParameters, StayWhereOthersReadThem) {
  GraphBuilder b("tied", 4);
  const TensorId bias = b.add("parameter", "bias", {}, {{"shape", Extents{8}}});
  const Attributes plain{{"out", Extents{8}}, {"bias", 0}};
  const TensorId y = b.add("linear", "first", {b.data("x", {4, 8})}, plain);
  const TensorId z = b.add("linear", "second", {b.add("add", "sum", {y, bias})}, plain);
  b.add("add", "sum2", {z, bias});
  const OperatorGraph graph = b.build();
  EXPECT_EQ(fuse(graph), graph);
}

TEST(AddedParameters, KeepTheShapeOfAWeightThatIsShared) {
  for (const bool same : {false, true}) {
    GraphBuilder b("tied", 4);
    const Extents shape = same ? Extents{8} : Extents{1, 8};
    const auto bias = [&](const char* name) {
      return b.add("parameter", name, {}, {{"shape", shape}}, {"bias"});
    };
    const Attributes plain{{"out", Extents{8}}, {"bias", 0}};
    TensorId y = b.add("linear", "first", {b.data("x", {4, 8})}, plain);
    y = b.add("add", "sum", {y, bias("bias1")});
    y = b.add("linear", "second", {y}, plain);
    b.add("add", "sum2", {y, bias("bias2")});
    const OperatorGraph graph = b.build(), fused = fuse(graph);
    EXPECT_EQ(fused.operators().size(), same ? 2U : 6U);
    EXPECT_EQ(fused.parameter_count(), graph.parameter_count());
  }
}

/// "embedding", then "reduce".
OperatorGraph summed_rows(const Extents& indices, const std::string& mode, const Extents& axes) {
  GraphBuilder b("bags", 4);
  const TensorId rows = b.add("embedding", "rows", {b.data("x", indices, DataType::Int64)},
                              {{"rows", 100}, {"width", 8}}, {"table"});
  b.add("reduce", "bag", {rows}, {{"axes", axes}, {"mode", mode}});
  return b.build();
}

TEST(SummedEmbeddings, BecomeBags) {
  for (const std::string mode : {"sum", "mean"}) {
    const OperatorGraph graph = fuse(summed_rows({4, 5}, mode, {1}));
    ASSERT_EQ(graph.operators().size(), 1U);
    const Operator& bag = graph.operators()[0];
    EXPECT_EQ(bag.kind, "embedding_bag");
    EXPECT_EQ(bag.name, "bag");
    EXPECT_EQ(std::get<std::string>(bag.attributes.at("mode")), mode);
    EXPECT_EQ(graph.tensor(bag.uses[1].tensor).name, "table");
    EXPECT_EQ(graph.tensor(bag.uses[2].tensor).name, "bag");
    EXPECT_EQ(graph.tensor(bag.uses[2].tensor).shape, (Extents{4, 8}));
  }
}

TEST(SummedEmbeddings, StayWhereTheyAreNoBags) {
  for (const OperatorGraph& graph :
       {summed_rows({4, 5}, "max", {1}), summed_rows({4, 5}, "sum", {0}), summed_rows({4, 5}, "sum", {2}),
        summed_rows({4, 5}, "sum", {1, 2}), summed_rows({4, 5, 6}, "sum", {1})})
    EXPECT_EQ(fuse(graph), graph);
}

TEST(ViewsOfNorms, StayWhereTheyAreNoGroups) {
  const auto norm = [](const Extents& x, const Extents& view, const char* kind,
                       const Attributes& attributes) {
    GraphBuilder b("viewed", 4);
    const TensorId y = b.add("reshape", "view", {b.data("x", x)}, {{"shape", view}});
    b.add("reshape", "back", {b.add(kind, "norm", {y}, attributes)}, {{"shape", x}});
    return b.build();
  };
  const Attributes three{{"groups", 3}, {"affine", 0}}, plain{{"affine", 0}};
  for (const OperatorGraph& graph :
       {norm({4, 6, 8}, {4, 6, 8, 1}, "group_norm", three),          // groups of views
        norm({4, 6, 8}, {4, 3, 16}, "group_norm", {{"groups", 3}}),  // has factors of its own
        norm({4, 6, 8}, {2, 3, 32}, "group_norm", three),            // across samples
        norm({4, 6, 8}, {4, 4, 12}, "layer_norm", plain),            // cuts channels
        norm({4, 6, 2, 4}, {4, 6, 8}, "layer_norm", plain)}) {       // of each position
    EXPECT_EQ(fuse(graph), graph);
  }
  EXPECT_EQ(count_kind(fuse(norm({4, 6, 8}, {4, 3, 16}, "layer_norm", plain)), "group_norm"), 1);
}

}  // namespace
}  // namespace pipesim
