#include <algorithm>
#include <limits>

#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

/// The part of one dim of a window that lies on the image, in taps: [first, last), and where tap 0 lies in
/// the shard's box.
struct Taps {
  std::int64_t first = 0, last = 0, origin = 0;
};

Taps taps_of(const IndexExpr& window, Range image, std::int64_t output) {
  const std::int64_t origin = output * window.stride - window.pad;  // in the whole image
  Taps taps;
  taps.first = std::clamp<std::int64_t>(image.begin - origin, 0, window.kernel);
  taps.last = std::clamp<std::int64_t>(image.end - origin, taps.first, window.kernel);
  taps.origin = origin - image.begin;
  return taps;
}

/// values: x[n, c, h, w], y. The image ends where the tensor does: a shard's x holds all that its windows
/// touch.
class Pool2d : public Kernel {
 public:
  /// Which tap of each window was the largest: one byte, or four for very large windows.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    if (!is_max(op)) return 0;
    const auto outputs = static_cast<std::size_t>(pipesim::box_of(op.uses[1], op, ranges).elements());
    return outputs * (fits_a_byte(op) ? sizeof(std::uint8_t) : sizeof(std::uint32_t));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!is_max(call.op)) return average(call);
    if (fits_a_byte(call.op)) return largest<std::uint8_t>(call);
    largest<std::uint32_t>(call);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::fill_n(dx.floats, dx.elements(), 0.0F);
    if (!is_max(call.op)) return spread(call);
    if (fits_a_byte(call.op)) return send_to_largest<std::uint8_t>(call);
    send_to_largest<std::uint32_t>(call);
  }

 private:
  static bool is_max(const Operator& op) { return word_of(op, "mode") == "max"; }
  static bool fits_a_byte(const Operator& op) { return kernel_area(op) <= 256; }
  static std::int64_t kernel_area(const Operator& op) {
    return op.uses[0].dims[2].kernel * op.uses[0].dims[3].kernel;
  }

  /// Calls visit(output index, plane's first input element, rows, columns) for every window.
  template <class Visit>
  static void for_each_window(const ShardCall& call, SumOrder order, Visit visit) {
    const Box x = box_of(call, 0), y = box_of(call, 1);
    const auto& dims = call.op.uses[0].dims;
    const std::int64_t plane = volume(x, 2, 4), outputs = volume(y, 2, 4), width = y[3].length();
    for (std::int64_t p = 0; p < volume(y, 0, 2); ++p) {
      for_each_term(outputs, order, [&](std::int64_t i) {
        const Taps rows = taps_of(dims[2], x[2], y[2].begin + i / width);
        const Taps columns = taps_of(dims[3], x[3], y[3].begin + i % width);
        visit(p * outputs + i, p * plane, rows, columns);
      });
    }
  }

  static void average(const ShardCall& call) {
    const Piece &x = call.values[0], &y = call.values[1];
    const std::int64_t width = x.present() ? x.box[3].length() : 0;
    const double taps = static_cast<double>(kernel_area(call.op));
    const SumOrder order = call.step.sums;
    for_each_window(
        call, SumOrder::Ascending, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
          double sum = 0;
          for_each_term(rows.last - rows.first, order, [&](std::int64_t r) {
            const float* row = x.floats + plane + (rows.origin + rows.first + r) * width + columns.origin;
            for_each_term(columns.last - columns.first, order,
                          [&](std::int64_t c) { sum += static_cast<double>(row[columns.first + c]); });
          });
          y.floats[out] = static_cast<float>(sum / taps);
        });
  }

  template <class Tap>
  static void largest(const ShardCall& call) {
    const Piece &x = call.values[0], &y = call.values[1];
    const std::int64_t width = x.present() ? x.box[3].length() : 0, kernel = call.op.uses[0].dims[3].kernel;
    Tap* saved = reinterpret_cast<Tap*>(call.saved.data());
    for_each_window(call, SumOrder::Ascending,
                    [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
                      std::int64_t best = -1;  // the first of equals in the window's order, as a tap
                      float most = -std::numeric_limits<float>::infinity();
                      for (std::int64_t r = rows.first; r < rows.last; ++r) {
                        const float* row = x.floats + plane + (rows.origin + r) * width + columns.origin;
                        for (std::int64_t c = columns.first; c < columns.last; ++c) {
                          if (best < 0 || row[c] > most) best = r * kernel + c, most = row[c];
                        }
                      }
                      y.floats[out] = most;
                      saved[out] = static_cast<Tap>(std::max<std::int64_t>(best, 0));
                    });
  }

  static void spread(const ShardCall& call) {
    const Piece &dx = call.gradients[0], &dy = call.gradients[1];
    const std::int64_t width = dx.box[3].length();
    const float share = 1 / static_cast<float>(kernel_area(call.op));
    const SumOrder order = call.step.sums;
    for_each_window(call, order, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
      const float d = dy.floats[out] * share;
      for (std::int64_t r = rows.first; r < rows.last; ++r) {
        float* row = dx.floats + plane + (rows.origin + r) * width + columns.origin;
        for (std::int64_t c = columns.first; c < columns.last; ++c) row[c] += d;
      }
    });
  }

  template <class Tap>
  static void send_to_largest(const ShardCall& call) {
    const Piece &dx = call.gradients[0], &dy = call.gradients[1];
    const std::int64_t width = dx.box[3].length(), kernel = call.op.uses[0].dims[3].kernel;
    const Tap* saved = reinterpret_cast<const Tap*>(call.saved.data());
    const SumOrder order = call.step.sums;
    for_each_window(call, order, [&](std::int64_t out, std::int64_t plane, Taps rows, Taps columns) {
      if (rows.first == rows.last || columns.first == columns.last) return;  // a window of padding alone
      const std::int64_t r = saved[out] / kernel, c = saved[out] % kernel;
      dx.floats[plane + (rows.origin + r) * width + columns.origin + c] += dy.floats[out];
    });
  }
};

}  // namespace

std::vector<KernelEntry> pool2d_kernels() {
  static const Pool2d pool2d;
  return {{"pool2d", &pool2d}};
}

}  // namespace pipesim::cpu
