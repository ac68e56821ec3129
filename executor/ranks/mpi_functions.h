#pragma once

namespace pipesim {

/// The functions of libpipesim_mpi.so. Through them pipesim itself starts without MPI. They return null, or
/// an error text that stays valid until the next call. They must not be called at the same time.
struct MpiFunctions {
  static constexpr int kVersion = 1;

  struct Completion {
    int request;
    int from;   ///< rank, of a receive
    int bytes;  ///< that came in
  };
  /// Two separate spaces of messages.
  enum Lane { Control, Data };

  int version;
  const char* (*start)(int* rank, int* ranks);
  /// Begins to send; the memory must stay as it is until `request` is complete.
  const char* (*send)(Lane lane, const void* data, int bytes, int to, int tag, int* request);
  /// Begins to receive at most `bytes`; from any rank if `from` is negative.
  const char* (*receive)(Lane lane, void* data, int bytes, int from, int tag, int* request);
  /// Writes at most `capacity` requests that have completed since the last call.
  const char* (*poll)(Completion* done, int capacity, int* count);
  const char* (*finish)();
};

}  // namespace pipesim

/// The only symbol of the library.
extern "C" const pipesim::MpiFunctions* pipesim_mpi_functions();
