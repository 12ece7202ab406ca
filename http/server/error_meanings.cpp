// The sentence that says what each error means: the OpenAPI document has it, and a test compares it with the
// code's section of k_errors_page.
#include "http/server/problem.hpp"

namespace atl::http {

using base::Errc;

std::string_view meaning_of(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_json:
            return "The body is not JSON, is nested deeper than 64 levels, or names one member twice.";
        case Errc::invalid_utf8:
            return "Text that must be UTF-8 is not.";
        case Errc::invalid_request:
            return "The request is not of the documented form: its target, a field of its head, or its "
                   "query.";
        case Errc::invalid_field:
            return "A member of the body, or a query parameter, has the wrong type or a value outside its "
                   "range.";
        case Errc::unknown_field:
            return "The route knows no member of the body, or no query parameter, of this name.";
        case Errc::unknown_agent:
            return "No agent of this name is configured.";
        case Errc::invalid_env:
            return "A variable of `env` has no valid name, would override one that the server sets, or "
                   "begins with `LD_`.";
        case Errc::invalid_cwd:
            return "The working directory of a program is missing, or no directory.";
        case Errc::network_not_allowed:
            return "The request asks for network `host`, which the configuration or the key does not allow.";
        case Errc::limit_not_allowed:
            return "A limit is above the ceiling of the server or of the key.";
        case Errc::not_found:
            return "There is no such route, conversation, sandbox, process or tool, or it is another user's.";
        case Errc::method_not_allowed:
            return "The path exists, this method does not.";
        case Errc::not_acceptable:
            return "The route cannot answer in the form that `Accept` asks for.";
        case Errc::unauthorized:
            return "The request carries no key and no token.";
        case Errc::invalid_authorization:
            return "The field `Authorization` is not of the form `Bearer KEY`.";
        case Errc::invalid_key:
            return "The request carries a key that the server does not know.";
        case Errc::invalid_token:
            return "The request carries a token that the server did not make, or that is damaged.";
        case Errc::token_expired:
            return "The stream token was good, and its time is over.";
        case Errc::token_mismatch:
            return "The stream token is for another conversation or sandbox.";
        case Errc::token_scope:
            return "The stream token is of a scope that does not open the route; the detail names the one "
                   "that does.";
        case Errc::key_restricted:
            return "The key is for the conversations of one user, and the route is for more than those.";
        case Errc::read_only_token:
            return "The stream token lets its holder follow, not send.";
        case Errc::user_not_allowed:
            return "The key belongs to another user than the request names.";
        case Errc::port_not_public:
            return "The port of the sandbox is not among those that its preview shows.";
        case Errc::preview_private:
            return "The preview is private, and the visitor has no token for it that is still good.";
        case Errc::host_not_allowed:
            return "The field `Host` names a server that this is not.";
        case Errc::origin_not_allowed:
            return "A web page of another site asks.";
        case Errc::body_too_large:
            return "The body is over the cap of the route.";
        case Errc::header_too_large:
            return "The fields of the head are over 16 KiB.";
        case Errc::target_too_long:
            return "The request line is over 16 KiB.";
        case Errc::unsupported_media_type:
            return "The route reads JSON, and the body is of another media type; or a file or an archive has "
                   "a "
                   "`Content-Encoding`.";
        case Errc::upgrade_required:
            return "The route speaks WebSocket only.";
        case Errc::request_timeout:
            return "The head or the body did not arrive in time.";
        case Errc::turn_in_progress:
            return "The conversation has an open turn, and it has one at a time.";
        case Errc::no_turn:
            return "There is no open turn to interrupt.";
        case Errc::conversation_ended:
            return "The conversation is over: its time is up, or it is being removed.";
        case Errc::conversation_starting:
            return "The first sandbox of the conversation is not ready yet.";
        case Errc::conversation_paused:
            return "A pause overtook the start that this request waited for.";
        case Errc::idempotency_key_reused:
            return "This `Idempotency-Key` came before with another content.";
        case Errc::sandbox_in_use:
            return "The sandbox belongs to a conversation.";
        case Errc::seq_expired:
            return "The log no longer holds the event after `after`.";
        case Errc::log_replaced:
            return "The cursor is of another log than this one, or beyond its end.";
        case Errc::too_many_requests:
            return "An address or a key asks, or fails to log in, more often than it may.";
        case Errc::too_many_connections:
            return "An address has all the connections that it may have.";
        case Errc::too_many_streams:
            return "A conversation, an address or a key has all the streams that it may have.";
        case Errc::too_many_conversations:
            return "A user has all the conversations that one may have.";
        case Errc::too_many_processes:
            return "The sandbox has all the processes that it may have (`limits.maxProcesses`).";
        case Errc::executor_unavailable:
            return "The engine that was asked for cannot run a program on this server.";
        case Errc::execution_ended:
            return "The execution has ended: it takes no answers and no decisions any more.";
        case Errc::call_answered:
            return "The call has its answer already, or its decision.";
        case Errc::too_many_executions:
            return "A user has all the executions that may run and wait.";
        case Errc::too_many_kept_processes:
            return "The sandbox has all the processes with `restart: \"generation\"` that it may have.";
        case Errc::process_ended:
            return "The process has ended: it takes no signal, no input and no size any more.";
        case Errc::file_not_found:
            return "There is no such file or directory in the sandbox.";
        case Errc::already_exists:
            return "There is something at that path already.";
        case Errc::is_directory:
            return "The path is a directory, and a file is meant.";
        case Errc::not_a_directory:
            return "The path, or a part of it, is no directory, and one is meant.";
        case Errc::not_a_file:
            return "The path is a FIFO, a socket or a device. The server never opens one.";
        case Errc::directory_not_empty:
            return "The directory is not empty.";
        case Errc::outside_workspace:
            return "A link or a `..` in the path leads outside the workspace.";
        case Errc::invalid_path:
            return "No file can have this path: it is empty, too long, holds a NUL, goes through links that "
                   "lead in a "
                   "circle, has a name of the server's own, or would put a directory into itself.";
        case Errc::permission_denied:
            return "The user inside the sandbox may not do that to the file.";
        case Errc::file_changed:
            return "The file changed meanwhile.";
        case Errc::precondition_failed:
            return "`If-Match` or `If-None-Match` does not hold for what is there now.";
        case Errc::range_not_satisfiable:
            return "The range that `Range` asks for begins behind the end of the file, or has no bytes.";
        case Errc::disk_full:
            return "There is no room in the sandbox for this. What was there before is kept.";
        case Errc::invalid_archive:
            return "The body is not a tar archive that can be unpacked.";
        case Errc::sandbox_failed:
            return "The sandbox could not be started.";
        case Errc::agent_failed:
            return "The agent could not be started: its program is missing, ended at once, or did not say "
                   "`ready` in time.";
        case Errc::sandbox_gone:
            return "The sandbox ended while the operation ran.";
        case Errc::capacity:
            return "A configured bound of the server is reached.";
        case Errc::storage_failed:
            return "The database or the disk of the workspaces refuses writes.";
        case Errc::shutting_down:
            return "The server is stopping.";
        case Errc::bridge_failed:
            return "The sandbox broke the protocol, its connection to the server broke, or it met an error "
                   "that "
                   "has no code of its own.";
        case Errc::preview_paused:
            return "The conversation of this preview is paused.";
        case Errc::preview_ended:
            return "The sandbox of this preview has ended.";
        case Errc::no_listener:
            return "Nothing listens on that port inside the sandbox.";
        case Errc::upstream_failed:
            return "What answers on a port inside the sandbox broke HTTP or the connection.";
        case Errc::deadline_exceeded:
            return "Something inside the sandbox, or a helper of the server, did not answer in time.";
        case Errc::listen_failed:
            return "The server cannot listen on an address.";
        case Errc::host_unsupported:
            return "The host lacks something that is needed.";
        case Errc::internal:
            return "The server has a defect.";
    }
    return "";
}

}  // namespace atl::http
