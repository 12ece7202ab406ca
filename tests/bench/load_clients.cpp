#include "tests/bench/load_clients.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <stdexcept>
#include <system_error>

namespace atl::bench {
namespace {

constexpr int k_beat_ms = 2;
constexpr std::size_t k_come_and_go_at_once = 20;
constexpr double k_last_turns_ms = 10'000;
constexpr std::string_view k_message = R"({"type":"message","content":"hello"})";

struct Room {
    std::vector<WebSocket> sockets;
    std::vector<std::size_t> dones;  // that each of them has got
    std::size_t turns = 0;
    Clock::time_point next_turn;

    bool all_have_all() const {
        for (const std::size_t count : dones) {
            if (count != turns)
                return false;
        }
        return true;
    }
};

class LoadClients {
  public:
    LoadClients(const EventServer& server, const LoadPlan& plan, LoadControl& control)
        : server_(server), plan_(plan), control_(control), poller_(::epoll_create1(EPOLL_CLOEXEC)) {
        for (std::size_t i = 0; i < plan.rooms.size(); ++i)
            open_room(i);
        for (std::size_t i = 0; i < plan.idle; ++i)
            idle_.push_back(server.open_socket(plan.flood, flood_end()));
        for (std::size_t i = 0; i < idle_.size(); ++i)
            watch(idle_[i], k_idle | i);
    }

    void run() {
        control_.ready = true;
        spread_turns();
        while (!control_.stop) {
            take_all(k_beat_ms);
            begin_turns();
            if (control_.hostile)
                be_hostile();
        }
        finish();
    }

  private:
    static constexpr std::uint64_t k_idle = 1ULL << 62;
    static constexpr unsigned k_room_shift = 32;

    std::uint64_t flood_end() {
        if (flood_end_ == 0)
            flood_end_ = server_.last_seq(plan_.flood);
        return flood_end_;
    }
    void watch(const WebSocket& socket, std::uint64_t tag) {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
        if (::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, socket.fd(), &event) != 0)
            throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
    void open_room(std::size_t index) {
        Room& room = rooms_.emplace_back();
        const std::string& id = plan_.rooms[index];
        const std::uint64_t end = server_.last_seq(id);
        for (std::size_t i = 0; i < plan_.subscribers_a_room; ++i)
            room.sockets.push_back(server_.open_socket(id, end));
        for (std::size_t i = 0; i < room.sockets.size(); ++i)
            watch(room.sockets[i], index << k_room_shift | i);
        room.dones.resize(room.sockets.size());
    }
    /// Not all at the same moment. To be called when all are open: that takes longer than a turn's interval.
    void spread_turns() {
        const auto now = Clock::now();
        for (std::size_t i = 0; i < rooms_.size(); ++i) {
            const double wait_ms =
                plan_.turn_every_ms * static_cast<double>(i) / static_cast<double>(rooms_.size());
            rooms_[i].next_turn = now + std::chrono::microseconds(static_cast<int>(wait_ms * 1000));
        }
    }

    /// A ping is answered by receive_done().
    void take_all(int wait_ms) {
        std::array<epoll_event, 256> events;
        const int count = ::epoll_wait(poller_.get(), events.data(), events.size(), wait_ms);
        for (int i = 0; i < count; ++i) {
            const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
            const std::size_t index = tag & 0xffffffff;
            if ((tag & k_idle) != 0) {
                idle_[index].receive_done();
                continue;
            }
            Room& room = rooms_[tag >> k_room_shift];
            room.dones[index] += room.sockets[index].receive_done();
        }
    }
    /// A room whose last turn is not over for its first subscriber waits.
    void begin_turns() {
        const auto now = Clock::now();
        for (Room& room : rooms_) {
            if (now < room.next_turn || room.dones.front() != room.turns)
                continue;
            // Beats that were missed are not made up for.
            while (room.next_turn <= now)
                room.next_turn += std::chrono::microseconds(static_cast<int>(plan_.turn_every_ms * 1000));
            room.sockets.front().send_text(k_message);
            ++room.turns;
            ++control_.turns;
        }
    }

    void be_hostile() {
        const auto now = Clock::now();
        if (never_reading_.empty()) {
            hostile_since_ = now;
            for (std::size_t i = 0; i < plan_.never_reading; ++i)
                never_reading_.push_back(server_.open_socket(plan_.flood));
        }
        const auto wanted =
            static_cast<std::size_t>(ms_since(hostile_since_) / 1000 * plan_.come_and_go_per_s);
        // In this beat at most so many: a slow moment is not made up for at once.
        for (int i = 0; i < 4 && control_.came_and_went < wanted; ++i) {
            passing_.push_back(server_.open_socket(plan_.rooms.front()));
            if (passing_.size() > k_come_and_go_at_once)
                passing_.pop_front();
            ++control_.came_and_went;
        }
    }

    void finish() {
        const auto began = Clock::now();
        for (const Room& room : rooms_) {
            while (!room.all_have_all()) {
                if (ms_since(began) > k_last_turns_ms)
                    throw std::runtime_error("an active subscriber has not got every turn");
                take_all(k_beat_ms);
            }
        }
        await_cuts();
    }
    void await_cuts() {
        const auto cut = [](const WebSocket& socket) {
            pollfd end{.fd = socket.fd(), .events = 0, .revents = 0};
            return ::poll(&end, 1, 0) == 1;  // POLLERR, POLLHUP: the server reset it
        };
        do {
            take_all(k_beat_ms);
            control_.cut_off =
                static_cast<std::size_t>(std::count_if(never_reading_.begin(), never_reading_.end(), cut));
        } while (control_.cut_off < never_reading_.size() && ms_since(hostile_since_) < plan_.cut_within_ms);
    }

    const EventServer& server_;
    const LoadPlan& plan_;
    LoadControl& control_;
    base::UniqueFd poller_;
    std::uint64_t flood_end_ = 0;
    std::vector<Room> rooms_;
    std::vector<WebSocket> idle_;
    std::vector<WebSocket> never_reading_;
    std::deque<WebSocket> passing_;
    Clock::time_point hostile_since_;
};

}  // namespace

void run_load_clients(const EventServer& server, const LoadPlan& plan, LoadControl& control) {
    LoadClients(server, plan, control).run();
}

}  // namespace atl::bench
