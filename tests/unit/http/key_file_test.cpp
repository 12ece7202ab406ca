#include "http/access/key_file.hpp"

#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <sstream>

#include "core/base/ids.hpp"
#include "core/base/limits.hpp"
#include "http/wire/json_reader.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace key_file_test {

using namespace atl::http;
using atl::base::Errc;
using atl::test::TempDir;

namespace {

ApiKey key_of(std::string_view secret, std::optional<std::string> user = std::nullopt) {
    return {atl::base::new_id(), "a label", std::move(user), "2026-01-31T09:05:00.123Z", key_digest(secret)};
}

void add(const std::filesystem::path& file, ApiKey key) {
    REQUIRE(change_key_file(file, [&](std::vector<ApiKey>& keys) -> atl::base::Result<void> {
        keys.push_back(std::move(key));
        return {};
    }));
}

void write_raw(const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file, std::ios::trunc) << text;
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string content_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

Json sound() {
    const std::vector<ApiKey> one{key_of("secret", "u")};
    return *parse_json(key_file_text(one));
}

}  // namespace

TEST_CASE("what is written of keys is read back, and the key itself is not in it") {
    const std::string secret = new_key();
    CHECK(secret.size() == 66);
    CHECK(secret != new_key());
    const std::vector<ApiKey> keys{key_of(secret), key_of("other", "J\xC3\xB6rg \"x\"")};
    const std::string text = key_file_text(keys);
    CHECK(text.find(secret) == std::string::npos);
    const auto back = parse_key_file(text);
    REQUIRE(back);
    CHECK(*back == keys);
    CHECK(parse_key_file(R"({"keys":[]})").value().empty());
    // FIPS 180-2, appendix B.1.
    CHECK(key_digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a key file of another form is refused") {
    for (const char* text : {"", "null", "[]", "{}", "{\"keys\":{}}", "{\"keys\":null}", "{\"keys\":[1]}",
                             "{\"keys\":[[]]}", "{\"keys\":[{}]}", "{\"keys\":[]}x", "{\"keys\":[],\"x\":1}",
                             "{\"keys\":[],\"keys\":[]}", "{\"keys\":[]", "\xFF", "{\"keys\":[null]}"})
        CHECK(parse_key_file(text).error().code() == Errc::invalid_field);
    CHECK_FALSE(parse_key_file(std::string(100'000, '[')));
    const auto refused = [](const char* name, const Json& value) {
        Json file = sound();
        file["keys"][0][name] = value;
        INFO(file.dump());
        return parse_key_file(file.dump()).has_error();
    };
    REQUIRE(parse_key_file(sound().dump()));
    CHECK(refused("id", "short"));
    CHECK(refused("id", "../../../../etc/pass"));
    CHECK(refused("id", 7));
    CHECK(refused("label", ""));
    CHECK(refused("label", "\x1b[31mred"));
    CHECK(refused("label", std::string(atl::base::k_max_key_label_bytes + 1, 'x')));
    CHECK(refused("userId", ""));
    CHECK(refused("userId", nullptr));
    CHECK(refused("userId", std::string("a\0b", 3)));
    CHECK(refused("userId", std::string(atl::base::k_max_user_id_bytes + 1, 'x')));
    CHECK(refused("createdAt", "yesterday"));
    CHECK(refused("createdAt", "2026-01-31T09:05:00.123Zx"));
    CHECK(refused("sha256", ""));
    CHECK(refused("sha256", std::string(64, 'g')));
    CHECK(refused("sha256", std::string(63, 'a')));
    CHECK(refused("sha256", std::string(64, 'A')));
    CHECK(refused("admin", true));
    for (const char* name : {"id", "label", "createdAt", "sha256"}) {
        Json file = sound();
        file["keys"][0].erase(name);
        CHECK_FALSE(parse_key_file(file.dump()));
    }
}

TEST_CASE("ids and digests come once and the number of keys is bounded") {
    const ApiKey key = key_of("one");
    ApiKey same_digest = key_of("one");
    ApiKey same_id = key_of("two");
    same_id.id = key.id;
    CHECK_FALSE(parse_key_file(key_file_text({key, same_digest})));
    CHECK_FALSE(parse_key_file(key_file_text({key, same_id})));
    std::vector<ApiKey> many;
    for (std::size_t i = 0; i < atl::base::k_max_api_keys; ++i) {
        many.push_back(key_of(std::to_string(i), std::string(atl::base::k_max_user_id_bytes, '"')));
        many.back().label = std::string(atl::base::k_max_key_label_bytes, '"');
    }
    const std::string longest = key_file_text(many);
    CHECK(longest.size() < atl::base::k_max_key_file_bytes);
    CHECK(parse_key_file(longest));
    many.push_back(key_of("one too many"));
    CHECK_FALSE(parse_key_file(key_file_text(many)));
}

TEST_CASE("a key counts as soon as it is added and no longer than until it is revoked") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    KeyFile file(path);
    CHECK_FALSE(file.find("alice's"));
    CHECK_FALSE(file.find(""));
    add(path, key_of("alice's", "alice"));
    REQUIRE(file.find("alice's"));
    CHECK(file.find("alice's")->user_id == "alice");
    CHECK_FALSE(file.find("alice'"));
    CHECK_FALSE(file.find("alice's "));
    CHECK_FALSE(file.find(key_digest("alice's")));
    // The changes come as fast as possible: the clock of the file system is slower than that.
    for (int i = 0; i < 50; ++i) {
        const std::string secret = "key " + std::to_string(i);
        add(path, key_of(secret));
        REQUIRE(file.find(secret));
        CHECK_FALSE(file.find(secret)->user_id);
        REQUIRE(change_key_file(path, [](std::vector<ApiKey>& keys) -> atl::base::Result<void> {
            keys.pop_back();
            return {};
        }));
        REQUIRE_FALSE(file.find(secret));
        REQUIRE(file.find("alice's"));
    }
    std::filesystem::remove(path);
    CHECK_FALSE(file.find("alice's"));
}

TEST_CASE("a key of the file is seen in a longer text while it counts") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    KeyFile file(path);
    const std::string secret = new_key();
    CHECK_FALSE(file.is_in(secret));
    add(path, key_of(secret, "alice"));
    CHECK(file.is_in(secret));
    CHECK(file.is_in("a=atoll_1; b=" + secret + "; c"));
    CHECK_FALSE(file.is_in(secret.substr(1)));
    CHECK_FALSE(file.is_in(secret.substr(0, secret.size() - 1)));
    CHECK_FALSE(file.is_in(new_key()));
    std::filesystem::remove(path);
    CHECK_FALSE(file.is_in(secret));
}

TEST_CASE("the key file is looked at for a text that has the form of a key in it, and for no other") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    write_raw(path, "no keys");
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    KeyFile file(path);
    std::string prefixes;
    while (prefixes.size() < 16UL * 1024)
        prefixes += "atoll_";
    CHECK_FALSE(file.is_in(prefixes));
    std::string almost = new_key();
    for (const std::size_t at : {6UL, 25UL, 26UL, 65UL}) {
        const char kept = std::exchange(almost[at], '_');
        CHECK_FALSE(file.is_in("k=" + almost + ";"));
        almost[at] = kept;
    }
    const std::string unseen = log.str();
    CHECK_FALSE(file.is_in("k=" + almost + ";"));
    spdlog::set_default_logger(before);
    CHECK(unseen.empty());
    CHECK(log.str().find("evt=keys_refused") != std::string::npos);
}

TEST_CASE("a key is seen behind others, and wherever its digest stands among those of the file") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    std::vector<std::string> secrets;
    std::vector<ApiKey> keys;
    for (int i = 0; i < 20; ++i) {
        secrets.push_back(new_key());
        keys.push_back(key_of(secrets.back()));
    }
    write_raw(path, key_file_text(keys));
    KeyFile file(path);
    const std::string other = new_key();
    for (const std::string& secret : secrets)
        CHECK(file.is_in(other + "atoll_" + other + secret));
    CHECK_FALSE(file.is_in(other + "atoll_" + other + secrets.front().substr(0, 65)));
    CHECK(file.find(secrets.back()));
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("a text that is full of what could be keys costs little more than their digests", "[serial]") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    std::vector<ApiKey> keys;
    for (std::size_t i = 0; i < atl::base::k_max_api_keys; ++i)
        keys.push_back(key_of(new_key()));
    write_raw(path, key_file_text(keys));
    KeyFile file(path);
    std::string text;
    while (text.size() < 16UL * 1024)
        text += new_key();
    CHECK_FALSE(file.is_in(text));
    constexpr int k_times = 100;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < k_times; ++i)
        CHECK_FALSE(file.is_in(text));
    const auto took = std::chrono::steady_clock::now() - begun;
    if (atl::test::checks_bounds())
        CHECK(took < k_times * std::chrono::milliseconds{3});
}

