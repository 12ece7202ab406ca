// The main job: a conversation, its sandbox, its agent's events, over HTTP.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>

#include "tests/support/api_client.hpp"

namespace conversation_test {

using namespace atl::test;

TEST_CASE("A message runs in the conversation's sandbox and its events stream back in order") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"metadata", {{"ticket", 7}}}, {"userId", "u1"}});
    CHECK(made["status"] == "active");
    CHECK(made["sandboxStatus"] == "ready");
    CHECK(made["sandboxPublicUrl"].get<std::string>().starts_with("http://localhost:3"));
    CHECK(made["metadata"]["ticket"] == 7);
    CHECK(made["lastSeq"] == 2);
    const std::string id = made["id"];

    const Turn turn = api.message(id, "echo one; echo two >&2; pwd; exit 3");
    std::map<std::string, std::string> output;  // by stream: no order holds between two pipes
    for (const auto& event : turn.events) {
        if (event["type"] == "text_delta")
            output[event["data"]["stream"]] += event["data"]["delta"].get<std::string>();
    }
    CHECK(output["stdout"] == "one\n/workspace\n");
    CHECK(output["stderr"] == "two\n");
    CHECK(turn.exit_code == 3);
    CHECK(types(turn.events).ends_with("turn_complete done"));
    std::uint64_t seq = 2;
    for (const auto& event : turn.events) {
        CHECK(event["seq"] == ++seq);
        CHECK(event["turn"] == "t1");
    }
    CHECK(types(api.events(id)).starts_with("session_start sandbox_ready turn_start text_delta"));
    CHECK(api.get(id)["lastSeq"] == seq);
}

TEST_CASE("Output arrives while the command still runs") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    HttpClient client = api.connect();
    client.open_stream("POST", "/v1/conversations/" + id + "/messages",
                       R"({"content":"mkfifo fifo; echo first; read -r line < fifo"})",
                       {{"Accept", "text/event-stream"}});
    REQUIRE(client.next_event());  // turn_start
    const auto first = client.next_event();
    REQUIRE(first);
    CHECK(Json::parse(first->data)["data"]["delta"] == "first\n");
    CHECK(api.call(409, "POST", "/v1/conversations/" + id + "/messages", R"({"content":"x"})")["code"] ==
          "turn_in_progress");
    api.call(200, "POST", "/v1/conversations/" + id + "/interrupt");
    const Turn turn = summarise(read_until(client, "done"));
    CHECK(turn.exit_code.value_or(0) == 130);
}

TEST_CASE("An interrupt that follows its message at once is not lost") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string target = "/v1/conversations/" + id;
    for (const std::size_t padding : {10UL, 10'000UL, 900'000UL}) {
        INFO(padding);
        const Json body = {{"content", "sleep 1000 # " + std::string(padding, 'x')}};
        const Json ticket = api.call(202, "POST", target + "/messages", body.dump(),
                                     {{"Idempotency-Key", "key" + std::to_string(padding)}});
        api.call(200, "POST", target + "/interrupt");
        HttpClient client = api.connect();
        client.open_stream("GET", target + "/events?after=" + ticket["after"].dump(), "",
                           {{"Accept", "text/event-stream"}});
        const Turn turn = summarise(read_until(client, "done"));
        CHECK(turn.errors.empty());
        CHECK(turn.exit_code.value_or(0) == 130);
    }
    CHECK(api.get(id)["generation"] == 1);
}

TEST_CASE("What one message leaves in the workspace the next one finds") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    CHECK(api.message(id, "echo kept > file; mkdir -p a/b").exit_code == 0);
    CHECK(api.message(id, "cat file; ls").output == "kept\na\nfile\n");
}

TEST_CASE("The echo agent answers with the message") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const std::string text = "quotes \" and \\ and \n and \xc3\xa4 and </script>";
    const Turn turn = api.message(id, text);
    CHECK(turn.output == text);
    CHECK(types(turn.events) == "turn_start text_delta done");
}

TEST_CASE("A message may be long, and a very long one too") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    for (const std::size_t bytes : {100'000U, 131'072U, 900'000U}) {
        const std::string padding(bytes, 'x');
        const Turn turn = api.message(id, ": " + padding + "\necho fine");
        CHECK(turn.output == "fine\n");
    }
}

TEST_CASE("A retried message with the same Idempotency-Key runs once") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string target = "/v1/conversations/" + id + "/messages";
    const HeaderList key{{"Idempotency-Key", "k-1"}};
    const std::string body = R"({"content":"echo run >> count; wc -l < count"})";
    const Json first = api.call(202, "POST", target, body, key);
    const Json again = api.call(202, "POST", target, body, key);
    CHECK(first == again);
    HttpClient client = api.connect();
    HeaderList streaming = key;
    streaming.emplace_back("Accept", "text/event-stream");
    client.open_stream("POST", target, body, streaming);
    CHECK(summarise(read_until(client, "done")).output == "1\n");
    CHECK_FALSE(client.next_event().has_value());
    client.open_stream("POST", target, body, streaming);
    CHECK(summarise(read_until(client, "done")).output == "1\n");
    CHECK(api.call(422, "POST", target, R"({"content":"other"})", key)["code"] == "idempotency_key_reused");
    CHECK(api.message(id, "cat count").output == "run\n");
}

