#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "models/model_json.h"
#include "models/onnx/onnx_writer.h"
#include "models/operator_kind.h"
#include "models/zoo/zoo.h"
#include "sim/base/files.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tests/tools/two_layers.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Models, ShowsAnOperatorAsLoops) {
  const std::vector<std::string> asked{"models", "gpt3-1.3b", "--operator", "layer1.ffn1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return pipesim_run(more);
  };
  const Outcome shown = with({"--split", "b/2 o/4"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, HasSubstr("# on device b0 * 4 + o0: one shard of 8, 551 GFLOP\n"));
  EXPECT_THAT(shown.out, HasSubstr("layer1.ffn1[b, s, o] += layer1.ffn_norm[b, s, i] * layer1.ffn1.w[i, o]"));
  EXPECT_THAT(shown.out, HasSubstr("gradient of layer1.ffn1.w"));
  const auto json = nlohmann::json::parse(with({"--split", "b/2 o/4", "--json"}).out);
  EXPECT_EQ(json["shards"], 8);
  EXPECT_EQ(json["loops"][0]["variable"], "b0");
  EXPECT_THAT(with({}).out, HasSubstr("layer1.ffn1 (linear), whole"));
  EXPECT_THAT(with({"--split", "b/3"}).err, HasSubstr("degree 3 does not divide factor b of size 64"));
  EXPECT_THAT(with({"--split", "c/2"}).err, HasSubstr("allowed: b/N, s/N, i/N, o/N"));
  EXPECT_THAT(pipesim_run({"models", "gpt3-1.3b", "--operator", "layer1.fn1"}).err,
              HasSubstr("unknown operator \"layer1.fn1\""));
  EXPECT_EQ(pipesim_run({"models", "gpt3-1.3b", "--split", "b/2"}).status, 2);
}

