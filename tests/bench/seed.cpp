#include "tests/bench/seed.hpp"

#include <SQLiteCpp/Database.h>

#include <array>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/ids.hpp"
#include "core/store/sqlite_store.hpp"

namespace atl::bench {
namespace {

using conversation::Status;

constexpr std::size_t k_batch_writes = 1000;
// The store makes no checkpoints: its log would hold all.
constexpr std::size_t k_batches_a_checkpoint = 64;
constexpr std::size_t k_users = 5000;
constexpr std::chrono::hours k_age{200 * 24};

class Seeder {
  public:
    Seeder(const std::filesystem::path& database, const Seed& seed)
        : seed_(seed), store_(open(database)), checkpoints_(database.string(), SQLite::OPEN_READWRITE) {}

    Seeded run();

  private:
    static std::unique_ptr<store::SqliteStore> open(const std::filesystem::path& database) {
        auto opened = store::SqliteStore::open(database);
        if (!opened)
            throw std::runtime_error(opened.error().detail());
        return std::move(*opened);
    }
    std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
    conversation::Record record(std::size_t at);
    void add_sandbox(const conversation::Record& record);
    void add_turn(const conversation::Record& record);
    void add(conversation::Write write);
    void commit();

    Seed seed_;
    std::unique_ptr<store::SqliteStore> store_;
    SQLite::Database checkpoints_;
    std::mt19937_64 random_{1};
    base::WallTime now_ = base::SystemClock().wall_now();
    std::vector<conversation::Write> writes_;
    std::uint64_t batches_ = 0;
};

conversation::Record Seeder::record(std::size_t at) {
    static constexpr std::array k_agents{"writer", "coder", "auditor"};
    static constexpr std::array k_plans{"free", "pro", "enterprise"};
    conversation::Record record;
    record.key = static_cast<std::int64_t>(at) + 1;
    record.id = base::new_id();
    record.sandbox_id = base::new_id();
    record.agent = k_agents[at % k_agents.size()];
    record.user_id = "user-" + std::to_string(at % 20 == 0 ? 0 : pick(k_users));
    // Half of all have team a: three quarters of those that another agent has.
    const bool is_of_a = at % k_agents.size() != 2 && at % 4 != 0;
    const std::string team = is_of_a ? "a" : std::string(1, static_cast<char>('b' + pick(20)));
    record.metadata = R"({"team":")" + team + R"(","plan":")" + k_plans[pick(k_plans.size())] +
                      R"(","project":"p)" + std::to_string(pick(10'000)) + R"(","locale":"en","rank":)" +
                      std::to_string(pick(100)) + "}";
    record.title = "Conversation " + std::to_string(at) + " about something of ordinary length";
    const std::size_t kind = pick(100);
    record.status = kind < 67 ? Status::paused : kind < 97 ? Status::ended : Status::error;
    record.reason =
        record.status == Status::paused ? conversation::PauseReason::idle : conversation::PauseReason::none;
    const auto age = std::chrono::duration_cast<base::Millis>(k_age) *
                     static_cast<std::int64_t>(seed_.conversations - at) /
                     static_cast<std::int64_t>(seed_.conversations);
    record.created_at = now_ - age;
    record.last_active_at = record.created_at + base::Millis(pick(static_cast<std::size_t>(age.count()) + 1));
    return record;
}

void Seeder::add_sandbox(const conversation::Record& record) {
    sandbox::Record box;
    box.id = record.sandbox_id;
    box.conversation_id = record.id;
    box.generation = 1;
    box.created_at = record.created_at;
    box.gone = record.status == Status::ended;
    if (!box.gone)
        box.env = {{"LANG", "en_US.UTF-8"}};
    add(conversation::PutSandbox{std::move(box)});
}

void Seeder::add_turn(const conversation::Record& record) {
    conversation::TurnRecord turn;
    turn.conversation_key = record.key;
    turn.turn = 1;
    turn.content_digest = record.id;
    turn.first_seq = 1;
    turn.last_seq = seed_.events;
    for (std::size_t i = 1; i <= seed_.events; ++i) {
        using conversation::EventType;
        const EventType type = i == 1              ? EventType::turn_start
                               : i == seed_.events ? EventType::done
                                                   : EventType::text_delta;
        const std::string text(i == seed_.events || seed_.event_bytes < 120 ? 0 : seed_.event_bytes - 120,
                               'x');
        auto event =
            conversation::make_event(i, type, record.created_at, 1, R"({"content":")" + text + R"("})");
        turn.bytes += event->json.size();
        add(conversation::AppendEvent{record.key, std::move(event)});
    }
    add(conversation::PutTurn{std::move(turn)});
}

void Seeder::add(conversation::Write write) {
    writes_.push_back(std::move(write));
    if (writes_.size() >= k_batch_writes)
        commit();
}

void Seeder::commit() {
    auto batch = std::make_shared<conversation::WriteBatch>();
    batch->number = ++batches_;
    batch->writes = std::exchange(writes_, {});
    store_->commit(batch, [](conversation::CommitEnd end, const base::Error& why) {
        if (end != conversation::CommitEnd::durable)
            throw std::runtime_error("seeding: " + why.detail());
    });
    if (batches_ % k_batches_a_checkpoint == 0)
        checkpoints_.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
}

Seeded Seeder::run() {
    Seeded seeded;
    for (std::size_t at = 0; at < seed_.conversations; ++at) {
        const conversation::Record made = record(at);
        add(conversation::PutConversation{made});
        add_sandbox(made);
        add_turn(made);
        if (at == seed_.conversations / 2)
            seeded = {made.sandbox_id, base::rfc3339(made.created_at)};
    }
    commit();
    checkpoints_.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
    return seeded;
}

}  // namespace

std::vector<std::string> seeded_options() {
    return {"--max-conversations", "2000000", "--max-conversations-per-user", "2000000",
            "--keep-ended",        "31536000"};
}

Seeded seed(const std::filesystem::path& data_dir, const Seed& seed) {
    std::filesystem::create_directories(data_dir);
    std::filesystem::permissions(data_dir, std::filesystem::perms::owner_all);
    return Seeder(data_dir / "atoll.db", seed).run();
}

}  // namespace atl::bench
