// A value that this process and its children both see: how a child tells what it has measured (mmap(2)).
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <type_traits>

namespace atl::bench {

/// Make it before the children. Only what needs no destructor: a child may be killed while it writes.
template <class T>
class Shared {
  public:
    static_assert(std::is_trivially_destructible_v<T>);

    Shared() {
        void* const place =
            ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED)
            throw std::system_error(errno, std::generic_category(), "mmap");
        value_ = new (place) T();
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { ::munmap(value_, sizeof(T)); }

    T& operator*() const { return *value_; }
    T* operator->() const { return value_; }

  private:
    T* value_ = nullptr;
};

}  // namespace atl::bench
