#include "taskgraph/plan/parallel_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "models/box.h"
#include "sim/base/errors.h"

namespace pipesim {

std::int64_t ParallelConfig::num_shards() const {
  std::int64_t n = replicas;
  for (const std::int32_t d : degrees) {
    if (__builtin_mul_overflow(n, d, &n)) return INT64_MAX;
  }
  return n;
}

std::string ParallelConfig::str(const Operator& op) const {
  const std::string split = split_str(op);
  if (devices.size() == 1) return fmt::format("{} on device {}", split, devices[0].value);
  return fmt::format("{} on {} devices from {}", split, devices.size(),
                     devices.empty() ? -1 : devices[0].value);
}

std::string ParallelConfig::split_str(const Operator& op) const {
  std::string text;
  for (std::size_t f = 0; f < degrees.size(); ++f) {
    if (degrees[f] > 1) text += fmt::format("{}/{} ", op.factors[f].name, degrees[f]);
  }
  if (replicas > 1) text += fmt::format("x{} copies ", replicas);
  if (ring) text += "in a ring ";
  if (text.empty()) return "whole";
  text.pop_back();
  return text;
}

namespace {

// "4", from 1 to what a degree holds.
std::optional<std::int32_t> degree_in(std::string_view digits) {
  std::int32_t degree = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), degree);
  if (error != std::errc() || end != digits.data() + digits.size() || degree < 1) return std::nullopt;
  return degree;
}

[[noreturn]] void refuse_part(const Operator& op, std::string_view part) {
  std::vector<std::string> allowed;
  for (const Factor& f : op.factors) allowed.push_back(fmt::format("{}/N", f.name));
  throw InputError(fmt::format("split of {}: found \"{}\", allowed: {}, xN copies, in a ring", op.name, part,
                               fmt::join(allowed, ", ")));
}

}  // namespace

ParallelConfig parse_split(const Operator& op, std::string_view text) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  std::vector<bool> given(op.factors.size(), false);
  constexpr std::string_view kBetween = " ,";
  for (std::size_t from = text.find_first_not_of(kBetween); from != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, from), text.size());
    const std::string_view part = text.substr(from, end - from);
    from = text.find_first_not_of(kBetween, end);
    if (part == "whole" || part == "copies" || part == "in" || part == "a") continue;
    if (part == "ring") {
      config.ring = true;
      continue;
    }
    if (const auto copies = part.front() == 'x' ? degree_in(part.substr(1)) : std::nullopt) {
      config.replicas = *copies;
      continue;
    }
    const std::size_t slash = part.find('/');
    const auto factor = std::ranges::find(op.factors, part.substr(0, slash), &Factor::name);
    const auto degree = slash == std::string_view::npos ? std::nullopt : degree_in(part.substr(slash + 1));
    if (factor == op.factors.end() || !degree) refuse_part(op, part);
    const auto number = static_cast<std::size_t>(factor - op.factors.begin());
    if (given[number])
      throw InputError(fmt::format("split of {}: factor {} is given twice", op.name, factor->name));
    given[number] = true;
    config.degrees[number] = *degree;
  }
  return config;
}

ParallelConfig single_device(const Operator& op, DeviceId device) {
  return {std::vector<std::int32_t>(op.factors.size(), 1), 1, {device}};
}

