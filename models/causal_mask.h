#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "models/operator.h"

namespace pipesim {

/// Under a causal mask a query sees keys up to its own position. What narrows that, together or alone:
/// - documents of one length that are packed into a sequence, the last of which may be shorter: a query sees
///   keys of its own document (Grattafiori et al., "The Llama 3 herd of models", arXiv:2407.21783, section
///   3.2);
/// - a window: a query sees so many keys at most, its own the last of them (Beltagy et al., "Longformer",
///   arXiv:2004.05150, section 3.1).
/// Positions are those of the whole sequence.
class CausalMask {
 public:
  /// `document` 0: the sequence is one document. `window` 0: all keys before a query.
  constexpr CausalMask(std::int64_t document, std::int64_t window, std::int64_t sequence)
      : document_(document > 0 ? std::min(document, sequence) : sequence),
        window_(window > 0 ? std::min(window, document_) : document_) {}

  /// The first position that a query sees; it sees all from there to its own.
  [[nodiscard]] constexpr std::int64_t first(std::int64_t position) const {
    return std::max(position / document_ * document_, position - window_ + 1);
  }
  /// Pairs of a query and a key that it sees.
  [[nodiscard]] constexpr std::int64_t visible_pairs(Range queries, Range keys) const {
    return pairs_before(queries.end, keys.end) - pairs_before(queries.begin, keys.end) -
           pairs_before(queries.end, keys.begin) + pairs_before(queries.begin, keys.begin);
  }

 private:
  /// Counts pairs of queries before `query` and keys before `key`.
  [[nodiscard]] constexpr std::int64_t pairs_before(std::int64_t query, std::int64_t key) const {
    return pairs_apart(query, key, 0) - pairs_apart(query, key, window_);
  }
  /// Counts those of one document whose query is at least `apart` positions behind its key: in documents
  /// that both have passed, and in the one that the first of both is in.
  [[nodiscard]] constexpr std::int64_t pairs_apart(std::int64_t query, std::int64_t key,
                                                   std::int64_t apart) const {
    const std::int64_t passed = std::min(query, key) / document_, first = passed * document_;
    const std::int64_t keys = std::min(key - first, document_),
                       queries = std::max<std::int64_t>(std::min(query - first, document_) - apart, 0),
                       both = std::min(queries, keys);
    return passed * triangle(document_ - apart) + triangle(both) + (queries - both) * keys;
  }
  static constexpr std::int64_t triangle(std::int64_t side) { return side * (side + 1) / 2; }

  std::int64_t document_, window_;
};

/// Length of the documents that attention is packed with; 0: its sequence is one.
inline std::int64_t document_length(const Operator& op) {
  const auto found = op.attributes.find("document_length");
  return found == op.attributes.end() ? 0 : std::get<std::int64_t>(found->second);
}

/// How many keys a query of attention sees at most; 0: all before it.
inline std::int64_t attention_window(const Operator& op) {
  const auto found = op.attributes.find("window");
  return found == op.attributes.end() ? 0 : std::get<std::int64_t>(found->second);
}

/// Whether documents or a window narrow the causal mask of attention.
inline bool has_narrow_mask(const Operator& op) {
  return document_length(op) > 0 || attention_window(op) > 0;
}

/// The mask of attention over a sequence of that length.
inline CausalMask causal_mask_of(const Operator& op, std::int64_t sequence) {
  return {document_length(op), attention_window(op), sequence};
}

}  // namespace pipesim
