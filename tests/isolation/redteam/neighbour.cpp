#include "tests/isolation/redteam/neighbour.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace atl::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr int k_messages = 5;

void timed(Service& service, const std::string& kind, const std::function<void()>& operation) {
    const auto began = Clock::now();
    operation();
    service.times[kind].push_back(duration_cast<microseconds>(Clock::now() - began));
}

void say(Lab& lab, const std::string& id) {
    const Turn turn = lab.api.message(id, "echo here");
    INFO("a neighbour's message was answered: " << types(turn.events));
    REQUIRE(turn.output == "here\n");
}

void one_round(Lab& lab, Service& service) {
    std::string id;
    timed(service, "create", [&] { id = lab.api.create()["id"]; });
    for (int i = 0; i < k_messages; ++i)
        timed(service, "message", [&] { say(lab, id); });
    lab.api.call(200, "POST", "/v1/conversations/" + id + "/pause", R"({"mode":"cold"})");
    timed(service, "resume", [&] { say(lab, id); });
    lab.api.remove(id);
}

}  // namespace

microseconds Service::p99(const std::string& kind) const {
    std::vector<microseconds> sorted = times.at(kind);
    std::sort(sorted.begin(), sorted.end());
    return sorted[(sorted.size() - 1) * 99 / 100];
}

Service be_neighbour(Lab& lab, std::chrono::milliseconds duration) {
    Service service;
    const auto until = Clock::now() + duration;
    do {
        one_round(lab, service);
    } while (Clock::now() < until);
    return service;
}

Service ask_beside(Lab& lab, const std::function<void()>& work, int pairs) {
    Service service;
    const std::string id = lab.api.create({{"agent", "echo"}})["id"];
    HttpClient anyone(lab.server.address());
    for (int i = 0; i < pairs; ++i) {
        work();
        timed(service, "healthz", [&] { REQUIRE(anyone.request("GET", "/healthz").status == 200); });
        timed(service, "message", [&] { REQUIRE(lab.api.message(id, "here").output == "here"); });
    }
    lab.api.remove(id);
    return service;
}

std::string too_slow(const Service& beside_attack, const Service& beside_control) {
    std::string slow;
    for (const auto& [kind, times] : beside_attack.times) {
        const auto here = beside_attack.p99(kind);
        const auto there = beside_control.p99(kind);
        if (here > std::max<microseconds>(k_always_allowed, k_slower_at_most * there))
            slow += kind + ": p99 " + std::to_string(here.count()) + " us of " +
                    std::to_string(times.size()) + ", beside the control " + std::to_string(there.count()) +
                    " us; ";
    }
    return slow;
}

}  // namespace atl::test
