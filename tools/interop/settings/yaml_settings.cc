#include "tools/interop/settings/yaml_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Returns the line up to a comment. A # within quotes begins none.
std::string_view without_comment(std::string_view line) {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

// Where a key ends: a colon before a blank or the end, outside of quotes and brackets.
std::size_t end_of_key(std::string_view text) {
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if ((c == '"' || c == '\'') && i == 0) {
      quote = c;
    } else if (c == '[' || c == '{') {
      return std::string_view::npos;
    } else if (c == ':' && (i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == '\t')) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string unquoted(std::string_view text) {
  const bool quoted =
      text.size() > 1 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& source) : text_(text), settings_(source) {}

  Settings read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      read_line(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    return std::move(settings_);
  }

 private:
  struct Open {
    std::size_t indent = 0;
    std::string path;
  };

  void read_line(std::string_view raw) {
    const std::size_t indent = std::min(raw.find_first_not_of(' '), raw.size());
    // Further lines of a text of several lines are skipped.
    if (in_text_ && (trimmed(raw).empty() || indent > text_indent_)) return;
    in_text_ = false;
    const std::string_view line = trimmed(without_comment(raw));
    if (line.empty() || line == "---" || line == "..." || line.front() == '%') return;
    std::size_t column = indent;
    std::string_view rest = line;
    bool item = false;
    while (rest == "-" || rest.starts_with("- ")) {
      const std::size_t next = std::min(rest.find_first_not_of(' ', 1), rest.size());
      column += next;
      rest.remove_prefix(next);
      item = true;
    }
    while (!open_.empty() && (item ? open_.back().indent > indent : open_.back().indent >= column))
      open_.pop_back();
    const std::size_t key = end_of_key(rest);
    if (item && key == std::string_view::npos) return add_item(rest);
    if (key == std::string_view::npos) {
      // The line continues the value before it.
      if (!open_.empty()) return;
      throw InputError(
          fmt::format("{}:{}: found \"{}\", allowed: a key with a colon", settings_.source(), line_, rest));
    }
    while (!open_.empty() && open_.back().indent >= column) open_.pop_back();
    const std::string path =
        (open_.empty() ? "" : open_.back().path + ".") + unquoted(trimmed(rest.substr(0, key)));
    constexpr std::size_t kDeepest = 40;
    if (open_.size() > kDeepest)
      throw InputError(fmt::format("{}:{}: found more than {} keys within each other", settings_.source(),
                                   line_, kDeepest));
    open_.push_back({column, path});
    const std::string_view value = trimmed(rest.substr(key + 1));
    if (value.empty()) return;
    if (value.front() == '|' || value.front() == '>') {
      in_text_ = true;
      text_indent_ = column;
    }
    settings_.set(setting_of(value, path, 0));
  }

  void add_item(std::string_view value) {
    if (open_.empty()) return;
    const std::string& path = open_.back().path;
    const Setting* const present = settings_.find(path);
    Setting list{path, place(), Setting::Kind::List, {}, {}};
    if (present != nullptr && present->kind == Setting::Kind::List) list = *present;
    constexpr std::size_t kMost = 10'000;
    if (!value.empty() && list.items.size() < kMost) list.items.push_back(setting_of(value, path, 0));
    settings_.set(std::move(list));
  }

  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", settings_.source(), line_); }

  Setting setting_of(std::string_view value, const std::string& path, int depth) const {
    using Kind = Setting::Kind;
    Setting setting{path, place(), Kind::Text, std::string(value), {}};
    const char first = value.front();
    if (first == '"' || first == '\'') {
      setting.text = unquoted(value);
    } else if (first == '[' && value.back() == ']' && depth < 4) {
      setting.kind = Kind::List;
      for (const std::string_view item : items_of(value.substr(1, value.size() - 2)))
        setting.items.push_back(setting_of(item, path, depth + 1));
    } else if (first == '{' || first == '&' || first == '*' || first == '!') {
      setting.kind = Kind::Code;
    } else if (value == "null" || value == "~" || value == "None" || value == "Null") {
      setting.kind = Kind::None;
    } else if (value == "true" || value == "True" || value == "false" || value == "False") {
      setting.kind = Kind::Truth;
      setting.text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(first)));
    } else if (is_number(value)) {
      setting.kind = Kind::Number;
    }
    return setting;
  }

  static bool is_number(std::string_view value) {
    double number = 0;
    const char* const end = value.data() + value.size();
    const auto [stopped, error] = std::from_chars(value.data(), end, number);
    const bool digit = std::isdigit(static_cast<unsigned char>(value.front())) != 0 || value.front() == '-' ||
                       value.front() == '.';
    return digit && error == std::errc() && stopped == end;
  }

  // Returns the items of "a, [b, c]": "a" and "[b, c]".
  static std::vector<std::string_view> items_of(std::string_view inside) {
    std::vector<std::string_view> items;
    int open = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= inside.size(); ++i) {
      const char c = i < inside.size() ? inside[i] : ',';
      if (c == '[') ++open;
      if (c == ']') --open;
      if (c != ',' || (open > 0 && i < inside.size())) continue;
      if (const auto item = trimmed(inside.substr(begin, i - begin)); !item.empty()) items.push_back(item);
      begin = i + 1;
    }
    return items;
  }

  std::string_view text_;
  Settings settings_;
  std::vector<Open> open_;
  std::size_t line_ = 0, text_indent_ = 0;
  bool in_text_ = false;
};

}  // namespace

Settings yaml_settings(std::string_view text, const std::string& source) {
  return YamlReader(text, source).read();
}

}  // namespace pipesim
