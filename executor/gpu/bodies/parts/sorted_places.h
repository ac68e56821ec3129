#pragma once

#include <cstdint>

#include "executor/operators/device_code.h"
#include "executor/operators/embedding.h"

namespace pipesim::gpu {

/// Places of indices, sorted by their rows of this shard and then by place. Those with rows of other shards
/// come last.
struct SortedPlaces {
  std::int64_t *rows = nullptr, *places = nullptr;
  PIPESIM_DEVICE void put(std::int64_t rank, std::int64_t row, std::int64_t place) const {
    rows[rank] = row;
    places[rank] = place;
  }
};

/// Sorts chunks of kChunk places, each place finding its own rank.
struct SortChunks {
  static constexpr std::int64_t kChunk = 1024;

  const std::int64_t* indices;
  EmbeddingShape shape;
  SortedPlaces to;

  PIPESIM_DEVICE void operator()(std::int64_t place) const {
    const std::int64_t begin = place / kChunk * kChunk, mine = row_of(place);
    const std::int64_t end = begin + kChunk < shape.indices ? begin + kChunk : shape.indices;
    std::int64_t rank = begin;
    for (std::int64_t other = begin; other < end; ++other) {
      const std::int64_t row = row_of(other);
      if (row < mine || (row == mine && other < place)) ++rank;
    }
    to.put(rank, mine, place);
  }

 private:
  [[nodiscard]] PIPESIM_DEVICE std::int64_t row_of(std::int64_t place) const {
    const std::int64_t row = indices[place] - shape.first_row;
    return row >= 0 && row < shape.rows ? row : shape.rows;
  }
};

/// Merges sorted chunks, each place finding its rank among all.
struct MergeChunks {
  SortedPlaces from, to;
  std::int64_t count;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = from.rows[i], own = i / SortChunks::kChunk * SortChunks::kChunk;
    std::int64_t rank = i - own;
    for (std::int64_t begin = 0; begin < count; begin += SortChunks::kChunk) {
      if (begin != own) rank += below(begin, begin < own ? row + 1 : row);
    }
    to.put(rank, row, from.places[i]);
  }

 private:
  /// The number of places of a chunk whose rows are below `row`.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t below(std::int64_t begin, std::int64_t row) const {
    std::int64_t low = begin, high = begin + SortChunks::kChunk < count ? begin + SortChunks::kChunk : count;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (from.rows[middle] < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - begin;
  }
};

}  // namespace pipesim::gpu
