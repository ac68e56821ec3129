#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tools/interop/shell/shell_parts.h"
#include "tools/interop/shell/shell_run.h"

namespace pipesim {

std::optional<ShellRun::Assignment> ShellRun::assignment_in(const ShellText& word) const {
  const std::string& text = word.str();
  std::size_t end = shell_name_length(text);
  if (end == 0) return std::nullopt;
  Assignment result{.name = text.substr(0, end), .key = std::nullopt, .value = {}};
  if (end < text.size() && text[end] == '[') {
    const std::size_t close = text.find(']', end);
    if (close == std::string::npos) return std::nullopt;
    result.key = word.part(end + 1, close - end - 1);
    end = close + 1;
  }
  result.adds = std::string_view(text).substr(end).starts_with("+=");
  if (result.adds) ++end;
  if (end >= text.size() || text[end] != '=') return std::nullopt;
  result.value = word.part(end + 1);
  return result;
}

void ShellRun::assign(const Assignment& assignment) {
  assign_value(assignment);
  if (exported_.contains(assignment.name)) export_value(assignment.name);
}

void ShellRun::export_value(const std::string& name) {
  exported_.insert(name);
  const auto variable = state_.variables.find(name);
  if (variable == state_.variables.end() || variable->second.list || variable->second.items.empty()) return;
  script_.exported[name] = variable->second.items.front().second.str();
}

void ShellRun::assign_value(const Assignment& assignment) {
  const std::string& raw = assignment.value.str();
  if (!assignment.key && raw.starts_with('(') && raw.ends_with(')'))
    return assign_list(state_.variables[assignment.name], assignment);
  ShellText value = joined(assignment.value);
  if (value.str().find("--") != std::string::npos) keep_words(value);
  const bool number = state_.variables.contains(assignment.name) && state_.variables[assignment.name].list;
  const Value* const known = number ? &state_.variables[assignment.name] : nullptr;
  const std::string key = assignment.key ? key_text(known, *assignment.key) : "0";
  Value& variable = state_.variables[assignment.name];
  if (assignment.key) variable.list = true;
  if (!variable.list && !assignment.adds) variable.items.clear();
  for (auto& [name, text] : variable.items) {
    if (name != key) continue;
    if (assignment.adds) {
      constexpr std::size_t kLongest = 1 << 20;
      if (text.size() + value.size() > kLongest)
        fail(value.place(0), "a text of more than 1048576 characters");
      text.add(value);
    } else {
      text = std::move(value);
    }
    return;
  }
  variable.items.emplace_back(key, std::move(value));
}

// Words of a variable, for scripts whose launch does not show them.
void ShellRun::keep_words(const ShellText& value) {
  Fields words;
  words.add(value, true);
  words.end();
  for (const ShellText& word : words.done)
    script_.values.push_back({word.str(), files_[word.place(0).file], word.place(0).line});
}

void ShellRun::assign_list(Value& value, const Assignment& assignment) {
  const ShellText inner = assignment.value.part(1, assignment.value.size() - 2);
  std::vector<std::pair<std::string, ShellText>> items;
  if (assignment.adds) items = value.items;
  const bool named = value.named;
  for (const ShellText& word : shell_words(inner, files_)) {
    const std::size_t close = word.str().starts_with('[') ? word.str().find("]=") : std::string::npos;
    if (close != std::string::npos) {
      items.emplace_back(key_text(&value, word.part(1, close - 1)), joined(word.part(close + 2)));
      continue;
    }
    for (ShellText& field : fields(word)) {
      items.emplace_back(fmt::format("{}", items.size()), std::move(field));
    }
  }
  const bool arguments =
      std::ranges::any_of(items, [](const auto& item) { return item.second.str().starts_with("--"); });
  if (arguments) {
    for (const auto& [key, text] : items) keep_words(text);
  }
  Value& variable = state_.variables[assignment.name];  // words may have set others
  variable = {.list = true, .named = named, .items = std::move(items)};
}

// export A=1 B, declare -A M, local x=2.
void ShellRun::declare(const ShellNode& node, std::size_t from) {
  const std::string kind = node.words[from].str();
  bool named = false, list = false, exports = kind == "export";
  for (std::size_t i = from + 1; i < node.words.size(); ++i) {
    const ShellText& word = node.words[i];
    if (word.str().starts_with('-')) {
      named |= word.str().find('A') != std::string::npos;
      list |= named || word.str().find('a') != std::string::npos;
      exports |= word.str().find('x') != std::string::npos;
      continue;
    }
    const std::optional<Assignment> assignment = assignment_in(word);
    const std::string name = assignment ? assignment->name : joined(word).str();
    if (kind == "local" && !locals_.empty() && !locals_.back().contains(name))
      locals_.back()[name] = state_.variables.contains(name) ? state_.variables[name] : Value();
    if (list) {
      Value& value = state_.variables[name];
      value.list = true;
      value.named = named;
    }
    if (assignment) {
      assign(*assignment);
    } else if (kind == "local" && !list) {
      state_.variables[name] = Value();
    }
    if (exports) export_value(name);
  }
  status_ = Status::True;
}

}  // namespace pipesim
