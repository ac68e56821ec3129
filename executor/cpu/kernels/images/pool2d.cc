#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/pooling.h"
#include "models/operators/adaptive_window.h"

namespace pipesim::cpu {
namespace {

/// The windows of a shard along one dim.
struct PoolSide {
  std::int64_t image = 1, kernel = 1;  ///< lengths; no window has more taps
  std::vector<Taps> windows{{0, 1, 0}};

  static PoolSide regular(const PoolingWindow& window) {
    PoolSide side{window.image, window.kernel, {}};
    for (std::int64_t o = 0; o < window.result; ++o) side.windows.push_back(window.taps(o));
    return side;
  }
  /// All taps of such a window are on the image.
  static PoolSide adaptive(const AdaptiveWindows& windows, Range x, Range y) {
    PoolSide side{x.length(), windows.longest(), {}};
    for (std::int64_t o = y.begin; o < y.end; ++o) {
      const Range window = windows.window(o);
      side.windows.push_back({0, window.length(), window.begin - x.begin});
    }
    return side;
  }
  [[nodiscard]] std::int64_t results() const { return std::ssize(windows); }
};

/// pool1d to pool3d and adaptive_pool, [planes, rows, columns] with sides of one element where there are
/// fewer.
struct PoolSides {
  explicit PoolSides(const ShardCall& call) : exclude_pad(excludes_pad(call.op)) {
    const Box x = box_of(call, 0), y = box_of(call, 1);
    channels = volume(y, 0, 2);
    const bool adaptive = call.op.kind == "adaptive_pool";
    exclude_pad |= adaptive;
    for (std::size_t dim = 2; dim < y.dims(); ++dim) {
      sides[dim + 3 - y.dims()] =
          adaptive ? PoolSide::adaptive({call.op.uses[0].dims[dim].extent, call.op.uses[1].dims[dim].extent},
                                        x[dim], y[dim])
                   : PoolSide::regular(pooling_window(call.op, call.ranges, dim));
    }
  }

  std::int64_t channels = 0;  ///< of all samples
  std::array<PoolSide, 3> sides;
  bool exclude_pad;

  [[nodiscard]] std::int64_t results() const {
    return sides[0].results() * sides[1].results() * sides[2].results();
  }
  [[nodiscard]] std::int64_t image() const { return sides[0].image * sides[1].image * sides[2].image; }
};

struct PoolWindow {
  std::array<const Taps*, 3> taps{};
  std::int64_t image = 0;  ///< where its channel begins

