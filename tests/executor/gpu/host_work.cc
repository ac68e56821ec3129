// What devices compute, on the host: bodies as they are, products and convolutions by the CPU's library.

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>
#include <vector>

#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/images/convolution.h"
#include "tests/executor/gpu/host_machine.h"

namespace pipesim::gpu {
namespace {

// What the threads of a team share.
struct Meeting {
  explicit Meeting(int size) : barrier(size), numbers(static_cast<std::size_t>(size)) {}
  std::barrier<> barrier;
  std::vector<double> numbers;
};

class HostTeam {
 public:
  HostTeam(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(meeting_.numbers.size()); }
  double sum(double x) {
    return combined(x, [](double a, double b) { return a + b; });
  }
  float max(float x) {
    return static_cast<float>(
        combined(static_cast<double>(x), [](double a, double b) { return a > b ? a : b; }));
  }
  void barrier() { meeting_.barrier.arrive_and_wait(); }

 private:
  template <class Combine>
  double combined(double x, Combine combine) {
    meeting_.numbers[static_cast<std::size_t>(rank_)] = x;
    barrier();
    double all = meeting_.numbers[0];
    for (std::size_t i = 1; i < meeting_.numbers.size(); ++i) all = combine(all, meeting_.numbers[i]);
    barrier();  // nobody overwrites what others still read
    return all;
  }
  Meeting& meeting_;
  int rank_;
};

template <class Body>
void run_on_host(const void* memory, std::int64_t count, [[maybe_unused]] int team) {
  const Body& body = *static_cast<const Body*>(memory);
  if constexpr (!runs_in_teams<Body>) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  } else if (team == 1) {
    OneThread one;
    for (std::int64_t i = 0; i < count; ++i) body(one, i);
  } else {
    Meeting meeting(team);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < team; ++rank) {
      threads.emplace_back([&, rank] {
        HostTeam mine(meeting, rank);
        for (std::int64_t i = 0; i < count; ++i) body(mine, i);
      });
    }
  }
}

template <class... Body>
void run_numbered(BodyList<Body...> /*all*/, std::size_t number, const void* body, std::int64_t count,
                  int team) {
  constexpr std::array runners{&run_on_host<Body>...};
  runners.at(number)(body, count, team);
}

// A matrix of a product as it is meant, without gaps.
void fill_dense(std::vector<float>& dense, const MatrixProduct::Matrix& m, std::int64_t batch,
                std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = m.transposed ? j * m.row + i : i * m.row + j;
      dense[static_cast<std::size_t>(i * columns + j)] = m.elements[batch * m.batch + at];
    }
  }
}

std::vector<float> numbers_of(const Floats& floats, std::int64_t elements) {
  std::vector<float> numbers(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) numbers[static_cast<std::size_t>(i)] = floats[i];
  return numbers;
}

// Calls visit(x, w, y) with the numbers of elements that meet.
template <class Visit>
void for_each_meeting(const Convolution& c, Visit visit) {
  const std::int64_t channels_in = c.groups * c.in, channels_out = c.groups * c.out;
  for (std::int64_t n = 0; n < c.samples; ++n)
    for (std::int64_t o = 0; o < channels_out; ++o)
      for (std::int64_t i = 0; i < c.in; ++i)
        for (std::int64_t p = 0; p < c.result[0]; ++p)
          for (std::int64_t q = 0; q < c.result[1]; ++q)
            for (std::int64_t r = 0; r < c.kernel[0]; ++r)
              for (std::int64_t s = 0; s < c.kernel[1]; ++s) {
                const std::int64_t h = p * c.stride[0] + r * c.dilation[0] - c.pad_low[0];
                const std::int64_t w = q * c.stride[1] + s * c.dilation[1] - c.pad_low[1];
                if (h < 0 || w < 0 || h >= c.image[0] || w >= c.image[1]) continue;
                const std::int64_t channel = o / c.out * c.in + i;
                visit(((n * channels_in + channel) * c.image[0] + h) * c.image[1] + w,
                      ((o * c.in + i) * c.kernel[0] + r) * c.kernel[1] + s,
                      ((n * channels_out + o) * c.result[0] + p) * c.result[1] + q);
              }
}

