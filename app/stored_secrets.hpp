// The secrets of a server: those of its database, with the key of its data directory.
#pragma once

#include <memory>

#include "app/config.hpp"
#include "app/data_dir.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/secrets/secrets.hpp"

namespace atl::app {

/// All that is given must outlive the secrets. Errors: those of DataDir::secrets_key() and Secrets::open().
base::Result<std::unique_ptr<secrets::Secrets>> open_secrets(const Config& config, const DataDir& data,
                                                             secrets::SecretStore& store,
                                                             const base::Clock& clock);

}  // namespace atl::app
