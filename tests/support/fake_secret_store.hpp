// The rows of secrets in memory, for tests.
#pragma once

#include <algorithm>
#include <vector>

#include "core/secrets/secret_store.hpp"

namespace atl::test {

struct FakeSecretStore final : secrets::SecretStore {
    base::Result<std::vector<secrets::Row>> load_secrets(std::size_t limit) override {
        auto found = rows;
        found.resize(std::min(found.size(), limit));
        return found;
    }
    base::Result<void> put_secret(const secrets::Row& row) override {
        if (!accepts)
            return accepts;
        (void)erase_secret(row.user_id, row.name);
        rows.push_back(row);
        return {};
    }
    base::Result<void> erase_secret(std::string_view user_id, std::string_view name) override {
        if (accepts)
            std::erase_if(
                rows, [&](const secrets::Row& row) { return row.user_id == user_id && row.name == name; });
        return accepts;
    }
    base::Result<void> erase_secrets_of(std::string_view user_id) override {
        if (accepts)
            std::erase_if(rows, [&](const secrets::Row& row) { return row.user_id == user_id; });
        return accepts;
    }

    std::vector<secrets::Row> rows;
    base::Result<void> accepts;  // the answer to writes
};

}  // namespace atl::test
