#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "executor/tensors/fill_elements.h"
#include "models/onnx/onnx_model.h"
#include "models/onnx/reader/folding/constant.h"
#include "tests/executor/equality_case.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

// Debian's libonnx-testdata: models, inputs, and what ONNX's authors computed from them.
const fs::path kTestdata = "/usr/share/libonnx-testdata/data";

using Values = std::map<std::string, OnnxConstant>;

template <class Proto>
Proto read_proto(const fs::path& path) {
  Proto proto;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(proto.ParseFromIstream(&in)) << path;
  return proto;
}

// input_0.pb, input_1.pb, … of a model's first set, by the names of the graph's inputs or results.
template <class Names>
Values values_of(const fs::path& folder, const std::string& kind, const Names& names) {
  Values values;
  int i = 0;
  for (const std::string& name : names) {
    const fs::path file = folder / "test_data_set_0" / (kind + "_" + std::to_string(i++) + ".pb");
    if (!fs::exists(file)) continue;
    const auto tensor = read_proto<onnx::TensorProto>(file);
    if (auto constant = constant_of(tensor)) values[name] = std::move(*constant);
  }
  return values;
}

// Inputs and weights of a file; anything else as SyntheticSource has it.
class FileValues : public TensorSource {
 public:
  FileValues(const OperatorGraph& graph, const Values& values)
      : graph_(graph), values_(values), rest_(graph) {}

  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    const Tensor& t = graph_.tensor(tensor);
    const auto given = values_.find(t.name);
    const bool wanted = content == Loaded::Content::Data || content == Loaded::Content::Weight;
    if (!wanted || given == values_.end()) return rest_.fill(content, tensor, piece, step);
    const OnnxConstant& c = given->second;
    // A linear lists its weight by columns, where the file has it by rows.
    const bool turned = t.kind == TensorKind::Weight && t.shape.size() == 2 && c.shape != t.shape;
    const auto place = [&](std::int64_t at) {
      const std::int64_t columns = turned ? t.shape[1] : 1, rows = turned ? t.shape[0] : 1;
      return static_cast<std::size_t>(turned ? at % columns * rows + at / columns : at);
    };
    fill_elements(
        piece, t, [&](std::int64_t at) { return static_cast<float>(c.real(place(at))); },
        [&](std::int64_t at) { return c.integer(place(at)); });
  }

 private:
  const OperatorGraph& graph_;
  const Values& values_;
  SyntheticSource rest_;
};

// What makes a result another than ONNX's: statistics of the batch, random numbers, weights that are not
// trained here in the same way.
bool computes_something_else(const OperatorGraph& graph) {
  return std::ranges::any_of(graph.operators(), [](const Operator& op) {
    return op.kind == "batch_norm" || op.kind == "dropout" || op.kind == "opaque" ||
           op.kind == "cross_entropy" || op.kind == "resize";
  });
}

// Another type than tests have values for, or another epsilon than kernels have.
bool cannot_be_run(const OperatorGraph& graph, const fs::path& file) {
  if (file.string().find("epsilon") != std::string::npos) return true;
  return std::ranges::any_of(graph.tensors(), [](const Tensor& t) {
    return t.type != DataType::Float32 && t.type != DataType::Int64;
  });
}

// All inputs of the model are known, and indices can be what the file says.
bool all_known(const OperatorGraph& graph, const Values& values) {
  const auto bounds = index_bounds(graph);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& t = graph.tensors()[i];
    if (t.kind != TensorKind::Data && t.kind != TensorKind::Weight) continue;
    const auto given = values.find(t.name);
    if (given == values.end()) return false;
    const OnnxConstant& c = given->second;
    OnnxShape turned = t.shape;
    std::ranges::reverse(turned);
    if (c.shape != t.shape && (t.kind != TensorKind::Weight || c.shape != turned)) return false;
    for (std::size_t v = 0; t.type == DataType::Int64 && v < c.size(); ++v) {
      if (c.integer(v) < 0 || c.integer(v) >= bounds[i]) return false;
    }
  }
  return true;
}

struct Compared {
  int results = 0;
  std::set<std::string> kinds;
};

void compare_results(const fs::path& file, Compared& compared) {
  const auto proto = read_proto<onnx::ModelProto>(file);
  std::optional<OnnxModel> model;
  try {
    model = load_onnx(file.string());
  } catch (const InputError&) {
    return;  // refused; another test looks at how
  }
  const OperatorGraph& graph = model->graph;
  if (!model->notes.empty() || computes_something_else(graph) || cannot_be_run(graph, file)) return;
  std::vector<std::string> inputs, results;
  Values values;
  for (const auto& tensor : proto.graph().initializer()) {
    if (auto constant = constant_of(tensor)) values[tensor.name()] = std::move(*constant);
  }
  for (const auto& input : proto.graph().input()) {
    if (!values.contains(input.name())) inputs.push_back(input.name());
  }
  for (const auto& output : proto.graph().output()) results.push_back(output.name());
  values.merge(values_of(file.parent_path(), "input", inputs));
  const Values expected = values_of(file.parent_path(), "output", results);
  if (!all_known(graph, values)) return;
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(1);
  const FileValues source(graph, values);
  UnsplitReference reference(graph, costs, {}, unpinned(), source, world.worlds(), 7);
  reference.step();
  for (const auto& [output, tensor] : model->results) {
    const auto wanted = expected.find(output);
    if (wanted == expected.end()) continue;
    for (const auto& [id, got] : reference.values().outputs) {
      if (graph.tensor(id).name != tensor) continue;
      ASSERT_EQ(got.size(), wanted->second.size()) << file;
      double most = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isfinite(wanted->second.real(i))) most = std::max(most, std::abs(wanted->second.real(i)));
      }
      ++compared.results;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double value = wanted->second.real(i);
        if (!std::isfinite(value)) continue;
        ASSERT_NEAR(got[i], value, 2e-3 * most + 1e-5) << file << " " << output << " at " << i;
      }
    }
  }
  for (const Operator& op : graph.operators()) compared.kinds.insert(op.kind);
}

TEST(OnnxOutputs, AreThoseOfOnnxsOwnTests) {
  if (!fs::exists(kTestdata)) GTEST_SKIP() << "there is no " << kTestdata << " (Debian: libonnx-testdata)";
  Compared compared;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kTestdata)) {
    if (entry.path().filename() == "model.onnx") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    try {
      compare_results(file, compared);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::string kinds;
  for (const std::string& kind : compared.kinds) kinds += " " + kind;
  RecordProperty("kinds", kinds);
  EXPECT_GE(compared.results, 200);
  EXPECT_GE(compared.kinds.size(), 40U) << kinds;
}

}  // namespace
}  // namespace pipesim
