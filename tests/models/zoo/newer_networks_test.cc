#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct PublishedNetwork {
  std::string model;
  std::int64_t parameters = 0;
  double giga_multiply_adds = 0;  ///< of one sample; 0: not published
};

// ViT and Swin: torchvision's "num_params" and "_ops" (vit_b_16, vit_l_16, vit_h_14 of 224 pixels; swin_t, s,
// b); DeiT of table 1 as timm counts it. DiT: table 1 and the number that its code prints, of which 294,912
// are positions that are not trained. UNets: as diffusers counts Stable Diffusion's. Mamba: as its code
// counts 130m and 2.8b.
const std::vector<PublishedNetwork> published_networks{
    {"vit-ti16", 5'717'416},          {"vit-s16", 22'050'664},           {"vit-b16", 86'567'656, 17.564},
    {"vit-l16", 304'326'632, 61.555}, {"vit-h14", 632'045'800, 167.295}, {"swin-t", 28'288'354, 4.491},
    {"swin-s", 49'606'258, 8.741},    {"swin-b", 87'768'224, 15.431},    {"dit-xl", 675'129'632, 118.64},
    {"unet-sd15", 859'520'964},       {"unet-sdxl", 2'567'463'684},      {"mamba-130m", 129'135'360},
    {"mamba-2.8b", 2'768'345'600}};

TEST(PublishedNetworks, HaveTheirParameters) {
  for (const PublishedNetwork& published : published_networks)
    EXPECT_EQ(make_zoo_model(published.model).parameter_count(), published.parameters) << published.model;
}

TEST(PublishedNetworks, HaveTheirMultiplyAdds) {
  for (const PublishedNetwork& published : published_networks) {
    if (published.giga_multiply_adds == 0) continue;
    const double counted = multiply_adds(make_zoo_model(published.model + ":batch=1"));
    EXPECT_NEAR(counted / 1e9, published.giga_multiply_adds, 0.01 * published.giga_multiply_adds)
        << published.model;
  }
}

TEST(Dit, DoesNotTrainItsPositions) {
  EXPECT_EQ(make_zoo_model("dit-xl").frozen_parameter_count(), 256 * 1152);
}

// Rows of all tables, see MLPerf's benchmark, and the two stacks: 13-512-256-128 and 479-1024-1024-512-256-1.
TEST(Dlrm, HasTheTablesOfMlperf) {
  const std::int64_t stacks = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128 + 479 * 1024 + 1024 +
                              1024 * 1024 + 1024 + 1024 * 512 + 512 + 512 * 256 + 256 + 256 + 1;
  EXPECT_EQ(make_zoo_model("dlrm").parameter_count(), 187'767'399 * std::int64_t{128} + stacks);
  EXPECT_EQ(count_kind(make_zoo_model("dlrm"), "embedding_bag"), 26);
}

std::vector<std::int64_t> rows_of(const std::string& model) {
  const OperatorGraph graph = make_zoo_model(model);
  std::vector<std::int64_t> rows;
  for (const Operator& op : graph.operators()) {
    if (op.kind == "embedding_bag") rows.push_back(std::get<std::int64_t>(op.attributes.at("rows")));
  }
  return rows;
}

TEST(Dlrm, HasAnyTables) {
  EXPECT_EQ(rows_of("dlrm:tables=24,rows=1000000"), std::vector<std::int64_t>(24, 1000000));
  EXPECT_EQ(rows_of("dlrm:rows=1000+50+7"), (std::vector<std::int64_t>{1000, 50, 7}));
  EXPECT_EQ(rows_of("dlrm:tables=2,rows=100+20"), (std::vector<std::int64_t>{100, 20}));
  const std::vector<std::int64_t> most = rows_of("dlrm:rows=1000");
  EXPECT_EQ(most.size(), 26U);
  EXPECT_EQ(std::ranges::max(most), 1000);
  EXPECT_EQ(std::ranges::min(most), 3) << "MLPerf's smallest table";
  EXPECT_EQ(make_zoo_model("dlrm:rows=0100+020").name(), "dlrm:rows=100+20");
  // One row of all pairs of 25 vectors, beside the vector of the numbers.
  const OperatorGraph graph = make_zoo_model("dlrm:tables=24,rows=1000000");
  const auto top = std::ranges::find(graph.operators(), "top1", &Operator::name);
  ASSERT_NE(top, graph.operators().end());
  EXPECT_EQ(graph.tensor(top->uses[1].tensor).shape, (std::vector<std::int64_t>{25 * 24 / 2 + 128, 1024}));
  EXPECT_EQ(refusal([] { make_zoo_model("dlrm:tables=3,rows=100+20"); }),
            "model \"dlrm:tables=3,rows=100+20\": tables=3, and rows has 2 numbers, allowed: one, or one for "
            "each table");
  EXPECT_EQ(
      refusal([] { make_zoo_model("dlrm:rows=100+"); }),
      "model \"dlrm:rows=100+\": rows must be integers from 2 to 1073741824, joined by +, got \"100+\"");
}

// The published 72,593,920 and 1,543,304,960, and a bias of the keys in each attention, which they do not
// have.
TEST(Whisper, HasTheWeightsThatWerePublished) {
  EXPECT_EQ(make_zoo_model("whisper-base").parameter_count(), 72'593'920 + 18 * 512);
  EXPECT_EQ(make_zoo_model("whisper-large").parameter_count(), 1'543'304'960 + 96 * 1280);
}

TEST(Mamba, LayersRepeat) {
  for (const auto& [label, count] : repeats(make_zoo_model("mamba-130m"))) EXPECT_EQ(count, 24) << label;
}

TEST(Swin, OnlyTheFirstStagesShiftAndMask) {
  const OperatorGraph graph = make_zoo_model("swin-t");
  EXPECT_EQ(count_kind(graph, "biased_attention"), 12);
  EXPECT_EQ(count_kind(graph, "roll"), 4 * 5) << "the odd layers of three stages, there and back, both ways";
  EXPECT_THAT(refusal([] { make_zoo_model("swin-t:image=256"); }),
              StartsWith("model \"swin-t:image=256\": image=256 is not a multiple of 224"));
}

// Front layers 0 to 2 of DeiT-Ti, then layers 3 to 11 of DeiT-S.
TEST(Stitched, TakesThePathThatItsNumberNames) {
  const OperatorGraph graph = make_zoo_model("snnet:stitch=7");
  EXPECT_EQ(count_kind(graph, "attention"), 3 + 9);
  const Operator& stitch = operator_named(graph, "stitch");
  EXPECT_EQ(graph.tensor(stitch.uses[1].tensor).shape, (std::vector<std::int64_t>{192, 384}));
  EXPECT_NO_THROW(operator_named(graph, "front.layer3.query"));
  EXPECT_THROW(operator_named(graph, "front.layer4.query"), std::out_of_range);
  EXPECT_THROW(operator_named(graph, "back.layer3.query"), std::out_of_range);
  EXPECT_NO_THROW(operator_named(graph, "back.layer4.query"));
  EXPECT_EQ(count_kind(make_zoo_model("snnet:stitch=0"), "attention"), 13);
  EXPECT_EQ(count_kind(make_zoo_model("snnet:anchors=s-b,stitch=33"), "attention"), 13);
  EXPECT_THAT(refusal([] { make_zoo_model("snnet:stitch=34"); }), HasSubstr("an integer from 0 to 33"));
}

TEST(Unet, RefusesImagesThatCannotBeHalved) {
  EXPECT_THAT(refusal([] { make_zoo_model("unet-sd15:latent=36"); }), HasSubstr("is not a multiple of 8"));
  EXPECT_THAT(refusal([] { make_zoo_model("unet-sd15:channels=100"); }), HasSubstr("a multiple of 64"));
}

}  // namespace
}  // namespace pipesim
