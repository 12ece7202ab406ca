#include "http/egress/egress_recorder.hpp"

#include <utility>

#include "core/base/json_writer.hpp"

namespace atl::http {
namespace {

std::string_view form_name(EgressForm form) noexcept {
    switch (form) {
        case EgressForm::connect:
            return "connect";
        case EgressForm::absolute:
            return "absolute";
        case EgressForm::route:
            return "route";
        case EgressForm::tunneled:
            return "tunneled";
    }
    return "";
}

}  // namespace

void EgressRecorder::looked_up(bool was_found) {
    ++(was_found ? counters_.look_ups_answered : counters_.look_ups_failed);
}

void EgressRecorder::ended(const EgressRequest& request, const EgressEnd& end) {
    count(end);
    if (log_ != nullptr)
        log_->write(line(request, end));
    tell(request, end);
}

void EgressRecorder::count(const EgressEnd& end) {
    if (end.denied)
        ++counters_.denied[static_cast<std::size_t>(*end.denied)];
    else
        ++(end.failed ? counters_.failed : counters_.allowed);
    if (!end.was_open)
        return;
    counters_.bytes_up += end.bytes_up;
    counters_.bytes_down += end.bytes_down;
    --counters_.open;
}

// A request that never was connected, and was not refused, is told by its answer alone; one in a tunnel that
// got through, by the tunnel.
void EgressRecorder::tell(const EgressRequest& request, const EgressEnd& end) {
    if (request.host.empty() || (!end.denied && !end.was_open))
        return;
    conversation::EgressNotice notice;
    notice.host = request.host;
    notice.port = request.port;
    notice.route = request.route;
    if (end.denied) {
        notice.reason = to_string(*end.denied);
    } else {
        notice.bytes_up = end.bytes_up;
        notice.bytes_down = end.bytes_down;
        notice.lasted = end.lasted;
    }
    events_.add(request.sandbox_id, std::move(notice));
}

std::string EgressRecorder::line(const EgressRequest& request, const EgressEnd& end) const {
    const EgressOwner owner = owner_(request.sandbox_id);
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    json.key("time").string(base::rfc3339(clock_.wall_now())).key("sandbox").string(request.sandbox_id);
    json.key("conversation").string_or_null(owner.conversation_id).key("user").string_or_null(owner.user_id);
    json.key("host").string(request.host).key("port").number(request.port);
    constexpr std::size_t k_told_method_bytes = 32;
    json.key("form").string(form_name(request.form));
    json.key("method").string(std::string_view(request.method).substr(0, k_told_method_bytes));
    if (!request.route.empty())
        json.key("route").string(request.route);
    json.key("decision").string(end.denied ? "denied" : end.failed ? "failed" : "allowed");
    if (end.denied || end.failed)
        json.key("reason").string(end.denied ? to_string(*end.denied) : base::code_name(*end.failed));
    json.key("bytesUp").number(end.bytes_up).key("bytesDown").number(end.bytes_down);
    json.key("ms").number(static_cast<std::uint64_t>(end.lasted.count()));
    json.end_object();
    text += '\n';
    return text;
}

}  // namespace atl::http
