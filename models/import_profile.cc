#include "models/import_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "models/graph_builder.h"
#include "models/topological_order.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "sim/base/utf8.h"

namespace pipesim {
namespace {

struct ProfileLine {
  const std::string& source;
  std::size_t number = 0;

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", source, number, message));
  }
};

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

/// Tabs, carriage returns and non-breaking spaces (in UTF-8 or Latin-1) as plain spaces.
std::string with_plain_spaces(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool utf8_space = line.substr(i, 2) == "\xc2\xa0";
    const char c = line[i];
    plain += utf8_space || c == '\t' || c == '\r' || c == '\xa0' ? ' ' : c;
    if (utf8_space) ++i;
  }
  return trimmed(plain);
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(separator, begin)) != std::string_view::npos;) {
    parts.push_back(trimmed(text.substr(begin, at - begin)));
    begin = at + separator.size();
  }
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

double read_number(const ProfileLine& line, const std::string& key, const std::string& text) {
  double value = -1;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value) || value < 0 || value > 1e15) {
    line.fail(fmt::format("{} is \"{}\", allowed: a number from 0 to 1e15", key, text));
  }
  return value;
}

/// A number, or the sum of `[a; b; …]`.
double read_sum(const ProfileLine& line, const std::string& key, const std::string& text) {
  if (text.empty() || text.front() != '[' || text.back() != ']') return read_number(line, key, text);
  double sum = 0;
  for (const std::string& part : split_at(std::string_view(text).substr(1, text.size() - 2), ";")) {
    sum += read_number(line, key, part);
  }
  return sum;
}

struct ProfileNode {
  std::string id, description;
  double forward_ms = 0, backward_ms = 0, activation_bytes = 0, parameter_bytes = 0;
  std::vector<std::size_t> inputs;
};

const std::vector<std::string> field_names = {"forward_compute_time", "backward_compute_time",
                                              "activation_size", "parameter_size"};

