// Routes of secrets. A value comes in and never goes out: not in an answer, not in an error, not in a log.
#include "core/secrets/secrets.hpp"

#include <openssl/crypto.h>

#include <algorithm>

#include "core/base/json_writer.hpp"
#include "core/egress/limits.hpp"
#include "http/api/api.hpp"
#include "http/api/ownership.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using secrets::Secret;
using secrets::Secrets;

constexpr std::string_view k_secret = "/v1/secrets/{name}";
constexpr QueryParameter k_owner{"userId", R"({"type":"string"})",
                                 "The user whose secrets are meant; the operator's without it. A key with a "
                                 "user may leave it out or name that user."};

void wipe(std::string& text) noexcept {
    OPENSSL_cleanse(text.data(), text.size());
}

/// Wipes the body of a request and the texts that were read from it, once the request has been done.
class WipedBody {
  public:
    explicit WipedBody(RequestContext& context) : context_(context), json_(context.json_body()) {}
    ~WipedBody() {
        wipe(context_.request.body);
        if (!json_ || !json_->is_object())
            return;
        for (auto& member : *json_) {
            if (member.is_string())
                wipe(member.get_ref<std::string&>());
        }
    }
    WipedBody(const WipedBody&) = delete;
    WipedBody& operator=(const WipedBody&) = delete;

    const Result<Json>& json() const noexcept { return json_; }

  private:
    RequestContext& context_;
    Result<Json> json_;
};

struct SecretForm {
    std::string_view value;  // in the body
    std::vector<std::string> hosts;
    std::optional<std::string> user_id;
};

Result<SecretForm> read_secret_form(const Json& body) {
    ObjectReader reader(body);
    SecretForm form;
    const Json* const value = reader.any("value");
    if (value != nullptr && value->is_string())
        form.value = value->get_ref<const std::string&>();
    else
        reader.fail("value", "a string");
    const Json* const hosts = reader.any("hosts");
    const bool are_texts =
        hosts != nullptr && hosts->is_array() &&
        std::all_of(hosts->begin(), hosts->end(), [](const Json& host) { return host.is_string(); });
    if (!are_texts)
        reader.fail("hosts", "a list of the names of hosts");
    else if (hosts->size() <= secrets::k_max_hosts)
        form.hosts = hosts->get<std::vector<std::string>>();
    form.user_id = reader.string("userId", base::k_max_user_id_bytes);
    if (form.user_id && (form.user_id->empty() || form.user_id->find('\0') != std::string::npos))
        reader.fail("userId", "text that is not empty and has no NUL character");
    if (auto finished = reader.finish(); finished.has_error())
        return finished.error();
    return form;
}

void write_secret(base::JsonWriter& json, const Secret& secret) {
    json.begin_object().key("name").string(secret.name);
    json.key("hosts").begin_array();
    for (const std::string& host : secret.hosts)
        json.string(host);
    json.end_array();
    json.key("userId").string_or_null(secret.user_id.empty() ? std::nullopt : std::optional(secret.user_id));
    json.key("updatedAt").string(base::rfc3339(secret.updated_at));
    json.key("usable").raw(secret.is_usable ? "true" : "false").end_object();
}

Response secret_response(const Secret& secret, unsigned status) {
    std::string out;
    base::JsonWriter json(out);
    write_secret(json, secret);
    return json_response(std::move(out), status);
}

/// Whose secrets a request is about; empty: the operator's. Errors: user_not_allowed.
Result<std::string> owner_of(const RequestContext& context, std::optional<std::string> named) {
    if (auto claimed = claim_user(context.principal, named); claimed.has_error())
        return claimed.error();
    return named.value_or("");
}

Result<std::string> owner_in_query(const RequestContext& context) {
    const std::string* const named = context.query_value("userId");
    return owner_of(context, named == nullptr ? std::nullopt : std::optional(*named));
}

Result<Response> put_secret(Secrets& all, RequestContext& context) {
    const WipedBody body(context);
    if (body.json().has_error())
        return body.json().error();
    const std::string& name = context.param("name");
    if (!secrets::is_secret_name(name))
        return Error(Errc::invalid_field,
                     "The name of a secret must be 1 to " + std::to_string(secrets::k_max_secret_name_bytes) +
                         " letters, digits, `.`, `_` and `-`, and begin with a letter or a digit.");
    const auto form = read_secret_form(*body.json());
    if (form.has_error())
        return form.error();
    const auto owner = owner_of(context, form->user_id);
    if (owner.has_error())
        return owner.error();
    const auto put = all.put(name, *owner, form->hosts, form->value);
    if (put.has_error())
        return put.error();
    return secret_response(*all.find(name, *owner), *put == Secrets::Put::made ? 201 : 200);
}

