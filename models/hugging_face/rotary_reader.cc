#include <fmt/format.h>

#include <algorithm>

#include "models/hugging_face/decoder_reader.h"

namespace pipesim {
namespace {

constexpr double kLargestScaling = 1e4, kLargestRotaryBase = 1e12;

void read_llama3(const ConfigReader& scaling, RotaryFeatures& rotary) {
  rotary.original = scaling.size({"original_max_position_embeddings"});
  rotary.low = scaling.number_or({"low_freq_factor"}, 0, kLargestScaling, 1);
  rotary.high = scaling.number_or({"high_freq_factor"}, 0, kLargestScaling, 4);
}

void read_yarn(const ConfigReader& c, const ConfigReader& scaling, DecoderFeatures& f) {
  for (const char* key : {"attention_factor", "truncate"}) {
    if (const auto found = scaling.value(key))
      f.left_out.push_back(fmt::format("{} = {}: yarn is taken without it", key, found->text()));
  }
  const auto original = scaling.value("original_max_position_embeddings");
  if (!original && !c.value("max_position_embeddings"))
    scaling.config().fail("\"original_max_position_embeddings\" is missing");
  f.rotary.original =
      original ? original->integer(1, std::int64_t{1} << 24) : c.size({"max_position_embeddings"});
  f.rotary.low = scaling.number_or({"beta_slow"}, 0, kLargestScaling, 1);
  f.rotary.high = scaling.number_or({"beta_fast"}, 0, kLargestScaling, 32);
  f.rotary.mscale = scaling.number_or({"mscale"}, 0, kLargestScaling, 1);
  f.rotary.mscale_all = scaling.number_or({"mscale_all_dim"}, 0, kLargestScaling, 0);
}

// Parameters by type of layer (Gemma 3 and 4): those of layers that see all are the model's.
std::optional<ConfigReader> parameters_of(const ConfigReader& c) {
  auto parameters = c.object("rope_parameters");
  if (!parameters) parameters = c.object("rope_scaling");
  if (!parameters) return std::nullopt;
  if (auto full = parameters->object("full_attention")) return full;
  return parameters;
}

}  // namespace

// "rope_scaling", or "rope_parameters" of Transformers 5, which has the base as well.
void read_rotary(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  RotaryFeatures& rotary = f.rotary;
  rotary.base =
      c.number_or({"rope_theta", "rotary_emb_base", "rope_base"}, 1, kLargestRotaryBase, family.rotary_base);
  c.pass_over(
      {"rope_local_base_freq", "swa_rope_theta", "rope_interleave", "compress_rope_theta", "rope_scaling"});
  const std::optional<ConfigReader> scaling = parameters_of(c);
  if (!scaling) return;
  rotary.base = scaling->number_or({"rope_theta"}, 1, kLargestRotaryBase, rotary.base);
  const std::string name = scaling->word({"rope_type", "type"}).value_or("default");
  // Sections of frames, rows and columns ("mrope"), and rotated parts ("proportional"), cost the same.
  if (name == "default" || name == "mrope" || name == "proportional") return;
  if (name != "linear" && name != "llama3" && name != "yarn") {
    f.left_out.push_back(fmt::format(
        "rope_type = \"{}\": positions are not stretched; known are linear, llama3 and yarn", name));
    return;
  }
  scaling->pass_over({"factor", "partial_rotary_factor", "mrope_section", "mrope_interleaved"});
  rotary.scaling = name;
  rotary.factor = scaling->config().at("factor").number(1, kLargestScaling);
  if (name == "llama3") read_llama3(*scaling, rotary);
  if (name == "yarn") read_yarn(c, *scaling, f);
  scaling->note_unread_keys("rotary positions: ", f.notes);
}

}  // namespace pipesim
