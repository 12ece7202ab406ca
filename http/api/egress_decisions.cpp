// The route by which a person decides on a host that a sandbox asks for and no rule lists.
#include "http/api/api.hpp"
#include "http/api/schema_parts.hpp"
#include "http/egress/egress_questions.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using conversation::View;

constexpr std::size_t k_max_decision_bytes = 16;

Result<EgressDecision> read_decision_form(const Json& body) {
    ObjectReader reader(body);
    const auto word = reader.string("decision", k_max_decision_bytes);
    const auto decision = word ? parse_decision(*word) : std::nullopt;
    if (!decision)
        reader.fail("decision", "\"once\", \"always\" or \"deny\"");
    if (auto finished = reader.finish(); finished.has_error())
        return finished.error();
    return *decision;
}

Task<Result<Response>> async_decide(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto decision = read_decision_form(*body);
    if (decision.has_error())
        co_return decision.error();
    auto look = [&](conversation::Manager::Reply<View> reply) {
        api.conversations.get(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<View>(look);
    if (view.has_error())
        co_return view.error();
    if (api.egress_questions == nullptr)
        co_return Error(Errc::not_found);
    const std::string user_id = context.principal.user_id.value_or("");
    const auto decide = [&](EgressQuestions::Done done) {
        api.egress_questions->decide(view->record.sandbox_id, context.param("requestId"), *decision, user_id,
                                     std::move(done));
    };
    const auto decided = co_await context.async_reply<void>(decide);
    if (decided.has_error())
        co_return decided.error();
    Response response;
    response.status = 204;
    co_return response;
}

}  // namespace

std::vector<Route> egress_decision_routes(Api& api) {
    std::vector<Route> routes(1);
    Route& decide = routes[0];
    decide.method = Method::post;
    decide.pattern = "/v1/conversations/{id}/egress/{requestId}";
    decide.name = "decideEgress";
    decide.summary =
        "Decides on a host that a program inside asks for and `network.allow` does not list: the event "
        "`egress_request` has its `requestId`. `once` lets the requests that wait for it through; `always` "
        "also adds `host:port` to `network.allow`, as a rule of the key that decides.";
    decide.handler = bind_handler(api, async_decide);
    decide.body = BodyKind::json;
    decide.request_schema = "DecideEgress";
    decide.responses = {{204, "It is decided; with `always` the rule is stored.", ""}};
    decide.errors = {Errc::not_found,          Errc::invalid_field,  Errc::network_not_allowed,
                     Errc::secret_not_found,   Errc::secret_host,    Errc::secret_unusable,
                     Errc::conversation_ended, Errc::storage_failed, Errc::shutting_down};
    return routes;
}

}  // namespace atl::http
