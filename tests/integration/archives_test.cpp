// Archives over HTTP in their formats. What is in them is tests/unit/bridge/zip_test.cpp's.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/support/api_client.hpp"

namespace archives_test {

using namespace atl::test;

namespace {

struct Lab {
    ServerProcess server;
    ApiClient api{server};
    std::string sandbox = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    HttpClient client = api.connect();

    std::string path(const std::string& rest) const { return "/v1/sandboxes/" + sandbox + "/" + rest; }
    void make(const std::string& command) {
        api.call(200, "POST", path("exec"), Json{{"command", command}}.dump());
    }
    HttpResponse get(const std::string& query) { return client.request("GET", path("archive" + query)); }
    HttpResponse put(const std::string& query, const std::string& body, const std::string& type) {
        return api.connect().request("PUT", path("archive" + query), body, {{"Content-Type", type}});
    }
};

}  // namespace

TEST_CASE("An archive goes out as tar, tar.gz or zip, named so, and each comes in, told or not") {
    Lab lab;
    lab.make(
        "mkdir -p src/sub .npm; echo text > src/sub/f; ln -s sub/f src/link; chmod 750 src/sub/f; touch "
        ".npm/x");
    for (const auto& [format, type] : {std::pair<std::string, std::string>("tar", "application/x-tar"),
                                       {"tar.gz", "application/gzip"},
                                       {"zip", "application/zip"}}) {
        INFO(format);
        const auto packed = lab.get("?path=src&format=" + format);
        REQUIRE(packed.status == 200);
        CHECK(packed.header("content-type") == type);
        CHECK(packed.header("content-disposition") == "attachment; filename=\"src." + format + "\"");
        CHECK(packed.header("content-security-policy") == "sandbox; default-src 'none'");
        for (const std::string& told : {type, std::string("application/octet-stream")}) {
            INFO(told);
            const auto unpacked = lab.put("?path=copy", packed.body, told);
            CHECK(unpacked.status == 200);
            CHECK(Json::parse(unpacked.body) == Json{{"entries", 3}, {"bytes", 5}});
            CHECK(lab.client.request("GET", lab.path("files/copy/link")).body == "text\n");
            const auto about = lab.client.request("GET", lab.path("files/copy/sub/f?stat=1"));
            CHECK(Json::parse(about.body)["mode"] == "0750");
            lab.make("rm -r copy");
        }
        CHECK(lab.put("?path=copy&format=" + format, packed.body, "text/plain").status == 200);
        const auto broken = lab.put("?path=broken", packed.body.substr(0, packed.body.size() * 3 / 5), type);
        CHECK(broken.status == 422);
        CHECK(code_of(broken) == "invalid_archive");
        CHECK(lab.get("?format=" + format).header("atoll-left-out") == ".npm");
        CHECK(lab.get("?all=1&format=" + format).header("atoll-left-out").empty());
    }
}

TEST_CASE(
    "A format of archives that is unknown is told with those that are known, and a wrong one is refused") {
    Lab lab;
    lab.make("mkdir src; echo text > src/f");
    for (const auto& answer : {lab.get("?format=rar"), lab.put("?format=rar", "x", "text/plain")}) {
        CHECK(answer.status == 422);
        CHECK(code_of(answer) == "invalid_field");
        CHECK(answer.body.find("tar, tar.gz or zip") != std::string::npos);
    }
    const std::string zip = lab.get("?path=src&format=zip").body;
    CHECK(code_of(lab.put("?format=tar.gz", zip, "text/plain")) == "invalid_archive");
    CHECK(code_of(lab.put("", zip, "application/gzip; x=y")) == "invalid_archive");
    CHECK(code_of(lab.put("", "PK\x03\x04 is no zip", "text/plain")) == "invalid_archive");
    CHECK(lab.put("?format=zip", zip, "application/gzip").status == 200);
}

TEST_CASE("A small archive of much more than the disk limit holds is told so, and its sandbox goes on") {
    Lab lab;
    lab.make("head -c 52428800 /dev/zero > b");
    for (const std::string format : {"tar.gz", "zip"}) {
        const std::string archive = lab.get("?format=" + format).body;
        INFO(format);
        REQUIRE(archive.size() < 200'000);
        // The control: where there is room it is unpacked.
        REQUIRE(lab.put("?path=copy", archive, "application/octet-stream").status == 200);
        lab.make("rm -r copy");
        const Json small = lab.api.create({{"limits", {{"diskMb", 64}}}});
        lab.api.message(small["id"], "head -c 31457280 /dev/zero > a");
        const std::string there = "/v1/sandboxes/" + small["sandboxId"].get<std::string>() + "/archive";
        const auto answer = lab.api.connect().request("PUT", there, archive);
        // A limit that is measured may be seen after the answer only.
        if (answer.status == 200 && small["enforcement"]["disk"] != "quota") {
            CHECK(lab.api.await_status(small["id"], "paused")["statusReason"] == "disk");
            continue;
        }
        CHECK(answer.status == 507);
        CHECK(code_of(answer) == "disk_full");
        // The sandbox may be ended for it just now.
        CHECK(eventually([&] { return lab.api.message(small["id"], "echo still").output == "still\n"; }));
    }
}

}  // namespace archives_test
