#include "tools/interop/python/python_settings.h"

#include <fmt/format.h>

#include <cstdint>

namespace pipesim {
namespace {

constexpr int kDeepestValue = 16;
constexpr std::size_t kMostSettings = 20'000;

std::string text_of_number(const PythonValue& value) {
  constexpr double kExact = 9e15;
  if (value.whole && value.number < kExact && value.number > -kExact)
    return fmt::format("{}", static_cast<std::int64_t>(value.number));
  return fmt::format("{}", value.number);
}

Setting setting_of(const PythonValue& value, const std::string& path, const std::string& source, int depth) {
  using Kind = Setting::Kind;
  Setting setting{.path = path, .place = fmt::format("{}:{}", source, value.line)};
  switch (value.kind) {
    case PythonValue::Kind::None:
      break;
    case PythonValue::Kind::Truth:
      setting.kind = Kind::Truth;
      setting.text = value.number != 0 ? "true" : "false";
      break;
    case PythonValue::Kind::Number:
      setting.kind = Kind::Number;
      setting.text = text_of_number(value);
      break;
    case PythonValue::Kind::Text:
      setting.kind = Kind::Text;
      setting.text = value.text;
      break;
    case PythonValue::Kind::List:
      setting.kind = Kind::List;
      for (std::size_t i = 0; i < value.items.size() && i < kMostSettings && depth < kDeepestValue; ++i)
        setting.items.push_back(setting_of(*value.items[i], path, source, depth + 1));
      break;
    case PythonValue::Kind::Object:
      setting.kind = Kind::Object;
      setting.text = value.text;
      break;
    case PythonValue::Kind::Code:
      setting.kind = Kind::Code;
      setting.text = value.text;
      break;
  }
  return setting;
}

void add_fields(const PythonValue& object, const std::string& before, int depth, Settings& to) {
  if (depth > kDeepestValue) return;
  for (const auto& [name, value] : object.fields) {
    if (to.all().size() > kMostSettings) return;
    const std::string path = before + name;
    const bool unset = value->kind == PythonValue::Kind::Object && value->text.empty();
    if (!unset) to.set(setting_of(*value, path, to.source(), depth));
    if (value->kind == PythonValue::Kind::Object) add_fields(*value, path + ".", depth + 1, to);
  }
}

std::string last_text(const PythonValue& value, int depth) {
  if (value.kind == PythonValue::Kind::Text) return value.text;
  if (depth > kDeepestValue) return "";
  std::string last;
  for (const auto& [name, field] : value.fields) {
    if (std::string text = last_text(*field, depth + 1); !text.empty()) last = std::move(text);
  }
  return last;
}

}  // namespace

Settings python_settings(const PythonReference& object, const std::string& source) {
  Settings settings(source);
  settings.set(setting_of(*object, "class", source, 0));
  add_fields(*object, "", 0, settings);
  return settings;
}

std::string text_within(const PythonReference& value) { return last_text(*value, 0); }

}  // namespace pipesim
