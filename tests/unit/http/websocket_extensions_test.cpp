#include "http/websocket/extensions.hpp"

#include <catch2/catch_test_macros.hpp>

namespace websocket_extensions_test {

using namespace atl::http;

namespace {

const std::string k_plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// The response to these fields; "-" if none, "error" if the handshake fails.
std::string answer_to_all(const std::vector<std::string>& values, Compression wanted = Compression::deflate) {
    Request request;
    request.fields.push_back({"Host", "localhost"});
    for (const auto& value : values)
        request.fields.push_back({"sec-websocket-extensions", value});
    const auto agreement = agree_on_extensions(request, wanted);
    if (agreement.has_error()) {
        CHECK(agreement.error().code() == atl::base::Errc::invalid_request);
        return "error";
    }
    CHECK((agreement->compression == Compression::deflate) == !agreement->response.empty());
    return agreement->response.empty() ? "-" : agreement->response;
}

std::string answer(const std::string& value) {
    return answer_to_all({value});
}

}  // namespace

TEST_CASE("What clients offer in practice is accepted without a context that is taken over") {
    // Chromium, ws, python3-websockets; Firefox, Safari.
    CHECK(answer("permessage-deflate; client_max_window_bits") == k_plain);
    CHECK(answer("permessage-deflate") == k_plain);
    CHECK(answer("permessage-deflate; client_no_context_takeover; server_no_context_takeover") == k_plain);
    CHECK(answer("permessage-deflate; client_max_window_bits=8") == k_plain);
    CHECK(answer(" permessage-deflate ;\tclient_max_window_bits = \"1\\5\" , x-other") == k_plain);
    CHECK(answer_to_all({}) == "-");
    CHECK(answer("") == "-");
}

TEST_CASE("A client's limit of the server's window is kept or the offer declined") {
    for (const int bits : {12, 13, 14, 15})
        CHECK(answer("permessage-deflate; server_max_window_bits=" + std::to_string(bits)) ==
              k_plain + "; server_max_window_bits=12");
    for (const int bits : {8, 9, 10, 11})
        CHECK(answer("permessage-deflate; server_max_window_bits=" + std::to_string(bits)) == "-");
    CHECK(answer("permessage-deflate; server_max_window_bits=10, permessage-deflate") == k_plain);
}

TEST_CASE("An offer with a parameter that is unknown, repeated or wrong is declined, the next one counts") {
    for (const char* parameter :
         {"server_max_window_bits", "server_max_window_bits=7", "server_max_window_bits=16",
          "server_max_window_bits=012", "server_max_window_bits=0", "server_max_window_bits=+12",
          "server_max_window_bits=99999999999999999999", "client_max_window_bits=7",
          "client_max_window_bits=16", "client_max_window_bits=x", "client_no_context_takeover=1",
          "server_no_context_takeover=true", "client_max_window_bits; client_max_window_bits=10",
          "server_no_context_takeover;server_no_context_takeover", "mystery", "mystery=1",
          "Client_max_window_bits"}) {
        INFO(parameter);
        const std::string offer = std::string("permessage-deflate; ") + parameter;
        CHECK(answer(offer) == "-");
        CHECK(answer(offer + ", permessage-deflate") == k_plain);
        CHECK(answer_to_all({offer, "permessage-deflate"}) == k_plain);
    }
    for (const char* other :
         {"x-webkit-deflate-frame", "permessage-bzip2; level=9", "permessage-deflate2", "mux"})
        CHECK(answer(other) == "-");
    CHECK(answer("permessage-deflate; server_max_window_bits=15, permessage-deflate") ==
          k_plain + "; server_max_window_bits=12");
}

TEST_CASE("A field that is no list of extensions fails the handshake") {
    for (const char* value :
         {"permessage-deflate;", "permessage-deflate; =", "permessage-deflate; client_max_window_bits=",
          "permessage-deflate; client_max_window_bits=\"\"",
          "permessage-deflate; client_max_window_bits=\"12",
          "permessage-deflate; client_max_window_bits=\"1 2\"",
          "permessage-deflate; client_max_window_bits=\"12\\", "permessage-deflate client_max_window_bits",
          "; permessage-deflate", "=", "permessage deflate", "permessage-deflate; a=b=c",
          "permessage-deflate; a=\"b\"c", "per(message)", "\"permessage-deflate\"", "permessage-deflate\x01",
          "permessage-deflate; \xc3\xa4"}) {
        INFO(value);
        CHECK(answer(value) == "error");
        CHECK(answer_to_all({"permessage-deflate", value}) == "error");
    }
    CHECK(answer(",, ,permessage-deflate,,") == k_plain);
}

TEST_CASE("As many offers and parameters as fit into a head cost no time to speak of") {
    std::string offers;
    std::string parameters = "permessage-deflate";
    for (int i = 0; i < 4000; ++i) {
        offers += "x, ";
        parameters += "; p" + std::to_string(i);
    }
    CHECK(answer(offers + "permessage-deflate") == k_plain);
    CHECK(answer(parameters) == "-");
}

TEST_CASE("A server that does not compress declines, and still refuses what is no list") {
    CHECK(answer_to_all({"permessage-deflate"}, Compression::none) == "-");
    CHECK(answer_to_all({"permessage-deflate;"}, Compression::none) == "error");
}

}  // namespace websocket_extensions_test
