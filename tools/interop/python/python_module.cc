#include "tools/interop/python/python_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using NodeKind = PythonNode::Kind;
using Value = PythonValue;

constexpr int kDeepestCall = 30;
constexpr std::int64_t kMostPythonSteps = 50'000;

PythonReference number_of(const PythonNode& node) {
  const char* const end = node.text.data() + node.text.size();
  double number = 0;
  const auto [stopped, error] = std::from_chars(node.text.data(), end, number);
  if (error != std::errc() || stopped != end) return python_code(node.text, node.line);
  return python_number(number, node.text.find_first_of(".eE") == std::string::npos, node.line);
}

// Writes an expression as a program would.
std::string text_of(const PythonNode& node) {
  const auto part = [&](std::size_t i) { return text_of(node.parts[i]); };
  std::string list;
  switch (node.kind) {
    case NodeKind::Text:
      return "\"" + node.text + "\"";
    case NodeKind::None:
      return "None";
    case NodeKind::Field:
      return part(0) + "." + node.text;
    case NodeKind::Item:
      return part(0) + "[" + part(1) + "]";
    case NodeKind::Keyword:
      return node.text + "=" + part(0);
    case NodeKind::Spread:
      return "*" + part(0);
    case NodeKind::Choice:
      return part(0) + " if " + part(1) + " else " + part(2);
    case NodeKind::Sign:
      return node.parts.size() == 1 ? node.text + " " + part(0) : part(0) + " " + node.text + " " + part(1);
    case NodeKind::Call:
    case NodeKind::List:
    case NodeKind::Dictionary:
      for (std::size_t i = node.kind == NodeKind::Call ? 1 : 0; i < node.parts.size(); ++i)
        list += (list.empty() ? "" : ", ") + part(i);
      return node.kind == NodeKind::Call ? part(0) + "(" + list + ")" : "[" + list + "]";
    default:
      return node.text;
  }
}

// Returns whether a value holds another one at any depth. Objects that hold each other are no configuration.
bool reaches(const PythonValue& from, const PythonValue* to, int depth = 0) {
  constexpr int kDeepest = 30;
  if (&from == to || depth > kDeepest) return true;
  for (const PythonReference& item : from.items) {
    if (reaches(*item, to, depth + 1)) return true;
  }
  return std::ranges::any_of(from.fields, [&](const auto& f) { return reaches(*f.second, to, depth + 1); });
}

// Returns "a.b.c" for an expression of nothing but names, "" for others.
std::string dotted(const PythonNode& node) {
  if (node.kind == NodeKind::Name) return node.text;
  if (node.kind != NodeKind::Field) return "";
  const std::string owner = dotted(node.parts[0]);
  return owner.empty() ? "" : owner + "." + node.text;
}

}  // namespace

PythonModule::PythonModule(std::string_view text, const std::string& source)
    : source_(source), tree_(parse_python(text, source)) {
  try {
    run(tree_, names_);
  } catch (const Returned&) {
    throw InputError(source + ": returns outside of a function");
  }
}

void PythonModule::skip(std::size_t line, const std::string& what) {
  if (inside_) notes_.push_back(fmt::format("line {}: {}", line, what));
}

void PythonModule::step(std::size_t line) {
  if (++steps_ > kMostPythonSteps)
    throw InputError(fmt::format("{}:{}: the program goes on for too long to be followed", source_, line));
}

std::vector<std::string> PythonModule::functions() const {
  std::vector<std::string> names;
  for (const std::string& name : order_) {
    const PythonNode& function = *functions_.at(name);
    const bool needs_some = std::any_of(function.parts.begin(), function.parts.end() - 1,
                                        [](const PythonNode& p) { return p.kind == NodeKind::Name; });
    if (!needs_some) names.push_back(name);
  }
  return names;
}