TEST_CASE("A reader that reconnects with the last number it saw gets the rest, once") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    api.message(id, "for i in 1 2 3 4 5; do echo $i; done");
    const auto all = api.events(id);
    const std::string target = "/v1/conversations/" + id + "/events";
    const std::string epoch = "-" + api.get(id)["logEpoch"].get<std::string>();
    for (std::size_t seen = 0; seen < all.size(); ++seen) {
        HttpClient client = api.connect();
        client.open_stream(
            "GET", target, "",
            {{"Accept", "text/event-stream"}, {"Last-Event-ID", std::to_string(seen) + epoch}});
        for (std::size_t at = seen; at < all.size(); ++at) {
            const auto event = client.next_event();
            REQUIRE(event);
            CHECK(event->id == std::to_string(at + 1) + epoch);
            CHECK(Json::parse(event->data) == all[at]);
        }
    }
}

TEST_CASE("Several readers of one conversation see the same live events") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    std::vector<HttpClient> readers;
    for (int at = 0; at < 5; ++at) {
        readers.push_back(api.connect());
        readers.back().open_stream("GET", "/v1/conversations/" + id + "/events?after=2", "",
                                   {{"Accept", "text/event-stream"}});
    }
    api.message(id, "hello");
    api.message(id, "again");
    for (auto& reader : readers) {
        CHECK(types(read_until(reader, "done")) == "turn_start text_delta done");
        CHECK(types(read_until(reader, "done")) == "turn_start text_delta done");
    }
}

TEST_CASE("A paused conversation resumes with a message, on the same workspace, as a new generation") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    api.message(id, "echo kept > file");
    const Json paused = api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    CHECK(paused["status"] == "paused");
    CHECK(paused["statusReason"] == "user");
    CHECK(paused["sandboxStatus"] == "terminated");
    CHECK(api.message(id, "cat file").output == "kept\n");
    const Json resumed = api.get(id);
    CHECK(resumed["status"] == "active");
    CHECK(resumed["generation"] == 2);
    CHECK(resumed["sandboxId"] == paused["sandboxId"]);
    CHECK(types(api.events(id))
              .find("sandbox_terminated sandbox_paused turn_start sandbox_resumed text_delta") !=
          std::string::npos);
}

TEST_CASE("Deleting a conversation takes sandbox, workspace and log, and ends its readers") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string id = made["id"];
    const auto workspace = server.data_dir() / "workspaces" / made["sandboxId"].get<std::string>();
    const auto processes = open_pidfds(descendants(server.pid()));
    REQUIRE(std::filesystem::exists(workspace));
    HttpClient reader = api.connect();
    reader.open_stream("GET", "/v1/conversations/" + id + "/events", "", {{"Accept", "text/event-stream"}});
    HttpClient talker = api.connect();
    talker.open_stream("POST", "/v1/conversations/" + id + "/messages",
                       R"({"content":"sleep 1000 & sleep 1000"})", {{"Accept", "text/event-stream"}});
    api.remove(id);
    const Turn cut = summarise(read_until(talker, "done"));
    CHECK(cut.errors == std::vector<std::string>{"conversation_deleted"});
    const auto seen = read_until(reader, "sandbox_terminated");
    CHECK(types(seen).ends_with("error done sandbox_terminated"));
    const auto last_word = reader.next_event();
    REQUIRE(last_word.has_value());
    CHECK(last_word->event == "stream_closed");
    CHECK_FALSE(reader.next_event().has_value());
    CHECK_FALSE(std::filesystem::exists(workspace));
    CHECK(eventually([&] { return std::filesystem::is_empty(server.data_dir() / "trash"); }));
    CHECK(std::filesystem::is_empty(server.data_dir() / "run"));
    CHECK(api.call(404, "GET", "/v1/conversations/" + id)["code"] == "not_found");
    CHECK(api.call(404, "DELETE", "/v1/conversations/" + id)["code"] == "not_found");
}

TEST_CASE("A sandbox without a conversation is made, listed and removed") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.call(201, "POST", "/v1/sandboxes", R"({"metadata":{"for":"test"}})");
    const std::string id = made["id"];
    CHECK(api.call(200, "GET", "/v1/sandboxes/" + id)["status"] == "ready");
    CHECK(api.call(200, "GET", "/v1/sandboxes")["sandboxes"].size() == 1);
    const Json conversation = api.create();
    const std::string owned = conversation["sandboxId"];
    CHECK(api.call(409, "DELETE", "/v1/sandboxes/" + owned)["code"] == "sandbox_in_use");
    api.call(204, "DELETE", "/v1/sandboxes/" + id);
    api.call(404, "GET", "/v1/sandboxes/" + id);
}

TEST_CASE("An idle conversation is paused and one whose time is up ends") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string idle = api.create({{"idleSeconds", 1}})["id"];
    const std::string brief = api.create({{"ttlSeconds", 1}})["id"];
    CHECK(api.await_status(idle, "paused")["statusReason"] == "idle");
    const Json ended = api.await_status(brief, "ended");
    CHECK(api.call(409, "POST", "/v1/conversations/" + brief + "/messages", R"({"content":"x"})")["code"] ==
          "conversation_ended");
    api.remove(brief);
    CHECK(api.message(idle, "echo back").output == "back\n");
}

}  // namespace conversation_test
