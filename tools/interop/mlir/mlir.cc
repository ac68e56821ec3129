#include "tools/interop/mlir/mlir.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "taskgraph/plan/parallel_config.h"

namespace pipesim {
namespace {

constexpr const char* kCopies = "copies";

const char* mlir_type(DataType type) {
  switch (type) {
    case DataType::Float16:
      return "f16";
    case DataType::BFloat16:
      return "bf16";
    case DataType::Float64:
      return "f64";
    case DataType::Float8:
      return "f8E4M3FN";
    case DataType::Int64:
      return "i64";
    case DataType::Int32:
      return "i32";
    case DataType::UInt8:
      return "ui8";
    default:
      return "f32";
  }
}

std::string type_of(const Tensor& tensor) {
  std::string text = "tensor<";
  for (const std::int64_t extent : tensor.shape) text += fmt::format("{}x", extent);
  return text + mlir_type(tensor.type) + ">";
}

/// Letters, digits, '.', '_' and '-' as they are; others become '_'.
std::string identifier(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return text;
}

std::string string_literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string attribute_text(const AttributeValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{} : i64", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{:e} : f64", *real);
  if (const auto* word = std::get_if<std::string>(&value)) return string_literal(*word);
  return fmt::format("[{}]", fmt::join(std::get<std::vector<std::int64_t>>(value), ", "));
}

/// The factors that a use's dims follow and that are split, one list per dim, the major one first.
std::vector<std::vector<FactorIndex>> split_dims(const TensorUse& use, const ParallelConfig& config) {
  std::vector<std::vector<FactorIndex>> dims;
  for (const IndexExpr& dim : use.dims) {
    std::vector<FactorIndex>& axes = dims.emplace_back();
    std::ranges::copy_if(dim.factors, std::back_inserter(axes),
                         [&](FactorIndex f) { return config.degrees[static_cast<std::size_t>(f)] > 1; });
  }
  return dims;
}

/// Split factors of which shards hold addends of the use.
std::vector<FactorIndex> unreduced(const TensorUse& use, const ParallelConfig& config) {
  std::vector<FactorIndex> factors;
  if (use.role != Role::Output) return factors;
  for (std::size_t f = 0; f < config.degrees.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    if (config.degrees[f] > 1 && !use.follows(factor) && use.lack(factor) == Lack::Summed)
      factors.push_back(factor);
  }
  return factors;
}

class MlirWriter {
 public:
  MlirWriter(const OperatorGraph& graph, const Plan& plan, const Topology& topology)
      : graph_(graph), plan_(plan), topology_(topology) {
    for (std::size_t i = 0; i < graph.operators().size(); ++i)
      meshes_of_.push_back(mesh(graph.operators()[i], plan.strategy[i]));
  }

  std::string text() {
    std::string body = fmt::format("  func.func @main({}) -> ({}) {{\n", arguments(), result_types());
    for (std::size_t i = 0; i < graph_.operators().size(); ++i) body += operation(i);
    body += fmt::format("    return {} : {}\n  }}\n", fmt::join(result_values(), ", "), result_types());
    std::string text = fmt::format("module @{} attributes {{\n", string_literal(graph_.name()));
    text += fmt::format(
        "  pipesim.topology = {},\n  pipesim.devices = {} : i64,\n  pipesim.microbatches = {} : i64\n",
        string_literal(topology_.name()), topology_.num_devices(), plan_.options.microbatches);
    text += "} {\n";
    for (std::size_t m = 0; m < meshes_.size(); ++m)
      text += fmt::format("  \"sdy.mesh\"() {{sym_name = \"mesh{}\", mesh = #sdy.mesh<{}>}} : () -> ()\n", m,
                          meshes_[m]);
    return text + body + "}\n";
  }

 private:
  /// The number of the mesh that arranges devices so.
  std::size_t mesh(const Operator& op, const ParallelConfig& config) {
    std::vector<std::string> axes;
    if (config.replicas > 1) axes.push_back(fmt::format("\"{}\"={}", kCopies, config.replicas));
    for (std::size_t f = 0; f < config.degrees.size(); ++f) {
      if (config.degrees[f] > 1)
        axes.push_back(fmt::format("{}={}", string_literal(op.factors[f].name), config.degrees[f]));
    }
    std::vector<std::int64_t> ids;
    for (const DeviceId d : config.devices) ids.push_back(d.value);
    bool in_order = ids.size() == topology_.num_devices();
    for (std::size_t k = 0; k < ids.size(); ++k)
      in_order = in_order && ids[k] == static_cast<std::int64_t>(k);
    std::string text = fmt::format("[{}]", fmt::join(axes, ", "));
    if (!in_order) text += fmt::format(", device_ids=[{}]", fmt::join(ids, ", "));
    const auto [known, is_new] = numbers_.emplace(text, meshes_.size());
    if (is_new) meshes_.push_back(text);
    return known->second;
  }

