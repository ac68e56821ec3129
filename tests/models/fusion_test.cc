#include "models/fusion.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/model_json.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;

using Dims = std::vector<std::int64_t>;

/// What a framework writes for attention of 3 heads of 4 over 2 samples of 5 positions.
struct WrittenLayer {
  bool scaled_query = false;    ///< the factor stands before the product
  bool keys_by_head = false;    ///< keys are [b, heads, length, width] and then transposed
  bool result_by_head = false;  ///< nobody brings the heads behind the positions
  double factor = 0.5;          ///< of scores; 0.5 is 1 / √4
  std::string bias;             ///< shape of what is added: "", "mask", "sample"
  double dropout = 0;
  bool softmax_written = false;  ///< exp(x − max) / sum

  static TensorId write_softmax(GraphBuilder& b, TensorId x) {
    const auto over_keys = [&](const std::string& mode, TensorId y) {
      y = b.add("reduce", "layer.0." + mode, {y}, {{"axes", Dims{3}}, {"mode", mode}});
      return b.add("reshape", "layer.0." + mode + "_column", {y}, {{"shape", Dims{2, 3, 5, 1}}});
    };
    const TensorId e = b.add("exp", "layer.0.exp", {b.add("sub", "layer.0.sub", {x, over_keys("max", x)})});
    return b.add("div", "layer.0.softmax", {e, over_keys("sum", e)});
  }

  [[nodiscard]] OperatorGraph graph() const {
    GraphBuilder b("written", 2);
    const TensorId x = b.add("embedding", "table", {b.data("words", {2, 5}, DataType::Int64)},
                             {{"rows", std::int64_t{9}}, {"width", std::int64_t{12}}});
    const auto heads = [&](const std::string& name, const Dims& order) {
      const TensorId y = b.add("linear", "layer.0." + name, {x}, {{"out", Dims{12}}});
      const TensorId split =
          b.add("reshape", "layer.0." + name + "_view", {y}, {{"shape", Dims{2, 5, 3, 4}}});
      return b.add("transpose", "layer.0." + name + "_heads", {split}, {{"order", order}});
    };
    TensorId q = heads("query", {0, 2, 1, 3});
    if (scaled_query) q = b.add("affine", "layer.0.scaled", {q}, {{"factor", factor}});
    TensorId k = heads("key", keys_by_head ? Dims{0, 2, 1, 3} : Dims{0, 2, 3, 1});
    if (keys_by_head) k = b.add("transpose", "layer.0.key_columns", {k}, {{"order", Dims{0, 1, 3, 2}}});
    const TensorId v = heads("value", {0, 2, 1, 3});
    TensorId scores = b.add("matmul", "layer.0.scores", {q, k});
    if (!scaled_query) scores = b.add("affine", "layer.0.scale", {scores}, {{"factor", factor}});
    if (bias == "mask") scores = b.add("add", "layer.0.mask", {scores, b.data("layer.0.mask_data", {5, 5})});
    if (bias == "sample") scores = b.add("add", "layer.0.mask", {scores, b.data("mask_data", {2, 1, 1, 5})});
    TensorId weights =
        softmax_written ? write_softmax(b, scores) : b.add("softmax", "layer.0.softmax", {scores});
    if (dropout > 0) weights = b.add("dropout", "layer.0.dropout", {weights}, {{"rate", dropout}});
    TensorId mixed = b.add("matmul", "layer.0.mixed", {weights, v});
    if (result_by_head) {
      b.add("reduce", "sum", {mixed}, {{"axes", Dims{0, 1, 2, 3}}});
      return b.build();
    }
    mixed = b.add("transpose", "layer.0.together", {mixed}, {{"order", Dims{0, 2, 1, 3}}});
    mixed = b.add("reshape", "layer.0.flat", {mixed}, {{"shape", Dims{2, 5, 12}}});
    const TensorId out = b.add("linear", "layer.0.out", {mixed}, {{"out", Dims{7}}});
    b.add("cross_entropy", "loss", {out, b.data("labels", {2, 5}, DataType::Int64)});
    return b.build();
  }
};

std::map<std::string, int> kinds(const OperatorGraph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators()) ++counts[op.kind];
  return counts;
}

const Operator& only(const OperatorGraph& graph, const std::string& kind) {
  EXPECT_EQ(count_kind(graph, kind), 1) << kind;
  for (const Operator& op : graph.operators()) {
    if (op.kind == kind) return op;
  }
  throw std::out_of_range("no " + kind);
}

