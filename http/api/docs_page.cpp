#include "http/api/docs_page.hpp"

#include <algorithm>
#include <utility>

#include "http/api/schema_parts.hpp"
#include "http/server/problem.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Result;
using base::Task;

constexpr std::string_view k_docs_head = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Atoll API</title><style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
code { font: 0.9em ui-monospace, monospace } table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: 0.2rem 1rem 0.2rem 0; border-bottom: 1px solid #8884 }
h3 { margin: 2rem 0 0 } :target { background: #fd04 }
</style></head><body>
)html";
// Styles of its own, and nothing else from anywhere.
constexpr std::string_view k_docs_policy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

/// Text of the document as HTML; what stands between backticks is code.
std::string html_of(std::string_view text) {
    std::string out;
    bool is_code = false;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\n':
                out += "<br>";
                break;
            case '`':
                out += is_code ? "</code>" : "<code>";
                is_code = !is_code;
                break;
            default:
                out += c;
        }
    }
    return is_code ? out + "</code>" : out;
}

std::string html_code(std::string_view text) {
    return "<code>" + html_of(text) + "</code>";
}

/// The text of a member of `object`; empty: it has none.
std::string html_member_text(const Schema& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// "Conversation" of "#/components/schemas/Conversation".
std::string reference_name(const std::string& reference) {
    return reference.substr(reference.rfind('/') + 1);
}

/// The type of a schema in a few words: "integer", "array of FileEntry", "one of file, directory".
std::string html_type(const Schema& schema) {
    if (!schema.is_object())
        return "any";
    if (const std::string reference = html_member_text(schema, "$ref"); !reference.empty()) {
        const std::string name = reference_name(reference);
        return "<a href=\"#" + html_of(name) + "\">" + html_of(name) + "</a>";
    }
    if (const auto items = schema.find("items"); items != schema.end())
        return "array of " + html_type(*items);
    if (const auto words = schema.find("enum"); words != schema.end())
        return "one of " + html_code(words->dump());
    if (const auto word = schema.find("const"); word != schema.end())
        return html_code(word->dump());
    for (const char* const several : {"anyOf", "oneOf"}) {
        const auto found = schema.find(several);
        if (found == schema.end())
            continue;
        std::string out;
        for (const Schema& one : *found)
            out.append(out.empty() ? "" : " or ").append(html_type(one));
        return out;
    }
    const auto type = schema.find("type");
    if (type == schema.end())
        return "any";
    if (type->is_string())
        return html_of(type->get<std::string>());
    std::string out;
    for (const Schema& one : *type)
        out.append(out.empty() ? "" : " or ").append(one.is_string() ? one.get<std::string>() : "");
    return html_of(out);
}

void append_docs_row(std::string& out, const std::string& name, const std::string& type,
                     const std::string& means) {
    out.append("<tr><td>").append(name).append("<td>").append(type).append("<td>").append(means).append("\n");
}

void append_docs_members(std::string& out, const Schema& schema) {
    const auto members = schema.find("properties");
    if (members == schema.end())
        return;
    out += "<table><tr><th>member<th>type<th>meaning\n";
    for (const auto& [name, member] : members->items()) {
        append_docs_row(out, html_code(name), html_type(member),
                        html_of(html_member_text(member, "description")));
        // Events say what they say in `data`.
        if (name != "data" || !member.contains("properties"))
            continue;
        for (const auto& [inner, its] : member["properties"].items())
            append_docs_row(out, html_code("data." + inner), html_type(its),
                            html_of(html_member_text(its, "description")));
    }
    out += "</table>\n";
}

void append_docs_operation(std::string& out, std::string_view path, const std::string& method,
                           const Schema& operation) {
    std::string name = method;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c; });
    out.append("<h3 id=\"").append(html_of(html_member_text(operation, "operationId"))).append("\">");
    out.append(html_code(name.append(" ").append(path))).append("</h3>\n<p>");
    out.append(html_of(html_member_text(operation, "summary"))).append("\n<table>\n");
    if (const auto list = operation.find("parameters"); list != operation.end()) {
        for (const Schema& one : *list)
            append_docs_row(out, html_code(html_member_text(one, "name")),
                            html_of(html_member_text(one, "in")),
                            html_of(html_member_text(one, "description")));
    }
    if (const auto body = operation.find("requestBody"); body != operation.end()) {
        for (const auto& [media, content] : (*body)["content"].items())
            append_docs_row(out, "body", html_of(media),
                            content.contains("schema") ? html_type(content["schema"]) : "bytes");
    }
    for (const auto& [status, response] : operation["responses"].items()) {
        std::string means = html_of(html_member_text(response, "description"));
        if (const std::string shared = html_member_text(response, "$ref"); !shared.empty())
            means = html_of(reference_name(shared));
        if (const auto content = response.find("content"); content != response.end()) {
            for (const auto& [media, its] : content->items()) {
                if (its.contains("schema") && media != k_problem_type)
                    means.append(" ").append(html_type(its["schema"]));
            }
        }
        append_docs_row(out, html_code(status), "answer", means);
    }
    out += "</table>\n";
}

