#include "models/zoo/decoder/latent_attention.h"

#include <utility>

namespace pipesim {

LatentSizes latent_sizes(const ZooValues& values) {
  return {.heads = values.integer("heads"),
          .width = values.integer("head_width"),
          .rotary_width = values.integer("rotary_width"),
          .value_width = values.integer("value_width"),
          .query_latent = values.integer("query_latent"),
          .key_latent = values.integer("key_latent")};
}

TensorId LatentMixer::linear(LayerProduct part, const std::string& name, TensorId in, Sizes out) {
  return net_.product(part, name, in, {{"out", std::move(out)}, {"bias", 0}});
}

TensorId LatentMixer::turned(const std::string& name, TensorId x) {
  return sizes_.rotated ? net_.rotary(name, x) : x;
}

TensorId LatentMixer::query_source(const std::string& prefix, TensorId x) {
  if (sizes_.query_latent == 0) return x;
  return net_.norm("rms_norm", prefix + "query_norm",
                   linear(LayerProduct::OtherAttention, prefix + "query_latent", x, {sizes_.query_latent}));
}

TensorId LatentMixer::attend(const std::string& prefix, TensorId x, TensorId source,
                             const TransformerNetwork::AttentionStyle& style) {
  using Part = LayerProduct;
  GraphBuilder& builder = net_.builder();
  const auto join = [&](const char* name, TensorId plain, TensorId positions, std::int64_t axis) {
    return builder.add("concat", prefix + name, {plain, positions}, {{"axis", axis}});
  };
  const LatentSizes& s = sizes_;
  const TensorId keys = net_.norm("rms_norm", prefix + "key_norm",
                                  linear(Part::OtherAttention, prefix + "key_latent", x, {s.key_latent}));
  const TensorId query_position =
      turned(prefix + "query_rotary",
             linear(Part::Query, prefix + "query_position", source, {s.heads, 1, s.rotary_width}));
  const TensorId query =
      join("query_joined", linear(Part::Query, prefix + "query", source, {s.heads, 1, s.width}),
           query_position, 4);
  const TensorId key_position = turned(
      prefix + "key_rotary", linear(Part::OtherAttention, prefix + "key_position", x, {s.rotary_width}));
  const TensorId shared =
      builder.add("broadcast", prefix + "key_of_heads", {key_position}, {{"axis", 2}, {"size", s.heads}});
  const TensorId key =
      join("key_joined", linear(Part::OtherAttention, prefix + "key", keys, {s.heads, s.width}), shared, 3);
  const TensorId value = linear(Part::Value, prefix + "value", keys, {s.heads, s.value_width});
  return net_.mix_values(prefix, x, query, key, value, style);
}

}  // namespace pipesim