TEST_CASE("the keys of a broken file open nothing until it is whole again") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    KeyFile file(path);
    add(path, key_of("good"));
    const std::string whole = content_of(path);
    REQUIRE(file.find("good"));
    write_raw(path, whole.substr(0, whole.size() / 2));
    CHECK(file.refresh().error().code() == Errc::invalid_field);
    CHECK_FALSE(file.find("good"));
    write_raw(path, whole + std::string(atl::base::k_max_key_file_bytes, ' '));
    CHECK_FALSE(file.find("good"));
    CHECK_FALSE(change_key_file(path, [](auto&) -> atl::base::Result<void> { return {}; }));
    write_raw(path, whole);
    CHECK(file.find("good"));
}

TEST_CASE("a key file that others can read, a link or a pipe is refused") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    add(path, key_of("good"));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    REQUIRE(KeyFile(path).find("good"));
    REQUIRE(::chmod(path.c_str(), 0640) == 0);
    CHECK_FALSE(KeyFile(path).find("good"));
    REQUIRE(::chmod(path.c_str(), 0600) == 0);

    const auto elsewhere = dir.path() / "elsewhere";
    std::filesystem::rename(path, elsewhere);
    std::filesystem::create_symlink(elsewhere, path);
    CHECK_FALSE(KeyFile(path).find("good"));
    CHECK(KeyFile(elsewhere).find("good"));
    std::filesystem::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_FALSE(KeyFile(path).find("good"));
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    CHECK_FALSE(KeyFile(path).find("good"));
}

