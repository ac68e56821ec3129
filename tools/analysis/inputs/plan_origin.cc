#include "tools/analysis/inputs/plan_origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

// "16 GB of memory instead of 80 GB", if they differ.
template <class Value>
void add_figure(std::vector<std::string>& out, const char* of, Value before, Value now) {
  if (before == now) return;
  const std::string was = pretty(before), is = pretty(now);
  out.push_back(is == was ? fmt::format("slightly other {}", of)
                          : fmt::format("{}{} instead of {}", is, of, was));
}

std::vector<std::string> differences(const DeviceKind& before, const DeviceKind& now) {
  std::vector<std::string> out;
  add_figure(out, " of memory", before.memory, now.memory);
  add_figure(out, " to memory", before.memory_bandwidth, now.memory_bandwidth);
  for (const auto& [type, rate] : now.peak) {
    const auto known = before.peak.find(type);
    if (known == before.peak.end()) {
      out.push_back(fmt::format("{} of {}, which was not there", pretty(rate), name_of(type)));
    } else {
      add_figure(out, fmt::format(" of {}", name_of(type)).c_str(), known->second, rate);
    }
  }
  for (const auto& [type, rate] : before.peak) {
    if (!now.peak.contains(type)) out.push_back(fmt::format("no {}", name_of(type)));
  }
  add_figure(out, " to launch a kernel", before.launch_overhead, now.launch_overhead);
  if (before.products != now.products || before.product_rates != now.product_rates ||
      before.memory_efficiency != now.memory_efficiency || before.shape_losses != now.shape_losses ||
      before.fused_attention != now.fused_attention || before.flash_attention_2 != now.flash_attention_2)
    out.emplace_back("other shares of the peak rates are reached");
  if (before.collectives != now.collectives) out.emplace_back("collectives have other figures");
  if (before.overlap != now.overlap)
    out.emplace_back(now.overlap ? "transfers and kernels overlap" : "transfers and kernels do not overlap");
  return out;
}

void add_devices(const Topology& before, const Topology& now, std::vector<std::string>& out) {
  if (before.num_devices() != now.num_devices())
    out.push_back(fmt::format("{} instead of {}",
                              counted(static_cast<std::int64_t>(now.num_devices()), "device"),
                              before.num_devices()));
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;  // of pairs of kinds
  bool same_order = true;
  for (std::size_t d = 0; d < before.num_devices(); ++d) {
    const auto there = now.find_device(before.device(DeviceId(d)).name);
    if (!there) continue;
    same_order = same_order && *there == DeviceId(d);
    ++counts[{before.device(DeviceId(d)).kind, now.device(*there).kind}];
  }
  for (const auto& [kinds, count] : counts) {
    const DeviceKind& was = before.parts().kinds[static_cast<std::size_t>(kinds.first)];
    const DeviceKind& is = now.parts().kinds[static_cast<std::size_t>(kinds.second)];
    const std::vector<std::string> figures = differences(was, is);
    const std::string list = fmt::format("{}", fmt::join(figures, ", "));
    const std::string devices = counted(count, "device");
    if (was.name != is.name) {
      out.push_back(fmt::format("{} {} {} instead of {}{}{}", devices, count == 1 ? "is" : "are", is.name,
                                was.name, list.empty() ? "" : ": ", list));
    } else if (!list.empty()) {
      out.push_back(fmt::format("{} ({}) {}: {}", devices, is.name, count == 1 ? "differs" : "differ", list));
    }
  }
  if (!same_order) out.emplace_back("the devices stand in another order");
}

bool same_wiring(const Topology& before, const Topology& now) {
  const auto same_vertex = [](const Vertex& a, const Vertex& b) { return a.kind == b.kind; };
  const auto same_ends = [](const Link& a, const Link& b) { return a.a == b.a && a.b == b.b; };
  return before.num_devices() == now.num_devices() &&
         std::ranges::equal(before.parts().vertices, now.parts().vertices, same_vertex) &&
         std::ranges::equal(before.parts().links, now.parts().links, same_ends);
}

std::string cable_words(const Link& before, const Link& now) {
  std::vector<std::string> words;
  add_figure(words, "", before.bandwidth, now.bandwidth);
  add_figure(words, " of latency", before.latency, now.latency);
  if (before.duplex != now.duplex)
    words.emplace_back(now.duplex ? "a lane each way instead of one for both"
                                  : "one lane for both ways instead of one each");
  return fmt::format("{}", fmt::join(words, ", "));
}

void add_links(const Topology& before, const Topology& now, std::vector<std::string>& out) {
  struct Sort {
    std::int64_t count = 0;
    std::string example;
  };
  const TopologyParts &was = before.parts(), &is = now.parts();
  const auto name = [&](std::int32_t vertex) { return is.vertices[static_cast<std::size_t>(vertex)].name; };
  std::vector<std::pair<std::string, Sort>> sorts;  // in the order of their first links
  for (std::size_t i = 0; i < is.links.size(); ++i) {
    const std::string words = cable_words(was.links[i], is.links[i]);
    if (words.empty()) continue;
    auto known = std::ranges::find(sorts, words, &std::pair<std::string, Sort>::first);
    if (known == sorts.end()) {
      sorts.push_back({words, {0, fmt::format("{} - {}", name(is.links[i].a), name(is.links[i].b))}});
      known = sorts.end() - 1;
    }
    ++known->second.count;
  }
  constexpr std::size_t kMost = 6;
  for (std::size_t i = 0; i < std::min(kMost, sorts.size()); ++i) {
    const auto& [words, sort] = sorts[i];
    out.push_back(fmt::format("{} of {} links {} {} ({}{})", sort.count, is.links.size(),
                              sort.count == 1 ? "has" : "have", words, sort.count == 1 ? "" : "such as ",
                              sort.example));
  }
  if (sorts.size() > kMost) out.push_back(fmt::format("… and {} more sorts of links", sorts.size() - kMost));
}

