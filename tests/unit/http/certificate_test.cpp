#include "http/wire/certificate.hpp"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "http/wire/tls_context.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/test_certificate.hpp"

namespace certificate_test {

using namespace atl;
using namespace atl::test;
using base::Errc;

namespace {

/// Two files in a folder of their own, and the result of reading them.
struct Files {
    Files(const std::string& certificate, const std::string& key)
        : paths(write_certificate(dir.path(), {certificate, key})) {}
    base::Result<http::Certificate> read() const {
        return http::read_certificate({paths.certificate, paths.key});
    }

    TempDir dir;
    CertificatePaths paths;
};

void check_refused(const base::Result<http::Certificate>& read, Errc code, const std::string& file,
                   const std::string& word) {
    REQUIRE(read.has_error());
    INFO(read.error().detail());
    CHECK(read.error().code() == code);
    CHECK(read.error().detail().find(file) != std::string::npos);
    CHECK(read.error().detail().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("a certificate, those that vouch for it, and its key are read") {
    const auto mine = make_certificate("a.example");
    const auto issuer = make_certificate("issuer.example");
    const Files files(mine.certificate + issuer.certificate, mine.key);
    const auto read = files.read();
    REQUIRE(read);
    CHECK(read->chain.size() == 1);
    CHECK(read->warnings.empty());
    CHECK(read->expires.ends_with("Z"));
    CHECK(http::TlsContext::make(*read));
}

TEST_CASE("certificate and key may be in one file, in any order") {
    const auto mine = make_certificate("a.example");
    for (const auto& text : {mine.certificate + mine.key, mine.key + mine.certificate}) {
        const Files files(text, text);
        CHECK(files.read());
    }
}

TEST_CASE("files that cannot be read are refused by name") {
    const auto mine = make_certificate("a.example");
    const Files files(mine.certificate, mine.key);
    REQUIRE(files.read());
    const auto& paths = files.paths;
    const std::string folder = files.dir.path().string();
    check_refused(http::read_certificate({"/no/such.pem", paths.key}), Errc::storage_failed, "/no/such.pem",
                  "No such file");
    check_refused(http::read_certificate({paths.certificate, "/no/such.key"}), Errc::storage_failed,
                  "/no/such.key", "No such file");
    check_refused(http::read_certificate({folder, paths.key}), Errc::invalid_field, folder, "regular file");
    const std::string fifo = folder + "/fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    check_refused(http::read_certificate({fifo, paths.key}), Errc::invalid_field, fifo, "regular file");
    std::ofstream(paths.certificate) << "";
    check_refused(files.read(), Errc::invalid_field, "cert.pem", "bytes");
    std::ofstream(paths.certificate) << std::string(2 * 1024 * 1024, 'x');
    check_refused(files.read(), Errc::invalid_field, "cert.pem", "bytes");
}

TEST_CASE("files that hold something else are refused by name") {
    const auto mine = make_certificate("a.example");
    const auto other = make_certificate("a.example");
    const std::string broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check_refused(Files("hello", mine.key).read(), Errc::invalid_field, "cert.pem", "no certificate");
    check_refused(Files(mine.key, mine.key).read(), Errc::invalid_field, "cert.pem", "no certificate");
    check_refused(Files(broken, mine.key).read(), Errc::invalid_field, "cert.pem", "no certificate");
    check_refused(Files(mine.certificate + broken, mine.key).read(), Errc::invalid_field, "cert.pem",
                  "broken certificate after 1");
    check_refused(Files(mine.certificate, mine.certificate).read(), Errc::invalid_field, "key.pem",
                  "no private key");
    check_refused(Files(mine.certificate, other.key).read(), Errc::invalid_field, "key.pem",
                  "is not the key");
    check_refused(Files(mine.certificate, encrypted_key(mine, "secret")).read(), Errc::invalid_field,
                  "key.pem", "passphrase");
}

TEST_CASE("what clients will refuse, and a key that others can read, is warned of") {
    for (const auto& [validity, word] :
         {std::pair{Validity::over, "expired"}, std::pair{Validity::later, "not valid before"}}) {
        const auto pem = make_certificate("a.example", validity);
        const auto read = Files(pem.certificate, pem.key).read();
        REQUIRE(read);
        REQUIRE(read->warnings.size() == 1);
        CHECK(read->warnings[0].find(word) != std::string::npos);
    }
    const auto mine = make_certificate("a.example");
    const Files files(mine.certificate, mine.key);
    ::chmod(files.paths.key.c_str(), 0640);
    CHECK(files.read()->warnings.empty());
    ::chmod(files.paths.key.c_str(), 0644);
    const auto read = files.read();
    REQUIRE(read);
    REQUIRE(read->warnings.size() == 1);
    CHECK(read->warnings[0].find("key.pem") != std::string::npos);
    CHECK(read->warnings[0].find("0600") != std::string::npos);
}

TEST_CASE("a key that OpenSSL finds too weak is refused with its reason") {
    const auto weak = make_weak_certificate();
    const auto read = Files(weak.certificate, weak.key).read();
    REQUIRE(read);
    const auto context = http::TlsContext::make(*read);
    REQUIRE(context.has_error());
    INFO(context.error().detail());
    CHECK(context.error().code() == Errc::invalid_field);
    CHECK(context.error().detail().find("key too small") != std::string::npos);
}

}  // namespace certificate_test
