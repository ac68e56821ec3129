#include "models/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/zoo/decoder/decoder_layers.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const char* const all_names =
    "mlp, lenet, alexnet, vgg16, vgg19, resnet50, resnet101, resnet152, wide-resnet50-2, wide-resnet101-2, "
    "inception-v3, densenet121, amoebanet36, rnntc, rnnlm, nmt, gnmt8, gnmt16, "
    "bert-base, bert-large, bert48, xlnet36, t5-base, t5-large, t5-3b, t5-11b, whisper-base, whisper-large, "
    "gpt, gpt2, gpt3-125m, "
    "gpt3-350m, gpt3-760m, gpt3-1.3b, gpt3-2.7b, gpt3-6.7b, "
    "gpt3-13b, "
    "gpt3-175b, bloom-176b, llama, llama3-8b, llama3-70b, llama3-405b, qwen3-8b, mixtral-8x7b, "
    "mixtral-8x22b, qwen3-235b, deepseek-v3, decoder, mamba-130m, mamba-370m, mamba-790m, mamba-1.4b, "
    "mamba-2.8b, "
    "vit-ti16, vit-s16, vit-b16, vit-l16, vit-h14, swin-t, swin-s, swin-b, swin-l, snnet, unet-sd15, "
    "unet-sdxl, dit-xl, dlrm";

/// Sizes small enough to execute, for whichever of these options a model has.
std::string reduced(const ZooModel& model) {
  const std::map<std::string, std::string> small = {
      {"batch", "2"},      {"steps", "2"},        {"layers", "2"},       {"hidden", "16"},
      {"embedded", "12"},  {"vocab", "50"},       {"heads", "4"},        {"kv_heads", "2"},
      {"ffn", "24"},       {"sequence", "6"},     {"positions", "8"},    {"classes", "3"},
      {"features", "7"},   {"target", "5"},       {"head_width", "6"},   {"filters", "16"},
      {"channels", "8"},   {"rotary_width", "4"}, {"value_width", "5"},  {"query_latent", "7"},
      {"key_latent", "9"}, {"expert_ffn", "10"},  {"dense_layers", "1"}, {"latent", "8"},
      {"tokens", "4"},     {"window", "1"},       {"rows", "50"},        {"states", "3"}};
  std::string text = model.name;
  for (const ZooOption& option : model.options) {
    if (model.name == "decoder" && !layers_use(option.key, "F", "D")) continue;
    std::string value = option.key == "image" ? std::to_string(static_cast<int>(option.lowest)) : "";
    if (const auto found = small.find(option.key); found != small.end()) {
      value = std::to_string(std::max(std::stoll(found->second), static_cast<long long>(option.lowest)));
    }
    if (!value.empty()) text += (text == model.name ? ":" : ",") + option.key + "=" + value;
  }
  return text;
}

bool has_samples(const Operator& op) {
  return std::ranges::any_of(op.factors, [](const Factor& f) { return f.kind == FactorKind::Sample; });
}

/// Data whose first dim is the batch, or what an operator with samples made.
bool reads_samples(const OperatorGraph& graph, const Operator& op) {
  return std::ranges::any_of(op.uses, [&](const TensorUse& use) {
    const Tensor& tensor = graph.tensor(use.tensor);
    if (use.role != Role::Input && use.role != Role::Index) return false;
    return tensor.producer.valid() ? has_samples(graph.op(tensor.producer))
                                   : tensor.shape.at(0) == graph.batch();
  });
}

class EveryModel : public testing::TestWithParam<std::string> {
 protected:
  const ZooModel& model() const {
    return *std::find_if(zoo_models().begin(), zoo_models().end(),
                         [](const ZooModel& m) { return m.name == GetParam(); });
  }
};

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const ZooModel& model : zoo_models()) list.push_back(model.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(names()), [](const auto& name) {
  std::string text = name.param;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return text;
});

TEST_P(EveryModel, BuildsAtItsDefaults) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  EXPECT_EQ(graph.name(), GetParam());
  EXPECT_GT(graph.parameter_count(), 0);
  EXPECT_GT(graph.forward_flops().value, 0);
}

TEST_P(EveryModel, BuildsAtReducedSizes) {
  const OperatorGraph graph = make_zoo_model(reduced(model()));
  EXPECT_EQ(graph.batch(), 2);
  EXPECT_LT(graph.parameter_count(), make_zoo_model(GetParam()).parameter_count());
}

TEST_P(EveryModel, EqualTextsGiveEqualGraphsAndNamesRebuildThem) {
  const OperatorGraph graph = make_zoo_model(reduced(model()));
  EXPECT_EQ(graph, make_zoo_model(reduced(model())));
  EXPECT_EQ(graph, make_zoo_model(graph.name()));
  EXPECT_EQ(graph.fingerprint(), make_zoo_model(graph.name()).fingerprint());
}

TEST_P(EveryModel, EndsInALoss) {
  const OperatorGraph graph = make_zoo_model(reduced(model()));
  int unread = 0;
  for (const Operator& op : graph.operators()) {
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output || !graph.consumers(use.tensor).empty()) continue;
      if (op.kind == "lstm_cell") continue;  // the last step's states
      if (op.kind == "split") continue;  // a piece that was cut off; of every split one is read, see below
      ++unread;
      const bool of_classes = op.kind == "cross_entropy";
      EXPECT_TRUE(of_classes || op.kind == "squared_error" || op.kind == "binary_cross_entropy") << op.name;
      EXPECT_EQ(graph.tensor(op.uses[1].tensor).type == DataType::Int64, of_classes) << op.name;
    }
  }
  EXPECT_GE(unread, 1);
}

