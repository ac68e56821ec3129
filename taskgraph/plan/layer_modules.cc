#include "taskgraph/plan/layer_modules.h"

#include <algorithm>
#include <array>
#include <functional>

#include "models/operator_kind.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, kRecomputeModules> kDescriptions{
    "attention",
    "a feed-forward part without experts",
    "experts",
    "an activation between products of experts",
    "a norm before experts or latents",
    "latents of queries or keys",
    "experts that all tokens share"};

bool is_product(const Operator& op) {
  return op.kind == "linear" || op.kind == "expert_linear" || op.kind == "matmul" || op.kind == "einsum";
}
bool is_row_norm(const Operator& op) { return op.kind == "layer_norm" || op.kind == "rms_norm"; }
bool is_dispatch(const Operator& op) { return op.kind == "moe_dispatch"; }
bool is_combine(const Operator& op) { return op.kind == "moe_combine"; }

// The operators of one layer, and who reads whom among them.
class LayerModules {
 public:
  LayerModules(const OperatorGraph& graph, std::vector<std::size_t> operators)
      : graph_(graph), operators_(std::move(operators)) {
    for (const std::size_t i : operators_) {
      if (is_attention(op(i).kind)) attention_.push_back(i);
      if (is_dispatch(op(i))) dispatch_.push_back(i);
    }
  }

  // Returns which operators the module has.
  [[nodiscard]] std::vector<std::size_t> operators_of(RecomputeModule module) const {
    switch (module) {
      case RecomputeModule::CoreAttention:
        return attention_;
      case RecomputeModule::Mlp:
        return mlp();
      case RecomputeModule::Moe:
        return moe();
      case RecomputeModule::MoeActivation:
        return between_products_of_experts();
      case RecomputeModule::LayerNorm:
        return norms();
      case RecomputeModule::LatentUpProjection:
        return latent_up_projection();
      case RecomputeModule::SharedExperts:
        return shared_experts();
    }
    return {};
  }

  [[nodiscard]] std::vector<std::size_t> operators_of(GraphModule module) const {
    const auto behind_norm = [&](auto wanted) { return with_sums(part_behind_norm(wanted)); };
    using Part = std::vector<std::size_t>;
    switch (module) {
      case GraphModule::Attention:
        return behind_norm([&](const Part& part) { return has_attention(part) && !has_scan(part); });
      case GraphModule::Mlp:
        return with_sums(mlp());
      case GraphModule::Moe:
        return behind_norm([&](const Part& part) { return has_experts(part); });
      case GraphModule::MoeRouter:
        return router();
      case GraphModule::MoePreprocess:
        return dispatch_;
      case GraphModule::Mamba:
        return behind_norm([&](const Part& part) { return has_scan(part); });
    }
    return {};
  }

 private:
  [[nodiscard]] const Operator& op(std::size_t i) const { return graph_.operators()[i]; }
  [[nodiscard]] bool inside(std::size_t i) const { return std::ranges::binary_search(operators_, i); }

  [[nodiscard]] std::vector<std::size_t> producers(std::size_t i) const {
    std::vector<std::size_t> found;
    for (const TensorUse& use : op(i).uses) {
      if (use.role == Role::Output) continue;
      const OperatorId producer = graph_.tensor(use.tensor).producer;
      if (producer.valid() && inside(producer.index())) found.push_back(producer.index());
    }
    return found;
  }
  [[nodiscard]] std::vector<std::size_t> readers(std::size_t i) const {
    std::vector<std::size_t> found;
    for (const TensorUse& use : op(i).uses) {
      if (use.role != Role::Output) continue;
      for (const UseRef reader : graph_.consumers(use.tensor)) {
        if (inside(reader.op.index())) found.push_back(reader.op.index());
      }
    }
    return found;
  }

