#pragma once

#include <cstdint>

#include "models/zoo/transformer.h"

namespace pipesim {

/// Sizes of the tower that makes words of images: a vision transformer over patches, and the products that
/// merge neighbouring patches into one word of the decoder.
struct VisionTower {
  std::int64_t words = 0;  ///< that a sample's images take of the sequence; 0: no tower
  std::int64_t layers = 0, hidden = 0, heads = 0, head_width = 0, ffn = 0;
  std::int64_t patch_values = 0;  ///< of a patch: channels, rows, columns and frames
  std::int64_t positions = 0;     ///< rows of the table of learned positions; 0: none
  std::int64_t merged = 1;        ///< patches, side by side, that become one word
  std::int64_t pooled = 1;        ///< patches whose mean is taken before
  bool gated = false;             ///< feed-forward parts are gated by silu, and norms are RMS norms
  std::int64_t mergers = 1;       ///< that read the tower's results; beyond one, results of inner layers
};

/// From the options vision_…. Fails where the images leave no word of the sequence.
VisionTower vision_tower(const ZooValues& values);
ZooOptions vision_tower_options();

/// The words of the images before those of the text, `words` [b, s − images, hidden]: [b, s, hidden]. What
/// inner layers give is added to the words of the images, as in Qwen3-VL's DeepStack, at the bottom.
TensorId with_images(TransformerNetwork& net, const VisionTower& tower, TensorId words);

}  // namespace pipesim
