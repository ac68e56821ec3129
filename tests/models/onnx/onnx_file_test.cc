#include "models/onnx/reader/onnx_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "tests/models/onnx/onnx_graph.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

using onnx::TensorProto;
using testing::HasSubstr;
using testing::StartsWith;

onnx::ModelProto stripped(const onnx::ModelProto& model) {
  const std::string text = model.SerializeAsString();
  std::istringstream in(text);
  return read_onnx(in, static_cast<std::int64_t>(text.size()), "net.onnx");
}

template <class Element>
TensorProto raw_tensor(const std::string& name, int type, const std::vector<std::int64_t>& dims,
                       const std::vector<Element>& values) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element)));
  return tensor;
}

TEST(OnnxFile, LeavesOutTheValuesOfWeights) {
  OnnxGraph g;
  constexpr std::size_t many = 128UL * 128;
  std::vector<float> numbers(many, 0.5F), mask(many, 0.0F), ones(many, 1.0F);
  for (std::size_t i = 0; i < many; ++i) {
    if (i % 128 > i / 128) {
      mask[i] = -std::numeric_limits<float>::infinity();
      ones[i] = 0;
    }
  }
  *g.graph().add_initializer() = raw_tensor("weight", TensorProto::FLOAT, {128, 128}, numbers);
  *g.graph().add_initializer() = raw_tensor("mask", TensorProto::FLOAT, {128, 128}, mask);
  *g.graph().add_initializer() = raw_tensor("ones", TensorProto::FLOAT, {128, 128}, ones);
  *g.graph().add_initializer() = raw_tensor("small", TensorProto::FLOAT, {4}, std::vector<float>{1, 2, 3, 4});
  *g.graph().add_initializer() =
      raw_tensor("places", TensorProto::INT64, {128, 128}, std::vector<std::int64_t>(many, 7));
  TensorProto& listed = *g.graph().add_initializer();
  listed.set_name("listed");
  listed.set_data_type(TensorProto::FLOAT);
  listed.add_dims(static_cast<std::int64_t>(many));
  for (const float value : numbers) listed.add_float_data(value);
  auto* value = g.node("Constant", {}, {"c"}).add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  *value->mutable_t() = raw_tensor("inner", TensorProto::FLOAT, {128, 128}, numbers);

  const onnx::ModelProto read = stripped(g.model);
  const auto sizes = [&](int i) {
    const TensorProto& tensor = read.graph().initializer(i);
    return tensor.raw_data().size() + static_cast<std::size_t>(tensor.float_data_size());
  };
  EXPECT_EQ(sizes(0), 0U);
  EXPECT_EQ(read.graph().initializer(0).dims_size(), 2);
  EXPECT_EQ(sizes(1), many * sizeof(float)) << "an additive mask is told by its first values";
  EXPECT_EQ(sizes(2), many * sizeof(float)) << "and so is one of ones";
  EXPECT_EQ(sizes(3), 16U);
  EXPECT_EQ(sizes(4), many * sizeof(std::int64_t));
  EXPECT_EQ(sizes(5), 0U);
  EXPECT_EQ(read.graph().node(0).attribute(0).t().raw_data().size(), 0U);
  onnx::ModelProto again = stripped(read);
  EXPECT_EQ(again.SerializeAsString(), read.SerializeAsString()) << "nothing else changes";
}

TEST(OnnxFile, KeepsEverythingThatIsNoWeight) {
  OnnxGraph g;
  g.input("x", {-2, 8});
  g.integers("shape", {2, -1});
  OnnxGraph::set(g.node("Reshape", {"x", "shape"}, {"y"}), "allowzero", std::int64_t{0});
  g.output("y");
  g.model.set_producer_name("a test");
  EXPECT_EQ(stripped(g.model).SerializeAsString(), g.model.SerializeAsString());
}

// Wherever it ends, it is refused with the place, or is a model in which something is missing.
TEST(OnnxFile, RefusesWhatEndsTooEarly) {
  OnnxGraph g;
  g.input("x", {4, 8});
  g.weight("w", {8, 4});
  g.node("MatMul", {"x", "w"}, {"y"});
  g.output("y");
  const std::string text = g.text();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto read = [&] {
      std::istringstream in(text.substr(0, size));
      (void)read_onnx_model(in, static_cast<std::int64_t>(size), "net.onnx");
    };
    const std::string message = refusal(read);
    if (message == "accepted") continue;
    ++refused;
    EXPECT_THAT(message, StartsWith("net.onnx: "));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_GE(refused + 12, text.size()) << "only the version at the end may be missing";
}

TEST(OnnxFile, RefusesOtherFiles) {
  const auto read = [](const std::string& text) {
    return refusal([&] {
      std::istringstream in(text);
      (void)read_onnx(in, static_cast<std::int64_t>(text.size()), "net.onnx");
    });
  };
  EXPECT_EQ(read(""), "net.onnx: is no ONNX model: it is empty");
  EXPECT_THAT(read("{\"pipesim_model\": 1}"), HasSubstr("is no ONNX model, or not all of it"));
  EXPECT_THAT(read(std::string(100, '\0')), HasSubstr("is no ONNX model, or not all of it"));
  EXPECT_EQ(read("\x08\x07"), "net.onnx: is no ONNX model: it has no graph");
  TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { (void)load_onnx_file(folder.path("none.onnx")); }),
              HasSubstr("can't be read: No such file"));
  EXPECT_THAT(refusal([&] { (void)load_onnx_file(folder.path("")); }),
              HasSubstr("is a directory, a file is needed"));
}

// Two gigabytes of zeros, and one more than a protobuf may have: neither is read to its end.
TEST(OnnxFile, RefusesHugeFilesAtOnce) {
  TemporaryFolder folder;
  const std::string path = folder.path("zeros.onnx");
  std::ofstream(path).put('\0');
  std::filesystem::resize_file(path, 2'000'000'000);
  EXPECT_THAT(refusal([&] { (void)load_onnx(path); }),
              HasSubstr("is no ONNX model, or not all of it: what is no protobuf"));
  std::filesystem::resize_file(path, 2'200'000'000);
  EXPECT_THAT(refusal([&] { (void)load_onnx(path); }),
              HasSubstr("it has 2200000000 bytes, allowed: less than 2 GiB"));
}

}  // namespace
}  // namespace pipesim
