#include "search/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// All ways to write `shards` as a product of copies and legal degrees.
class SplitEnumerator {
 public:
  SplitEnumerator(const Operator& op, std::vector<CandidateSet::Split>& out) : op_(op), out_(out) {}

  void run(std::int64_t shards) {
    for (std::int64_t copies = 1; copies <= shards; ++copies) {
      if (shards % copies != 0) continue;
      split_.degrees.assign(op_.factors.size(), 1);
      split_.replicas = static_cast<std::int32_t>(copies);
      choose(0, shards / copies);
    }
  }

 private:
  void choose(std::size_t factor, std::int64_t rest) {
    if (factor == op_.factors.size()) {
      if (rest == 1) accept();
      return;
    }
    const Factor& f = op_.factors[factor];
    for (std::int64_t degree = 1; degree <= rest; ++degree) {
      const std::int64_t units = f.size / f.granule;
      if (degree > std::min(units, f.max_degree)) break;
      if (rest % degree != 0 || (!f.uneven && units % degree != 0)) continue;
      split_.degrees[factor] = static_cast<std::int32_t>(degree);
      choose(factor + 1, rest / degree);
    }
    split_.degrees[factor] = 1;
  }

  void accept() {
    if (illegal_degrees(op_, split_.degrees)) return;
    split_.replicas_fastest = false;
    out_.push_back(split_);
    const bool also_split =
        std::any_of(split_.degrees.begin(), split_.degrees.end(), [](auto d) { return d > 1; });
    if (split_.replicas == 1 || !also_split) return;
    out_.push_back(split_);
    out_.back().replicas_fastest = true;
  }

  const Operator& op_;
  std::vector<CandidateSet::Split>& out_;
  CandidateSet::Split split_;
};

// Whether these parts of a split, slowest first, are each a product of adjacent axes of a mesh.
bool follows_axes(const CandidateSet::Split& split, const MeshAxes& mesh) {
  std::vector<std::int32_t> parts = split.degrees;
  parts.insert(split.replicas_fastest ? parts.end() : parts.begin(), split.replicas);
  auto axis = mesh.begin();
  for (const std::int32_t part : parts) {
    std::int32_t product = 1;
    while (product < part && axis != mesh.end()) product *= *axis++;
    if (product != part) return false;
  }
  return true;
}

// What the legal degrees depend on.
std::string split_signature(const Operator& op) {
  std::string text;
  for (const Factor& f : op.factors) {
    text += fmt::format("{},{},{},{};", f.size, f.granule, f.max_degree, f.uneven);
  }
  for (const TensorUse& use : op.uses) {
    for (const IndexExpr& dim : use.dims) {
      if (dim.kind != IndexExpr::Kind::Merged) continue;
      text += 'm';
      for (const FactorIndex f : dim.factors) text += fmt::format("{},", f);
    }
  }
  return text;
}

std::string ordinal(std::size_t i) {
  return fmt::format("{}{}", i,
                     i % 10 == 1 && i != 11   ? "st"
                     : i % 10 == 2 && i != 12 ? "nd"
                     : i % 10 == 3 && i != 13 ? "rd"
                                              : "th");
}

}  // namespace

CandidateSet::CandidateSet(const OperatorGraph& graph, const Topology& topology)
    : graph_(graph), topology_(topology) {
  add_blocks();
  add_one_per_node();
  sort_by_size();
}

CandidateSet::CandidateSet(const OperatorGraph& graph, const Topology& topology,
                           std::vector<DeviceList> lists)
    : graph_(graph), topology_(topology), lists_(std::move(lists)) {
  sort_by_size();
}

CandidateSet::CandidateSet(const OperatorGraph& graph, const Topology& topology, MeshAxes mesh)
    : graph_(graph), topology_(topology), mesh_(std::move(mesh)) {
  std::size_t devices = 1;
  for (const std::int32_t size : mesh_) devices *= static_cast<std::size_t>(size);
  if (devices != topology.num_devices())
    throw InputError(fmt::format("a mesh of {} has {} devices, allowed for {}: {}", fmt::join(mesh_, "x"),
                                 devices, topology.name(), topology.num_devices()));
  lists_.push_back({"all devices", {}});
  for (std::size_t d = 0; d < devices; ++d) lists_.back().devices.emplace_back(d);
  sort_by_size();
}

void CandidateSet::sort_by_size() {
  std::map<std::int64_t, std::vector<std::size_t>> by_size;
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    by_size[static_cast<std::int64_t>(lists_[i].devices.size())].push_back(i);
  }
  for (auto& [shards, lists] : by_size) sizes_.push_back({shards, std::move(lists)});
  std::map<std::string, std::size_t> classes;
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    const auto [it, fresh] = classes.emplace(split_signature(graph_.operators()[i]), classes.size());
    class_of_.push_back(it->second);
    stop_if_late();
    if (fresh) enumerate(OperatorId(i));
  }
}

void CandidateSet::add_list(std::string what, std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  for (const DeviceList& l : lists_) {
    if (l.devices == devices) return;
  }
  lists_.push_back({std::move(what), std::move(devices)});
}

