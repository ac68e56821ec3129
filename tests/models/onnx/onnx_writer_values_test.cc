#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "models/graph_builder.h"
#include "models/onnx/onnx_writer.h"
#include "models/onnx/reader/folding/constant.h"
#include "models/onnx/reader/folding/folding.h"

namespace pipesim {
namespace {

constexpr std::int64_t kPositions = 8;

/// All values of a written model that do not depend on its inputs and weights.
std::map<std::string, OnnxConstant> constants_of(const OperatorGraph& graph) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(to_onnx(graph)));
  std::map<std::string, OnnxConstant> known;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (auto constant = constant_of(tensor)) known.emplace(tensor.name(), std::move(*constant));
  }
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::vector<const OnnxConstant*> inputs;
    for (const std::string& input : node.input()) {
      const auto found = known.find(input);
      inputs.push_back(found == known.end() ? nullptr : &found->second);
    }
    if (std::ranges::find(inputs, nullptr) != inputs.end()) continue;
    if (auto results = fold(node, 17, inputs)) known.emplace(node.output(0), std::move(results->front()));
  }
  return known;
}

struct AttentionInputs {
  explicit AttentionInputs(GraphBuilder& builder)
      : q(builder.data("q", {2, kPositions, 3, 2, 4})),
        k(builder.data("k", {2, kPositions, 3, 4})),
        v(builder.data("v", {2, kPositions, 3, 4})) {}
  [[nodiscard]] std::vector<TensorId> all() const { return {q, k, v}; }
  TensorId q, k, v;
};

using Pairs = std::vector<double>;

/// Returns `value` of each query and key.
Pairs of_pairs(const std::function<double(std::int64_t query, std::int64_t key)>& value) {
  Pairs pairs;
  for (std::int64_t query = 0; query < kPositions; ++query) {
    for (std::int64_t key = 0; key < kPositions; ++key) pairs.push_back(value(query, key));
  }
  return pairs;
}

Pairs numbers(const OnnxConstant& constant) {
  Pairs values;
  for (std::size_t i = 0; i < constant.size(); ++i) values.push_back(constant.real(i));
  return values;
}

/// The only constant whose name begins and ends so.
Pairs shared_value(const std::map<std::string, OnnxConstant>& known, const std::string& begin,
                   const std::string& end) {
  for (const auto& [name, constant] : known) {
    if (name.starts_with("shared/" + begin) && name.ends_with(end)) return numbers(constant);
  }
  ADD_FAILURE() << "nothing begins with shared/" << begin << " and ends in " << end;
  return {};
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

TEST(OnnxWriterValues, MasksHideWhatComesLater) {
  GraphBuilder builder("masks", 2);
  const AttentionInputs in(builder);
  builder.add("attention", "plain", in.all(), {{"causal", 1}});
  builder.add("attention", "documents", in.all(), {{"causal", 1}, {"document_length", 3}});
  builder.add("attention", "window", in.all(), {{"causal", 1}, {"window", 3}});
  builder.add("attention", "zigzag", in.all(), {{"causal", 1}, {"zigzag", 2}});
  const auto known = constants_of(builder.build());
  EXPECT_EQ(shared_value(known, "causal mask float32 8", "/Trilu"),
            of_pairs([](auto query, auto key) { return key <= query ? 0 : kHidden; }));
  EXPECT_EQ(
      shared_value(known, "causal mask float32 8 documents", "/Where"),
      of_pairs([](auto query, auto key) { return key <= query && key / 3 == query / 3 ? 0 : kHidden; }));
  EXPECT_EQ(shared_value(known, "causal mask float32 8 window", "/Where"),
            of_pairs([](auto query, auto key) { return key <= query && query - key < 3 ? 0 : kHidden; }));
  const std::vector<std::int64_t> order{0, 1, 6, 7, 2, 3, 4, 5};
  EXPECT_EQ(
      shared_value(known, "causal mask float32 8 zigzag", "/Where"), of_pairs([&](auto query, auto key) {
        return order[static_cast<std::size_t>(key)] <= order[static_cast<std::size_t>(query)] ? 0 : kHidden;
      }));
}

// Six heads: four of slopes 1/4, 1/16, …, and two of the eight between them.
TEST(OnnxWriterValues, SlopesFallWithTheDistance) {
  GraphBuilder builder("slopes", 2);
  const AttentionInputs in(builder);
  builder.add("alibi_attention", "alibi", in.all());
  const Pairs found = shared_value(constants_of(builder.build()), "alibi", "/Mul_1");
  Pairs expected;
  for (const double exponent : {2.0, 4.0, 6.0, 8.0, 1.0, 3.0}) {
    const Pairs head = of_pairs([&](auto query, auto key) {
      return -std::exp2(-exponent) * std::abs(static_cast<double>(key - query));
    });
    expected.insert(expected.end(), head.begin(), head.end());
  }
  EXPECT_THAT(found, testing::Pointwise(testing::DoubleNear(1e-6), expected));
}

// Four buckets for keys up to the query: distances 0 and 1 have one each, 2 has the third, and all from
// 2 · √2, the middle to 4 by logarithms, on the last. Keys after it have four more.
TEST(OnnxWriterValues, DistancesShareBuckets) {
  GraphBuilder builder("buckets", 2);
  const AttentionInputs in(builder);
  builder.add("relative_attention", "relative", in.all(), {{"buckets", 8}, {"farthest", 4}});
  const std::vector<double> bucket{0, 1, 2, 3, 3, 3, 3, 3};
  EXPECT_EQ(shared_value(constants_of(builder.build()), "buckets", "/Gather"),
            of_pairs([&](auto query, auto key) {
              const double place = bucket[static_cast<std::size_t>(std::abs(key - query))];
              return key > query ? place + 4 : place;
            }));
}

TEST(OnnxWriterValues, RotationsTurnByThePosition) {
  GraphBuilder builder("rotary", 2);
  builder.add("rotary", "turned", {builder.data("x", {2, 3, 5, 4})});
  const Pairs angles = shared_value(constants_of(builder.build()), "rotary", "/Mul_1");
  EXPECT_THAT(angles, testing::Pointwise(testing::DoubleNear(1e-6), Pairs{0, 0, 1, 0.01, 2, 0.02}));
}

}  // namespace
}  // namespace pipesim
