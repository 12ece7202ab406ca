#include "http/api/forms.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/base/json_writer.hpp"
#include "http/access/limit_ceilings.hpp"
#include "http/api/network_form.hpp"
#include "http/api/openapi.hpp"
#include "http/api/views.hpp"

namespace forms_test {

using namespace atl::http;
using atl::base::Errc;
using atl::sandbox::LimitChanges;

namespace {

template <class Read>
Errc refusal(Read read, const std::string& text) {
    const auto body = parse_json(text);
    REQUIRE(body.has_value());
    const auto result = read(*body);
    INFO(text);
    REQUIRE(result.has_error());
    return result.error().code();
}

// A value that fits a property's type, so that only its name is at stake.
Json sample_of(const nlohmann::ordered_json& schema) {
    if (schema.contains("$ref")) {
        const std::string reference = schema["$ref"];
        return sample_of(component_schemas()[reference.substr(reference.rfind('/') + 1)]);
    }
    if (schema.contains("oneOf"))
        return sample_of(schema["oneOf"][0]);
    // The first of several types.
    const auto type = schema.value("type", nlohmann::ordered_json());
    const std::string first = type.is_array() ? type[0] : type.is_string() ? type : "";
    if (first == "object")
        return Json::object();
    if (schema.contains("enum"))
        return Json(schema["enum"][0].get<std::string>());
    if (first == "integer")
        return Json(schema["minimum"].get<std::uint64_t>());
    return Json("text");
}

template <class Read>
void check_against_schema(Read read, const std::string& name) {
    const auto schema = component_schemas()[name];
    Json body = Json::object();
    for (const auto& [property, rule] : schema["properties"].items())
        body[property] = sample_of(rule);
    INFO(name << ": " << body.dump());
    CHECK(read(body).has_value());
    body["surprise"] = 1;
    CHECK(read(body).error().code() == Errc::unknown_field);
}

// The forms as functions of the body alone, without ceilings.
constexpr auto create_form = [](const Json& body) { return read_create_form(body); };
constexpr auto patch_form = [](const Json& body) { return read_patch_form(body); };
constexpr auto sandbox_form = [](const Json& body) { return read_sandbox_form(body); };

}  // namespace

TEST_CASE("the forms know exactly the fields that the schemas tell") {
    check_against_schema(create_form, "CreateConversation");
    check_against_schema(patch_form, "PatchConversation");
    check_against_schema(sandbox_form, "CreateSandbox");
    check_against_schema(read_message_form, "PostMessage");
    check_against_schema(read_pause_form, "PauseConversation");
}

TEST_CASE("a pause is cold unless it asks to be warm") {
    const auto mode = [](const char* text) { return *read_pause_form(*parse_json(text)); };
    CHECK(mode("{}") == atl::conversation::PauseMode::cold);
    CHECK(mode(R"({"mode":"cold"})") == atl::conversation::PauseMode::cold);
    CHECK(mode(R"({"mode":"warm"})") == atl::conversation::PauseMode::warm);
    for (const char* text : {R"({"mode":"hot"})", R"({"mode":1})", R"({"mode":""})", R"([])"})
        CHECK(refusal(read_pause_form, text) == Errc::invalid_field);
}

TEST_CASE("a create request is read whole") {
    const auto body = parse_json(R"({"agent":"echo","userId":"u1","metadata":{"a":[1]},"env":{"A":"1"},
        "limits":{"memoryMb":64},"network":"host","idleSeconds":0,"ttlSeconds":60})");
    const auto request = read_create_form(*body);
    REQUIRE(request.has_value());
    CHECK(request->agent == "echo");
    CHECK(request->user_id == "u1");
    CHECK(request->metadata == R"({"a":[1]})");
    CHECK(request->env == atl::sandbox::Environment{{"A", "1"}});
    CHECK(request->limits.memory_mb == 64);
    CHECK(request->limits.cpu_percent == atl::sandbox::Limits().cpu_percent);
    CHECK(request->network.mode == atl::sandbox::NetworkMode::host);
    CHECK(request->idle_seconds == 0U);
    CHECK(request->ttl_seconds == 60U);
    const auto empty = read_create_form(Json::object());
    REQUIRE(empty.has_value());
    CHECK(empty->agent.empty());
    CHECK(empty->metadata == "{}");
    CHECK_FALSE(empty->idle_seconds);
}

