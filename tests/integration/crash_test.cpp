// kill -9 of the server at random moments while conversations stream: no process, group or mount survives the
// next start, a client that reconnects with its last number gets every event that it had not seen, once, and
// the files of a workspace are all there. ATOLL_CRASH_ROUNDS and ATOLL_CRASH_CONVERSATIONS set how long and
// how wide the drill is.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/api_client.hpp"

namespace crash_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

/// The full test takes 200 conversations, the gate takes fewer.
std::size_t conversations() {
#ifdef __SANITIZE_ADDRESS__
    return 20;
#else
    return std::getenv("ATOLL_TEST_FULL") != nullptr ? 200 : 60;
#endif
}
constexpr std::size_t k_rounds = 5;

// Counts up, into a file and then aloud, some 20 times a second: reading a fifo without a writer takes no
// process. In lines of 16 bytes, so that none lies across the end of a page: there SIGKILL may cut a write(2)
// (the kernel's generic_perform_write() looks for it before each page).
constexpr const char* k_counter =
    "[ -p never ] || mkfifo never; exec 9<>never; i=0; "
    "while :; do i=$((i+1)); printf '%-15s\\n' \"ROUND $i\" >> log; echo $i; read -rt 0.05 -u 9; done";

std::size_t number_from(const char* name, std::size_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string counter_of(std::size_t round) {
    std::string text = k_counter;
    text.replace(text.find("ROUND"), 5, std::to_string(round));
    return text;
}

/// The folders of the groups that `pids` are in and that a server made (cgroups(7), /proc/PID/cgroup).
std::set<fs::path> groups_of(const std::vector<pid_t>& pids) {
    std::set<fs::path> found;
    for (const pid_t pid : pids) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
        for (std::string line; std::getline(file, line);) {
            const auto names = line.find(':') + 1;
            const auto path = line.find(':', names);
            if (path == std::string::npos || line.find("/atoll-") == std::string::npos)
                continue;
            std::istringstream controllers(line.substr(names, path - names));
            for (std::string name; std::getline(controllers, name, ',');)
                found.insert(fs::path("/sys/fs/cgroup") / name / line.substr(path + 2));
            found.insert(fs::path("/sys/fs/cgroup/unified") / line.substr(path + 2));
            found.insert(fs::path("/sys/fs/cgroup") / line.substr(path + 2));
        }
    }
    return found;
}

bool is_mounted_on(const fs::path& folder) {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        if (line.find(folder.string()) != std::string::npos)
            return true;
    }
    return false;
}

/// A client that follows one conversation until the end and checks each event.
struct Follower {
    std::string id;
    std::uint64_t seen = 0;
    std::string partial;        // of a line that an event cut
    std::uint64_t counted = 0;  // the last whole number of the open turn
    std::string fault;

    void take(const Json& event) {
        if (event["seq"] != ++seen)
            fault = "event " + event["seq"].dump() + " came after " + std::to_string(seen - 1);
        if (event["type"] == "done") {
            ++dones;
            reached.push_back(counted);
            counted = 0;
            partial.clear();
        }
        if (event["type"] != "text_delta")
            return;
        partial += event["data"]["delta"].get<std::string>();
        for (std::size_t end = partial.find('\n'); end != std::string::npos; end = partial.find('\n')) {
            if (partial.substr(0, end) != std::to_string(++counted))
                fault = "read " + partial.substr(0, end) + " where " + std::to_string(counted) + " was due";
            partial.erase(0, end + 1);
        }
    }

    /// Reads until the connection ends or `until` events more were seen.
    void follow(const ApiClient& api, std::uint64_t until) {
        HttpClient client = api.connect();
        try {
            client.open_stream("GET", "/v1/conversations/" + id + "/events", "",
                               {{"Accept", "text/event-stream"}, {"Last-Event-ID", std::to_string(seen)}});
            for (const std::uint64_t end = seen + until; seen < end && fault.empty();) {
                const auto event = client.next_event();
                if (!event)
                    return;
                take(Json::parse(event->data));
            }
        } catch (const std::runtime_error&) {
            // The server was killed under it.
        }
    }

    std::size_t dones = 0;
    std::vector<std::uint64_t> reached;    // by each turn that is over
    std::vector<std::size_t> rounds_sent;  // the rounds in which a turn was begun
};

