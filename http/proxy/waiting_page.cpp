#include "http/proxy/waiting_page.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <stdexcept>
#include <string>

#include "core/base/base64.hpp"
#include "http/server/problem.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

struct Words {
    std::string_view headline;
    std::string_view what;
};

Words words(base::Errc why) {
    constexpr std::string_view k_soon = "The page appears as soon as something answers.";
    constexpr std::string_view k_repaired = "The page appears as soon as it answers.";
    switch (why) {
        case base::Errc::no_listener:
            return {"Nothing listens here yet",
                    "Start it there. The page appears as soon as something answers."};
        case base::Errc::paused:
            return {"This conversation is paused", k_soon};
        case base::Errc::user_share:
        case base::Errc::capacity:
            return {"There is no room for this preview now", "Reload the page in a moment to try again."};
        case base::Errc::upstream_failed:
            return {"The server in the sandbox broke off its answer", k_repaired};
        case base::Errc::deadline_exceeded:
            return {"The server in the sandbox did not answer in time", k_repaired};
        case base::Errc::sandbox_failed:
            return {"The sandbox of this preview could not be started", k_soon};
        case base::Errc::shutting_down:
            return {"The server is stopping", "The page appears as soon as it is back."};
        case base::Errc::preview_private:
            return {
                "This preview is private",
                "Open it with the link that you were given. Where that was good before, its time is over: "
                "ask for a new one. A browser that refuses cookies cannot show it."};
        case base::Errc::port_not_public:
            return {"This port is not shown", "Ask who gave you the address to list it among the preview's."};
        case base::Errc::preview_ended:
            return {"This preview has ended", "Ask who gave you the address for a new one."};
        case base::Errc::not_found:
            return {"There is no preview here", "Look at the address again. What was here may be deleted."};
        default:
            return {"The preview does not answer", k_soon};
    }
}

// The policy of the page names both by their digests: they must stand in it byte for byte.
constexpr std::string_view k_style =
    "body{font:16px/1.5 system-ui,sans-serif;margin:20vh auto;max-width:34em;padding:0 1em;color:#333}";
constexpr std::string_view k_script = R"(
const what = document.getElementById("what");
const key = "atoll-waiting-page";
// The answer to a reload, the page's own or a person's. Each GET keeps the sandbox running, so a dev server that
// breaks each of its answers is not asked by a page that nobody looks at.
const again = performance.getEntriesByType("navigation").some((each) => each.type === "reload");
const began = Date.now() - performance.now();
let until = 0;  // when the page stops to load itself; 0: it has not done so yet
let wait = 1000;
try {
  // Times that load() kept, if it brought this page. Programs of the preview may have written anything there.
  const [at, end, next] = (sessionStorage.getItem(key) || "").split(" ").map(Number);
  if (Math.abs(began - at) < 10000 && end > 0 && end <= at + 300000 && next >= 1000 && next <= 30000) {
    until = end;
    wait = next;
  }
} catch (error) {
  // There is no storage, as in a frame without an origin.
}
function leave_it(why) {
  what.textContent = why + "Reload the page to try again.";
}
// A dev server may die of each request and be started again: pause and deadline hold for all loads together. Where
// nothing listened for a minute, it did not.
function load() {
  const now = Date.now();
  if (now - began > 60000) {
    until = 0;
    wait = 1000;
  }
  until = until || now + 300000;
  if (now > until) {
    leave_it("The server in the sandbox broke off its answers for five minutes. ");
    return;
  }
  try {
    sessionStorage.setItem(key, [now, until, Math.min(wait * 2, 30000)].join(" "));
  } catch (error) {
    if (again) {
      leave_it("");
      return;
    }
  }
  location.reload();
}
async function ask() {
  if (document.hidden) {
    document.addEventListener("visibilitychange", ask, {once: true});
    return;
  }
  try {
    const answer = await fetch(location.href, {
      method: "HEAD", cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(10000)
    });
    const why = answer.headers.get("X-Atoll-Preview");
    // A conversation that was resumed is no longer paused, also where nothing listens in it yet.
    if (why === null || (what.dataset.why === "paused" && why === "no_listener")) {
      load();
      return;
    }
  } catch (error) {
    // Else the server is away: asked again.
    if (error.name === "TimeoutError") {
      load();  // Something listens: GET may be answered, or has a page that says why not.
      return;
    }
  }
  setTimeout(ask, 1000);
}
if (what.dataset.broken && again)
  leave_it("");
else
  setTimeout(ask, wait);
)";

constexpr std::string_view k_page =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>"
    "<meta name=\"viewport\" content=\"width=device-width\"><style>{2}</style></head>"
    "<body><h1>{0}</h1><p id=\"what\" data-why=\"{4}\"{5}>{1}</p>\n<script>{3}</script></body></html>\n";

// The name of an element's text in a policy (Content Security Policy Level 3 section 2.3.1).
std::string source_of(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
        throw std::runtime_error("SHA-256 is not available");
    std::string out = "'sha256-";
    base::append_base64(out, {reinterpret_cast<const char*>(digest.data()), size});
    return out + '\'';
}

// Not who may frame it: previews stand in pages of other origins.
const std::string& policy() {
    static const std::string text = fmt::format(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'",
        source_of(k_script), source_of(k_style));
    return text;
}

constexpr std::string_view k_closed_page =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>"
    "<meta name=\"viewport\" content=\"width=device-width\"><style>{2}</style></head>"
    "<body><h1>{0}</h1><p>{1}</p></body></html>\n";

Response page(base::Errc why, std::string body) {
    Response response;
    response.status = status_of(why);
    response.content_type = "text/html; charset=utf-8";
    response.body = std::move(body);
    response.problem_code = base::code_name(why);
    response.headers.emplace_back("Content-Security-Policy", policy());
    return response;
}

}  // namespace

bool is_navigation(const Request& request) {
    if (request.method != Method::get || request.has_header("Upgrade"))
        return false;
    const std::string_view mode = request.header("Sec-Fetch-Mode");
    if (!mode.empty() && !iequals(mode, "navigate"))
        return false;
    return request.header("Accept").find("text/html") != std::string_view::npos;
}

bool may_pass(base::Errc why) noexcept {
    const unsigned status = status_of(why);
    return (status >= 502 && status <= 504) || why == base::Errc::user_share;
}

bool is_broken_answer(base::Errc why) noexcept {
    return why == base::Errc::upstream_failed || why == base::Errc::deadline_exceeded;
}

Response waiting_page(base::Errc why, std::optional<std::uint16_t> port) {
    const auto [words_of_code, what] = words(why);
    const std::string headline = why == base::Errc::no_listener && port
                                     ? fmt::format("Nothing listens on port {}", *port)
                                     : std::string(words_of_code);
    return page(why, fmt::format(fmt::runtime(k_page), headline, what, k_style, k_script,
                                 base::code_name(why), is_broken_answer(why) ? " data-broken=\"1\"" : ""));
}

bool is_closed(base::Errc why) noexcept {
    return why == base::Errc::preview_private || why == base::Errc::port_not_public ||
           why == base::Errc::preview_ended || why == base::Errc::not_found;
}

Response closed_page(base::Errc why) {
    const auto [headline, what] = words(why);
    return page(why, fmt::format(fmt::runtime(k_closed_page), headline, what, k_style));
}

}  // namespace atl::http
