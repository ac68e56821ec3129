#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "executor/tensors/tensor_source.h"

namespace pipesim {

/// Where the elements of a data tensor lie: a file of numbers, row-major, without a header.
struct TensorFile {
  std::string tensor;
  std::filesystem::path path;
  DataType type = DataType::Float32;
  std::int64_t offset = 0;  ///< elements to leave out at its begin
};

/// Reads `TENSOR=FILE[:TYPE][@OFFSET]`; TYPE is that of the tensor when left out. InputError that says what
/// was found and what is allowed, also when `graph` has no such data tensor.
TensorFile parse_tensor_file(std::string_view text, const OperatorGraph& graph);

/// Data from files, and everything else from another source. A file holds records, one after the other: a
/// record is one sample of the tensor (the whole tensor when samples do not tell its parts apart). Step s,
/// microbatch m of M, row r of a batch of B reads record (s·M + m)·B + r, and begins again at the end of the
/// file; elements that fill no record are left out. Numbers are converted, not scaled.
class FileSource : public TensorSource {
 public:
  /// InputError for a file that can't be read, holds less than one record, or an index that is negative or
  /// not below index_bounds().
  FileSource(const OperatorGraph& graph, const std::vector<TensorFile>& files, const TensorSource& rest);
  ~FileSource() override;
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override;

 private:
  class Records;
  const OperatorGraph& graph_;
  const TensorSource& rest_;
  std::map<TensorId, std::unique_ptr<Records>> records_;
};

}  // namespace pipesim
