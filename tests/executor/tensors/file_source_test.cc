#include "executor/tensors/file_source.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "models/zoo/zoo.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Element>
void write_elements(const std::string& path, const std::vector<Element>& elements) {
  write_file(path, std::string_view(reinterpret_cast<const char*>(elements.data()),
                                    elements.size() * sizeof(Element)));
}

class FileSourceTest : public testing::Test {
 protected:
  TensorId tensor(const std::string& name) const {
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      if (graph_.tensor(TensorId(t)).name == name) return TensorId(t);
    }
    throw std::runtime_error("no tensor " + name);
  }
  FileSource source(const std::string& text) {
    return {graph_, {parse_tensor_file(text, graph_)}, synthetic_};
  }
  // Rows [from, to) of the words of a step.
  std::vector<std::int64_t> words(const FileSource& source, std::int64_t from, std::int64_t to,
                                  const StepContext& step) {
    std::vector<std::int64_t> result(static_cast<std::size_t>((to - from) * 3));
    source.fill(Loaded::Content::Data, tensor("words"),
                {reinterpret_cast<std::byte*>(result.data()), DataType::Int64,
                 Box(std::vector<Range>{{from, to}, {0, 3}})},
                step);
    return result;
  }

  TemporaryFolder folder_;
  OperatorGraph graph_ =
      make_zoo_model("gpt:batch=2,sequence=3,positions=3,layers=1,hidden=8,heads=2,vocab=50");
  SyntheticSource synthetic_{graph_};
};

TEST_F(FileSourceTest, SamplesFollowEachOtherAndBeginAgain) {
  std::vector<std::uint8_t> bytes(17);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const std::string path = folder_.path("text.bin");
  write_elements(path, bytes);
  const FileSource s = source("words=" + path + ":uint8@1");  // 16 elements: 5 samples of 3
  StepContext step;
  EXPECT_THAT(words(s, 0, 2, step), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(words(s, 1, 2, step), ElementsAre(4, 5, 6));
  step.step = 2;
  EXPECT_THAT(words(s, 0, 2, step), ElementsAre(13, 14, 15, 1, 2, 3));
  step = {.step = 1, .microbatch = 1, .microbatches = 2};  // samples 6 and 7
  EXPECT_THAT(words(s, 0, 2, step), ElementsAre(4, 5, 6, 7, 8, 9));
}

TEST_F(FileSourceTest, ReadsTheTensorsOwnTypeWhenNoneIsNamed) {
  const std::string path = folder_.path("words");
  write_elements<std::int64_t>(path, {7, 8, 49});
  EXPECT_THAT(words(source("words=" + path), 0, 2, {}), ElementsAre(7, 8, 49, 7, 8, 49));
}

TEST_F(FileSourceTest, LeavesOtherTensorsToTheOtherSource) {
  const std::string path = folder_.path("words");
  write_elements<std::int64_t>(path, {1, 2, 3});
  const FileSource s = source("words=" + path);
  std::vector<std::int64_t> ours(6), theirs(6);
  const auto piece = [](std::vector<std::int64_t>& v) {
    return HostPiece{reinterpret_cast<std::byte*>(v.data()), DataType::Int64,
                     Box(std::vector<Range>{{0, 2}, {0, 3}})};
  };
  s.fill(Loaded::Content::Data, tensor("labels"), piece(ours), {});
  synthetic_.fill(Loaded::Content::Data, tensor("labels"), piece(theirs), {});
  EXPECT_EQ(ours, theirs);
}

TEST(FileSource, ConvertsNumbersToTheTensorsType) {
  const OperatorGraph graph = make_zoo_model("lenet:batch=1");
  const SyntheticSource synthetic(graph);
  const TemporaryFolder folder;
  std::vector<std::uint8_t> image(28 * 28);
  std::iota(image.begin(), image.end(), std::uint8_t{0});
  write_elements(folder.path("image"), image);
  const FileSource s(graph, {parse_tensor_file("images=" + folder.path("image") + ":uint8", graph)},
                     synthetic);
  std::vector<float> row(28);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensor(TensorId(t)).name != "images") continue;
    s.fill(Loaded::Content::Data, TensorId(t),
           {reinterpret_cast<std::byte*>(row.data()), DataType::Float32,
            Box(std::vector<Range>{{0, 1}, {0, 1}, {1, 2}, {0, 28}})},
           {});
  }
  EXPECT_EQ(row.front(), 28);
  EXPECT_EQ(row.back(), 55);
}

TEST_F(FileSourceTest, RefusesWhatItCannotRead) {
  const auto refused = [&](const std::string& text) { return refusal<InputError>([&] { source(text); }); };
  EXPECT_EQ(refused("words"),
            "found \"words\", allowed: TENSOR=FILE[:TYPE][@OFFSET], as labels=text.bin:uint8@1");
  EXPECT_THAT(refused("words=x@-1"), HasSubstr("allowed: TENSOR=FILE"));
  EXPECT_THAT(refused("words=:uint8"), HasSubstr("allowed: TENSOR=FILE"));
  EXPECT_EQ(refused("word=x"), "\"word\" is no data tensor of the model; it has words, positions, labels");
  EXPECT_THAT(refused("words=x:int9"), HasSubstr("int9"));
  const std::string missing = folder_.path("missing");
  EXPECT_EQ(refused("words=" + missing), missing + ": can't be read: No such file or directory");
  EXPECT_THAT(refused("words=" + folder_.path()), HasSubstr("can't be read"));
}

TEST_F(FileSourceTest, RefusesWhatTheFileHolds) {
  const auto refused = [&](const std::string& text) { return refusal<InputError>([&] { source(text); }); };
  const std::string path = folder_.path("data");
  write_elements<std::uint8_t>(path, {});
  EXPECT_EQ(refused("words=" + path + ":uint8"),
            path + ": holds 0 elements of uint8 after the first 0, and a sample of tensor \"words\" has 3");
  write_elements<std::uint8_t>(path, {1, 2, 50, 4});
  EXPECT_EQ(refused("words=" + path + ":uint8@1"),
            path + ": element 2 is 50; tensor \"words\" takes numbers from 0 to 49");
  EXPECT_THAT(refused("words=" + path + ":uint8@2"), HasSubstr("holds 2 elements"));
  EXPECT_EQ(refused("words=" + path + ":float16"),
            path + ": holds 2 elements of float16 after the first 0, and a sample of tensor \"words\" has 3");
  write_elements<float>(path, {1, 2, 3});
  EXPECT_THAT(refused("words=" + path + ":float32"), HasSubstr("needs whole numbers"));
}

}  // namespace
}  // namespace pipesim