  // Returns all that `next` leads to from these, themselves included where `through` holds for them,
  // ascending. It goes on behind an operator only if `through` holds for it.
  [[nodiscard]] std::vector<std::size_t> reached(std::vector<std::size_t> from, auto next,
                                                 auto through) const {
    std::vector<std::size_t> found;
    while (!from.empty()) {
      const std::size_t i = from.back();
      from.pop_back();
      if (!through(i) || std::ranges::find(found, i) != found.end()) continue;
      found.push_back(i);
      for (const std::size_t n : next(i)) from.push_back(n);
    }
    std::ranges::sort(found);
    return found;
  }
  [[nodiscard]] auto forward() const {
    return [this](std::size_t i) { return readers(i); };
  }
  [[nodiscard]] auto backward() const {
    return [this](std::size_t i) { return producers(i); };
  }

  // A norm of what layers hand on to each other: no product of this layer made it.
  [[nodiscard]] bool is_of_stream(std::size_t norm) const {
    return is_row_norm(op(norm)) && std::ranges::none_of(producers(norm), [&](std::size_t p) {
             return is_product(op(p)) || op(p).kind == "rotary" || is_attention(op(p).kind);
           });
  }
  [[nodiscard]] bool is_add(std::size_t i) const { return op(i).kind == "add" || op(i).kind == "dropout"; }

