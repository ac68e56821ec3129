// What devices compute, on the host: bodies as they are, products and convolutions in plain loops.

#include <array>
#include <barrier>
#include <thread>
#include <vector>

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

double element(const MatrixProduct::Matrix& m, std::int64_t batch, std::int64_t i, std::int64_t j) {
  const std::int64_t at = m.transposed ? j * m.row + i : i * m.row + j;
  return static_cast<double>(m.elements[batch * m.batch + at]);
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

}  // namespace

void run_body_on_host(std::size_t body_number, const void* body, std::int64_t count, int team) {
  run_numbered(AllBodies(), body_number, body, count, team);
}

void multiply_on_host(const MatrixProduct& m) {
  for (std::int64_t b = 0; b < m.batch; ++b) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
      for (std::int64_t j = 0; j < m.columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < m.inner; ++k) sum += element(m.a, b, i, k) * element(m.b, b, k, j);
        const std::int64_t at = b * m.d.batch + i * m.d.row + j;
        auto value = static_cast<float>(sum * static_cast<double>(m.scale));
        if (m.accumulate) value += m.d.elements[at];
        if (m.epilogue != MatrixProduct::Epilogue::None) value += m.bias[j];
        if (m.epilogue == MatrixProduct::Epilogue::BiasGelu) {
          m.before.set(at, value);
          value = activation_value<Activation::Gelu>(value);
        }
        m.d.elements.set(at, value);
      }
    }
  }
}

void convolve_on_host(const Convolution& c) {
  using enum Convolution::Wanted;
  const std::int64_t image = c.image[0] * c.image[1], result = c.result[0] * c.result[1];
  const Floats& target = c.wanted == Result ? c.y : c.wanted == InputGradient ? c.x : c.w;
  const std::int64_t elements = c.wanted == Result ? c.samples * c.groups * c.out * result
                                : c.wanted == InputGradient
                                    ? c.samples * c.groups * c.in * image
                                    : c.groups * c.out * c.in * c.kernel[0] * c.kernel[1];
  std::vector<double> sums(static_cast<std::size_t>(elements), 0.0);
  for_each_meeting(c, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    const auto product = [](float a, float b) { return static_cast<double>(a) * static_cast<double>(b); };
    if (c.wanted == Result) {
      sums[static_cast<std::size_t>(y)] += product(c.x[x], c.w[w]);
    } else if (c.wanted == InputGradient) {
      sums[static_cast<std::size_t>(x)] += product(c.y[y], c.w[w]);
    } else {
      sums[static_cast<std::size_t>(w)] += product(c.x[x], c.y[y]);
    }
  });
  for (std::int64_t i = 0; i < elements; ++i)
    target.set(i, static_cast<float>(sums[static_cast<std::size_t>(i)]));
}

}  // namespace pipesim::gpu
