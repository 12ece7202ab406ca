#include "tests/support/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace atl::test {
namespace {

using Time = std::chrono::steady_clock::time_point;

Time in(std::chrono::milliseconds wait) {
    return std::chrono::steady_clock::now() + wait;
}

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error("http client: " + what);
}

void wait_for(int fd, short events, Time deadline) {
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd item{fd, events, 0};
        const int ready = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
        if (ready > 0)
            return;
        if (ready == 0)
            fail("deadline passed");
        if (errno != EINTR)
            fail(std::strerror(errno));
    }
}

short events_of(TlsClient::Want want) {
    return want == TlsClient::Want::write ? POLLOUT : POLLIN;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

base::UniqueFd connect_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail("connect " + path + ": " + std::strerror(errno));
    return fd;
}

void bind_to(int fd, const std::string& source) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    if (::inet_pton(AF_INET, source.c_str(), &v4.sin_addr) != 1 ||
        ::bind(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof v4) != 0)
        fail("bind " + source + ": " + std::strerror(errno));
}

base::UniqueFd connect_tcp(const std::string& address, const std::string& source) {
    const auto colon = address.rfind(':');
    const auto port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    sockaddr_storage storage{};
    socklen_t length = 0;
    if (address.front() == '[') {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
        v6.sin6_family = AF_INET6;
        v6.sin6_port = port;
        ::inet_pton(AF_INET6, address.substr(1, colon - 2).c_str(), &v6.sin6_addr);
        length = sizeof v6;
    } else {
        auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
        v4.sin_family = AF_INET;
        v4.sin_port = port;
        ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &v4.sin_addr);
        length = sizeof v4;
    }
    base::UniqueFd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!source.empty())
        bind_to(fd.get(), source);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0)
        fail("connect " + address + ": " + std::strerror(errno));
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

// Parses a frame of an event stream (WHATWG HTML, section 9.2.6); nothing for a frame of comments only.
std::optional<SseEvent> parse_frame(std::string_view frame, std::size_t& comments) {
    SseEvent event;
    bool any = false;
    while (!frame.empty()) {
        const auto end = std::min(frame.find('\n'), frame.size());
        const auto line = frame.substr(0, end);
        frame.remove_prefix(std::min(end + 1, frame.size()));
        if (line.starts_with(':')) {
            ++comments;
            continue;
        }
        const auto colon = std::min(line.find(':'), line.size());
        const auto name = line.substr(0, colon);
        auto value = line.substr(std::min(colon + 1, line.size()));
        if (value.starts_with(' '))
            value.remove_prefix(1);
        if (name == "id")
            event.id = value;
        else if (name == "event")
            event.event = value;
        else if (name == "data")
            event.data.append(any ? "\n" : "").append(value);
        any = any || name == "data";
    }
    if (!any)
        return std::nullopt;
    event.is_named = !event.event.empty();
    const auto json = nlohmann::json::parse(event.data, nullptr, false);
    if (!event.is_named && json.is_object() && json.contains("type") && json["type"].is_string())
        event.event = json["type"];
    return event;
}

}  // namespace

std::string HttpResponse::header(std::string_view lower_name) const {
    for (const auto& [name, value] : headers)
        if (name == lower_name)
            return value;
    return {};
}

HttpClient::HttpClient(std::string address, HeaderList default_headers)
    : address_(std::move(address)), default_headers_(std::move(default_headers)) {
    constexpr std::string_view k_https = "https://";
    secure_ = address_.starts_with(k_https);
    if (secure_)
        address_.erase(0, k_https.size());
}

void HttpClient::connect() {
    constexpr std::string_view k_unix = "unix:";
    close();
    fd_ = address_.starts_with(k_unix) ? connect_unix(address_.substr(k_unix.size()))
                                       : connect_tcp(address_, source_);
    if (!secure_)
        return;
    tls_ = std::make_unique<TlsClient>(fd_.get(), tls_options_);
    const auto deadline = in(k_client_deadline);
    for (auto want = tls_->handshake(); want != TlsClient::Want::nothing; want = tls_->handshake())
        wait_for(fd_.get(), events_of(want), deadline);
}

void HttpClient::close() {
    tls_.reset();
    fd_.reset();
    buffer_.clear();
    stream_.clear();
    framing_ = Framing::none;
    keep_ = true;
}

void HttpClient::shutdown_send() {
    ::shutdown(fd_.get(), SHUT_WR);
}

std::size_t HttpClient::send_some(std::string_view bytes, Time deadline) {
    if (tls_) {
        const auto moved = tls_->write(bytes);
        if (moved.want != TlsClient::Want::nothing)
            wait_for(fd_.get(), events_of(moved.want), deadline);
        return moved.bytes;
    }
    const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
        return static_cast<std::size_t>(sent);
    // Who sends on behind a refusal may be reset: what the server said before is still to be read.
    if (errno == EPIPE || errno == ECONNRESET)
        return bytes.size();
    if (errno != EAGAIN)
        fail(std::string("send: ") + std::strerror(errno));
    wait_for(fd_.get(), POLLOUT, deadline);
    return 0;
}

// 0 at the end of the connection.
std::size_t HttpClient::receive_some(char* data, std::size_t size, Time deadline) {
    if (!tls_) {
        wait_for(fd_.get(), POLLIN, deadline);
        return static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(fd_.get(), data, size, 0)));
    }
    for (;;) {
        const auto moved = tls_->read(data, size);
        if (moved.want == TlsClient::Want::nothing)
            return moved.bytes;
        wait_for(fd_.get(), events_of(moved.want), deadline);
    }
}