PythonReference PythonModule::value(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

PythonReference PythonModule::call(const std::string& function) {
  inside_ = true;
  const PythonNode& definition = *functions_.at(function);
  PythonNode without_arguments{NodeKind::Call, "", definition.line, {}};
  without_arguments.parts.push_back({NodeKind::Name, function, definition.line, {}});
  PythonReference result = call_own(definition, without_arguments, names_);
  inside_ = false;
  return result;
}

void PythonModule::run(const PythonNode& block, Names& names) {
  for (const PythonNode& statement : block.parts) run_statement(statement, names);
}

void PythonModule::run_statement(const PythonNode& statement, Names& names) {
  step(statement.line);
  switch (statement.kind) {
    case NodeKind::Block:
      return run(statement, names);
    case NodeKind::Assign: {
      if (statement.text == "=")
        return assign(statement.parts[0], evaluate(statement.parts[1], names), names);
      const PythonNode sum{NodeKind::Sign, statement.text.substr(0, statement.text.size() - 1),
                           statement.line, statement.parts};
      return assign(statement.parts[0], evaluate(sum, names), names);
    }
    case NodeKind::Expression: {
      const PythonReference value = evaluate(statement.parts[0], names);
      if (statement.parts[0].kind == NodeKind::Call && value->kind == Value::Kind::Object) {
        calls_.push_back(value);
        if (!value->text.starts_with("print") && !value->text.starts_with("logger"))
          skip(statement.line, fmt::format("{} is not followed", text_of(statement.parts[0])));
      }
      return;
    }
    case NodeKind::Return:
      throw Returned{evaluate(statement.parts[0], names)};
    case NodeKind::Function:
      functions_[statement.text] = &statement;
      if (!inside_ && std::ranges::find(order_, statement.text) == order_.end())
        order_.push_back(statement.text);
      return;
    case NodeKind::Condition:
      return run_condition(statement, names);
    case NodeKind::Loop:
      return run_loop(statement, names);
    case NodeKind::Import:
      names[statement.text] = python_code(statement.parts[0].text, statement.line);
      return;
    case NodeKind::Skipped:
      return skip(statement.line, fmt::format("\"{} …\" is not followed", statement.text));
    default:
      return;
  }
}

void PythonModule::run_condition(const PythonNode& statement, Names& names) {
  const PythonReference test = evaluate(statement.parts[0], names);
  if (!test->is_constant()) {
    skip(statement.line,
         fmt::format("a condition on {} is not known, and taken as false", text_of(statement.parts[0])));
    if (statement.parts.size() > 2) run(statement.parts[2], names);
    return;
  }
  if (test->holds()) return run(statement.parts[1], names);
  if (statement.parts.size() > 2) run(statement.parts[2], names);
}

// A loop over a list is followed once for each item; a loop over an unknown object once, for all that it may
// hold.
void PythonModule::run_loop(const PythonNode& statement, Names& names) {
  const PythonReference over = evaluate(statement.parts[1], names);
  if (over->kind == Value::Kind::List) {
    for (const PythonReference& item : std::vector<PythonReference>(over->items)) {
      assign(statement.parts[0], item, names);
      run(statement.parts[2], names);
    }
    return;
  }
  if (over->kind != Value::Kind::Object) return skip(statement.line, "a loop is not followed");
  const PythonReference any = field_of(over, "each", statement.line);
  const PythonNode& target = statement.parts[0];
  for (const PythonNode& part :
       target.kind == NodeKind::List ? target.parts : std::vector<PythonNode>{target})
    assign(part, any, names);
  run(statement.parts[2], names);
}

void PythonModule::assign(const PythonNode& target, const PythonReference& value, Names& names) {
  if (target.kind == NodeKind::Name) {
    names[target.text] = value;
  } else if (target.kind == NodeKind::Field) {
    const PythonReference owner = evaluate(target.parts[0], names);
    if (owner->kind != Value::Kind::Object)
      return skip(target.line, fmt::format("{} is not followed", text_of(target)));
    owner->set(target.text,
               reaches(*value, owner.get()) ? python_code(value->text + "(…)", target.line) : value);
  } else if (target.kind == NodeKind::List && value->kind == Value::Kind::List &&
             value->items.size() == target.parts.size()) {
    for (std::size_t i = 0; i < target.parts.size(); ++i) assign(target.parts[i], value->items[i], names);
  } else {
    skip(target.line, fmt::format("{} is not followed", text_of(target)));
  }
}

PythonReference PythonModule::name(const PythonNode& node, const Names& names) {
  if (const auto own = names.find(node.text); own != names.end()) return own->second;
  if (const auto of_module = names_.find(node.text); of_module != names_.end()) return of_module->second;
  return python_code(node.text, node.line);
}

PythonReference PythonModule::field_of(const PythonReference& owner, const std::string& name,
                                       std::size_t line) {
  if (owner->kind == Value::Kind::Object) {
    if (PythonReference field = owner->field(name)) return field;
    PythonReference unset = python_object("", line);
    const PythonReference given = owner->field("0");
    const bool named = !owner->text.empty() && given && given->kind == Value::Kind::Text;
    unset->origin = (owner->text.empty() ? owner->origin : owner->text) +
                    (named ? "(" + given->text + ")" : "") + "." + name;
    owner->set(name, unset);
    return unset;
  }
  if (owner->kind == Value::Kind::Code) return python_code(owner->text + "." + name, line);
  return python_code("." + name, line);
}

PythonReference PythonModule::evaluate(const PythonNode& node, Names& names) {
  step(node.line);
  switch (node.kind) {
    case NodeKind::None:
      return std::make_shared<Value>(Value{.line = node.line});
    case NodeKind::Truth:
      return python_truth(node.text == "True", node.line);
    case NodeKind::Number:
      return number_of(node);
    case NodeKind::Text:
      return python_text(node.text, node.line);
    case NodeKind::Name:
      return name(node, names);
    case NodeKind::List: {
      auto list = std::make_shared<Value>(Value{.kind = Value::Kind::List, .line = node.line});
      for (const PythonNode& part : node.parts) list->items.push_back(evaluate(part, names));
      return list;
    }
    case NodeKind::Dictionary: {
      PythonReference object = python_object("dict", node.line);
      for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2) {
        const PythonReference key = evaluate(node.parts[i], names);
        object->set(key->kind == Value::Kind::Text ? key->text : text_of(node.parts[i]),
                    evaluate(node.parts[i + 1], names));
      }
      return object;
    }
    case NodeKind::Field:
      return field_of(evaluate(node.parts[0], names), node.text, node.line);
    case NodeKind::Item: {
      const PythonReference owner = evaluate(node.parts[0], names), key = evaluate(node.parts[1], names);
      if (owner->kind == Value::Kind::Object && key->kind == Value::Kind::Text)
        return field_of(owner, key->text, node.line);
      if (owner->kind == Value::Kind::List && key->kind == Value::Kind::Number && key->whole &&
          key->number >= 0 && key->number < static_cast<double>(owner->items.size()))
        return owner->items[static_cast<std::size_t>(key->number)];
      return python_code(text_of(node), node.line);
    }
    case NodeKind::Call:
      return call(node, names);
    case NodeKind::Sign:
      return sign(node, names);
    case NodeKind::Choice: {
      const PythonReference test = evaluate(node.parts[1], names);
      if (test->is_constant()) return evaluate(node.parts[test->holds() ? 0 : 2], names);
      return python_code(text_of(node), node.line);
    }
    default:
      return python_code(text_of(node), node.line);
  }
}