TEST_CASE("a member that nobody knows is told before one that is missing") {
    for (const char* text : {R"({"prompt":"x"})", R"({"message":"x"})"})
        CHECK(refusal(read_message_form, text) == Errc::unknown_field);
    CHECK(refusal(read_message_form, "{}") == Errc::invalid_field);
    CHECK(refusal(read_message_form, R"({"content":1,"prompt":"x"})") == Errc::invalid_field);
}

TEST_CASE("what a request does not name of its preview is as the server's default") {
    atl::sandbox::PreviewSettings defaults;
    defaults.ports = {3000};
    const auto ports = [&](const char* text) {
        return read_create_form(*parse_json(text), {}, {}, defaults)->preview.ports;
    };
    CHECK(ports("{}") == std::vector<std::uint16_t>{3000});
    CHECK(ports(R"({"preview":{"access":"private"}})") == std::vector<std::uint16_t>{3000});
    CHECK(ports(R"({"preview":{"ports":[8080]}})") == std::vector<std::uint16_t>{8080});
    CHECK(read_sandbox_form(Json::object(), {}, {}, defaults)->preview.ports ==
          std::vector<std::uint16_t>{3000});
}

TEST_CASE("a network is a word or an object") {
    using atl::sandbox::NetworkMode;
    const auto network = [](const char* text) {
        return *read_patch_form(*parse_json(std::string(R"({"network":)") + text + "}")).value().network;
    };
    CHECK(network(R"("none")").mode == NetworkMode::none);
    CHECK(network(R"({"mode":"host"})").mode == NetworkMode::host);
    const auto listed = network(R"({"mode":"egress","allow":["a.example","@group"]})");
    CHECK(listed.mode == NetworkMode::egress);
    CHECK(listed.egress.allow == std::vector<std::string>{"a.example", "@group"});
    CHECK(network(R"({"mode":"egress","allow":["A.Example.:443","a.example:443"]})").egress.allow ==
          std::vector<std::string>{"a.example:443"});
    CHECK(network(R"({"mode":"egress"})").egress.allow.empty());
    CHECK_FALSE(network(R"({"mode":"egress"})").egress.ask);
    CHECK(network(R"({"mode":"egress","ask":true})").egress.ask);
    CHECK_FALSE(read_patch_form(Json::object())->network);
    for (const char* text :
         {R"("egress")", R"({"allow":[]})", R"({"mode":"moon"})", R"({"mode":"none","allow":[]})",
          R"({"mode":"egress","allow":"a"})", R"({"mode":"egress","allow":[1]})",
          R"({"mode":"egress","allow":[""]})", R"({"mode":"egress","allow":["127.1"]})",
          R"({"mode":"egress","allow":[{"host":"a.example"}]})", R"({"mode":"none","routes":[]})",
          R"({"mode":"egress","ask":1})", R"({"mode":"none","ask":true})", "[]"}) {
        INFO(text);
        CHECK(read_patch_form(*parse_json(std::string(R"({"network":)") + text + "}")).has_error());
    }
}

