#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/operator_draft.h"

namespace pipesim {

// Parts of operators over sequences, images and volumes, [n, c, w], [n, c, h, w] and [n, c, d, h, w].

/// A spatial dimension under windows.
struct WindowedDimension {
  std::int64_t extent = 1, kernel = 1, stride = 1, dilation = 1;
  std::int64_t pad = 0, pad_end = 0;  ///< before the first element, behind the last one

  /// How far a window can move.
  [[nodiscard]] std::int64_t room() const { return extent + pad + pad_end - (dilation * (kernel - 1) + 1); }
  /// `ceil`: also windows that end outside.
  [[nodiscard]] std::int64_t outputs(bool ceil) const;
  [[nodiscard]] IndexExpr expr(FactorIndex f) const {
    return IndexExpr::window(f, extent, stride, kernel, dilation, pad);
  }
};

constexpr std::size_t most_spatial_dims = 3;

/// "[n, c, h, w]" and "[rows, columns]", for two spatial dimensions.
std::string image_text(std::size_t spatial_dims);
std::string sides_text(std::size_t spatial_dims);

/// A list attribute with a number for each spatial dimension. A single number, which stands for all, is
/// written out in the operator's attributes.
std::vector<std::int64_t> sides(OperatorDraft& draft, const std::string& attribute, std::size_t spatial_dims);

/// The padding behind the last elements: that before the first ones unless it is given. An attribute that
/// gives the same padding is left out.
std::vector<std::int64_t> sides_of_pad_end(OperatorDraft& draft, std::size_t spatial_dims);

/// The spatial dimensions of input 0 by the attributes kernel, stride, pad and pad_end, and dilation if
/// `dilation`.
std::vector<WindowedDimension> windowed_dimensions(OperatorDraft& draft, std::size_t spatial_dims,
                                                   bool dilation);

/// The factors d, h and w, or the last of them.
std::vector<FactorIndex> spatial_factors(OperatorDraft& draft, const std::vector<std::int64_t>& sizes);

/// Channels as [group, within]: either factor is −1 where it has length 1.
IndexExpr grouped_channels(const OperatorDraft& draft, FactorIndex group, FactorIndex within,
                           std::int64_t extent);

/// Returns the factors that there are (not −1), then `behind`.
std::vector<FactorIndex> present_factors(const std::vector<FactorIndex>& wanted,
                                         const std::vector<FactorIndex>& behind = {});

}  // namespace pipesim