  // Returns the norm of the stream and all behind it until the sum with the stream, where `wanted` holds for
  // that part; empty where none is such.
  [[nodiscard]] std::vector<std::size_t> part_behind_norm(auto wanted) const {
    std::vector<std::size_t> all;
    for (const std::size_t norm : operators_) {
      if (!is_of_stream(norm)) continue;
      std::vector<std::size_t> part =
          reached({norm}, forward(), [&](std::size_t i) { return i == norm || !is_add(i); });
      if (wanted(part)) all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::sort(all);
    return all;
  }
  [[nodiscard]] bool has_experts(const std::vector<std::size_t>& part) const {
    return std::ranges::any_of(part, [&](std::size_t i) { return is_dispatch(op(i)); });
  }
  [[nodiscard]] bool has_attention(const std::vector<std::size_t>& part) const {
    return std::ranges::any_of(part, [&](std::size_t i) { return is_attention(op(i).kind); });
  }

  [[nodiscard]] bool has_scan(const std::vector<std::size_t>& part) const {
    return std::ranges::any_of(part, [&](std::size_t i) {
      return op(i).kind == "state_space_scan" || op(i).kind == "selective_scan";
    });
  }

  // The part, and the sum with the stream behind it.
  [[nodiscard]] std::vector<std::size_t> with_sums(std::vector<std::size_t> part) const {
    for (std::size_t k = 0; k < part.size(); ++k) {
      if (op(part[k]).kind == "add") continue;
      for (const std::size_t reader : readers(part[k])) {
        if (is_add(reader) && std::ranges::find(part, reader) == part.end()) part.push_back(reader);
      }
    }
    return part;
  }

  // What leads to the dispatch from the norm before experts, and experts that all tokens share.
  [[nodiscard]] std::vector<std::size_t> router() const {
    std::vector<std::size_t> part = part_behind_norm([&](const auto& p) { return has_experts(p); });
    const std::vector<std::size_t> shared = shared_experts(),
                                   before = reached(dispatch_, backward(), [](std::size_t) { return true; });
    std::erase_if(part, [&](std::size_t i) {
      return is_dispatch(op(i)) ||
             (!std::ranges::binary_search(before, i) && !std::ranges::binary_search(shared, i));
    });
    return part;
  }

  [[nodiscard]] std::vector<std::size_t> mlp() const {
    return part_behind_norm([&](const std::vector<std::size_t>& part) {
      const bool multiplies = std::ranges::any_of(part, [&](std::size_t i) { return is_product(op(i)); });
      return multiplies && !has_experts(part) && !has_attention(part);
    });
  }

  [[nodiscard]] std::vector<std::size_t> moe() const {
    std::vector<std::size_t> part = part_behind_norm([&](const auto& p) { return has_experts(p); });
    std::erase_if(part, [&](std::size_t i) { return is_of_stream(i); });
    return part;
  }

  [[nodiscard]] std::vector<std::size_t> between_products_of_experts() const {
    const auto is_expert_product = [&](std::size_t i) { return op(i).kind == "expert_linear"; };
    std::vector<std::size_t> found;
    for (const std::size_t i : operators_) {
      if (is_expert_product(i) || dispatch_.empty()) continue;
      const auto other = [&](std::size_t j) { return j == i || !is_expert_product(j); };
      const auto touches = [&](auto next) {
        return std::ranges::any_of(reached({i}, next, other), [&](std::size_t j) {
          return std::ranges::any_of(next(j), is_expert_product);
        });
      };
      const bool carries = is_dispatch(op(i)) || is_combine(op(i));
      if (!carries && touches(backward()) && touches(forward())) found.push_back(i);
    }
    return found;
  }

  // Before experts, or before latents: a norm before one plain product is a part of that product's kernel.
  [[nodiscard]] std::vector<std::size_t> norms() const {
    const std::vector<std::size_t> latent = latent_up_projection();
    return part_behind_norm_heads([&](const std::vector<std::size_t>& part) {
      return has_experts(part) || (has_attention(part) && !latent.empty());
    });
  }
  [[nodiscard]] std::vector<std::size_t> part_behind_norm_heads(auto wanted) const {
    std::vector<std::size_t> found = part_behind_norm(wanted);
    std::erase_if(found, [&](std::size_t i) { return !is_of_stream(i); });
    return found;
  }

  // All between the first products behind the norm and attention, where a product is among it.
  [[nodiscard]] std::vector<std::size_t> latent_up_projection() const {
    std::vector<std::size_t> found;
    for (const std::size_t attention : attention_) {
      const auto first_product = [&](std::size_t i) {
        return is_product(op(i)) &&
               std::ranges::any_of(producers(i), [&](std::size_t p) { return is_of_stream(p); });
      };
      std::vector<std::size_t> part = reached(producers(attention), backward(), [&](std::size_t i) {
        return !first_product(i) && !is_of_stream(i);
      });
      if (std::ranges::any_of(part, [&](std::size_t i) { return is_product(op(i)); }))
        found.insert(found.end(), part.begin(), part.end());
    }
    std::ranges::sort(found);
    return found;
  }

  // What neither leads to the dispatch nor follows it.
  [[nodiscard]] std::vector<std::size_t> shared_experts() const {
    if (dispatch_.empty()) return {};
    std::vector<std::size_t> part = moe();
    const auto any = [](std::size_t) { return true; };
    const std::vector<std::size_t> before = reached(dispatch_, backward(), any),
                                   behind = reached(dispatch_, forward(), any);
    std::erase_if(part, [&](std::size_t i) {
      return std::ranges::binary_search(before, i) || std::ranges::binary_search(behind, i);
    });
    return part;
  }

  const OperatorGraph& graph_;
  std::vector<std::size_t> operators_;  // ascending
  std::vector<std::size_t> attention_, dispatch_;
};

// Returns the operators of each layer, or each operator of attention by itself where there are no layers.
std::vector<std::vector<std::size_t>> operators_by_layer(const OperatorGraph& graph,
                                                         const std::vector<std::int32_t>& layer_of) {
  std::vector<std::vector<std::size_t>> layers;
  for (std::size_t i = 0; i < layer_of.size(); ++i) {
    if (layer_of[i] == kNoLayer) {
      if (is_attention(graph.operators()[i].kind)) layers.push_back({i});
      continue;
    }
    const auto layer = static_cast<std::size_t>(layer_of[i]);
    if (layers.size() <= layer) layers.resize(layer + 1);
    layers[layer].push_back(i);
  }
  return layers;
}

void for_each_module(const OperatorGraph& graph, const Recompute& recompute,
                     const std::vector<std::int32_t>& layer_of,
                     const std::function<void(RecomputeModule, std::vector<std::size_t>)>& visit) {
  for (std::vector<std::size_t>& operators : operators_by_layer(graph, layer_of)) {
    const LayerModules layer(graph, std::move(operators));
    for (std::size_t m = 0; m < kRecomputeModules; ++m) {
      const auto module = static_cast<RecomputeModule>(m);
      if (recompute.has(module)) visit(module, layer.operators_of(module));
    }
  }
}

}  // namespace

std::string_view described(RecomputeModule module) { return kDescriptions[static_cast<std::size_t>(module)]; }

