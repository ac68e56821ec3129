#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

#include "tools/interop/shell/shell_parts.h"
#include "tools/interop/shell/shell_run.h"

namespace pipesim {
namespace {

constexpr std::size_t kLongestShellText = 1 << 20;

bool is_shell_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Behind the pattern's set [abc], if `c` is in it; 0: it is not.
std::size_t end_of_matching_set(std::string_view pattern, char c) {
  std::size_t at = 1;
  const bool others = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (others) ++at;
  bool matches = false;
  for (bool first = true; at < pattern.size() && (first || pattern[at] != ']'); first = false, ++at) {
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      matches |= pattern[at] <= c && c <= pattern[at + 2];
      at += 2;
    } else {
      matches |= pattern[at] == c;
    }
  }
  if (at >= pattern.size()) return pattern[0] == c ? 1 : 0;
  return matches != others ? at + 1 : 0;
}

// Returns the value without the shortest or longest part that matches at its beginning or end.
ShellText without_match(const ShellText& value, std::string_view pattern, bool front, bool longest) {
  const std::string_view text = value.str();
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    const std::string_view part = front ? text.substr(0, length) : text.substr(text.size() - length);
    if (shell_matches(pattern, part)) return front ? value.part(length) : value.part(0, text.size() - length);
  }
  return value;
}

ShellText with_replaced(const ShellText& value, std::string_view pattern, const ShellText& by, bool all) {
  ShellText result;
  const std::string_view text = value.str();
  bool done = pattern.empty();
  const bool exact = pattern.find_first_of("*?[") == std::string_view::npos;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const std::size_t most = exact ? std::min(pattern.size(), text.size() - at) : text.size() - at;
    for (std::size_t n = done ? 0 : most; n > 0; --n) {
      if (!shell_matches(pattern, text.substr(at, n))) continue;
      length = n;
      break;
    }
    if (length == 0) {
      result.add(value[at], value.place(at));
      ++at;
      continue;
    }
    result.add(by);
    at += length;
    done = !all;
  }
  return result;
}

ShellText with_letters(const ShellText& value, bool upper, bool all) {
  ShellText result;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto c = static_cast<unsigned char>(value[i]);
    const bool changes = all || i == 0;
    result.add(static_cast<char>(!changes ? c : upper ? std::toupper(c) : std::tolower(c)), value.place(i));
  }
  return result;
}

// Removes double quotes, as ${X:-"y"} loses them even within quotes.
ShellText without_quotes(const ShellText& text) {
  ShellText result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = i > 0 && text[i - 1] == '\\';
    if (text[i] != '"' || escaped) result.add(text[i], text.place(i));
  }
  return result;
}

}  // namespace

bool shell_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    const std::size_t set =
        p < pattern.size() && pattern[p] == '[' ? end_of_matching_set(pattern.substr(p), text[t]) : 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (set > 0) {
      p += set;
      ++t;
    } else if (p < pattern.size() && pattern[p] != '[' && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

void ShellRun::Fields::end() {
  if (open) done.push_back(std::move(now));
  now = ShellText();
  open = false;
}

void ShellRun::Fields::add(char c, ShellPlace place) {
  now.add(c, place);
  open = true;
}

void ShellRun::Fields::add(const ShellText& text, bool splits) {
  if (!splits) {
    now.add(text);
    open = true;
    return;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_shell_space(text[i]) && !text.place(i).unknown) {
      end();
    } else {
      add(text[i], text.place(i));
    }
  }
}

std::vector<ShellText> ShellRun::fields(const ShellText& raw) {
  Fields out;
  expand(raw, false, true, out);
  out.end();
  return std::move(out.done);
}

ShellText ShellRun::joined(const ShellText& raw, bool quoted) {
  Fields out;
  expand(raw, quoted, false, out);
  out.end();
  ShellText result;
  for (std::size_t i = 0; i < out.done.size(); ++i) {
    if (i > 0) result.add(' ', out.done[i].place(0));
    result.add(out.done[i]);
  }
  return result;
}

