#include "models/operators/images.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipesim {

std::int64_t WindowedDimension::outputs(bool ceil) const {
  if (!ceil) return room() / stride + 1;
  const std::int64_t n = (room() + stride - 1) / stride + 1;
  return (n - 1) * stride >= extent + pad ? n - 1
                                          : n;  // the last window must start on the image or its left border
}

std::string image_text(std::size_t spatial_dims) {
  constexpr const char* texts[] = {"[n, c]", "[n, c, w]", "[n, c, h, w]", "[n, c, d, h, w]"};
  return texts[spatial_dims];
}

std::string sides_text(std::size_t spatial_dims) {
  constexpr const char* texts[] = {"[]", "[columns]", "[rows, columns]", "[planes, rows, columns]"};
  return texts[spatial_dims];
}

std::vector<std::int64_t> sides(OperatorDraft& draft, const std::string& attribute,
                                std::size_t spatial_dims) {
  auto& values = std::get<std::vector<std::int64_t>>(draft.op.attributes.at(attribute));
  if (values.size() == 1) values.resize(spatial_dims, values.front());
  if (values.size() != spatial_dims) {
    draft.fail(fmt::format("attribute \"{}\" is {}, allowed: {}", attribute, to_text(values),
                           sides_text(spatial_dims)));
  }
  return values;
}

std::vector<std::int64_t> sides_of_pad_end(OperatorDraft& draft, std::size_t spatial_dims) {
  const auto pad = sides(draft, "pad", spatial_dims);
  const auto end = draft.list("pad_end").empty() ? pad : sides(draft, "pad_end", spatial_dims);
  if (end == pad) draft.op.attributes.erase("pad_end");
  return end;
}

std::vector<WindowedDimension> windowed_dimensions(OperatorDraft& draft, std::size_t spatial_dims,
                                                   bool dilation) {
  draft.require_rank(0, 2 + spatial_dims, 2 + spatial_dims, image_text(spatial_dims));
  const auto kernel = sides(draft, "kernel", spatial_dims), stride = sides(draft, "stride", spatial_dims);
  const auto pad = sides(draft, "pad", spatial_dims), end = sides_of_pad_end(draft, spatial_dims);
  const auto apart =
      dilation ? sides(draft, "dilation", spatial_dims) : std::vector<std::int64_t>(spatial_dims, 1);
  std::vector<WindowedDimension> dims;
  for (std::size_t i = 0; i < spatial_dims; ++i) {
    dims.push_back({draft.shape(0)[2 + i], kernel[i], stride[i], apart[i], pad[i], end[i]});
    if (dims[i].room() >= 0) continue;
    const std::string behind = end == pad ? "" : fmt::format(", {} behind", to_text(end));
    draft.fail(fmt::format("input 0 has shape {}, too small for kernel {} with pad {}{} and dilation {}",
                           to_text(draft.shape(0)), to_text(kernel), to_text(pad), behind, to_text(apart)));
  }
  return dims;
}

std::vector<FactorIndex> spatial_factors(OperatorDraft& draft, const std::vector<std::int64_t>& sizes) {
  constexpr const char* names[most_spatial_dims] = {"d", "h", "w"};
  std::vector<FactorIndex> factors;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    factors.push_back(
        draft.factor(names[most_spatial_dims - sizes.size() + i], FactorKind::Attribute, sizes[i], true));
  }
  return factors;
}

IndexExpr grouped_channels(const OperatorDraft& draft, FactorIndex group, FactorIndex within,
                           std::int64_t extent) {
  if (group < 0) return draft.axis(within);
  if (within < 0) return draft.axis(group);
  return IndexExpr::merged({group, within}, extent);
}

std::vector<FactorIndex> present_factors(const std::vector<FactorIndex>& wanted,
                                         const std::vector<FactorIndex>& behind) {
  std::vector<FactorIndex> list;
  std::ranges::copy_if(wanted, std::back_inserter(list), [](FactorIndex f) { return f >= 0; });
  list.insert(list.end(), behind.begin(), behind.end());
  return list;
}

}  // namespace pipesim
