#include "models/named_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_size_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string> names_of_sizes(const std::vector<NamedSize>& sizes) {
  std::vector<std::string> names;
  for (const NamedSize& size : sizes) names.push_back(size.name);
  return names;
}

void check_bound(const JsonValue& root, const std::vector<NamedSize>& sizes,
                 const std::vector<NamedSize>& bound) {
  const std::vector<std::string> names = names_of_sizes(sizes);
  for (const NamedSize& b : bound) {
    if (std::ranges::find(names, b.name) == names.end()) {
      throw InputError(
          names.empty()
              ? fmt::format(
                    "{}: no size \"{}\": the file names no sizes; \"sizes\": {{\"{}\": {}}} names one",
                    root.source(), b.name, b.name, b.value)
              : fmt::format("{}: unknown size \"{}\"{}; it has {}", root.source(), b.name,
                            did_you_mean(b.name, names), to_text(sizes)));
    }
    if (b.value < 1 || b.value > kLargestSize)
      throw InputError(fmt::format("{}: size \"{}\" is {}, allowed: 1 to {}", root.source(), b.name, b.value,
                                   kLargestSize));
  }
}

}  // namespace

std::string to_text(const std::vector<NamedSize>& sizes) {
  std::string text;
  for (const NamedSize& s : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", s.name, s.value);
  return text;
}

NamedSizes::NamedSizes(const JsonValue& root, const std::vector<NamedSize>& bound) {
  std::vector<std::string> order;
  const auto sizes = root.find("sizes");
  // Numbers first: programs that sort keys must not change what a file says.
  for (const bool expressions : {false, true}) {
    if (!sizes) break;
    for (const auto& [name, value] : sizes->members()) {
      if (!is_size_name(name))
        value.fail(
            fmt::format("found the name \"{}\", allowed: letters, digits and _, a letter or _ first", name));
      if (!expressions) order.push_back(name);
      if (value.is_string() != expressions) continue;
      const auto given = std::ranges::find(bound, name, &NamedSize::name);
      const std::int64_t usual = integer(value, 1, kLargestSize);
      sizes_.push_back({name, given == bound.end() ? usual : given->value});
    }
  }
  std::ranges::sort(sizes_, {}, [&](const NamedSize& s) { return std::ranges::find(order, s.name); });
  check_bound(root, sizes_, bound);
}

bool NamedSizes::has(std::string_view name) const {
  return std::ranges::any_of(sizes_, [&](const NamedSize& s) { return s.name == name; });
}

std::int64_t NamedSizes::operand(const JsonValue& value, std::string_view text) const {
  if (const auto size = std::ranges::find(sizes_, text, &NamedSize::name); size != sizes_.end())
    return size->value;
  if (is_size_name(text)) {
    const std::vector<std::string> names = names_of_sizes(sizes_);
    value.fail(fmt::format("found {}: unknown size \"{}\"{}; {}", value.text(), text,
                           did_you_mean(text, names),
                           names.empty() ? "the file names no \"sizes\"" : "there are " + list_names(names)));
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= kLargestSize)
    return number;
  value.fail(
      fmt::format("found {}, allowed: numbers from 1 to {} and names of \"sizes\", with * and / between "
                  "them",
                  value.text(), kLargestSize));
}

std::int64_t NamedSizes::evaluated(const JsonValue& value) const {
  const std::string text = value.string();
  std::int64_t result = 1;
  bool named = false;
  char before = '*';
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("*/", begin), text.size());
    const std::string_view part = without_spaces(std::string_view(text).substr(begin, end - begin));
    named = named || is_size_name(part);
    const std::int64_t factor = operand(value, part);
    if (before == '*' && __builtin_mul_overflow(result, factor, &result))
      value.fail(fmt::format("found {}, which is too large", value.text()));
    if (before == '/' && result % factor != 0)
      value.fail(fmt::format("found {}: {} is no multiple of {}{}", value.text(), result, part,
                             is_size_name(part) ? fmt::format(", which is {}", factor) : ""));
    if (before == '/') result /= factor;
    if (end < text.size()) before = text[end];
    begin = end + 1;
  }
  if (!named) value.fail(fmt::format("found {}, a number is written without quotes", value.text()));
  return result;
}

std::int64_t NamedSizes::integer(const JsonValue& value, std::int64_t lowest, std::int64_t highest) const {
  if (!value.is_string()) return value.integer(lowest, highest);
  const std::int64_t result = evaluated(value);
  if (result < lowest || result > highest)
    value.fail(fmt::format("found {}, which is {}; an integer from {} to {} is needed", value.text(), result,
                           lowest, highest));
  return result;
}

std::vector<std::int64_t> NamedSizes::integers(const JsonValue& value, std::int64_t lowest,
                                               std::int64_t highest) const {
  std::vector<std::int64_t> result;
  for (const JsonValue& item : value.items()) result.push_back(integer(item, lowest, highest));
  return result;
}

}  // namespace pipesim
