// A server inside a sandbox that does what dev servers do, and what hostile ones do, one behaviour a path.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/support/api_client.hpp"
#include "tests/support/resident_memory.hpp"

namespace atl::test {

inline constexpr const char* k_preview_site = R"(
import asyncio, base64, hashlib, struct, sys
ticks = asyncio.Queue()

async def read_frame(reader):
    first, second = await reader.readexactly(2)
    size = second & 127
    if size == 126: size = struct.unpack(">H", await reader.readexactly(2))[0]
    elif size == 127: size = struct.unpack(">Q", await reader.readexactly(8))[0]
    key = await reader.readexactly(4)
    data = await reader.readexactly(size)
    mask = (key * (size // 4 + 1))[:size]
    plain = (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
    return first, plain

def frame(first, data):
    size = len(data)
    if size < 126: head = struct.pack(">BB", first, size)
    elif size < 65536: head = struct.pack(">BBH", first, 126, size)
    else: head = struct.pack(">BBQ", first, 127, size)
    return head + data

async def echo(reader, writer, fields):
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    answer += "Sec-WebSocket-Accept: " + accept + "\r\n"
    if "permessage-deflate" in fields.get("sec-websocket-extensions", ""):
        answer += "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
    if "sec-websocket-protocol" in fields:
        answer += "Sec-WebSocket-Protocol: " + fields["sec-websocket-protocol"] + "\r\n"
    writer.write((answer + "\r\n").encode())
    while True:
        first, data = await read_frame(reader)
        writer.write(frame(first, data))
        await writer.drain()
        if first & 15 == 8: return

async def events(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    number = 0
    while True:
        text = b"data: %d\n\n" % number
        writer.write(b"%x\r\n%s\r\n" % (len(text), text))
        await writer.drain()
        await ticks.get()
        number += 1

async def endless(writer, first, again):
    writer.write(first)
    while True:
        writer.write(again)
        await writer.drain()

async def answer(reader, writer, path, fields, head):
    if path == "/ws":
        await echo(reader, writer, fields)
        raise EOFError
    elif path == "/events": await events(writer)
    elif path == "/head":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nLocation: http://localhost:5173/\r\n\r\n%s" % (len(head), head))
    elif path == "/tick":
        ticks.put_nowait(None)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    elif path.startswith("/big?"):
        left = int(path[5:])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
        piece = b"x" * 262144
        while left:
            writer.write(piece[:left])
            left -= min(left, len(piece))
            await writer.drain()
    elif path == "/endless-head": await endless(writer, b"HTTP/1.1 200 OK\r\n", b"X-Field: " + b"x" * 500 + b"\r\n")
    elif path == "/endless-interim": await endless(writer, b"", b"HTTP/1.1 102 Processing\r\n\r\n")
    elif path == "/endless-trailers":
        await endless(writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Field: " + b"x" * 500 + b"\r\n")
    elif path == "/endless-chunk-line":
        await endless(writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 500)
    elif path == "/endless-body":
        await endless(writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n")
    elif path == "/bad-chunk":
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n")
    elif path == "/garbage": writer.write(b"\0\1\2 not HTTP\r\n\r\n")
    elif path == "/unasked":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    elif path == "/hang":
        # It says that it has the request, and nothing more.
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await reader.read()
        raise EOFError
    elif path == "/silent":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        await reader.read()
    else:
        text = ("hello from " + sys.argv[1]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    await writer.drain()

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            pairs = [line.split(":", 1) for line in lines[1:] if ":" in line]
            fields = {name.lower(): value.strip() for name, value in pairs}
            await answer(reader, writer, lines[0].split()[1], fields, head)
    except (OSError, EOFError, asyncio.IncompleteReadError): pass
    finally: writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 5173, backlog=1024)
    await server.serve_forever()
asyncio.run(main())
)";

/// A server with previews.
class PreviewLab {
  public:
    explicit PreviewLab(std::vector<std::string> arguments = {}, Privilege privilege = Privilege::as_started)
        : server_{with_domain(std::move(arguments), privilege)}, api_(server_), visitor_(server_.address()) {}

    ServerProcess& server() noexcept { return server_; }
    const ServerProcess& server() const noexcept { return server_; }
    ApiClient& api() noexcept { return api_; }
    static std::string host(const std::string& sandbox) {
        return "preview-" + sandbox + ".preview.localhost";
    }

    std::string make_sandbox() { return api_.call(201, "POST", "/v1/sandboxes", "{}")["id"]; }
    /// Starts the site in a sandbox and waits until it answers. `restart`: "never" or "generation".
    void serve(const std::string& sandbox, const std::string& says, const std::string& restart = "never") {
        const Json wanted{
            {"argv", {"python3", "-c", k_preview_site, says}}, {"tag", "site"}, {"restart", restart}};
        api_.call(201, "POST", "/v1/sandboxes/" + sandbox + "/processes", wanted.dump());
        await(sandbox, says);
    }
    /// Until the site says so; a script's request, which gets no page.
    void await(const std::string& sandbox, const std::string& says) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        HttpResponse answer = get(sandbox);
        while (answer.status == 503 && std::chrono::steady_clock::now() < until)
            answer = get(sandbox);
        INFO(answer.body);
        REQUIRE(answer.body == "hello from " + says);
    }
    HttpResponse get(const std::string& sandbox, const std::string& target = "/", const HeaderList& more = {},
                     const std::string& method = "GET") {
        HeaderList headers{{"Host", host(sandbox)}};
        headers.insert(headers.end(), more.begin(), more.end());
        return visitor_.request(method, target, "", headers);
    }
    /// A connection of its own whose requests go to the preview.
    HttpClient connect(const std::string& sandbox) const {
        return HttpClient(server_.address(), {{"Host", host(sandbox)}});
    }
    /// A request that the site has got, and will not answer.
    HttpClient hang(const std::string& sandbox, const std::string& method = "GET") const {
        HttpClient client = connect(sandbox);
        client.send_raw(method + " /hang HTTP/1.1\r\nHost: " + host(sandbox) + "\r\n\r\n");
        REQUIRE(client.read_response(HttpClient::Body::none).status == 102);
        return client;
    }
    long resident_kb() const { return test::resident_kb(server_.pid()); }

  private:
    static ServerOptions with_domain(std::vector<std::string> arguments, Privilege privilege) {
        arguments.insert(arguments.end(), {"--preview-domain", "preview.localhost"});
        ServerOptions options;
        options.arguments = std::move(arguments);
        options.privilege = privilege;
        return options;
    }

    ServerProcess server_;
    ApiClient api_;
    HttpClient visitor_;
};

inline bool is_full_test() {
    const char* const full = std::getenv("ATOLL_TEST_FULL");
    return full != nullptr && std::string_view(full) == "1";
}

}  // namespace atl::test
