#pragma once

#include <cstdint>
#include <string>

#include "models/graph_builder.h"
#include "models/zoo/options.h"

namespace pipesim {

/// Heads of attention, and what its projections have.
struct HeadSizes {
  std::int64_t heads = 0, width = 0;  ///< width of a head
  bool bias = true;                   ///< of the projections to queries, keys and values
};

/// Projections "<prefix>query", "key" and "value", "attention", and "output" of width `out`. x [b, s, h];
/// keys and values come from `read` [b, t, …].
TensorId attend(GraphBuilder& builder, const std::string& prefix, TensorId x, TensorId read,
                const HeadSizes& heads, std::int64_t out);

/// x + outer(gelu(inner(norm(x)))): "ffn_norm", "ffn1", "ffn2", "ffn_add". `width`: of x.
TensorId add_feed_forward(GraphBuilder& builder, TensorId x, std::int64_t width, std::int64_t ffn);

/// Sizes of a vision transformer (Dosovitskiy et al., ICLR 2021, table 1).
struct VisionSizes {
  std::int64_t layers = 12, hidden = 0, heads = 0, ffn = 0;
};

/// A vision transformer under construction: options batch, dtype, image, classes, patch.
class VisionTransformer {
 public:
  explicit VisionTransformer(const ZooValues& values);

  GraphBuilder& builder() { return builder_; }
  /// Patches of the image as tokens, the class token first, positions added: [b, s, hidden].
  TensorId embed(std::int64_t hidden);
  /// A layer with norms before its two parts.
  TensorId layer(TensorId x, const VisionSizes& sizes);
  /// The norm, the class token's scores, and the loss.
  void classify(TensorId x, std::int64_t hidden);
  OperatorGraph build() { return builder_.build(); }

 private:
  GraphBuilder builder_;
  std::int64_t batch_, side_, patch_, classes_;
  TensorId images_, labels_;
};

/// [b, c, rows, columns] as tokens [b, rows · columns, c], "<prefix>rows" and "<prefix>tokens".
TensorId as_tokens(GraphBuilder& builder, const std::string& prefix, TensorId x);

/// Options batch, dtype, image, classes and patch. `patch`: rows and columns.
ZooOptions vision_options(std::int64_t patch);

}  // namespace pipesim
