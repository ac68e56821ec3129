#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace pipesim {

/// Tells the other ranks by files that this one is alive, and notices when they are not: a file a rank, in
/// which a number grows twice a second. One has died that says so itself, or whose process has gone. Where
/// its process can't be seen (on another host, in another container), one has died whose number is the same
/// in 60 looks of this rank: 30 s, in which time that this rank is stopped, or waits for the file system, is
/// not counted.
class LifeSigns {
 public:
  struct Duties {
    int rank = 0, size = 1;
    std::chrono::milliseconds pause{500};  ///< between two signs of this rank, and two looks at the others'
    std::function<std::filesystem::path(int rank)> sign;  ///< the file of a rank
    std::function<std::filesystem::path(int rank)> left;  ///< is there when a rank has left in peace
    /// Called once for each rank that dies, from a thread of its own. Must not throw.
    std::function<void(int rank, const std::string& host)> on_death;
  };

  /// Writes the first sign. InputError when that can't be written.
  explicit LifeSigns(Duties duties);
  /// Writes no more; what the last sign says of this rank is up to the caller.
  ~LifeSigns();
  LifeSigns(const LifeSigns&) = delete;
  LifeSigns& operator=(const LifeSigns&) = delete;

  /// The sign of a rank that has failed, for its own file.
  static std::string of_failure();
  /// Whether a sign is that of a rank that has failed.
  static bool is_failure(const std::filesystem::path& sign);

 private:
  struct Peer {
    std::string sign, host = "unknown";
    int looks_without_news = 0;
    bool watched = true;
  };

  void run();
  void give_sign();
  void look_at(int rank);

  Duties duties_;
  std::int64_t signs_ = 0;
  std::vector<Peer> peers_;  // by rank
  std::mutex mutex_;         // of the following
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

/// What a file holds; none when it can't be read.
std::optional<std::string> text_of_file(const std::filesystem::path& path);

/// Makes NFS look whether a folder has changed; else it remembers for long that a file was missing.
void look_again_at(const std::filesystem::path& folder);

}  // namespace pipesim