namespace {

std::optional<std::string> illegal_degree(const Factor& f, std::int64_t degree) {
  const std::int64_t units = f.size / f.granule;
  if (degree < 1) return fmt::format("degree {} of factor {}; 1 or more is needed", degree, f.name);
  if (degree == 1) return std::nullopt;
  if (f.max_degree == 1) return fmt::format("factor {} can't be split", f.name);
  const std::int64_t most = std::min(units, f.max_degree);
  if (degree > most)
    return fmt::format("degree {} of factor {}, which has at most {} parts", degree, f.name, most);
  if (!f.uneven && units % degree != 0) {
    return fmt::format(
        "degree {} does not divide factor {} of size {}", degree, f.name,
        f.granule == 1 ? fmt::format("{}", f.size) : fmt::format("{} in units of {}", f.size, f.granule));
  }
  return std::nullopt;
}

// A minor factor of a merged dimension may be cut only where everything more major has length 1 in each
// shard.
std::optional<std::string> illegal_merge(const IndexExpr& dim, const Operator& op,
                                         std::span<const std::int32_t> degrees) {
  const Factor* unfinished = nullptr;
  for (const FactorIndex f : dim.factors) {
    const Factor& factor = op.factors[static_cast<std::size_t>(f)];
    const std::int64_t degree = degrees[static_cast<std::size_t>(f)];
    if (unfinished && degree > 1) {
      return fmt::format("factor {} is cut below factor {}, which is not split to single elements",
                         factor.name, unfinished->name);
    }
    if (degree < factor.size && !unfinished) unfinished = &factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> illegal_degrees(const Operator& op, std::span<const std::int32_t> degrees) {
  if (degrees.size() != op.factors.size()) {
    return fmt::format("{} degrees for {} factors", degrees.size(), op.factors.size());
  }
  for (std::size_t f = 0; f < degrees.size(); ++f) {
    if (auto reason = illegal_degree(op.factors[f], degrees[f])) return reason;
  }
  for (const TensorUse& use : op.uses) {
    for (const IndexExpr& dim : use.dims) {
      if (dim.kind != IndexExpr::Kind::Merged) continue;
      if (auto reason = illegal_merge(dim, op, degrees)) return reason;
    }
  }
  return std::nullopt;
}

std::optional<std::string> illegal_ring(const Operator& op, std::span<const std::int32_t> degrees) {
  if (!op.rotation)
    return fmt::format("a ring, allowed: for attention with as many keys as queries, but not {}", op.kind);
  const auto& [s, t] = *op.rotation;
  const Factor &queries = op.factors[static_cast<std::size_t>(s)],
               &keys = op.factors[static_cast<std::size_t>(t)];
  const std::int64_t parts = degrees[static_cast<std::size_t>(s)];
  if (parts == 1) return fmt::format("a ring, allowed: where factor {} is split", queries.name);
  if (degrees[static_cast<std::size_t>(t)] > 1)
    return fmt::format("a ring, allowed: where factor {} is not split", keys.name);
  if (queries.size % parts != 0)
    return fmt::format("a ring of {}, allowed: divisors of the {} of factor {}", parts, queries.size,
                       queries.name);
  return std::nullopt;
}

namespace {

std::optional<std::string> illegal_parts(const Operator& op, const ParallelConfig& config) {
  if (auto reason = illegal_degrees(op, config.degrees)) return reason;
  return config.ring ? illegal_ring(op, config.degrees) : std::nullopt;
}

}  // namespace

std::optional<std::string> illegal_split(const Operator& op, const ParallelConfig& config) {
  if (auto reason = illegal_parts(op, config)) return reason;
  const std::int64_t shards = config.num_shards();
  if (shards > max_devices) return fmt::format("{} shards, allowed: {} at most", shards, max_devices);
  return std::nullopt;
}

std::optional<std::string> illegal(const Operator& op, const ParallelConfig& config,
                                   const Topology& topology) {
  if (auto reason = illegal_parts(op, config)) return reason;
  if (config.replicas < 1) return fmt::format("{} replicas; 1 or more are needed", config.replicas);
  const std::int64_t shards = config.num_shards();
  const auto available = static_cast<std::int64_t>(topology.num_devices());
  if (shards > available) return fmt::format("{} shards for {} devices", shards, available);
  if (shards != static_cast<std::int64_t>(config.devices.size())) {
    return fmt::format("{} devices listed for {} shards", config.devices.size(), shards);
  }
  std::vector<bool> used(topology.num_devices(), false);
  for (const DeviceId d : config.devices) {
    if (!d.valid() || d.index() >= topology.num_devices())
      return fmt::format("device {} does not exist", d.value);
    if (used[d.index()]) return fmt::format("device {} is listed twice", topology.device(d).name);
    used[d.index()] = true;
  }
  return std::nullopt;
}

ShardGrid::ShardGrid(const Operator& op, const ParallelConfig& config) : cuts_(op.factors.size()) {
  degree_.push_back(config.replicas);
  degree_.insert(degree_.end(), config.degrees.begin(), config.degrees.end());
  stride_.assign(degree_.size(), 1);
  for (std::size_t i = degree_.size() - 1; i-- > 0;) stride_[i] = stride_[i + 1] * degree_[i + 1];
  num_shards_ = stride_[0] * degree_[0];
  if (config.ring) rotation_ = op.rotation;
  for (std::size_t f = 0; f < cuts_.size(); ++f) {
    const bool rotates = rotation_ && static_cast<FactorIndex>(f) == rotation_->second;
    const std::int64_t degree = rotates ? blocks() : degree_[f + 1];
    for (std::int64_t k = 0; k < degree; ++k) cuts_[f].push_back(cut(op.factors[f], degree, k));
  }
}

std::vector<std::vector<std::int32_t>> ShardGrid::groups_along(std::span<const FactorIndex> over) const {
  std::map<std::vector<std::int64_t>, std::vector<std::int32_t>> groups;
  for (std::int64_t k = 0; k < num_shards_; ++k) {
    std::vector<std::int64_t> rest{coordinate(k, replica_axis)};
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      if (std::ranges::find(over, factor) == over.end()) rest.push_back(coordinate(k, factor));
    }
    groups[rest].push_back(static_cast<std::int32_t>(k));
  }
  std::vector<std::vector<std::int32_t>> result;
  for (auto& [rest, members] : groups) result.push_back(std::move(members));
  return result;
}

void ShardGrid::ranges(std::int64_t shard, std::vector<Range>& out) const { block_ranges(shard, 0, out); }

void ShardGrid::block_ranges(std::int64_t shard, std::int64_t block, std::vector<Range>& out) const {
  out.resize(cuts_.size());
  for (std::size_t f = 0; f < out.size(); ++f) {
    out[f] = cuts_[f][static_cast<std::size_t>(coordinate(shard, static_cast<FactorIndex>(f)))];
  }
  if (!rotation_) return;
  const std::int64_t members = blocks();
  const std::int64_t part = (coordinate(shard, rotation_->first) + members - block) % members;
  const auto keys = static_cast<std::size_t>(rotation_->second);
  out[keys] = cuts_[keys][static_cast<std::size_t>(part)];
}

}  // namespace pipesim
