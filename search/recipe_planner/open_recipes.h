#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// A recipe by the numbers of its choices in a RecipeSpace, and the bound of its time.
struct OpenRecipe {
  Nanoseconds bound = 0;
  std::uint32_t mesh = 0, pipeline = 0;
  std::uint8_t recompute = 0, sharding = 0;
  /// What its bound is made of, the cheapest first: parts of the model; steps of the schedule; steps and the
  /// transfers that hold links; the timeline of few microbatches.
  enum class Known : std::uint8_t { OfParts, OfSteps, OfTraffic, OfFew };
  Known known = Known::OfParts;
  float memory = 0;  ///< its bound, or what few microbatches need, as a share of what plans may use
  [[nodiscard]] auto order() const { return std::tuple(bound, mesh, pipeline, recompute, sharding); }
  bool operator==(const OpenRecipe&) const = default;
};

/// All recipes of a mesh, and a bound of their times: of busy devices, or of all that is measured.
struct OpenMesh {
  Nanoseconds bound = 0;
  std::uint32_t number = 0;
  bool measured = false;
  [[nodiscard]] auto order() const { return std::pair(bound, number); }
};

/// Recipes or meshes that may still be best, the least bound first, and of equal bounds the lower numbers.
template <class Open>
class OpenBounds {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] const Open& front() const { return heap_.front(); }
  void add(const Open& open) {
    heap_.push_back(open);
    std::push_heap(heap_.begin(), heap_.end(), behind);
  }
  Open take_first() {
    std::pop_heap(heap_.begin(), heap_.end(), behind);
    const Open first = heap_.back();
    heap_.pop_back();
    return first;
  }
  /// Takes the first of those that are wanted; nothing where none is. It looks at all.
  template <class Wanted>
  std::optional<Open> take_first(Wanted wanted) {
    auto first = heap_.end();
    for (auto at = heap_.begin(); at != heap_.end(); ++at) {
      if (wanted(*at) && (first == heap_.end() || at->order() < first->order())) first = at;
    }
    if (first == heap_.end()) return std::nullopt;
    const Open taken = *first;
    heap_.erase(first);
    std::make_heap(heap_.begin(), heap_.end(), behind);
    return taken;
  }
  /// Iterate over all, in no order.
  [[nodiscard]] auto begin() const { return heap_.begin(); }
  [[nodiscard]] auto end() const { return heap_.end(); }

 private:
  static bool behind(const Open& a, const Open& b) { return a.order() > b.order(); }
  std::vector<Open> heap_;
};

}  // namespace pipesim
