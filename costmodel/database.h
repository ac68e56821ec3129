#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace pipesim {

/// An SQLite file. Failures are InputErrors that start with `path`, which may differ from the file's own
/// name.
class Database {
 public:
  enum class Mode : std::uint8_t { Read, Create };
  Database(const std::filesystem::path& file, Mode mode, std::string path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  /// The first column of the first row, an integer.
  [[nodiscard]] std::int64_t integer(const std::string& sql);
  [[nodiscard]] std::string text(const std::string& sql);
  [[noreturn]] void fail() const;  ///< with SQLite's last message
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  friend class Statement;
  std::string path_;
  sqlite3* database_ = nullptr;
};

/// A prepared statement. Parameters are bound in order, columns read in order.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  void run();   ///< executes and makes ready for the next parameters
  bool next();  ///< to the next row, false after the last

  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] double real();
  [[nodiscard]] std::string text();

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int parameter_ = 0, column_ = 0;
};

}  // namespace pipesim
