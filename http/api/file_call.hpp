// Calls about files (bridge/guest/files): the members of their commands, and what comes back. What a guest
// says of a file goes to the client as it is; what the server itself decides by is checked here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/plain/operation_limits.hpp"
#include "http/api/guest_call.hpp"

namespace atl::http {

/// The length limit of a path in a body: in `toHref` each byte may be an escape of three characters.
inline constexpr std::size_t k_max_target_bytes = 3 * base::k_max_path_bytes;

/// The members of a `file` command as JSON text.
class FileMembers {
  public:
    explicit FileMembers(std::string_view op);
    /// `bytes` is a path, as the tail of a route has it.
    FileMembers& path(std::string_view bytes);
    /// `bytes` is where something goes.
    FileMembers& target(std::string_view bytes);
    FileMembers& text(std::string_view name, std::string_view value);
    FileMembers& number(std::string_view name, std::uint64_t value);
    FileMembers& flag(std::string_view name, bool value);
    /// A field of entity tags.
    FileMembers& tags(std::string_view name, std::string_view field);
    /// If-Match and If-None-Match, for ops that change something.
    FileMembers& conditions(const Request& request);
    sandbox::CallSpec spec() const;

  private:
    FileMembers& add(std::string_view name, std::string_view json);

    std::string json_;
};

/// The description of a file in a reply.
struct FileReply {
    std::string entry;         // the text of an object
    std::string name;          // UTF-8
    std::string etag;          // with quotes; empty: it has none
    std::string modified;      // an HTTP date; empty: none that can be told
    std::uint64_t size = 0;    // in bytes
    std::uint64_t length = 0;  // of the bytes behind the reply
    bool created = false;
};

/// Errors: bridge_failed, if it lacks an entry or says what no file can have.
base::Result<FileReply> parse_file_reply(std::string_view json);

/// The end of a call whose client has left: at once, or when its work is done.
enum class OnDisconnect : std::uint8_t { cancel, finish };

/// Begins a call and waits for its reply.
struct FileAnswer {
    std::unique_ptr<GuestCall> call;
    FileReply reply;
};
/// Errors: those of async_call() and GuestCall::async_reply_for_client(), bridge_failed.
base::Task<base::Result<FileAnswer>> async_file_call(Api& api, RequestContext& context,
                                                     const FileMembers& members, OnDisconnect on_disconnect);

/// All lines of a field that is a list, as one. Nothing: there is none. Never empty.
std::optional<std::string> list_field(const Request& request, std::string_view name);
/// Errors: invalid_request, if the request has a condition that routes that change files do not know.
base::Result<void> check_change_conditions(const Request& request);

/// A path that a client names in JSON or in a query, perhaps with `/workspace` in front, without that.
/// Nothing in it is decoded.
std::string_view inner_path(std::string_view path) noexcept;

/// `?path=` of a route: the bytes of a path in the workspace; without it the workspace.
std::string path_query(const RequestContext& context);

/// `?name=1`; false without it and for 0. Errors: invalid_field for any other value.
base::Result<bool> query_flag(const RequestContext& context, std::string_view name);

/// `all` of the routes that leave out base::k_home_names.
inline const QueryParameter k_all_parameter{
    "all", R"({"enum":["0","1"]})",
    "1: also `.atoll`, `.bash_history`, `.cache`, `.config`, `.local`, `.node_repl_history`, `.npm` and "
    "`.python_history` at the top of the workspace."};

/// The errors that every route of files may give, and then `more`, those of a single route.
std::vector<base::Errc> file_errors(std::initializer_list<base::Errc> more);

}  // namespace atl::http
