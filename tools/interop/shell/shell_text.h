#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// Where a character was written. `unknown`: it stands for a value that the files do not tell.
struct ShellPlace {
  std::uint32_t line = 1;
  std::uint16_t file = 0;
  bool unknown = false;
};

/// Text that knows where each of its characters was written, as variables carry text from line to line.
class ShellText {
 public:
  ShellText() = default;
  /// Lines count on from `first`.
  ShellText(std::string_view text, ShellPlace first) : chars_(text) {
    places_.reserve(text.size());
    for (const char c : text) {
      places_.push_back(first);
      if (c == '\n') ++first.line;
    }
  }
  /// All of it stands at `place`.
  static ShellText at(std::string_view text, ShellPlace place) {
    ShellText result;
    result.chars_ = text;
    result.places_.assign(text.size(), place);
    return result;
  }

  [[nodiscard]] const std::string& str() const { return chars_; }
  [[nodiscard]] std::size_t size() const { return chars_.size(); }
  [[nodiscard]] bool empty() const { return chars_.empty(); }
  [[nodiscard]] char operator[](std::size_t i) const { return chars_[i]; }
  [[nodiscard]] ShellPlace place(std::size_t i) const {
    return places_.empty() ? ShellPlace() : places_[std::min(i, places_.size() - 1)];
  }
  [[nodiscard]] bool known() const {
    return std::ranges::none_of(places_, [](const ShellPlace& p) { return p.unknown; });
  }

  void add(char c, ShellPlace place) {
    chars_ += c;
    places_.push_back(place);
  }
  void add(const ShellText& other) {
    chars_ += other.chars_;
    places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  }
  [[nodiscard]] ShellText part(std::size_t begin, std::size_t count = std::string::npos) const {
    ShellText result;
    begin = std::min(begin, size());
    count = std::min(count, size() - begin);
    result.chars_ = chars_.substr(begin, count);
    const auto from = places_.begin() + static_cast<std::ptrdiff_t>(begin);
    result.places_.assign(from, from + static_cast<std::ptrdiff_t>(count));
    return result;
  }
  /// The same characters, as those of a value that is not known.
  [[nodiscard]] ShellText as_unknown() const {
    ShellText result = *this;
    for (ShellPlace& place : result.places_) place.unknown = true;
    return result;
  }

 private:
  std::string chars_;
  std::vector<ShellPlace> places_;
};

}  // namespace pipesim