  [[nodiscard]] std::int64_t count() const {
    std::int64_t n = 1;
    for (const Taps* t : taps) n *= t->last - t->first;
    return n;
  }
  [[nodiscard]] std::int64_t divisor(const PoolSides& p) const {
    return p.exclude_pad ? std::max<std::int64_t>(1, count())
                         : p.sides[0].kernel * p.sides[1].kernel * p.sides[2].kernel;
  }
  /// The element of the image at these taps.
  [[nodiscard]] std::int64_t at(const PoolSides& p, std::int64_t d, std::int64_t h, std::int64_t w) const {
    return image + ((taps[0]->origin + d) * p.sides[1].image + taps[1]->origin + h) * p.sides[2].image +
           taps[2]->origin + w;
  }
};

/// values: x[n, c, spatial…], y.
class Pool : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return static_cast<std::size_t>(pipesim::box_of(op.uses[1], op, ranges).elements() * bytes_of_tap(op));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!takes_largest(call.op)) return average(call);
    if (bytes_of_tap(call.op) == 1) return largest<std::uint8_t>(call);
    largest<std::uint32_t>(call);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::fill_n(dx.floats, dx.elements(), 0.0F);
    if (!takes_largest(call.op)) return spread(call);
    if (bytes_of_tap(call.op) == 1) return send_to_largest<std::uint8_t>(call);
    send_to_largest<std::uint32_t>(call);
  }

 private:
  /// Calls visit(number of the result, window).
  template <class Visit>
  static void for_each_window(const PoolSides& p, SumOrder order, Visit visit) {
    const auto &planes = p.sides[0].windows, &rows = p.sides[1].windows, &columns = p.sides[2].windows;
    const std::size_t height = rows.size(), width = columns.size();
    PoolWindow window;
    std::int64_t first = 0;  // result of the channel
    const auto look_at = [&](std::size_t d, std::size_t h, std::size_t w) {
      window.taps = {&planes[d], &rows[h], &columns[w]};
      visit(first + static_cast<std::int64_t>((d * height + h) * width + w), window);
    };
    for (std::int64_t c = 0; c < p.channels; ++c, first += p.results(), window.image += p.image()) {
      if (order == SumOrder::Ascending) {  // no need to divide
        for (std::size_t d = 0; d < planes.size(); ++d) {
          for (std::size_t h = 0; h < height; ++h) {
            for (std::size_t w = 0; w < width; ++w) look_at(d, h, w);
          }
        }
        continue;
      }
      for_each_term(p.results(), order, [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        look_at(at / width / height, at / width % height, at % width);
      });
    }
  }

  /// Calls visit(number of the first tap in the row, first element, elements) for each row on the image.
  template <class Visit>
  static void for_each_row(const PoolSides& p, const PoolWindow& window, SumOrder order, Visit visit) {
    const Taps &planes = *window.taps[0], &rows = *window.taps[1], &columns = *window.taps[2];
    for_each_term(planes.last - planes.first, order, [&](std::int64_t i) {
      for_each_term(rows.last - rows.first, order, [&](std::int64_t j) {
        const std::int64_t d = planes.first + i, h = rows.first + j;
        visit((d * p.sides[1].kernel + h) * p.sides[2].kernel + columns.first,
              window.at(p, d, h, columns.first), columns.last - columns.first);
      });
    });
  }

  static void average(const ShardCall& call) {
    const float* x = call.values[0].floats;
    const PoolSides p(call);
    const SumOrder order = call.step.sums;
    for_each_window(p, SumOrder::Ascending, [&](std::int64_t result, const PoolWindow& window) {
      double sum = 0;
      for_each_row(p, window, order, [&](std::int64_t, std::int64_t first, std::int64_t n) {
        for_each_term(n, order, [&](std::int64_t i) { sum += static_cast<double>(x[first + i]); });
      });
      call.values[1].floats[result] = static_cast<float>(sum / static_cast<double>(window.divisor(p)));
    });
  }

  template <class Tap>
  static void largest(const ShardCall& call) {
    const float* x = call.values[0].floats;
    const PoolSides p(call);
    Tap* saved = reinterpret_cast<Tap*>(call.saved.data());
    for_each_window(p, SumOrder::Ascending, [&](std::int64_t result, const PoolWindow& window) {
      std::int64_t best = -1;  // the first of equals in the window's order, as a tap
      float most = -std::numeric_limits<float>::infinity();
      for_each_row(p, window, SumOrder::Ascending, [&](std::int64_t tap, std::int64_t first, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          if (best < 0 || x[first + i] > most) best = tap + i, most = x[first + i];
        }
      });
      call.values[1].floats[result] = most;
      saved[result] = static_cast<Tap>(std::max<std::int64_t>(best, 0));
    });
  }

  static void spread(const ShardCall& call) {
    float* dx = call.gradients[0].floats;
    const PoolSides p(call);
    for_each_window(p, call.step.sums, [&](std::int64_t result, const PoolWindow& window) {
      const float d = call.gradients[1].floats[result] * (1 / static_cast<float>(window.divisor(p)));
      for_each_row(p, window, SumOrder::Ascending, [&](std::int64_t, std::int64_t first, std::int64_t n) {
        for (std::int64_t i = first; i < first + n; ++i) dx[i] += d;
      });
    });
  }

  template <class Tap>
  static void send_to_largest(const ShardCall& call) {
    float* dx = call.gradients[0].floats;
    const PoolSides p(call);
    const Tap* saved = reinterpret_cast<const Tap*>(call.saved.data());
    const auto rows = static_cast<std::uint32_t>(p.sides[1].kernel),
               columns = static_cast<std::uint32_t>(p.sides[2].kernel);
    for_each_window(p, call.step.sums, [&](std::int64_t result, const PoolWindow& window) {
      if (window.count() <= 0) return;  // a window of padding alone
      const std::uint32_t tap = saved[result], row = tap / columns;
      dx[window.at(p, row / rows, row % rows, tap % columns)] += call.gradients[1].floats[result];
    });
  }
};

}  // namespace

std::vector<KernelEntry> pool2d_kernels() {
  static const Pool pool;
  return {{"adaptive_pool", &pool}, {"pool1d", &pool}, {"pool2d", &pool}, {"pool3d", &pool}};
}

}  // namespace pipesim::cpu
