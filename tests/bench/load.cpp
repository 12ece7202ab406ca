#include <poll.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "tests/bench/child.hpp"
#include "tests/bench/good_client.hpp"
#include "tests/bench/load_clients.hpp"
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

constexpr std::size_t k_never_reading = 100;

struct Scale {
    std::size_t idle;
    std::size_t active;
    double quiet_ms;
    double fanout_ms;
    double hostile_ms;
    double cut_within_ms;  // 0: the run ends before the server cuts off subscribers that never read
};

constexpr Scale k_whole{.idle = 10'000,
                        .active = 1000,
                        .quiet_ms = 10'000,
                        .fanout_ms = 20'000,
                        .hostile_ms = 40'000,
                        .cut_within_ms = k_cut_within_ms};
constexpr Scale k_paired{.idle = 2000,
                         .active = 1000,
                         .quiet_ms = 1000,
                         .fanout_ms = 5000,
                         .hostile_ms = 5000,
                         .cut_within_ms = 0};
constexpr double k_max_growth_kb = 2048;
constexpr double k_max_stuck_kb = 256;

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

Scale sized_scale(Scale scale) {
    scale.idle = sized(scale.idle);
    scale.active = sized(scale.active);
    scale.quiet_ms = sized(scale.quiet_ms);
    scale.fanout_ms = sized(scale.fanout_ms);
    scale.hostile_ms = sized(scale.hostile_ms);
    return scale;
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
        plan_.never_reading = k_never_reading;
        plan_.cut_within_ms = scale.cut_within_ms;
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
        Child clients([&] { run_load_clients(server_, plan_, *control_); });
        while (!control_->ready) {
            if (clients.has_ended())
                clients.wait();
            pause_ms(10);
        }
        const P99 fanout = talk_for(scale_.fanout_ms);
        const double before_kb = rss_kb(server_.server().pid());
        control_->hostile = true;
        const P99 hostile = talk_for(scale_.hostile_ms);
        control_->stop = true;
        clients.wait();
        return {message_result(quiet, fanout, hostile), memory_result(before_kb), cut_result()};
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

    Result message_result(const P99& quiet, const P99& fanout, const P99& hostile) const {
        Result result{.key = "load_message_ms", .unit = "ms"};
        const std::array loads{fanout, hostile};
        judge_p99(result, loads);
        result.more["quiet_p99"] = quiet.ms;
        result.more["fanout_p99"] = fanout.ms;
        result.more["hostile_p99"] = hostile.ms;
        result.more["bare_quiet_p99"] = quiet.bare_ms;
        result.more["bare_fanout_p99"] = fanout.bare_ms;
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
        const double stuck_kb = (peak_kb - before_kb) / static_cast<double>(k_never_reading);
        result.reached = *result.value <= k_max_growth_kb && stuck_kb <= k_max_stuck_kb;
        result.more["before_kb"] = before_kb;
        result.more["peak_kb"] = peak_kb;
        result.more["never_reading_kb"] = stuck_kb;
        return result;
    }
    Result cut_result() const {
        Result result{.key = "load_cut",
                      .unit = "subscribers",
                      .target = "all that never read",
                      .better = Better::higher};
        result.value = static_cast<double>(control_->cut_off);
        if (plan_.cut_within_ms > 0)
            result.reached = control_->cut_off == k_never_reading;
        result.more["never_reading"] = static_cast<double>(k_never_reading);
        return result;
    }

    const Scale scale_;
    const EventServer server_;
    std::optional<GoodClients> good_;
    LoadPlan plan_;
    Shared<LoadControl> control_;
    std::vector<double> memory_kb_;
};

}  // namespace

std::vector<Result> measure_load(Scope scope) {
    const Scale scale = sized_scale(has_floor(scope) ? k_whole : k_paired);
    allow_open_files(scale.idle + scale.active + k_never_reading + 200);
    return Load(scale).run();
}

}  // namespace atl::bench
