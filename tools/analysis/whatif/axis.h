#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// What a study varies, and the values that it takes.
struct StudyAxis {
  std::string path;  ///< "inter_node.bandwidth", "nodes", "recipe.tp"; or several: "nodes|batch"
  std::vector<std::string> values;  ///< as one point has them: "25Gb/s", "4"; of several paths: "4|256"
  bool operator==(const StudyAxis&) const = default;

  struct Assignment {
    std::string path, value;
  };
  /// What a value says, path by path.
  [[nodiscard]] std::vector<Assignment> assignments(std::size_t number) const;
  [[nodiscard]] std::vector<std::string> paths() const;
};

/// Reads PATH=VALUES. VALUES is a list "10,25,50Gb/s", in which numbers without a unit have that of the last;
/// or a range "LOWEST..HIGHEST*FACTOR" or "LOWEST..HIGHEST+STEP", with a unit behind it or without. Values
/// that have commas themselves, as recipes, are separated by semicolons. Paths that change together have |
/// between them, as their values have: "nodes|batch=1|64;2|128". InputError says what was found and what is
/// allowed.
StudyAxis parse_axis(std::string_view text);

/// The number at the beginning of a value and what stands behind it ("25", "Gb/s"), a factor ("x2") having
/// none before; nothing where it does not begin with a number.
struct NumberWithUnit {
  double number = 0;
  std::string unit;
  bool factor = false;  ///< "x2"
};
bool read_number(std::string_view value, NumberWithUnit& out);
/// The value with another number in it.
std::string with_number(const NumberWithUnit& value, double number);

/// The value with at most four digits, as people read it: "11.63Gb/s". Others than numbers stay as they are.
std::string short_value(const std::string& value);

/// The number of points of a study, at most 10^15. 0 without axes or values.
std::size_t number_of_points(const std::vector<StudyAxis>& axes);
/// Which value of each axis point `number` has; the last axis changes fastest.
std::vector<std::size_t> place_of_point(const std::vector<StudyAxis>& axes, std::size_t number);

}  // namespace pipesim
