#include "search/intra/min_plus.h"

#include <algorithm>
#include <limits>

namespace pipesim {

// The inner loops go along rows, so that the compiler can use vectors. CMakeLists.txt asks it to.

void min_less(const double* table, const double* less, std::size_t rows, std::size_t columns, double* to) {
  std::fill_n(to, columns, std::numeric_limits<double>::infinity());
  for (std::size_t y = 0; y < rows; ++y) {
    const double* row = table + y * columns;
    const double change = less[y];
    for (std::size_t x = 0; x < columns; ++x) {
      const double cost = row[x] - change;
      to[x] = cost < to[x] ? cost : to[x];
    }
  }
}

void add_min_plus(const double* table, const double* more, std::size_t rows, std::size_t columns,
                  double* to) {
  constexpr std::size_t kBlock = 64;  // of columns, whose minima stay in the cache
  for (std::size_t begin = 0; begin < columns; begin += kBlock) {
    const std::size_t size = std::min(kBlock, columns - begin);
    double least[kBlock];
    std::fill_n(least, size, std::numeric_limits<double>::infinity());
    for (std::size_t y = 0; y < rows; ++y) {
      const double* row = table + y * columns + begin;
      const double change = more[y];
      for (std::size_t x = 0; x < size; ++x) {
        const double cost = row[x] + change;
        least[x] = cost < least[x] ? cost : least[x];
      }
    }
    for (std::size_t x = 0; x < size; ++x) to[begin + x] += least[x];
  }
}

}  // namespace pipesim