void ShellRun::expand(const ShellText& raw, bool quoted, bool splits, Fields& out) {
  if (++depth_ > 100) fail(raw.place(0), "words within each other, allowed: 100");
  for (std::size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    const bool last = at + 1 >= raw.size();
    if (c == '\\' && !last) {
      const char next = raw[at + 1];
      const bool means_itself = !quoted || next == '$' || next == '`' || next == '"' || next == '\\';
      if (next != '\n' && !means_itself) out.add(c, raw.place(at));
      if (next != '\n') out.add(next, raw.place(at + 1));
      at += 2;
    } else if (c == '$' || c == '`' || (!quoted && (c == '"' || c == '\''))) {
      const std::size_t end = end_of_shell_part(raw.str(), at);
      if (end == std::string::npos) {
        const bool quote = c != '$';
        fail(raw.place(at), quote ? "a quote is not closed" : "a parenthesis or brace is not closed");
      }
      expand_part(raw.part(at, end - at), quoted, splits, out);
      at = end;
    } else {
      out.add(c, raw.place(at));
      ++at;
    }
  }
  if (out.now.size() > kLongestShellText) fail(raw.place(0), "a text of more than 1048576 characters");
  --depth_;
}

// A quoted text, or what begins with $ or a backtick.
void ShellRun::expand_part(const ShellText& part, bool quoted, bool splits, Fields& out) {
  const std::string& text = part.str();
  const ShellPlace place = part.place(0);
  if (text[0] == '\'') return out.add(part.part(1, part.size() - 2), false);
  if (text[0] == '"') {
    const bool list = text.starts_with("\"$@") || text.ends_with("[@]}\"");  // no word where it is empty
    if (!list) out.open = true;
    return expand(part.part(1, part.size() - 2), true, splits, out);
  }
  if (text.starts_with("$'")) return out.add(part.part(2, part.size() - 3), false);
  if (text.starts_with("$((") && text.ends_with("))")) {
    const auto value = sum(part.part(3, part.size() - 5));
    return out.add(value ? ShellText::at(fmt::format("{}", *value), place) : part.as_unknown(), false);
  }
  if (text.starts_with("$(") || text[0] == '`') {
    const ShellText inner = text[0] == '`' ? part.part(1, part.size() - 2) : part.part(2, part.size() - 3);
    const std::optional<ShellText> value = substituted(inner);
    return value ? out.add(*value, !quoted && splits) : out.add(part.as_unknown(), false);
  }
  if (text.starts_with("${"))
    return expand_parameter(part.part(2, part.size() - 3), part, quoted, splits, out);
  if (text.size() == 1) return out.add('$', place);
  put(find(text.substr(1), std::nullopt), part, quoted, splits, out);
}

// The value of `part`; a list stays one in quotes if it is written with @.
void ShellRun::put(const Found& found, const ShellText& part, bool quoted, bool splits, Fields& out) {
  if (!found.known && !found.set) {
    if (asks_) {
      tell_unset(part.str());
    } else {
      out.add(part.as_unknown(), false);
    }
    return;
  }
  const bool words = found.several && part.str().find('*') == std::string::npos;
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    if (i > 0 && words && splits) out.end();
    if (i > 0 && !(words && splits)) out.add(ShellText::at(" ", part.place(0)), !quoted && splits);
    if (quoted || !found.values[i].empty()) out.add(found.values[i], !quoted && splits);
  }
}

