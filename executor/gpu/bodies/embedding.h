#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/gpu/bodies/parts/sorted_places.h"
#include "executor/operators/embedding.h"

namespace pipesim::gpu {

/// Fills an element of y from the row that its index names, or with 0 where another shard owns the row.
struct ReadRows {
  const std::int64_t* indices;
  Floats table, y;
  EmbeddingShape shape;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t place = i / shape.width, row = indices[place] - shape.first_row;
    const bool own = row >= 0 && row < shape.rows;
    y.set(i, own ? table[row * shape.width + i - place * shape.width] : 0.0F);
  }
};

// The table's gradient: places in the list of indices are sorted by row, so that every row is added up by one
// thread for each column, in the same order each time. Floating-point atomics would add in another order each
// time: copies of a table on several devices would drift apart, and 16-bit ones would lose what they add.

/// Sorted places in segments of kSegment. `parts` [segments, 2, width] has two sums over each segment: of the
/// row that goes on from the segment before and ends here, and of the row that goes on in the next segment.
struct RowSegments {
  static constexpr std::int64_t kSegment = 32;

  SortedPlaces sorted;
  EmbeddingShape shape;
  float* parts;
  Floats dw;

  [[nodiscard]] PIPESIM_DEVICE std::int64_t end_of(std::int64_t segment) const {
    const std::int64_t end = (segment + 1) * kSegment;
    return end < shape.indices ? end : shape.indices;
  }
  /// Whether places i − 1 and i have the same row.
  [[nodiscard]] PIPESIM_DEVICE bool goes_on(std::int64_t i) const {
    return i > 0 && i < shape.indices && sorted.rows[i - 1] == sorted.rows[i];
  }
  [[nodiscard]] PIPESIM_DEVICE float& part(std::int64_t segment, bool goes_on, std::int64_t column) const {
    return parts[(2 * segment + (goes_on ? 1 : 0)) * shape.width + column];
  }
};

/// Adds up the rows of a segment: into `dw` where a row lies within it, else into `parts`. The index is
/// segment · width + column.
struct AddUpSegments {
  RowSegments segments;
  Floats dy;

  PIPESIM_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t width = segments.shape.width, segment = index / width;
    const std::int64_t column = index - segment * width, end = segments.end_of(segment);
    for (std::int64_t i = segment * RowSegments::kSegment; i < end;) {
      const std::int64_t row = segments.sorted.rows[i];
      if (row == segments.shape.rows) return;  // another shard's, as all behind it
      const bool began_before = segments.goes_on(i);
      double sum = 0;
      do {
        sum += static_cast<double>(dy[segments.sorted.places[i] * width + column]);
        ++i;
      } while (i < end && segments.goes_on(i));
      const bool goes_on = segments.goes_on(i);
      if (began_before || goes_on) {
        segments.part(segment, goes_on, column) = static_cast<float>(sum);
      } else {
        segments.dw.set(row * width + column, static_cast<float>(sum));
      }
    }
  }
};

/// Adds up the row that begins in a segment and goes on in the next, index segment · width + column.
struct JoinSegments {
  RowSegments segments;

  PIPESIM_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t width = segments.shape.width, column = index % width;
    std::int64_t segment = index / width;
    const std::int64_t begin = segment * RowSegments::kSegment, last = segments.end_of(segment) - 1;
    const std::int64_t row = segments.sorted.rows[last];
    const bool begins_here = !segments.goes_on(begin) || segments.sorted.rows[begin] != row;
    if (row == segments.shape.rows || !begins_here || !segments.goes_on(last + 1)) return;
    auto sum = static_cast<double>(segments.part(segment, true, column));
    for (bool goes_on = true; goes_on;) {
      ++segment;
      const std::int64_t end = segments.end_of(segment);
      goes_on = segments.sorted.rows[end - 1] == row && segments.goes_on(end);
      sum += static_cast<double>(segments.part(segment, goes_on, column));
    }
    segments.dw.set(row * width + column, static_cast<float>(sum));
  }
};

using EmbeddingBodies = BodyList<ReadRows, SortChunks, MergeChunks, AddUpSegments, JoinSegments>;

}  // namespace pipesim::gpu
