#include "models/onnx/reader/operator_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "models/operator_kind.h"

namespace pipesim {
namespace {

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == mark) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// What two blocks must have in common: names within them, kinds and attributes.
std::string likeness(const std::vector<OperatorRequest>& operators, const std::vector<std::size_t>& block,
                     const std::vector<std::vector<std::string>>& parts, std::size_t depth) {
  std::string text;
  for (const std::size_t i : block) {
    for (std::size_t p = depth; p < parts[i].size(); ++p) text += parts[i][p] + ".";
    text += operators[i].kind;
    for (const auto& [name, value] : operators[i].attributes) {
      if (name != "rate") text += " " + name + "=" + to_text(value);
    }
    text += std::to_string(operators[i].inputs.size()) + ";";
  }
  return text;
}

}  // namespace

std::string module_path(const std::string& node_name) {
  if (node_name.find('/') == std::string::npos) return "";
  std::vector<std::string> kept;
  std::vector<std::string> parts = split_at(node_name, '/');
  parts.pop_back();  // the operator
  for (std::string& part : parts) {
    if (part.empty()) continue;
    // Exporters repeat a list's name in its members': "layers/layers.3".
    if (!kept.empty() && part.starts_with(kept.back() + ".")) {
      kept.back() = std::move(part);
    } else {
      kept.push_back(std::move(part));
    }
  }
  std::string path;
  for (const std::string& part : kept) path += (path.empty() ? "" : ".") + part;
  return path;
}

std::string snake_case(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool after_small = i > 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (std::isupper(c) != 0 && after_small) result += '_';
    result += static_cast<char>(std::tolower(c));
  }
  return result;
}

std::string owner_of_weight(const std::string& weight) {
  if (weight.find("::") != std::string::npos) return "";
  const std::size_t dot = weight.rfind('.');
  return dot == std::string::npos ? "" : weight.substr(0, dot);
}

void label_repeats(std::vector<OperatorRequest>& operators) {
  std::vector<std::vector<std::string>> parts;
  std::size_t deepest = 0;
  for (const OperatorRequest& op : operators) {
    parts.push_back(split_at(op.name, '.'));
    deepest = std::max(deepest, parts.back().size());
  }
  // From the outside to the inside: blocks that got a label are one place from there on.
  for (std::size_t depth = 0; depth < deepest; ++depth) {
    std::map<std::string, std::map<std::string, std::vector<std::size_t>>> lists;  // of blocks by number
    for (std::size_t i = 0; i < operators.size(); ++i) {
      if (parts[i].size() <= depth + 1 || !is_number(parts[i][depth])) continue;
      std::string prefix;
      for (std::size_t p = 0; p < depth; ++p) prefix += parts[i][p] + ".";
      lists[prefix][parts[i][depth]].push_back(i);
    }
    // Blocks of outer repeats that are alike share a prefix by now, and lists within them are one.
    for (auto& [prefix, blocks] : lists) {
      std::map<std::string, std::vector<std::string>> alike;
      for (const auto& [number, block] : blocks)
        alike[likeness(operators, block, parts, depth + 1)].push_back(number);
      int sort = 0;
      for (const auto& [_, numbers] : alike) {
        if (numbers.size() < 2) continue;
        ++sort;
        for (const std::string& number : numbers) {
          for (const std::size_t i : blocks[number])
            parts[i][depth] = sort == 1 ? "#" : "#" + std::to_string(sort);
        }
      }
    }
  }
  for (std::size_t i = 0; i < operators.size(); ++i) {
    std::string label;
    bool repeated = false;
    for (const std::string& part : parts[i]) {
      const bool mark = part.starts_with("#");
      repeated = repeated || mark;
      label += (label.empty() || mark ? "" : ".") + part;
    }
    if (repeated) operators[i].repeat = label;
  }
}

}  // namespace pipesim