SLOW_TEST(Models, ListsTheWholeZoo) {
  const Outcome outcome = pipesim_run({"models"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("name "));
  for (const ZooModel& model : zoo_models()) {
    EXPECT_THAT(outcome.out, HasSubstr("\n" + model.name + " "));
    EXPECT_THAT(outcome.out, HasSubstr(model.description));
  }
}

// Parameters by hand: 784·512 + 512 = 401,920 and 512·10 + 10 = 5,130; 4 bytes each. Multiplying takes
// 2·64·784·512 = 51.4 M and 2·64·512·10 = 655 k operations.
TEST(Models, ShowsTheOperatorsOfAFile) {
  const TemporaryFolder folder;
  const Outcome outcome = pipesim_run({"models", folder.file("two.json", kTwoLayers), "--operators"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("two-layers\n\n"
                                      "  batch        64\n"
                                      "  operators    3\n"
                                      "  parameters   407 k (1.63 MB)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  operator  kind           parameters     forward  factors\n"
                                     "  fc1       linear              402 k  51.4 MFLOP  b=64 i=784 o=512\n"
                                     "  fc2       linear             5.13 k   656 kFLOP  b=64 i=512 o=10\n"
                                     "  loss      cross_entropy           0 "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("Options")));
}

TEST(Models, ShowsAZooModelWithItsOptions) {
  const Outcome outcome = pipesim_run({"models", "vgg16:batch=32"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("vgg16:batch=32: VGG-16"));
  EXPECT_THAT(outcome.out, HasSubstr("\nSource: "));
  EXPECT_THAT(outcome.out, HasSubstr("\n  batch        32\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  parameters   138 M ("));
  EXPECT_THAT(outcome.out, HasSubstr("\n  conv2d "));
  EXPECT_THAT(outcome.out, HasSubstr("\nOptions, as vgg16:key=value,…\n  batch="));
}

TEST(Models, SharedWeightsCountOnce) {
  // Each step of an unrolled network uses the same weights, so twice the steps have no more parameters.
  const std::int64_t parameters = make_zoo_model("rnnlm:steps=4").parameter_count();
  EXPECT_THAT(pipesim_run({"models", "rnnlm:steps=8"}).out,
              HasSubstr("\n  parameters   " + pretty_count(parameters) + " ("));
}

TEST(Models, ShowsTheTimesOfAProfile) {
  const TemporaryFolder folder;
  const std::string profile = folder.file(
      "graph.txt",
      "node1 -- Linear(10, 5) -- forward_compute_time=1.500, backward_compute_time=3.000, "
      "activation_size=2048.000, parameter_size=200.000\n"
      "node2 -- ReLU() -- forward_compute_time=0.500, backward_compute_time=1.000, activation_size=2048.000, "
      "parameter_size=0.000\n"
      "\tnode1 -- node2\n");
  const Outcome outcome = pipesim_run({"models", profile + ":batch=16"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n  batch        16\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  measured     forward 2 ms, backward 4 ms\n"));
}

TEST(Models, JsonIsAModelFileOfTheSameModel) {
  const Outcome outcome = pipesim_run({"models", "lenet:batch=4", "--json"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(parse_model(outcome.out, "stdout"), make_zoo_model("lenet:batch=4"));
  const Outcome list = pipesim_run({"models", "--json"});
  EXPECT_THAT(list.out, StartsWith("{\n  \"models\": [\n    {\n      \"name\": \""));
}

TEST(Models, WritesOnnx) {
  const TemporaryFolder folder;
  const std::string file = folder.file("lenet.onnx", "");
  const Outcome outcome = pipesim_run({"models", "lenet:batch=4", "--onnx", file});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(file + ": lenet:batch=4 as ONNX, 8 operators, "));
  EXPECT_EQ(read_file(file), to_onnx(make_zoo_model("lenet:batch=4")));
  EXPECT_EQ(pipesim_run({"models", "--onnx", file}),
            (Outcome{2, "", "pipesim: models: --onnx needs MODEL\n"}));
  EXPECT_EQ(pipesim_run({"models", "lenet", "--onnx", file, "--json"}),
            (Outcome{2, "", "pipesim: models: --onnx and --json exclude each other\n"}));
  EXPECT_EQ(pipesim_run({"models", "--kinds", "--onnx", file}),
            (Outcome{2, "", "pipesim: models: --kinds and --onnx exclude each other\n"}));
}

TEST(Models, RefusesWhatIsNoModel) {
  const Outcome outcome = pipesim_run({"models", "vgg61"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              StartsWith("pipesim: unknown model \"vgg61\" (did you mean \"vgg16\"?); allowed: "));
  EXPECT_EQ(pipesim_run({"models", "vgg16:batch=0"}).status, 1);
  EXPECT_EQ(
      pipesim_run({"models", "vgg16", "vgg19"}),
      (Outcome{2, "",
               "pipesim: models: unexpected \"vgg19\" (it takes MODEL); see \"pipesim help models\"\n"}));
}

TEST(Models, ListsAllKindsOfOperators) {
  const Outcome outcome = pipesim_run({"models", "--kinds"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  for (const OperatorKind& kind : operator_kinds()) {
    EXPECT_THAT(outcome.out, HasSubstr("\n  " + kind.name + " "));
    EXPECT_THAT(outcome.out, HasSubstr("  " + kind.help + "\n"));
    const Outcome one = pipesim_run({"models", "--kinds", kind.name});
    EXPECT_EQ(one.status, 0);
    EXPECT_THAT(one.out, StartsWith(kind.name + ": " + kind.help + "\n\n  inputs  " + kind.inputs + "\n"));
    for (const AttributeSchema& attribute : kind.attributes)
      EXPECT_THAT(one.out, HasSubstr("\n  " + attribute.name + " ")) << kind.name;
    EXPECT_EQ(pipesim_run({"models", "--kinds=" + kind.name}), one);
  }
}

// Factors and tensors by hand: y[b, s, o] = x[b, s, i] w[i, o] + b[o].
TEST(Models, ShowsAKindOfOperators) {
  const Outcome outcome = pipesim_run({"models", "--kinds", "linear"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n  bias              true     adds a bias over the output dims "));
  EXPECT_THAT(
      outcome.out,
      HasSubstr("\n  factor  in the example  kind       may be split      tensors that are split with it\n"
                "  b       64              sample     into equal parts  x, linear1\n"
                "  s       128             attribute  into any parts    x, linear1\n"
                "  i       512             reduction  into equal parts  x, linear1.w\n"
                "  o       2048            parameter  into equal parts  linear1.w, linear1.b, linear1\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  tensor     role    dimensions  in the example\n"
                                     "  x          input   b, s, i     [64, 128, 512]\n"
                                     "  linear1.w  weight  i, o        [512, 2048]\n"
                                     "  linear1.b  weight  o           [2048]\n"
                                     "  linear1    output  b, s, o     [64, 128, 2048]\n"));
  EXPECT_THAT(
      outcome.out,
      HasSubstr(
          "\nIn a model file:\n\n"
          "  \"inputs\": [{\"name\": \"x\", \"shape\": [64, 128, 512]}],\n"
          "  \"operators\": [{\"name\": \"linear1\", \"kind\": \"linear\", \"inputs\": [\"x\"], \"out\": "
          "[2048]}]\n"));
}

TEST(Models, ShowsKindsAsJson) {
  const auto all = nlohmann::json::parse(pipesim_run({"models", "--kinds", "--json"}).out);
  EXPECT_EQ(all["kinds"].size(), operator_kinds().size());
  const auto one = nlohmann::json::parse(pipesim_run({"models", "--kinds", "dropout", "--json"}).out);
  EXPECT_EQ(one["attributes"][0]["attribute"], "rate");
  EXPECT_EQ(one["attributes"][0]["default"], "needed");
  EXPECT_EQ(one["example"]["operators"][0]["rate"], 0.1);
}

TEST(Models, RefusesUnknownKinds) {
  const Outcome outcome = pipesim_run({"models", "--kinds", "linaer"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      outcome.err,
      StartsWith(
          "pipesim: unknown operator kind \"linaer\" (did you mean \"linear\"?), allowed: one of the "));
  EXPECT_EQ(pipesim_run({"models", "--kinds=linear", "relu"}),
            (Outcome{2, "", "pipesim: models: --kinds=linear and \"relu\": one kind at a time\n"}));
  EXPECT_EQ(pipesim_run({"models", "--kinds", "--operators"}),
            (Outcome{2, "", "pipesim: models: --kinds and --operators exclude each other\n"}));
  EXPECT_EQ(pipesim_run({"models", "--markdown", "lenet"}),
            (Outcome{2, "", "pipesim: models: --markdown takes no MODEL\n"}));
}

}  // namespace
}  // namespace pipesim
