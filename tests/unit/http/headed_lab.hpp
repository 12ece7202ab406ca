// A proxy with hosts whose rules set headers, programs inside and upstreams, with OpenSSL on both sides of
// it.
#pragma once

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <optional>

#include "core/base/task_group.hpp"
#include "http/egress/egress_adapters.hpp"
#include "http/egress/egress_door.hpp"
#include "http/egress/egress_questions.hpp"
#include "http/egress/egress_tls.hpp"
#include "http/server/session.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/client_hello_bytes.hpp"
#include "tests/unit/http/egress_lab.hpp"
#include "tests/unit/http/tls_upstream.hpp"

namespace headed_hosts_test {

using namespace atl;
using namespace atl::test;
using sandbox::EgressRoute;
using sandbox::EgressSettings;

inline bool has_part(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// `mine` is there, for a.example.
class OneSecret final : public http::EgressSecrets {
  public:
    base::Result<void> check(const std::string& name, const std::string& user_id,
                             const std::string& host) const override {
        if (is_gone || name != "mine" || !user_id.empty())
            return base::Error(base::Errc::secret_not_found, "there is no secret \"" + name + '"');
        if (host != "a.example")
            return base::Error(base::Errc::secret_host, "it is for other hosts");
        return {};
    }
    base::Result<void> open(const std::string& name, const std::string& user_id, const std::string& host,
                            const std::function<void(std::string_view)>& take) const override {
        auto good = check(name, user_id, host);
        if (good.has_value())
            take("value-of-mine");
        ++opened;
        return good;
    }
    bool is_gone = false;
    mutable int opened = 0;
};

inline EgressRoute headed(const std::string& name = "a.example:443") {
    EgressRoute host;
    host.name = name;
    host.upstream = "https://" + name;
    host.headers = {{"x-api-key", "", "mine"}};
    return host;
}

inline EgressSettings with(std::vector<EgressRoute> hosts) {
    EgressSettings settings;
    settings.allow = {"a.example:443", "b.example:443"};
    settings.hosts = std::move(hosts);
    return settings;
}

/// A program inside, with a socket of its own and OpenSSL as its TLS.
class Program {
  public:
    Program(int fd, const std::string& trusted)
        : fd_(fd), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
        const std::unique_ptr<BIO, decltype(&BIO_free)> pem(
            BIO_new_mem_buf(trusted.data(), static_cast<int>(trusted.size())), &BIO_free);
        const std::unique_ptr<X509, decltype(&X509_free)> issuer(
            PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr), &X509_free);
        REQUIRE(X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), issuer.get()) == 1);
        SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    }
    SSL_CTX* settings() { return context_.get(); }
    void send(std::string_view bytes) {
        REQUIRE(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    /// The bytes that have come without TLS.
    std::string receive() {
        std::array<char, 4096> bytes{};
        const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        is_cut = is_cut || got == 0 || (got < 0 && errno != EAGAIN);
        return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
    }
    void begin_tls(const std::string& sni, const std::string& expected) {
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_fd(ssl_.get(), fd_.get());
        SSL_set_connect_state(ssl_.get());
        REQUIRE(SSL_set_tlsext_host_name(ssl_.get(), sni.c_str()) == 1);
        REQUIRE(SSL_set1_host(ssl_.get(), expected.c_str()) == 1);
    }
    bool shake_hands() {
        ERR_clear_error();
        const int code = SSL_do_handshake(ssl_.get());
        note(code);
        return code == 1;
    }
    void write(std::string_view bytes) {
        ERR_clear_error();
        note(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
    }
    std::string read() {
        std::array<char, 20'000> bytes{};
        ERR_clear_error();
        const int got = SSL_read(ssl_.get(), bytes.data(), bytes.size());
        note(got);
        return {bytes.data(), static_cast<std::size_t>(std::max(got, 0))};
    }
    SSL* ssl() { return ssl_.get(); }
    bool is_cut = false;

  private:
    void note(int code) {
        if (code > 0)
            return;
        const int error = SSL_get_error(ssl_.get(), code);
        is_cut = is_cut || (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE);
    }
    base::UniqueFd fd_;
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

class HeadedLab {
  public:
    explicit HeadedLab(const EgressSettings& wanted = with({headed()}),
                       const CertificatePem& upstreams_pem = issued("DNS:a.example"))
        : certificate(upstreams_pem),
          settings(wanted),
          issuer(http::SandboxCa::make().value()),
          door(std::make_shared<http::EgressDoor>("box", parts(), settings, issuer)) {}
    ~HeadedLab() {
        for (const auto& session : sessions_)
            session->abort();
        run();
    }
    HeadedLab(const HeadedLab&) = delete;
    HeadedLab& operator=(const HeadedLab&) = delete;

    std::unique_ptr<Program> connect() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
        http::Socket socket(loop_.get_executor());
        socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), ends[1]);
        auto connection = std::make_shared<http::Connection>(
            std::make_unique<http::SocketStream>(std::move(socket)), clock_, timers_, state_.settings);
        sessions_.push_back(std::make_shared<http::Session>(
            state_, *door->services(), std::move(connection), http::PeerAddress{},
            http::ListenerScope::loopback, http::CountLimiter::Lease()));
        tasks_.spawn(async_serve(sessions_.back()));
        return std::make_unique<Program>(ends[0], issuer->pem());
    }
    /// A program whose tunnel is there; the answer to CONNECT is in `answer`.
    std::unique_ptr<Program> tunnel(const std::string& to = "a.example:443") {
        auto program = connect();
        program->send("CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n");
        await_answer(*program);
        return program;
    }
    void await_answer(Program& program) {
        answer.clear();
        for (int turns = 0; turns < 50; ++turns) {
            run();
            answer += program.receive();
        }
    }
    /// A program that speaks TLS through its tunnel; null: it was refused.
    std::unique_ptr<Program> open(const std::string& to = "a.example:443") {
        auto program = tunnel(to);
        REQUIRE(answer.starts_with("HTTP/1.1 200 "));
        const std::string name = to.substr(0, to.find(':'));
        program->begin_tls(name, name);
        return shake(*program) ? std::move(program) : nullptr;
    }
    bool shake(Program& program) {
        bool done = false;
        for (int turns = 0; turns < 50 && !done && !program.is_cut; ++turns) {
            done = program.shake_hands();
            run();
        }
        return done;
    }
    std::string read(Program& program) {
        std::string text;
        for (int turns = 0; turns < 50; ++turns) {
            run();
            text += program.read();
        }
        return text;
    }
    /// The bytes that the newest upstream has got.
    std::string upstream_read() {
        std::string text;
        for (int turns = 0; turns < 50 && !upstreams.empty(); ++turns) {
            run();
            text += upstreams.back()->read();
        }
        return text;
    }
    void run() {
        for (int turns = 0; turns < 4; ++turns) {
            loop_.restart();
            loop_.poll();
            if (!upstreams.empty() && SSL_is_init_finished(upstreams.back()->ssl()) == 0)
                upstreams.back()->shake_hands();
        }
    }
    void advance(base::Millis by) {
        timers_.advance(by, [this] { run(); });
    }

  private:
    http::EgressParts parts() {
        http::EgressParts made{policy,
                               [](const std::string&, const std::string&, auto done) {
                                   done(http::EgressAddresses{*http::parse_address("192.0.2.1")});
                               },
                               [this](http::EgressAddresses, std::uint16_t, http::EgressDialDone done) {
                                   if (on_dial)
                                       on_dial();
                                   upstreams.push_back(std::make_unique<TlsUpstream>(certificate));
                                   http::Socket socket(loop_.get_executor());
                                   socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0),
                                                 upstreams.back()->client_end.release());
                                   done(std::make_unique<http::SocketStream>(std::move(socket)));
                               },
                               &http::make_hello_reader};
        made.secure = http::make_egress_tls(timers_, trusting_context());
        made.secrets = &secrets;
        made.questions = &questions;
        made.reports = reports;
        return made;
    }
    http::EgressQuestions::Ports desk() {
        return {clock_,
                timers_,
                policy,
                [this](const std::string&, const conversation::EgressQuestion& question) {
                    asked.push_back(question.id);
                    return true;
                },
                [](const std::string&, const std::string&, std::string_view) {},
                [this](const std::string&, const std::string& rule, const std::string&,
                       const http::EgressQuestions::Done& done) {
                    settings.allow.push_back(rule);
                    door->change(settings);
                    done({});
                }};
    }
    static base::Task<> async_serve(std::shared_ptr<http::Session> session) { co_await session->async_run(); }

    boost::asio::io_context loop_{1};
    FakeClock clock_;
    FakeTimers timers_{clock_};

  public:
    CertificatePem certificate;  // of upstreams from now on
    const std::shared_ptr<ReportedLines> reports = std::make_shared<ReportedLines>();
    std::function<void()> on_dial;
    FakeEgressPolicy policy;
    EgressSettings settings;
    std::vector<std::string> asked;  // ids of questions
    http::EgressQuestions questions{desk()};
    OneSecret secrets;
    std::string answer;
    std::vector<std::unique_ptr<TlsUpstream>> upstreams;
    const std::shared_ptr<http::SandboxCa> issuer;
    const std::shared_ptr<http::EgressDoor> door;

  private:
    http::ServerState state_{clock_, timers_, http::Settings{}};
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::vector<std::shared_ptr<http::Session>> sessions_;
};

}  // namespace headed_hosts_test