// ${…}: `inner` is what stands between the braces.
void ShellRun::expand_parameter(const ShellText& written, const ShellText& part, bool quoted, bool splits,
                                Fields& out) {
  std::size_t begin = 0;
  while (begin < written.size() && is_shell_space(written[begin])) ++begin;
  const ShellText inner = written.part(begin);
  const std::string& text = inner.str();
  const bool length = text.size() > 1 && text[0] == '#', indirect = text.size() > 1 && text[0] == '!';
  const std::size_t from = length || indirect ? 1 : 0;
  std::size_t end = from + shell_name_length(std::string_view(text).substr(from));
  if (end == from && end < text.size()) {
    ++end;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end - 1])) != 0 &&
           std::isdigit(static_cast<unsigned char>(text[end])) != 0)
      ++end;
  }
  std::string name = text.substr(from, end - from);
  std::optional<ShellText> key;
  if (end < text.size() && text[end] == '[') {
    std::size_t close = text.find(']', end);
    if (close == std::string::npos) close = text.size();
    key = inner.part(end + 1, close - end - 1);
    end = std::min(close + 1, text.size());
  }
  Found found = find(name, key);
  if (indirect && !key && found.set && !found.values.empty()) {
    name = found.values.front().str();
    found = find(name, std::nullopt);
  }
  if (length) {
    const std::size_t number = found.several ? found.values.size()
                               : found.set   ? found.values.front().size()
                                             : 0;
    if (!found.set && !found.known && !asks_) return out.add(part.as_unknown(), false);
    return out.add(ShellText::at(fmt::format("{}", number), part.place(0)), false);
  }
  const ShellText change = inner.part(end);
  if (expand_default(found, name, change, part, quoted, splits, out)) return;
  if (!change.empty() && change.str() != " ") {
    for (ShellText& value : found.values) {
      const std::optional<ShellText> now = value.known() ? changed(value, change) : std::nullopt;
      value = now ? *now : part.as_unknown();
    }
  }
  put(found, part, quoted, splits, out);
}

// ${X:-y} and its like.
bool ShellRun::expand_default(const Found& found, const std::string& name, const ShellText& change,
                              const ShellText& part, bool quoted, bool splits, Fields& out) {
  const std::size_t colon = change.str().starts_with(':') ? 1 : 0;
  if (change.size() <= colon || std::string_view("-=+?").find(change[colon]) == std::string_view::npos)
    return false;
  const char sign = change[colon];
  const ShellText other = change.part(colon + 1);
  const bool has =
      found.set &&
      (colon == 0 || std::ranges::any_of(found.values, [](const ShellText& v) { return !v.empty(); }));
  if (sign == '+') {
    if (has) expand(quoted ? without_quotes(other) : other, quoted, splits, out);
    return true;
  }
  if (has || sign == '?') {
    put(found, part, quoted, splits, out);
    return true;
  }
  if (sign == '=') set(name, joined(other));
  expand(quoted ? without_quotes(other) : other, quoted, splits, out);
  return true;
}

// What % # / : ^ and , make of a value.
std::optional<ShellText> ShellRun::changed(const ShellText& value, const ShellText& change) {
  // All parts of the text are tried, so a long text is taken as not known.
  constexpr std::size_t kLongest = 1000;
  if (value.size() > kLongest) return std::nullopt;
  const std::string& text = change.str();
  const char sign = text[0];
  const bool twice = text.size() > 1 && text[1] == sign;
  if (sign == '%' || sign == '#') {
    const ShellText pattern = joined(change.part(twice ? 2 : 1));
    return without_match(value, pattern.str(), sign == '#', twice);
  }
  if (sign == '/') {
    const std::size_t begin = twice ? 2 : 1, slash = std::min(text.find('/', begin), text.size());
    const ShellText pattern = joined(change.part(begin, slash - begin));
    return with_replaced(value, pattern.str(), joined(change.part(slash + 1)), twice);
  }
  if (sign == '^' || sign == ',') return with_letters(value, sign == '^', twice);
  if (sign != ':') return std::nullopt;
  const std::size_t second = std::min(text.find(':', 1), text.size());
  const auto from = sum(change.part(1, second - 1));
  const auto count = second < text.size() ? sum(change.part(second + 1)) : std::nullopt;
  const auto size = static_cast<std::int64_t>(value.size());
  if (!from || (second < text.size() && !count)) return std::nullopt;
  const std::int64_t begin = std::clamp<std::int64_t>(*from < 0 ? size + *from : *from, 0, size);
  const std::int64_t end = !count       ? size
                           : *count < 0 ? size + *count
                                        : begin + std::min(*count, size - begin);
  return value.part(static_cast<std::size_t>(begin),
                    static_cast<std::size_t>(std::max(end - begin, std::int64_t{0})));
}

std::string ShellRun::key_text(const Value* value, const ShellText& key) {
  if (value != nullptr && value->named) return joined(key).str();
  const std::optional<std::int64_t> index = sum(key);
  return index ? fmt::format("{}", *index) : joined(key).str();
}

