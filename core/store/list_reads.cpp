#include "core/store/list_reads.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace atl::store {

using base::Result;
using nlohmann::json;

ListReads::ListReads(base::Timers& timers, ListHelper& helper, SqliteStore& store,
                     std::filesystem::path database)
    : timers_(timers),
      helper_(helper),
      store_(store),
      database_(std::move(database)),
      self_(std::make_shared<ListReads*>(this)) {
    store_.read_lists_by([this](const std::string& question, ListHelper::Answered answered) {
        ask(question, std::move(answered));
    });
}

ListReads::~ListReads() {
    *self_ = nullptr;
    timers_.cancel(closing_);
    store_.read_lists_by(nullptr);
}

void ListReads::ask(const std::string& question, ListHelper::Answered answered) {
    timers_.cancel(std::exchange(closing_, 0));
    if (!is_shared_) {
        if (auto shared = store_.set_sharing(SqliteStore::Sharing::shared, SqliteStore::Sharer::lists);
            !shared)
            return answered(shared.error());
        is_shared_ = true;
    }
    ++asked_;
    helper_.find(database_, question, [self = self_, answered = std::move(answered)](Result<json> found) {
        if (*self == nullptr)
            return;
        (*self)->on_answer();
        answered(std::move(found));
    });
}

void ListReads::on_answer() {
    if (--asked_ == 0)
        closing_ = timers_.arm(k_shared_after_use, [this] { close(); });
}

// A question that comes meanwhile opens the database again, after this.
void ListReads::close() {
    closing_ = 0;
    helper_.close_database(database_, [self = self_](const Result<void>& closed) {
        if (*self == nullptr || (*self)->asked_ > 0 || (*self)->closing_ != 0)
            return;
        ListReads& it = **self;
        // A failure leaves it shared, and the helper is started again.
        it.is_shared_ =
            !closed || !it.store_.set_sharing(SqliteStore::Sharing::exclusive, SqliteStore::Sharer::lists);
    });
}

}  // namespace atl::store
