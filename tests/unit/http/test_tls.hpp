// A TLS context for a name, as a server would have it from its files.
#pragma once

#include <memory>
#include <string>

#include "http/wire/tls_context.hpp"
#include "tests/support/server_process.hpp"
#include "tests/support/test_certificate.hpp"

namespace atl::test {

inline std::shared_ptr<const http::TlsContext> tls_for(const std::string& name) {
    const TempDir dir;
    const auto paths = write_certificate(dir.path(), make_certificate(name));
    return http::TlsContext::make(http::read_certificate({paths.certificate, paths.key}).value()).value();
}

}  // namespace atl::test
