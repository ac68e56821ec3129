#pragma once

#include <chrono>
#include <string>

namespace pipesim {

/// The file of a search's checkpoints. It is replaced as a whole: whenever the program is killed, the last
/// one loads.
class CheckpointFile {
 public:
  /// No checkpoints are written when `file` is "".
  CheckpointFile(std::string file, double seconds_between);

  [[nodiscard]] bool wanted() const { return !file_.empty(); }
  /// Whether it is time for a checkpoint: at once for the first, and always for the last.
  [[nodiscard]] bool due(bool last) const;
  void write(const std::string& text);

 private:
  std::string file_;
  std::chrono::duration<double> between_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim
