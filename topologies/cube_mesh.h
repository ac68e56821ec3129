#pragma once

#include <array>
#include <cstddef>

namespace pipesim {

/// NVLinks between two GPUs.
struct NvlinkPair {
  std::size_t a, b;
  int links;
};

/// NVLinks between the pairs of a DGX-1 with V100: `nvidia-smi topo -m` in NVIDIA's DGX-1 white paper; NCCL
/// topology dump in NVIDIA/nccl#671. Two quads (0-3 and 4-7), fully meshed, joined corner to corner. Six
/// links a GPU.
inline constexpr std::array<NvlinkPair, 16> kCubeMesh{{{0, 1, 1},
                                                       {0, 2, 1},
                                                       {0, 3, 2},
                                                       {1, 2, 2},
                                                       {1, 3, 1},
                                                       {2, 3, 2},
                                                       {4, 5, 1},
                                                       {4, 6, 1},
                                                       {4, 7, 2},
                                                       {5, 6, 2},
                                                       {5, 7, 1},
                                                       {6, 7, 2},
                                                       {0, 4, 2},
                                                       {1, 5, 2},
                                                       {2, 6, 1},
                                                       {3, 7, 1}}};

}  // namespace pipesim