/// `forward_compute_time=1.5, …`: all four fields, in any order.
void read_fields(const ProfileLine& line, const std::string& text, ProfileNode& node) {
  double* const values[] = {&node.forward_ms, &node.backward_ms, &node.activation_bytes,
                            &node.parameter_bytes};
  std::vector<bool> seen(field_names.size(), false);
  for (const std::string& field : split_at(text, ",")) {
    const std::size_t equals = field.find('=');
    const std::string key = trimmed(field.substr(0, equals));
    const auto found = std::find(field_names.begin(), field_names.end(), key);
    if (equals == std::string::npos || found == field_names.end()) {
      line.fail(fmt::format("unknown field \"{}\"{}, allowed: {}", key, did_you_mean(key, field_names),
                            list_names(field_names)));
    }
    const auto i = static_cast<std::size_t>(found - field_names.begin());
    if (seen[i]) line.fail(fmt::format("field \"{}\" stands twice", key));
    seen[i] = true;
    *values[i] = read_sum(line, key, trimmed(field.substr(equals + 1)));
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    line.fail(fmt::format("field \"{}\" is missing",
                          field_names[static_cast<std::size_t>(missing - seen.begin())]));
  }
}

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& source) : source_(source) {}

  void read(std::string_view text) {
    ProfileLine line{source_};
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      ++line.number;
      const std::string plain = with_plain_spaces(text.substr(begin, end - begin));
      if (const std::size_t bad = first_not_utf8(plain); bad != std::string::npos)
        line.fail(fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(plain[bad])));
      read_line(line, plain);
      begin = end + 1;
    }
    if (nodes_.empty())
      throw InputError(source_ + ": holds no layers, allowed: lines \"" + std::string(node_form) + "\"");
    for (const Edge& edge : edges_) connect(edge);
  }

  // `share`: of what was measured, by samples.
  [[nodiscard]] OperatorGraph graph(std::int64_t batch, double share) const {
    GraphBuilder builder(std::filesystem::path(source_).stem().string(), batch);
    std::vector<TensorId> outputs(nodes_.size());
    for (const std::size_t i : order()) {
      const ProfileNode& node = nodes_[i];
      OperatorRequest request;
      request.kind = "profiled";
      request.name = node.description.empty() ? node.id : node.id + " " + node.description;
      for (const std::size_t input : node.inputs) request.inputs.push_back(outputs[input]);
      request.attributes = {{"forward_ms", node.forward_ms * share},
                            {"backward_ms", node.backward_ms * share},
                            {"activation_bytes", node.activation_bytes * share},
                            {"parameter_bytes", node.parameter_bytes}};
      outputs[i] = add(builder, request);
    }
    return builder.build();
  }

 private:
  struct Edge {
    std::size_t line;
    std::string from, to;
  };
  static constexpr std::string_view node_form =
      "ID -- DESCRIPTION -- forward_compute_time=…, backward_compute_time=…, activation_size=…, "
      "parameter_size=…";

  void read_line(const ProfileLine& line, const std::string& text) {
    if (text.empty()) return;
    const std::vector<std::string> parts = split_at(text, " -- ");
    if (parts.size() == 2 && parts[1].find('=') == std::string::npos) {
      edges_.push_back({line.number, parts[0], parts[1]});
      return;
    }
    // A description may hold dashes of its own: the fields are what stands last, but for the stage.
    const bool stage = parts.back().rfind("stage_id=", 0) == 0;
    const std::size_t fields = parts.size() - (stage ? 2 : 1);
    if (parts.size() < (stage ? 4 : 3) || parts[fields].find('=') == std::string::npos) {
      line.fail(fmt::format("found \"{}\", allowed: \"{}\" or \"ID -- ID\"", text, node_form));
    }
    ProfileNode node;
    node.id = parts[0];
    node.description = fmt::format("{}", fmt::join(&parts[1], &parts[fields], " -- "));
    read_fields(line, parts[fields], node);
    if (!nodes_by_id_.emplace(node.id, nodes_.size()).second) {
      line.fail(fmt::format("a second layer \"{}\"", node.id));
    }
    nodes_.push_back(std::move(node));
  }

  void connect(const Edge& edge) {
    std::size_t ends[2];
    for (const bool to : {false, true}) {
      const std::string& id = to ? edge.to : edge.from;
      const auto found = nodes_by_id_.find(id);
      if (found == nodes_by_id_.end()) {
        std::vector<std::string> ids;
        for (const auto& [known, index] : nodes_by_id_) ids.push_back(known);
        ProfileLine{source_, edge.line}.fail(
            fmt::format("edge {} unknown layer \"{}\"{}", to ? "to" : "from", id, did_you_mean(id, ids)));
      }
      ends[to] = found->second;
    }
    auto& inputs = nodes_[ends[1]].inputs;
    if (std::find(inputs.begin(), inputs.end(), ends[0]) == inputs.end()) inputs.push_back(ends[0]);
  }

  [[nodiscard]] std::vector<std::size_t> order() const {
    std::vector<std::vector<std::size_t>> predecessors;
    std::vector<std::string> ids;
    for (const ProfileNode& node : nodes_) {
      predecessors.push_back(node.inputs);
      ids.push_back(node.id);
    }
    const TopologicalOrder sorted = topological_order(predecessors);
    if (!sorted.cycle.empty()) {
      throw InputError(fmt::format("{}: layers form a cycle: {}", source_, cycle_text(sorted.cycle, ids)));
    }
    return sorted.order;
  }

  [[nodiscard]] TensorId add(GraphBuilder& builder, const OperatorRequest& request) const {
    try {
      return builder.add_operator(request).front();
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", source_, error.what()));
    }
  }

  const std::string& source_;
  std::vector<ProfileNode> nodes_;
  std::map<std::string, std::size_t> nodes_by_id_;
  std::vector<Edge> edges_;
};

}  // namespace

OperatorGraph import_profile(std::string_view text, const std::string& source, std::int64_t profile_batch,
                             std::int64_t batch) {
  ProfileReader reader(source);
  reader.read(text);
  return reader.graph(batch, static_cast<double>(batch) / static_cast<double>(profile_batch));
}

}  // namespace pipesim