Result<Response> get_secret(Secrets& all, RequestContext& context) {
    const auto owner = owner_in_query(context);
    if (owner.has_error())
        return owner.error();
    const Secret* const secret = all.find(context.param("name"), *owner);
    if (secret == nullptr)
        return Error(Errc::not_found);
    return secret_response(*secret, 200);
}

Result<Response> list_secrets(Secrets& all, RequestContext& context) {
    const auto owner = owner_in_query(context);
    if (owner.has_error())
        return owner.error();
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("secrets").begin_array();
    for (const Secret* const secret : all.list(*owner))
        write_secret(json, *secret);
    json.end_array().end_object();
    return json_response(std::move(out));
}

Result<Response> remove_secret(Secrets& all, RequestContext& context) {
    const auto owner = owner_in_query(context);
    if (owner.has_error())
        return owner.error();
    if (const auto removed = all.remove(context.param("name"), *owner); removed.has_error())
        return removed.error();
    Response response;
    response.status = 204;
    return response;
}

template <Result<Response> (*Answer)(Secrets&, RequestContext&)>
Task<Result<Response>> async_answer_of_secrets(Api& api, RequestContext& context) {
    if (api.secrets == nullptr)
        co_return Error(Errc::not_found);
    co_return Answer(*api.secrets, context);
}

Route secret_route(Method method, std::string_view pattern, std::string_view name, std::string_view summary,
                   Handler handler) {
    Route made{method, pattern, name, summary, std::move(handler)};
    made.user_keys = UserKeys::allowed;
    made.errors = {Errc::user_not_allowed, Errc::not_found};
    if (method != Method::put)
        made.query = {k_owner};
    return made;
}

}  // namespace

std::vector<Route> secret_routes(Api& api) {
    std::vector<Route> routes;
    Route list = secret_route(Method::get, "/v1/secrets", "listSecrets",
                              "The secrets of one owner, by name, never their values.",
                              bind_handler(api, async_answer_of_secrets<list_secrets>));
    list.responses = {{200, "The secrets.", "SecretList"}};
    routes.push_back(std::move(list));

    Route put = secret_route(Method::put, k_secret, "putSecret",
                             "Stores a value for routes of sandboxes to the named hosts, in the place of one "
                             "of the same name and owner. The value is never told again.",
                             bind_handler(api, async_answer_of_secrets<put_secret>));
    put.body = BodyKind::json;
    put.request_schema = "PutSecret";
    put.responses = {{201, "The secret is new.", "Secret"}, {200, "It replaced another.", "Secret"}};
    put.errors.insert(put.errors.end(), {Errc::user_share, Errc::capacity, Errc::storage_failed});
    routes.push_back(std::move(put));

    Route get = secret_route(Method::get, k_secret, "getSecret", "One secret, never its value.",
                             bind_handler(api, async_answer_of_secrets<get_secret>));
    get.responses = {{200, "The secret.", "Secret"}};
    routes.push_back(std::move(get));

    Route remove = secret_route(Method::delete_, k_secret, "deleteSecret",
                                "Removes a secret. Requests of routes that name it are refused from now on.",
                                bind_handler(api, async_answer_of_secrets<remove_secret>));
    remove.responses = {{204, "It is gone.", ""}};
    remove.errors.push_back(Errc::storage_failed);
    routes.push_back(std::move(remove));
    return routes;
}

void add_secret_schemas(Schema& out) {
    Schema hosts = list_of(text_up_to(egress::k_max_name_bytes + 1));
    hosts["minItems"] = 1;
    hosts["maxItems"] = secrets::k_max_hosts;
    Schema value = text_up_to(secrets::k_max_value_bytes);
    value["writeOnly"] = true;
    out["PutSecret"] = described(
        object(Members::optional,
               {{"value",
                 "What a field of a request gets: ASCII without line ends and other control characters.",
                 std::move(value)},
                {"hosts",
                 "The hosts that it may go to: exact names without ports. An address only where a range of "
                 "--egress-private has it.",
                 hosts},
                {"userId",
                 "The user whose routes may use it; without it those that keys without a user set. A key "
                 "with a user may leave it out or name that user.",
                 text_up_to(base::k_max_user_id_bytes)}},
               {"value", "hosts"}),
        "A secret to store.");
    out["Secret"] = described(
        object(Members::required,
               {{"name", "Its name, unique among those of its owner.", text()},
                {"hosts", "The hosts that it may go to.", list_of(text())},
                {"userId", "Its user; null: the operator's.", nullable_text()},
                {"updatedAt", "When its value was stored.", time()},
                {"usable", "false: it was sealed with another key of the server and must be put again.",
                 flag()}}),
        "A secret, without its value.");
    out["SecretList"] =
        described(object(Members::required, {{"secrets", "By name.", list_of(ref("Secret"))}}),
                  "The secrets of one owner.");
}

}  // namespace atl::http
