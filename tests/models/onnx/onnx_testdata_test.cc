#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "models/model_json.h"
#include "models/onnx/onnx_model.h"
#include "models/onnx/reader/folding/constant.h"
#include "models/onnx/reader/folding/folding.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

// Debian's libonnx-testdata.
const fs::path kTestdata = "/usr/share/libonnx-testdata/data";

std::vector<fs::path> model_files() {
  std::vector<fs::path> files;
  if (!fs::exists(kTestdata)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(kTestdata)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

template <class Proto>
Proto proto_of(const fs::path& path) {
  Proto proto;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(proto.ParseFromIstream(&in)) << path;
  return proto;
}

bool names_an_operator(const std::string& message, const onnx::ModelProto& model) {
  return std::ranges::any_of(model.graph().node(), [&](const onnx::NodeProto& node) {
    return message.find(node.op_type()) != std::string::npos;
  });
}

TEST(OnnxTestdata, IsReadOrRefusedInOneLineThatNamesAnOperator) {
  const auto files = model_files();
  if (files.empty()) GTEST_SKIP() << "there is no " << kTestdata << " (Debian: libonnx-testdata)";
  std::size_t read = 0;
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    std::vector<NamedSize> sizes;
    for (const std::string& name : load_onnx_sizes(file.string()).names) sizes.push_back({name, 3});
    try {
      const OnnxModel model = load_onnx(file.string(), sizes);
      EXPECT_EQ(parse_model(to_json(model.graph), "again"), model.graph);
      ++read;
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_TRUE(names_an_operator(message, proto_of<onnx::ModelProto>(file))) << message;
    }
  }
  EXPECT_GT(read, 800U);
  EXPECT_GT(files.size(), read) << "some have nothing to run";
}

// Constants are computed as ONNX's authors computed them.
TEST(OnnxTestdata, FoldsToTheResultsOfItsNodes) {
  std::set<std::string> folded;
  std::size_t compared = 0;
  for (const fs::path& file : model_files()) {
    const auto model = proto_of<onnx::ModelProto>(file);
    if (model.graph().node_size() != 1 || model.graph().initializer_size() != 0) continue;
    const onnx::NodeProto& node = model.graph().node(0);
    if (!node.domain().empty() || node.output_size() != 1) continue;
    if (std::ranges::any_of(model.graph().input(), [](const auto& i) { return !i.type().has_tensor_type(); }))
      continue;
    if (file.string().find("BFLOAT16") != std::string::npos) continue;  // its inputs are said to be integers
    const fs::path set = file.parent_path() / "test_data_set_0";
    std::vector<OnnxConstant> constants;
    std::vector<const OnnxConstant*> inputs;
    constants.reserve(static_cast<std::size_t>(node.input_size()));
    int next = 0;
    for (const std::string& input : node.input()) {
      if (input.empty()) {
        inputs.push_back(nullptr);
        continue;
      }
      const fs::path values = set / ("input_" + std::to_string(next++) + ".pb");
      if (!fs::exists(values)) break;
      onnx::TensorProto tensor;
      std::ifstream in(values, std::ios::binary);
      if (!tensor.ParseFromIstream(&in)) break;
      auto constant = constant_of(tensor);
      if (!constant) break;
      constants.push_back(std::move(*constant));
      inputs.push_back(&constants.back());
    }
    if (static_cast<int>(inputs.size()) != node.input_size() || inputs.empty()) continue;
    const auto results = fold(node, model.opset_import(0).version(), inputs);
    if (!results) continue;
    SCOPED_TRACE(file.string());
    const auto expected = constant_of(proto_of<onnx::TensorProto>(set / "output_0.pb"));
    if (!expected) continue;
    ++compared;
    folded.insert(node.op_type());
    const OnnxConstant& got = results->front();
    EXPECT_EQ(got.shape, expected->shape);
    EXPECT_EQ(got.floating(), expected->floating());
    EXPECT_EQ(got.size(), expected->size());
    for (std::size_t i = 0; i < std::min(got.size(), expected->size()); ++i) {
      const double wanted = expected->real(i), tolerance = 1e-3 * std::abs(wanted) + 1e-5;
      if (std::isfinite(wanted)) {
        EXPECT_NEAR(got.real(i), wanted, tolerance) << i;
      } else {
        EXPECT_EQ(std::isnan(got.real(i)), std::isnan(wanted)) << i;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "there is no " << kTestdata << " (Debian: libonnx-testdata)";
  EXPECT_GT(compared, 200U);
  EXPECT_GT(folded.size(), 40U);
}

}  // namespace
}  // namespace pipesim
