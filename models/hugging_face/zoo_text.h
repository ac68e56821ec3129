#pragma once

#include <string>

#include "models/hugging_face/decoder_features.h"

namespace pipesim {

/// The text of a zoo model: NAME:key=value,…
class ZooText {
 public:
  explicit ZooText(std::string model) : text_(std::move(model) + ":") {}
  /// A decoder with layers of these letters; options that none of them uses are left out.
  static ZooText decoder(std::string mixers, std::string ffns);

  template <class T>
  void set(std::string_view key, const T& value) {
    if (!is_used(key)) return;
    if (text_.back() != ':') text_ += ',';
    text_ += key;
    text_ += '=';
    add(value);
  }
  /// Leaves out what is the option's default.
  template <class T>
  void set_unless(std::string_view key, const T& value, const T& usual) {
    if (value != usual) set(key, value);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void add(std::string_view value) { text_ += value; }
  void add(std::int64_t value);
  void add(double value);
  [[nodiscard]] bool is_used(std::string_view key) const;
  std::string text_;
  std::string mixers_, ffns_;  // of a decoder
};

/// The model of the zoo that has these features: llama, qwen3-8b, mixtral-8x7b, qwen3-235b or deepseek-v3
/// where one of them has all, since frameworks know these; else decoder.
std::string zoo_text(const DecoderFeatures& features);

}  // namespace pipesim
