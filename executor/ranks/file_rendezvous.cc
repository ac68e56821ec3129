#include "executor/ranks/file_rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>

#include "executor/ranks/frames.h"
#include "executor/ranks/life_signs.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::optional<std::string>>;

constexpr std::string_view kRunMark = "pipesim rendezvous 1 ";
constexpr std::size_t kIdDigits = 32;

std::string random_id() {
  std::random_device random;
  std::string id;
  while (id.size() < kIdDigits) id += fmt::format("{:08x}", static_cast<std::uint32_t>(random()));
  return id;
}

// What rank 0 of some run wrote, if it is that.
std::optional<std::string> run_id_in(const fs::path& path) {
  const std::optional<std::string> text = text_of_file(path);
  if (!text || !text->starts_with(kRunMark)) return std::nullopt;
  std::string id = text->substr(kRunMark.size());
  const bool hexadecimal = id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hexadecimal && id.size() == kIdDigits ? std::optional(id) : std::nullopt;
}

std::vector<int> missing_in(const Texts& texts) {
  std::vector<int> missing;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r]) missing.push_back(static_cast<int>(r));
  }
  return missing;
}

class FileRendezvous : public Rendezvous {
 public:
  FileRendezvous(const RendezvousPlace& place, const RendezvousOptions& options);
  ~FileRendezvous() override;
  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return options_.size; }

 private:
  std::vector<std::string> exchange(const std::string& mine, const std::string& name) override;
  void begin_run();
  void join_run();
  [[nodiscard]] fs::path file(const std::string& what) const;
  [[nodiscard]] fs::path file(const std::string& what, std::size_t of_rank) const;
  [[nodiscard]] fs::path own_file(const std::string& what) const;
  void read_missing(const std::string& what, Texts& texts) const;
  void remove_run() const;
  template <class Condition>
  bool await(Condition&& holds, std::chrono::milliseconds limit) const;
  void watch_others();
  [[nodiscard]] bool have_all_left() const;
  [[nodiscard]] std::string other_run() const;
  [[nodiscard]] std::string left_before(const std::string& call, const std::vector<int>& missing) const;
  [[nodiscard]] std::string failure() const;
  [[noreturn]] void fail(const std::string& reason);

  RendezvousPlace place_;
  RendezvousOptions options_;
  std::string id_;
  std::int64_t calls_ = 0;
  int exceptions_ = std::uncaught_exceptions();  // when it was opened
  mutable std::mutex mutex_;                     // of the following
  std::string failure_;
  std::unique_ptr<LifeSigns> signs_;  // ends first; null in a run of one rank
};

FileRendezvous::FileRendezvous(const RendezvousPlace& place, const RendezvousOptions& options)
    : place_(place), options_(options) {
  require_writable(place_.path);
  if (rank() == 0) {
    begin_run();
  } else {
    join_run();
  }
  if (size() > 1) watch_others();
}

FileRendezvous::~FileRendezvous() {
  signs_.reset();
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      write_file(own_file("alive"), LifeSigns::of_failure());
    } else {
      write_file(own_file("bye"), "");
    }
    if (have_all_left()) remove_run();
  } catch (const std::exception&) {
    // The file system is gone, or rank 0 of a next run is clearing up.
  }
}

bool FileRendezvous::have_all_left() const {
  for (std::size_t r = 0; r < static_cast<std::size_t>(size()); ++r) {
    std::error_code unknown;
    if (!fs::exists(file("bye", r), unknown) && !LifeSigns::is_failure(file("alive", r))) return false;
  }
  return true;
}

void FileRendezvous::begin_run() {
  if (const auto before = run_id_in(place_.path)) {
    id_ = *before;
    remove_run();
  }
  id_ = random_id();
  write_file(place_.path, std::string(kRunMark) + id_);
  Texts hellos(static_cast<std::size_t>(size()));
  hellos[0] = "";
  std::string why;
  const bool awaited = await(
      [&] {
        why = other_run();
        read_missing("hello", hellos);
        return missing_in(hellos).empty() || !why.empty();
      },
      options_.limit);
  if (!why.empty()) fail(why);
  if (!awaited) fail(did_not_come(missing_in(hellos), size(), place_.str(), options_.limit));
  std::string welcome;
  for (const auto& hello : hellos) welcome += *hello + "\n";
  write_file(file("welcome"), welcome);
}

void FileRendezvous::join_run() {
  const std::string own = random_id();
  const bool welcomed = await(
      [&] {
        const std::optional<std::string> id = run_id_in(place_.path);
        if (id && *id != id_) {
          id_ = *id;
          write_file(own_file("hello"), own);
        }
        const std::optional<std::string> welcome = id ? text_of_file(file("welcome")) : std::nullopt;
        return welcome && welcome->find(own) != std::string::npos;
      },
      options_.limit);
  if (welcomed) return;
  Texts hellos(static_cast<std::size_t>(size()));
  hellos[0] = "";
  if (!id_.empty()) read_missing("hello", hellos);
  const std::vector<int> missing = missing_in(hellos);
  // Without any sign of rank 0, others can't have said hello.
  fail(did_not_come(id_.empty() || missing.empty() ? std::vector{0} : missing, size(), place_.str(),
                    options_.limit));
}

