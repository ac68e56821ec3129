#pragma once

#include <chrono>
#include <string>

namespace pipesim {

/// The file of a search's checkpoints. It is replaced as a whole: whenever the program is killed, the last
/// one loads.
class CheckpointFile {
 public:
  /// Without a name there are none.
  CheckpointFile(std::string file, double seconds_between);

  [[nodiscard]] bool wanted() const { return !file_.empty(); }
  /// It is time for one: at once the first time, and always for the last one.
  [[nodiscard]] bool due(bool last) const;
  void write(const std::string& text);

 private:
  std::string file_;
  std::chrono::duration<double> between_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace pipesim