TEST_P(EveryModel, ReadsAPieceOfEverySplit) {
  const OperatorGraph graph = make_zoo_model(reduced(model()));
  for (const Operator& op : graph.operators()) {
    if (op.kind != "split") continue;
    EXPECT_TRUE(std::any_of(op.uses.begin(), op.uses.end(), [&](const TensorUse& use) {
      return use.role == Role::Output && !graph.consumers(use.tensor).empty();
    })) << op.name;
  }
}

TEST_P(EveryModel, TakesTheDataType) {
  const OperatorGraph graph = make_zoo_model(reduced(model()) + ",dtype=bfloat16");
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Weight) continue;
    EXPECT_EQ(tensor.type, DataType::BFloat16) << tensor.name;
  }
}

TEST_P(EveryModel, BatchScalesTheWork) {
  const OperatorGraph two = make_zoo_model(reduced(model()));
  std::string text = reduced(model());
  text.replace(text.find("batch=2"), 7, "batch=6");
  const double expected = 3 * forward_flops(two, has_samples);
  EXPECT_NEAR(forward_flops(make_zoo_model(text), has_samples), expected, 1e-9 * expected);
}

// A microbatch is a part of every operator's only sample factor. Learned tensors, and what is made of them
// alone, have none.
TEST_P(EveryModel, OperatorsRunOverTheWholeBatch) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  for (const Operator& op : graph.operators()) {
    std::vector<std::int64_t> samples;
    for (const Factor& factor : op.factors) {
      if (factor.kind == FactorKind::Sample) samples.push_back(factor.size);
    }
    if (samples.empty() && !reads_samples(graph, op)) continue;
    EXPECT_EQ(samples, std::vector<std::int64_t>{graph.batch()}) << op.name;
  }
}

TEST_P(EveryModel, DefaultsAreAllowedAndKeysUnique) {
  std::set<std::string> keys;
  for (const ZooOption& option : model().options) {
    EXPECT_EQ(option.checked(option.default_value), option.default_value) << option.key;
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
  }
  EXPECT_TRUE(keys.contains("batch") && keys.contains("dtype"));
}

TEST(Zoo, RefusesUnknownModels) {
  EXPECT_EQ(refusal([] { make_zoo_model("resnet5:batch=3"); }),
            std::string("unknown model \"resnet5\" (did you mean \"resnet50\"?); the zoo has ") + all_names);
  EXPECT_EQ(refusal([] { make_zoo_model(""); }), std::string("unknown model \"\"; the zoo has ") + all_names);
  EXPECT_EQ(refusal([] { zoo_description("transmogrifier"); }),
            std::string("unknown model \"transmogrifier\"; the zoo has ") + all_names);
}

TEST(Zoo, RefusesBadOptionsWithTheWholeText) {
  EXPECT_EQ(refusal([] { make_zoo_model("lenet:"); }),
            "model \"lenet:\": expected key=value after the colon");
  EXPECT_EQ(refusal([] { make_zoo_model("lenet:batches=2"); }),
            "model \"lenet:batches=2\": unknown option \"batches\" (did you mean \"batch\"?); "
            "allowed: batch, dtype, image, classes");
  EXPECT_EQ(
      refusal([] { make_zoo_model("resnet50:batch_norm=locale"); }),
      "model \"resnet50:batch_norm=locale\": batch_norm must be one of synchronised, local, got \"locale\" "
      "(did you mean \"local\"?)");
  EXPECT_EQ(refusal([] { make_zoo_model("gpt2:dropout=nan"); }),
            "model \"gpt2:dropout=nan\": dropout must be a number from 0 to 0.99, got \"nan\"");
}

TEST(Zoo, KnowsItsNames) {
  EXPECT_TRUE(names_zoo_model("gpt3-1.3b"));
  EXPECT_TRUE(names_zoo_model("gpt3-1.3b:batch=no"));
  EXPECT_FALSE(names_zoo_model("models/gpt2.json"));
  EXPECT_FALSE(names_zoo_model(""));
}

TEST(Zoo, ListsEveryModelOnALine) {
  const std::string text = zoo_listing();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(zoo_models().size()));
  EXPECT_THAT(text, HasSubstr("resnet50          ResNet-50, bottleneck blocks with shortcuts\n"));
}

TEST(Zoo, DescribesAModel) {
  EXPECT_EQ(zoo_description("lenet"),
            "lenet: LeNet-5 for 28x28 grey images\n"
            "Source: LeCun et al., Proceedings of the IEEE 86(11), 1998\n"
            "Options:\n"
            "  batch=64               samples per iteration, over all devices: for one device, the network "
            "is small; "
            "an integer from 1 to 1048576\n"
            "  dtype=float32          type of activations and weights; one of float32, float16, bfloat16\n"
            "  image=28               rows and columns of an image, one channel; an integer from 12 to 2048\n"
            "  classes=10             labels; an integer from 2 to 1000000\n");
}

}  // namespace
}  // namespace pipesim
