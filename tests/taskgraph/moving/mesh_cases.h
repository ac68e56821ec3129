#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "taskgraph/moving/layout.h"

namespace pipesim {

/// The devices of some nodes with as many devices each, as a mesh (nodes, devices of a node). Which dimension
/// of a tensor each axis of the mesh cuts; kCopied: none, the axis copies.
struct MeshSide {
  static constexpr int kCopied = -1;
  std::int64_t first_node = 0, nodes = 1, gpus = 1;
  int by_nodes = kCopied, by_gpus = kCopied;

  /// `node_devices`: the devices of a node of the topology.
  [[nodiscard]] Layout layout(const std::vector<std::int64_t>& shape, std::int64_t node_devices) const {
    std::vector<Layout::Piece> pieces;
    for (std::int64_t n = 0; n < nodes; ++n) {
      for (std::int64_t g = 0; g < gpus; ++g) {
        Box box = Box::whole(shape);
        const auto cut = [&](int dim, std::int64_t parts, std::int64_t number) {
          Range& r = box[static_cast<std::size_t>(dim)];
          const std::int64_t length = r.length();
          r = {r.begin + number * length / parts, r.begin + (number + 1) * length / parts};
        };
        if (by_nodes >= 0) cut(by_nodes, nodes, n);
        if (by_gpus >= 0) cut(by_gpus, gpus, g);
        pieces.push_back({DeviceId(static_cast<std::size_t>((first_node + n) * node_devices + g)), box, 0});
      }
    }
    return Layout(pieces);
  }
};

/// A tensor of float32 between two meshes on nodes of their own.
struct MeshCase {
  std::string name;
  std::vector<std::int64_t> shape;
  MeshSide from, to;
};

/// The cases of the benchmark of single tensors in Zhuang et al., arXiv:2211.05322: nodes of four GPUs. Cases
/// 7 and 8 differ only in the number of receivers.
inline std::vector<MeshCase> mesh_cases() {
  constexpr int kCopied = MeshSide::kCopied;
  const std::vector<std::int64_t> shape{1024, 1024, 512};
  const auto sides = [](int a, int b, int c, int d) {
    return std::pair(MeshSide{0, 2, 4, a, b}, MeshSide{2, 2, 4, c, d});
  };
  std::vector<MeshCase> cases;
  const auto add = [&](const char* name, std::pair<MeshSide, MeshSide> s) {
    cases.push_back({name, shape, s.first, s.second});
  };
  add("1", sides(0, kCopied, 0, kCopied));
  add("2", sides(kCopied, kCopied, 0, kCopied));
  add("3", sides(1, kCopied, 0, kCopied));
  add("4", sides(1, 1, 0, 0));
  add("5", sides(kCopied, 0, 0, kCopied));
  cases.push_back({"6", {3072, 1024, 170}, {0, 2, 4, 0, kCopied}, {2, 3, 4, 0, kCopied}});
  cases.push_back({"7, 8", shape, {0, 1, 4, kCopied, 0}, {1, 2, 4, kCopied, kCopied}});
  add("9", sides(1, kCopied, 2, kCopied));
  return cases;
}

}  // namespace pipesim
