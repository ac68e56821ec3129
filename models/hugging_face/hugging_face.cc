#include "models/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "models/hugging_face/decoder_reader.h"
#include "models/hugging_face/other_networks.h"
#include "models/hugging_face/zoo_text.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

const DecoderFamily* family_of(std::string_view type) {
  const auto families = decoder_families();
  const auto found = std::ranges::find(families, type, &DecoderFamily::type);
  return found == families.end() ? nullptr : &*found;
}

HuggingFaceModel model_of(DecoderFeatures features) {
  HuggingFaceModel model{zoo_text(features), std::move(features.left_out), std::move(features.overruled)};
  for (std::string& note : features.notes) model.left_out.push_back(std::move(note));
  for (const auto& [option, note] : model.overruled) model.left_out.push_back(note);
  return model;
}

// The keys of a decoder of layers, of whatever family.
bool says_a_decoder(const ConfigReader& c) {
  return c.value({"hidden_size", "n_embd", "d_model"}) &&
         c.value({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}) &&
         c.value({"num_attention_heads", "n_head", "n_heads", "num_heads"}) && c.value("vocab_size") &&
         !c.flag_or({"is_encoder_decoder"}, false);
}

[[noreturn]] void refuse(const JsonValue& type, const std::string& name) {
  const std::vector<std::string> types = hugging_face_types();
  type.fail(
      fmt::format("unknown architecture \"{}\"{}, and its keys are not those of a decoder: hidden_size, "
                  "num_hidden_layers, num_attention_heads, vocab_size; known are {}",
                  name, did_you_mean(name, types), list_names(types, types.size())));
}

// A family that is not known may have anything; keys that were not read and name other layers than Llama's
// say that it does.
void refuse_layers_of_unknown_kinds(const ConfigReader& config, const std::string& name) {
  constexpr std::array<std::string_view, 9> kOtherLayers{
      "mamba", "ssm", "lru_", "conv_l_cache", "rnn", "block_types", "linear_attn", "expert", "zero_expert"};
  for (const std::string& key : config.unread_keys()) {
    const JsonValue value = config.config().at(key);
    std::string lower = key;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool other = std::ranges::any_of(
        kOtherLayers, [&](std::string_view part) { return lower.find(part) != std::string::npos; });
    if (other)
      value.fail(fmt::format("names layers that \"{}\" has, and no such family is known; allowed: {}", name,
                             list_names(hugging_face_types(), hugging_face_types().size())));
  }
  const auto architectures = config.config().find("architectures");
  if (architectures && architectures->text().find("ForMaskedLM") != std::string::npos)
    architectures->fail("found an encoder, allowed: decoders, and the encoders bert and roberta");
}

// A family's type with "_text" behind it is that of its decoder within a multimodal model.
const DecoderFamily* family_of_text(const std::string& name) {
  if (const DecoderFamily* family = family_of(name)) return family;
  if (const DecoderFamily* family = family_of(name + "_text")) return family;
  for (const std::string_view end : {"_vl_text", "_text", "_vl"}) {
    if (!name.ends_with(end)) continue;
    if (const DecoderFamily* family = family_of(name.substr(0, name.size() - end.size()))) return family;
  }
  return nullptr;
}

HuggingFaceModel decoder_within(const ConfigReader& config, const ConfigReader& whole,
                                const JsonValue& type) {
  const std::string name = type.string();
  if (const DecoderFamily* family = family_of_text(name))
    return model_of(read_decoder(config, whole, *family));
  if (!says_a_decoder(config)) refuse(type, name);
  // What an unknown family adds to its keys is not known, so it is taken to add nothing.
  DecoderFeatures features = read_decoder(config, whole, DecoderFamily{.type = name});
  refuse_layers_of_unknown_kinds(config, name);
  features.left_out.insert(
      features.left_out.begin(),
      fmt::format("model_type = \"{}\": not known; the model is read by its keys, as Llama's", name));
  return model_of(std::move(features));
}

}  // namespace

bool is_hugging_face_config(const JsonValue& json) {
  return json.is_object() && json.find("model_type") && !json.find("operators");
}

std::vector<std::string> hugging_face_types() {
  std::vector<std::string> types;
  for (const DecoderFamily& family : decoder_families()) types.emplace_back(family.type);
  for (const OtherNetwork& network : other_networks()) types.emplace_back(network.type);
  std::ranges::sort(types);
  return types;
}

HuggingFaceModel hugging_face_model(const JsonValue& config) {
  const JsonValue type = config.at("model_type");
  const std::string name = type.string();
  const ConfigReader whole(config);
  for (const OtherNetwork& network : other_networks()) {
    if (network.type == name) return network.read(whole);
  }
  for (const char* key : {"text_config", "language_config", "llm_config"}) {
    const auto text = whole.object(key);
    if (!text) continue;
    const auto own = text->config().find("model_type");
    return decoder_within(*text, whole, own ? *own : type);
  }
  return decoder_within(whole, whole, type);
}

}  // namespace pipesim
