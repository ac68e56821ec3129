#include "models/model_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/fusion.h"
#include "models/graph_builder.h"
#include "models/topological_order.h"
#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "sim/base/json_reader.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

const std::vector<std::string> operator_keys = {"name",    "kind",   "inputs", "outputs",
                                                "weights", "repeat", "frozen"};

std::vector<std::string> strings(const std::optional<JsonValue>& list) {
  std::vector<std::string> result;
  if (!list) return result;
  for (const JsonValue& item : list->items()) result.push_back(item.string());
  return result;
}

AttributeValue read_word(const JsonValue& value, const AttributeSchema& schema) {
  std::string word = value.string();
  if (schema.is_text()) return word;
  if (std::count(schema.words.begin(), schema.words.end(), word) == 0) {
    value.fail(fmt::format("found \"{}\"{}, allowed: {}", word, did_you_mean(word, schema.words),
                           list_names(schema.words)));
  }
  return word;
}

AttributeValue read_attribute(const JsonValue& value, const AttributeSchema& schema,
                              const NamedSizes& sizes) {
  // Those of real numbers may be no integers at all.
  const bool is_real = schema.type == AttributeType::Real;
  const auto lowest = is_real ? 0 : static_cast<std::int64_t>(schema.lowest),
             highest = is_real ? 0 : static_cast<std::int64_t>(schema.highest);
  switch (schema.type) {
    case AttributeType::Flag:
      return value.is_number() ? value.integer(0, 1) : static_cast<std::int64_t>(value.boolean());
    case AttributeType::Integer:
      return sizes.integer(value, lowest, highest);
    case AttributeType::Integers:
      if (value.is_number() || value.is_string()) return std::vector{sizes.integer(value, lowest, highest)};
      return sizes.integers(value, lowest, highest);
    case AttributeType::Real:
      return value.number(schema.lowest, schema.highest);
    case AttributeType::Word:
      return read_word(value, schema);
  }
  throw InternalError("an attribute of no type");
}

struct FileInput {
  JsonValue at;
  std::string name, before;
  bool causal_mask = false;
};

struct FileOperator {
  JsonValue at;
  OperatorRequest request;          ///< without inputs
  std::vector<std::string> inputs;  ///< names of tensors
};

FileOperator read_operator(const JsonValue& at, const NamedSizes& sizes) {
  OperatorRequest request;
  request.name = at.at("name").string();
  const JsonValue kind_at = at.at("kind");
  request.kind = kind_at.string();
  const OperatorKind* kind = nullptr;
  try {
    kind = &operator_kind(request.kind);
  } catch (const InputError& error) {
    kind_at.fail(error.what());
  }
  std::vector<std::string> keys = operator_keys;
  for (const AttributeSchema& schema : kind->attributes) {
    keys.push_back(schema.name);
    if (const auto value = at.find(schema.name))
      request.attributes[schema.name] = read_attribute(*value, schema, sizes);
  }
  at.allow_only(keys);
  request.weights = strings(at.find("weights"));
  request.outputs = strings(at.find("outputs"));
  if (const auto repeat = at.find("repeat")) request.repeat = repeat->string();
  if (const auto frozen = at.find("frozen")) request.frozen = frozen->boolean();
  std::vector<std::string> inputs = strings(at.find("inputs"));
  return {at, std::move(request), std::move(inputs)};
}

DataType model_type(const JsonValue& root) {
  const auto at = root.find("dtype");
  const DataType type = at ? at->data_type() : DataType::Float32;
  if (!is_floating(type)) at->fail(fmt::format("found {}, a floating-point type is needed", name_of(type)));
  return type;
}

