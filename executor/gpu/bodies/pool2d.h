#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/divisor.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/pooling.h"

namespace pipesim::gpu {

/// The plane, row and column of an element of [planes, rows, columns].
struct PlanePlace {
  std::int64_t plane = 0, row = 0, column = 0;
};
struct PlaneDivisors {
  PlaneDivisors() = default;
  PlaneDivisors(std::int64_t number_of_planes, std::int64_t number_of_rows, std::int64_t number_of_columns)
      : rows(number_of_rows > 0 ? number_of_rows : 1, number_of_planes * number_of_rows),
        columns(number_of_columns > 0 ? number_of_columns : 1,
                number_of_planes * number_of_rows * number_of_columns) {}
  Divisor rows, columns;
  [[nodiscard]] PIPESIM_DEVICE PlanePlace place(std::int64_t i) const {
    const std::int64_t row = columns.quotient(i), plane = rows.quotient(row);
    return {plane, row - plane * rows.divisor, i - row * columns.divisor};
  }
};

/// The tap that was the largest, for each result.
struct LargestTaps {
  void* memory = nullptr;
  bool bytes = true;  ///< else 4 bytes each
  [[nodiscard]] PIPESIM_DEVICE std::int64_t operator[](std::int64_t i) const {
    return bytes ? static_cast<const std::uint8_t*>(memory)[i] : static_cast<const std::uint32_t*>(memory)[i];
  }
  PIPESIM_DEVICE void set(std::int64_t i, std::int64_t tap) const {
    if (bytes) {
      static_cast<std::uint8_t*>(memory)[i] = static_cast<std::uint8_t>(tap);
    } else {
      static_cast<std::uint32_t*>(memory)[i] = static_cast<std::uint32_t>(tap);
    }
  }
};

/// For every result: the largest of its window, −∞ where all of it is padding.
struct PoolLargest {
  Floats x, y;
  LargestTaps largest;
  PoolingShape shape;
  PlaneDivisors results;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const PlanePlace at = results.place(i);
    const PoolingWindow &window = shape.windows[1], &vertical = shape.windows[0];
    const Taps rows = vertical.taps(at.row), columns = window.taps(at.column);
    std::int64_t best = -1;
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      const std::int64_t row = (at.plane * vertical.image + rows.origin + r) * window.image + columns.origin;
      for (std::int64_t c = columns.first; c < columns.last; ++c) {
        const float value = x[row + c];
        if (best < 0 || value > most) {
          best = r * window.kernel + c;
          most = value;
        }
      }
    }
    y.set(i, most);
    largest.set(i, best < 0 ? 0 : best);
  }
};

/// For every result: the sum of its window over all its taps, those in the padding, too unless the shape
/// excludes them.
struct PoolAverage {
  Floats x, y;
  PoolingShape shape;
  PlaneDivisors results;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const PlanePlace at = results.place(i);
    const PoolingWindow &window = shape.windows[1], &vertical = shape.windows[0];
    const Taps rows = vertical.taps(at.row), columns = window.taps(at.column);
    double sum = 0;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      const std::int64_t row = (at.plane * vertical.image + rows.origin + r) * window.image + columns.origin;
      for (std::int64_t c = columns.first; c < columns.last; ++c) sum += static_cast<double>(x[row + c]);
    }
    y.set(i, static_cast<float>(sum / static_cast<double>(shape.divisor(rows, columns))));
  }
};

/// Results of one dim whose windows hold an element of the image: [first, last).
struct WindowsOf {
  std::int64_t first = 0, last = 0;
  PIPESIM_DEVICE WindowsOf(const PoolingWindow& window, const Divisor& stride, std::int64_t element) {
    const std::int64_t tap = element - window.origin;  // of the first window, if it went on for ever
    const std::int64_t behind = tap - window.kernel;   // windows that begin here or before end before it
    first = behind < 0 ? 0 : stride.quotient(behind) + 1;
    last = tap < 0 ? 0 : stride.quotient(tap) + 1;
    if (last > window.result) last = window.result;
  }
};

/// For every element of the image: its share of the gradients of the windows that hold it.
struct PoolGradient {
  Floats dy, dx;
  LargestTaps largest;  ///< without memory: of averages
  PoolingShape shape;
  PlaneDivisors elements;
  std::array<Divisor, 2> strides;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const PlanePlace at = elements.place(i);
    const PoolingWindow &window = shape.windows[1], &vertical = shape.windows[0];
    const WindowsOf rows(vertical, strides[0], at.row), columns(window, strides[1], at.column);
    const bool average = largest.memory == nullptr;
    float sum = 0;
    for (std::int64_t p = rows.first; p < rows.last; ++p) {
      const std::int64_t row = (at.plane * vertical.result + p) * window.result;
      const std::int64_t first_tap = (at.row - vertical.origin - p * vertical.stride) * window.kernel;
      for (std::int64_t q = columns.first; q < columns.last; ++q) {
        const std::int64_t tap = first_tap + at.column - window.origin - q * window.stride;
        if (shape.exclude_pad && average) {
          sum += dy[row + q] / static_cast<float>(shape.divisor(vertical.taps(p), window.taps(q)));
        } else if (average || largest[row + q] == tap) {
          sum += dy[row + q];
        }
      }
    }
    dx.set(i, average && !shape.exclude_pad ? sum / static_cast<float>(shape.kernel()) : sum);
  }
};

using Pool2dBodies = BodyList<PoolAverage, PoolGradient, PoolLargest>;

}  // namespace pipesim::gpu
