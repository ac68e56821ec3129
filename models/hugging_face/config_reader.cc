#include "models/hugging_face/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace pipesim {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;

// Keys of texts, tokens, files and generation, which decide no operator's cost.
constexpr std::array<std::string_view, 74> kIgnored{"model_type",
                                                    "architectures",
                                                    "auto_map",
                                                    "transformers_version",
                                                    "_name_or_path",
                                                    "torch_dtype",
                                                    "dtype",
                                                    "use_cache",
                                                    "id2label",
                                                    "label2id",
                                                    "name_or_path",
                                                    "return_dict",
                                                    "output_attentions",
                                                    "output_hidden_states",
                                                    "output_scores",
                                                    "output_router_logits",
                                                    "return_dict_in_generate",
                                                    "torchscript",
                                                    "use_bfloat16",
                                                    "max_length",
                                                    "min_length",
                                                    "do_sample",
                                                    "early_stopping",
                                                    "num_beams",
                                                    "num_beam_groups",
                                                    "temperature",
                                                    "top_k",
                                                    "top_p",
                                                    "typical_p",
                                                    "repetition_penalty",
                                                    "length_penalty",
                                                    "no_repeat_ngram_size",
                                                    "encoder_no_repeat_ngram_size",
                                                    "num_return_sequences",
                                                    "chunk_size_feed_forward",
                                                    "remove_invalid_values",
                                                    "diversity_penalty",
                                                    "tokenizer_class",
                                                    "prefix",
                                                    "bad_words_ids",
                                                    "pruned_heads",
                                                    "task_specific_params",
                                                    "problem_type",
                                                    "finetuning_task",
                                                    "is_decoder",
                                                    "is_encoder_decoder",
                                                    "initializer_range",
                                                    "initializer_factor",
                                                    "init_std",
                                                    "initializer_cutoff_factor",
                                                    "pretraining_tp",
                                                    "ep_size",
                                                    "num_logits_to_keep",
                                                    "attn_implementation",
                                                    "_attn_implementation",
                                                    "use_mamba_kernels",
                                                    "use_flash_attn",
                                                    "summary_type",
                                                    "summary_use_proj",
                                                    "summary_activation",
                                                    "summary_first_dropout",
                                                    "summary_proj_to_labels",
                                                    "gradient_checkpointing",
                                                    "classifier_dropout",
                                                    "ignore_index",
                                                    "unsloth_version",
                                                    "unsloth_fixed",
                                                    "rescale_prenorm_residual",
                                                    "residual_in_fp32",
                                                    "seq_aux",
                                                    "image_placeholder",
                                                    "video_placeholder",
                                                    "media_placeholder",
                                                    "tf_legacy_loss"};
// Numbers of tokens.
constexpr std::array<std::string_view, 4> kIgnoredEnds{"_token_id", "_token_ids", "_token_index",
                                                       "_tokens_id"};

bool is_ignored(std::string_view key) {
  return std::ranges::find(kIgnored, key) != kIgnored.end() ||
         std::ranges::any_of(kIgnoredEnds, [&](std::string_view end) { return key.ends_with(end); });
}

}  // namespace

bool says_nothing(const JsonValue& value) {
  const std::string text = value.text();
  return text == "null" || text == "false" || text == "0" || text == "0.0" || text == "[]" || text == "{}" ||
         text == "\"\"";
}

namespace {

// A size, or a list of it for each layer where all have the same.
std::int64_t size_of(const JsonValue& value, std::int64_t lowest) {
  if (!value.is_array() || value.items().empty()) return value.integer(lowest, kLargest);
  const std::vector<std::int64_t> sizes = value.integers(lowest, kLargest);
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) != sizes.end())
    value.fail(fmt::format("found {}, allowed: the same for all layers", value.text()));
  return sizes.front();
}

}  // namespace

ConfigReader::ConfigReader(JsonValue config) : config_(std::move(config)) {
  if (!config_.is_object()) return;
  for (const char* part : {"attn_config", "ffn_config"}) {
    if (const auto found = config_.find(part); found && found->is_object()) {
      parts_.push_back(*found);
      read_.emplace(part);
    }
  }
}

std::optional<JsonValue> ConfigReader::find(std::string_view key) const {
  if (auto own = config_.find(key)) return own;
  for (const JsonValue& part : parts_) {
    if (auto found = part.find(key)) return found;
  }
  return std::nullopt;
}

std::optional<JsonValue> ConfigReader::value(std::string_view key) const {
  read_.emplace(key);
  auto found = find(key);
  if (found && found->kind() == "null") found.reset();
  return found;
}

std::optional<JsonValue> ConfigReader::value(Names names) const {
  std::optional<JsonValue> first;
  for (const std::string_view name : names) {
    auto found = value(name);
    if (found && !first) first = std::move(found);
  }
  return first;
}

std::int64_t ConfigReader::size(Names names) const {
  const auto found = value(names);
  for (const std::string_view name : names) {
    const auto other = value(name);
    if (found && other && other->text() != found->text())
      other->fail(
          fmt::format("found {}, allowed: {}, as {} says", other->text(), found->text(), found->pointer()));
  }
  if (found) return size_of(*found, 1);
  return config_.at(*names.begin()).integer(1, kLargest);  // says that it is missing, or null
}

std::int64_t ConfigReader::size_or(Names names, std::int64_t otherwise) const {
  const auto found = value(names);
  return found ? size_of(*found, 0) : otherwise;
}

bool ConfigReader::flag_or(Names names, bool otherwise) const {
  const auto found = value(names);
  return found ? found->boolean() : otherwise;
}

double ConfigReader::number_or(Names names, double lowest, double highest, double otherwise) const {
  const auto found = value(names);
  return found ? found->number(lowest, highest) : otherwise;
}

std::optional<std::string> ConfigReader::word(Names names) const {
  const auto found = value(names);
  return found ? std::optional<std::string>(found->string()) : std::nullopt;
}

std::int64_t ConfigReader::quotient(Names whole, Names part) const {
  const std::int64_t a = size(whole), b = size(part);
  if (a % b != 0)
    value(part)->fail(
        fmt::format("found {}, allowed: a divisor of \"{}\", which is {}", b, *whole.begin(), a));
  return a / b;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const auto found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_object()) found->fail(fmt::format("found {}, allowed: an object, or null", found->text()));
  return ConfigReader(*found);
}

std::string key_of(const JsonValue& value) {
  const std::string& pointer = value.pointer();
  return pointer.substr(pointer.rfind('/') + 1);
}

std::vector<std::string> ConfigReader::unread_keys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : config_.members()) {
    if (!read_.contains(key) && !is_ignored(key) && !says_nothing(value)) unread.push_back(key);
  }
  return unread;
}

void ConfigReader::note_unread_keys(std::string_view prefix, std::vector<std::string>& notes) const {
  for (const std::string& key : unread_keys())
    notes.push_back(fmt::format("{}{} = {}: not known, left out", prefix, key, config_.at(key).text()));
}

}  // namespace pipesim
