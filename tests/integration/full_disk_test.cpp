// A disk that has no byte left: what clients are told, and that all goes on once there is room again.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/plain/unique_fd.hpp"
#include "tests/support/api_client.hpp"

namespace full_disk_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

/// A file that takes all that is left, as long as this lives.
class Filler {
  public:
    explicit Filler(fs::path path) : path_(std::move(path)) {
        const atl::base::UniqueFd file(::open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        REQUIRE(file);
        for (std::string text(1 << 20, 'x'); !text.empty();) {
            if (::write(file.get(), text.data(), text.size()) > 0)
                continue;
            REQUIRE(errno == ENOSPC);
            text.resize(text.size() / 2);
        }
    }
    ~Filler() { fs::remove(path_); }
    Filler(const Filler&) = delete;
    Filler& operator=(const Filler&) = delete;

  private:
    fs::path path_;
};

ServerOptions on_small_disk() {
    ServerOptions options;
    options.disk_mb = 64;
    options.arguments = {"--disk-reserve", "0", "--log-mb", "1024"};
    return options;
}

}  // namespace

TEST_CASE("On a full disk messages and creates are answered, and nothing is lost once there is room again") {
    if (!is_root())
        SKIP("needs root");
    const ServerProcess server(on_small_disk());
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    REQUIRE(api.message(id, "before").output == "before");
    const auto before = api.events(id);
    const auto say = [&](const std::string& key) {
        return api.http().request("POST", "/v1/conversations/" + id + "/messages",
                                  Json{{"content", "during"}}.dump(), {{"Idempotency-Key", key}});
    };
    std::size_t refused = 0;
    {
        const Filler filler(server.data_dir_inside() / "filler");
        // The rest of the last page of the log may take the first of the messages.
        for (int tried = 0; tried < 50 && refused < 3; ++tried) {
            const HttpResponse answer = say("k" + std::to_string(tried));
            INFO(answer.body);
            REQUIRE((answer.status == 202 || answer.status == 503));
            if (answer.status == 202)
                continue;
            ++refused;
            const Json problem = Json::parse(answer.body);
            CHECK(problem["code"] == "storage_failed");
            // The first message is kept and says so; one behind it is not taken.
            const std::string fate = refused == 1 ? "the turn t2: it has not run" : "was not taken";
            CHECK(problem["detail"].get<std::string>().find(fate) != std::string::npos);
        }
        CHECK(refused == 3);
        const HttpResponse made = api.http().request("POST", "/v1/conversations", R"({"agent":"echo"})");
        CHECK(made.status == 503);
        CHECK(code_of(made) == "storage_failed");
        // The server still tells what it knows.
        CHECK(api.get(id)["id"] == id);
        const auto during = api.events(id);
        REQUIRE(during.size() >= before.size());
        CHECK(std::equal(before.begin(), before.end(), during.begin()));
    }
    // Room again: with no restart and no help.
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (api.http().request("GET", "/readyz").status != 200 && std::chrono::steady_clock::now() < until) {
    }
    // The message that was kept runs first.
    while (!api.get(id)["openTurn"].is_null())
        REQUIRE(std::chrono::steady_clock::now() < until);
    CHECK(api.message(id, "after").output == "after");
    CHECK(api.create()["status"] == "active");
    std::uint64_t seq = 0;
    for (const Json& event : api.events(id))
        CHECK(event["seq"] == ++seq);
    CHECK(server.log().find("store_failed") != std::string::npos);
}

// Longer than 5 s: the store refuses for that long before a stream is told of it.
TEST_CASE("On a full disk the stream of a turn ends with what became of it, and its events are there later") {
    if (!is_root())
        SKIP("needs root");
    const ServerProcess server(on_small_disk());
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    // The last event of a turn's stream; null where the disk was full for a write between two turns.
    const auto say = [&] {
        HttpClient client = api.connect();
        const HttpResponse opened = client.open_stream("POST", "/v1/conversations/" + id + "/messages",
                                                       Json{{"content", std::string(64 << 10, 'x')}}.dump(),
                                                       {{"Accept", "text/event-stream"}});
        Json last;
        while (opened.status == 200) {
            const auto event = client.next_event();
            if (!event)
                break;
            last = Json::parse(event->data);
        }
        return last;
    };
    Json last;
    while (last.is_null()) {
        REQUIRE(std::chrono::steady_clock::now() < until);
        {
            const Filler filler(server.data_dir_inside() / "filler");
            // The space that the database's log has allocated takes the first turns.
            do
                last = say();
            while (!last.is_null() && last["type"] == "done");
        }
        while (api.http().request("GET", "/readyz").status != 200)
            REQUIRE(std::chrono::steady_clock::now() < until);
    }
    INFO(last.dump());
    CHECK(last["type"] == "stream_closed");
    CHECK(last["code"] == "storage_failed");
    CHECK(last["detail"].get<std::string>().find("The turn has begun") != std::string::npos);
    while (!api.get(id)["openTurn"].is_null())
        REQUIRE(std::chrono::steady_clock::now() < until);
    const Turn turn = summarise(api.events(id, last["after"]));
    CHECK(turn.output == std::string(64 << 10, 'x'));
    CHECK(turn.events.back()["type"] == "done");
}

}  // namespace full_disk_test
