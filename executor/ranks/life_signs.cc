#include "executor/ranks/life_signs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "executor/ranks/peer_sockets.h"
#include "sim/base/files.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLooksWithoutNews = 60;
constexpr std::string_view kFailed = "failed";

// "NUMBER PROCESS KERNEL HOST", or "failed PROCESS KERNEL HOST".
struct Sign {
  std::string number, kernel, host;
  std::int64_t process = 0;
};

Sign parsed_sign(const std::string& text) {
  Sign sign;
  std::istringstream(text) >> sign.number >> sign.process >> sign.kernel >> sign.host;
  return sign;
}

// Where the number of a process means the same: this start of the system, and its processes as seen from
// inside this container. "?" where that is not told.
std::string process_space() {
  std::error_code unknown;
  const fs::path space = fs::read_symlink("/proc/self/ns/pid", unknown);
  const std::string boot = boot_id();
  return unknown || boot == "?" ? "?" : boot + "/" + space.string();
}

std::string sign_of_this(const std::string& number) {
  return fmt::format("{} {} {} {}", number, ::getpid(), process_space(), host_name());
}

// Ended, also if its parent does not know yet; none where its process can't be seen from here.
std::optional<bool> has_ended(const Sign& sign) {
  if (sign.process <= 0 || sign.kernel == "?" || sign.kernel != process_space()) return std::nullopt;
  if (::kill(static_cast<pid_t>(sign.process), 0) != 0) return errno == ESRCH;
  const std::string stat = text_of_file(fmt::format("/proc/{}/stat", sign.process)).value_or("");
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "Z";
}

}  // namespace

LifeSigns::LifeSigns(Duties duties) : duties_(std::move(duties)) {
  peers_.resize(static_cast<std::size_t>(duties_.size));
  peers_[static_cast<std::size_t>(duties_.rank)].watched = false;
  give_sign();
  thread_ = std::thread([this] { run(); });
}

LifeSigns::~LifeSigns() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string LifeSigns::of_failure() { return sign_of_this(std::string(kFailed)); }

bool LifeSigns::is_failure(const fs::path& sign) {
  return parsed_sign(text_of_file(sign).value_or("")).number == kFailed;
}

void LifeSigns::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, duties_.pause, [this] { return stopping_; })) {
    lock.unlock();
    try {
      give_sign();
    } catch (const std::exception&) {  // the others notice when that lasts
    }
    look_again_at(duties_.sign(duties_.rank).parent_path());
    for (int r = 0; r < duties_.size; ++r) look_at(r);
    lock.lock();
  }
}

void LifeSigns::give_sign() {
  write_file(duties_.sign(duties_.rank), sign_of_this(std::to_string(++signs_)));
}

void LifeSigns::look_at(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer.watched) return;
  const std::optional<std::string> text = text_of_file(duties_.sign(rank));
  ++peer.looks_without_news;
  if (text && *text != peer.sign) {
    peer.sign = *text;
    peer.looks_without_news = 0;
  }
  const Sign sign = parsed_sign(peer.sign);
  if (!sign.host.empty()) peer.host = sign.host;
  // Looks, not time: of the latter much goes by while all ranks are stopped, or wait for the file system.
  const bool silent = peer.looks_without_news >= kMostLooksWithoutNews;
  const bool dead = sign.number == kFailed || has_ended(sign).value_or(silent);
  // Whoever leaves in peace says so before it ends.
  std::error_code unknown;
  if (fs::exists(duties_.left(rank), unknown)) {
    peer.watched = false;
  } else if (dead) {
    peer.watched = false;
    duties_.on_death(rank, peer.host);
  }
}

std::optional<std::string> text_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  if (!in) return std::nullopt;
  content << in.rdbuf();  // an empty file makes this fail, which is not bad()
  return content.bad() ? std::nullopt : std::optional(std::move(content).str());
}

void look_again_at(const fs::path& folder) {
  const Descriptor opened(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace pipesim
