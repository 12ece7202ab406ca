#include "core/conversation/file_watches.hpp"

#include <utility>

#include "core/base/reader_list.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using Kind = WatchNote::Kind;

namespace {

// The most notes that are no changes. A reader that reads nothing over many starts would gather more.
constexpr std::size_t k_most_notes = 256;
// Telling all readers of anything else costs as much as that of so many changes.
constexpr std::size_t k_note_changes = base::k_watch_burst_changes / 16;
// The memory that a change takes beside its paths.
constexpr std::size_t k_change_bytes = sizeof(sandbox::FileChange);

WatchNote note_of(Kind kind) {
    WatchNote note;
    note.kind = kind;
    return note;
}

WatchNote ended(Error why) {
    WatchNote note = note_of(Kind::ended);
    note.why = std::move(why);
    return note;
}

WatchNote uncovered(std::uint64_t directories) {
    WatchNote note = note_of(Kind::uncovered);
    note.directories = directories;
    return note;
}

WatchNote changes_note(sandbox::FileChanges changes) {
    WatchNote note = note_of(Kind::changes);
    for (const sandbox::FileChange& change : changes)
        note.bytes += k_change_bytes + change.path.size() + change.to.size();
    note.changes = std::make_shared<const sandbox::FileChanges>(std::move(changes));
    return note;
}

/// True if a later try may do better without anybody's help.
bool is_passing(Errc code) {
    return code == Errc::bridge_failed || code == Errc::deadline_exceeded;
}

}  // namespace

/// A sandbox with readers, and the watch in its living generation.
class WatchedSandbox final : private sandbox::WatchObserver {
  public:
    WatchedSandbox(base::Timers& timers, sandbox::Manager& sandboxes, std::string id,
                   FileWatches::AtEnd at_end)
        : timers_(timers), sandboxes_(sandboxes), id_(std::move(id)), at_end_(at_end), readers_(timers) {
        is_up_ = sandboxes_.status(id_) == sandbox::Status::ready;
    }
    ~WatchedSandbox() override {
        stop();
        timers_.cancel(burst_timer_);
    }
    WatchedSandbox(const WatchedSandbox&) = delete;
    WatchedSandbox& operator=(const WatchedSandbox&) = delete;

    void add(FileWatch& reader) {
        readers_.add(reader);
        if (!is_up_)
            return reader.paused();
        if (is_watching_)
            greet(reader);
        else if (watch_ == nullptr)
            begin_in(base::Millis{0});
    }
    /// Removes a reader. Returns true if it was the last one.
    bool remove(FileWatch& reader) {
        readers_.remove(reader);
        return readers_.empty();
    }
    void on_status(sandbox::Status status);
    void end(const Error& why) {
        stop();
        is_up_ = false;
        tell(ended(why));
    }

  private:
    void on_watching() override;
    void on_changes(sandbox::FileChanges changes) override;
    void on_rescan() override {
        count(k_note_changes);
        tell(note_of(Kind::rescan));
    }
    void on_uncovered(std::uint64_t directories) override {
        count(k_note_changes);
        uncovered_ = directories;
        if (directories > 0)
            tell(uncovered(directories));
    }
    void on_failed(const Error& error) override;
    bool is_full() const override { return burst_timer_ != 0; }

    void count(std::size_t changes);
    void begin_in(base::Millis delay);
    void begin();
    void stop();
    void greet(FileWatch& reader) const;
    void greet_all() {
        for (FileWatch* const reader : readers_)
            greet(*reader);
        readers_.wake_all();
    }
    void tell(const WatchNote& note) {
        for (FileWatch* const reader : readers_)
            reader->push(note);
        readers_.wake_all();
    }

    base::Timers& timers_;
    sandbox::Manager& sandboxes_;
    std::string id_;
    FileWatches::AtEnd at_end_;
    base::ReaderList<FileWatch> readers_;
    std::unique_ptr<sandbox::Watch> watch_;
    bool is_up_ = false;  // not while it is frozen
    bool is_watching_ = false;
    std::uint64_t uncovered_ = 0;
    std::size_t burst_changes_ = 0;
    base::TimerId begin_timer_ = 0;
    base::TimerId burst_timer_ = 0;  // while no more is taken
};

void WatchedSandbox::on_status(sandbox::Status status) {
    const bool was_up = std::exchange(is_up_, status == sandbox::Status::ready);
    if (is_up_ && !was_up && is_watching_) {
        greet_all();
    } else if (is_up_ && watch_ == nullptr) {
        begin_in(base::Millis{0});
    }
    if (is_up_ || status == sandbox::Status::pending)
        return;
    // The watch of a frozen generation goes on with it.
    if (status != sandbox::Status::frozen)
        stop();
    if (status != sandbox::Status::frozen && at_end_ == FileWatches::AtEnd::ends)
        return tell(ended(end_of_generation(sandboxes_, id_)));
    for (FileWatch* const reader : readers_)
        reader->paused();
    readers_.wake_all();
}

// Begins the watch after `delay`, never from inside a step of the sandbox.
void WatchedSandbox::begin_in(base::Millis delay) {
    if (begin_timer_ == 0)
        begin_timer_ = timers_.arm(delay, [this] {
            begin_timer_ = 0;
            begin();
        });
}