// Also where the image is cut off at its border, which the library does not know.
void convolve_in_loops(const Convolution& c, std::vector<float>& x, std::vector<float>& w,
                       std::vector<float>& y) {
  using enum Convolution::Wanted;
  std::vector<float>& target = c.wanted == Result ? y : c.wanted == InputGradient ? x : w;
  std::vector<double> sums(target.size(), 0.0);
  for_each_meeting(c, [&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) {
    const auto i = static_cast<std::size_t>(at_x), j = static_cast<std::size_t>(at_w),
               k = static_cast<std::size_t>(at_y);
    const auto add = [&](std::size_t to, float a, float b) {
      sums[to] += static_cast<double>(a) * static_cast<double>(b);
    };
    if (c.wanted == Result) add(k, x[i], w[j]);
    if (c.wanted == InputGradient) add(i, y[k], w[j]);
    if (c.wanted == WeightGradient) add(j, x[i], y[k]);
  });
  for (std::size_t i = 0; i < sums.size(); ++i) target[i] = static_cast<float>(sums[i]);
}

}  // namespace

void run_body_on_host(std::size_t body_number, const void* body, std::int64_t count, int team) {
  run_numbered(AllBodies(), body_number, body, count, team);
}

void multiply_on_host(const MatrixProduct& m) {
  std::vector<float> a(static_cast<std::size_t>(m.rows * m.inner)),
      b(static_cast<std::size_t>(m.inner * m.columns)), d(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t batch = 0; batch < m.batch; ++batch) {
    fill_dense(a, m.a, batch, m.rows, m.inner);
    fill_dense(b, m.b, batch, m.inner, m.columns);
    cpu::multiply({m.rows, m.columns, m.inner}, a.data(), b.data(), d.data(), "a product");
    for (std::int64_t i = 0; i < m.rows * m.columns; ++i) {
      const std::int64_t column = i % m.columns, at = batch * m.d.batch + i / m.columns * m.d.row + column;
      float value = d[static_cast<std::size_t>(i)] * m.scale;
      if (m.accumulate) value += m.d.elements[at];
      if (m.epilogue != MatrixProduct::Epilogue::None) value += m.bias[column];
      if (m.epilogue == MatrixProduct::Epilogue::BiasGelu) {
        m.before.set(at, value);
        value = activation_value<Activation::Gelu>(value);
      }
      m.d.elements.set(at, value);
    }
  }
}

void convolve_on_host(const Convolution& c) {
  using enum Convolution::Wanted;
  constexpr const char* name = "a convolution";
  const auto area = [](const std::array<std::int64_t, 2>& sides) { return sides[0] * sides[1]; };
  std::vector<float> x = numbers_of(c.x, c.samples * c.groups * c.in * area(c.image));
  std::vector<float> w = numbers_of(c.w, c.groups * c.out * c.in * area(c.kernel));
  std::vector<float> y = numbers_of(c.y, c.samples * c.groups * c.out * area(c.result));
  if (std::min(std::ranges::min(c.pad_low), std::ranges::min(c.pad_high)) < 0) {
    convolve_in_loops(c, x, w, y);
  } else if (c.wanted == Result) {
    cpu::convolve(c, x.data(), w.data(), y.data(), name);
  } else if (c.wanted == InputGradient) {
    cpu::convolve_for_input(c, y.data(), w.data(), x.data(), name);
  } else {
    cpu::convolve_for_weight(c, x.data(), y.data(), w.data(), name);
  }
  const Floats& target = c.wanted == Result ? c.y : c.wanted == InputGradient ? c.x : c.w;
  const std::vector<float>& numbers = c.wanted == Result ? y : c.wanted == InputGradient ? x : w;
  for (std::size_t i = 0; i < numbers.size(); ++i) target.set(static_cast<std::int64_t>(i), numbers[i]);
}

}  // namespace pipesim::gpu
