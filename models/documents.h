#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "models/operator.h"

namespace pipesim {

/// Documents of one length that are packed into a sequence, the last of which may be shorter. Under a causal
/// mask a query sees the keys of its own document up to its own position (Grattafiori et al., "The Llama 3
/// herd of models", arXiv:2407.21783, section 3.2). Positions are those of the whole sequence.
class Documents {
 public:
  /// `length` 0: the sequence is one document.
  constexpr Documents(std::int64_t length, std::int64_t sequence)
      : length_(length > 0 ? std::min(length, sequence) : sequence) {}

  /// First position of the document that a position is in.
  [[nodiscard]] constexpr std::int64_t first(std::int64_t position) const {
    return position / length_ * length_;
  }
  /// Pairs of a query and a key that it sees.
  [[nodiscard]] constexpr std::int64_t visible_pairs(Range queries, Range keys) const {
    return pairs_before(queries.end, keys.end) - pairs_before(queries.begin, keys.end) -
           pairs_before(queries.end, keys.begin) + pairs_before(queries.begin, keys.begin);
  }

 private:
  /// Counts pairs of queries before `query` and keys before `key`: triangles as far as both go, then what
  /// later queries of the last key's document see.
  [[nodiscard]] constexpr std::int64_t pairs_before(std::int64_t query, std::int64_t key) const {
    const std::int64_t both = std::min(query, key), rest = both % length_;
    const std::int64_t triangles = both / length_ * triangle(length_) + triangle(rest);
    return triangles + (std::min(query, first(both) + length_) - both) * rest;
  }
  static constexpr std::int64_t triangle(std::int64_t side) { return side * (side + 1) / 2; }

  std::int64_t length_;
};

/// Length of the documents that attention is packed with; 0: its sequence is one.
inline std::int64_t document_length(const Operator& op) {
  const auto found = op.attributes.find("document_length");
  return found == op.attributes.end() ? 0 : std::get<std::int64_t>(found->second);
}

}  // namespace pipesim
