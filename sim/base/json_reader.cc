#include "sim/base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "sim/base/out_of_memory.h"
#include "sim/base/suggest.h"
#include "sim/base/utf8.h"

namespace pipesim {

using Json = nlohmann::ordered_json;

struct JsonValue::Tree {
  std::string source;
  Json root;
};

namespace {

const Json& json(const void* node) { return *static_cast<const Json*>(node); }

std::string escaped(std::string_view key) {
  std::string text;
  for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

// Finds repeated keys: a person who wrote one twice wants to know, but nlohmann keeps the last silently.
class RepeatedKeys {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start)
      open_.resize(static_cast<std::size_t>(depth) + 1), open_.back().clear();
    if (event == Json::parse_event_t::key)
      note(static_cast<std::size_t>(depth) - 1, parsed.get<std::string>());
    return true;
  }
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  void note(std::size_t level, const std::string& key) {
    if (!open_[level].insert(key).second && first_.empty()) first_ = key;
  }
  std::vector<std::set<std::string>> open_;
  std::string first_;
};

struct Place {
  std::size_t line = 1, column = 1;
};

Place place_of(std::string_view text, std::size_t byte) {
  Place place;
  for (const char c : text.substr(0, std::min(byte, text.size()))) {
    place.column = c == '\n' ? 1 : place.column + 1;
    place.line += c == '\n';
  }
  return place;
}

std::string reason_of(const Json::parse_error& error) {
  // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while …" → the last part.
  const std::string what = error.what();
  const std::size_t at = what.find(": ");
  return at == std::string::npos ? what : what.substr(at + 2);
}

}  // namespace

const std::string& JsonValue::source() const { return tree_->source; }
bool JsonValue::is_object() const { return json(node_).is_object(); }
bool JsonValue::is_array() const { return json(node_).is_array(); }
bool JsonValue::is_string() const { return json(node_).is_string(); }
bool JsonValue::is_number() const { return json(node_).is_number(); }

void JsonValue::fail(const std::string& message) const {
  throw InputError(fmt::format("{}: {}: {}", source(), pointer_.empty() ? "/" : pointer_, message));
}

std::string JsonValue::kind() const {
  const Json& j = json(node_);
  if (j.is_object()) return "an object";
  if (j.is_array()) return "an array";
  if (j.is_string()) return "a string";
  if (j.is_boolean()) return "a boolean";
  return j.is_null() ? "null" : "a number";
}

std::string JsonValue::text() const {
  constexpr std::size_t kLongest = 60;
  std::string text = json(node_).dump();
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  const Json& j = json(node_);
  if (!j.is_object()) fail(fmt::format("found {}, an object is needed", kind()));
  const auto it = j.find(std::string(key));
  if (it == j.end()) return std::nullopt;
  return JsonValue(tree_, &*it, pointer_ + "/" + escaped(key));
}

JsonValue JsonValue::at(std::string_view key) const {
  std::optional<JsonValue> value = find(key);
  if (!value) fail(fmt::format("\"{}\" is missing", key));
  return *value;
}

void JsonValue::allow_only(std::initializer_list<std::string_view> keys) const {
  allow_only(std::vector<std::string>(keys.begin(), keys.end()));
}

void JsonValue::allow_only(const std::vector<std::string>& keys) const {
  for (const auto& [name, value] : members()) {
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    value.fail(
        fmt::format("unknown key \"{}\"{}; allowed: {}", name, did_you_mean(name, keys), list_names(keys)));
  }
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  const Json& j = json(node_);
  if (!j.is_object()) fail(fmt::format("found {}, an object is needed", kind()));
  std::vector<std::pair<std::string, JsonValue>> result;
  for (auto it = j.begin(); it != j.end(); ++it) {
    result.emplace_back(it.key(), JsonValue(tree_, &*it, pointer_ + "/" + escaped(it.key())));
  }
  return result;
}

std::vector<JsonValue> JsonValue::items() const {
  const Json& j = json(node_);
  if (!j.is_array()) fail(fmt::format("found {}, an array is needed", kind()));
  std::vector<JsonValue> result;
  for (std::size_t i = 0; i < j.size(); ++i) {
    result.push_back(JsonValue(tree_, &j[i], fmt::format("{}/{}", pointer_, i)));
  }
  return result;
}

std::string JsonValue::string() const {
  if (!is_string()) fail(fmt::format("found {}, a string is needed", kind()));
  return json(node_).get<std::string>();
}

