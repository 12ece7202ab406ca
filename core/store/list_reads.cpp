#include "core/store/list_reads.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace atl::store {

using base::Errc;
using base::Error;
using base::FairQueue;
using base::Result;
using nlohmann::json;

ListReads::ListReads(base::Timers& timers, ListHelper& helper, SqliteStore& store,
                     std::filesystem::path database)
    : timers_(timers),
      helper_(helper),
      store_(store),
      database_(std::move(database)),
      self_(std::make_shared<ListReads*>(this)) {
    store_.read_lists_by([this](const SqliteStore::Asker& asker, const std::string& text,
                                ListHelper::Answered answered) { ask(asker, text, std::move(answered)); });
}

ListReads::~ListReads() {
    *self_ = nullptr;
    timers_.cancel(closing_);
    store_.read_lists_by(nullptr);
}

FairQueue& ListReads::line_of(SqliteStore::ReadKind kind) noexcept {
    return kind == SqliteStore::ReadKind::load ? loads_ : lists_;
}

void ListReads::ask(const SqliteStore::Asker& asker, const std::string& text, ListHelper::Answered answered) {
    timers_.cancel(std::exchange(closing_, 0));
    if (!is_shared_) {
        if (auto shared = store_.set_sharing(SqliteStore::Sharing::shared, SqliteStore::Sharer::lists);
            !shared)
            return answered(shared.error());
        is_shared_ = true;
    }
    const Run run = ++last_;
    if (!line_of(asker.kind).enter(asker.user, run))
        return answered(
            Error(Errc::too_many_requests,
                  "Too many lists or conversations of this user wait to be read from the database.",
                  std::chrono::seconds(1)));
    asked_.emplace(run, Question{asker.kind, text, std::move(answered)});
    ask_next();
}

/// The question that is next; of loads without end each list waits for a few.
std::optional<ListReads::Run> ListReads::take_turn() {
    const bool is_lists_turn = loads_in_row_ >= base::k_loads_before_list;
    auto run = (is_lists_turn ? lists_ : loads_).next();
    if (!run)
        run = (is_lists_turn ? loads_ : lists_).next();
    const bool is_load = run && asked_.at(*run).kind == SqliteStore::ReadKind::load;
    loads_in_row_ = is_load ? loads_in_row_ + 1 : 0;
    return run;
}

void ListReads::ask_next() {
    if (is_asking_)
        return;
    const auto run = take_turn();
    if (!run)
        return;
    is_asking_ = true;
    helper_.find(database_, asked_.at(*run).text, [self = self_, run = *run](Result<json> found) {
        if (*self != nullptr)
            (*self)->on_answer(run, std::move(found));
    });
}

// Last call of its handler: `answered` may do anything, also destroy this.
void ListReads::on_answer(Run run, Result<json> found) {
    auto ended = asked_.extract(run);
    std::map<Run, Question> lost;
    // Else each of them would wait for another try to start the helper.
    if (!found && helper_.is_lost())
        lost.swap(asked_);
    is_asking_ = false;
    line_of(ended.mapped().kind).leave(run);
    for (const auto& [other, question] : lost)
        line_of(question.kind).leave(other);
    if (asked_.empty())
        closing_ = timers_.arm(k_shared_after_use, [this] { close(); });
    ask_next();
    for (const auto& [other, question] : lost)
        question.answered(found.error());
    ended.mapped().answered(std::move(found));
}

// A question that comes meanwhile opens the database again, after this.
void ListReads::close() {
    closing_ = 0;
    helper_.close_database(database_, [self = self_](const Result<void>& closed) {
        if (*self == nullptr || !(*self)->asked_.empty() || (*self)->closing_ != 0)
            return;
        ListReads& it = **self;
        // A failure leaves it shared, and the helper is started again.
        it.is_shared_ =
            !closed || !it.store_.set_sharing(SqliteStore::Sharing::exclusive, SqliteStore::Sharer::lists);
    });
}

}  // namespace atl::store