// A number, or the name of one size: --batch sets that.
std::int64_t batch_of(const JsonValue& root, const NamedSizes& sizes) {
  const JsonValue at = root.at("batch");
  if (at.is_string() && !sizes.has(at.string())) {
    std::vector<std::string> names;
    for (const NamedSize& s : sizes.list()) names.push_back(s.name);
    at.fail(fmt::format("found {}{}, a number or a name of \"sizes\" is needed{}", at.text(),
                        did_you_mean(at.string(), names),
                        names.empty() ? "" : "; there are " + list_names(names)));
  }
  return sizes.integer(at, 1, kLargestSize);
}

// The file's name for the model, and the sizes that differ from those of the file.
std::string name_with(const JsonValue& root, const NamedSizes& sizes, const std::vector<NamedSize>& bound) {
  std::string name = root.at("name").string();
  if (bound.empty()) return name;
  char separator = ':';
  const NamedSizes usual(root, {});
  for (std::size_t i = 0; i < usual.list().size(); ++i) {
    const NamedSize& now = sizes.list()[i];
    const bool told = std::ranges::find(bound, now.name, &NamedSize::name) != bound.end();
    if (told && now != usual.list()[i])
      name += fmt::format("{}{}={}", std::exchange(separator, ','), now.name, now.value);
  }
  return name;
}

/// Builds the graph from the entries of a file: operators in a topological order, inputs where they say.
class ModelReader {
 public:
  ModelReader(const JsonValue& root, const std::vector<NamedSize>& bound)
      : root_(root),
        sizes_(root, bound),
        builder_(name_with(root, sizes_, bound), batch_of(root, sizes_), model_type(root)) {
    for (const JsonValue& at : root.at("inputs").items()) read_input(at);
    for (const JsonValue& at : root.at("operators").items()) {
      operators_.push_back(read_operator(at, sizes_));
      const OperatorRequest& request = operators_.back().request;
      producers_.emplace(request.name, operators_.size() - 1);
      for (const std::string& output : request.outputs) producers_.emplace(output, operators_.size() - 1);
    }
  }

  OperatorGraph read() {
    for (const FileInput& input : inputs_) check_place(input);
    for (const FileInput& input : inputs_) {
      if (input.before == at_the_front) make_input(input);
    }
    for (const std::size_t i : order()) {
      for (const FileInput& input : inputs_) {
        if (input.before == operators_[i].request.name) make_input(input);
      }
      add(operators_[i]);
    }
    for (const FileInput& input : inputs_) make_input(input);
    const auto fused = root_.find("fuse");
    return fused && fused->boolean() ? fuse(builder_.build(), causal_masks()) : builder_.build();
  }

 private:
  static constexpr std::string_view at_the_front = "\n";  // no operator is named so

  void read_input(const JsonValue& at) {
    at.allow_only({"name", "shape", "dtype", "before", "content"});
    FileInput input{at, at.at("name").string(), std::string(at_the_front)};
    if (const auto before = at.find("before")) input.before = before->string();
    if (const auto content = at.find("content")) {
      input.causal_mask = content->string() == "causal_mask";
      if (!input.causal_mask)
        content->fail(fmt::format("found \"{}\", allowed: causal_mask", content->string()));
    }
    if (find_input(input.name) != nullptr) {
      at.at("name").fail(fmt::format("a second input named \"{}\"", input.name));
    }
    inputs_.push_back(std::move(input));
  }

  [[nodiscard]] const FileInput* find_input(const std::string& name) const {
    const auto named = [&](const FileInput& input) { return input.name == name; };
    const auto found = std::find_if(inputs_.begin(), inputs_.end(), named);
    return found == inputs_.end() ? nullptr : &*found;
  }

  [[nodiscard]] std::set<std::string> causal_masks() const {
    std::set<std::string> names;
    for (const FileInput& input : inputs_) {
      if (input.causal_mask) names.insert(input.name);
    }
    return names;
  }

  void check_place(const FileInput& input) const {
    if (input.before == at_the_front || input.before.empty()) return;
    std::vector<std::string> names;
    for (const FileOperator& op : operators_) names.push_back(op.request.name);
    if (std::find(names.begin(), names.end(), input.before) != names.end()) return;
    input.at.at("before").fail(
        fmt::format("unknown operator \"{}\"{}", input.before, did_you_mean(input.before, names)));
  }

