#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "executor/operators/device_code.h"
#include "models/box.h"
#include "models/operator.h"

namespace pipesim {

/// The part of one dim of a window that lies on the image, in taps: [first, last), and where tap 0 lies in
/// the shard's box.
struct Taps {
  std::int64_t first = 0, last = 0, origin = 0;
};

/// One dim of the windows of a shard, counted in its boxes.
struct PoolingWindow {
  std::int64_t kernel = 1, stride = 1;
  std::int64_t image = 0, result = 0;  ///< lengths
  std::int64_t origin = 0;             ///< where tap 0 of the first window lies

  [[nodiscard]] PIPESIM_DEVICE Taps taps(std::int64_t output) const {
    const std::int64_t begin = origin + output * stride;
    const std::int64_t first = begin >= 0 ? 0 : begin + kernel >= 0 ? -begin : kernel;
    const std::int64_t end = image - begin < kernel ? image - begin : kernel;
    return {first, end > first ? end : first, begin};
  }
};

/// The sizes of a pool2d, or of a pool1d as one row: x[planes, image], y[planes, result], [rows, columns].
/// The image ends where the tensor does: a shard's x holds all that its windows touch.
struct PoolingShape {
  std::int64_t planes = 0;
  std::array<PoolingWindow, 2> windows;
  bool exclude_pad = false;  ///< averages are over the elements on the image alone
  [[nodiscard]] PIPESIM_DEVICE std::int64_t image() const { return windows[0].image * windows[1].image; }
  [[nodiscard]] PIPESIM_DEVICE std::int64_t result() const { return windows[0].result * windows[1].result; }
  [[nodiscard]] PIPESIM_DEVICE std::int64_t kernel() const { return windows[0].kernel * windows[1].kernel; }
  /// The divisor of an average over these taps.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t divisor(const Taps& rows, const Taps& columns) const {
    if (!exclude_pad) return kernel();
    const std::int64_t taps = (rows.last - rows.first) * (columns.last - columns.first);
    return taps > 0 ? taps : 1;
  }
};

PoolingShape pooling_shape(const Operator& op, std::span<const Range> ranges);

/// One dim of the windows of a pool's shard; `dim`: of the tensors.
PoolingWindow pooling_window(const Operator& op, std::span<const Range> ranges, std::size_t dim);

/// Whether the pool takes the largest value, and not the average.
bool takes_largest(const Operator& op);
bool excludes_pad(const Operator& op);
/// The bytes that are kept for each result when takes_largest(), else 0. They hold the tap with the largest
/// value, the first among equals.
std::int64_t bytes_of_tap(const Operator& op);

}  // namespace pipesim
