#include <fmt/format.h>

#include <numeric>

#include "models/operators/adaptive_window.h"
#include "models/operators/families.h"
#include "models/operators/images.h"

namespace pipesim {
namespace {

/// Samples and channels, then the spatial dims.
struct PoolFactors {
  PoolFactors(OperatorDraft& draft, const std::vector<std::int64_t>& sizes)
      : n(draft.factor("n", FactorKind::Sample, draft.shape(0)[0])),
        c(draft.factor("c", FactorKind::Parameter, draft.shape(0)[1])),
        spatial(spatial_factors(draft, sizes)) {}
  [[nodiscard]] std::vector<FactorIndex> all() const { return present_factors({n, c}, spatial); }
  FactorIndex n, c;
  std::vector<FactorIndex> spatial;
};

constexpr double taps_of_a_byte = 256;

/// What is kept to know which of `taps` elements was the largest.
double bytes_of_tap_number(double taps) { return taps > taps_of_a_byte ? 4 : 1; }

template <std::size_t spatial_dims>
void build_pool(OperatorDraft& draft) {
  auto& stride = std::get<std::vector<std::int64_t>>(draft.op.attributes.at("stride"));
  if (stride.empty()) stride = sides(draft, "kernel", spatial_dims);
  const auto windows = windowed_dimensions(draft, spatial_dims, false);
  for (const WindowedDimension& d : windows) {
    if (d.pad >= d.kernel || d.pad_end >= d.kernel) {
      const auto& pad = draft.list(d.pad >= d.kernel ? "pad" : "pad_end");
      draft.fail(fmt::format(
          "\"{}\" is {} and \"kernel\" {}, allowed: less pad than kernel, so that no window is all pad",
          d.pad >= d.kernel ? "pad" : "pad_end", to_text(pad), to_text(draft.list("kernel"))));
    }
  }
  draft.added_flag("exclude_pad");
  std::vector<std::int64_t> results;
  double taps = 1;
  for (const WindowedDimension& d : windows) {
    results.push_back(d.outputs(draft.flag("ceil")));
    taps *= static_cast<double>(d.kernel);
  }
  const PoolFactors f(draft, results);
  std::vector<IndexExpr> x = draft.axes({f.n, f.c});
  for (std::size_t d = 0; d < spatial_dims; ++d) x.push_back(windows[d].expr(f.spatial[d]));
  draft.input(0, std::move(x));
  draft.output("", draft.axes(f.all()));
  const bool max = draft.word("mode") == "max";
  draft.op.flops_forward = {{taps, f.all()}};
  draft.op.flops_backward_input = {{max ? 1.0 : taps, f.all()}};
  if (max) draft.op.saved_extra_bytes = {{bytes_of_tap_number(taps), f.all()}};  // which element it was
}

/// Windows follow no stride, but those of g = gcd(extent, out) parts do not cross the parts' borders: factors
/// run over the parts.
void build_adaptive_pool(OperatorDraft& draft) {
  draft.require_rank(0, 3, 2 + most_spatial_dims, "[n, c, w] to [n, c, d, h, w]");
  const std::size_t spatial_dims = draft.rank(0) - 2;
  const auto out = sides(draft, "out", spatial_dims);
  const std::vector<std::int64_t> extents{draft.shape(0).begin() + 2, draft.shape(0).end()};
  std::vector<std::int64_t> parts;
  double taps = 1, longest = 1, results = 1;  // of a part
  for (std::size_t d = 0; d < spatial_dims; ++d) {
    const AdaptiveWindows windows{extents[d], out[d]};
    parts.push_back(std::gcd(extents[d], out[d]));
    const std::int64_t within = out[d] / parts[d];
    std::int64_t covered = 0;
    for (std::int64_t o = 0; o < within; ++o) covered += windows.window(o).length();
    taps *= static_cast<double>(covered);
    longest *= static_cast<double>(windows.longest());
    results *= static_cast<double>(within);
  }
  const PoolFactors f(draft, parts);
  std::vector<IndexExpr> x = draft.axes({f.n, f.c}), y = x;
  for (std::size_t d = 0; d < spatial_dims; ++d) {
    x.push_back(IndexExpr::blocks(f.spatial[d], extents[d], extents[d] / parts[d]));
    y.push_back(IndexExpr::blocks(f.spatial[d], out[d], out[d] / parts[d]));
  }
  draft.input(0, std::move(x));
  draft.output("", std::move(y));
  const bool max = draft.word("mode") == "max";
  draft.op.flops_forward = {{taps, f.all()}};
  draft.op.flops_backward_input = {{max ? results : taps, f.all()}};
  if (max) draft.op.saved_extra_bytes = {{results * bytes_of_tap_number(longest), f.all()}};
}

OperatorKind pool_kind(std::size_t dims, std::vector<std::int64_t> example, void (*build)(OperatorDraft&)) {
  using Schema = AttributeSchema;
  using Sides = std::vector<std::int64_t>;
  const std::string each = sides_text(dims);
  return {fmt::format("pool{}d", dims),
          "largest or average element of every window",
          "x" + image_text(dims),
          1,
          1,
          {Schema::word("mode", "what to take of a window", {"max", "avg"}, "max"),
           Schema::integers("kernel", each),
           Schema::integers("stride", each + "; the kernel's unless given", Sides{}),
           Schema::integers("pad", each + " on either side", Sides(dims, 0), 0),
           Schema::integers("pad_end", each + " behind the last element; the pad's unless given", Sides{}, 0),
           Schema::flag("ceil", false, "also windows that begin inside but end outside"),
           Schema::flag("exclude_pad", false, "averages are over the elements on the image alone")},
          {{{"x", std::move(example)}}, {{"kernel", 2}}},
          build};
}

}  // namespace

std::vector<OperatorKind> pooling_kinds() {
  return {pool_kind(1, {64, 32, 128}, build_pool<1>),
          pool_kind(2, {64, 32, 28, 28}, build_pool<2>),
          pool_kind(3, {64, 32, 8, 28, 28}, build_pool<3>),
          {"adaptive_pool",
           "average or largest element of windows that divide an image into so many parts",
           "x[n, c, spatial…]",
           1,
           1,
           {AttributeSchema::integers("out", "results along each spatial dim; one number counts for all"),
            AttributeSchema::word("mode", "what to take of a window", {"avg", "max"}, "avg")},
           {{{"x", {64, 32, 28, 28}}}, {{"out", 7}}},
           build_adaptive_pool}};
}

}  // namespace pipesim
