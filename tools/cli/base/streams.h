#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/base/search_progress.h"

namespace pipesim {

/// A program that runs a command in place of a shell, such as the Python module. It takes results as values.
class Caller {
 public:
  virtual ~Caller() = default;
  /// The document that --json prints.
  virtual void take_document(const nlohmann::ordered_json& document) = 0;
  /// A plan that was made, as a plan file holds it.
  virtual void take_plan(std::string plan_file) = 0;
  /// Every tenth of a second, from any thread.
  virtual void take_progress(const Progress& progress) = 0;
  /// Whether long work should end with what it has so far. Asked by any thread.
  [[nodiscard]] virtual bool stop_requested() const = 0;
};

/// Where a command reads and writes: results to `out`, progress and warnings to `err`.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Caller* caller = nullptr;  ///< of a program that is no shell
};

/// The result of a command that was called with --json: for the caller if there is one, else printed.
void give_document(Streams& streams, const nlohmann::ordered_json& document);

}  // namespace pipesim