void append_docs_routes(std::string& out, const Schema& document) {
    for (const Schema& tag : document["tags"]) {
        const std::string name = html_member_text(tag, "name");
        out.append("<h2>").append(html_of(name)).append("</h2>\n<p>");
        out.append(html_of(html_member_text(tag, "description"))).append("\n");
        for (const auto& [path, operations] : document["paths"].items()) {
            for (const auto& [method, operation] : operations.items()) {
                if (operation["tags"][0] == name)
                    append_docs_operation(out, path, method, operation);
            }
        }
    }
}

void append_docs_errors(std::string& out) {
    out +=
        "<h2 id=\"errors\">Errors</h2>\n<p>Decide by <code>code</code>; <code>detail</code> says what to "
        "do.\n";
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto code = static_cast<Errc>(i);
        const std::string word(base::code_name(code));
        out.append("<h3 id=\"").append(word).append("\">").append(html_code(word)).append("</h3>\n<p>");
        out.append(std::to_string(status_of(code)))
            .append(". ")
            .append(html_of(meaning_of(code)))
            .append("\n");
    }
}

void append_docs_schemas(std::string& out, const Schema& document) {
    out += "<h2 id=\"schemas\">Objects and events</h2>\n";
    for (const auto& [name, schema] : document["components"]["schemas"].items()) {
        out.append("<h3 id=\"")
            .append(html_of(name))
            .append("\">")
            .append(html_code(name))
            .append("</h3>\n<p>");
        out.append(html_of(html_member_text(schema, "description"))).append("\n");
        append_docs_members(out, schema);
    }
}

Task<Result<Response>> async_send_docs(std::shared_ptr<const std::string> page) {
    Response response;
    response.content_type = "text/html; charset=utf-8";
    response.headers.emplace_back("Content-Security-Policy", std::string(k_docs_policy));
    response.lasting_body = *page;
    co_return std::move(response);
}

}  // namespace

std::string docs_page(const Schema& document) {
    std::string out(k_docs_head);
    const Schema& info = document["info"];
    out.append("<h1>Atoll API ").append(html_of(html_member_text(info, "version"))).append("</h1>\n<p>");
    out.append(html_of(html_member_text(info, "description")));
    out +=
        "\n<p><a href=\"#errors\">Errors</a> · <a href=\"#schemas\">Objects and events</a> · <a "
        "href=\"/openapi.json\">openapi.json</a>\n";
    append_docs_routes(out, document);
    append_docs_errors(out);
    append_docs_schemas(out, document);
    out += "</body></html>\n";
    out.shrink_to_fit();
    return out;
}

Route docs_route(std::shared_ptr<const std::string> page) {
    Route route;
    route.method = Method::get;
    route.pattern = "/docs";
    route.name = "getDocs";
    route.summary = "The reference of this API as a page for people: routes, objects, events, errors.";
    route.responses = {{200, "The page.", "DocsPage", "text/html; charset=utf-8"}};
    route.handler = [page = std::move(page)](RequestContext&) { return async_send_docs(page); };
    route.auth = Auth::open;
    return route;
}

}  // namespace atl::http
