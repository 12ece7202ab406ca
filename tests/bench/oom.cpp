#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_kills = 40;
constexpr double k_budget_ms = 40'000;
constexpr double k_deadline_ms = 20'000;
constexpr double k_max_p95_ms = 10;
constexpr std::size_t k_record_bytes = 8192;
constexpr std::string_view k_killed = "Killed process";
constexpr std::string_view k_bomb = R"json({"type":"message","content":"x=$(yes | head -c 200000000)"})json";

/// The kernel's log from now on: it tells of each kill at once (Documentation/ABI/testing/dev-kmsg).
class KernelLog {
  public:
    KernelLog() : fd_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
        if (!fd_ || ::lseek(fd_.get(), 0, SEEK_END) < 0)
            throw std::system_error(errno, std::generic_category(), "/dev/kmsg");
    }
    int fd() const { return fd_.get(); }
    /// True if the records that were not read yet tell of a kill for memory.
    bool tells_of_a_kill() {
        std::array<char, k_record_bytes> record;
        bool found = false;
        for (ssize_t size = 0;
             (size = ::read(fd_.get(), record.data(), record.size())) > 0 || errno == EPIPE;)
            found =
                found ||
                (size > 0 && std::string_view(record.data(), static_cast<std::size_t>(size)).find(k_killed) !=
                                 std::string_view::npos);
        return found;
    }

  private:
    base::UniqueFd fd_;
};

/// From the kernel's word to the turn's `oom` on the WebSocket. Back when the conversation is paused.
double one_kill(KernelLog& log, WebSocket& socket) {
    log.tells_of_a_kill();
    socket.send_text(k_bomb);
    std::optional<Clock::time_point> killed;
    std::optional<Clock::time_point> told;
    bool paused = false;
    const auto look = [&](std::string_view payload) {
        if (!told && payload.find(R"("code":"oom")") != std::string_view::npos)
            told = Clock::now();
        paused = paused || payload.find(R"("type":"sandbox_paused")") != std::string_view::npos;
        return true;
    };
    const auto began = Clock::now();
    while (!paused || !killed) {
        std::array<pollfd, 2> fds{
            {{log.fd(), killed ? short{0} : short{POLLIN}, 0}, {socket.fd(), POLLIN, 0}}};
        ::poll(fds.data(), fds.size(), 1000);
        if (!killed && log.tells_of_a_kill())
            killed = Clock::now();
        if ((fds[1].revents & POLLIN) != 0)
            socket.await(look);
        if (ms_since(began) > k_deadline_ms)
            throw std::runtime_error("no kill for memory was seen");
    }
    if (!told)
        throw std::runtime_error("the turn did not end with oom");
    return std::max(0.0, std::chrono::duration<double, std::milli>(*told - *killed).count());
}

}  // namespace

Result measure_oom() {
    Result result{.key = "oom_to_event_ms", .unit = "ms", .target = "p95 <= 10"};
    KernelLog log;
    const Server server;
    Connection connection(server.port());
    const Response made = connection.exchange(
        server.request("POST", "/v1/conversations", R"({"agent":"shell","limits":{"memoryMb":32}})"));
    const std::string id = Server::created_id(made.status, made.body);
    WebSocket socket(server.port(), "/v1/conversations/" + id + "/ws", server.key());
    Samples samples;
    const auto began = Clock::now();
    while (samples.size() < sized(k_kills) && ms_since(began) < k_budget_ms)
        samples.add(one_kill(log, socket));
    result.p50 = samples.p50();
    result.p95 = samples.p95();
    result.reached = *result.p95 <= k_max_p95_ms;
    result.more["kills"] = static_cast<double>(samples.size());
    return result;
}

}  // namespace atl::bench
