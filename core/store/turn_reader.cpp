#include "core/store/turn_reader.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"
#include "core/store/record_text.hpp"
#include "core/store/row_ids.hpp"
#include "core/store/rows.hpp"
#include "core/store/turn_sql.hpp"

namespace atl::store {

using conversation::LoggedTurn;
using conversation::Status;
using conversation::StoredConversation;
using conversation::TurnRecord;

namespace {

// A question about a host may wait beyond the end of its turn: that turn and so many events before its end
// are looked at.
constexpr std::uint64_t k_question_events = 1000;

/// Puts turns one behind the other. The first `older` of them become one with their neighbours, up to
/// `share_bytes`, if they have ended: an agent that starts again reads the newest first, one by one.
class TurnSeries {
  public:
    TurnSeries(std::vector<TurnRecord>& turns, std::uint64_t older, std::uint64_t share_bytes)
        : turns_(turns), older_(older), share_bytes_(share_bytes) {}

    void add(TurnRecord turn) {
        // Behind an open one there may be turns without a record, which have their places between the others.
        has_open_ = has_open_ || turn.last_seq == 0;
        const bool is_older = older_ > 0;
        older_ -= is_older ? 1 : 0;
        if (!is_older || has_open_ || turns_.empty() || turns_.back().bytes + turn.bytes > share_bytes_) {
            turns_.push_back(std::move(turn));
            return;
        }
        TurnRecord& last = turns_.back();
        last.turn = turn.turn;
        last.last_seq = turn.last_seq;
        last.bytes += turn.bytes;
    }

  private:
    std::vector<TurnRecord>& turns_;
    std::uint64_t older_;
    std::uint64_t share_bytes_;
    bool has_open_ = false;
};

}  // namespace

void StoredTurns::move_to(StoredConversation& stored) {
    stored.record.last_turn = last_turn;
    stored.turns = std::move(turns);
    stored.unrecorded_turns = std::move(unrecorded);
    stored.open_bytes = open_bytes;
    stored.open_questions = std::move(open_questions);
}

TurnReader::TurnReader(SQLite::Database& database)
    : log_ends_(database),
      beginning_(database, "SELECT first_seq, status FROM conversations WHERE key = ?"),
      last_turn_(database, k_last_turn_sql),
      sums_(database, k_turn_sums_sql),
      turns_(database, k_turns_sql),
      unrecorded_(database, k_unrecorded_sql),
      open_bytes_(database, k_open_bytes_sql),
      questions_(database, k_questions_sql) {}

StoredTurns TurnReader::read(std::int64_t key) {
    StoredTurns found;
    const conversation::Record record = beginning_of(key);
    const std::uint64_t first_seq = record.first_seq;
    found.last_turn = extreme(last_turn_, key);
    read_turns(key, first_seq, found);
    read_unrecorded(key, first_seq, found);
    std::uint64_t finished_seq = first_seq - 1;
    for (const TurnRecord& turn : found.turns)
        finished_seq = std::max(finished_seq, turn.last_seq);
    std::uint64_t done_seq = finished_seq;
    bool is_running = record.status == Status::active || record.status == Status::starting;
    for (const LoggedTurn& turn : found.unrecorded) {
        finished_seq = std::max(finished_seq, turn.last_seq);
        if (turn.done)
            done_seq = std::max(done_seq, turn.last_seq);
        else
            is_running = true;
    }
    read_open_bytes(key, finished_seq, found);
    std::uint64_t from_seq = done_seq - std::min(done_seq, k_question_events);
    for (const TurnRecord& turn : found.turns)
        if (turn.last_seq == done_seq)
            from_seq = std::min(from_seq, turn.first_seq);
    for (const LoggedTurn& turn : found.unrecorded)
        if (turn.done && turn.last_seq == done_seq)
            from_seq = std::min(from_seq, turn.first_seq);
    if (is_running)
        read_questions(key, std::max(first_seq, from_seq), found);
    return found;
}

/// Its status and the beginning of its log.
conversation::Record TurnReader::beginning_of(std::int64_t key) {
    conversation::Record record;
    record.key = key;
    {
        Rows rows(beginning_);
        rows->bind(1, key);
        if (rows.next()) {
            record.first_seq = unsigned_at(beginning_, 0);
            record.status = static_cast<Status>(rows->getColumn(1).getInt());
        }
    }
    log_ends_.set(record);
    return record;
}

void TurnReader::read_turns(std::int64_t key, std::uint64_t first_seq, StoredTurns& found) {
    std::uint64_t older = 0;
    std::uint64_t share_bytes = 0;
    {
        Rows sums(sums_);
        sums->bind(1, row_id(key, 0));
        sums->bind(2, row_id(key + 1, 0));
        sums->bind(3, static_cast<std::int64_t>(first_seq));
        sums.next();
        const auto count = unsigned_at(sums_, 0);
        if (count == 0)
            return;
        if (count > base::k_turns_told_apart)
            older = count - base::k_newest_told_apart;
        share_bytes = unsigned_at(sums_, 1) / base::k_log_shares + 1;
    }
    TurnSeries series(found.turns, older, share_bytes);
    Rows rows(turns_);
    rows->bind(1, row_id(key, 0));
    rows->bind(2, row_id(key + 1, 0));
    rows->bind(3, static_cast<std::int64_t>(first_seq));
    while (rows.next()) {
        TurnRecord turn{.conversation_key = key, .turn = low_of(rows->getColumn(0).getInt64())};
        read_columns(turns_, turn);
        series.add(std::move(turn));
    }
}

/// Only turns from the first open one on, or after the last one, can have no record or one that is open.
void TurnReader::read_unrecorded(std::int64_t key, std::uint64_t first_seq, StoredTurns& found) {
    std::uint64_t recorded_seq = first_seq - 1;
    std::uint64_t recorded_turn = 0;
    const auto open = std::ranges::find(found.turns, std::uint64_t{0}, &TurnRecord::last_seq);
    if (open != found.turns.end()) {
        recorded_seq = open->first_seq - 1;
        recorded_turn = open->turn - 1;
    } else if (!found.turns.empty()) {
        recorded_seq = found.turns.back().last_seq;
        recorded_turn = found.turns.back().turn;
    }
    Rows rows(unrecorded_);
    rows->bind(1, row_id(key, recorded_seq));
    rows->bind(2, row_id(key + 1, 0));
    rows->bind(3, static_cast<std::int64_t>(recorded_turn));
    rows->bind(4, static_cast<int>(conversation::EventType::done));
    rows->bind(5, k_max_seq);
    while (rows.next())
        read_columns(unrecorded_, found.unrecorded.emplace_back(), 0);
}

void TurnReader::read_open_bytes(std::int64_t key, std::uint64_t finished_seq, StoredTurns& found) {
    Rows rows(open_bytes_);
    rows->bind(1, row_id(key, finished_seq));
    rows->bind(2, row_id(key + 1, 0));
    rows.next();
    found.open_bytes = rows->getColumn(0).isNull() ? 0 : unsigned_at(open_bytes_, 0);
}

void TurnReader::read_questions(std::int64_t key, std::uint64_t from_seq, StoredTurns& found) {
    Rows rows(questions_);
    rows->bind(1, row_id(key, from_seq));
    rows->bind(2, row_id(key + 1, 0));
    rows->bind(3, static_cast<int>(conversation::k_first_question_type));
    rows->bind(4, static_cast<int>(conversation::k_last_question_type));
    while (rows.next())
        found.open_questions.see(static_cast<conversation::EventType>(rows->getColumn(0).getInt()),
                                 rows->getColumn(1).getString());
}

}  // namespace atl::store
