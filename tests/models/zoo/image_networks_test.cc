#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

struct Published {
  std::string model;
  std::int64_t parameters = 0;
  double multiply_adds = 0;  ///< of one image
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.model; }

class PublishedImageNetwork : public testing::TestWithParam<Published> {};

// Parameters and GFLOPS (multiply-adds, in truth) as torchvision lists them with its weights, "num_params"
// and "_ops". Inception's 27,161,264 there include the auxiliary classifier, its 5.71 G do not. LeNet-5: by
// hand, 156 + 2,416 + 48,120 + 10,164 + 850 parameters, 117,600 + 240,000 + 48,000 + 10,080 + 840
// multiply-adds.
INSTANTIATE_TEST_SUITE_P(
    Zoo, PublishedImageNetwork,
    testing::Values(Published{"lenet", 61'706, 416'520}, Published{"alexnet", 61'100'840, 0.714e9},
                    Published{"vgg16", 138'357'544, 15.470e9}, Published{"vgg19", 143'667'240, 19.632e9},
                    Published{"resnet50", 25'557'032, 4.089e9}, Published{"resnet101", 44'549'160, 7.801e9},
                    Published{"resnet152", 60'192'808, 11.514e9},
                    Published{"wide-resnet50-2", 68'883'240, 11.398e9},
                    Published{"wide-resnet101-2", 126'886'696, 22.753e9},
                    Published{"densenet121", 7'978'856, 2.834e9},
                    Published{"inception-v3", 23'834'568, 5.713e9}));

TEST_P(PublishedImageNetwork, HasItsParameters) {
  EXPECT_EQ(make_zoo_model(GetParam().model).parameter_count(), GetParam().parameters);
}

/// What biases and fused activations add to the products: much only where there are few products, as in
/// LeNet.
double slack(const std::string& model) { return model == "lenet" ? 0.06 : 0.01; }

TEST_P(PublishedImageNetwork, HasItsMultiplyAdds) {
  const OperatorGraph graph = make_zoo_model(GetParam().model + ":batch=1");
  EXPECT_NEAR(multiply_adds(graph), GetParam().multiply_adds,
              slack(GetParam().model) * GetParam().multiply_adds);
}

// All operations: norms, activations and pools add 2.3 % in DenseNet, about 1 % in ResNets, next to nothing
// elsewhere.
TEST_P(PublishedImageNetwork, SpendsLittleBesideMatrixProducts) {
  const OperatorGraph graph = make_zoo_model(GetParam().model + ":batch=1");
  EXPECT_GT(graph.forward_flops().value, 2 * multiply_adds(graph));
  EXPECT_LT(graph.forward_flops().value, 2 * 1.03 * multiply_adds(graph));
}

TEST(Inception, RefusesImagesTooSmallForTheAuxiliaryClassifier) {
  EXPECT_THAT(
      refusal([] { make_zoo_model("inception-v3:image=75,auxiliary=yes"); }),
      StartsWith("model \"inception-v3:image=75,auxiliary=yes\": operator \"auxiliary.pool\" (pool2d): "));
}

TEST(Inception, AuxiliaryClassifierHasItsParametersAndLoss) {
  const OperatorGraph graph = make_zoo_model("inception-v3:auxiliary=yes");
  EXPECT_EQ(graph.parameter_count(), 27'161'264);
  EXPECT_EQ(count_kind(graph, "cross_entropy"), 2);
}

TEST(Inception, OnlyTheTwoEqualBlocksRepeat) {
  for (const auto& [label, count] : repeats(make_zoo_model("inception-v3"))) {
    EXPECT_EQ(count, 2) << label;
    EXPECT_EQ(label.substr(0, 14), "mixed6.block#.") << label;
  }
}

TEST(ResNet, BlocksOfAStageRepeatExceptTheFirst) {
  const auto counts = repeats(make_zoo_model("resnet101"));
  EXPECT_EQ(counts.at("stage1.block#.conv2.conv"), 2);
  EXPECT_EQ(counts.at("stage3.block#.relu"), 22);
  EXPECT_FALSE(counts.contains("stage3.block#.shortcut.conv"));
}

