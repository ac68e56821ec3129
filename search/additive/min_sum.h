#pragma once

#include <cstddef>
#include <vector>

namespace pipesim {

/// A sum of functions of one and of two variables, each with a few values.
struct MinSumProblem {
  /// The costs of two variables together, a < b; several entries of one pair add up.
  struct Pair {
    std::size_t a = 0, b = 0;
    std::vector<double> cost;  ///< [value of a · values of b + value of b]
  };
  std::vector<std::vector<double>> own;  ///< [variable][value]; at least one value each
  std::vector<Pair> pairs;

  [[nodiscard]] double cost(const std::vector<std::size_t>& values) const;
};

struct MinSum {
  std::vector<std::size_t> values;  ///< by variable
  double cost = 0;
  bool proven = true;  ///< nothing is less; else only that changing a few variables does not help
};

/// Minimises by eliminating the variables one after the other, the one with the smallest table first. The
/// costs of the other variables, given its best value, become a table over its neighbours. With one or two
/// neighbours these are the node and edge eliminations of Jia, Lin, Qi, Aiken, ICML 2018, section 5.2; with
/// more, Bertelè and Brioschi 1972. The result is exact when no table needs more than `largest_table`
/// entries, times the number of values of the eliminated variable. Otherwise some variables keep their values
/// while the rest is solved exactly, and are improved one by one in between, until nothing changes. Among
/// equal values the first is used.
MinSum minimise(const MinSumProblem& problem, std::size_t largest_table);

}  // namespace pipesim
