#include "tools/cli/manual/model_reference.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "models/model_json.h"
#include "models/operator_graph.h"
#include "models/zoo/zoo.h"
#include "sim/base/json_text.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"
#include "tools/render/base/text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// A table for text and Markdown alike; rows have as many cells as the head.
struct Columns {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

std::string plain(const Columns& columns) {
  std::vector<Table::Column> head;
  for (const std::string& title : columns.head) head.push_back({title, Align::Left});
  Table table(head);
  for (const std::vector<std::string>& row : columns.rows) table.add(row);
  return table.str(2);
}

std::string markdown(const Columns& columns) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::string cell : cells) {
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
      text += fmt::format(" {} |", cell);
    }
    return text + "\n";
  };
  return line(columns.head) + line(std::vector<std::string>(columns.head.size(), "---")) + [&] {
    std::string rows;
    for (const std::vector<std::string>& row : columns.rows) rows += line(row);
    return rows;
  }();
}

// Writes a value as it stands in a model file.
std::string value_text(const AttributeSchema& schema, const AttributeValue& value) {
  if (schema.type == AttributeType::Flag) return std::get<std::int64_t>(value) != 0 ? "true" : "false";
  return to_text(value);
}

std::string allowed_in_file(const AttributeSchema& schema) {
  switch (schema.type) {
    case AttributeType::Flag:
      return "true or false";
    case AttributeType::Integers:
      return fmt::format("a list of {}, or one for a list of it", allowed_text(schema));
    case AttributeType::Word:
      return schema.is_text() ? allowed_text(schema) : "one of " + allowed_text(schema);
    case AttributeType::Integer:
    case AttributeType::Real:
      break;
  }
  return allowed_text(schema);
}

Columns attributes_of(const OperatorKind& kind) {
  Columns columns{{"attribute", "default", "meaning", "allowed"}, {}};
  for (const AttributeSchema& schema : kind.attributes) {
    columns.rows.push_back({schema.name, schema.fallback ? value_text(schema, *schema.fallback) : "needed",
                            schema.help, allowed_in_file(schema)});
  }
  return columns;
}

const char* role_name(Role role) {
  switch (role) {
    case Role::Input:
      return "input";
    case Role::Weight:
      return "weight";
    case Role::Index:
      return "index";
    case Role::Output:
      return "output";
    case Role::State:
      break;
  }
  return "state";
}

const char* factor_kind_name(FactorKind kind) {
  switch (kind) {
    case FactorKind::Sample:
      return "sample";
    case FactorKind::Attribute:
      return "attribute";
    case FactorKind::Parameter:
      return "parameter";
    case FactorKind::Reduction:
      break;
  }
  return "reduction";
}

std::string split_text(const Factor& factor) {
  if (factor.max_degree == 1) return "no";
  return factor.uneven ? "into any parts" : "into equal parts";
}

std::string dimension_text(const Operator& op, const TensorUse& use, const IndexExpr& dim) {
  std::string names;
  for (const FactorIndex f : dim.factors)
    names += (names.empty() ? "" : "·") + op.factors[static_cast<std::size_t>(f)].name;
  if (dim.kind == IndexExpr::Kind::Whole) return std::to_string(dim.extent);
  if (dim.kind == IndexExpr::Kind::Window)
    return (use.role == Role::Output ? "blocks of " : "windows of ") + names;
  const bool part =
      dim.kind == IndexExpr::Kind::Axis &&
      (dim.offset != 0 || dim.extent != op.factors[static_cast<std::size_t>(dim.factors[0])].size);
  return part ? "part of " + names : names;
}

// The operator of a kind's example, and its graph.
struct ShownKind {
  explicit ShownKind(const OperatorKind& k) : kind(k), graph(example_graph(k, k.name + "1")) {}

  [[nodiscard]] const Operator& op() const { return graph.operators().back(); }
  [[nodiscard]] const std::string& tensor_name(const TensorUse& use) const {
    return graph.tensor(use.tensor).name;
  }

  [[nodiscard]] Columns tensors() const {
    Columns columns{{"tensor", "role", "dimensions", "in the example"}, {}};
    for (const TensorUse& use : op().uses) {
      std::string dims;
      for (const IndexExpr& dim : use.dims)
        dims += (dims.empty() ? "" : ", ") + dimension_text(op(), use, dim);
      columns.rows.push_back({tensor_name(use), role_name(use.role), dims.empty() ? "a scalar" : dims,
                              to_text(graph.tensor(use.tensor).shape)});
    }
    return columns;
  }

  [[nodiscard]] Columns factors() const {
    Columns columns{{"factor", "in the example", "kind", "may be split", "tensors that are split with it"},
                    {}};
    for (std::size_t f = 0; f < op().factors.size(); ++f) {
      const Factor& factor = op().factors[f];
      std::string followers;
      for (const TensorUse& use : op().uses) {
        if (use.follows(static_cast<FactorIndex>(f)))
          followers += (followers.empty() ? "" : ", ") + tensor_name(use);
      }
      columns.rows.push_back({factor.name, std::to_string(factor.size), factor_kind_name(factor.kind),
                              split_text(factor), followers});
    }
    return columns;
  }

  // Returns the lines of a model file that define the example.
  [[nodiscard]] std::string snippet() const {
    const Json file = Json::parse(to_json(graph));
    return fmt::format("\"inputs\": {},\n\"operators\": {}\n", spaced_json(file["inputs"].dump()),
                       spaced_json(file["operators"].dump()));
  }

  const OperatorKind& kind;
  OperatorGraph graph;
};

std::string indented(const std::string& text) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    result += "  " + text.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  return result;
}

