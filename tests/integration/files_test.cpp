// Files in and out of a sandbox over HTTP.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <sstream>

#include "tests/integration/guest_processes.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/resident_memory.hpp"

namespace integration_files_test {

using namespace atl::test;

namespace {

/// A server with one conversation and its files.
struct FilesLab {
    ServerProcess server;
    ApiClient api{server};
    Json conversation = api.create();
    std::string id = conversation["id"];
    std::string sandbox_id = conversation["sandboxId"];
    HttpClient client = api.connect();

    std::string url(const std::string& path) const {
        return "/v1/sandboxes/" + sandbox_id + "/files/" + path;
    }
    HttpResponse get(const std::string& path, const HeaderList& headers = {}) {
        return client.request("GET", url(path), "", headers);
    }
    HttpResponse put(const std::string& path, std::string_view bytes, HeaderList headers = {}) {
        headers.emplace_back("Content-Type", "application/octet-stream");
        return client.request("PUT", url(path), bytes, headers);
    }
    HttpResponse post(const std::string& path, const Json& body) {
        return client.request("POST", url(path), body.dump());
    }
    HttpResponse remove(const std::string& path) { return client.request("DELETE", url(path)); }
    /// The output of a command in the sandbox.
    std::string run(const std::string& command) { return api.message(id, command).output; }
    std::string listed(const std::string& path) {
        std::string joined;
        const Json page = Json::parse(get(path + "?list=1&depth=9&limit=1000").body);
        for (const Json& entry : page["entries"])
            joined += (joined.empty() ? "" : " ") + entry["path"].get<std::string>();
        return joined;
    }
};

}  // namespace

TEST_CASE("A file goes in and out of a sandbox and is there for its commands") {
    FilesLab lab;
    const std::string bytes("a\0\xff\r\n", 5);
    const auto made = lab.put("dir/in.bin", bytes);
    CHECK(made.status == 201);
    const Json entry = Json::parse(made.body);
    CHECK(entry["path"] == "dir/in.bin");
    CHECK(entry["size"] == 5);
    CHECK(made.header("etag") == entry["etag"].get<std::string>());
    CHECK(lab.run("stat -c '%a %u %s' dir/in.bin") == "644 1000 5\n");
    const auto got = lab.get("dir/in.bin");
    CHECK(got.status == 200);
    CHECK(got.body == bytes);
    CHECK(got.header("content-length") == "5");
    CHECK(got.header("etag") == made.header("etag"));
    CHECK(got.header("accept-ranges") == "bytes");
    CHECK(got.header("content-type") == "application/octet-stream");
    CHECK(got.header("x-content-type-options") == "nosniff");
    CHECK(got.header("content-security-policy") == "sandbox; default-src 'none'");
    CHECK(got.header("cross-origin-resource-policy") == "same-origin");
    CHECK(got.header("content-disposition") == "attachment; filename=\"in.bin\"");
    CHECK(lab.put("dir/in.bin?mode=0700", "#!").status == 200);
    CHECK(lab.run("stat -c %a dir/in.bin") == "700\n");
    CHECK(lab.run("echo from inside > out").empty());
    CHECK(lab.get("out").body == "from inside\n");
    CHECK(Json::parse(lab.get("out?stat=1").body)["type"] == "file");
    CHECK(lab.listed("") == "dir dir/in.bin out");
}

TEST_CASE(
    "What HOME holds of caches is left out of a list and an archive, which say so, unless all is asked for") {
    FilesLab lab;
    lab.run("mkdir -p .npm .cache .local; touch .npm/x .cache/x .local/x .bash_history mine");
    const Json page = Json::parse(lab.get("?list=1").body);
    CHECK(page["entries"].size() == 1);
    CHECK(page["hidden"] == 4);
    CHECK(Json::parse(lab.get("?list=1&all=1").body)["entries"].size() == 5);
    CHECK(lab.get("?list=1&all=yes").status == 422);
    const std::string archive = "/v1/sandboxes/" + lab.sandbox_id + "/archive";
    const auto packed = lab.client.request("GET", archive, "");
    CHECK(packed.header("atoll-left-out") == ".bash_history, .cache, .local, .npm");
    CHECK(packed.body.find(".npm/x") == std::string::npos);
    const auto whole = lab.client.request("GET", archive + "?all=1", "");
    CHECK(whole.header("atoll-left-out").empty());
    CHECK(whole.body.find(".npm/x") != std::string::npos);
}

TEST_CASE("HEAD, ranges and conditions of a file are as HTTP has them") {
    FilesLab lab;
    const std::string tag = lab.put("f.txt", "0123456789").header("etag");
    lab.client.send_raw("HEAD " + lab.url("f.txt") + " HTTP/1.1\r\nHost: " + lab.server.address() +
                        "\r\nX-API-Key: " + lab.server.key() + "\r\n\r\n");
    const auto head = lab.client.read_response(HttpClient::Body::none);
    CHECK(head.status == 200);
    CHECK(head.header("content-length") == "10");
    CHECK(head.header("etag") == tag);
    const auto part = lab.get("f.txt", {{"Range", "bytes=2-4"}});
    CHECK(part.status == 206);
    CHECK(part.body == "234");
    CHECK(part.header("content-range") == "bytes 2-4/10");
    CHECK(lab.get("f.txt", {{"Range", "bytes=-3"}}).body == "789");
    const auto behind = lab.get("f.txt", {{"Range", "bytes=10-"}});
    CHECK(behind.status == 416);
    CHECK(behind.header("content-range") == "bytes */10");
    CHECK(behind.header("content-type") == "application/problem+json");
    CHECK(Json::parse(behind.body)["code"] == "range_not_satisfiable");
    CHECK(lab.get("f.txt", {{"Range", "bytes=0-1"}, {"If-Range", tag}}).body == "01");
    CHECK(lab.get("f.txt", {{"Range", "bytes=0-1"}, {"If-Range", "\"other\""}}).body == "0123456789");
    const auto unchanged = lab.get("f.txt", {{"If-None-Match", "\"x\", W/" + tag}});
    CHECK(unchanged.status == 304);
    CHECK(unchanged.header("etag") == tag);
    CHECK(lab.get("f.txt", {{"If-None-Match", "\"x\""}}).status == 200);
    CHECK(lab.get("f.txt", {{"If-Match", "\"x\""}}).status == 412);
    CHECK(lab.get("f.txt?inline=1").header("content-disposition") == "inline; filename=\"f.txt\"");
    CHECK(lab.put("f.txt", "x", {{"If-None-Match", "*"}}).status == 412);
    CHECK(lab.put("f.txt", "x", {{"If-Match", "\"other\""}}).status == 412);
    CHECK(lab.get("f.txt").body == "0123456789");
    CHECK(lab.put("f.txt", "new", {{"If-Match", tag}}).status == 200);
    CHECK(lab.put("f.txt", "stale", {{"If-Match", tag}}).status == 412);
}

TEST_CASE("A range of a file that grows all the time is there") {
    FilesLab lab;
    REQUIRE(lab.put("log", "0123456789").status == 201);
    lab.api.call(201, "POST", "/v1/sandboxes/" + lab.sandbox_id + "/processes",
                 R"({"command":"touch begun; while :; do echo line; done >> log"})");
    REQUIRE(eventually([&] { return lab.get("begun?stat=1").status == 200; }));
    for (int i = 0; i < 20; ++i) {
        const auto part = lab.get("log", {{"Range", "bytes=2-4"}});
        CHECK(part.status == 206);
        CHECK(part.body == "234");
        const auto end = lab.get("log", {{"Range", "bytes=-5"}});
        CHECK(end.status == 206);
        CHECK(end.body.size() == 5);
    }
    CHECK(lab.run("until test $(stat -c %s log) -gt 10; do sleep 0.05; done; echo grew") == "grew\n");
}

TEST_CASE("Conditions hold for what removes and moves a file, and several lines are one list") {
    FilesLab lab;
    REQUIRE(lab.put("f.txt", "text").status == 201);
    const auto stat = lab.get("f.txt?stat=1");
    CHECK(stat.header("content-disposition").starts_with("attachment"));
    const std::string tag = Json::parse(stat.body)["etag"];
    const HeaderList stale = {{"If-Match", "\"other\""}};
    const HeaderList lines = {{"If-Match", "\"other\""}, {"If-Match", tag}};
    const HeaderList dated = {{"If-Unmodified-Since", "Thu, 01 Jan 2026 00:00:00 GMT"}};
    const std::string move = R"({"op":"move","to":"new/g.txt"})";
    CHECK(lab.client.request("DELETE", lab.url("f.txt"), "", stale).status == 412);
    CHECK(lab.client.request("POST", lab.url("f.txt"), move, stale).status == 412);
    CHECK(lab.client.request("DELETE", lab.url("f.txt"), "", dated).status == 400);
    CHECK(lab.put("f.txt", "x", dated).status == 400);
    CHECK(lab.put("f.txt", "x", {{"If-Match", ""}}).status == 412);
    // Any bytes may be between the quotes of a tag.
    CHECK(lab.put("f.txt", "x", {{"If-Match", "\"\xff\""}}).status == 412);
    CHECK(lab.get("f.txt", {{"Range", "bytes=1-2"}, {"If-Range", "\"\xff\""}}).body == "text");
    CHECK(lab.listed("") == "f.txt");
    CHECK(lab.get("f.txt", lines).body == "text");
    CHECK(lab.client.request("POST", lab.url("f.txt"), move, lines).status == 200);
    CHECK(lab.client.request("DELETE", lab.url("new/g.txt"), "", {{"If-Match", "*"}}).status == 204);
}

TEST_CASE("A list goes on only behind a path of its own") {
    FilesLab lab;
    for (const char* const path : {"a/1", "a/2", "b/1"})
        REQUIRE(lab.put(path, "").status == 201);
    CHECK(lab.get("a?list=1&cursor=a/1").status == 200);
    CHECK(lab.get("a/?list=1&cursor=a/1").status == 200);
    CHECK(lab.get("?list=1&cursor=a").status == 200);
    for (const char* const path :
         {"a?list=1&cursor=b/1", "a?list=1&cursor=a/", "a?list=1&cursor=1", "?list=1&cursor="})
        CHECK(lab.get(path).status == 422);
    CHECK(lab.get("a?list=1").header("content-disposition").starts_with("attachment"));
}

TEST_CASE("Names are changed, and what is refused says why") {
    FilesLab lab;
    CHECK(lab.post("a/b", {{"op", "mkdir"}}).status == 201);
    const auto again = lab.post("a/b", {{"op", "mkdir"}});
    CHECK(again.status == 200);
    CHECK(Json::parse(again.body)["type"] == "directory");
    REQUIRE(lab.put("a/f", "text").status == 201);
    CHECK(code_of(lab.post("a/f", {{"op", "mkdir"}})) == "already_exists");
    CHECK(lab.post("a/f", {{"op", "copy"}, {"to", "/workspace/c/g"}}).status == 201);
    CHECK(lab.post("c/g", {{"op", "move"}, {"to", "h"}}).status == 200);
    REQUIRE(lab.put("h", "other").status == 200);
    for (const char* const op : {"move", "copy"}) {
        const auto refused = lab.post("h", {{"op", op}, {"to", "a/f"}});
        CHECK(refused.status == 409);
        CHECK(code_of(refused) == "already_exists");
        CHECK(lab.get("a/f").body == "text");
    }
    CHECK(lab.post("h", {{"op", "copy"}, {"to", "a/f"}, {"overwrite", true}}).status == 201);
    CHECK(lab.get("a/f").body == "other");
    CHECK(lab.listed("") == "a a/b a/f c h");
    CHECK(lab.post("a", {{"op", "copy"}, {"to", "tree"}}).status == 201);
    CHECK(lab.listed("tree") == "tree/b tree/f");
    CHECK(code_of(lab.remove("tree")) == "directory_not_empty");
    CHECK(lab.remove("tree").body.find("`?recursive=1`") != std::string::npos);
    CHECK(lab.remove("tree?recursive=1").status == 204);
    CHECK(lab.remove("h").status == 204);
    CHECK(code_of(lab.remove("h")) == "file_not_found");
    for (const char* const path : {"a/f/", "a/f%2F"}) {
        CHECK(code_of(lab.remove(path)) == "not_a_directory");
        CHECK(code_of(lab.get(path)) == "not_a_directory");
        CHECK(code_of(lab.put(path, "x")) == "not_a_directory");
        CHECK(code_of(lab.post(path, {{"op", "move"}, {"to", "h"}})) == "not_a_directory");
    }
    CHECK(code_of(lab.post("a/f", {{"op", "move"}, {"to", "h/"}})) == "not_a_directory");
    CHECK(lab.get("a/f").body == "other");
    CHECK(lab.remove("a/b/").status == 204);
    CHECK(lab.get("a").status == 409);
    CHECK(code_of(lab.get("a")) == "is_directory");
    CHECK(lab.get("a").body.find("`?list=1`") != std::string::npos);
    CHECK(code_of(lab.get("a/f?list=1")) == "not_a_directory");
    CHECK(code_of(lab.remove("?recursive=1")) == "invalid_path");
    for (const char* const path : {"../../etc/passwd", "/etc/passwd", "%2Fetc%2Fpasswd", "a/../../x"}) {
        CHECK(lab.get(path).status == 403);
        CHECK(code_of(lab.get(path)) == "outside_workspace");
        CHECK(code_of(lab.put(path, "x")) == "outside_workspace");
        CHECK(code_of(lab.post("a/f", {{"op", "copy"}, {"to", "../x"}})) == "outside_workspace");
    }
    CHECK(lab.get("a%00b").status == 400);
    CHECK(code_of(lab.put(std::string(256, 'n'), "x")) == "invalid_path");
    CHECK(code_of(lab.post("a/f", {{"op", "move"}})) == "invalid_field");
    CHECK(code_of(lab.post("a/f", {{"op", "format"}})) == "invalid_field");
    CHECK(code_of(lab.post("a/f", {{"op", "move"}, {"to", "x"}, {"mode", 1}})) == "unknown_field");
    CHECK(code_of(lab.put("f?mode=888", "x")) == "invalid_field");
    CHECK(code_of(lab.put("f", "x", {{"Content-Encoding", "gzip"}})) == "unsupported_media_type");
    CHECK(code_of(lab.get("a?list=1&depth=65")) == "invalid_field");
}

TEST_CASE("A link out of the workspace opens nothing of the sandbox's own system or the host's") {
    FilesLab lab;
    lab.run("ln -s /etc/passwd passwd; ln -s / root; ln -s ../etc/hostname up; mkfifo fifo");
    CHECK(lab.run("cat passwd").find("/workspace") != std::string::npos);  // the control
    for (const char* const path : {"passwd", "root/etc/passwd", "up"}) {
        CHECK(code_of(lab.get(path)) == "outside_workspace");
        CHECK(code_of(lab.put(path, "x")) == "outside_workspace");
    }
    CHECK(code_of(lab.get("root?list=1")) == "outside_workspace");
    CHECK(Json::parse(lab.get("passwd?stat=1").body)["target"] == "/etc/passwd");
    CHECK(code_of(lab.get("fifo")) == "not_a_file");
    CHECK(code_of(lab.put("fifo", "x")) == "not_a_file");
}

TEST_CASE("Entries are usable as they are in a URL, whatever bytes their names have") {
    FilesLab lab;
    lab.run(R"(touch $'\xff\xfe' 'a%41b' 'plain' $'line\nbreak')");
    const Json page = Json::parse(lab.get("?list=1").body);
    REQUIRE(page["entries"].size() == 4);
    CHECK(page["next"].is_null());
    std::string hrefs;
    for (const Json& entry : page["entries"]) {
        const std::string href = entry["href"];
        hrefs += href + " ";
        CHECK(Json::parse(lab.get(href + "?stat=1").body) == entry);
        CHECK(lab.put(href, "x").status == 200);
    }
    CHECK(hrefs == "a%2541b line%0Abreak plain %FF%FE ");
}

TEST_CASE("Names are shown as they are, and their hrefs lead to them and to nothing else") {
    FilesLab lab;
    lab.run(R"(touch '50%20off' '50 off' '%41' A $'\xff' $'\xfe' $'new\nline')");
    const Json page = Json::parse(lab.get("?list=1").body);
    std::string shown;
    for (const Json& entry : page["entries"]) {
        CHECK(entry["name"] == entry["path"]);
        shown += entry["path"].get<std::string>() + "|";
        REQUIRE(lab.put(entry["href"], entry["href"].get<std::string>()).status == 200);
    }
    CHECK(shown == "%41|50 off|50%20off|A|new\nline|\xef\xbf\xbd|\xef\xbf\xbd|");
    for (const Json& entry : page["entries"])
        CHECK(lab.get(entry["href"]).body == entry["href"].get<std::string>());
    CHECK(lab.run("cat '50%20off' %41") == "50%2520off%2541");
    CHECK(lab.run(R"(cat $'\xff' $'\xfe')") == "%FF%FE");
    for (const char* const href : {"50%2520off", "%2541", "%FF", "new%0Aline"})
        CHECK(lab.remove(href).status == 204);
    CHECK(lab.run("ls -b") == "50\\ off\nA\n\\376\n");
    CHECK(code_of(lab.get("50%2520off")) == "file_not_found");
    CHECK(Json::parse(lab.get("50%2520off").body)["detail"].get<std::string>().find("50%20off") !=
          std::string::npos);
}

TEST_CASE("Where something goes is text as it is, or an href of any bytes") {
    FilesLab lab;
    lab.put("f", "x");
    const auto copied = lab.post("f", {{"op", "copy"}, {"to", "50%20off"}});
    CHECK(copied.status == 201);
    CHECK(Json::parse(copied.body)["path"] == "50%20off");
    CHECK(Json::parse(copied.body)["href"] == "50%2520off");
    CHECK(lab.post("50%2520off", {{"op", "move"}, {"to", "/workspace/%41"}}).status == 200);
    CHECK(lab.listed("") == "%41 f");
    CHECK(lab.post("f", {{"op", "copy"}, {"toHref", "d%FF/%FE%2541"}}).status == 201);
    CHECK(lab.post("d%FF/%FE%2541", {{"op", "move"}, {"toHref", "d%FF/g"}}).status == 200);
    CHECK(lab.run(R"(cat $'d\xff/g')") == "x");
    CHECK(lab.post("d%2541", {{"op", "mkdir"}}).status == 201);
    CHECK(lab.run("ls -b") == "%41\nd%41\nd\\377\nf\n");
    // The control of the refusals below is above.
    for (const Json& wrong : {Json{{"op", "copy"}}, Json{{"op", "copy"}, {"to", "a"}, {"toHref", "a"}},
                              Json{{"op", "copy"}, {"toHref", "a%"}}, Json{{"op", "copy"}, {"toHref", 1}},
                              Json{{"op", "mkdir"}, {"toHref", "a"}}, Json{{"op", "mkdir"}, {"to", "a"}}})
        CHECK(code_of(lab.post("f", wrong)) == "invalid_field");
    CHECK(code_of(lab.post("f", {{"op", "copy"}, {"toHref", "..%2Fx"}})) == "outside_workspace");
    CHECK(code_of(lab.post("f", {{"op", "copy"}, {"toHref", "a%00"}})) == "invalid_path");
}

TEST_CASE("The path of a query is decoded once, to any bytes") {
    FilesLab lab;
    lab.run(R"(mkdir '50%20off' '50 off' $'d\xff'; echo 1 > '50%20off/one'; echo 2 > '50 off/two'; )"
            R"(echo 3 > $'d\xff/three')");
    const std::string archive = "/v1/sandboxes/" + lab.sandbox_id + "/archive?path=";
    for (const auto& [query, name] : {std::pair("50%2520off", "one"), std::pair("50%20off", "two"),
                                      std::pair("50+off", "two"), std::pair("d%FF", "three")}) {
        INFO(query);
        const auto packed = lab.client.request("GET", archive + query);
        REQUIRE(packed.status == 200);
        CHECK(packed.body.find(name) != std::string::npos);
        const auto unpacked = lab.client.request("PUT", archive + "copy/" + query, packed.body,
                                                 {{"Content-Type", "application/x-tar"}});
        CHECK(unpacked.status == 200);
    }
    CHECK(lab.run("ls -b copy") == "50\\ off\n50%20off\nd\\377\n");
    CHECK(lab.client.request("GET", archive + "d%FF").header("content-disposition") ==
          "attachment; filename=\"d_.tar\"; filename*=UTF-8''d%EF%BF%BD.tar");
    // Other parameters must be UTF-8, and a percent sign begins an encoded byte.
    CHECK(code_of(lab.get("?list=1&cursor=%FF")) == "invalid_request");
    CHECK(code_of(lab.client.request("GET", archive + "%FF%")) == "invalid_request");
}

TEST_CASE("A workspace goes out as an archive and into another sandbox") {
    FilesLab lab;
    lab.run("mkdir -p src/sub; echo text > src/sub/f; ln -s sub/f src/link; chmod 750 src/sub/f");
    const auto archive = lab.client.request("GET", "/v1/sandboxes/" + lab.sandbox_id + "/archive?path=src");
    CHECK(archive.status == 200);
    CHECK(archive.header("content-type") == "application/x-tar");
    CHECK(archive.header("content-disposition") == "attachment; filename=\"src.tar\"");
    CHECK(archive.header("content-security-policy") == "sandbox; default-src 'none'");
    const std::string other = lab.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const std::string there = "/v1/sandboxes/" + other;
    const HeaderList tar{{"Content-Type", "application/x-tar"}};
    const auto unpacked =
        lab.client.request("PUT", there + "/archive?path=/workspace/copy", archive.body, tar);
    CHECK(unpacked.status == 200);
    CHECK(Json::parse(unpacked.body) == Json{{"entries", 3}, {"bytes", 5}});
    CHECK(lab.client.request("GET", there + "/files/copy/link").body == "text\n");
    CHECK(Json::parse(lab.client.request("GET", there + "/files/copy/sub/f?stat=1").body)["mode"] == "0750");
    const auto broken = lab.client.request("PUT", there + "/archive", archive.body.substr(0, 700), tar);
    CHECK(broken.status == 422);
    CHECK(code_of(broken) == "invalid_archive");
    CHECK(lab.client.request("GET", "/v1/sandboxes/" + lab.sandbox_id + "/archive").body.size() >
          archive.body.size());
}

TEST_CASE("Files of a paused conversation are there, and it stays paused") {
    FilesLab lab;
    REQUIRE(lab.put("kept", "before").status == 201);
    lab.api.call(200, "POST", "/v1/conversations/" + lab.id + "/pause", "{}");
    CHECK(lab.get("kept").body == "before");
    CHECK(lab.put("new", "while paused").status == 201);
    CHECK(lab.listed("") == "kept new");
    CHECK(lab.api.get(lab.id)["status"] == "paused");
    CHECK(lab.run("cat new") == "while paused");
}

TEST_CASE("A client that is cut in the middle of a PUT leaves the old file and nothing else") {
    FilesLab lab;
    REQUIRE(lab.put("f", "old").status == 201);
    HttpClient cut = lab.api.connect();
    cut.connect();
    cut.send_raw("PUT " + lab.url("f") + " HTTP/1.1\r\nHost: " + lab.server.address() + "\r\nX-API-Key: " +
                 lab.server.key() + "\r\nContent-Length: 1000000\r\n\r\n" + std::string(300'000, 'x'));
    cut.close();
    CHECK(lab.put("g", "later").status == 201);
    CHECK(lab.get("f").body == "old");
    CHECK(lab.run("ls -A") == "f\ng\n");
}

TEST_CASE("A client that leaves ends a copy and a list, and no other change of a file") {
    FilesLab lab;
    const std::vector<pid_t> guest = guests(lab.server);
    REQUIRE(guest.size() == 1);
    // Nothing else ends a call: the guest stands still.
    REQUIRE(::kill(guest[0], SIGSTOP) == 0);
    const auto leave = [&](const std::string& method, const std::string& path, const std::string& body) {
        HttpClient client = lab.api.connect();
        client.connect();
        client.send_raw(method + " " + lab.url(path) + " HTTP/1.1\r\nHost: " + lab.server.address() +
                        "\r\nX-API-Key: " + lab.server.key() +
                        "\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body);
        client.close();
    };
    const auto is_left = [&](const std::string& path) {
        std::istringstream log(lab.server.log());
        for (std::string line; std::getline(log, line);)
            if (line.find("path=\"" + lab.url(path) + "\"") != std::string::npos)
                return line.find("status=408") != std::string::npos;
        return false;
    };
    leave("POST", "made", R"({"op":"mkdir"})");
    leave("POST", "copied", R"({"op":"copy","to":"copy"})");
    leave("GET", "listed?list=1", "");
    for (const char* const path : {"copied", "listed"}) {
        INFO(path);
        CHECK(eventually([&] { return is_left(path); }));
    }
    CHECK_FALSE(is_left("made"));
    REQUIRE(::kill(guest[0], SIGCONT) == 0);
    CHECK(eventually([&] { return lab.get("made?stat=1").status == 200; }));
    CHECK_FALSE(is_left("made"));
}

TEST_CASE("A client that ends its sending side behind its request gets a file and an entry, and no list") {
    FilesLab lab;
    REQUIRE(lab.put("f", "text").status == 201);
    const std::vector<pid_t> guest = guests(lab.server);
    REQUIRE(guest.size() == 1);
    const auto ask = [&](const std::string& path) {
        HttpClient client = lab.api.connect();
        client.connect();
        client.send_raw("GET " + lab.url(path) + " HTTP/1.1\r\nHost: " + lab.server.address() +
                        "\r\nX-API-Key: " + lab.server.key() + "\r\n\r\n");
        client.shutdown_send();
        return client;
    };
    // The guest answers none of them before the server has seen the end of each: that of the list comes last.
    REQUIRE(::kill(guest[0], SIGSTOP) == 0);
    HttpClient bytes = ask("f");
    HttpClient entry = ask("f?stat=1");
    HttpClient list = ask("?list=1");
    CHECK(list.read_response().status == 408);
    REQUIRE(::kill(guest[0], SIGCONT) == 0);
    const HttpResponse got = bytes.read_response();
    CHECK(got.status == 200);
    CHECK(got.body == "text");
    const HttpResponse told = entry.read_response();
    CHECK(told.status == 200);
    CHECK(Json::parse(told.body)["size"] == 4);
}

TEST_CASE("A sandbox that dies in the middle of a PUT or a GET ends it with an error, or a cut") {
    FilesLab lab;
    REQUIRE(lab.put("f", "old").status == 201);
    lab.run("truncate -s 300M big");
    HttpClient put = lab.api.connect();
    put.connect();
    const std::string head = "\r\nHost: " + lab.server.address() + "\r\nX-API-Key: " + lab.server.key();
    put.send_raw("PUT " + lab.url("f") + " HTTP/1.1" + head + "\r\nContent-Length: 1000000\r\n\r\n" +
                 std::string(300'000, 'x'));
    HttpClient get = lab.api.connect();
    get.connect();
    get.send_raw("GET " + lab.url("big") + " HTTP/1.1" + head + "\r\n\r\n");
    CHECK(get.read_raw(1000).starts_with("HTTP/1.1 200 "));
    lab.api.call(204, "DELETE", "/v1/conversations/" + lab.id);
    CHECK(get.read_until_close().size() < 300UL * 1024 * 1024);
    // It hears of it while it stands still, before its time for the body ends.
    const auto answer = put.read_response();
    CHECK(answer.status >= 400);
    CHECK_FALSE(code_of(answer).empty());
    CHECK(code_of(answer) != "request_timeout");
}

// [serial]: the server's memory, [full]: a bound on it.
TEST_CASE("The server's memory does not grow with a file", "[full][serial]") {
#ifdef __SANITIZE_ADDRESS__  // ASan keeps freed blocks
    constexpr long k_most_growth_kb = 128L * 1024;
#else
    constexpr long k_most_growth_kb = 6L * 1024;
#endif
    FilesLab lab;
    const std::size_t bytes = 1024UL * 1024 * 1024;
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, R"({"limits":{"diskMb":4096}})");
    REQUIRE(lab.put("warm", std::string(1'000'000, 'x')).status == 201);
    REQUIRE(lab.get("warm").status == 200);
    const long before = resident_kb(lab.server.pid());
    HttpClient put = lab.api.connect();
    put.connect();
    const std::string head = "\r\nHost: " + lab.server.address() + "\r\nX-API-Key: " + lab.server.key();
    put.send_raw("PUT " + lab.url("big") + " HTTP/1.1" + head +
                 "\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n");
    const std::string piece(1024UL * 1024, 'x');
    for (std::size_t sent = 0; sent < bytes; sent += piece.size())
        put.send_raw(piece);
    CHECK(put.read_response().status == 201);
    CHECK(resident_kb(lab.server.pid()) < before + k_most_growth_kb);
    put.send_raw("GET " + lab.url("big") + " HTTP/1.1" + head + "\r\n\r\n");
    std::size_t got = 0;
    // The head is short of a piece.
    while (got < bytes) {
        got += put.read_raw(std::min(piece.size(), bytes - got)).size();
        if (got == bytes / 2)
            CHECK(resident_kb(lab.server.pid()) < before + k_most_growth_kb);
    }
    CHECK(resident_kb(lab.server.pid()) < before + k_most_growth_kb);
    CHECK(lab.run("stat -c %s big") == std::to_string(bytes) + "\n");
}

// A disk limit is measured, or walled; the client sees no difference.
TEST_CASE("An upload beyond the disk limit is refused and one that fits is taken; the conversation goes on") {
    FilesLab lab;
    constexpr std::size_t k_mb = 1024UL * 1024;
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, R"({"limits":{"diskMb":64}})");
    lab.run("head -c 31457280 /dev/zero > a");
    const std::string bytes(50 * k_mb, 'x');
    const auto refused = lab.put("b", bytes);
    INFO(refused.body);
    CHECK(refused.status == 507);
    CHECK(code_of(refused) == "disk_full");
    CHECK(Json::parse(refused.body)["detail"].get<std::string>().find("disk limit of 64 MB") !=
          std::string::npos);
    // Nothing of it was there, and nothing has ended.
    CHECK(lab.api.get(lab.id)["generation"] == 1);
    CHECK(lab.run("echo still; ls -A") == "still\na\n");
    CHECK(lab.put("b", std::string_view(bytes).substr(0, 20 * k_mb)).status == 201);
    lab.run("rm a");
    CHECK(lab.put("b", std::string_view(bytes).substr(0, 30 * k_mb)).status == 200);
}

TEST_CASE("An upload without a length, or an archive, that goes over the disk limit is told so") {
    FilesLab lab;
    constexpr std::size_t k_mb = 1024UL * 1024;
    const std::string bytes(50 * k_mb, 'x');
    REQUIRE(lab.put("b", bytes).status == 201);  // the control: it is the limit that counts
    const std::string archive =
        lab.client.request("GET", "/v1/sandboxes/" + lab.sandbox_id + "/archive").body;
    std::string chunked;
    for (std::size_t at = 0; at < bytes.size(); at += k_mb)
        chunked.append("100000\r\n").append(bytes, at, k_mb).append("\r\n");
    const std::pair<const char*, std::string> uploads[] = {
        {"archive", "Content-Length: " + std::to_string(archive.size()) + "\r\n\r\n" + archive},
        {"files/b", "Transfer-Encoding: chunked\r\n\r\n" + chunked + "0\r\n\r\n"}};
    for (const auto& [path, sent] : uploads) {
        const Json made = lab.api.create({{"limits", {{"diskMb", 64}}}});
        lab.api.message(made["id"], "head -c 31457280 /dev/zero > a");
        HttpClient put = lab.api.connect();
        put.send_raw("PUT /v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/" + path +
                     " HTTP/1.1\r\nHost: " + lab.server.address() + "\r\nX-API-Key: " + lab.server.key() +
                     "\r\nContent-Type: application/octet-stream\r\n" + sent);
        const auto answer = put.read_response();
        INFO(path << ": " << answer.body);
        CHECK(answer.status == 507);
        CHECK(code_of(answer) == "disk_full");
        CHECK(answer.body.find("held open)") == std::string::npos);  // not by processes alone
        // The sandbox may be ended for it just now.
        CHECK(eventually([&] { return lab.api.message(made["id"], "echo still").output == "still\n"; }));
    }
}

TEST_CASE("A disk that is full in the middle of a PUT keeps the old file", "[quota]") {
    FilesLab lab;
    if (lab.conversation["enforcement"]["disk"] != "quota")
        SKIP("no project quotas where temporary folders are that this user may set");
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, R"({"limits":{"diskMb":16}})");
    REQUIRE(lab.put("f", "old").status == 201);
    const auto full = lab.put("f", std::string(24UL * 1024 * 1024, 'x'));
    CHECK(full.status == 507);
    CHECK(code_of(full) == "disk_full");
    CHECK(lab.get("f").body == "old");
    CHECK(lab.run("ls -A") == "f\n");
}

TEST_CASE("A disk that is full in the middle of a copy or an archive leaves no half of a file", "[quota]") {
    FilesLab lab;
    if (lab.conversation["enforcement"]["disk"] != "quota")
        SKIP("no project quotas where temporary folders are that this user may set");
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, R"({"limits":{"diskMb":16}})");
    REQUIRE(lab.put("d/big", std::string(10UL * 1024 * 1024, 'x')).status == 201);
    const auto copied = lab.post("d/big", {{"op", "copy"}, {"to", "copy"}});
    CHECK(copied.status == 507);
    CHECK(code_of(copied) == "disk_full");
    CHECK(lab.run("ls -A") == "d\n");
    const std::string archive = "/v1/sandboxes/" + lab.sandbox_id + "/archive?path=";
    const auto packed = lab.client.request("GET", archive + "d");
    REQUIRE(packed.status == 200);
    const auto unpacked =
        lab.client.request("PUT", archive + "e", packed.body, {{"Content-Type", "application/x-tar"}});
    CHECK(unpacked.status == 507);
    CHECK(code_of(unpacked) == "disk_full");
    CHECK(lab.run("find e -type f 2>/dev/null | wc -l") == "0\n");
    CHECK(lab.run("stat -c %s d/big") == std::to_string(10 * 1024 * 1024) + "\n");
    // There is room again at once.
    CHECK(lab.put("g", std::string(2UL * 1024 * 1024, 'x')).status == 201);
}

}  // namespace integration_files_test
