// libpipesim_mpi.so: the one place that knows MPI. It is linked to nothing else of pipesim.

#include <mpi.h>

#include <array>
#include <vector>

#include "executor/mpi_functions.h"

namespace pipesim {
namespace {

// MPI may be started once in the life of a process, so that its state may live as long.
struct State {
  std::array<MPI_Comm, 2> lanes{MPI_COMM_NULL, MPI_COMM_NULL};
  std::vector<MPI_Request> active;  // parallel to `names`
  std::vector<int> names;
  int next_name = 0;
  std::array<char, MPI_MAX_ERROR_STRING + 1> error{};
};

State& state() {
  static State the_state;
  return the_state;
}

const char* text_of(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  if (MPI_Error_string(code, state().error.data(), &length) != MPI_SUCCESS) return "an unknown error of MPI";
  return state().error.data();
}

const char* started(int code, MPI_Request request, int* name) {
  if (code != MPI_SUCCESS) return text_of(code);
  *name = state().next_name;
  state().next_name = (state().next_name + 1) & 0x7fffffff;
  state().active.push_back(request);
  state().names.push_back(*name);
  return nullptr;
}

const char* start(int* rank, int* ranks) {
  int level = MPI_THREAD_SINGLE;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level)) return text_of(code);
  if (level < MPI_THREAD_SERIALIZED) return "this MPI does not support threads (MPI_THREAD_SERIALIZED)";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (MPI_Comm& lane : state().lanes) {
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &lane)) return text_of(code);
    MPI_Comm_set_errhandler(lane, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return text_of(MPI_Comm_size(MPI_COMM_WORLD, ranks));
}

const char* send(MpiFunctions::Lane lane, const void* data, int bytes, int to, int tag, int* name) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, state().lanes[lane], &request);
  return started(code, request, name);
}

const char* receive(MpiFunctions::Lane lane, void* data, int bytes, int from, int tag, int* name) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int source = from < 0 ? MPI_ANY_SOURCE : from;
  const int code = MPI_Irecv(data, bytes, MPI_BYTE, source, tag, state().lanes[lane], &request);
  return started(code, request, name);
}

// Removes what is complete, keeping the order of the rest.
void forget_completed() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < state().active.size(); ++i) {
    if (state().active[i] == MPI_REQUEST_NULL) continue;
    state().active[kept] = state().active[i];
    state().names[kept] = state().names[i];
    ++kept;
  }
  state().active.resize(kept);
  state().names.resize(kept);
}

const char* poll(MpiFunctions::Completion* done, int capacity, int* count) {
  *count = 0;
  for (std::size_t i = 0; i < state().active.size() && *count < capacity; ++i) {
    int complete = 0;
    MPI_Status status;
    if (const int code = MPI_Test(&state().active[i], &complete, &status)) return text_of(code);
    if (complete == 0) continue;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    done[(*count)++] = {state().names[i], status.MPI_SOURCE, bytes};
  }
  if (*count > 0) forget_completed();
  return nullptr;
}

const char* finish() {
  for (MPI_Request& request : state().active) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  state().active.clear();
  state().names.clear();
  return text_of(MPI_Finalize());
}

}  // namespace
}  // namespace pipesim

extern "C" __attribute__((visibility("default"))) const pipesim::MpiFunctions* pipesim_mpi_functions() {
  static const pipesim::MpiFunctions kFunctions{pipesim::MpiFunctions::kVersion,
                                                pipesim::start,
                                                pipesim::send,
                                                pipesim::receive,
                                                pipesim::poll,
                                                pipesim::finish};
  return &kFunctions;
}
