#include "topologies/routing.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths_no_color_map.hpp>
#include <boost/property_map/property_map.hpp>
#include <boost/range/iterator_range.hpp>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "topologies/node_routes.h"
#include "topologies/tree_cache.h"

namespace pipesim {

namespace {

constexpr double kMessageBytes = 1e6;

struct Edge {
  Arc arc;
  RouteCost cost;
};

using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Edge>;
using Tree = std::vector<Arc>;  // per graph vertex, the arc into it on the way from the source

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

RouteCost operator+(RouteCost a, RouteCost b) {
  if (a == unreached || b == unreached) return unreached;
  return {a.forwarding_devices + b.forwarding_devices, a.picoseconds + b.picoseconds};
}

std::int64_t crossing_picoseconds(const Link& link) {
  return std::llround((link.latency.value + kMessageBytes / link.bandwidth.value) * 1e12);
}

struct Router::State {
  const TopologyParts& parts;
  std::vector<Arc> hanging_arc;  // per vertex: the arc out of a device that has only this link, or none
  std::vector<std::int32_t> graph_vertex;  // per vertex, −1 for those that hang
  Graph graph;
  std::unique_ptr<NodeRoutes> node_routes;  // or null: then trees are over the graph
  mutable std::optional<TreeCache<Tree>> trees;

  State(const TopologyParts& p, std::size_t tree_bytes) : parts(p) {
    find_hanging_devices();
    std::vector<bool> hanging(parts.vertices.size());
    for (std::size_t v = 0; v < hanging.size(); ++v) hanging[v] = hangs(static_cast<std::int32_t>(v));
    node_routes = NodeRoutes::find(parts, hanging, tree_bytes);
    if (node_routes) return;
    build_graph();
    trees.emplace(tree_bytes, sizeof(Arc) * boost::num_vertices(graph));
  }

  [[nodiscard]] std::int32_t tail(Arc arc) const {
    const Link& link = parts.links[arc.link()];
    return arc.forward() ? link.a : link.b;
  }
  [[nodiscard]] std::int32_t head(Arc arc) const {
    const Link& link = parts.links[arc.link()];
    return arc.forward() ? link.b : link.a;
  }
  [[nodiscard]] bool is_device(std::int32_t vertex) const { return index(vertex) < parts.devices.size(); }
  [[nodiscard]] bool hangs(std::int32_t vertex) const { return hanging_arc[index(vertex)].value >= 0; }

  void find_hanging_devices() {
    std::vector<std::int32_t> degree(parts.vertices.size());
    for (const Link& link : parts.links) ++degree[index(link.a)], ++degree[index(link.b)];
    hanging_arc.resize(parts.vertices.size());
    for (std::size_t i = 0; i < parts.links.size(); ++i) {
      for (const std::int32_t direction : {0, 1}) {
        const Arc arc{static_cast<std::int32_t>(2 * i) + direction};
        if (is_device(tail(arc)) && degree[index(tail(arc))] == 1 && !is_device(head(arc)))
          hanging_arc[index(tail(arc))] = arc;
      }
    }
  }

  void build_graph() {
    std::int32_t count = 0;
    for (std::size_t v = 0; v < parts.vertices.size(); ++v)
      graph_vertex.push_back(hangs(static_cast<std::int32_t>(v)) ? -1 : count++);

    std::vector<std::pair<std::size_t, std::size_t>> ends;
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < parts.links.size(); ++i) {
      if (hangs(parts.links[i].a) || hangs(parts.links[i].b)) continue;
      for (const std::int32_t direction : {0, 1}) {
        const Arc arc{static_cast<std::int32_t>(2 * i) + direction};
        // Leaving the source counts as forwarding too: the same for every way from it, so it decides nothing.
        edges.push_back({arc, {is_device(tail(arc)), crossing_picoseconds(parts.links[i])}});
        ends.emplace_back(index(graph_vertex[index(tail(arc))]), index(graph_vertex[index(head(arc))]));
      }
    }
    graph = Graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), edges.begin(),
                  static_cast<std::size_t>(count));
  }

  [[nodiscard]] Tree tree_from(std::int32_t source) const {
    std::vector<RouteCost> cost(boost::num_vertices(graph));
    const auto vertex_index = boost::get(boost::vertex_index, graph);
    boost::dijkstra_shortest_paths_no_color_map(
        graph, index(source),
        boost::weight_map(boost::get(&Edge::cost, graph))
            .distance_map(boost::make_iterator_property_map(cost.begin(), vertex_index))
            .distance_inf(unreached)
            .distance_zero(RouteCost{})
            .distance_compare(std::less<>())
            .distance_combine(std::plus<>()));
    // Which of several equal ways Dijkstra finds depends on its heap; the lowest arc of a shortest way does
    // not.
    Tree tree(cost.size());
    for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
      const std::size_t from = boost::source(edge, graph), to = boost::target(edge, graph);
      Arc& best = tree[to];
      const bool shortest = to != index(source) && cost[from] + graph[edge].cost == cost[to];
      if (shortest && (best.value < 0 || graph[edge].arc.value < best.value)) best = graph[edge].arc;
    }
    return tree;
  }

  // From the last arc to the first.
  [[nodiscard]] std::vector<Arc> way_backwards(std::int32_t from, std::int32_t to) const {
    if (node_routes) return node_routes->way_backwards(from, to);
    std::vector<Arc> backwards;
    const auto tree =
        trees->of(graph_vertex[index(from)], [&](std::int32_t source) { return tree_from(source); });
    for (; to != from; to = tail(backwards.back()))
      backwards.push_back((*tree)[index(graph_vertex[index(to)])]);
    return backwards;
  }
};

Router::Router(const TopologyParts& parts, std::size_t tree_bytes)
    : state_(std::make_unique<State>(parts, tree_bytes)) {}
Router::~Router() = default;

std::vector<Arc> Router::way(std::int32_t from, std::int32_t to) const {
  std::vector<Arc> backwards;
  if (from == to) return backwards;
  constexpr std::size_t kUsual = 16;
  backwards.reserve(kUsual);
  const State& s = *state_;
  if (s.hangs(to)) {
    const Arc out = s.hanging_arc[index(to)];
    backwards.push_back(Arc{out.value ^ 1});
    to = s.head(out);
  }
  const Arc first = s.hanging_arc[index(from)];
  const std::int32_t source = first.value >= 0 ? s.head(first) : from;
  if (source != to) {
    for (const Arc arc : s.way_backwards(source, to)) backwards.push_back(arc);
  }
  if (first.value >= 0) backwards.push_back(first);
  std::reverse(backwards.begin(), backwards.end());
  return backwards;
}

}  // namespace pipesim
