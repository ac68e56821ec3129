#pragma once

#include <string>

namespace pipesim {

/// Shows how far long work is, for example in a line of a terminal.
class ShownProgress {
 public:
  ShownProgress() = default;
  virtual ~ShownProgress() = default;
  ShownProgress(const ShownProgress&) = delete;
  ShownProgress& operator=(const ShownProgress&) = delete;

  /// Whether it is time for another text.
  [[nodiscard]] virtual bool due() const = 0;
  virtual void show(const std::string& text) = 0;
  /// Takes the text away.
  virtual void clear() = 0;
};

}  // namespace pipesim
