#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A part of a layer that a framework can record as a CUDA graph (megatron/core/transformer/enums.py).
enum class GraphModule : std::uint8_t {
  Attention,      ///< the norm before it, attention, and the sum behind it
  Mlp,            ///< the same of a feed-forward part without experts
  Moe,            ///< the same of one with experts
  MoeRouter,      ///< the norm before experts, the router, and experts that all tokens share
  MoePreprocess,  ///< what brings tokens into the order of experts; needs MoeRouter
  Mamba           ///< a layer with a state-space scan
};
inline constexpr std::size_t kGraphModules = 6;

/// What is recorded once and then launched by one call each: parts of layers, one graph for those of a layer,
/// or the whole iteration.
struct CudaGraphs {
  bool iteration = false;
  std::uint8_t modules = 0;  ///< a bit for each GraphModule
  [[nodiscard]] bool has(GraphModule module) const {
    return (modules >> static_cast<unsigned>(module) & 1U) != 0;
  }
  bool operator==(const CudaGraphs&) const = default;
};

/// "attn", "moe_router", …
std::vector<std::string> names_of_modules(const CudaGraphs& graphs);
/// "none", "iteration", "layer" (all modules of a layer), or modules such as "attn+moe_router".
std::string name_of(const CudaGraphs& graphs);
/// InputError: `"attention", allowed: none, iteration, layer, or modules with + between them: attn, …`.
CudaGraphs parse_cuda_graphs(std::string_view text);

}  // namespace pipesim
