#include "executor/ranks/file_rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "executor/ranks/frames.h"
#include "executor/ranks/peer_sockets.h"
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

std::optional<std::string> text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  if (!in) return std::nullopt;
  content << in.rdbuf();  // an empty file makes this fail, which is not bad()
  return content.bad() ? std::nullopt : std::optional(std::move(content).str());
}

// What rank 0 of some run wrote, if it is that.
std::optional<std::string> run_id_in(const fs::path& path) {
  const std::optional<std::string> text = text_of(path);
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
  bool await(Condition&& holds) const;
  [[noreturn]] void fail_without(const std::vector<int>& missing, const std::string& where);

  RendezvousPlace place_;
  RendezvousOptions options_;
  std::string id_;
  std::int64_t calls_ = 0;
  std::string failure_;
};

FileRendezvous::FileRendezvous(const RendezvousPlace& place, const RendezvousOptions& options)
    : place_(place), options_(options) {
  require_writable(place_.path);
  if (rank() == 0) {
    begin_run();
  } else {
    join_run();
  }
}

FileRendezvous::~FileRendezvous() {
  try {
    write_file(own_file("bye"), "");
    Texts left(static_cast<std::size_t>(size()));
    read_missing("bye", left);
    if (missing_in(left).empty()) remove_run();
  } catch (const std::exception&) {
    // The file system is gone, or rank 0 of a next run is clearing up.
  }
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
  const bool all_came = await([&] {
    read_missing("hello", hellos);
    return missing_in(hellos).empty();
  });
  if (!all_came) fail_without(missing_in(hellos), place_.str());
  std::string welcome;
  for (const auto& hello : hellos) welcome += *hello + "\n";
  write_file(file("welcome"), welcome);
}

void FileRendezvous::join_run() {
  const std::string own = random_id();
  const bool welcomed = await([&] {
    const std::optional<std::string> id = run_id_in(place_.path);
    if (id && *id != id_) {
      id_ = *id;
      write_file(own_file("hello"), own);
    }
    const std::optional<std::string> welcome = id ? text_of(file("welcome")) : std::nullopt;
    return welcome && welcome->find(own) != std::string::npos;
  });
  if (welcomed) return;
  Texts hellos(static_cast<std::size_t>(size()));
  hellos[0] = "";
  if (!id_.empty()) read_missing("hello", hellos);
  const std::vector<int> missing = missing_in(hellos);
  // Without any sign of rank 0, others can't have said hello.
  fail_without(id_.empty() || missing.empty() ? std::vector{0} : missing, place_.str());
}

std::vector<std::string> FileRendezvous::exchange(const std::string& mine, const std::string& name) {
  if (!failure_.empty()) throw DeviceError(failure_);
  const std::string call = std::to_string(calls_);
  write_file(own_file(call), mine);
  Texts texts(static_cast<std::size_t>(size()));
  texts[static_cast<std::size_t>(rank())] = mine;
  const bool all_came = await([&] {
    read_missing(call, texts);
    return missing_in(texts).empty();
  });
  if (!all_came) fail_without(missing_in(texts), fmt::format("\"{}\" at {}", name, place_.str()));
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
    if (!texts[r]) texts[r] = text_of(file(what, r));
  }
}

void FileRendezvous::remove_run() const {
  std::error_code ignored;
  const std::string start = file("").filename().string();
  std::vector<fs::path> files;
  for (fs::directory_iterator at(place_.path.parent_path().empty() ? "." : place_.path.parent_path(),
                                 ignored);
       !ignored && at != fs::directory_iterator(); at.increment(ignored)) {
    if (at->path().filename().string().starts_with(start)) files.push_back(at->path());
  }
  for (const fs::path& path : files) fs::remove(path, ignored);
  // A next run may have begun already.
  if (run_id_in(place_.path) == id_) fs::remove(place_.path, ignored);
}

template <class Condition>
bool FileRendezvous::await(Condition&& holds) const {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + options_.limit;
  const fs::path parent = place_.path.parent_path();
  for (auto pause = 1ms; !holds(); pause = std::min(2 * pause, 50ms)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    // Makes NFS look whether the folder has changed; else it remembers for long that a file was missing.
    const Descriptor folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  return true;
}

void FileRendezvous::fail_without(const std::vector<int>& missing, const std::string& where) {
  failure_ = did_not_come(missing, size(), where, options_.limit);
  throw DeviceError(failure_);
}

}  // namespace

std::unique_ptr<Rendezvous> open_file_rendezvous(const RendezvousPlace& place,
                                                 const RendezvousOptions& options) {
  return std::make_unique<FileRendezvous>(place, options);
}

}  // namespace pipesim
