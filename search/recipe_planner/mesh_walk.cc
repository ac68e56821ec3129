#include "search/recipe_planner/mesh_walk.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <utility>

namespace pipesim {
namespace {

std::vector<std::int64_t> prime_factors(std::int64_t number) {
  std::vector<std::int64_t> primes;
  for (std::int64_t p = 2; p * p <= number; ++p) {
    if (number % p == 0) primes.push_back(p);
    while (number % p == 0) number /= p;
  }
  if (number > 1) primes.push_back(number);
  return primes;
}

}  // namespace

MeshWalk::Parts MeshWalk::parts_of(const Recipe& mesh) {
  return {mesh.tensor,     mesh.context,
          mesh.data,       mesh.pipeline,
          mesh.expert,     mesh.expert_tensor_degree(),
          mesh.microbatch, mesh.sequence_parallel ? 1 : 0};
}

MeshWalk::MeshWalk(const RecipeSpace& space) : space_(space) {
  for (std::uint32_t m = 0; m < space.meshes().size(); ++m) {
    numbers_.emplace(parts_of(space.meshes()[m]), m);
    microbatches_.insert(space.meshes()[m].microbatch);
  }
}

std::vector<std::uint32_t> MeshWalk::usual(std::int64_t samples) const {
  std::int64_t most_tensor = 1;  // as many devices as a node has, as a rule
  for (const Recipe& mesh : space_.meshes()) most_tensor = std::max(most_tensor, mesh.tensor);
  enum Experts : std::uint8_t { Inside, Far, Whole };
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, std::int64_t, std::int64_t>;
  std::map<std::tuple<std::int64_t, std::int64_t, Experts>, std::pair<Rank, std::uint32_t>> best;
  for (std::uint32_t m = 0; m < space_.meshes().size(); ++m) {
    const Recipe& mesh = space_.meshes()[m];
    if (samples > 1 && mesh.pipeline > 1) continue;
    for (const Experts experts : {Inside, Far, Whole}) {
      const std::int64_t beyond =
          experts == Inside ? std::max<std::int64_t>(0, mesh.expert - most_tensor) : 0;
      const Rank rank{mesh.context,
                      std::abs(mesh.microbatch - samples),
                      beyond,
                      !mesh.sequence_parallel,
                      experts == Whole ? mesh.expert : -mesh.expert,
                      mesh.expert_tensor_degree()};
      const auto [at, is_new] = best.try_emplace({mesh.pipeline, -mesh.tensor, experts}, std::pair(rank, m));
      if (!is_new) at->second = std::min(at->second, std::pair(rank, m));
    }
  }
  std::vector<std::uint32_t> found;
  for (const auto& [key, choice] : best) {
    if (std::ranges::find(found, choice.second) == found.end()) found.push_back(choice.second);
  }
  return found;
}

// Collects meshes that are in the space, each once.
class MeshWalk::Neighbours {
 public:
  Neighbours(const std::map<Parts, std::uint32_t>& numbers, std::uint32_t self)
      : numbers_(numbers), self_(self) {}

  void add(const Parts& parts) {
    const auto at = numbers_.find(parts);
    if (at == numbers_.end() || at->second == self_ || std::ranges::find(found_, at->second) != found_.end())
      return;
    found_.push_back(at->second);
  }
  // Also where experts follow what else has changed.
  void add_with_experts(const Parts& parts, std::int64_t factor) {
    for (const std::int64_t features : {parts[ExpertTensor], parts[Tensor]}) {
      Parts made = parts;
      made[ExpertTensor] = features;
      add(made);
      made[Expert] = parts[Expert] * factor;
      add(made);
      if (parts[Expert] % factor != 0) continue;
      made[Expert] = parts[Expert] / factor;
      add(made);
    }
  }
  // Those that divide the sequence more come last: they hold as much as those with more copies instead, and
  // are little else but slower, unless samples are long.
  [[nodiscard]] std::vector<std::uint32_t> found(const RecipeSpace& space) && {
    const std::int64_t context = space.meshes()[self_].context;
    std::stable_partition(found_.begin(), found_.end(),
                          [&](std::uint32_t mesh) { return space.meshes()[mesh].context <= context; });
    return std::move(found_);
  }

 private:
  const std::map<Parts, std::uint32_t>& numbers_;
  std::uint32_t self_;
  std::vector<std::uint32_t> found_;
};

std::vector<std::uint32_t> MeshWalk::near(std::uint32_t mesh) const {
  const Parts parts = parts_of(space_.meshes()[mesh]);
  Neighbours near(numbers_, mesh);
  const auto with = [](Parts made, Part part, std::int64_t value) {
    made[part] = value;
    return made;
  };
  const auto at = microbatches_.find(parts[Microbatch]);
  if (std::next(at) != microbatches_.end()) near.add(with(parts, Microbatch, *std::next(at)));
  if (at != microbatches_.begin()) near.add(with(parts, Microbatch, *std::prev(at)));
  near.add(with(parts, Sequence, 1 - parts[Sequence]));
  constexpr std::array kDegrees{Tensor, Context, Data, Pipeline};
  for (const Part from : kDegrees) {
    for (const std::int64_t factor : prime_factors(parts[from])) {
      for (const Part to : kDegrees) {
        if (to == from) continue;
        Parts moved = with(with(parts, from, parts[from] / factor), to, parts[to] * factor);
        if (from == Tensor && moved[Tensor] == 1) moved[Sequence] = 0;
        near.add_with_experts(moved, factor);
        if (to == Tensor && parts[Tensor] == 1) near.add_with_experts(with(moved, Sequence, 1), factor);
        // The number of samples in a microbatch of all copies stays the same.
        if (from == Data) near.add(with(moved, Microbatch, parts[Microbatch] * factor));
        if (to == Data && parts[Microbatch] % factor == 0)
          near.add(with(moved, Microbatch, parts[Microbatch] / factor));
      }
    }
  }
  const std::int64_t stage = parts[Tensor] * parts[Context] * parts[Data];
  for (const std::int64_t factor : prime_factors(stage)) {
    for (const Part part : {Expert, ExpertTensor}) {
      near.add(with(parts, part, parts[part] * factor));
      if (parts[part] % factor == 0) near.add(with(parts, part, parts[part] / factor));
    }
  }
  return std::move(near).found(space_);
}

}  // namespace pipesim
