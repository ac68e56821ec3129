#pragma once

#include <cstdint>

namespace pipesim {

/// An order of the positions of a sequence in which, under a causal mask, each of `parts` equal parts of it
/// has as much work: of 2 · parts chunks, the first and the last, then the second and the last but one, and
/// so on (Grattafiori et al., "The Llama 3 herd of models", arXiv:2407.21783, section 3.3.2).
class ZigzagOrder {
 public:
  /// 2 · parts divides the length. One part: the positions as they come.
  constexpr ZigzagOrder(std::int64_t parts, std::int64_t length)
      : chunks_(2 * parts), chunk_(length / chunks_), plain_(parts == 1) {}

  [[nodiscard]] constexpr bool plain() const { return plain_; }  ///< positions as they come
  [[nodiscard]] constexpr std::int64_t chunks() const { return chunks_; }
  [[nodiscard]] constexpr std::int64_t chunk() const { return chunk_; }  ///< positions of a chunk
  /// Returns the position that comes at an index.
  [[nodiscard]] constexpr std::int64_t position(std::int64_t index) const {
    if (plain_) return index;
    const std::int64_t at = index / chunk_;
    return (at % 2 == 0 ? at / 2 : chunks_ - 1 - at / 2) * chunk_ + index % chunk_;
  }
  /// Where a position comes.
  [[nodiscard]] constexpr std::int64_t index(std::int64_t position) const {
    if (plain_) return position;
    const std::int64_t at = position / chunk_;
    return (at < chunks_ / 2 ? 2 * at : 2 * (chunks_ - 1 - at) + 1) * chunk_ + position % chunk_;
  }

 private:
  std::int64_t chunks_, chunk_;
  bool plain_;
};

}  // namespace pipesim