PythonReference PythonModule::call(const PythonNode& node, Names& names) {
  const PythonNode& callee = node.parts[0];
  if (callee.kind == NodeKind::Name && !names.contains(callee.text)) {
    const auto own = functions_.find(callee.text);
    if (own != functions_.end() && callee.text != "put") return call_own(*own->second, node, names);
  }
  std::vector<PythonReference> arguments;
  std::vector<std::pair<std::string, PythonReference>> named;
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    const PythonNode& part = node.parts[i];
    if (part.kind == NodeKind::Keyword) {
      named.emplace_back(part.text, evaluate(part.parts[0], names));
    } else {
      arguments.push_back(evaluate(part, names));
    }
  }
  const std::string written = dotted(callee);
  if (written == "put" && functions_.contains("put")) return put(arguments, node.line);
  if (written == "replace" || written == "dataclasses.replace" || written == "copy.deepcopy" ||
      written == "deepcopy") {
    if (!arguments.empty() && arguments[0]->kind == Value::Kind::Object) {
      PythonReference changed = copy(arguments[0], node.line);
      for (auto& [key, value] : named) changed->set(key, value);
      return changed;
    }
  }
  // A method call on an object gives its field of that name, whose own fields 0, 1, … are the arguments.
  std::string known = written;
  if (callee.kind == NodeKind::Field) {
    const PythonReference owner = evaluate(callee.parts[0], names);
    if (owner->kind == Value::Kind::Object) {
      PythonReference part = field_of(owner, callee.text, node.line);
      for (std::size_t i = 0; i < arguments.size() && part->kind == Value::Kind::Object; ++i) {
        if (!reaches(*arguments[i], part.get())) part->set(fmt::format("{}", i), arguments[i]);
      }
      return part;
    }
    if (owner->kind == Value::Kind::Code) known = owner->text + "." + callee.text;
  } else if (callee.kind == NodeKind::Name) {
    const PythonReference value = name(callee, names);
    known = value->kind == Value::Kind::Code ? value->text : callee.text;
  } else {
    return python_code(text_of(node), node.line);
  }
  PythonReference object = python_object(known, node.line);
  for (std::size_t i = 0; i < arguments.size(); ++i) object->set(fmt::format("{}", i), arguments[i]);
  for (auto& [key, value] : named) object->set(key, value);
  return object;
}

PythonReference PythonModule::copy(const PythonReference& object, std::size_t line) {
  PythonReference changed = std::make_shared<Value>(*object);
  changed->line = line;
  return changed;
}

