#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/images/vision_transformer.h"

namespace pipesim {

namespace {

constexpr std::int64_t kLayers = 12;  // of each anchor

/// Layers 0 to `last` of the front, then those of the back from `first` on.
struct Stitch {
  std::int64_t last = 0, first = 0;
};

/// In the order of windows of two layers that slide over the anchors by one: each window adds the pairs of
/// its layers that earlier ones do not have (Pan et al., CVPR 2023, section 3.3).
std::vector<Stitch> all_stitches() {
  std::vector<Stitch> stitches{{0, 0}};
  for (std::int64_t i = 1; i < kLayers; ++i) {
    for (const Stitch& stitch : {Stitch{i - 1, i}, Stitch{i, i - 1}, Stitch{i, i}})
      stitches.push_back(stitch);
  }
  return stitches;
}

VisionSizes anchor(const std::string& size) {
  if (size == "ti") return {kLayers, 192, 3, 768};
  if (size == "s") return {kLayers, 384, 6, 1536};
  return {kLayers, 768, 12, 3072};
}

OperatorGraph stitched(const ZooValues& values) {
  const std::string& anchors = values.word("anchors");
  const std::size_t between = anchors.find('-');
  const VisionSizes front = anchor(anchors.substr(0, between)), back = anchor(anchors.substr(between + 1));
  const Stitch stitch = all_stitches()[static_cast<std::size_t>(values.integer("stitch"))];
  VisionTransformer net(values);
  TensorId x = net.embed(front.hidden);
  const auto run = [&](const std::string& prefix, const VisionSizes& sizes, std::int64_t first,
                       std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      net.builder().begin_repeat(prefix + "layer", i + 1);
      x = net.layer(x, sizes);
      net.builder().end_repeat();
    }
  };
  run("front.", front, 0, stitch.last + 1);
  x = net.builder().add("linear", "stitch", {x}, {{"out", Sizes{back.hidden}}});
  run("back.", back, stitch.first, kLayers);
  net.classify(x, back.hidden);
  return net.build();
}

}  // namespace

std::vector<ZooModel> stitched_models() {
  ZooOptions options = vision_options(16);
  options.push_back(
      ZooOption::word("anchors", {"ti-s", "s-b"}, "ti-s", "which of DeiT-Ti, S and B run first and last"));
  options.push_back(ZooOption::integer(
      "stitch", 7, 0, static_cast<std::int64_t>(all_stitches().size()) - 1,
      "where the path changes over: after layer i, before layer j, counted from 0; the pairs are (0, 0), "
      "(0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3) and so on"));
  return {{"snnet", "stitchable network: one path through two anchors and the layer between them",
           "Pan, Cai and Zhuang, CVPR 2023; arXiv:2302.06586", std::move(options), stitched}};
}

}  // namespace pipesim