Json rows_json(const Columns& columns) {
  Json list = Json::array();
  for (const std::vector<std::string>& row : columns.rows) {
    Json entry = Json::object();
    for (std::size_t c = 0; c < row.size(); ++c) entry[columns.head[c]] = row[c];
    list.push_back(std::move(entry));
  }
  return list;
}

Json described_kind(const OperatorKind& kind) {
  const ShownKind shown(kind);
  const Json file = Json::parse(to_json(shown.graph));
  return {{"name", kind.name},
          {"help", kind.help},
          {"inputs", kind.inputs},
          {"least_inputs", kind.least_inputs},
          {"most_inputs", kind.most_inputs},
          {"attributes", rows_json(attributes_of(kind))},
          {"tensors", rows_json(shown.tensors())},
          {"factors", rows_json(shown.factors())},
          {"example", {{"inputs", file["inputs"]}, {"operators", file["operators"]}}}};
}

Columns kinds_columns() {
  Columns columns{{"kind", "inputs", "meaning"}, {}};
  for (const OperatorKind& kind : operator_kinds())
    columns.rows.push_back({kind.name, kind.inputs, kind.help});
  return columns;
}

constexpr const char* kOfFactors =
    "A factor is an index range along which the operator may be split. Kind \"sample\" counts samples; "
    "\"attribute\" what is computed apart in each sample (positions, rows, heads); \"parameter\" splits "
    "results "
    "and the weights that make them; parts of a \"reduction\" are added up. What may be split also depends "
    "on "
    "attributes: an activation needs complete sums, so a reduction before it is not split";

std::string zoo_markdown() {
  Columns list{{"model", "batch", "operators", "parameters", "forward", "what it is"}, {}};
  std::string sections;
  for (const ZooModel& model : zoo_models()) {
    const OperatorGraph graph = make_zoo_model(model.name);
    list.rows.push_back({fmt::format("`{}`", model.name), std::to_string(graph.batch()),
                         std::to_string(graph.operators().size()), pretty_count(graph.parameter_count()),
                         pretty(graph.forward_flops()), model.description});
    Columns options{{"option", "default", "allowed", "meaning"}, {}};
    for (const ZooOption& o : model.options)
      options.rows.push_back({fmt::format("`{}`", o.key), o.default_value, o.allowed(), o.help});
    sections += fmt::format("### {}\n\n{}. Source: {}.\n\n{}\n", model.name, model.description, model.source,
                            markdown(options));
  }
  return markdown(list) + "\n" + sections;
}

std::string kind_markdown(const OperatorKind& kind) {
  const ShownKind shown(kind);
  std::string text = fmt::format("### {}\n\n{}. Inputs: `{}`.\n\n", kind.name, kind.help, kind.inputs);
  text += kind.attributes.empty() ? "It has no attributes.\n\n" : markdown(attributes_of(kind)) + "\n";
  text += markdown(shown.factors()) + "\n" + markdown(shown.tensors()) + "\n";
  return text + fmt::format("```\n{}```\n\n", shown.snippet());
}

}  // namespace

std::string zoo_table() {
  Table table({{"name"},
               {"batch", Align::Right},
               {"operators", Align::Right},
               {"parameters", Align::Right},
               {"forward", Align::Right},
               {"description"}});
  for (const ZooModel& model : zoo_models()) {
    const OperatorGraph graph = make_zoo_model(model.name);
    table.add({model.name, std::to_string(graph.batch()), std::to_string(graph.operators().size()),
               pretty_count(graph.parameter_count()), pretty(graph.forward_flops()), model.description});
  }
  return table.str() +
         "\n\"pipesim models NAME\" shows one, with the options that it takes as NAME:key=value,…\n";
}

std::string kinds_table() {
  return plain(kinds_columns()) +
         "\n\"pipesim models --kinds KIND\" shows one: its attributes, factors and an example for a model "
         "file.\n";
}

std::string kind_text(const OperatorKind& kind) {
  const ShownKind shown(kind);
  std::string text = fmt::format("{}: {}\n\n  inputs  {}\n\n", kind.name, kind.help, kind.inputs);
  text += kind.attributes.empty() ? "  It has no attributes.\n" : plain(attributes_of(kind));
  text += fmt::format("\n{}\n{}\nIn a model file:\n\n{}", plain(shown.factors()), plain(shown.tensors()),
                      indented(shown.snippet()));
  return text + "\n" + wrap(std::string(kOfFactors) + ".", 100, 0);
}

Json kind_json(const OperatorKind& kind) { return described_kind(kind); }

Json kinds_json() {
  Json list = Json::array();
  for (const OperatorKind& kind : operator_kinds()) list.push_back(described_kind(kind));
  return {{"kinds", std::move(list)}};
}

std::string models_markdown() {
  std::string text =
      "# Models and kinds of operators\n\n"
      "## The zoo\n\n"
      "Models that build themselves from a few sizes. `NAME:key=value,…` or `--set key=value` chooses them; "
      "batch, operators, parameters and operations of a forward pass are those of the defaults.\n\n";
  text += zoo_markdown();
  text += fmt::format(
      "## Kinds of operators\n\n"
      "What the operators of a model file may be ([files.md](files.md) tells how files are written). {}.\n\n"
      "The dimensions of a tensor are written as the factors that they follow; `windows of h` follow the "
      "factor "
      "with what a window adds on both sides. Wherever an integer is allowed, a file may also say it with "
      "names of its sizes.\n\n",
      kOfFactors);
  text += markdown(kinds_columns()) + "\n";
  for (const OperatorKind& kind : operator_kinds()) text += kind_markdown(kind);
  text.pop_back();
  return text;
}

}  // namespace pipesim
