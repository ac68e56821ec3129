#include "search/recipe_planner/measuring/model_parts.h"

#include <algorithm>
#include <map>
#include <span>

#include "sim/base/errors.h"
#include "taskgraph/binding/alike_operators.h"

namespace pipesim {
namespace {

// Says what parts of a model are to each other.
class PartFinder {
 public:
  PartFinder(const RecipeModel& model, ModelParts& parts)
      : graph_(model.graph()), alike_(first_alike(graph_)), parts_(parts) {
    const std::int64_t layers = model.num_layers();
    all_.resize(static_cast<std::size_t>(layers) + 2);
    for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
      // Without layers all stand behind them.
      const std::int32_t layer = layers == 0 ? 0 : model.layer_of()[i];
      part_of_.push_back(static_cast<std::size_t>(layer + 1));
      ModelPart& part = all_[part_of_.back()];
      place_.push_back(part.operators.size());
      part.operators.emplace_back(i);
    }
  }

  void find() {
    for (std::size_t p = 0; p + 1 < all_.size(); ++p) connect(p);
    end_with_loss();
    std::map<std::vector<std::int64_t>, std::size_t> classes;
    for (std::size_t p = 1; p + 1 < all_.size(); ++p) {
      const auto [at, fresh] = classes.try_emplace(signature(p), classes.size());
      if (fresh) parts_.representative.push_back(p - 1);
      parts_.class_of.push_back(at->second);
    }
    parts_.front = all_.front();
    parts_.behind = all_.back();
    parts_.layers.assign(all_.begin() + 1, all_.end() - 1);
  }

 private:
  [[nodiscard]] bool is_read_beyond(TensorId tensor, std::size_t part) const {
    return std::ranges::any_of(graph_.consumers(tensor),
                               [&](UseRef use) { return part_of_[use.op.index()] > part; });
  }

  // What the part hands to the next one. The front may hand out tables beside it, which no gradient reaches.
  void connect(std::size_t part) {
    std::vector<TensorId> out;
    for (const OperatorId op : all_[part].operators) {
      for (const TensorUse& use : graph_.op(op).uses) {
        const bool chained = part > 0 || graph_.wants_gradient(use.tensor);
        if (use.role == Role::Output && chained && is_read_beyond(use.tensor, part))
          out.push_back(use.tensor);
      }
    }
    if (out.size() != 1) return;
    const bool next_alone = std::ranges::all_of(graph_.consumers(out.front()), [&](UseRef use) {
      const std::size_t reader = part_of_[use.op.index()];
      return reader == part || reader == part + 1;
    });
    const bool read_here = std::ranges::any_of(graph_.consumers(out.front()),
                                               [&](UseRef use) { return part_of_[use.op.index()] == part; });
    if (!next_alone || read_here) return;
    all_[part].exit = out.front();
    all_[part + 1].entry = out.front();
  }

  void end_with_loss() {
    for (const OperatorId op : all_.back().operators) {
      for (const TensorUse& use : graph_.op(op).uses) {
        if (use.role == Role::Output && graph_.consumers(use.tensor).empty() &&
            graph_.gets_gradient(use.tensor))
          all_.back().exit = use.tensor;
      }
    }
  }

  // Where the layer's tensors come from and go to, and which of its operators run again.
  [[nodiscard]] std::vector<std::int64_t> signature(std::size_t part) const {
    std::vector<std::int64_t> words;
    const auto place_in = [&](OperatorId op) -> std::int64_t {
      return part_of_[op.index()] == part ? static_cast<std::int64_t>(place_[op.index()]) : -1;
    };
    const ModelPart& p = all_[part];
    words.push_back(p.entry ? alike_[graph_.tensor(*p.entry).producer.index()].value : -1);
    for (const OperatorId op : p.operators) {
      words.push_back(alike_[op.index()].value);
      for (std::size_t u = 0; u < graph_.op(op).uses.size(); ++u) {
        const TensorUse& use = graph_.op(op).uses[u];
        const Tensor& tensor = graph_.tensor(use.tensor);
        words.push_back(p.entry == use.tensor ? 1 : p.exit == use.tensor ? 2 : 0);
        words.push_back(tensor.producer.valid() ? place_in(tensor.producer) : -1);
        words.push_back(static_cast<std::int64_t>(graph_.consumers(use.tensor).size()));
        for (const UseRef reader : graph_.consumers(use.tensor)) words.push_back(place_in(reader.op));
        for (const auto& recomputation : parts_.recomputation)
          words.push_back(!recomputation ? 2
                                         : recomputation->reads_again({op, static_cast<std::int32_t>(u)}));
      }
      for (const auto& recomputation : parts_.recomputation)
        words.push_back(recomputation && recomputation->any() && recomputation->again(op));
    }
    return words;
  }

  const OperatorGraph& graph_;
  std::vector<OperatorId> alike_;
  ModelParts& parts_;
  std::vector<ModelPart> all_;  // front, layers, behind
  std::vector<std::size_t> part_of_, place_;
};

}  // namespace

ModelParts::ModelParts(const RecipeModel& model, std::span<const Recompute> of_recipes)
    : recomputes{Recompute()} {
  for (const Recompute& recompute : of_recipes) {
    if (recompute.any()) recomputes.push_back(recompute);
  }
  if (recomputes.size() > kMostRecomputes) throw InternalError("too many recomputations to measure");
  for (std::size_t k = 0; k < recomputes.size(); ++k) {
    if (!illegal(model.graph(), recomputes[k], std::nullopt))
      recomputation[k].emplace(model.graph(), recomputes[k], std::nullopt);
  }
  PartFinder(model, *this).find();
}

std::size_t ModelParts::number_of(const Recompute& recompute) const {
  return static_cast<std::size_t>(std::ranges::find(recomputes, recompute) - recomputes.begin());
}

}  // namespace pipesim
