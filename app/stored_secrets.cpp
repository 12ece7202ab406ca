#include "app/stored_secrets.hpp"

#include <utility>

namespace atl::app {

base::Result<std::unique_ptr<secrets::Secrets>> open_secrets(const Config& config, const DataDir& data,
                                                             secrets::SecretStore& store,
                                                             const base::Clock& clock) {
    auto key = data.secrets_key();
    if (!key)
        return key.error();
    return secrets::Secrets::open({store, clock, config.egress}, std::move(*key), config.user_share_percent);
}

}  // namespace atl::app
