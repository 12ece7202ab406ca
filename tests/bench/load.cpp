#include <poll.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "tests/bench/child.hpp"
#include "tests/bench/crowd.hpp"
#include "tests/bench/good_client.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/memory.hpp"
#include "tests/bench/shared.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_window_turns = 600;     // of two events: more than a conversation keeps in memory
constexpr std::size_t k_flood_events = 50'000;  // about 17 MB
constexpr std::size_t k_subscribers_a_room = 50;
// The server's deadline for a client to read is 30 s from when no buffer took more.
constexpr double k_cut_within_ms = 60'000;

struct Scale {
    std::size_t idle;
    std::size_t active;
    std::size_t never_reading;
    double quiet_ms;
    double crowd_ms;
    double hostile_ms;
    // Of the verdict. Small ones run on machines that do other things meanwhile.
    double more_p99_ms;
    double max_growth_kb;
    double max_stuck_kb;
};

constexpr Scale k_full{.idle = 10'000,
                       .active = 1000,
                       .never_reading = 100,
                       .quiet_ms = 10'000,
                       .crowd_ms = 20'000,
                       .hostile_ms = 40'000,
                       .more_p99_ms = 0,
                       .max_growth_kb = 2048,
                       .max_stuck_kb = 256};
constexpr Scale k_small{.idle = 1000,
                        .active = 100,
                        .never_reading = 20,
                        .quiet_ms = 2'000,
                        .crowd_ms = 1'000,
                        .hostile_ms = 5'000,
                        .more_p99_ms = 100,
                        .max_growth_kb = 4096,
                        .max_stuck_kb = 512};

void pause_ms(double ms) {
    ::poll(nullptr, 0, static_cast<int>(ms));
}

/// Fills what the server keeps of a conversation, so that it cannot be taken for growth.
void fill_window(const EventServer& server, const std::string& id) {
    Connection connection(server.server().port());
    const std::string request = server.server().message_request(id);
    for (std::size_t i = 0; i < k_window_turns; ++i) {
        const Response response = connection.exchange(request);
        Server::check_turn(response.status, response.body);
    }
}

class Load {
  public:
    explicit Load(const Scale& scale) : scale_(scale) {
        Connection connection(server_.server().port());
        const std::string good = server_.server().create_conversation(connection, "echo");
        fill_window(server_, good);
        good_.emplace(server_, good);
        plan_.idle = scale.idle;
        plan_.subscribers_a_room = k_subscribers_a_room;
        plan_.never_reading = scale.never_reading;
        // A small load ends before the server loses its patience.
        plan_.cut_within_ms = scale.idle == k_full.idle ? k_cut_within_ms : 0;
        for (std::size_t i = 0; i < scale.active / k_subscribers_a_room; ++i) {
            plan_.rooms.push_back(server_.server().create_conversation(connection, "echo"));
            fill_window(server_, plan_.rooms.back());
        }
        plan_.flood = server_.create_conversation();
        WebSocket socket = server_.open_socket(plan_.flood, server_.last_seq(plan_.flood));
        EventServer::run_turn(socket, k_flood_events);
    }

    std::vector<Result> run() {
        const P99 quiet = talk_for(scale_.quiet_ms);
        Child crowd([&] { run_crowd(server_, plan_, *control_); });
        while (!control_->ready) {
            if (crowd.has_ended())
                crowd.wait();
            pause_ms(10);
        }
        const P99 crowded = talk_for(scale_.crowd_ms);
        const double before_kb = rss_kb(server_.server().pid());
        control_->hostile = true;
        const P99 hostile = talk_for(scale_.hostile_ms);
        control_->stop = true;
        crowd.wait();
        return {message_result(quiet, crowded, hostile), memory_result(before_kb), cut_result()};
    }

  private:
    /// Meanwhile the server's memory is looked at.
    P99 talk_for(double for_ms) {
        memory_kb_.clear();
        return good_->talk_for(for_ms, [&] { memory_kb_.push_back(rss_kb(server_.server().pid())); });
    }
    /// The median of this part of the last phase.
    double memory_between(double from, double to) const {
        const auto at = [&](double share) {
            return memory_kb_.begin() +
                   static_cast<std::ptrdiff_t>(share * static_cast<double>(memory_kb_.size()));
        };
        Samples samples;
        std::for_each(at(from), at(to), [&](double kb) { samples.add(kb); });
        return samples.p50();
    }

    Result message_result(const P99& quiet, const P99& crowded, const P99& hostile) const {
        Result result{.key = "load_message_ms", .unit = "ms", .target = "ratio <= 2 (p99)"};
        result.floor = quiet.ms;
        result.value = std::max(crowded.ms, hostile.ms);
        result.ratio = *result.value / quiet.ms;
        result.reached = *result.value <= 2 * quiet.ms + scale_.more_p99_ms;
        result.more["crowd_p99"] = crowded.ms;
        result.more["hostile_p99"] = hostile.ms;
        result.more["bare_quiet_p99"] = quiet.bare_ms;
        result.more["bare_crowd_p99"] = crowded.bare_ms;
        result.more["bare_hostile_p99"] = hostile.bare_ms;
        result.more["turns_of_others"] = static_cast<double>(control_->turns);
        result.more["came_and_went"] = static_cast<double>(control_->came_and_went);
        return result;
    }
    Result memory_result(double before_kb) const {
        Result result{.key = "load_growth_kb", .unit = "KB", .target = "<= 2,048"};
        const double early_kb = memory_between(0.2, 0.4);
        const double peak_kb = *std::max_element(memory_kb_.begin(), memory_kb_.end());
        result.value = memory_between(0.8, 1) - early_kb;
        const double stuck_kb = (peak_kb - before_kb) / static_cast<double>(scale_.never_reading);
        result.reached = *result.value <= scale_.max_growth_kb && stuck_kb <= scale_.max_stuck_kb;
        result.more["before_kb"] = before_kb;
        result.more["peak_kb"] = peak_kb;
        result.more["never_reading_kb"] = stuck_kb;
        return result;
    }
    Result cut_result() const {
        Result result{.key = "load_cut", .unit = "subscribers", .target = "all that never read"};
        result.value = static_cast<double>(control_->cut_off);
        if (plan_.cut_within_ms > 0)
            result.reached = control_->cut_off == scale_.never_reading;
        result.more["never_reading"] = static_cast<double>(scale_.never_reading);
        return result;
    }

    const Scale& scale_;
    const EventServer server_;
    std::optional<GoodClients> good_;
    CrowdPlan plan_;
    Shared<CrowdControl> control_;
    std::vector<double> memory_kb_;
};

}  // namespace

std::vector<Result> measure_load(LoadScale scale) {
    const Scale& chosen = scale == LoadScale::full ? k_full : k_small;
    allow_open_files(chosen.idle + chosen.active + chosen.never_reading + 200);
    return Load(chosen).run();
}

}  // namespace atl::bench
