#include "tools/render/page/topology_drawing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kDeviceWidth = 64, kRowHeight = 58, kPadding = 14, kGap = 26, kTitle = 22;
constexpr std::size_t kInLine = 4, kMostJunctions = 24;

// Places vertices in rows: devices at the bottom of their node's box, each junction a row above what it is
// connected to, the network above all boxes.
class TopologyLayout {
 public:
  TopologyLayout(const SimulatedPart& part, const Topology& topology, const std::vector<Nanoseconds>& compute,
                 std::size_t most_nodes)
      : part_(part),
        topology_(topology),
        compute_(compute),
        alike_(part.devices_alike()),
        neighbours_(topology.parts().vertices.size()),
        number_of_(topology.parts().vertices.size(), kNone) {
    for (const Link& link : topology.parts().links) {
      neighbours_[index(link.a)].push_back(index(link.b));
      neighbours_[index(link.b)].push_back(index(link.a));
    }
    choose_nodes(most_nodes);
  }

  TopologyDrawing draw() {
    find_ranks();
    const double top = kPadding + kRowHeight * static_cast<double>(network_rows());
    double left = kPadding, height = 0;
    for (const std::int32_t node : chosen_) {
      const DrawnNode box = place_node(node, left, top);
      left += box.width + kGap;
      height = std::max(height, box.height);
    }
    for (DrawnNode& box : drawing_.nodes) box.height = height;
    drawing_.width = std::max(left - kGap + kPadding, 4 * kDeviceWidth);
    drawing_.height = top + height + kPadding;
    place_network(top);
    add_links();
    return std::move(drawing_);
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();
  static std::size_t index(std::int32_t vertex) { return static_cast<std::size_t>(vertex); }
  [[nodiscard]] const Vertex& vertex(std::size_t v) const { return topology_.parts().vertices[v]; }

  void choose_nodes(std::size_t most) {
    const auto nodes = static_cast<std::int32_t>(topology_.num_nodes());
    const auto simulated = [&](std::int32_t node) {
      return std::ranges::any_of(topology_.devices_of_node(node),
                                 [&](DeviceId d) { return alike_[d.index()] > 0; });
    };
    for (const bool wanted : {true, false}) {
      for (std::int32_t n = 0; n < nodes && chosen_.size() < most; ++n) {
        if (simulated(n) == wanted) chosen_.push_back(n);
      }
    }
    std::ranges::sort(chosen_);
    drawing_.nodes_left_out = static_cast<std::size_t>(nodes) - chosen_.size();
  }

  // Steps from the nearest device, inside a node; of the network, steps from the nearest vertex of a node.
  void find_ranks() {
    rank_.assign(neighbours_.size(), kFar);
    std::vector<std::size_t> reached;
    for (std::size_t v = 0; v < topology_.num_devices(); ++v) {
      rank_[v] = 0;
      reached.push_back(v);
    }
    spread(reached, [&](std::size_t from, std::size_t to) {
      return vertex(to).node >= 0 && vertex(to).node == vertex(from).node;
    });
    // NICs stand above the switches of their node.
    std::map<std::int32_t, std::int32_t> highest;
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node >= 0 && vertex(v).kind != VertexKind::Nic && rank_[v] != kFar)
        highest[vertex(v).node] = std::max(highest[vertex(v).node], rank_[v]);
    }
    reached.clear();
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node < 0) continue;
      if (vertex(v).kind == VertexKind::Nic || rank_[v] == kFar) rank_[v] = highest[vertex(v).node] + 1;
      if (is_chosen(vertex(v).node)) reached.push_back(v);
    }
    std::vector<std::int32_t> of_nodes = rank_;
    for (const std::size_t v : reached) rank_[v] = 0;
    spread(reached, [&](std::size_t, std::size_t to) { return vertex(to).node < 0; });
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node >= 0) rank_[v] = of_nodes[v];
    }
  }

  template <class MayGo>
  void spread(std::vector<std::size_t> reached, MayGo may_go) {
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const std::size_t next : neighbours_[reached[i]]) {
        if (rank_[next] <= rank_[reached[i]] + 1 || !may_go(reached[i], next)) continue;
        rank_[next] = rank_[reached[i]] + 1;
        reached.push_back(next);
      }
    }
  }

  [[nodiscard]] bool is_chosen(std::int32_t node) const { return std::ranges::binary_search(chosen_, node); }

  [[nodiscard]] std::int32_t network_rows() const {
    std::int32_t rows = 0;
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node < 0 && rank_[v] != kFar) rows = std::max(rows, rank_[v]);
    }
    return rows;
  }

  // Rows with many vertices take several lines.
  static std::size_t lines_of(const std::vector<std::size_t>& row) {
    return (row.size() + kInLine - 1) / kInLine;
  }

  DrawnNode place_node(std::int32_t node, double left, double top) {
    std::map<std::int32_t, std::vector<std::size_t>, std::greater<>> rows;  // by rank, from the top
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node == node) rows[rank_[v]].push_back(v);
    }
    std::size_t widest = 1, lines = 0;
    for (const auto& [rank, row] : rows) {
      widest = std::max(widest, std::min(row.size(), kInLine));
      lines += lines_of(row);
    }
    DrawnNode box{topology_.parts().nodes[static_cast<std::size_t>(node)], left, top,
                  2 * kPadding + kDeviceWidth * static_cast<double>(widest),
                  kTitle + kPadding + kRowHeight * static_cast<double>(lines)};
    const double inner = box.width - 2 * kPadding;
    // From below, since junctions stand over what they are connected to.
    double y = top + kTitle + kRowHeight * (static_cast<double>(lines) + 0.5);
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      y -= kRowHeight * static_cast<double>(lines_of(row->second));
      place_lines(row->second, left + kPadding, inner, y);
    }
    drawing_.nodes.push_back(box);
    return box;
  }

  void place_lines(const std::vector<std::size_t>& row, double left, double width, double y) {
    for (std::size_t i = 0; i < row.size(); i += kInLine) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kInLine, row.size() - i));
      const std::size_t line = i / kInLine;
      place_row({first, first + count}, left, width, y + kRowHeight * static_cast<double>(line));
    }
  }

  void place_network(double top) {
    std::map<std::int32_t, std::vector<std::size_t>> rows;
    std::size_t drawn = 0;
    for (std::size_t v = 0; v < rank_.size(); ++v) {
      if (vertex(v).node >= 0) continue;
      if (rank_[v] == kFar || drawn == kMostJunctions) {
        ++drawing_.switches_left_out;
        continue;
      }
      rows[rank_[v]].push_back(v);
      ++drawn;
    }
    for (const auto& [rank, row] : rows)
      place_row(row, kPadding, drawing_.width - 2 * kPadding,
                top - kRowHeight * (static_cast<double>(rank) - 0.5) - kPadding / 2);
  }

  // Evenly, in the order of what is below them.
  void place_row(std::vector<std::size_t> row, double left, double width, double y) {
    std::ranges::stable_sort(row, {}, [&](std::size_t v) {
      double sum = 0, count = 0;
      for (const std::size_t n : neighbours_[v]) {
        if (number_of_[n] == kNone) continue;
        sum += drawing_.vertices[number_of_[n]].x;
        ++count;
      }
      return count > 0 ? sum / count : 0;
    });
    for (std::size_t i = 0; i < row.size(); ++i)
      place(row[i], left + width * (static_cast<double>(i) + 0.5) / static_cast<double>(row.size()), y);
  }

  void place(std::size_t v, double x, double y) {
    number_of_[v] = drawing_.vertices.size();
    const std::string& whole = vertex(v).name;
    DrawnVertex drawn{whole.substr(whole.rfind('.') + 1), whole, vertex(v).kind, x, y, 0, 0};
    if (v < topology_.num_devices()) {
      const Nanoseconds all = std::max<Nanoseconds>(1, part_.makespan());
      drawn.alike = alike_[v];
      drawn.busy = v < compute_.size() ? static_cast<double>(compute_[v]) / static_cast<double>(all) : 0;
    }
    drawing_.vertices.push_back(std::move(drawn));
  }

  void add_links() {
    const std::vector<double> load = loads_of_lanes(part_, topology_.num_lanes());
    for (const Link& link : topology_.parts().links) {
      const std::size_t a = number_of_[index(link.a)], b = number_of_[index(link.b)];
      if (a == kNone || b == kNone) continue;
      drawing_.links.push_back({a, b, pretty(link.bandwidth), pretty(link.latency), link.duplex,
                                load[link.forward.index()], load[link.backward.index()]});
    }
  }

  const SimulatedPart& part_;
  const Topology& topology_;
  const std::vector<Nanoseconds>& compute_;
  std::vector<std::int64_t> alike_;
  std::vector<std::vector<std::size_t>> neighbours_;  // by vertex
  std::vector<std::size_t> number_of_;                // by vertex: its number in the drawing
  std::vector<std::int32_t> chosen_, rank_;
  TopologyDrawing drawing_;
};

}  // namespace

