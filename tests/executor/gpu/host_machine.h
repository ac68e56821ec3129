#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/gpu/machine/machine.h"
#include "sim/base/rng.h"

namespace pipesim::gpu {

/// A machine whose devices are this program's own memory: what is put into streams is done later, by whoever
/// waits for it, one piece of work at a time, from streams drawn at random, as far as events allow. So every
/// order that the streams leave open may be met, and one that never ends is found.
class HostMachine : public Machine {
 public:
  struct Settings {
    std::uint64_t seed = 1;
    int team = 1;              ///< threads of a team
    std::int64_t memory = -1;  ///< bytes of a device; −1: no limit
    std::int64_t hidden = 0;   ///< bytes of them that are reported free, and are not
    std::int64_t room = 0;     ///< pieces of work that fit into a stream; the host waits for more; 0: any
  };
  HostMachine() : HostMachine(Settings{}) {}
  explicit HostMachine(const Settings& settings) : settings_(settings), rng_(settings.seed) {}
  ~HostMachine() override;
  HostMachine(const HostMachine&) = delete;
  HostMachine& operator=(const HostMachine&) = delete;

  [[nodiscard]] std::string name() const override { return "host"; }
  /// What is left of the limit.
  [[nodiscard]] Bytes free_memory(DeviceId device) const override;
  [[nodiscard]] bool shares_memory() const override { return false; }
  [[nodiscard]] std::byte* allocate(DeviceId device, Bytes size) override;
  void release(DeviceId device, std::byte* memory, Bytes size) override;
  [[nodiscard]] std::unique_ptr<Stream> make_stream(DeviceId device, StreamUse use) override;
  [[nodiscard]] std::unique_ptr<Event> make_event(DeviceId device) override;
  /// Counts pieces of work that were done, instead of time.
  [[nodiscard]] Nanoseconds time_between(const Event& from, const Event& to) override;
  void begin_recording(Stream& first) override;
  [[nodiscard]] std::unique_ptr<Recording> end_recording(Stream& first) override;

  /// Bytes that are allocated now.
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  /// Pieces of work that were done.
  [[nodiscard]] std::int64_t done() const { return done_; }
  /// Does one piece of work that has nothing to wait for; false when there is none.
  bool do_what_may_begin();
  /// Whether there is work that is not done.
  [[nodiscard]] bool waits() const;

  /// Work that is noted from now on belongs to this task; 0: to none.
  void of_task(std::uint64_t task) { task_ = task; }
  /// The task of a piece of work, and how many pieces were done before it.
  struct Done {
    std::uint64_t task = 0;
    std::int64_t time = 0;
  };
  [[nodiscard]] std::vector<Done> take_done() { return std::exchange(done_of_tasks_, {}); }

  // For its streams.
  struct Point {
    bool over = false;
    std::int64_t time = 0;
    bool by_limit = false;  // of a gate: time has opened it
  };
  struct Work {
    std::function<void()> run;         // empty: only waits or records
    std::shared_ptr<Point> awaited{};  // begins when this is over
    std::shared_ptr<Point> reached{};  // over when this work is done …
    class HostEvent* event = nullptr;  // … as this event tells
    std::uint64_t task = 0;            // see of_task()
  };
  struct Queue {
    std::deque<Work> work;
  };
  void note(Queue& queue, Work work);
  void drain(const Queue& queue);
  [[nodiscard]] bool recording() const { return noted_.has_value(); }
  void enter(Queue& queue) { queues_.push_back(&queue); }
  void leave(const Queue& queue);
  /// A closed gate. Time passes only while all streams wait, and then until the limits of all gates.
  [[nodiscard]] std::shared_ptr<Point> gate(Queue& queue);
  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  bool step();
  void pass_limits();

  Settings settings_;
  Rng rng_;
  std::vector<Queue*> queues_;
  std::vector<std::weak_ptr<Point>> gates_;
  std::map<std::int32_t, std::int64_t> used_;  // bytes by device
  std::int64_t allocated_ = 0, done_ = 0;
  std::uint64_t task_ = 0;
  std::vector<Done> done_of_tasks_;
  std::optional<std::vector<std::pair<Queue*, Work>>> noted_;  // while recording
};

/// Runs a body of that number on the host, with teams of so many threads.
void run_body_on_host(std::size_t body_number, const void* body, std::int64_t count, int team);
void multiply_on_host(const MatrixProduct& product);
void convolve_on_host(const Convolution& convolution);

}  // namespace pipesim::gpu
