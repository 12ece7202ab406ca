// The one error vocabulary of the server: an enum with a stable name an entry, an Error that adds a sentence
// for a human reader, and Result<T>. Expected failures travel as values; exceptions are for start-up
// configuration and broken invariants. errno belongs to the log line, not to an Error.
// Not here: the HTTP status of an error (http/server/problem.hpp has that table).
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::base {

enum class Errc : std::uint8_t {
    // Bad requests: the client has to change the request.
    invalid_json,            // the body is not JSON, or nested deeper than allowed
    invalid_utf8,            // text that must be UTF-8 is not
    invalid_request,         // the request is not of the documented form (target, header, query)
    invalid_field,           // a field has the wrong type or a value outside its range
    unknown_field,           // a field that the route does not know
    unknown_agent,           // no agent of that name is configured
    invalid_env,             // a variable that would override an injected one, LD_*, or is malformed
    invalid_cwd,             // the working directory of a program is missing, or no directory
    network_not_allowed,     // `host` network asked for, not allowed by configuration or to this key
    limit_not_allowed,       // a limit above the ceiling of the server or of the key
    not_found,               // no such route, conversation, sandbox
    method_not_allowed,      // the path exists, the method does not
    not_acceptable,          // the route cannot answer in the form that Accept asks for
    unauthorized,            // no key and no token
    invalid_authorization,   // the Authorization field is not of the form `Bearer KEY`
    invalid_key,             // a key that this server does not know
    invalid_token,           // a stream token that this server did not make
    token_expired,           // the stream token was good and its time is over
    token_mismatch,          // the stream token is for another conversation or sandbox
    token_scope,             // the stream token is of a scope that does not open the route
    key_restricted,          // the key is for one user's conversations, the route for more than those
    read_only_token,         // the stream token lets its holder follow, not send
    user_not_allowed,        // the key belongs to another user than the request names
    port_not_public,         // the port of a sandbox is not among those that its preview shows
    preview_private,         // the preview is shown to bearers of a token alone, and this is none
    host_not_allowed,        // the Host field names a server that this is not (DNS rebinding)
    origin_not_allowed,      // a web page of another site asks (cross-site request)
    body_too_large,          // over the cap of the route
    header_too_large,        // header fields over their cap
    target_too_long,         // a request line over the cap of the head
    unsupported_media_type,  // a body that is not application/json where JSON is read
    upgrade_required,        // the route speaks WebSocket only
    request_timeout,         // header or body did not arrive in time
    turn_in_progress,        // one turn at a time
    no_turn,                 // interrupt without an open turn
    conversation_ended,      // it is being removed or its time is up
    conversation_starting,   // its first sandbox is not ready yet
    conversation_paused,     // a pause overtook the start that was asked for
    idempotency_key_reused,  // the same key with another content
    sandbox_in_use,          // it belongs to a conversation
    preview_ended,           // the sandbox of a preview has ended for good
    seq_expired,             // the log no longer holds the event after `after`
    log_replaced,            // the client's cursor is of another log than this one, or beyond its end
    too_many_requests,       // an address or a key asks, or fails to log in, more often than it may
    too_many_connections,    // an address has all the connections that it may have
    too_many_streams,        // a conversation, an address or a key has all its streams
    too_many_conversations,  // a user has all the conversations that one may have
    // What is inside the sandbox does not allow it.
    process_ended,          // the process has ended and takes nothing more
    file_not_found,         // no such file or directory in the sandbox
    already_exists,         // there is something at that path already
    is_directory,           // a file is meant, a directory is there
    not_a_directory,        // a directory is meant, something else is there
    not_a_file,             // a FIFO, socket or device, which is never opened
    directory_not_empty,    // only an empty directory is removed without being asked for more
    outside_workspace,      // a link or a `..` leads outside the workspace
    invalid_path,           // a path that no file can have
    permission_denied,      // the sandbox's own user may not do that to the file
    file_changed,           // the file changed while it was read or before it was to be changed
    precondition_failed,    // If-Match or If-None-Match does not hold
    range_not_satisfiable,  // a range of a file that begins behind its end
    invalid_archive,        // not a tar archive, or one with entries that are refused
    // Programs of code mode.
    executor_unavailable,  // the engine that was asked for cannot run here
    execution_ended,       // the program has ended and takes no more answers
    call_answered,         // the call of a tool has its answer already
    too_many_executions,   // a user has all the programs that one may have running and waiting
    // More than is kept of a sandbox.
    too_many_kept_processes,  // the processes that are started again in each generation
    // The host or the server cannot do it now.
    too_many_processes,  // the sandbox has all the processes that it may have
    disk_full,           // no room in the sandbox for what is written; the old file is kept
    sandbox_failed,      // the sandbox could not be started; detail says why
    agent_failed,        // the agent in it could not be started; detail says why
    sandbox_gone,        // the sandbox ended while the operation ran
    capacity,            // a configured bound is reached
    storage_failed,      // the database or the workspace store refuses writes
    shutting_down,       // the server is stopping
    bridge_failed,       // the guest broke the protocol, its connection, or failed without a word
    preview_paused,      // the conversation of a preview is paused
    no_listener,         // nothing listens on that port inside the sandbox
    upstream_failed,     // what answers on a port inside the sandbox broke HTTP or the connection
    deadline_exceeded,   // a peer did not answer in time
    listen_failed,       // an address cannot be listened on; detail says how to fix it
    host_unsupported,    // this host lacks a needed feature; detail says how to fix it
    internal,            // a defect of the server
};

/// The stable snake_case word of an error, as clients see it in `code`.
std::string_view code_name(Errc code) noexcept;

/// An error with a sentence that names the fault and, where possible, the remedy.
class Error {
  public:
    Error(Errc code, std::string detail) : code_(code), detail_(std::move(detail)) {}
    explicit Error(Errc code) : code_(code) {}
    /// With a time after which trying again makes sense.
    Error(Errc code, std::string detail, std::chrono::seconds retry_after)
        : code_(code), detail_(std::move(detail)), retry_after_(retry_after) {}
    Error() = default;  // Result<T>::error() of a success

    /// The same error, about the member of the request's body that `json_pointer` names (RFC 6901).
    Error at(std::string json_pointer) && {
        pointer_ = std::move(json_pointer);
        return std::move(*this);
    }

    /// The same error with one more member of the problem that clients see; `json` is the text of its value.
    Error with(std::string name, std::string json) && {
        members_.emplace_back(std::move(name), std::move(json));
        return std::move(*this);
    }

    Errc code() const noexcept { return code_; }
    const std::string& detail() const noexcept { return detail_; }
    /// Zero: not known.
    std::chrono::seconds retry_after() const noexcept { return retry_after_; }
    /// The JSON pointer of the member of the body that is at fault; empty: none is, or it is not known.
    const std::string& pointer() const noexcept { return pointer_; }
    using Members = std::vector<std::pair<std::string, std::string>>;
    const Members& members() const noexcept { return members_; }

  private:
    Errc code_ = Errc::internal;
    std::string detail_;
    std::chrono::seconds retry_after_{0};
    std::string pointer_;
    Members members_;
};

/// Thrown by Result::value() on an error: only ever a broken invariant.
class BadResult : public std::logic_error {
  public:
    explicit BadResult(const Error& error)
        : std::logic_error(std::string(code_name(error.code())) + ": " + error.detail()) {}
};

// Found by argument-dependent look-up from boost::system::result::value().
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
    throw BadResult(error);
}

template <class T>
using Result = boost::system::result<T, Error>;

/// "open /x: Permission denied (EACCES)": the text of a failed system call for an operator.
std::string errno_text(std::string_view what, int error_number);

}  // namespace atl::base