void CandidateSet::add_blocks() {
  const auto nodes = static_cast<std::int32_t>(topology_.num_nodes());
  for (std::size_t d = 0; d < topology_.num_devices(); ++d)
    lists_.push_back({"single device", {DeviceId(d)}});
  for (std::int32_t node = 0; node < nodes; ++node) {
    const auto devices = topology_.devices_of_node(node);
    for (std::size_t size = 2; size <= devices.size(); ++size) {
      if (devices.size() % size != 0) continue;
      for (std::size_t at = 0; at < devices.size(); at += size) {
        const auto block = devices.subspan(at, size);
        add_list(size == devices.size() ? "whole node" : fmt::format("block of {} in a node", size),
                 {block.begin(), block.end()});
      }
    }
  }
  for (std::int32_t count = 2; count <= nodes; ++count) {
    if (nodes % count != 0) continue;
    for (std::int32_t at = 0; at < nodes; at += count) {
      std::vector<DeviceId> devices;
      for (std::int32_t node = at; node < at + count; ++node) {
        const auto more = topology_.devices_of_node(node);
        devices.insert(devices.end(), more.begin(), more.end());
      }
      add_list(count == nodes ? "all devices" : fmt::format("block of {} nodes", count), std::move(devices));
    }
  }
}

void CandidateSet::add_one_per_node() {
  const auto nodes = static_cast<std::int32_t>(topology_.num_nodes());
  std::size_t fewest = SIZE_MAX;
  for (std::int32_t n = 0; n < nodes; ++n) fewest = std::min(fewest, topology_.devices_of_node(n).size());
  for (std::size_t position = 0; nodes > 1 && position < fewest; ++position) {
    std::vector<DeviceId> devices;
    for (std::int32_t n = 0; n < nodes; ++n) devices.push_back(topology_.devices_of_node(n)[position]);
    add_list(fmt::format("{} device of every node", ordinal(position + 1)), std::move(devices));
  }
}

void CandidateSet::enumerate(OperatorId op) {
  std::vector<std::vector<Split>> splits;
  std::vector<std::size_t> first{0};
  for (const SizeClass& size : sizes_) {
    splits.emplace_back();
    SplitEnumerator(graph_.op(op), splits.back()).run(size.shards);
    if (!mesh_.empty())
      std::erase_if(splits.back(), [&](const Split& split) { return !follows_axes(split, mesh_); });
    first.push_back(first.back() + splits.back().size() * size.lists.size());
  }
  splits_.push_back(std::move(splits));
  first_config_.push_back(std::move(first));
}

std::size_t CandidateSet::size(OperatorId op) const { return first_config_[class_of_[op.index()]].back(); }

CandidateSet::Position CandidateSet::position(OperatorId op, std::size_t i) const {
  const std::size_t c = class_of_[op.index()];
  const std::vector<std::size_t>& first = first_config_[c];
  const auto size =
      static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), i) - first.begin()) - 1;
  const std::size_t offset = i - first[size], count = splits_[c][size].size();
  return {size, offset / count, offset % count};
}

std::size_t CandidateSet::index(OperatorId op, Position p) const {
  const std::size_t c = class_of_[op.index()];
  return first_config_[c][p.size] + p.list * splits_[c][p.size].size() + p.split;
}

std::size_t CandidateSet::num_splits(OperatorId op, std::size_t size) const {
  return splits(op, size).size();
}

const std::vector<CandidateSet::Split>& CandidateSet::splits(OperatorId op, std::size_t size) const {
  return splits_[class_of_[op.index()]][size];
}

ParallelConfig CandidateSet::config(OperatorId op, std::size_t i) const {
  const Position p = position(op, i);
  return place(splits(op, p.size)[p.split], list(p.size, p.list).devices);
}

std::optional<std::size_t> CandidateSet::find(OperatorId op, const ParallelConfig& config) const {
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    if (sizes_[size].shards != static_cast<std::int64_t>(config.devices.size())) continue;
    for (std::size_t l = 0; l < num_lists(size); ++l) {
      for (std::size_t s = 0; s < num_splits(op, size); ++s) {
        const Split& split = splits(op, size)[s];
        if (split.degrees != config.degrees || split.replicas != config.replicas) continue;
        if (place(split, list(size, l).devices) == config) return index(op, {size, l, s});
      }
    }
  }
  return std::nullopt;
}

ParallelConfig CandidateSet::random(OperatorId op, Rng& rng) const { return config(op, rng.below(size(op))); }

ParallelConfig CandidateSet::place(const Split& split, std::span<const DeviceId> devices) {
  ParallelConfig config{split.degrees, split.replicas, {devices.begin(), devices.end()}};
  if (!split.replicas_fastest) return config;
  const auto copies = static_cast<std::size_t>(split.replicas);
  const std::size_t parts = devices.size() / copies;
  for (std::size_t r = 0; r < copies; ++r) {
    for (std::size_t p = 0; p < parts; ++p) config.devices[r * parts + p] = devices[p * copies + r];
  }
  return config;
}

std::string CandidateSet::str() const {
  std::map<std::pair<std::size_t, std::string>, std::size_t> kinds;
  for (const DeviceList& l : lists_) ++kinds[{l.devices.size(), l.what}];
  std::string text = fmt::format("{} device lists:\n", lists_.size());
  for (const auto& [kind, count] : kinds)
    text += fmt::format("  {:6} × {} ({} devices)\n", count, kind.second, kind.first);
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    text += fmt::format("  {}: {} configs\n", graph_.operators()[i].name, size(OperatorId(i)));
  }
  return text;
}

}  // namespace pipesim
