#include "executor/ranks/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace pipesim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kRound{50};
constexpr seconds kAlive{1};
constexpr seconds kSilence{10};
constexpr seconds kGrace{5};
constexpr seconds kStop{2};
constexpr milliseconds kGraceAfterSignal{500};  // mpirun kills for good after 1 s
constexpr milliseconds kSignalExplained{200};   // the death that made mpirun stop us is seen within that

std::atomic<bool> told_to_stop{false};

void remember_stop(int /*signal*/) { told_to_stop = true; }

// Leaves alone what the program has arranged itself.
void catch_stop() {
  struct sigaction current {};
  if (sigaction(SIGTERM, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction ours {};
  ours.sa_handler = remember_stop;
  ours.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &ours, nullptr);
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Watchdog::Watchdog(Duties duties, const GatherText& gather) : duties_(std::move(duties)) {
  for (Descriptor& connection : connect_peers(duties_.rank, gather)) {
    Peer peer;
    peer.connection = std::move(connection);
    peer.watched = peer.connection.number() >= 0;
    peer.heard = Clock::now();
    peers_.push_back(std::move(peer));
  }
  catch_stop();
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  leaving_ = true;
  thread_.join();
}

void Watchdog::set_last_task(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  task_ = text;
  task_changed_ = true;
}

void Watchdog::announce(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (announced_.empty()) announced_ = reason;
}

void Watchdog::wait_for_stop() {
  std::unique_lock lock(mutex_);
  stop_.wait_for(lock, kStop, [this] { return all_stopped_; });
}

void Watchdog::run() {
  while (!leaving_) {
    wait_for_news();
    const auto now = Clock::now();
    tell_news(now);
    look_for_silence(now);
    look_for_signal(now);
    note_stop();
    end_process_if_late(now);
  }
  tell_news(Clock::now());
  tell_all("bye");
}

void Watchdog::wait_for_news() {
  std::vector<pollfd> waiting;
  std::vector<int> ranks;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].watched) continue;
    const short events = peers_[i].to_send.empty() ? POLLIN : POLLIN | POLLOUT;
    waiting.push_back({peers_[i].connection.number(), events, 0});
    ranks.push_back(static_cast<int>(i));
  }
  if (::poll(waiting.data(), waiting.size(), static_cast<int>(kRound.count())) <= 0) return;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    Peer& peer = peers_[static_cast<std::size_t>(ranks[i])];
    if (waiting[i].revents & POLLOUT) flush(peer);
    if (waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) read_from(ranks[i]);
  }
}

void Watchdog::read_from(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  std::array<char, 4096> buffer;
  const ssize_t count = recv(peer.connection.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return lose(rank, "died");
  peer.heard = Clock::now();
  peer.received.append(buffer.data(), static_cast<std::size_t>(count));
  for (std::size_t end = 0; peer.watched && (end = peer.received.find('\n')) != std::string::npos;) {
    const std::string line = peer.received.substr(0, end);
    peer.received.erase(0, end + 1);
    understand(rank, line);
  }
}

void Watchdog::understand(int rank, const std::string& line) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (line.starts_with("task ")) peer.last_task = line.substr(5);
  if (line.starts_with("fail ")) fail(line.substr(5));
  if (line == "stopped") peer.stopped = true;
  if (line == "bye") peer.watched = false;
}

void Watchdog::lose(int rank, const std::string& how) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.watched = false;
  const std::string task = peer.last_task.empty() ? "its last task is not known"
                                                  : fmt::format("its last task was \"{}\"", peer.last_task);
  fail(fmt::format("{} {}; {}", duties_.name_of(rank), how, task));
}

void Watchdog::fail(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason;
  deadline_ = Clock::now() + kGrace;
  // Others first: this process may end as soon as its threads know.
  tell_all("fail " + one_line(reason));
  duties_.on_failure(reason);
  tell_all("stopped");
}

void Watchdog::tell_all(const std::string& line) {
  for (Peer& peer : peers_) {
    if (!peer.watched) continue;
    peer.to_send += line + "\n";
    flush(peer);
  }
}

void Watchdog::flush(Peer& peer) {
  const ssize_t count =
      ::send(peer.connection.number(), peer.to_send.data(), peer.to_send.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) peer.to_send.erase(0, static_cast<std::size_t>(count));
}

void Watchdog::tell_news(Clock::time_point now) {
  std::string task;
  std::string announced;
  {
    const std::scoped_lock lock(mutex_);
    if (task_changed_) task = "task " + one_line(task_);
    task_changed_ = false;
    announced = announced_;
  }
  if (task.empty() && now - told_alive_ > kAlive) task = "alive";
  if (!task.empty()) {
    tell_all(task);
    told_alive_ = now;
  }
  if (!announced.empty()) fail(announced);
}

void Watchdog::look_for_silence(Clock::time_point now) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].watched && now - peers_[i].heard > kSilence)
      lose(static_cast<int>(i), fmt::format("has been silent for {} s", kSilence.count()));
  }
}

void Watchdog::look_for_signal(Clock::time_point now) {
  if (!told_to_stop) return;
  if (!signalled_) signalled_ = now;
  if (failure_.empty() && now - *signalled_ > kSignalExplained)
    fail(fmt::format("{} was told to stop (SIGTERM)", duties_.name_of(duties_.rank)));
  if (!failure_.empty()) deadline_ = std::min(*deadline_, *signalled_ + kSignalExplained + kGraceAfterSignal);
}

void Watchdog::note_stop() {
  const bool running = std::any_of(peers_.begin(), peers_.end(),
                                   [](const Peer& peer) { return peer.watched && !peer.stopped; });
  if (failure_.empty() || running) return;
  const std::scoped_lock lock(mutex_);
  all_stopped_ = true;
  stop_.notify_all();
}

void Watchdog::end_process_if_late(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return;
  const std::string message = "pipesim: " + failure_ + "\n";
  (void)!::write(STDERR_FILENO, message.data(), message.size());
  _exit(3);
}

}  // namespace pipesim