TEST_CASE("a rule that sets headers is read in normal form, and shown in its place among the others") {
    const auto read = [](const std::string& rules) {
        return read_patch_form(*parse_json(R"({"network":{"mode":"egress","allow":[)" + rules + "]}}"));
    };
    const auto form =
        read(R"("b.example",{"host":"A.example.","headers":{"x-api-key":{"secret":"mine"}},)"
             R"("methods":["GET"],"paths":["/x/*"]},"@group",{"host":"c.example:8443","headers":{}})");
    REQUIRE(form.has_value());
    const auto& network = *form->network;
    CHECK(network.egress.allow ==
          std::vector<std::string>{"b.example", "a.example:443", "@group", "c.example:8443"});
    REQUIRE(network.egress.hosts.size() == 2);
    CHECK(network.egress.hosts[0].name == "a.example:443");
    CHECK(network.egress.hosts[0].upstream == "https://a.example");
    CHECK(network.egress.hosts[1].upstream == "https://c.example:8443");
    std::string text;
    atl::base::JsonWriter json(text);
    write_network(json, network);
    CHECK(*parse_json(text) ==
          *parse_json(R"({"mode":"egress","allow":["b.example",{"host":"a.example:443","headers":)"
                      R"({"x-api-key":{"secret":"mine"}},"methods":["GET"],"paths":["/x/*"]},"@group",)"
                      R"({"host":"c.example:8443","headers":{}}],"routes":[],"ask":false})"));
    // The text that is shown is read as the same.
    const auto again = read_patch_form(*parse_json(R"({"network":)" + text + "}"));
    REQUIRE(again.has_value());
    CHECK(again->network->egress == network.egress);
    for (const char* rule :
         {"{}", R"({"host":"a.example"})", R"({"host":"*.a.example","headers":{}})",
          R"({"host":"192.0.2.1","headers":{}})", R"({"host":"a.example:443/tcp","headers":{}})",
          R"({"host":"@group","headers":{}})", R"({"host":"https://a.example","headers":{}})",
          R"({"host":"a.example","headers":{"Host":"x"}})",
          R"({"host":"a.example","headers":{"x":{"env":"HOME"}}})",
          R"({"host":"a.example","headers":{},"upstream":"https://b.example"})",
          R"({"host":"a.example","headers":{}},{"host":"a.example:443","headers":{}})"}) {
        INFO(rule);
        CHECK(read(rule).has_error());
    }
}

TEST_CASE("a sandbox without a conversation has nobody to ask about hosts") {
    const auto asking = *parse_json(R"({"network":{"mode":"egress","ask":true}})");
    const auto silent = *parse_json(R"({"network":{"mode":"egress","ask":false}})");
    for (const auto& refused : {read_sandbox_form(asking).error(), read_sandbox_patch_form(asking).error()}) {
        CHECK(refused.code() == atl::base::Errc::invalid_field);
        CHECK(refused.detail().find("`network.ask`") != std::string::npos);
    }
    CHECK(read_sandbox_form(silent).has_value());
    CHECK(read_sandbox_patch_form(silent).has_value());
    CHECK(read_create_form(asking).has_value());
}

TEST_CASE("routes are read in normal form, and shown as they were read, without values of secrets") {
    const auto read = [](const std::string& routes) {
        return read_patch_form(*parse_json(R"({"network":{"mode":"egress","routes":[)" + routes + "]}}"));
    };
    const auto form =
        read(R"({"name":"m","upstream":"https://A.example:443/v1/","headers":{"x-api-key":{"secret":"mine"},)"
             R"("Authorization":{"secret":"mine","prefix":"Bearer "},"X-Team":"red"},)"
             R"("methods":["GET"],"paths":["/x","/y/*"],"git":true})");
    REQUIRE(form.has_value());
    const auto& network = *form->network;
    REQUIRE(network.egress.routes.size() == 1);
    CHECK(network.egress.routes[0].upstream == "https://a.example/v1");
    std::string text;
    atl::base::JsonWriter json(text);
    write_network(json, network);
    CHECK(
        *parse_json(text) ==
        *parse_json(
            R"({"mode":"egress","allow":[],"routes":[{"name":"m","upstream":"https://a.example/v1",)"
            R"("headers":{"Authorization":{"secret":"mine","prefix":"Bearer "},"X-Team":"red",)"
            R"("x-api-key":{"secret":"mine"}},"methods":["GET"],"paths":["/x","/y/*"],"git":true}],"ask":false})"));
    CHECK(read("").has_value());
    for (const char* route :
         {"1", "{}", R"({"name":"m"})", R"({"name":"m/n","upstream":"https://a.example"})",
          R"({"name":"m","upstream":"a.example"})", R"({"name":"m","upstream":"https://a.example/../x"})",
          R"({"name":"m","upstream":"https://a.example","headers":{"Host":"x"}})",
          R"({"name":"m","upstream":"https://a.example","headers":{"x":1}})",
          R"({"name":"m","upstream":"https://a.example","headers":{"x":{}}})",
          R"({"name":"m","upstream":"https://a.example","headers":{"x":{"env":"HOME"}}})",
          R"({"name":"m","upstream":"https://a.example","headers":{"x":"a\r\nb"}})",
          R"({"name":"m","upstream":"https://a.example","headers":{"x":"1","X":"2"}})",
          R"({"name":"m","upstream":"https://a.example","methods":["TRACE"]})",
          R"({"name":"m","upstream":"https://a.example","paths":["x"]})",
          R"({"name":"m","upstream":"https://a.example","more":1})",
          R"({"name":"m","upstream":"https://a.example"},{"name":"m","upstream":"https://b.example"})"}) {
        INFO(route);
        CHECK(read(route).has_error());
    }
}

TEST_CASE("limits that a create request does not name are the server's defaults") {
    atl::sandbox::Limits defaults;
    defaults.max_sockets = 100;
    defaults.max_open_files = 200;
    const auto request = read_create_form(*parse_json(R"({"limits":{"maxOpenFiles":300}})"), {}, defaults);
    REQUIRE(request.has_value());
    CHECK(request->limits.max_sockets == 100);
    CHECK(request->limits.max_open_files == 300);
    CHECK(read_sandbox_form(Json::object(), {}, defaults)->limits == defaults);
    LimitChanges ceilings;
    ceilings.max_sockets = 50;
    CHECK(read_sandbox_form(Json::object(), ceilings, defaults)->limits.max_sockets == 50);
}

TEST_CASE("a create request of another form is refused and names the field") {
    for (const char* text : {R"([])",
                             R"("x")",
                             R"({"agent":1})",
                             R"({"agent":""})",
                             R"({"userId":null})",
                             R"({"metadata":[]})",
                             R"({"metadata":"{}"})",
                             R"({"env":{"A":1}})",
                             R"({"env":[]})",
                             R"({"limits":1})",
                             R"({"limits":{"memoryMb":15}})",
                             R"({"limits":{"memoryMb":1048577}})",
                             R"({"limits":{"memoryMb":"64"}})",
                             R"({"limits":{"cpuPercent":0}})",
                             R"({"limits":{"cpuPercent":6401}})",
                             R"({"limits":{"diskMb":0}})",
                             R"({"limits":{"tmpMb":0}})",
                             R"({"limits":{"maxProcesses":0}})",
                             R"({"limits":{"maxSockets":15}})",
                             R"({"limits":{"maxSockets":1048577}})",
                             R"({"limits":{"maxOpenFiles":63}})",
                             R"({"limits":{"maxOpenFiles":true}})",
                             R"({"network":"bridge"})",
                             R"({"network":true})",
                             R"({"idleSeconds":-1})",
                             R"({"idleSeconds":1.5})",
                             R"({"ttlSeconds":1000000001})"})
        CHECK(refusal(create_form, text) == Errc::invalid_field);
    CHECK(refusal(create_form, R"({"limits":{"memoryMB":64}})") == Errc::unknown_field);
    CHECK(refusal(create_form, R"({"userid":"x"})") == Errc::unknown_field);
    const auto body = parse_json(R"({"limits":{"memoryMb":1}})");
    CHECK(read_create_form(*body).error().detail() ==
          "`limits.memoryMb` must be an integer from 16 to 1048576.");
}

TEST_CASE("sizes of user ids and metadata are bounded") {
    Json body;
    body["userId"] = std::string(atl::base::k_max_user_id_bytes, 'u');
    CHECK(read_create_form(body).has_value());
    body["userId"] = std::string(atl::base::k_max_user_id_bytes + 1, 'u');
    CHECK_FALSE(read_create_form(body).has_value());
    Json large;
    large["metadata"]["a"] = std::string(atl::base::k_max_metadata_bytes, 'm');
    CHECK_FALSE(read_create_form(large).has_value());
}

TEST_CASE("a patch changes only the limits that it names") {
    const auto body = parse_json(R"({"limits":{"diskMb":5}})");
    const auto form = read_patch_form(*body);
    REQUIRE(form.has_value());
    REQUIRE(form->limits);
    atl::sandbox::Limits before;
    before.memory_mb = 99;
    const auto after = form->limits->applied_to(before);
    CHECK(after.memory_mb == 99);
    CHECK(after.disk_mb == 5);
    CHECK_FALSE(form->metadata);
}

TEST_CASE("the rule of the tools is on, off, or as it was, and nothing else") {
    const auto created = [](const char* text) {
        return read_create_form(*parse_json(text)).value().tools.read_before_edit;
    };
    CHECK(created(R"({"tools":{"readBeforeEdit":true}})"));
    CHECK_FALSE(created(R"({"tools":{"readBeforeEdit":false}})"));
    CHECK_FALSE(created(R"({"tools":{}})"));
    CHECK_FALSE(created("{}"));
    const auto patched = [](const char* text) {
        return read_patch_form(*parse_json(text)).value().tools.read_before_edit;
    };
    CHECK(patched(R"({"tools":{"readBeforeEdit":true}})") == true);
    CHECK(patched(R"({"tools":{"readBeforeEdit":false}})") == false);
    CHECK_FALSE(patched(R"({"tools":{}})"));
    CHECK_FALSE(patched("{}"));
    CHECK(read_create_form(*parse_json("{}"))->tools.run_command);
    CHECK_FALSE(read_create_form(*parse_json(R"({"tools":{"runCommand":false}})"))->tools.run_command);
    const auto change = read_patch_form(*parse_json(R"({"tools":{"runCommand":false}})"))->tools;
    CHECK(change.applied_to({.read_before_edit = true}) ==
          atl::conversation::ToolSettings{.read_before_edit = true, .run_command = false});
    for (const char* text : {R"({"tools":true})", R"({"tools":{"readBeforeEdit":"yes"}})",
                             R"({"tools":{"readBeforeEdit":1}})", R"({"tools":{"readBeforeEdit":null}})"}) {
        CHECK(refusal(create_form, text) == Errc::invalid_field);
        CHECK(refusal(patch_form, text) == Errc::invalid_field);
    }
    CHECK(refusal(create_form, R"({"tools":{"writeBeforeEdit":true}})") == Errc::unknown_field);
    CHECK(refusal(sandbox_form, R"({"tools":{"writeBeforeEdit":true}})") == Errc::unknown_field);
    CHECK_FALSE(read_sandbox_form(*parse_json(R"({"tools":{"runCommand":false}})"))->tools.run_command);
    CHECK(read_sandbox_patch_form(*parse_json(R"({"tools":{"runCommand":true}})"))->tools.run_command ==
          true);
}

TEST_CASE("a preview is public, of one port and wakes nobody unless it says so; a private one wakes") {
    using atl::sandbox::PreviewSettings;
    const auto created = [](const std::string& preview) {
        return read_create_form(*parse_json(R"({"preview":)" + preview + "}")).value().preview;
    };
    const PreviewSettings usual = read_create_form(*parse_json("{}")).value().preview;
    CHECK(usual.ports == std::vector<std::uint16_t>{5173});
    CHECK_FALSE(usual.is_private());
    CHECK_FALSE(usual.wakes());
    CHECK(created("{}") == usual);
    CHECK(created(R"({"access":"private"})").wakes());
    CHECK_FALSE(created(R"({"access":"private","wake":false})").wakes());
    CHECK(created(R"({"wake":true})").wakes());
    CHECK(created(R"({"ports":[3000,65535,1]})").ports == std::vector<std::uint16_t>{3000, 65535, 1});
    CHECK(read_sandbox_form(*parse_json(R"({"preview":{"access":"private"}})")).value().preview.is_private());
    // A setting that a change does not name stays.
    const auto change = read_patch_form(*parse_json(R"({"preview":{"access":"private"}})")).value().preview;
    const PreviewSettings changed = change.applied_to(created(R"({"ports":[80]})"));
    CHECK(changed.is_private());
    CHECK(changed.wakes());
    CHECK(changed.ports == std::vector<std::uint16_t>{80});
    CHECK(read_patch_form(*parse_json("{}")).value().preview.applied_to(changed) == changed);

    std::string many = "[1";
    for (int port = 2; port <= 33; ++port)
        many += "," + std::to_string(port);
    for (const std::string& wrong :
         {std::string("true"), std::string("[]"), std::string(R"({"access":"nobody"})"),
          std::string(R"({"access":null})"), std::string(R"({"wake":1})"), std::string(R"({"ports":[]})"),
          std::string(R"({"ports":5173})"), std::string(R"({"ports":[0]})"),
          std::string(R"({"ports":[65536]})"), std::string(R"({"ports":[-1]})"),
          std::string(R"({"ports":[1.5]})"), std::string(R"({"ports":["80"]})"),
          std::string(R"({"ports":[80,80]})"), R"({"ports":)" + many + "]}"}) {
        const std::string body = R"({"preview":)" + wrong + "}";
        CHECK(refusal(create_form, body) == Errc::invalid_field);
        CHECK(refusal(patch_form, body) == Errc::invalid_field);
        CHECK(refusal(sandbox_form, body) == Errc::invalid_field);
    }
    CHECK(refusal(create_form, R"({"preview":{"port":80}})") == Errc::unknown_field);
}

TEST_CASE("a message is a string or text parts") {
    const auto read = [](const char* text) { return read_message_form(*parse_json(text)); };
    CHECK(read(R"({"content":"hi"})").value() == "hi");
    CHECK(read(R"({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})").value() == "a\nb");
    for (const char* text :
         {R"({})", R"({"content":1})", R"({"content":null})", R"({"content":[]})", R"({"content":""})",
          R"({"content":"a\u0000b"})", R"({"content":["a"]})", R"({"content":[{"type":"image","text":"a"}]})",
          R"({"content":[{"type":"text"}]})", R"({"content":[{"text":"a"}]})",
          R"({"content":[{"type":"text","text":1}]})"})
        CHECK(refusal(read_message_form, text) == Errc::invalid_field);
    CHECK(refusal(read_message_form, R"({"content":[{"type":"text","text":"a","x":1}]})") ==
          Errc::unknown_field);
    CHECK(refusal(read_message_form, R"({"content":"a","role":"user"})") == Errc::unknown_field);
    const auto frame = [](const char* text) {
        return read_client_frame(*parse_json(text)).error().pointer();
    };
    CHECK(frame(R"({"message":"x"})") == "/message");
    CHECK(frame(R"({"content":"x"})") == "/type");
}

TEST_CASE("a limit above its ceiling is refused by name, and one that is not named is no higher") {
    LimitChanges ceilings;
    ceilings.memory_mb = 512;
    ceilings.max_processes = 4000;
    const auto read = [&](const std::string& text) { return read_create_form(*parse_json(text), ceilings); };
    CHECK(read("{}")->limits.memory_mb == 512);
    CHECK(read("{}")->limits.max_processes == atl::sandbox::Limits().max_processes);
    CHECK(read(R"({"limits":{"memoryMb":512,"maxProcesses":4000,"diskMb":1048576}})").has_value());
    for (const char* text :
         {R"({"limits":{"memoryMb":513}})", R"({"limits":{"diskMb":1,"memoryMb":1048576}})"}) {
        const auto refused = read(text);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == Errc::limit_not_allowed);
        CHECK(refused.error().detail().find("`limits.memoryMb`") != std::string::npos);
        CHECK(refused.error().detail().find("512") != std::string::npos);
        CHECK(read_patch_form(*parse_json(text), ceilings).error().code() == Errc::limit_not_allowed);
        CHECK(read_sandbox_form(*parse_json(text), ceilings).error().code() == Errc::limit_not_allowed);
    }
    // A change of another limit keeps the stored value.
    const auto patch = read_patch_form(*parse_json(R"({"limits":{"maxProcesses":9}})"), ceilings);
    atl::sandbox::Limits stored;
    stored.memory_mb = 100'000;
    CHECK(patch->limits->applied_to(stored).memory_mb == 100'000);
}

TEST_CASE("ceilings are the lower of the server's and the key's, and a user's key has some without either") {
    Principal key;
    LimitChanges server;
    CHECK(ceilings_for(key, server) == LimitChanges{});
    key.user_id = "ann";
    CHECK(ceilings_for(key, server).memory_mb == 8192);
    CHECK(ceilings_for(key, server).max_processes == 1024);
    key.ceilings.memory_mb = 100'000;
    CHECK(ceilings_for(key, server).memory_mb == 100'000);
    server.memory_mb = 20'000;
    server.disk_mb = 7;
    CHECK(ceilings_for(key, server).memory_mb == 20'000);
    CHECK(ceilings_for(key, server).disk_mb == 7);
    key.ceilings.memory_mb = 64;
    CHECK(ceilings_for(key, server).memory_mb == 64);
    key.user_id.reset();
    CHECK(ceilings_for(key, server).cpu_percent == std::nullopt);
}

TEST_CASE("every limit of the table can be named by a request within its range, and is shown by its name") {
    for (const atl::sandbox::LimitEntry& limit : atl::sandbox::k_limit_table) {
        const auto read = [&](std::uint64_t value) {
            return read_patch_form({{"limits", {{limit.api, value}}}});
        };
        INFO(limit.api);
        for (const std::uint32_t value : {limit.least, limit.most})
            CHECK(read(value)->limits.value().*limit.change == value);
        CHECK(read(limit.least - 1).has_error());
        CHECK(read(limit.most + 1ULL).has_error());
        atl::conversation::Manager::SandboxView view;
        view.record.limits.*limit.value = limit.most;
        const auto shown = parse_json(sandbox_json(view, {}));
        CHECK(shown->at("limits").at(std::string(limit.api)) == limit.most);
    }
}

}  // namespace forms_test