TEST(Fusion, JoinsAttentionThatIsWrittenOut) {
  for (const bool scaled_query : {false, true}) {
    for (const bool keys_by_head : {false, true}) {
      WrittenLayer written;
      written.scaled_query = scaled_query, written.keys_by_head = keys_by_head, written.dropout = 0.1;
      written.softmax_written = scaled_query == keys_by_head;
      const OperatorGraph graph = fuse(written.graph());
      const std::map<std::string, int> expected{
          {"embedding", 1}, {"linear", 4}, {"reshape", 6}, {"attention", 1}, {"cross_entropy", 1}};
      EXPECT_EQ(kinds(graph), expected) << scaled_query << keys_by_head;
      const Operator& attention = only(graph, "attention");
      EXPECT_EQ(attention.name, "layer.0.attention");
      EXPECT_EQ(graph.tensor(attention.uses[0].tensor).shape, (Dims{2, 5, 3, 1, 4}));
      EXPECT_EQ(graph.parameter_count(), written.graph().parameter_count());
    }
  }
}

TEST(Fusion, BringsHeadsInOrderWhereTheModelDoesNot) {
  WrittenLayer written;
  written.result_by_head = true;
  const OperatorGraph graph = fuse(written.graph());
  EXPECT_EQ(count_kind(graph, "attention"), 1);
  EXPECT_EQ(count_kind(graph, "transpose"), 1);
  EXPECT_EQ(graph.tensor(only(graph, "reduce").uses[0].tensor).shape, (Dims{2, 3, 5, 4}));
  EXPECT_EQ(graph.tensor(only(graph, "reduce").uses[0].tensor).name, "layer.0.mixed");
}

TEST(Fusion, KeepsAnotherFactor) {
  WrittenLayer written;
  written.factor = 1;
  const OperatorGraph graph = fuse(written.graph());
  const Operator& scale = only(graph, "affine");
  EXPECT_DOUBLE_EQ(std::get<double>(scale.attributes.at("factor")), 2);
}

TEST(Fusion, AddsMasksToScores) {
  WrittenLayer written;
  written.bias = "mask";
  const OperatorGraph masked = fuse(written.graph());
  EXPECT_EQ(masked.tensor(only(masked, "biased_attention").uses[3].tensor).shape, (Dims{1, 1, 5, 5}));
  written.bias = "sample";
  const OperatorGraph by_sample = fuse(written.graph());
  EXPECT_EQ(by_sample.tensor(only(by_sample, "biased_attention").uses[3].tensor).shape,
            (Dims{2, 1, 1, 1, 5}));
}

TEST(Fusion, KnowsCausalMasks) {
  WrittenLayer written;
  written.bias = "mask";
  const OperatorGraph graph = fuse(written.graph(), {"layer.0.mask_data"});
  EXPECT_TRUE(only(graph, "attention").causal);
  for (const Tensor& t : graph.tensors()) EXPECT_NE(t.name, "layer.0.mask_data") << "nobody reads it";
}

TEST(Fusion, LeavesScoresThatOthersRead) {
  GraphBuilder b("shown", 2);
  const auto data = [&](const std::string& name) { return b.data(name, {2, 3, 5, 4}); };
  const TensorId k = b.add("transpose", "columns", {data("k")}, {{"order", Dims{0, 1, 3, 2}}});
  const TensorId scores = b.add("matmul", "scores", {data("q"), k});
  const TensorId weights = b.add("softmax", "softmax", {scores});
  b.add("matmul", "mixed", {weights, data("v")});
  b.add("relu", "shown", {weights});
  const OperatorGraph graph = b.build();
  EXPECT_EQ(fuse(graph), graph);
}

TEST(Fusion, JoinsActivationsThatOnlyOneReads) {
  GraphBuilder b("activated", 4);
  const TensorId x = b.data("x", {4, 6});
  const TensorId inner = b.add("linear", "inner", {x}, {{"out", Dims{8}}}, {"w", "b"});
  const TensorId kept = b.add("linear", "kept", {x}, {{"out", Dims{8}}});
  const TensorId a = b.add("gelu", "gelu", {inner});
  b.add("add", "sum", {b.add("add", "both", {a, kept}), b.add("relu", "relu", {kept})});
  const OperatorGraph graph = fuse(b.build());
  EXPECT_THAT(kinds(graph), Not(Contains(Key("gelu"))));
  EXPECT_THAT(kinds(graph), Contains(Key("relu"))) << "the sum reads what goes into it, too";
  EXPECT_EQ(std::get<std::string>(operator_named(graph, "inner").attributes.at("activation")), "gelu");
  EXPECT_EQ(graph.tensor(operator_named(graph, "both").uses[0].tensor).name, "gelu");
  EXPECT_EQ(graph.tensor(operator_named(graph, "inner").uses[1].tensor).name, "w");
}

TEST(Fusion, IsAskedForInModelFiles) {
  WrittenLayer written;
  written.bias = "mask";
  std::string text = to_json(written.graph());
  const auto insert = [&](const std::string& before, const std::string& more) {
    text.insert(text.find(before), more);
  };
  insert("\"inputs\"", "\"fuse\": true, ");
  EXPECT_EQ(count_kind(parse_model(text, "m.json"), "biased_attention"), 1);
  insert("\"name\":\"layer.0.mask_data\"", "\"content\": \"causal_mask\", ");
  EXPECT_EQ(count_kind(parse_model(text, "m.json"), "attention"), 1);
}

}  // namespace
}  // namespace pipesim
