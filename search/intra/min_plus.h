#pragma once

#include <cstddef>

namespace pipesim {

/// to[x] = min over y of table[y · columns + x] − less[y]. Nearly all the time of message passing.
void min_less(const double* table, const double* less, std::size_t rows, std::size_t columns, double* to);

/// to[x] += min over y of table[y · columns + x] + more[y].
void add_min_plus(const double* table, const double* more, std::size_t rows, std::size_t columns, double* to);

}  // namespace pipesim