TEST(ResNet, ShortcutsJoinEveryBlock) { EXPECT_EQ(count_kind(make_zoo_model("resnet50"), "add"), 16); }

// Zheng et al. (Alpa), OSDI 2022, wide ResNets named by their size; channels and factors from its
// repository, benchmark/alpa/suite_wresnet.py, 1024 classes.
TEST(WideResNet, HasTheNominalSizesOfAlpasEvaluation) {
  const std::map<std::string, double> nominal = {
      {"wide-resnet50-2:channels=160", 250e6},         {"wide-resnet50-2:channels=224", 500e6},
      {"wide-resnet50-2:channels=320", 1e9},           {"wide-resnet50-2:channels=448", 2e9},
      {"wide-resnet50-2:channels=640", 4e9},           {"wide-resnet50-2:channels=320,width=16", 6.8e9},
      {"wide-resnet101-2:channels=320,width=16", 13e9}};
  for (const auto& [model, count] : nominal) {
    const OperatorGraph graph = make_zoo_model(model + ",widened=3x3,classes=1024,batch=16");
    EXPECT_NEAR(static_cast<double>(graph.parameter_count()), count, 0.04 * count) << model;
  }
}

TEST(ResNet, BatchNormStatisticsAreAnOption) {
  const auto statistics = [](const std::string& model) {
    return std::get<std::string>(
        operator_named(make_zoo_model(model), "stage1.block2.conv1.norm").attributes.at("statistics"));
  };
  EXPECT_EQ(statistics("resnet50"), "synchronised");
  EXPECT_EQ(statistics("resnet50:batch_norm=local"), "local");
}

TEST(ResNet, ClassesAndImageSizeChangeTheEnds) {
  const OperatorGraph graph = make_zoo_model("resnet50:classes=10,image=32");
  EXPECT_EQ(graph.parameter_count(), 25'557'032 - 990 * 2049);
}

TEST(Vgg, ConvolutionsOfAStageRepeatExceptTheFirst) {
  EXPECT_THAT(repeats(make_zoo_model("vgg19")),
              UnorderedElementsAre(Pair("stage1.layer#.conv", 1), Pair("stage2.layer#.conv", 1),
                                   Pair("stage3.layer#.conv", 3), Pair("stage4.layer#.conv", 3),
                                   Pair("stage5.layer#.conv", 3)));
}

TEST(Vgg, DropoutOfRateZeroIsLeftOut) {
  EXPECT_EQ(count_kind(make_zoo_model("vgg16"), "dropout"), 2);
  EXPECT_EQ(count_kind(make_zoo_model("vgg16:dropout=0"), "dropout"), 0);
}

TEST(AlexNet, RefusesImagesTooSmallForItsPools) {
  EXPECT_EQ(refusal([] { make_zoo_model("alexnet:image=62"); }),
            "model \"alexnet:image=62\": image must be an integer from 63 to 2048, got \"62\"");
}

TEST(Mlp, HasItsParametersAndRepeats) {
  const OperatorGraph graph = make_zoo_model("mlp:features=20,layers=3,hidden=30,classes=7,batch=8");
  EXPECT_EQ(graph.parameter_count(), 20 * 30 + 30 + 2 * (30 * 30 + 30) + 30 * 7 + 7);
  EXPECT_DOUBLE_EQ(forward_flops(graph, [](const Operator& op) { return op.kind == "linear"; }),
                   // products, biases, relu
                   2.0 * 8 * (20 * 30 + 2 * 30 * 30 + 30 * 7) + 8 * (3 * 30 + 7) + 8 * 3 * 30);
  EXPECT_THAT(repeats(graph), UnorderedElementsAre(Pair("layer#.linear", 2)));
}

TEST(DenseNet, GrowsBy32ChannelsALayer) {
  const OperatorGraph graph = make_zoo_model("densenet121:batch=2");
  const Operator& norm = operator_named(graph, "norm");
  EXPECT_EQ(graph.tensor(norm.uses[0].tensor).shape, (std::vector<std::int64_t>{2, 1024, 7, 7}));
}

}  // namespace
}  // namespace pipesim
