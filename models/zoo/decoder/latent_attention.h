#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/transformer.h"

namespace pipesim {

/// Widths of multi-head latent attention.
struct LatentSizes {
  std::int64_t heads = 0, width = 0, rotary_width = 0, value_width = 0;
  std::int64_t query_latent = 0;  ///< 0: queries are products of the input
  std::int64_t key_latent = 0;
  bool rotated = true;  ///< whether the parts by position are rotated, or only projected
};

/// From the options heads, head_width, rotary_width, value_width, query_latent and key_latent.
LatentSizes latent_sizes(const ZooValues& values);

/// Multi-head latent attention (DeepSeek-AI, 2024, section 2.1.1): queries, and keys and values together, go
/// through a narrow latent each, but for queries of width 0, which are products of x. A rotated part is
/// joined to the queries and keys of all heads; that of the keys is the same for all heads.
class LatentMixer {
 public:
  LatentMixer(TransformerNetwork& net, const LatentSizes& sizes) : net_(net), sizes_(sizes) {}

  /// What queries are made of: the normed latent, or x. Operators "query_latent" and "query_norm".
  TensorId query_source(const std::string& prefix, TensorId x);
  /// `source`: query_source() of x.
  TensorId attend(const std::string& prefix, TensorId x, TensorId source,
                  const TransformerNetwork::AttentionStyle& style);

 private:
  TensorId linear(LayerProduct part, const std::string& name, TensorId in, Sizes out);
  TensorId turned(const std::string& name, TensorId x);

  TransformerNetwork& net_;
  LatentSizes sizes_;
};

}  // namespace pipesim
