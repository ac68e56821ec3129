#pragma once

#include "models/hugging_face/config_reader.h"
#include "models/hugging_face/decoder_features.h"
#include "models/hugging_face/families.h"

namespace pipesim {

/// The longest sequence that a model gets where nobody says one.
inline constexpr std::int64_t kLongestSequence = 8192;

/// What a decoder's config says, by its keys and what its family adds to them. `whole`: the config around it,
/// the same but for multimodal models. InputError where a size is missing or sizes contradict each other, and
/// for features that no operator here has.
DecoderFeatures read_decoder(const ConfigReader& config, const ConfigReader& whole,
                             const DecoderFamily& family);

// Parts of it, each in a file of its own. They add notes to the features.
void read_layers(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f);
void read_attention(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f);
void read_rotary(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f);
void read_experts(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f);
void read_scans(const ConfigReader& c, DecoderFeatures& f);
void read_vision(const ConfigReader& whole, DecoderFeatures& f);

/// "gelu" of "gelu_new", "relu2" of "squared_relu" and so on; adds a note where another function is taken.
std::string activation_of(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f);

}  // namespace pipesim
