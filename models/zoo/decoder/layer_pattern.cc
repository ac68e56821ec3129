#include "models/zoo/decoder/layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostLayers = 1000, kDeepestPart = 8, kLongestPeriod = 16;

bool is_count_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a pattern from the left.
class PatternReader {
 public:
  PatternReader(std::string_view text, std::string_view letters) : text_(text), letters_(letters) {}

  std::string read() {
    std::string layers = sequence(0);
    if (at_ < text_.size()) fail("a letter or \"(\"");
    return layers;
  }

 private:
  std::string sequence(std::size_t depth) {
    std::string layers;
    while (at_ < text_.size() && text_[at_] != ')') {
      const std::string part = item(depth);
      const std::size_t times = count();
      if (layers.size() + part.size() * times > kMostLayers)
        fail(fmt::format("at most {} layers", kMostLayers));
      for (std::size_t i = 0; i < times; ++i) layers += part;
    }
    return layers;
  }

  std::string item(std::size_t depth) {
    if (text_[at_] == '(') {
      if (depth == kDeepestPart) fail(fmt::format("at most {} parentheses in each other", kDeepestPart));
      ++at_;
      std::string inner = sequence(depth + 1);
      if (at_ == text_.size() || inner.empty()) fail("a letter, and \")\" behind the last one");
      ++at_;
      return inner;
    }
    if (letters_.find(text_[at_]) == std::string_view::npos) fail("a letter or \"(\"");
    return std::string(1, text_[at_++]);
  }

  std::size_t count() {
    if (at_ == text_.size() || !is_count_digit(text_[at_])) return 1;
    std::size_t number = 0;
    const std::size_t from = at_;
    for (; at_ < text_.size() && is_count_digit(text_[at_]) && number <= kMostLayers; ++at_)
      number = number * 10 + static_cast<std::size_t>(text_[at_] - '0');
    if (number == 0 || number > kMostLayers) {
      at_ = from;
      fail(fmt::format("a count from 1 to {}", kMostLayers));
    }
    return number;
  }

  [[noreturn]] void fail(const std::string& wanted) const {
    throw InputError(fmt::format("pattern \"{}\" at character {}: expected {}; letters are {}", text_,
                                 at_ + 1, wanted, letters_));
  }

  std::string_view text_, letters_;
  std::size_t at_ = 0;
};

std::string with_count(const std::string& part, std::size_t times) {
  if (times == 1) return part;
  return part.size() == 1 ? fmt::format("{}{}", part, times) : fmt::format("({}){}", part, times);
}

// Returns how often the first `period` letters stand one after the other at the beginning.
std::size_t repeats(std::string_view letters, std::size_t period) {
  std::size_t times = 1;
  while ((times + 1) * period <= letters.size() &&
         letters.substr(times * period, period) == letters.substr(0, period))
    ++times;
  return times;
}

}  // namespace

std::string letters_of_layers(std::string_view pattern, std::int64_t layers, std::string_view letters) {
  const std::string once = PatternReader(pattern, letters).read();
  const auto wanted = static_cast<std::size_t>(layers);
  if (once.size() > wanted) return once.substr(0, wanted);
  if (once.empty() || wanted % once.size() != 0)
    throw InputError(fmt::format("pattern \"{}\" has {} layers, allowed: a divisor of layers={}", pattern,
                                 once.size(), layers));
  std::string all;
  while (all.size() < wanted) all += once;
  return all;
}

std::string pattern_of_layers(std::string_view letters) {
  // What the whole repeats is said once.
  for (std::size_t period = 1; period <= letters.size() / 2; ++period) {
    if (letters.size() % period == 0 && repeats(letters, period) * period == letters.size())
      return pattern_of_layers(letters.substr(0, period));
  }
  std::string pattern;
  while (!letters.empty()) {
    std::size_t best = 1, most = repeats(letters, 1);
    for (std::size_t period = 2; period <= std::min(kLongestPeriod, letters.size() / 2); ++period) {
      const std::size_t times = repeats(letters, period);
      if (times > 1 && times * period > most * best) best = period, most = times;
    }
    // A part that stands once is one letter; the rest may repeat better.
    const std::string part =
        best == 1 ? std::string(letters.substr(0, 1)) : pattern_of_layers(letters.substr(0, best));
    pattern += best > 1 ? fmt::format("({}){}", part, most) : with_count(part, most);
    letters.remove_prefix(best * most);
  }
  return pattern;
}

}  // namespace pipesim
