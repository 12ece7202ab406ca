// Secrets over rows in memory and over a database: sealing, owners, hosts, rows that no server wrote.
#include "core/secrets/secrets.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "core/store/backup.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/fake_secret_store.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace secrets_test {

using namespace atl;
using base::Errc;
using secrets::Secrets;

namespace {

const std::string k_value = "sk-live-4242424242424242";
const base::SystemClock k_system_clock;

secrets::SecureText key_of(unsigned char fill) {
    auto key = secrets::SecureText::make(secrets::k_key_bytes).value();
    std::fill_n(key.data(), key.size(), fill);
    return key;
}

struct Vault {
    explicit Vault(secrets::SecretStore& rows, unsigned char key = 1, unsigned user_percent = 50)
        : all(Secrets::open({rows, k_system_clock, ceilings}, key_of(key), user_percent).value()) {}

    egress::Ceilings ceilings;
    std::unique_ptr<Secrets> all;
};

template <class T>
Errc code(const base::Result<T>& refused) {
    REQUIRE_FALSE(refused);
    return refused.error().code();
}

/// The lines of the log that `action` writes.
template <class Action>
std::string logged(Action action) {
    std::ostringstream lines;
    auto& sinks = spdlog::default_logger()->sinks();
    sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
    action();
    sinks.pop_back();
    return lines.str();
}

std::string bytes_of_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("A sealed value opens with its key and its associated data, and with nothing else") {
    const secrets::Sealer sealer(key_of(1));
    const std::string sealed = sealer.seal(k_value, "about").value();
    CHECK(sealer.open(sealed, "about").value().text() == k_value);
    CHECK(sealed.find(k_value) == std::string::npos);
    CHECK(sealed.size() == k_value.size() + secrets::k_sealing_bytes);
    // The nonce is another each time.
    CHECK(sealer.seal(k_value, "about").value().substr(0, 12) != sealed.substr(0, 12));
    CHECK(code(sealer.open(sealed, "abouT")) == Errc::secret_unusable);
    CHECK(code(secrets::Sealer(key_of(2)).open(sealed, "about")) == Errc::secret_unusable);
    for (std::size_t at = 0; at < sealed.size(); ++at) {
        std::string changed = sealed;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        CAPTURE(at);
        CHECK(code(sealer.open(changed, "about")) == Errc::secret_unusable);
    }
    for (std::size_t size = 0; size < sealed.size(); ++size)
        CHECK(code(sealer.open(sealed.substr(0, size), "about")) == Errc::secret_unusable);
}

TEST_CASE("A secret is for its owner and its hosts alone") {
    test::FakeSecretStore rows;
    const Vault vault(rows);
    REQUIRE(vault.all->put("KEY", "", {"API.example.com.", "b.example", "b.example"}, k_value).value() ==
            Secrets::Put::made);
    REQUIRE(vault.all->put("KEY", "alice", {"a.example"}, "of alice").value() == Secrets::Put::made);
    CHECK(vault.all->find("KEY", "")->hosts == std::vector<std::string>{"api.example.com", "b.example"});
    CHECK(vault.all->open("KEY", "", "api.example.com").value().text() == k_value);
    CHECK(vault.all->open("KEY", "alice", "a.example").value().text() == "of alice");
    CHECK(vault.all->check("KEY", "", "b.example"));
    CHECK(code(vault.all->check("KEY", "", "a.example")) == Errc::secret_host);
    CHECK(code(vault.all->check("KEY", "alice", "b.example")) == Errc::secret_host);
    CHECK(code(vault.all->check("KEY", "", "x.api.example.com")) == Errc::secret_host);
    CHECK(code(vault.all->check("KEY", "bob", "a.example")) == Errc::secret_not_found);
    CHECK(code(vault.all->open("OTHER", "alice", "a.example")) == Errc::secret_not_found);
    CHECK(vault.all->find("KEY", "bob") == nullptr);
    CHECK(vault.all->list("alice").size() == 1);
    CHECK(vault.all->list("bob").empty());
    // Another value for another host: the first one goes nowhere any more.
    REQUIRE(vault.all->put("KEY", "", {"c.example"}, "new").value() == Secrets::Put::replaced);
    CHECK(code(vault.all->open("KEY", "", "b.example")) == Errc::secret_host);
    CHECK(vault.all->open("KEY", "", "c.example").value().text() == "new");
    CHECK(code(vault.all->remove("KEY", "bob")) == Errc::not_found);
    CHECK(vault.all->erase_user("alice"));
    CHECK(vault.all->find("KEY", "alice") == nullptr);
    CHECK(vault.all->find("KEY", "") != nullptr);
    CHECK(vault.all->remove("KEY", ""));
    CHECK(rows.rows.empty());
    CHECK(vault.all->places().used() == 0);
}

TEST_CASE("A secret has a name, hosts and a value that a header can have") {
    test::FakeSecretStore rows;
    Vault vault(rows);
    REQUIRE(vault.ceilings.allow_private("10.0.0.0/8:443"));
    const auto hosts_refused = [&](const std::vector<std::string>& hosts, const std::string& pointer) {
        const auto put = vault.all->put("KEY", "", hosts, k_value);
        CHECK(code(put) == Errc::invalid_field);
        CHECK(put.error().pointer() == pointer);
    };
    hosts_refused({}, "/hosts");
    hosts_refused(std::vector<std::string>(secrets::k_max_hosts + 1, "a.example"), "/hosts");
    for (const char* const host : {"", "*.example", "a.example:443", "https://a.example", "a b", "127.1",
                                   "192.0.2.1", "11.0.0.1", "[::1]", "a.example/x"})
        hosts_refused({"a.example", host}, "/hosts/1");
    CHECK(vault.all->put("KEY", "", {"10.1.2.3"}, k_value));
    for (const std::string& value :
         {std::string(), std::string(" a"), std::string("a\t"), std::string("a\nb"), std::string("a\r"),
          std::string("a\0b", 3), std::string("\x7f"), std::string("\xc3\xa4"),
          std::string(secrets::k_max_value_bytes + 1, 'a')}) {
        const auto put = vault.all->put("KEY", "", {"a.example"}, value);
        CHECK(code(put) == Errc::invalid_field);
        CHECK(put.error().pointer() == "/value");
    }
    CHECK(vault.all->put("KEY", "", {"a.example"}, std::string(secrets::k_max_value_bytes, 'a')));
    CHECK(vault.all->put("KEY", "", {"a.example"}, "Bearer a\tb"));
    CHECK(secrets::is_secret_name("a.B_c-9"));
    for (const std::string& name : {std::string(), std::string("-a"), std::string(".a"), std::string("a/b"),
                                    std::string("a b"), std::string(65, 'a')})
        CHECK_FALSE(secrets::is_secret_name(name));
}

TEST_CASE("Nothing changes where the database refuses") {
    test::FakeSecretStore rows;
    const Vault vault(rows);
    REQUIRE(vault.all->put("KEY", "u", {"a.example"}, "old"));
    rows.accepts = base::Error(Errc::storage_failed);
    CHECK(code(vault.all->put("KEY", "u", {"b.example"}, "new")) == Errc::storage_failed);
    CHECK(code(vault.all->put("OTHER", "u", {"b.example"}, "new")) == Errc::storage_failed);
    CHECK(code(vault.all->remove("KEY", "u")) == Errc::storage_failed);
    CHECK(code(vault.all->erase_user("u")) == Errc::storage_failed);
    CHECK(vault.all->open("KEY", "u", "a.example").value().text() == "old");
    CHECK(vault.all->list("u").size() == 1);
    CHECK(vault.all->places().used() == 1);
}

TEST_CASE("A user has a share of the secrets that there may be") {
    test::FakeSecretStore rows;
    const Vault vault(rows, 1, 1);
    for (std::size_t number = 0; number < secrets::k_user_floor_secrets; ++number)
        REQUIRE(vault.all->put("k" + std::to_string(number), "eve", {"a.example"}, "v"));
    CHECK(code(vault.all->put("more", "eve", {"a.example"}, "v")) == Errc::user_share);
    CHECK(vault.all->put("k0", "eve", {"a.example"}, "another"));
    CHECK(vault.all->put("more", "adam", {"a.example"}, "v"));
    const Vault again(rows, 1, 1);
    CHECK(again.all->places().used() == secrets::k_user_floor_secrets + 1);
}

TEST_CASE("Rows that were changed do not open, and the log names them without their values") {
    test::FakeSecretStore rows;
    REQUIRE(Vault(rows).all->put("KEY", "alice", {"a.example", "b.example"}, k_value));
    // The control: the row as it was written opens.
    REQUIRE(Vault(rows).all->open("KEY", "alice", "a.example").value().text() == k_value);
    const secrets::Row good = rows.rows.front();
    const auto changed = [&](auto change) {
        rows.rows = {good};
        change(rows.rows.front());
        std::unique_ptr<Vault> vault;
        const std::string lines = logged([&] { vault = std::make_unique<Vault>(rows); });
        CHECK(lines.find("secret_unusable") != std::string::npos);
        CHECK(lines.find(k_value) == std::string::npos);
        return vault;
    };
    const auto is_unusable = [](const Vault& vault, const char* name, const char* owner, const char* host) {
        const secrets::Secret* const found = vault.all->find(name, owner);
        return found != nullptr && !found->is_usable &&
               code(vault.all->open(name, owner, host)) == Errc::secret_unusable;
    };
    CHECK(is_unusable(*changed([](auto& row) { row.name = "OTHER"; }), "OTHER", "alice", "a.example"));
    CHECK(is_unusable(*changed([](auto& row) { row.user_id = "eve"; }), "KEY", "eve", "a.example"));
    CHECK(is_unusable(*changed([](auto& row) { row.user_id = ""; }), "KEY", "", "a.example"));
    CHECK(
        is_unusable(*changed([](auto& row) { row.hosts = "evil.example"; }), "KEY", "alice", "evil.example"));
    CHECK(
        is_unusable(*changed([](auto& row) { row.sealed.back() = static_cast<char>(row.sealed.back() ^ 1); }),
                    "KEY", "alice", "a.example"));
    CHECK(is_unusable(*changed([](auto& row) { row.sealed.clear(); }), "KEY", "alice", "a.example"));
    // Rows that no server writes are left out.
    for (const char* const hosts : {"", " ", "a.example  b.example", "A.example", "*.example", "127.1"}) {
        CAPTURE(hosts);
        CHECK(changed([&](auto& row) { row.hosts = hosts; })->all->list("alice").empty());
    }
    CHECK(changed([](auto& row) { row.name = "a/b"; })->all->list("alice").empty());
    CHECK(changed([](auto& row) { row.sealed.append(secrets::k_max_value_bytes, 'x'); })
              ->all->list("alice")
              .empty());
}

TEST_CASE("With another key secrets stay, are named in the log, and work once they are put again") {
    test::FakeSecretStore rows;
    REQUIRE(Vault(rows).all->put("KEY", "", {"a.example"}, k_value));
    REQUIRE(Vault(rows).all->put("TOKEN", "alice", {"a.example"}, k_value));
    CHECK(logged([&] { const Vault same(rows); }).empty());
    std::unique_ptr<Vault> other;
    const std::string lines = logged([&] { other = std::make_unique<Vault>(rows, 2); });
    CHECK(lines.find("the secret KEY must be put again") != std::string::npos);
    CHECK(lines.find("the secret TOKEN of the user alice must be put again") != std::string::npos);
    CHECK_FALSE(other->all->find("KEY", "")->is_usable);
    CHECK(code(other->all->open("KEY", "", "a.example")) == Errc::secret_unusable);
    CHECK(code(other->all->check("KEY", "", "a.example")) == Errc::secret_unusable);
    CHECK(code(other->all->check("KEY", "", "b.example")) == Errc::secret_host);
    REQUIRE(other->all->put("KEY", "", {"a.example"}, "new").value() == Secrets::Put::replaced);
    CHECK(other->all->find("KEY", "")->is_usable);
    CHECK(other->all->check("KEY", "", "a.example"));
    CHECK(other->all->open("KEY", "", "a.example").value().text() == "new");
    CHECK(other->all->remove("TOKEN", "alice"));
}

TEST_CASE("A database and its backup have secrets sealed, and the backup opens with their key alone") {
    const test::TempDir dir;
    const auto file = dir.path() / "db";
    const auto copy = dir.path() / "copy";
    {
        const auto store = store::SqliteStore::open(file).value();
        const Vault vault(*store);
        REQUIRE(vault.all->put("KEY", "", {"a.example", "b.example"}, "first"));
        REQUIRE(vault.all->put("KEY", "", {"a.example", "b.example"}, k_value));
        REQUIRE(vault.all->put("KEY", "alice", {"a.example"}, k_value));
        REQUIRE(vault.all->put("GONE", "alice", {"a.example"}, k_value));
        REQUIRE(vault.all->remove("GONE", "alice"));
        REQUIRE(vault.all->put("GONE", "bob", {"a.example"}, k_value));
        REQUIRE(vault.all->erase_user("bob"));
        for (const char* const part : {"db", "db-wal"})
            CHECK(bytes_of_file(dir.path() / part).find(k_value) == std::string::npos);
    }
    REQUIRE(store::back_up(file, copy));
    const std::string bytes = bytes_of_file(copy);
    CHECK(bytes.find("a.example b.example") != std::string::npos);
    CHECK(bytes.find(k_value) == std::string::npos);
    CHECK(bytes.find(std::string(secrets::k_key_bytes, '\1')) == std::string::npos);
    const auto store = store::SqliteStore::open(copy).value();
    const Vault same(*store);
    CHECK(same.all->open("KEY", "", "b.example").value().text() == k_value);
    CHECK(same.all->open("KEY", "alice", "a.example").value().text() == k_value);
    CHECK(same.all->find("GONE", "alice") == nullptr);
    CHECK(same.all->list("bob").empty());
    const Vault other(*store, 2);
    CHECK(code(other.all->open("KEY", "alice", "a.example")) == Errc::secret_unusable);
}

TEST_CASE("A database from before there were secrets gets their table") {
    const test::TempDir dir;
    const auto file = dir.path() / "db";
    REQUIRE(store::SqliteStore::open(file));
    SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("DROP TABLE secrets");
    const auto store = store::SqliteStore::open(file).value();
    const Vault vault(*store);
    CHECK(vault.all->put("KEY", "", {"a.example"}, k_value));
}

}  // namespace secrets_test