void FileRendezvous::watch_others() {
  LifeSigns::Duties duties;
  duties.rank = rank();
  duties.size = size();
  duties.sign = [this](int r) { return file("alive", static_cast<std::size_t>(r)); };
  duties.left = [this](int r) { return file("bye", static_cast<std::size_t>(r)); };
  duties.on_death = [this](int r, const std::string& host) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = fmt::format("rank {} (on host {}) died", r, host);
    }
    if (options_.on_death) options_.on_death(r, host);
  };
  signs_ = std::make_unique<LifeSigns>(std::move(duties));
}

std::vector<std::string> FileRendezvous::exchange(const std::string& mine, const std::string& name) {
  if (const std::string known = failure(); !known.empty()) throw DeviceError(known);
  const std::string call = std::to_string(calls_);
  write_file(own_file(call), mine);
  Texts texts(static_cast<std::size_t>(size()));
  texts[static_cast<std::size_t>(rank())] = mine;
  std::string why;
  await(
      [&] {
        why = failure();
        if (why.empty()) why = other_run();
        if (why.empty()) why = left_before(call, missing_in(texts));
        read_missing(call, texts);
        return missing_in(texts).empty() || !why.empty();
      },
      options_.limit_of_calls());
  if (const std::vector<int> missing = missing_in(texts); !missing.empty())
    fail(!why.empty() ? why
                      : did_not_come(missing, size(), fmt::format("\"{}\" at {}", name, place_.str()),
                                     options_.limit_of_calls()));
  // Whoever has begun this call has read all of the one before.
  std::error_code ignored;
  if (calls_ > 0) fs::remove(own_file(std::to_string(calls_ - 1)), ignored);
  ++calls_;
  std::vector<std::string> result;
  for (auto& text : texts) result.push_back(std::move(*text));
  return result;
}

fs::path FileRendezvous::file(const std::string& what) const {
  return fmt::format("{}.{}.{}", place_.path.string(), id_, what);
}

fs::path FileRendezvous::file(const std::string& what, std::size_t of_rank) const {
  return file(fmt::format("{}.{}", what, of_rank));
}

fs::path FileRendezvous::own_file(const std::string& what) const {
  return file(what, static_cast<std::size_t>(rank()));
}

void FileRendezvous::read_missing(const std::string& what, Texts& texts) const {
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r]) texts[r] = text_of_file(file(what, r));
  }
}

void FileRendezvous::remove_run() const {
  std::error_code ignored;
  const std::string start = file("").filename().string();
  const std::string unfinished = "." + start;  // what write_file() was writing in a process that was killed
  std::vector<fs::path> files;
  for (fs::directory_iterator at(place_.path.parent_path().empty() ? "." : place_.path.parent_path(),
                                 ignored);
       !ignored && at != fs::directory_iterator(); at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) || name.starts_with(unfinished)) files.push_back(at->path());
  }
  for (const fs::path& path : files) fs::remove(path, ignored);
  // A next run may have begun already.
  if (run_id_in(place_.path) == id_) fs::remove(place_.path, ignored);
}

template <class Condition>
bool FileRendezvous::await(Condition&& holds, std::chrono::milliseconds limit) const {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto pause = 1ms; !holds(); pause = std::min(2 * pause, 50ms)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    look_again_at(place_.path.parent_path());
  }
  return true;
}

// That PATH names another run, whose rank 0 has removed the files of this one.
std::string FileRendezvous::other_run() const {
  const std::optional<std::string> named = run_id_in(place_.path);
  return named && *named != id_ ? "another run has begun at " + place_.str() : "";
}

// Who has said goodbye instead of making a call; asked before looking for its text once more.
std::string FileRendezvous::left_before(const std::string& call, const std::vector<int>& missing) const {
  for (const int r : missing) {
    const auto of_rank = static_cast<std::size_t>(r);
    std::error_code unknown;
    if (fs::exists(file("bye", of_rank), unknown) && !fs::exists(file(call, of_rank), unknown))
      return fmt::format("rank {} has left {}", r, place_.str());
  }
  return "";
}

std::string FileRendezvous::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void FileRendezvous::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
  }
  throw DeviceError(failure());
}

}  // namespace

std::unique_ptr<Rendezvous> open_file_rendezvous(const RendezvousPlace& place,
                                                 const RendezvousOptions& options) {
  return std::make_unique<FileRendezvous>(place, options);
}

}  // namespace pipesim
