#include "models/zoo/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string joined(const std::vector<std::string>& words) { return list_names(words, words.size()); }

bool is_pattern(std::string_view text) {
  constexpr std::string_view kOthers = "()-";
  constexpr std::size_t kLongest = 1000;
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> found;
  while (true) {
    const std::size_t at = text.find(separator);
    found.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return found;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::string> spelled_integer(const ZooOption& option, std::string_view value) {
  const auto number = parse<std::int64_t>(value);
  if (!number || static_cast<double>(*number) < option.lowest ||
      static_cast<double>(*number) > option.highest) {
    return std::nullopt;
  }
  return fmt::format("{}", *number);
}

std::optional<std::string> spelled(const ZooOption& option, std::string_view value) {
  if (option.kind == ZooOption::Kind::Pattern)
    return is_pattern(value) ? std::optional<std::string>(value) : std::nullopt;
  if (option.kind == ZooOption::Kind::Word) {
    if (std::count(option.words.begin(), option.words.end(), value) == 0) return std::nullopt;
    return std::string(value);
  }
  if (option.kind == ZooOption::Kind::Integer) return spelled_integer(option, value);
  if (option.kind == ZooOption::Kind::Integers) {
    std::string all;
    for (const std::string_view piece : pieces(value, '+')) {
      const auto number = spelled_integer(option, piece);
      if (!number) return std::nullopt;
      all += (all.empty() ? "" : "+") + *number;
    }
    return all;
  }
  const auto number = parse<double>(value);
  // Written so that NaN, which compares false with everything, is refused.
  if (!number || !(*number >= option.lowest && *number <= option.highest)) return std::nullopt;
  return fmt::format("{}", *number + 0.0);  // + 0.0: "-0" is "0"
}

const ZooOption& option_named(const ZooOptions& options, std::string_view key) {
  std::vector<std::string> keys;
  for (const ZooOption& option : options) {
    if (option.key == key) return option;
    keys.push_back(option.key);
  }
  throw InputError(
      fmt::format("unknown option \"{}\"{}; allowed: {}", key, did_you_mean(key, keys), joined(keys)));
}

std::map<std::string, std::string> parse_assignments(const ZooOptions& options, std::string_view text) {
  std::map<std::string, std::string> values;
  for (const std::string_view piece : pieces(text, ',')) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw InputError(fmt::format("expected key=value, got \"{}\"", piece));
    }
    const ZooOption& option = option_named(options, piece.substr(0, equals));
    if (!values.emplace(option.key, option.checked(piece.substr(equals + 1))).second) {
      throw InputError(fmt::format("{} is given twice", option.key));
    }
  }
  return values;
}

}  // namespace

ZooOption ZooOption::integer(std::string key, std::int64_t value, std::int64_t lowest, std::int64_t highest,
                             std::string help) {
  return {std::move(key),
          Kind::Integer,
          fmt::format("{}", value),
          static_cast<double>(lowest),
          static_cast<double>(highest),
          {},
          std::move(help)};
}

ZooOption ZooOption::integers(std::string key, std::int64_t value, std::int64_t lowest, std::int64_t highest,
                              std::string help) {
  ZooOption option = integer(std::move(key), value, lowest, highest, std::move(help));
  option.kind = Kind::Integers;
  return option;
}

ZooOption ZooOption::real(std::string key, double value, double lowest, double highest, std::string help) {
  return {std::move(key), Kind::Real, fmt::format("{}", value), lowest, highest, {}, std::move(help)};
}

ZooOption ZooOption::word(std::string key, std::vector<std::string> words, const std::string& value,
                          std::string help) {
  return {std::move(key), Kind::Word, value, 0, 0, std::move(words), std::move(help)};
}

ZooOption ZooOption::pattern(std::string key, const std::string& value, std::string help) {
  return {std::move(key), Kind::Pattern, value, 0, 0, {}, std::move(help)};
}

std::string ZooOption::allowed() const {
  switch (kind) {
    case Kind::Pattern:
      return "letters, digits, \"(\", \")\" and \"-\"";
    case Kind::Integer:
      return fmt::format("an integer from {} to {}", static_cast<std::int64_t>(lowest),
                         static_cast<std::int64_t>(highest));
    case Kind::Integers:
      return fmt::format("integers from {} to {}, joined by +", static_cast<std::int64_t>(lowest),
                         static_cast<std::int64_t>(highest));
    case Kind::Real:
      return fmt::format("a number from {} to {}", lowest, highest);
    case Kind::Word:
      break;
  }
  return "one of " + joined(words);
}

std::string ZooOption::checked(std::string_view value) const {
  if (auto text = spelled(*this, value)) return *text;
  throw InputError(
      fmt::format("{} must be {}, got \"{}\"{}", key, allowed(), value, did_you_mean(value, words)));
}

ZooOption batch_option(std::int64_t value, const std::string& why) {
  return ZooOption::integer("batch", value, 1, 1 << 20, "samples per iteration, over all devices: " + why);
}

ZooOption dtype_option(const std::string& value) {
  return ZooOption::word("dtype", {"float32", "float16", "bfloat16"}, value,
                         "type of activations and weights");
}

ZooOption dropout_option(double value) {
  return ZooOption::real("dropout", value, 0, 0.99, "rate of the dropout operators; 0 leaves them out");
}

ZooValues::ZooValues(std::string model, const ZooOptions& options, std::string_view assignments) {
  name_ = model + (assignments.empty() ? "" : fmt::format(":{}", assignments));
  try {
    if (!assignments.empty()) values_ = parse_assignments(options, assignments);
  } catch (const InputError& error) {
    fail(error.what());
  }
  name_ = std::move(model);
  char separator = ':';
  for (const ZooOption& option : options) {
    const std::string& value = values_.emplace(option.key, option.default_value).first->second;
    if (value == option.default_value) continue;
    name_ += fmt::format("{}{}={}", std::exchange(separator, ','), option.key, value);
  }
}

std::int64_t ZooValues::integer(const std::string& key) const {
  if (auto number = parse<std::int64_t>(word(key))) return *number;
  throw InternalError(fmt::format("zoo option {} is not an integer", key));
}

std::vector<std::int64_t> ZooValues::integers(const std::string& key) const {
  std::vector<std::int64_t> numbers;
  for (const std::string_view piece : pieces(word(key), '+')) {
    const auto number = parse<std::int64_t>(piece);
    if (!number) throw InternalError(fmt::format("zoo option {} is not a list of integers", key));
    numbers.push_back(*number);
  }
  return numbers;
}

double ZooValues::real(const std::string& key) const {
  if (auto number = parse<double>(word(key))) return *number;
  throw InternalError(fmt::format("zoo option {} is not a number", key));
}

const std::string& ZooValues::word(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw InternalError(fmt::format("{} has no zoo option {}", name_, key));
  return found->second;
}

DataType ZooValues::data_type() const { return parse_data_type(word("dtype")); }

void ZooValues::fail(const std::string& message) const {
  throw InputError(fmt::format("model \"{}\": {}", name_, message));
}

std::int64_t ZooValues::quotient(const std::string& whole, const std::string& part) const {
  if (integer(whole) % integer(part) != 0) {
    fail(fmt::format("{}={} does not divide {}={}", part, integer(part), whole, integer(whole)));
  }
  return integer(whole) / integer(part);
}

}  // namespace pipesim