TEST_CASE("a change that fails leaves the keys as they were") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    add(path, key_of("good"));
    const std::string before = content_of(path);
    const auto failed = change_key_file(path, [](std::vector<ApiKey>& keys) -> atl::base::Result<void> {
        keys.clear();
        return atl::base::Error(Errc::not_found);
    });
    CHECK(failed.error().code() == Errc::not_found);
    CHECK_FALSE(change_key_file(path, [](std::vector<ApiKey>& keys) -> atl::base::Result<void> {
        keys.push_back(keys.front());
        return {};
    }));
    CHECK(content_of(path) == before);
    std::ofstream(path.string() + ".new") << "of a change that was killed";
    add(path, key_of("more"));
    CHECK(read_key_file(path).value().size() == 2);
    CHECK_FALSE(std::filesystem::exists(path.string() + ".new"));
}

TEST_CASE("a key of the file and the server's own are told from all others") {
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    add(path, key_of("alice's", "alice"));
    KeyFile file(path);
    const KeyAuthenticator keys("the server's own", &file);
    const auto who = [&](const char* key) {
        Request request;
        request.fields = {{"X-API-Key", key}};
        return keys.authenticate(request);
    };
    REQUIRE(who("the server's own"));
    CHECK(who("the server's own")->unrestricted());
    REQUIRE(who("alice's"));
    CHECK(who("alice's")->user_id == "alice");
    CHECK_FALSE(who("alice's")->unrestricted());
    CHECK(who("wrong").error().code() == Errc::invalid_key);
    CHECK(who("wrong").error().detail() == who("a wrong one").error().detail());
    CHECK(who("").error().code() == Errc::unauthorized);
}

TEST_CASE("root keeps the keys of a server that is not root, and trusts no third user's file") {
    if (::geteuid() != 0)
        SKIP("needs root: nobody else can give files away");
    constexpr uid_t k_server = 1'234'567;
    const TempDir dir;
    const auto path = dir.path() / "keys.json";
    REQUIRE(::chown(dir.path().c_str(), k_server, k_server) == 0);
    add(path, key_of("first"));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK(status.st_uid == k_server);
    add(path, key_of("second"));
    CHECK(KeyFile(path).find("second"));
    REQUIRE(::chown(path.c_str(), k_server + 1, k_server + 1) == 0);
    CHECK_FALSE(KeyFile(path).find("second"));
}

TEST_CASE("ceilings of a key are kept with it, and what is no ceiling makes no key") {
    ApiKey key = key_of("secret", "u");
    key.ceilings.memory_mb = 512;
    key.ceilings.max_processes = 7;
    const std::string text = key_file_text({key});
    const auto back = parse_key_file(text);
    REQUIRE(back.has_value());
    CHECK(back->at(0) == key);
    const TempDir folder;
    const auto file = folder.path() / "keys.json";
    add(file, key);
    KeyFile keys(file);
    CHECK(keys.find("secret")->ceilings == key.ceilings);
    for (const char* ceilings : {R"({"memoryMb":0})", R"({"memoryMb":"1"})", R"({"memory":1})", "[]", "7"}) {
        Json changed = sound();
        changed["keys"][0]["ceilings"] = *parse_json(ceilings);
        CHECK(parse_key_file(changed.dump()).error().code() == Errc::invalid_field);
    }
    // A key without ceilings is written without that member, as older servers wrote it.
    CHECK_FALSE(sound()["keys"][0].contains("ceilings"));
}

}  // namespace key_file_test
