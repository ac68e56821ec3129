#include "search/annealing/checkpoint_file.h"

#include "sim/base/files.h"

namespace pipesim {

CheckpointFile::CheckpointFile(std::string file, double seconds_between)
    : file_(std::move(file)), between_(seconds_between) {}

bool CheckpointFile::due(bool last) const {
  return wanted() && (last || std::chrono::steady_clock::now() >= next_);
}

void CheckpointFile::write(const std::string& text) {
  write_file(file_, text);
  next_ = std::chrono::steady_clock::now() +
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(between_);
}

}  // namespace pipesim
