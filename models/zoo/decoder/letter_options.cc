#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/zoo/decoder/decoder_layers.h"

namespace pipesim {
namespace {

// Options, with blanks between, that only layers of some letters use, in the pattern of the option `pattern`.
struct LetterOptions {
  std::string_view pattern, letters, options;
};

// Recipes set token_groups of any decoder, so it is none of these.
constexpr std::array kLetterOptions{
    LetterOptions{"mixers", "FWCGSR",
                  "value_width rotary_width head_norm attention_gate sinks score_cap "
                  "latent_of_keys latent_of_queries latent_rotary_width"},
    LetterOptions{"mixers", "FCGSR", "values"},
    LetterOptions{"mixers", "W",
                  "window window_heads window_kv_heads window_head_width "
                  "window_value_width window_rotary_width"},
    LetterOptions{"mixers", "C", "chunk"},
    LetterOptions{"mixers", "S", "index_heads index_width index_keys index_block index_by_head"},
    LetterOptions{"mixers", "D",
                  "delta_key_heads delta_value_heads delta_key_width delta_value_width "
                  "delta_kernel delta_decay delta_decay_latent delta_gate_latent"},
    LetterOptions{"mixers", "MV", "ssm_heads ssm_head_width ssm_states ssm_kernel"},
    LetterOptions{"mixers", "M", "ssm_groups ssm_chunk"},
    LetterOptions{"mixers", "V", "ssm_rank ssm_norms"},
    LetterOptions{"ffns", "EB",
                  "experts top_k capacity_factor dispatch token_nodes expert_ffn "
                  "expert_bias expert_latent shared_ffn shared_gate router expert_shares "
                  "balance_loss"},
    LetterOptions{"ffns", "DEBabcdefghijklmnopqrstuvwxyz", "activation gated ffn_bias"},
    LetterOptions{"ffns", "abcdefghijklmnopqrstuvwxyz", "further_ffns"}};

bool has_word(std::string_view words, std::string_view word) {
  for (; !words.empty(); words.remove_prefix(std::min(words.find(' '), words.size() - 1) + 1)) {
    if (words.substr(0, words.find(' ')) == word) return true;
  }
  return false;
}

const LetterOptions* group_with(std::string_view option) {
  const auto* const found = std::ranges::find_if(
      kLetterOptions, [&](const LetterOptions& group) { return has_word(group.options, option); });
  return found == kLetterOptions.end() ? nullptr : &*found;
}

// "S", "M, V" or "D, E, B, a to z".
std::string spelled_letters(std::string_view letters) {
  constexpr std::string_view kFurther = "abcdefghijklmnopqrstuvwxyz";
  std::string text;
  const std::size_t at = letters.find(kFurther);
  for (const char letter : letters.substr(0, at))
    text += fmt::format("{}{}", text.empty() ? "" : ", ", letter);
  if (at != std::string_view::npos) text += text.empty() ? "a to z" : ", a to z";
  return text;
}

}  // namespace

bool layers_use(std::string_view option, std::string_view mixers, std::string_view ffns) {
  const LetterOptions* group = group_with(option);
  if (group == nullptr) return true;
  const std::string_view pattern = group->pattern == "mixers" ? mixers : ffns;
  return pattern.find_first_of(group->letters) != std::string_view::npos;
}

void check_options_of_letters(const ZooValues& values) {
  for (const ZooOption& option : decoder_options()) {
    const std::string& value = values.word(option.key);
    if (value == option.default_value || layers_use(option.key, values.word("mixers"), values.word("ffns")))
      continue;
    const LetterOptions& group = *group_with(option.key);
    values.fail(fmt::format("{}={} has no effect: no layer of {}={} uses it, allowed with one of {}",
                            option.key, value, group.pattern, values.word(std::string(group.pattern)),
                            spelled_letters(group.letters)));
  }
}

}  // namespace pipesim