/// The workspace's log holds every message, and no line is lost or cut.
void check_log(const Follower& follower, const std::string& log) {
    std::map<std::size_t, std::uint64_t> last;
    std::istringstream lines(log);
    std::size_t round = 0;
    std::uint64_t number = 0;
    while (lines >> round >> number) {
        // The text before and behind this place.
        const auto here = static_cast<std::size_t>(std::max<std::streamoff>(lines.tellg(), 0));
        INFO("in round " << round << ": " << log.substr(here - std::min<std::size_t>(here, 60), 120));
        REQUIRE(number == last[round] + 1);
        last[round] = number;
    }
    CHECK(lines.eof());
    for (std::size_t turn = 0; turn < follower.rounds_sent.size(); ++turn)
        CHECK(last[follower.rounds_sent[turn]] >= follower.reached[turn]);
}

}  // namespace

// [serial]: so many conversations leave no processor to others, and what is left on the host is looked for.
// Over 5 s: each of five servers starts a sandbox for every conversation.
TEST_CASE("Nothing is lost, doubled or left behind when the server is killed while conversations stream",
          "[serial]") {
    const std::size_t rounds = number_from("ATOLL_CRASH_ROUNDS", k_rounds);
    std::set<fs::path> groups;
    const TempDir data;
    std::vector<Follower> followers(number_from("ATOLL_CRASH_CONVERSATIONS", conversations()));
    std::mt19937 random(20240229);
    std::vector<atl::base::UniqueFd> killed;
    ServerOptions options;
    options.data_dir = data.path();
    options.arguments = {"--user-share", "100"};
    std::uint64_t streamed = 0;
    bool grouped = false;
    for (std::size_t round = 0; round < rounds; ++round) {
        INFO("round " << round);
        ServerProcess server(options);
        ApiClient api(server);
        // A sandbox that was just being made may wait for its bwrap for ever (core/isolation/README.md): this
        // start has ended it.
        CHECK(await_gone(killed, k_client_deadline));
        for (auto& follower : followers) {
            if (follower.id.empty()) {
                const Json made = api.create();
                follower.id = made["id"];
                grouped =
                    grouped || made["enforcement"]["processes"].get<std::string>().starts_with("cgroup");
                continue;
            }
            const Json now = api.get(follower.id);
            CHECK(now["status"] == "paused");
            CHECK(now["statusReason"] == "server_restart");
        }
        // Every other round it is killed while sandboxes are still being started.
        const bool early = round % 2 == 1;
        std::vector<std::thread> threads;
        for (std::size_t at = 0; at < followers.size(); ++at) {
            Follower& follower = followers[at];
            api.call(202, "POST", "/v1/conversations/" + follower.id + "/messages",
                     Json{{"content", counter_of(round)}}.dump());
            follower.rounds_sent.push_back(round);
            threads.emplace_back([&] { follower.follow(api, 1'000'000); });
        }
        // A second reader of one conversation decides when the server is killed: after so many events.
        Follower clockwork;
        const std::size_t chosen = early ? random() % 10 : followers.size() - 1;
        clockwork.id = followers[chosen].id;
        clockwork.seen = api.get(clockwork.id)["lastSeq"];
        clockwork.follow(api, 2 + random() % (early ? 10 : 40));
        std::vector<pid_t> below = descendants(server.pid());
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (!early && below.size() < 2 * followers.size() && std::chrono::steady_clock::now() < until) {
            clockwork.follow(api, 1);
            below = descendants(server.pid());
        }
        CHECK((early || below.size() >= 2 * followers.size()));
        killed = open_pidfds(below);
        groups.merge(groups_of(below));
        server.kill_hard();
        for (auto& thread : threads)
            thread.join();
        for (const auto& follower : followers)
            streamed += follower.counted;
    }
    ServerProcess server(options);
    ApiClient api(server);
    CHECK(await_gone(killed, k_client_deadline));
    for (auto& follower : followers) {
        INFO(follower.id);
        const auto last = api.get(follower.id)["lastSeq"].get<std::uint64_t>();
        follower.follow(api, last - follower.seen);
        CHECK(follower.fault == "");
        CHECK(follower.seen == last);
        REQUIRE(follower.dones == rounds);
        check_log(follower, api.message(follower.id, "[ ! -f log ] || cat log").output);
        api.remove(follower.id);
    }
    CHECK(streamed > rounds * followers.size());
    CHECK(server.stop() == 0);
    CHECK(groups.empty() != grouped);
    for (const auto& group : groups) {
        INFO(group);
        CHECK_FALSE(fs::exists(group));
    }
    CHECK_FALSE(is_mounted_on(data.path()));
}

}  // namespace crash_test