// From the first device to the first other one of its node, and to the first of another node.
void add_routes(const Topology& before, const Topology& now, std::vector<std::string>& out) {
  out.emplace_back("the links join other ends");
  std::vector<DeviceId> both;
  for (std::size_t d = 0; d < before.num_devices(); ++d) {
    if (now.find_device(before.device(DeviceId(d)).name)) both.emplace_back(d);
  }
  for (const int distance : {1, 2}) {
    for (const DeviceId d : both) {
      const DeviceId from = both.front();
      if (before.distance(from, d) != distance) continue;
      const std::string &first = before.device(from).name, &second = before.device(d).name;
      const Route was = before.route(from, d),
                  is = now.route(*now.find_device(first), *now.find_device(second));
      std::vector<std::string> words;
      add_figure(words, "", was.bandwidth, is.bandwidth);
      add_figure(words, " of latency", was.latency, is.latency);
      out.push_back(fmt::format("{} to {}: {}", first, second,
                                words.empty() ? fmt::format("{} as before", pretty(is.bandwidth))
                                              : fmt::format("{}", fmt::join(words, ", "))));
      break;
    }
  }
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("[{}] {}", fmt::join(tensor.shape, ", "), name_of(tensor.type));
}

// What is found first stands for the rest.
struct Several {
  std::int64_t count = 0;
  std::string text;
  void add(std::string one) {
    if (count++ == 0) text = std::move(one);
  }
};

template <class Opened>
std::optional<Opened> opened(Opened (*open)(const std::string&), const std::string& text) {
  try {
    return open(text);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Why this is not what the plan was made for; "" when it is, or nobody can tell.
template <class Opened>
const char* fault_of_origin(const std::optional<Opened>& own, const std::string& fingerprint) {
  if (fingerprint.empty() || (own && own->fingerprint() == fingerprint)) return "";
  return own ? "has changed since" : "can't be opened";
}

}  // namespace

std::vector<std::string> differences(const Topology& before, const Topology& now) {
  std::vector<std::string> out;
  add_devices(before, now, out);
  if (same_wiring(before, now)) {
    add_links(before, now, out);
  } else {
    add_routes(before, now, out);
  }
  if (out.empty()) out.emplace_back("only names and nodes of devices and switches differ");
  return out;
}

std::vector<std::string> differences(const OperatorGraph& before, const OperatorGraph& now) {
  std::vector<std::string> out;
  if (before.batch() != now.batch())
    out.push_back(fmt::format("batch {} instead of {}", now.batch(), before.batch()));
  std::map<std::string, const Tensor*> tensors;
  for (const Tensor& t : before.tensors()) tensors.emplace(t.name, &t);
  Several others;
  for (const Tensor& t : now.tensors()) {
    const auto known = tensors.find(t.name);
    if (known == tensors.end()) {
      others.add(fmt::format("{}, which was not there", t.name));
    } else if (shape_text(*known->second) != shape_text(t)) {
      others.add(fmt::format("{} {} instead of {}", t.name, shape_text(t), shape_text(*known->second)));
    }
  }
  if (others.count > 0)
    out.push_back(fmt::format("{} of {} tensors have other shapes or types, such as {}", others.count,
                              now.tensors().size(), others.text));
  std::map<std::string, const Operator*> operators;
  for (const Operator& op : before.operators()) operators.emplace(op.name, &op);
  Several changed;
  for (const Operator& op : now.operators()) {
    const auto known = operators.find(op.name);
    if (known == operators.end()) continue;
    if (known->second->kind != op.kind) {
      changed.add(fmt::format("{} is {} instead of {}", op.name, op.kind, known->second->kind));
    } else if (known->second->attributes != op.attributes) {
      changed.add(op.name);
    }
  }
  if (changed.count > 0)
    out.push_back(fmt::format("{} of {} operators have other kinds or attributes, such as {}", changed.count,
                              now.operators().size(), changed.text));
  if (out.empty()) out.emplace_back("tensors or operators stand in another order");
  return out;
}

PlanOrigin origin_of(const PlanFile& plan, const OperatorGraph& graph, const Topology& topology) {
  PlanOrigin origin;
  if (const std::string& print = plan.model_fingerprint(); print != graph.fingerprint()) {
    const std::optional<OperatorGraph> own = opened(&open_model, plan.model());
    const std::string made_for = "model " + plan.model(), fault = fault_of_origin(own, print);
    if (!fault.empty()) {
      origin.others.push_back({made_for, fault, {}});
    } else if (own && own->fingerprint() != graph.fingerprint()) {
      origin.others.push_back({made_for, "", differences(*own, graph)});
    }
  }
  if (const std::string& print = plan.topology_fingerprint(); print != topology.fingerprint()) {
    std::optional<Topology> own = opened(&open_topology, plan.topology());
    const std::string made_for = "topology " + plan.topology(), fault = fault_of_origin(own, print);
    if (!fault.empty()) {
      origin.others.push_back({made_for, fault, {}});
    } else if (own && own->fingerprint() != topology.fingerprint()) {
      origin.others.push_back({made_for, "", differences(*own, topology)});
      origin.topology = std::move(own);
    }
  }
  return origin;
}

Plan read_plan(const PlanFile& file, const OperatorGraph& graph, const Topology& topology,
               std::vector<OtherOrigin>& others) {
  PlanOrigin origin = origin_of(file, graph, topology);
  others = std::move(origin.others);
  return origin.topology ? file.read(graph, topology, *origin.topology) : file.read(graph, topology);
}

}  // namespace pipesim
