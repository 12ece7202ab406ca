#include "core/base/error.hpp"

#include <array>
#include <cstring>

namespace atl::base {

std::string_view code_name(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_json:
            return "invalid_json";
        case Errc::invalid_utf8:
            return "invalid_utf8";
        case Errc::invalid_request:
            return "invalid_request";
        case Errc::invalid_field:
            return "invalid_field";
        case Errc::unknown_field:
            return "unknown_field";
        case Errc::unknown_agent:
            return "unknown_agent";
        case Errc::invalid_env:
            return "invalid_env";
        case Errc::invalid_cwd:
            return "invalid_cwd";
        case Errc::network_not_allowed:
            return "network_not_allowed";
        case Errc::limit_not_allowed:
            return "limit_not_allowed";
        case Errc::not_found:
            return "not_found";
        case Errc::method_not_allowed:
            return "method_not_allowed";
        case Errc::not_acceptable:
            return "not_acceptable";
        case Errc::unauthorized:
            return "unauthorized";
        case Errc::invalid_authorization:
            return "invalid_authorization";
        case Errc::invalid_key:
            return "invalid_key";
        case Errc::invalid_token:
            return "invalid_token";
        case Errc::token_expired:
            return "token_expired";
        case Errc::token_mismatch:
            return "token_mismatch";
        case Errc::token_scope:
            return "token_scope";
        case Errc::key_restricted:
            return "key_restricted";
        case Errc::read_only_token:
            return "read_only_token";
        case Errc::user_not_allowed:
            return "user_not_allowed";
        case Errc::port_not_public:
            return "port_not_public";
        case Errc::preview_private:
            return "preview_private";
        case Errc::host_not_allowed:
            return "host_not_allowed";
        case Errc::origin_not_allowed:
            return "origin_not_allowed";
        case Errc::body_too_large:
            return "body_too_large";
        case Errc::header_too_large:
            return "header_too_large";
        case Errc::target_too_long:
            return "target_too_long";
        case Errc::unsupported_media_type:
            return "unsupported_media_type";
        case Errc::upgrade_required:
            return "upgrade_required";
        case Errc::request_timeout:
            return "request_timeout";
        case Errc::turn_in_progress:
            return "turn_in_progress";
        case Errc::no_turn:
            return "no_turn";
        case Errc::conversation_ended:
            return "conversation_ended";
        case Errc::conversation_starting:
            return "conversation_starting";
        case Errc::conversation_paused:
            return "conversation_paused";
        case Errc::idempotency_key_reused:
            return "idempotency_key_reused";
        case Errc::sandbox_in_use:
            return "sandbox_in_use";
        case Errc::seq_expired:
            return "seq_expired";
        case Errc::log_replaced:
            return "log_replaced";
        case Errc::too_many_requests:
            return "too_many_requests";
        case Errc::too_many_connections:
            return "too_many_connections";
        case Errc::too_many_streams:
            return "too_many_streams";
        case Errc::too_many_conversations:
            return "too_many_conversations";
        case Errc::too_many_processes:
            return "too_many_processes";
        case Errc::executor_unavailable:
            return "executor_unavailable";
        case Errc::execution_ended:
            return "execution_ended";
        case Errc::call_answered:
            return "call_answered";
        case Errc::too_many_executions:
            return "too_many_executions";
        case Errc::too_many_kept_processes:
            return "too_many_kept_processes";
        case Errc::process_ended:
            return "process_ended";
        case Errc::file_not_found:
            return "file_not_found";
        case Errc::already_exists:
            return "already_exists";
        case Errc::is_directory:
            return "is_directory";
        case Errc::not_a_directory:
            return "not_a_directory";
        case Errc::not_a_file:
            return "not_a_file";
        case Errc::directory_not_empty:
            return "directory_not_empty";
        case Errc::outside_workspace:
            return "outside_workspace";
        case Errc::invalid_path:
            return "invalid_path";
        case Errc::permission_denied:
            return "permission_denied";
        case Errc::file_changed:
            return "file_changed";
        case Errc::precondition_failed:
            return "precondition_failed";
        case Errc::range_not_satisfiable:
            return "range_not_satisfiable";
        case Errc::disk_full:
            return "disk_full";
        case Errc::invalid_archive:
            return "invalid_archive";
        case Errc::sandbox_failed:
            return "sandbox_failed";
        case Errc::agent_failed:
            return "agent_failed";
        case Errc::sandbox_gone:
            return "sandbox_gone";
        case Errc::capacity:
            return "capacity";
        case Errc::storage_failed:
            return "storage_failed";
        case Errc::shutting_down:
            return "shutting_down";
        case Errc::bridge_failed:
            return "bridge_failed";
        case Errc::preview_paused:
            return "paused";
        case Errc::preview_ended:
            return "preview_ended";
        case Errc::no_listener:
            return "no_listener";
        case Errc::upstream_failed:
            return "upstream_failed";
        case Errc::deadline_exceeded:
            return "deadline_exceeded";
        case Errc::listen_failed:
            return "listen_failed";
        case Errc::host_unsupported:
            return "host_unsupported";
        case Errc::internal:
            return "internal";
    }
    return "internal";
}

std::string errno_text(std::string_view what, int error_number) {
    std::array<char, 128> buffer{};
    // The GNU strerror_r returns the text, which may or may not live in the buffer (strerror_r(3)).
    const char* text = ::strerror_r(error_number, buffer.data(), buffer.size());
    std::string out(what);
    out += ": ";
    out += text;
    if (const char* name = ::strerrorname_np(error_number)) {
        out += " (";
        out += name;
        out += ')';
    }
    return out;
}

}  // namespace atl::base
