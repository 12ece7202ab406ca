// The port of secrets to a database: rows that are written one at a time. core/store implements it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace atl::secrets {

/// A secret as it is kept. A row that is read may be of a restored or a copied file: every member is hostile.
struct Row {
    std::string user_id;  // empty: the operator's
    std::string name;
    std::string hosts;  // with a blank between two
    base::WallTime updated_at{};
    std::string sealed;  // sealer.hpp
};

/// Each call is answered from inside it, and each write is one commit. Errors: storage_failed.
class SecretStore {
  public:
    virtual ~SecretStore() = default;
    /// `limit` rows at the most, by owner and name.
    virtual base::Result<std::vector<Row>> load_secrets(std::size_t limit) = 0;
    /// Replaces the row of the same owner and name.
    virtual base::Result<void> put_secret(const Row& row) = 0;
    virtual base::Result<void> erase_secret(std::string_view user_id, std::string_view name) = 0;
    virtual base::Result<void> erase_secrets_of(std::string_view user_id) = 0;
};

}  // namespace atl::secrets