void WatchedSandbox::begin() {
    if (watch_ != nullptr || !is_up_)
        return;
    if (sandbox::Operations* const operations = sandboxes_.operations(id_))
        watch_ = operations->watch(*this);
    else
        begin_in(base::k_watch_retry);
}

void WatchedSandbox::stop() {
    watch_.reset();
    is_watching_ = false;
    uncovered_ = 0;
    timers_.cancel(std::exchange(begin_timer_, 0));
}

void WatchedSandbox::greet(FileWatch& reader) const {
    reader.watching();
    if (uncovered_ > 0)
        reader.push(uncovered(uncovered_));
}

void WatchedSandbox::on_watching() {
    is_watching_ = true;
    if (is_up_)
        greet_all();
}

/// Takes no more for a while after so many changes.
void WatchedSandbox::count(std::size_t changes) {
    burst_changes_ += changes;
    if (burst_changes_ >= base::k_watch_burst_changes && burst_timer_ == 0)
        burst_timer_ = timers_.arm(base::k_watch_burst_interval, [this] {
            burst_timer_ = 0;
            burst_changes_ = 0;
            if (watch_ != nullptr)
                watch_->resume();
        });
}

void WatchedSandbox::on_changes(sandbox::FileChanges changes) {
    count(changes.size());
    tell(changes_note(std::move(changes)));
}

void WatchedSandbox::on_failed(const Error& error) {
    const bool was_watching = is_watching_;
    stop();
    if (!was_watching && !is_passing(error.code()))
        return tell(ended(error));
    if (is_up_)
        begin_in(base::k_watch_retry);
}

FileWatch::~FileWatch() {
    if (*owner_ != nullptr)
        (*owner_)->leave(sandbox_id_, *this);
}

std::optional<WatchNote> FileWatch::next() {
    if (notes_.empty())
        return std::nullopt;
    WatchNote note = std::move(notes_.front());
    notes_.pop_front();
    if (note.kind == Kind::changes) {
        waiting_changes_ -= note.changes->size();
        waiting_bytes_ -= note.bytes;
    }
    return note;
}

void FileWatch::on_wake(std::function<void()> wake) {
    wake_ = std::move(wake);
    this->wake();
}

bool FileWatch::is_too_slow(const WatchNote& note) const noexcept {
    if (note.kind != Kind::changes)
        return notes_.size() >= k_most_notes;
    return notes_.size() >= k_most_notes ||
           waiting_changes_ + note.changes->size() > base::k_watch_waiting_changes ||
           waiting_bytes_ + note.bytes > base::k_watch_waiting_bytes;
}

/// Replaces the notes that wait. One rescan takes their place, with the number of directories that are not
/// covered, and the pause of the sandbox, if it is paused.
void FileWatch::drop_changes() {
    std::optional<WatchNote> uncovered;
    for (WatchNote& note : std::exchange(notes_, {}))
        if (note.kind == Kind::uncovered)
            uncovered = std::move(note);
    waiting_changes_ = 0;
    waiting_bytes_ = 0;
    if (has_started_)
        notes_.push_back(note_of(Kind::rescan));
    if (uncovered)
        notes_.push_back(std::move(*uncovered));
    if (is_paused_)
        notes_.push_back(note_of(Kind::paused));
}

void FileWatch::push(WatchNote note) {
    // A single piece of changes always fits.
    if (!notes_.empty() && is_too_slow(note))
        drop_changes();
    if (note.kind == Kind::changes) {
        waiting_changes_ += note.changes->size();
        waiting_bytes_ += note.bytes;
    }
    const bool is_repeated = note.kind != Kind::changes && !notes_.empty() && notes_.back().kind == note.kind;
    if (is_repeated)
        notes_.back() = std::move(note);
    else
        notes_.push_back(std::move(note));
}

void FileWatch::watching() {
    is_paused_ = false;
    push(note_of(std::exchange(has_started_, true) ? Kind::rescan : Kind::started));
}

void FileWatch::paused() {
    if (!std::exchange(is_paused_, true))
        push(note_of(Kind::paused));
}

FileWatches::FileWatches(base::Timers& timers, sandbox::Manager& sandboxes)
    : timers_(timers), sandboxes_(sandboxes), self_(std::make_shared<FileWatches*>(this)) {}

FileWatches::~FileWatches() {
    *self_ = nullptr;
}

std::unique_ptr<FileWatch> FileWatches::follow(const std::string& sandbox_id, AtEnd at_end) {
    auto reader = std::make_unique<FileWatch>(self_, sandbox_id);
    auto& watched = watched_[sandbox_id];
    if (watched == nullptr)
        watched = std::make_unique<WatchedSandbox>(timers_, sandboxes_, sandbox_id, at_end);
    watched->add(*reader);
    return reader;
}

void FileWatches::leave(const std::string& sandbox_id, FileWatch& reader) {
    const auto found = watched_.find(sandbox_id);
    if (found != watched_.end() && found->second->remove(reader))
        watched_.erase(found);
}

void FileWatches::on_status(const std::string& sandbox_id, sandbox::Status status) {
    if (const auto found = watched_.find(sandbox_id); found != watched_.end())
        found->second->on_status(status);
}

void FileWatches::on_removed(const std::string& sandbox_id) {
    if (const auto found = watched_.find(sandbox_id); found != watched_.end())
        found->second->end(Error(Errc::sandbox_gone, "the sandbox was removed"));
}

}  // namespace atl::conversation
