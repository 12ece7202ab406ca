#include "http/websocket/closing.hpp"

#include "core/base/json_writer.hpp"
#include "http/websocket/close_frame_finder.hpp"
#include "http/websocket/handshake.hpp"
#include "http/wire/connection.hpp"

namespace atl::http {
namespace {

constexpr std::size_t k_max_reason_bytes = k_max_control_bytes - 2;

std::string write_reason(std::string_view word, std::uint64_t after, std::string_view detail,
                         std::string_view log_epoch) {
    std::string reason;
    base::JsonWriter json(reason);
    json.begin_object();
    if (!log_epoch.empty())
        json.key("logEpoch").string(log_epoch);
    json.key("code").string(word);
    json.key("after").number(after);
    if (!detail.empty())
        json.key("detail").string(detail);
    json.end_object();
    return reason;
}

/// Waits for the client's close frame. Its other frames do not count.
class ClosedSocket final : public Takeover {
  public:
    base::Task<> async_run(Connection& connection, const ServerState&) override {
        CloseFrameFinder finder(FramePosition{});
        while (!finder.feed(connection.input())) {
            connection.consume(connection.input().size());
            const Io io = co_await connection.async_fill();
            if (io != Io::ok)
                co_return;
        }
    }
};

}  // namespace

std::string close_reason(std::string_view word, std::uint64_t after, std::string_view detail,
                         std::string_view log_epoch) {
    std::string reason = write_reason(word, after, detail, log_epoch);
    return reason.size() <= k_max_reason_bytes ? reason : write_reason(word, after, {}, log_epoch);
}

Response close_at_handshake(const Request& request, CloseCode code, std::string_view reason,
                            base::SteadyTime cut_at) {
    Response response = accept_handshake(request, std::make_unique<ClosedSocket>());
    write_close_frame(response.first_bytes, code, reason);
    response.cut_at = cut_at;
    return response;
}

}  // namespace atl::http