std::int64_t JsonValue::integer(std::int64_t lowest, std::int64_t highest) const {
  const Json& j = json(node_);
  const auto refuse = [&] {
    fail(fmt::format("found {}, an integer from {} to {} is needed", text(), lowest, highest));
  };
  if (!j.is_number_integer()) refuse();
  if (j.is_number_unsigned() && j.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) refuse();
  const auto value = j.get<std::int64_t>();
  if (value < lowest || value > highest) refuse();
  return value;
}

double JsonValue::number(double lowest, double highest) const {
  if (!is_number()) fail(fmt::format("found {}, a number is needed", kind()));
  const double value = json(node_).get<double>();
  if (!std::isfinite(value) || value < lowest || value > highest) {
    fail(fmt::format("found {}, a number from {} to {} is needed", text(), lowest, highest));
  }
  return value;
}

bool JsonValue::boolean() const {
  if (!json(node_).is_boolean()) fail(fmt::format("found {}, true or false is needed", kind()));
  return json(node_).get<bool>();
}

std::vector<std::int64_t> JsonValue::integers(std::int64_t lowest, std::int64_t highest) const {
  std::vector<std::int64_t> result;
  for (const JsonValue& item : items()) result.push_back(item.integer(lowest, highest));
  return result;
}

namespace {

template <class Parse>
auto parsed(const JsonValue& value, Parse parse, std::string_view example) {
  if (!value.is_string()) {
    value.fail(fmt::format("found {}, a string with a unit like \"{}\" is needed", value.text(), example));
  }
  try {
    return parse(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

}  // namespace

Bytes JsonValue::bytes() const { return parsed(*this, parse_bytes, "16 GB"); }
BytesPerSecond JsonValue::bandwidth() const { return parsed(*this, parse_bandwidth, "300 GB/s"); }
Seconds JsonValue::duration() const { return parsed(*this, parse_duration, "3 us"); }
FlopsPerSecond JsonValue::compute_rate() const { return parsed(*this, parse_compute_rate, "15.7 TFLOP/s"); }

DataType JsonValue::data_type() const {
  const std::string name = string();
  try {
    return parse_data_type(name);
  } catch (const InputError& error) {
    fail(error.what());
  }
}

namespace {

// Python writes numbers that JSON does not have by these words.
constexpr std::array<std::string_view, 3> kNoNumbers{"-Infinity", "Infinity", "NaN"};

// The text with null in place of such a word outside strings; nothing where there is none.
std::optional<std::string> without_python_numbers(std::string_view text) {
  std::string changed;
  bool in_string = false, any = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto word =
        in_string ? kNoNumbers.end() : std::ranges::find_if(kNoNumbers, [&](std::string_view w) {
          return text.substr(i).starts_with(w);
        });
    if (word != kNoNumbers.end()) {
      changed += "null";
      i += word->size();
      any = true;
      continue;
    }
    if (in_string && text[i] == '\\' && i + 1 < text.size()) changed += text[i++];
    if (text[i] == '"') in_string = !in_string;
    changed += text[i++];
  }
  return any ? std::optional(std::move(changed)) : std::nullopt;
}

}  // namespace

JsonValue JsonDocument::parse(std::string_view text, const std::string& source) {
  require_json_text(text, source);
  if (const std::size_t bad = first_not_utf8(text); bad != std::string_view::npos) {
    const Place p = place_of(text, bad);
    throw InputError(fmt::format("{}:{}:{}: byte 0x{:02x} is not UTF-8", source, p.line, p.column,
                                 static_cast<unsigned char>(text[bad])));
  }
  RepeatedKeys repeated;
  try {
    auto tree = std::make_shared<JsonValue::Tree>();
    tree->source = source;
    const auto too_large = [&] {
      return out_of_memory(fmt::format("reading {} ({} of JSON)", source,
                                       pretty(Bytes(static_cast<std::int64_t>(text.size())))),
                           "The file must fit into memory several times");
    };
    with_memory(too_large, [&] { tree->root = Json::parse(text, std::ref(repeated)); });
    if (!repeated.first().empty()) {
      throw InputError(
          fmt::format("{}: the key \"{}\" stands twice in one object", source, repeated.first()));
    }
    const void* root = &tree->root;
    return JsonValue(std::move(tree), root, "");
  } catch (const Json::parse_error& error) {
    if (const auto changed = without_python_numbers(text)) return parse(*changed, source);
    const Place p = place_of(text, error.byte == 0 ? 0 : error.byte - 1);
    throw InputError(fmt::format("{}:{}:{}: not valid JSON: {}", source, p.line, p.column, reason_of(error)));
  } catch (const Json::out_of_range& error) {
    throw InputError(fmt::format("{}: a number is too large: {}", source, error.what()));
  }
}

JsonValue JsonDocument::load(const std::string& path) { return parse(read_file(path), path); }

}  // namespace pipesim