void HttpClient::send_raw(std::string_view bytes) {
    if (!fd_)
        connect();
    const auto deadline = in(k_client_deadline);
    while (!bytes.empty())
        bytes.remove_prefix(send_some(bytes, deadline));
}

std::string HttpClient::format(std::string_view method, std::string_view target, std::string_view body,
                               const HeaderList& headers) const {
    std::string out;
    out.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
    bool host = false;
    bool type = false;
    for (const auto* list : {&default_headers_, &headers}) {
        for (const auto& [name, value] : *list) {
            out.append(name).append(": ").append(value).append("\r\n");
            host = host || lower(name) == "host";
            type = type || lower(name) == "content-type";
        }
    }
    if (!host)
        out.append("Host: ").append(address_.starts_with("unix:") ? "localhost" : address_).append("\r\n");
    if (!type && !body.empty())
        out += "Content-Type: application/json\r\n";
    if (!body.empty() || method == "POST" || method == "PATCH" || method == "PUT")
        out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
    return out.append("\r\n").append(body);
}

HttpResponse HttpClient::request(std::string_view method, std::string_view target, std::string_view body,
                                 const HeaderList& headers) {
    send_raw(format(method, target, body, headers));
    return read_response(method == "HEAD" ? Body::none : Body::read);
}

HttpResponse HttpClient::open_stream(std::string_view method, std::string_view target, std::string_view body,
                                     const HeaderList& headers) {
    HeaderList all = headers;
    all.emplace_back("Accept", "text/event-stream");
    send_raw(format(method, target, body, all));
    stream_.clear();
    comments_ = 0;
    return read_head();
}

bool HttpClient::fill(Time deadline) {
    std::array<char, 65'536> bytes;
    const auto count = receive_some(bytes.data(), bytes.size(), deadline);
    buffer_.append(bytes.data(), count);
    return count > 0;
}

std::string HttpClient::read_line(Time deadline) {
    for (;;) {
        const auto end = buffer_.find("\r\n");
        if (end != std::string::npos) {
            std::string line = buffer_.substr(0, end);
            buffer_.erase(0, end + 2);
            return line;
        }
        if (!fill(deadline))
            fail("connection closed within a line: " + buffer_);
    }
}

std::string HttpClient::read_exactly(std::size_t count, Time deadline) {
    while (buffer_.size() < count)
        if (!fill(deadline))
            fail("connection closed within a body");
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return out;
}

HttpResponse HttpClient::read_head() {
    const auto deadline = in(k_client_deadline);
    HttpResponse response;
    const auto status_line = read_line(deadline);
    constexpr std::size_t k_code_at = 9;  // "HTTP/1.1 "
    if (!status_line.starts_with("HTTP/1.1 ") || status_line.size() < k_code_at + 3)
        fail("not a status line: " + status_line);
    response.status = std::stoi(status_line.substr(k_code_at, 3));
    for (auto line = read_line(deadline); !line.empty(); line = read_line(deadline)) {
        const auto colon = line.find(": ");
        response.headers.emplace_back(lower(line.substr(0, colon)), line.substr(colon + 2));
    }
    keep_ = response.header("connection") != "close";
    const auto length = response.header("content-length");
    left_ = length.empty() ? 0 : std::stoul(length);
    if (response.header("transfer-encoding") == "chunked")
        framing_ = Framing::chunked;
    else if (!length.empty())
        framing_ = left_ > 0 ? Framing::length : Framing::none;
    else
        framing_ =
            keep_ || response.status == 204 || response.status < 200 ? Framing::none : Framing::until_close;
    return response;
}

// Moves more of the body into stream_; false at its end.
bool HttpClient::read_body_piece(Time deadline) {
    if (framing_ == Framing::none)
        return false;
    if (framing_ == Framing::chunked) {
        const auto size = std::stoul(read_line(deadline), nullptr, 16);
        stream_ += read_exactly(size, deadline);
        if (!read_exactly(2, deadline).starts_with("\r\n"))
            fail("bad chunk");
        if (size == 0)
            framing_ = Framing::none;
        return size > 0;
    }
    if (framing_ == Framing::length) {
        stream_ += read_exactly(left_, deadline);
        framing_ = Framing::none;
        return true;
    }
    if (buffer_.empty() && !fill(deadline)) {
        framing_ = Framing::none;
        return false;
    }
    stream_ += std::exchange(buffer_, {});
    return true;
}

HttpResponse HttpClient::read_response(Body body) {
    auto response = read_head();
    if (response.status == 100)
        return response;
    stream_.clear();
    if (body == Body::none)
        framing_ = Framing::none;
    const auto deadline = in(k_client_deadline);
    while (read_body_piece(deadline)) {
    }
    response.body = std::exchange(stream_, {});
    if (!keep_)
        close();
    return response;
}

std::optional<SseEvent> HttpClient::next_event(std::chrono::milliseconds wait) {
    const auto deadline = in(wait);
    for (;;) {
        const auto end = stream_.find("\n\n");
        if (end != std::string::npos) {
            const auto event = parse_frame(std::string_view(stream_).substr(0, end), comments_);
            stream_.erase(0, end + 2);
            if (event)
                return event;
            continue;
        }
        if (!read_body_piece(deadline)) {
            if (!keep_)
                close();
            return std::nullopt;
        }
    }
}

std::string HttpClient::read_raw(std::size_t count, std::chrono::milliseconds wait) {
    return read_exactly(count, in(wait));
}

std::string HttpClient::read_until_close(std::chrono::milliseconds wait) {
    const auto deadline = in(wait);
    while (fill(deadline)) {
    }
    std::string out = std::exchange(buffer_, {});
    close();
    return out;
}

bool HttpClient::closes(std::chrono::milliseconds wait) {
    return read_until_close(wait).empty();
}

}  // namespace atl::test