// Follows put(object, "path.of.a.field", value), with which exports of pipesim set a field.
PythonReference PythonModule::put(const std::vector<PythonReference>& arguments, std::size_t line) {
  const bool plain = arguments.size() == 3 && arguments[0]->kind == Value::Kind::Object &&
                     arguments[1]->kind == Value::Kind::Text;
  if (!plain) {
    skip(line, "put(…) is not followed");
    return std::make_shared<Value>();
  }
  PythonReference owner = arguments[0];
  std::string path = arguments[1]->text;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.')) {
    owner = field_of(owner, path.substr(0, dot), line);
    path.erase(0, dot + 1);
    if (owner->kind != Value::Kind::Object) return std::make_shared<Value>();
  }
  const bool holds_owner = reaches(*arguments[2], owner.get());
  owner->set(path, holds_owner ? python_code(arguments[2]->text + "(…)", line) : arguments[2]);
  return std::make_shared<Value>();
}

PythonReference PythonModule::call_own(const PythonNode& function, const PythonNode& node, Names& names) {
  if (++depth_ > kDeepestCall)
    throw InputError(fmt::format("{}:{}: calls go too deep to be followed", source_, node.line));
  Names inner;
  const std::size_t parameters = function.parts.size() - 1;
  for (std::size_t i = 0; i < parameters; ++i) {
    const PythonNode& parameter = function.parts[i];
    inner[parameter.text] = parameter.kind == NodeKind::Keyword ? evaluate(parameter.parts[0], names_)
                                                                : python_code(parameter.text, node.line);
  }
  for (std::size_t i = 1, place = 0; i < node.parts.size(); ++i) {
    const PythonNode& part = node.parts[i];
    if (part.kind == NodeKind::Keyword) {
      inner[part.text] = evaluate(part.parts[0], names);
    } else if (place < parameters) {
      inner[function.parts[place++].text] = evaluate(part, names);
    }
  }
  PythonReference result = std::make_shared<Value>(Value{.line = node.line});
  try {
    run(function.parts.back(), inner);
  } catch (const Returned& returned) {
    result = returned.value;
  }
  --depth_;
  return result;
}

PythonReference PythonModule::sign(const PythonNode& node, Names& names) {
  const PythonReference left = evaluate(node.parts[0], names);
  if (node.parts.size() == 1) {
    if (node.text == "not" && left->is_constant()) return python_truth(!left->holds(), node.line);
    if (node.text == "-" && left->kind == Value::Kind::Number)
      return python_number(-left->number, left->whole, node.line);
    return python_code(text_of(node), node.line);
  }
  if (node.text == "and" || node.text == "or") {
    if (!left->is_constant()) return python_code(text_of(node), node.line);
    return left->holds() == (node.text == "or") ? left : evaluate(node.parts[1], names);
  }
  return joined(node, left, evaluate(node.parts[1], names));
}

PythonReference PythonModule::joined(const PythonNode& node, const PythonReference& left,
                                     const PythonReference& right) {
  const std::string& sign = node.text;
  if (sign == "is" || sign == "is not") {
    if (left->is_constant() && right->is_constant())
      return python_truth((left->kind == right->kind) == (sign == "is"), node.line);
    return python_code(text_of(node), node.line);
  }
  if (left->kind == Value::Kind::Number && right->kind == Value::Kind::Number) {
    const double a = left->number, b = right->number;
    const bool whole = left->whole && right->whole;
    if (sign == "+") return python_number(a + b, whole, node.line);
    if (sign == "-") return python_number(a - b, whole, node.line);
    if (sign == "*") return python_number(a * b, whole, node.line);
    if (sign == "**") return python_number(std::pow(a, b), whole && b >= 0, node.line);
    if (b != 0 && sign == "/") return python_number(a / b, false, node.line);
    if (b != 0 && sign == "//") return python_number(std::floor(a / b), whole, node.line);
    if (sign == "==" || sign == "!=") return python_truth((a == b) == (sign == "=="), node.line);
    if (sign == "<") return python_truth(a < b, node.line);
    if (sign == ">") return python_truth(a > b, node.line);
    if (sign == "<=") return python_truth(a <= b, node.line);
    if (sign == ">=") return python_truth(a >= b, node.line);
  }
  if (left->kind == Value::Kind::Text && right->kind == Value::Kind::Text) {
    if (sign == "+") return python_text(left->text + right->text, node.line);
    if (sign == "==" || sign == "!=")
      return python_truth((left->text == right->text) == (sign == "=="), node.line);
  }
  if (left->kind == Value::Kind::List && right->kind == Value::Kind::List && sign == "+") {
    PythonReference sum = std::make_shared<Value>(*left);
    sum->items.insert(sum->items.end(), right->items.begin(), right->items.end());
    return sum;
  }
  if (left->kind == Value::Kind::Text && right->kind == Value::Kind::List &&
      (sign == "in" || sign == "not in")) {
    const bool there = std::ranges::any_of(right->items, [&](const PythonReference& item) {
      return item->kind == Value::Kind::Text && item->text == left->text;
    });
    return python_truth(there == (sign == "in"), node.line);
  }
  return python_code(text_of(node), node.line);
}

}  // namespace pipesim
