#include "http/console/console.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

// The console shows hostile text of agents: only these files may run scripts, and no request goes to another
// origin. Frames may show previews, which are other origins.
constexpr std::string_view k_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; frame-src ";

constexpr HeaderParameter k_if_none_match{"If-None-Match", "The ETag of the copy that the client has."};

const ConsoleFile* find_file(std::string_view name) noexcept {
    const auto files = console_files();
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const ConsoleFile& file) { return file.name == name; });
    return found == files.end() ? nullptr : &*found;
}

Result<Response> serve(std::string_view name, const Request& request, const std::string& policy) {
    const ConsoleFile* file = find_file(name);
    if (file == nullptr)
        return Error(Errc::not_found, "The console has no such file.");
    Response response;
    response.cache_control = "no-cache";
    response.headers.emplace_back("ETag", file->etag);
    response.headers.emplace_back("Content-Security-Policy", policy);
    response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
    response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
    if (etag_matches(request.header("If-None-Match"), file->etag)) {
        response.status = 304;
        response.content_type = {};
        return response;
    }
    response.content_type = file->content_type;
    response.lasting_body = file->bytes;
    return response;
}

using Policy = std::shared_ptr<const std::string>;

Task<Result<Response>> async_index(RequestContext& context, Policy policy) {
    co_return serve("index.html", context.request, *policy);
}

Task<Result<Response>> async_file(RequestContext& context, Policy policy) {
    co_return serve(context.param("file"), context.request, *policy);
}

}  // namespace

bool console_has_terminal() noexcept {
    return find_file("xterm.mjs") != nullptr && find_file("xterm.css") != nullptr;
}

bool etag_matches(std::string_view if_none_match, std::string_view etag) noexcept {
    while (!if_none_match.empty()) {
        auto candidate = take_element(if_none_match, ',');
        if (candidate == "*")
            return true;
        if (candidate.starts_with("W/"))
            candidate.remove_prefix(2);
        if (candidate == etag)
            return true;
    }
    return false;
}

std::vector<Route> console_routes(std::string_view frames) {
    const auto policy =
        std::make_shared<const std::string>(std::string(k_policy).append(frames.empty() ? "'none'" : frames));
    std::vector<Route> routes(2);
    Route& index = routes[0];
    index.method = Method::get;
    index.pattern = "/";
    index.name = "getConsole";
    index.summary = "The web console.";
    index.handler = [policy](RequestContext& context) { return async_index(context, policy); };
    index.auth = Auth::open;
    index.headers = {k_if_none_match};
    index.responses = {{200, "The page.", "ConsoleFile", "text/html; charset=utf-8"},
                       {304, "The client has it already.", ""}};

    Route& file = routes[1];
    file.method = Method::get;
    file.pattern = "/console/{file}";
    file.name = "getConsoleFile";
    file.summary = "One of the files that the web console is made of.";
    file.handler = [policy](RequestContext& context) { return async_file(context, policy); };
    file.auth = Auth::open;
    file.headers = {k_if_none_match};
    for (const ConsoleFile& one : console_files()) {
        const auto same_type = [&](const ResponseSpec& spec) { return spec.media_type == one.content_type; };
        if (std::none_of(file.responses.begin(), file.responses.end(), same_type))
            file.responses.push_back({200, "The file.", "ConsoleFile", one.content_type});
    }
    file.responses.push_back({304, "The client has it already.", ""});
    file.errors = {Errc::not_found};
    return routes;
}

}  // namespace atl::http
