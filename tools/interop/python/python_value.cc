#include "tools/interop/python/python_value.h"

#include <algorithm>

namespace pipesim {
namespace {

PythonReference value_of(PythonValue::Kind kind, std::string text, std::size_t line) {
  auto value = std::make_shared<PythonValue>();
  value->kind = kind;
  value->text = std::move(text);
  value->line = line;
  return value;
}

}  // namespace

PythonReference PythonValue::field(std::string_view name) const {
  const auto found = std::ranges::find_if(fields, [&](const auto& f) { return f.first == name; });
  return found == fields.end() ? nullptr : found->second;
}

void PythonValue::set(const std::string& name, PythonReference value) {
  const auto found = std::ranges::find_if(fields, [&](const auto& f) { return f.first == name; });
  if (found == fields.end()) {
    fields.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

bool PythonValue::holds() const {
  return kind == Kind::Text ? !text.empty() : kind == Kind::List ? !items.empty() : number != 0;
}

PythonReference python_object(std::string name, std::size_t line) {
  return value_of(PythonValue::Kind::Object, std::move(name), line);
}
PythonReference python_code(std::string text, std::size_t line) {
  return value_of(PythonValue::Kind::Code, std::move(text), line);
}
PythonReference python_number(double number, bool whole, std::size_t line) {
  PythonReference value = value_of(PythonValue::Kind::Number, "", line);
  value->number = number;
  value->whole = whole;
  return value;
}
PythonReference python_truth(bool truth, std::size_t line) {
  PythonReference value = value_of(PythonValue::Kind::Truth, "", line);
  value->number = truth ? 1 : 0;
  return value;
}
PythonReference python_text(std::string text, std::size_t line) {
  return value_of(PythonValue::Kind::Text, std::move(text), line);
}

}  // namespace pipesim
