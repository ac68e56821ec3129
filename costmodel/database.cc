#include "costmodel/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "sim/base/errors.h"
#include "sim/base/utf8.h"

namespace pipesim {

Database::Database(const std::filesystem::path& file, Mode mode, std::string path) : path_(std::move(path)) {
  const int flags = mode == Mode::Read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (sqlite3_open_v2(file.c_str(), &database_, flags, nullptr) == SQLITE_OK) return;
  const std::string reason = database_ ? sqlite3_errmsg(database_) : "out of memory";
  sqlite3_close(database_);
  throw InputError(fmt::format("{}: can't be opened: {}", path_, reason));
}

Database::~Database() { sqlite3_close(database_); }

void Database::fail() const {
  const std::string reason = sqlite3_errmsg(database_);
  const int code = sqlite3_errcode(database_);
  if (code == SQLITE_NOTADB) throw InputError(fmt::format("{}: is not a calibration file", path_));
  if (code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_READONLY || code == SQLITE_CANTOPEN)
    throw InputError(fmt::format("{}: can't be written: {}", path_, reason));
  throw InputError(fmt::format("{}: is damaged: {}", path_, reason));
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.integer() : 0;
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.text() : "";
}

Statement::Statement(Database& database, const std::string& sql) : database_(database) {
  if (sqlite3_prepare_v2(database.database_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK)
    database.fail();
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(std::int64_t value) {
  if (sqlite3_bind_int64(statement_, ++parameter_, value) != SQLITE_OK) database_.fail();
  return *this;
}

Statement& Statement::bind(double value) {
  if (sqlite3_bind_double(statement_, ++parameter_, value) != SQLITE_OK) database_.fail();
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  const int size = static_cast<int>(value.size());
  if (sqlite3_bind_text(statement_, ++parameter_, value.data(), size, SQLITE_TRANSIENT) != SQLITE_OK)
    database_.fail();
  return *this;
}

void Statement::run() {
  if (sqlite3_step(statement_) != SQLITE_DONE) database_.fail();
  sqlite3_reset(statement_);
  parameter_ = 0;
}

bool Statement::next() {
  column_ = 0;
  const int result = sqlite3_step(statement_);
  if (result != SQLITE_ROW && result != SQLITE_DONE) database_.fail();
  return result == SQLITE_ROW;
}

std::int64_t Statement::integer() { return sqlite3_column_int64(statement_, column_++); }
double Statement::real() { return sqlite3_column_double(statement_, column_++); }

std::string Statement::text() {
  const int column = column_++;
  const unsigned char* text = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  std::string read =
      text ? std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)) : "";
  if (first_not_utf8(read) != std::string_view::npos)
    throw InputError(fmt::format("{}: is damaged: a text is not UTF-8", database_.path()));
  return read;
}

}  // namespace pipesim