// An operator of two modules is in the wider one, which comes first: what is inside it is kept by none.
std::vector<std::int32_t> module_segments(const OperatorGraph& graph, const Recompute& recompute,
                                          const std::vector<std::int32_t>& layer_of) {
  std::vector<std::int32_t> segments(graph.operators().size(), kNoSegment);
  std::int32_t next = 0;
  for_each_module(graph, recompute, layer_of,
                  [&](RecomputeModule, const std::vector<std::size_t>& operators) {
                    bool fresh = false;
                    for (const std::size_t i : operators) {
                      if (segments[i] != kNoSegment) continue;
                      segments[i] = next;
                      fresh = true;
                    }
                    if (fresh) ++next;
                  });
  return segments;
}

std::vector<std::int32_t> graphed_segments(const OperatorGraph& graph, CudaGraphs graphs,
                                           const std::vector<std::int32_t>& layer_of) {
  std::vector<std::int32_t> segments(graph.operators().size(), kNoSegment);
  std::int32_t next = 0;
  for (std::vector<std::size_t>& operators : operators_by_layer(graph, layer_of)) {
    const LayerModules layer(graph, std::move(operators));
    for (std::size_t m = 0; m < kGraphModules; ++m) {
      if (!graphs.has(static_cast<GraphModule>(m))) continue;
      for (const std::size_t i : layer.operators_of(static_cast<GraphModule>(m))) segments[i] = next;
    }
    ++next;
  }
  return segments;
}

namespace {

// Returns a bit for each module of the recomputation that some layer has.
std::uint32_t modules_found(const OperatorGraph& graph, const Recompute& recompute,
                            const std::vector<std::int32_t>& layer_of) {
  std::uint32_t found = 0;
  for_each_module(graph, recompute, layer_of,
                  [&](RecomputeModule module, const std::vector<std::size_t>& operators) {
                    if (!operators.empty()) found |= 1U << static_cast<unsigned>(module);
                  });
  return found;
}

}  // namespace

Recompute with_modules_of(const OperatorGraph& graph, Recompute recompute) {
  if (recompute.kind != Recompute::Kind::Modules) return recompute;
  recompute.modules = modules_found(graph, recompute, layers_of(graph));
  return recompute.modules == 0 ? Recompute() : recompute;
}

std::optional<RecomputeModule> missing_module(const OperatorGraph& graph, const Recompute& recompute,
                                              const std::vector<std::int32_t>& layer_of) {
  Recompute missing = recompute;
  missing.modules &= ~modules_found(graph, recompute, layer_of);
  for (std::size_t m = 0; m < kRecomputeModules; ++m) {
    if (missing.has(static_cast<RecomputeModule>(m))) return static_cast<RecomputeModule>(m);
  }
  return std::nullopt;
}

// Routers run again: their results are small, and so is their work.
std::vector<std::int32_t> operator_segments(const OperatorGraph& graph,
                                            const std::vector<std::int32_t>& layer_of) {
  std::vector<std::int32_t> segments(graph.operators().size(), kNoSegment);
  std::int32_t next = 0, before = kNoLayer;
  std::int64_t products = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (layer_of[i] == kNoLayer) continue;
    if (layer_of[i] != before) products = 0;
    before = layer_of[i];
    const Operator& op = graph.operators()[i];
    const bool router =
        op.attributes.contains("router") && op.attributes.at("router") == AttributeValue(std::int64_t{1});
    const bool kept_product = is_product(op) && !router && ++products % 2 == 1;
    if (kept_product || is_attention(op.kind) || is_dispatch(op) || is_combine(op)) continue;
    segments[i] = layer_of[i];
  }
  std::vector<std::int32_t> numbers;  // by layer
  for (std::int32_t& segment : segments) {
    if (segment == kNoSegment) continue;
    if (numbers.size() <= static_cast<std::size_t>(segment))
      numbers.resize(static_cast<std::size_t>(segment) + 1, kNoSegment);
    std::int32_t& number = numbers[static_cast<std::size_t>(segment)];
    if (number == kNoSegment) number = next++;
    segment = number;
  }
  return segments;
}

}  // namespace pipesim