  /// Also when an operator needs the input earlier than "before" says.
  void make_input(const FileInput& input) {
    if (builder_.find(input.name).valid()) return;
    const auto shape = sizes_.integers(input.at.at("shape"), 1, kLargestSize);
    const auto type = input.at.find("dtype");
    try {
      type ? builder_.data(input.name, shape, type->data_type()) : builder_.data(input.name, shape);
    } catch (const InputError& error) {
      input.at.fail(error.what());
    }
  }

  /// The operator that makes a tensor; none for inputs and unknown names.
  [[nodiscard]] std::optional<std::size_t> producer(const std::string& tensor) const {
    if (find_input(tensor) != nullptr) return std::nullopt;
    auto found = producers_.find(tensor);
    if (found == producers_.end()) found = producers_.find(tensor.substr(0, tensor.rfind('.')));
    return found == producers_.end() ? std::nullopt : std::optional(found->second);
  }

  [[nodiscard]] std::vector<std::size_t> order() const {
    std::vector<std::vector<std::size_t>> predecessors(operators_.size());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      names.push_back(operators_[i].request.name);
      for (const std::string& input : operators_[i].inputs) {
        if (const auto p = producer(input)) predecessors[i].push_back(*p);
      }
    }
    const TopologicalOrder sorted = topological_order(predecessors);
    if (!sorted.cycle.empty()) {
      root_.at("operators").fail("operators form a cycle: " + cycle_text(sorted.cycle, names));
    }
    return sorted.order;
  }

  void add(FileOperator& file_operator) {
    OperatorRequest& request = file_operator.request;
    for (std::size_t i = 0; i < file_operator.inputs.size(); ++i) {
      const std::string& name = file_operator.inputs[i];
      if (const FileInput* input = find_input(name)) make_input(*input);
      request.inputs.push_back(builder_.find(name));
      if (!request.inputs.back().valid()) {
        file_operator.at.at("inputs").items()[i].fail("unknown tensor \"" + name + "\"" +
                                                      did_you_mean(name, tensor_names()));
      }
    }
    try {
      builder_.add_operator(request);
    } catch (const InputError& error) {
      file_operator.at.fail(error.what());
    }
  }

  [[nodiscard]] std::vector<std::string> tensor_names() const {
    std::vector<std::string> names;
    for (const FileInput& input : inputs_) names.push_back(input.name);
    for (const auto& [name, producer] : producers_) names.push_back(name);
    return names;
  }

  JsonValue root_;
  NamedSizes sizes_;
  GraphBuilder builder_;
  std::vector<FileInput> inputs_;
  std::vector<FileOperator> operators_;
  std::map<std::string, std::size_t> producers_;  ///< by name of operator or of explicitly named output
};

JsonValue checked_root(std::string_view text, const std::string& source) {
  const JsonValue root = JsonDocument::parse(text, source);
  require_file_kind(root, kModelKey);
  static_cast<void>(root.at("pipesim_model").integer(1, 1));
  root.allow_only({"pipesim_model", "name", "sizes", "batch", "dtype", "fuse", "inputs", "operators"});
  return root;
}

}  // namespace

OperatorGraph parse_model(std::string_view text, const std::string& source,
                          const std::vector<NamedSize>& bound) {
  return ModelReader(checked_root(text, source), bound).read();
}

OperatorGraph load_model(const std::string& path, const std::vector<NamedSize>& bound) {
  return parse_model(read_file(path), path, bound);
}

ModelFileSizes load_model_sizes(const std::string& path) {
  const JsonValue root = checked_root(read_file(path), path);
  const NamedSizes sizes(root, {});
  const JsonValue batch = root.at("batch");
  return {sizes.list(), batch.is_string() ? batch.string() : "", batch_of(root, sizes)};
}

}  // namespace pipesim