  [[nodiscard]] std::string sharding(std::size_t op, const TensorUse& use) const {
    const Operator& o = graph_.operators()[op];
    const ParallelConfig& config = plan_.strategy[op];
    const auto names = [&](const std::vector<FactorIndex>& factors) {
      std::vector<std::string> list;
      for (const FactorIndex f : factors)
        list.push_back(string_literal(o.factors[static_cast<std::size_t>(f)].name));
      return fmt::format("{{{}}}", fmt::join(list, ", "));
    };
    std::vector<std::string> dims;
    for (const auto& factors : split_dims(use, config)) dims.push_back(names(factors));
    const std::vector<FactorIndex> sums = unreduced(use, config);
    return fmt::format("<@mesh{}, [{}]{}>", meshes_of_[op], fmt::join(dims, ", "),
                       sums.empty() ? "" : ", unreduced=" + names(sums));
  }

  /// "{devices=[4,2,1]<=[8]}": tiles of each dim, and devices in the order of the tiles; "" where shards hold
  /// addends.
  [[nodiscard]] std::string tiles(std::size_t op, const TensorUse& use) const {
    const ParallelConfig& config = plan_.strategy[op];
    if (!unreduced(use, config).empty()) return "";
    if (config.num_shards() == 1) return fmt::format("{{maximal device={}}}", config.devices[0].value);
    std::vector<std::int64_t> counts;
    const auto dims = split_dims(use, config);
    for (const auto& factors : dims) {
      std::int64_t& count = counts.emplace_back(1);
      for (const FactorIndex f : factors) count *= config.degrees[static_cast<std::size_t>(f)];
    }
    const std::int64_t all =
        std::accumulate(counts.begin(), counts.end(), std::int64_t{1}, std::multiplies<>());
    if (all == 1) return "{replicated}";
    const ShardGrid grid(graph_.operators()[op], config);
    std::vector<std::vector<std::int64_t>> by_tile(static_cast<std::size_t>(all));
    for (std::int64_t shard = 0; shard < config.num_shards(); ++shard) {
      std::int64_t tile = 0;
      for (const auto& factors : dims) {
        for (const FactorIndex f : factors)
          tile = tile * config.degrees[static_cast<std::size_t>(f)] + grid.coordinate(shard, f);
      }
      by_tile[static_cast<std::size_t>(tile)].push_back(
          config.devices[static_cast<std::size_t>(shard)].value);
    }
    std::vector<std::int64_t> devices;
    for (const auto& copies : by_tile) devices.insert(devices.end(), copies.begin(), copies.end());
    const std::int64_t copies = config.num_shards() / all;
    if (copies > 1) counts.push_back(copies);
    bool in_order = true;
    for (std::size_t k = 0; k < devices.size(); ++k)
      in_order = in_order && devices[k] == static_cast<std::int64_t>(k);
    return fmt::format(
        "{{devices=[{}]{}{}}}", fmt::join(counts, ","),
        in_order ? fmt::format("<=[{}]", devices.size()) : fmt::format("{}", fmt::join(devices, ",")),
        copies > 1 ? " last_tile_dim_replicate" : "");
  }

  [[nodiscard]] std::string attributes(std::size_t op, const TensorUse& use) const {
    std::string text = "sdy.sharding = #sdy.sharding" + sharding(op, use);
    if (const std::string tiled = tiles(op, use); !tiled.empty())
      text += ", mhlo.sharding = " + string_literal(tiled);
    return text;
  }

  /// A value name that no other tensor has.
  std::string value(TensorId tensor) {
    const auto found = values_.find(tensor);
    if (found != values_.end()) return found->second;
    const std::string base = "%" + identifier(graph_.tensor(tensor).name);
    std::string name = base;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return values_[tensor] = name;
  }