TopologyDrawing draw_topology(const SimulatedPart& part, const Topology& topology,
                              const std::vector<Nanoseconds>& compute, std::size_t most_nodes) {
  return TopologyLayout(part, topology, compute, most_nodes).draw();
}

std::vector<double> loads_of_lanes(const SimulatedPart& part, std::size_t num_lanes) {
  std::vector<Nanoseconds> held(num_lanes, 0);
  for (std::size_t t = 0; t < part.dag().num_tasks(); ++t) {
    const Nanoseconds start = part.timeline().start[t];
    for (const LaneUse use : part.dag().lanes(TaskId(t)))
      held[use.lane.index()] += part.time_spent(start, start + use.hold);
  }
  const auto all = static_cast<double>(std::max<Nanoseconds>(1, part.makespan()));
  std::vector<double> loads;
  for (std::size_t lane = 0; lane < num_lanes; ++lane)
    loads.push_back(static_cast<double>(held[part.stands_for(LaneId(lane)).index()]) / all);
  return loads;
}

nlohmann::ordered_json json_of(const TopologyDrawing& drawing) {
  constexpr std::array<std::string_view, 4> kKinds{"device", "switch", "nic", "bus"};
  Json nodes = Json::array(), vertices = Json::array(), links = Json::array();
  for (const DrawnNode& n : drawing.nodes)
    nodes.push_back({{"name", n.name}, {"x", n.x}, {"y", n.y}, {"width", n.width}, {"height", n.height}});
  for (const DrawnVertex& v : drawing.vertices) {
    vertices.push_back({{"name", v.name},
                        {"whole", v.whole},
                        {"kind", kKinds.at(static_cast<std::size_t>(v.kind))},
                        {"x", v.x},
                        {"y", v.y}});
    if (v.kind == VertexKind::Device) {
      vertices.back()["busy"] = v.busy;
      vertices.back()["alike"] = v.alike;
    }
  }
  for (const DrawnLink& l : drawing.links)
    links.push_back({{"a", l.a},
                     {"b", l.b},
                     {"bandwidth", l.bandwidth},
                     {"latency", l.latency},
                     {"duplex", l.duplex},
                     {"forward", l.forward},
                     {"backward", l.backward}});
  return {{"width", drawing.width},
          {"height", drawing.height},
          {"nodes_left_out", drawing.nodes_left_out},
          {"switches_left_out", drawing.switches_left_out},
          {"nodes", nodes},
          {"vertices", vertices},
          {"links", links}};
}

}  // namespace pipesim
