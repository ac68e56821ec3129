#include <algorithm>
#include <array>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/shape.h"

namespace pipesim::cpu {
namespace {

constexpr std::int64_t no_source = -1;

/// For every index of a shard's result along one dim: the index in its piece of x, or no_source.
using IndexTable = std::vector<std::int64_t>;

/// Which elements of x, use 0, a shard's piece of the result, use 1, is made of. Dims of the result that x
/// does not have come first.
class Sources {
 public:
  /// table_of(dim of the result, range of the result, dim of x in the operator, range of x).
  template <class TableOf>
  Sources(const ShardCall& call, TableOf table_of) : x_(box_of(call, 0)), y_(box_of(call, 1)) {
    const Strides strides = row_major_strides(x_);
    const std::size_t missing = y_.dims() - x_.dims();
    for (std::size_t d = 0; d < y_.dims(); ++d) {
      IndexTable& offsets = offsets_.emplace_back();
      if (d < missing) {
        offsets.assign(static_cast<std::size_t>(y_[d].length()), 0);
        continue;
      }
      const std::size_t in_x = d - missing;
      offsets = table_of(d, y_[d], call.op.uses[0].dims[in_x], x_[in_x]);
      for (std::int64_t& at : offsets) at = at == no_source ? no_source : at * strides[in_x];
    }
  }

  /// visit(element of the result, element of x or no_source), rows of the last dim in this order.
  template <class Visit>
  void for_each(SumOrder order, Visit visit) const {
    const IndexTable one{0};
    const IndexTable& last = offsets_.empty() ? one : offsets_.back();
    const auto columns = static_cast<std::int64_t>(last.size());
    const std::int64_t rows = columns == 0 ? 0 : y_.elements() / columns;
    for_each_term(rows, order, [&](std::int64_t row) {
      std::int64_t start = 0, rest = row;
      for (std::size_t d = offsets_.size(); d-- > 1;) {
        const auto length = static_cast<std::int64_t>(offsets_[d - 1].size());
        const std::int64_t at = offsets_[d - 1][static_cast<std::size_t>(rest % length)];
        start = start == no_source || at == no_source ? no_source : start + at;
        rest /= length;
      }
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t at = last[static_cast<std::size_t>(j)];
        visit(row * columns + j, start == no_source || at == no_source ? no_source : start + at);
      }
    });
  }

 private:
  Box x_, y_;
  std::vector<IndexTable> offsets_;
};

IndexTable table_over(Range y, Range x, auto source) {
  IndexTable table;
  for (std::int64_t i = y.begin; i < y.end; ++i) {
    const std::int64_t at = source(i);
    table.push_back(at >= x.begin && at < x.end ? at - x.begin : no_source);
  }
  return table;
}

/// The result's elements are elements of x, or zeros. values: x, y.
class Moved : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &y = call.values[1];
    if (y.integers != nullptr) return copy(call, static_cast<const std::int64_t*>(x.integers), y.integers);
    copy(call, static_cast<const float*>(x.floats), y.floats);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;  // the shard has zeros only
    std::vector<double> sums(static_cast<std::size_t>(dx.elements()), 0.0);
    sources(call).for_each(call.step.sums, [&](std::int64_t i, std::int64_t at) {
      if (at != no_source)
        sums[static_cast<std::size_t>(at)] += static_cast<double>(call.gradients[1].floats[i]);
    });
    std::ranges::transform(sums, dx.floats, [](double sum) { return static_cast<float>(sum); });
  }

 protected:
  [[nodiscard]] virtual Sources sources(const ShardCall& call) const = 0;

 private:
  template <class Element>
  void copy(const ShardCall& call, const Element* from, Element* to) const {
    sources(call).for_each(SumOrder::Ascending, [&](std::int64_t i, std::int64_t at) {
      to[i] = at == no_source ? Element{} : from[at];
    });
  }
};

class Slice : public Moved {
 protected:
  [[nodiscard]] Sources sources(const ShardCall& call) const override {
    return {call, [](std::size_t, Range y, const IndexExpr& dim, Range x) {
              return table_over(y, x, [&](std::int64_t i) { return i * dim.stride - dim.pad; });
            }};
  }
};

