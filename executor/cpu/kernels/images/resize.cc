#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// An element of the image and its weight in a result.
struct ResizeTap {
  std::int64_t at = 0;
  double weight = 1;
};

/// Keys's cubic with a = −0.75, at a distance from an element.
double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double t = std::abs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// One dim of a resize, as torch.nn.functional.interpolate places its results.
struct ResizeRule {
  explicit ResizeRule(const Operator& op, std::size_t dim)
      : extent(op.uses[0].dims[dim].extent),
        out(op.uses[1].dims[dim].extent),
        mode(word_of(op, "mode")),
        align_corners(integer_of(op, "align_corners") != 0) {}

  /// Elements of the whole image that result o is made of; at the border some may be the same.
  [[nodiscard]] std::vector<ResizeTap> taps(std::int64_t o) const {
    if (mode == "nearest") return {{o * extent / out, 1}};
    const bool linear = mode == "linear";
    const double place = linear ? std::max(0.0, place_of(o)) : place_of(o), before = std::floor(place);
    std::vector<ResizeTap> list;
    for (int tap = linear ? 0 : -1; tap <= (linear ? 1 : 2); ++tap) {
      const double element = before + tap, distance = place - element;
      list.push_back({std::clamp<std::int64_t>(static_cast<std::int64_t>(element), 0, extent - 1),
                      linear ? 1 - std::abs(distance) : cubic_weight(distance)});
    }
    return list;
  }

  [[nodiscard]] double place_of(std::int64_t o) const {
    if (align_corners)
      return out > 1 ? static_cast<double>(o * (extent - 1)) / static_cast<double>(out - 1) : 0;
    return static_cast<double>((2 * o + 1) * extent - out) / static_cast<double>(2 * out);
  }

  std::int64_t extent, out;
  const std::string& mode;
  bool align_corners;
};

/// The shard's image and results along one dim.
struct ResizeSide {
  std::int64_t image = 1;
  std::vector<std::vector<ResizeTap>> results{{ResizeTap{}}};
};

/// values: x[n, c, spatial…], y. [planes, rows, columns] with sides of one element where there are fewer.
class Resize : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Sides sides = sides_of(call);
    const float* x = call.values[0].floats;
    for_each_result(call, sides, SumOrder::Ascending, [&](std::int64_t result, std::int64_t image, auto at) {
      double sum = 0;
      for_each_resize_tap(sides, at, call.step.sums, [&](std::int64_t element, double weight) {
        sum += weight * static_cast<double>(x[image + element]);
      });
      call.values[1].floats[result] = static_cast<float>(sum);
    });
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    const Sides sides = sides_of(call);
    std::vector<double> sums(static_cast<std::size_t>(dx.elements()));
    for_each_result(call, sides, call.step.sums, [&](std::int64_t result, std::int64_t image, auto at) {
      const auto dy = static_cast<double>(call.gradients[1].floats[result]);
      for_each_resize_tap(sides, at, SumOrder::Ascending, [&](std::int64_t element, double weight) {
        sums[static_cast<std::size_t>(image + element)] += weight * dy;
      });
    });
    std::ranges::transform(sums, dx.floats, [](double v) { return static_cast<float>(v); });
  }

 private:
  using Sides = std::array<ResizeSide, 3>;
  using Place = std::array<std::int64_t, 3>;

  static Sides sides_of(const ShardCall& call) {
    Sides sides;
    const Box x = box_of(call, 0), y = box_of(call, 1);
    for (std::size_t dim = 2; dim < y.dims(); ++dim) {
      const ResizeRule rule(call.op, dim);
      ResizeSide& side = sides[dim + 3 - y.dims()];
      side = {x[dim].length(), {}};
      for (std::int64_t o = y[dim].begin; o < y[dim].end; ++o) {
        side.results.push_back(rule.taps(o));
        for (ResizeTap& tap : side.results.back()) tap.at -= x[dim].begin;
      }
    }
    return sides;
  }

  /// Calls visit(result, where its channel of the image begins, its place).
  template <class Visit>
  static void for_each_result(const ShardCall& call, const Sides& sides, SumOrder order, Visit visit) {
    const std::int64_t channels = volume(box_of(call, 1), 0, 2);
    const std::int64_t image = sides[0].image * sides[1].image * sides[2].image;
    const std::int64_t planes = std::ssize(sides[0].results), rows = std::ssize(sides[1].results),
                       columns = std::ssize(sides[2].results);
    for (std::int64_t c = 0; c < channels; ++c) {
      for_each_term(planes * rows * columns, order, [&](std::int64_t i) {
        visit(c * planes * rows * columns + i, c * image,
              Place{i / columns / rows, i / columns % rows, i % columns});
      });
    }
  }

  /// Calls visit(element of the channel, weight).
  template <class Visit>
  static void for_each_resize_tap(const Sides& sides, const Place& place, SumOrder order, Visit visit) {
    const auto taps = [&](std::size_t side) -> const std::vector<ResizeTap>& {
      return sides[side].results[static_cast<std::size_t>(place[side])];
    };
    const auto each = [order](const std::vector<ResizeTap>& list, auto action) {
      for_each_term(std::ssize(list), order,
                    [&](std::int64_t i) { action(list[static_cast<std::size_t>(i)]); });
    };
    each(taps(0), [&](const ResizeTap& d) {
      each(taps(1), [&](const ResizeTap& h) {
        each(taps(2), [&](const ResizeTap& w) {
          visit((d.at * sides[1].image + h.at) * sides[2].image + w.at, d.weight * h.weight * w.weight);
        });
      });
    });
  }
};

}  // namespace

std::vector<KernelEntry> resize_kernels() {
  static const Resize resize;
  return {{"resize", &resize}};
}

}  // namespace pipesim::cpu