  /// Data, weights and states, divided as the first operator that reads them needs it.
  std::string arguments() {
    std::vector<std::string> list;
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      const TensorId id(t);
      const Tensor& tensor = graph_.tensors()[t];
      if (tensor.producer.valid() || graph_.consumers(id).empty()) continue;
      const UseRef first = graph_.consumers(id).front();
      const TensorUse& use = graph_.op(first.op).uses[static_cast<std::size_t>(first.use)];
      lies_[id] = sharding(first.op.index(), use);
      list.push_back(fmt::format("\n      {}: {} {{{}}}", value(id), type_of(tensor),
                                 attributes(first.op.index(), use)));
    }
    return fmt::format("{}", fmt::join(list, ","));
  }

  [[nodiscard]] std::vector<TensorId> results() const {
    std::vector<TensorId> list;
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      if (graph_.tensors()[t].producer.valid() && graph_.consumers(TensorId(t)).empty()) list.emplace_back(t);
    }
    return list;
  }
  [[nodiscard]] std::string result_types() const {
    std::vector<std::string> types;
    for (const TensorId t : results()) types.push_back(type_of(graph_.tensor(t)));
    return fmt::format("{}", fmt::join(types, ", "));
  }
  std::vector<std::string> result_values() {
    std::vector<std::string> names;
    for (const TensorId t : results()) names.push_back(value(t));
    return names;
  }

  /// The value of a use, as the operator needs it: the tensor's, or one that a line in `before` makes.
  std::string operand(std::size_t op, const TensorUse& use, std::string& before) {
    const std::string needed = sharding(op, use), own = value(use.tensor);
    if (lies_.at(use.tensor) == needed) return own;
    const auto [known, is_new] = moved_.emplace(std::pair(use.tensor, needed), "");
    if (is_new) {
      known->second = fmt::format("{}_as_{}", own, moved_.size());
      const std::string type = type_of(graph_.tensor(use.tensor));
      before += fmt::format(
          "    {} = \"sdy.sharding_constraint\"({}) {{sharding = #sdy.sharding{}}} : ({}) -> {}\n",
          known->second, own, needed, type, type);
    }
    return known->second;
  }

  std::string operation(std::size_t i) {
    const Operator& op = graph_.operators()[i];
    std::string before;
    std::vector<std::string> operands, operand_types, made, made_types, shardings, tiled;
    for (const TensorUse& use : op.uses) {
      const std::string type = type_of(graph_.tensor(use.tensor));
      if (use.role != Role::Output) {
        operands.push_back(operand(i, use, before));
        operand_types.push_back(type);
        continue;
      }
      lies_[use.tensor] = sharding(i, use);
      made.push_back(value(use.tensor));
      made_types.push_back(type);
      shardings.push_back(lies_[use.tensor]);
      tiled.push_back(tiles(i, use));
    }
    std::vector<std::string> known{fmt::format("pipesim.name = {}", string_literal(op.name))};
    for (const auto& [name, attribute] : op.attributes)
      known.push_back(fmt::format("{} = {}", name, attribute_text(attribute)));
    if (plan_.options.pipeline)
      known.push_back(fmt::format("pipesim.stage = {} : i64", plan_.options.pipeline->stage_of[i]));
    known.push_back(fmt::format("sdy.sharding = #sdy.sharding_per_value<[{}]>", fmt::join(shardings, ", ")));
    if (made.size() == 1 && !tiled[0].empty())
      known.push_back(fmt::format("mhlo.sharding = {}", string_literal(tiled[0])));
    const std::string types = fmt::format("{}", fmt::join(made_types, ", "));
    return before + fmt::format("    {} = \"pipesim.{}\"({}) {{{}}} : ({}) -> {}\n", fmt::join(made, ", "),
                                op.kind, fmt::join(operands, ", "), fmt::join(known, ", "),
                                fmt::join(operand_types, ", "), made.size() == 1 ? types : "(" + types + ")");
  }

  const OperatorGraph& graph_;
  const Plan& plan_;
  const Topology& topology_;
  std::vector<std::string> meshes_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::size_t> meshes_of_;  ///< by operator
  std::map<TensorId, std::string> values_, lies_;
  std::map<std::pair<TensorId, std::string>, std::string> moved_;
  std::set<std::string> taken_;
};

}  // namespace

std::string mlir_text(const OperatorGraph& graph, const Plan& plan, const Topology& topology) {
  return MlirWriter(graph, plan, topology).text();
}

}  // namespace pipesim
