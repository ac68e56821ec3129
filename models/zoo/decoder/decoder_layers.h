#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/zoo/decoder/latent_attention.h"
#include "models/zoo/decoder/scans.h"
#include "models/zoo/feed_forward.h"
#include "models/zoo/transformer.h"

namespace pipesim {

/// Letters of the option mixers, one a layer.
namespace mixer_letters {
inline constexpr char kFull = 'F', kWindow = 'W', kChunk = 'C', kUnplaced = 'G', kSparse = 'S',
                      kSparseAgain = 'R', kDelta = 'D', kStateSpace = 'M', kSelective = 'V', kLinear = 'N',
                      kNone = '-';
inline constexpr char kAll[] = "FWCGSRDMVN-";
}  // namespace mixer_letters

/// Letters of the option ffns, one a layer. Letters from 'a' on are dense parts of the widths in
/// further_ffns.
namespace ffn_letters {
inline constexpr char kDense = 'D', kExperts = 'E', kBoth = 'B', kLinear = 'N', kNone = '-',
                      kFirstFurther = 'a';
inline constexpr char kAll[] = "DEBN-abcdefghijklmnopqrstuvwxyz";
}  // namespace ffn_letters

/// The layers of the zoo's decoder, by the letters of its options mixers and ffns.
class DecoderLayers {
 public:
  DecoderLayers(TransformerNetwork& net, const ZooValues& values);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(mixers_.size()); }
  /// Layer `i` from 1 on.
  TensorId layer(std::int64_t i, TensorId x);
  TensorId norm(const std::string& name, TensorId x);
  /// The kind of norms.
  [[nodiscard]] const std::string& norm_kind() const { return norm_; }

 private:
  using Style = TransformerNetwork::AttentionStyle;
  TensorId serial(char mixer, char ffn, TensorId x);
  TensorId parallel(char mixer, char ffn, TensorId x);
  TensorId part(const std::string& name, TensorId x, TensorId result);
  TensorId mix(char letter, TensorId x);
  TensorId attend(char letter, TensorId x);
  [[nodiscard]] Style style_of(char letter) const;
  TensorId select(const std::string& prefix, TensorId x, TensorId source);
  TensorId feed_forward_of(char letter, TensorId x);
  TensorId dense_and_experts(TensorId x);
  TensorId experts(TensorId x);

  TransformerNetwork& net_;
  std::string mixers_, ffns_;
  std::string norm_;
  bool norms_before_, norms_after_, parallel_, two_norms_;
  std::int64_t hidden_, ffn_;
  std::vector<std::int64_t> further_ffns_;
  Style style_, window_style_;
  std::int64_t chunk_;
  std::string sinks_;
  LatentSizes latent_;
  DeltaSizes delta_;
  StateSpaceSizes state_space_;
  SelectiveSizes selective_;
  struct Index {
    std::int64_t heads = 0, width = 0, keys = 0, block = 1;
    bool by_head = false;
  } index_;
  TensorId selected_ = {};  // by the last layer that selected
  FeedForwardStyle ffn_style_;
  ExpertSizes experts_;
  std::int64_t shared_ffn_;
  bool shared_gate_;
};

/// All options of the zoo's decoder.
ZooOptions decoder_options();

/// Whether a layer of these patterns uses an option of the decoder; true for options of all layers. A pattern
/// counts as a whole, so that a model with fewer layers keeps the options of those that it was cut short by.
bool layers_use(std::string_view option, std::string_view mixers, std::string_view ffns);

/// InputError for options that differ from their defaults though no layer uses them.
void check_options_of_letters(const ZooValues& values);

}  // namespace pipesim
