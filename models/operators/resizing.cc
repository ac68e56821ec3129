#include <fmt/format.h>

#include <numeric>

#include "models/operators/families.h"
#include "models/operators/images.h"

namespace pipesim {
namespace {

/// How one result follows the elements around its place, along one dimension.
struct Interpolation {
  double taps = 1;          ///< elements that it reads
  std::int64_t margin = 0;  ///< how far they lie outside the result's part
};

Interpolation interpolation(const std::string& mode) {
  if (mode == "nearest") return {1, 0};
  if (mode == "linear") return {2, 1};
  return {4, 2};
}

/// The pattern of places repeats after 1/g of the image, g = gcd(extent, out): factors run over g parts.
/// Aligned corners stretch it over the whole image.
void build_resize(OperatorDraft& draft) {
  draft.require_rank(0, 3, 2 + most_spatial_dims, "[n, c, w] to [n, c, d, h, w]");
  const std::size_t spatial_dims = draft.rank(0) - 2;
  const auto out = sides(draft, "out", spatial_dims);
  const bool corners = draft.flag("align_corners"), nearest = draft.word("mode") == "nearest";
  if (corners && nearest)
    draft.fail("\"align_corners\" is 1 and \"mode\" \"nearest\", allowed: linear or cubic");
  const Interpolation along = interpolation(draft.word("mode"));
  const std::vector<std::int64_t> extents{draft.shape(0).begin() + 2, draft.shape(0).end()};
  std::vector<std::int64_t> parts;
  double taps = 1, results = 1;  // of a result, of a part
  for (std::size_t d = 0; d < spatial_dims; ++d) {
    parts.push_back(corners ? 1 : std::gcd(extents[d], out[d]));
    taps *= along.taps;
    const std::int64_t within = out[d] / parts[d];
    results *= static_cast<double>(within);
  }
  const FactorIndex n = draft.factor("n", FactorKind::Sample, draft.shape(0)[0]);
  const FactorIndex c = draft.factor("c", FactorKind::Parameter, draft.shape(0)[1]);
  const auto spatial = spatial_factors(draft, parts);
  std::vector<IndexExpr> x = draft.axes({n, c}), y = x;
  for (std::size_t d = 0; d < spatial_dims; ++d) {
    const std::int64_t length = extents[d] / parts[d], margin = parts[d] == 1 ? 0 : along.margin;
    x.push_back(margin == 0
                    ? IndexExpr::blocks(spatial[d], extents[d], length)
                    : IndexExpr::window(spatial[d], extents[d], length, length + 2 * margin, 1, margin));
    y.push_back(IndexExpr::blocks(spatial[d], out[d], out[d] / parts[d]));
  }
  draft.input(0, std::move(x));
  draft.output("", std::move(y));
  const auto elements = present_factors({n, c}, spatial);
  if (!nearest) draft.op.flops_forward = {{2 * taps * results, elements}};
  draft.op.flops_backward_input = {{nearest ? results : 2 * taps * results, elements}};
}

}  // namespace

std::vector<OperatorKind> resizing_kinds() {
  return {{"resize",
           "an image of another size, by interpolation",
           "x[n, c, spatial…]",
           1,
           1,
           {AttributeSchema::integers("out", "results along each spatial dim; one number counts for all"),
            AttributeSchema::word("mode", "an element, or weights of the nearest two or four along each dim",
                                  {"nearest", "linear", "cubic"}, "nearest"),
            AttributeSchema::flag("align_corners", false, "the corners of both images are at one place")},
           {{{"x", {64, 32, 28, 28}}}, {{"out", 56}}},
           build_resize}};
}

}  // namespace pipesim