ShellRun::Found ShellRun::find(const std::string& name, const std::optional<ShellText>& key) {
  const auto variable = state_.variables.find(name);
  if (variable == state_.variables.end()) return find_special(name);
  const Value& value = variable->second;
  Found found{.known = true};
  const bool all = key && (key->str() == "@" || key->str() == "*");
  if (all) {
    found.several = true;
    found.set = !value.items.empty();
    for (const auto& [name_of_item, text] : value.items) found.values.push_back(text);
    return found;
  }
  const std::string wanted = key ? key_text(&value, *key) : "0";
  for (const auto& [name_of_item, text] : value.items) {
    if (name_of_item != wanted) continue;
    found.set = true;
    found.values = {text};
  }
  return found;
}

ShellRun::Found ShellRun::find_special(const std::string& name) const {
  if (name.empty()) return {};
  if (name == "0" || name == "BASH_SOURCE") {
    const std::string& file = files_[name == "0" ? started_ : current_];
    return {.set = true, .known = true, .values = {ShellText::at(file, {})}};
  }
  const std::vector<ShellText>& arguments = state_.arguments;
  if (name == "@" || name == "*")
    return {.set = !arguments.empty(), .known = true, .several = true, .values = arguments};
  if (name == "#" && state_.knows_arguments)
    return {.set = true, .known = true, .values = {ShellText::at(fmt::format("{}", arguments.size()), {})}};
  std::size_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stopped != end || number == 0) return {};
  if (number <= arguments.size()) return {.set = true, .known = true, .values = {arguments[number - 1]}};
  return {.known = state_.knows_arguments};
}

// What commands in $(…) print; nothing where it is not known.
std::optional<ShellText> ShellRun::substituted(const ShellText& commands) {
  if (++depth_ > 100) fail(commands.place(0), "words within each other, allowed: 100");
  ShellText printed;
  ShellText* const outer = std::exchange(capture_, &printed);
  const bool outer_all = std::exchange(captures_all_, true), outer_asks = std::exchange(asks_, false);
  const State saved = state_;
  const ShellText text = commands;
  run(parse_shell(text, files_));
  state_ = saved;
  capture_ = outer;
  asks_ = outer_asks;
  const bool all = std::exchange(captures_all_, outer_all);
  --depth_;
  if (!all) return std::nullopt;
  std::size_t size = printed.size();
  while (size > 0 && printed[size - 1] == '\n') --size;
  return printed.part(0, size);
}

std::optional<std::int64_t> ShellRun::sum(const ShellText& raw) {
  const ShellText text = joined(raw, true);
  if (!text.known()) return std::nullopt;
  if (text.str().find_first_not_of(" \t\n") == std::string::npos) return 0;
  const ShellPlace place = text.place(0);
  return shell_sum(text.str(),
                   {.get = [this](const std::string& name) { return number_of(name); },
                    .set =
                        [this, place](const std::string& name, std::optional<std::int64_t> value) {
                          if (value) {
                            set(name, ShellText::at(fmt::format("{}", *value), place));
                          } else {
                            set_unknown(name, place);
                          }
                        }});
}

std::optional<std::int64_t> ShellRun::number_of(const std::string& name) {
  const Found found = find(name, std::nullopt);
  if (!found.set) {
    if (!found.known && asks_) tell_unset(name);
    return found.known || asks_ ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  const ShellText& value = found.values.front();
  if (!value.known()) return std::nullopt;
  if (value.str() == name || ++depth_ > 100) return std::nullopt;
  const auto number = sum(value);
  --depth_;
  return number;
}

void ShellRun::set(const std::string& name, ShellText value) {
  Value& variable = state_.variables[name];
  if (!variable.list) variable.items.clear();
  for (auto& [key, text] : variable.items) {
    if (key != "0") continue;
    text = std::move(value);
    return;
  }
  variable.items.emplace_back("0", std::move(value));
}

void ShellRun::set_unknown(const std::string& name, ShellPlace place) {
  place.unknown = true;
  set(name, ShellText::at("$" + name, place));
}

void ShellRun::tell_unset(const std::string& written) {
  std::string name = written;
  std::erase_if(name, [](char c) { return c == '$' || c == '{' || c == '}'; });
  unset_.insert(name);
}

}  // namespace pipesim
