#include <poll.h>

#include <nlohmann/json.hpp>

#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/shared.hpp"
#include "tests/bench/sleeper.hpp"

namespace atl::bench {
namespace {

constexpr double k_longest_ms = 300'000;
constexpr double k_walks_ms = 12'000;   // once the files are there
constexpr std::size_t k_folders = 400;  // of 1,000 files: a walk that takes 2 s ends its sandbox
constexpr double k_max_more_ms = 1;
constexpr double k_us_a_ms = 1000;

// Two loops of builtins. The little memory keeps the inodes from staying in it: each walk finds most of the
// tree on the disk alone.
constexpr const char* k_limits = R"({"memoryMb":512,"cpuPercent":200,"diskMb":65536,"maxProcesses":64})";
constexpr const char* k_make_files =
    "make() { for ((d=$1; d<FOLDERS; d+=2)); do mkdir $d; cd $d; for ((i=0; i<1000; i++)); do : >$i; done; "
    "cd "
    "..; done; }; "
    "make 0 & make 1 & wait";

std::string make_files(std::size_t folders) {
    std::string command(k_make_files);
    return command.replace(command.find("FOLDERS"), 7, std::to_string(folders));
}

nlohmann::json ask(const Server& server, std::string_view target) {
    Connection connection(server.port());
    return nlohmann::json::parse(connection.exchange(server.request("GET", target)).body);
}

}  // namespace

Result measure_walk() {
    Result result{.key = "walk_lateness_ms", .unit = "ms", .target = "floor + 1 ms"};
    const Server server({"--measure-loop", "--disk-period", "1"});
    Connection connection(server.port());
    const nlohmann::json create{{"agent", "shell"}, {"limits", nlohmann::json::parse(k_limits)}};
    const Response made = connection.exchange(server.request("POST", "/v1/conversations", create.dump()));
    const std::string id = Server::created_id(made.status, made.body);
    const Until until(k_longest_ms);
    const Shared<Lateness> floor;
    const Child sleeper([&] { sleep_only(*floor, until); });
    const std::size_t folders = sized(k_folders);
    const auto began = Clock::now();
    const nlohmann::json message{{"content", make_files(folders)}};
    const Response turn = connection.exchange(server.request("POST", "/v1/conversations/" + id + "/messages",
                                                             message.dump(), Accept::event_stream));
    Server::check_turn(turn.status, turn.body);
    result.more["files"] = static_cast<double>(folders * 1000);
    result.more["made_in_ms"] = ms_since(began);
    const Until walked(sized(k_walks_ms));
    while (!walked.passed())
        ::poll(nullptr, 0, 100);
    const auto loop = ask(server, "/v1/system").at("loop").at("latenessUs");
    result.floor = floor->percentile(0.999);
    result.value = loop.at("p999").get<double>() / k_us_a_ms;
    result.reached = *result.value <= *result.floor + k_max_more_ms;
    result.more["lateness_max"] = loop.at("max").get<double>() / k_us_a_ms;
    return result;
}

}  // namespace atl::bench