class Pad : public Moved {
 protected:
  [[nodiscard]] Sources sources(const ShardCall& call) const override {
    const std::string& mode = word_of(call.op, "mode");
    const auto& before = list_of(call.op, "before");
    return {call, [&](std::size_t d, Range y, const IndexExpr& dim, Range x) {
              const std::int64_t last = dim.extent - 1;
              return table_over(y, x, [&](std::int64_t i) {
                const std::int64_t at = i - before[d];
                if (mode == "edge") return std::clamp<std::int64_t>(at, 0, last);
                if (mode == "reflect") return at < 0 ? -at : at > last ? 2 * last - at : at;
                return at;
              });
            }};
  }
};

class Roll : public Moved {
 protected:
  [[nodiscard]] Sources sources(const ShardCall& call) const override {
    const auto axis = static_cast<std::size_t>(integer_of(call.op, "axis"));
    const std::int64_t shift = integer_of(call.op, "shift");
    return {call, [&](std::size_t d, Range y, const IndexExpr& dim, Range x) {
              const std::int64_t n = dim.extent, by = d == axis ? shift % n : 0;
              return table_over(y, x, [&](std::int64_t i) { return (i - by + n) % n; });
            }};
  }
};

class Expand : public Moved {
 protected:
  [[nodiscard]] Sources sources(const ShardCall& call) const override {
    return {call, [](std::size_t, Range y, const IndexExpr& dim, Range x) {
              const bool stretched = dim.kind == IndexExpr::Kind::Whole;
              return table_over(y, x, [&](std::int64_t i) { return stretched ? 0 : i; });
            }};
  }
};

/// x [outer, rows, inner] beside the result [outer, chosen, inner].
struct GatherSizes {
  explicit GatherSizes(const ShardCall& call) {
    const auto axis = static_cast<std::size_t>(integer_of(call.op, "axis"));
    const Box x = box_of(call, 0), indices = box_of(call, 1);
    outer = volume(x, 0, axis), inner = volume(x, axis + 1, x.dims());
    owned = x[axis];
    chosen = indices.elements();
  }
  /// visit(element of x, element of the result) of each row that the shard has, the first of its elements.
  template <class Visit>
  void for_each(const Piece& indices, SumOrder order, Visit visit) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for_each_term(chosen, order, [&](std::int64_t i) {
        const std::int64_t row = indices.integers[i] - owned.begin;
        if (row < 0 || row >= owned.length()) return;
        visit((o * owned.length() + row) * inner, (o * chosen + i) * inner);
      });
    }
  }
  std::int64_t outer = 1, inner = 1, chosen = 0;
  Range owned;
};

/// values: x, indices, y. Elements that the shard does not own are 0 in its addend.
class Gather : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& y = call.values[2];
    const GatherSizes sizes(call);
    std::fill_n(y.floats, y.elements(), 0.0F);
    sizes.for_each(call.values[1], SumOrder::Ascending, [&](std::int64_t from, std::int64_t to) {
      std::copy_n(call.values[0].floats + from, sizes.inner, y.floats + to);
    });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &dx = call.gradients[0], &dy = call.gradients[2];
    const GatherSizes sizes(call);
    std::fill_n(dx.floats, dx.elements(), 0.0F);
    sizes.for_each(call.values[1], call.step.sums, [&](std::int64_t to, std::int64_t from) {
      for (std::int64_t j = 0; j < sizes.inner; ++j) dx.floats[to + j] += dy.floats[from + j];
    });
  }
};

}  // namespace

std::vector<KernelEntry> indexing_kernels() {
  static const Slice slice;
  static const Pad pad;
  static const Roll roll;
  static const Expand expand;
  static const Gather gather;
  return {{"slice", &slice}, {"pad", &pad}, {"roll", &roll}, {"expand", &expand}, {"gather", &gather}};
}

}  // namespace pipesim::cpu
