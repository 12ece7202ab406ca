// Records as rows and as text, by their fields (record_fields.hpp). A row has a few columns and the JSON
// object `rest`. Between the server and its helper pass JSON arrays of the fields in their order, made and
// read by one build. Internal to core/store and to atoll-helper.
//
// Invariants: a row that no server wrote gives no record, since the file may be a restored or a copied one: a
// value that is not of its type, range or enum throws SQLite::Exception, which names row and field. Empty
// text is NULL in a column.
#pragma once

#include <sqlite3.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/json_parser.hpp"
#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/store/record_fields.hpp"

namespace atl::store {

// The longest JSON text in a column of a row; JSON escapes a byte with six at most.
inline constexpr std::size_t k_max_record_bytes = 512 * 1024;
static_assert(6 * (base::k_max_metadata_bytes + base::k_max_env_bytes) < k_max_record_bytes);

template <class T, template <class...> class Kind>
inline constexpr bool k_is = false;
template <template <class...> class Kind, class... Parts>
inline constexpr bool k_is<Kind<Parts...>, Kind> = true;
template <class T>
inline constexpr bool k_is_time = std::same_as<T, base::WallTime> || std::same_as<T, base::Millis>;
template <class T>
inline constexpr bool k_is_number = std::is_integral_v<T> || std::is_enum_v<T> || k_is_time<T>;
/// Any number of the type.
inline constexpr Field k_any{.least = std::numeric_limits<std::int64_t>::min(),
                             .most = std::numeric_limits<std::int64_t>::max()};

template <class T>
std::int64_t number_of(const T& value) {
    if constexpr (std::same_as<T, base::WallTime>)
        return value.time_since_epoch().count();
    else if constexpr (std::same_as<T, base::Millis>)
        return value.count();
    else
        return static_cast<std::int64_t>(value);
}

/// False: it is out of range, or the type has no such value.
template <class T>
bool read_number(std::int64_t number, T& value, const Field& field) {
    if (number < field.least || number > field.most)
        return false;
    if ((std::is_enum_v<T> && number > k_last<T>) || (std::is_unsigned_v<T> && number < 0))
        return false;
    if constexpr (k_is_time<T>)
        value = T(base::Millis(number));
    else
        value = static_cast<T>(number);
    return number_of(value) == number;
}

template <class T>
void write_json(base::JsonWriter& out, const T& value) {
    if constexpr (k_is_number<T>) {
        out.raw(std::to_string(number_of(value)));
    } else if constexpr (std::same_as<T, std::string>) {
        out.string(value);
    } else if constexpr (k_is<T, std::optional>) {
        value ? write_json(out, *value) : void(out.null());
    } else {
        out.begin_array();
        if constexpr (k_is<T, std::vector>) {
            for (const auto& item : value)
                write_json(out, item);
        } else if constexpr (k_is<T, std::variant>) {
            write_json(out, value.index());
            std::visit([&](const auto& one) { write_json(out, one); }, value);
        } else {
            each_field(value, [&](const Field& field, const auto& member) {
                if (field.kept != Kept::unlisted)
                    write_json(out, member);
            });
        }
        out.end_array();
    }
}

template <class T>
bool read_json(const nlohmann::json& json, T& value, const Field& field = k_any) {
    if constexpr (k_is_number<T>) {
        return json.is_number_integer() && read_number(json.get<std::int64_t>(), value, field);
    } else if constexpr (std::same_as<T, std::string>) {
        if (json.is_string())
            value = json.get_ref<const std::string&>();
        return json.is_string();
    } else if constexpr (k_is<T, std::optional>) {
        value.reset();
        return json.is_null() || read_json(json, value.emplace(), field);
    } else if (!json.is_array()) {
        return false;
    } else if constexpr (k_is<T, std::variant>) {
        return [&]<class... Each>(std::variant<Each...>& any) {
            std::size_t index = 0;
            return ((json.at(0) == index++ && read_json(json.at(1), any.template emplace<Each>())) || ...);
        }(value);
    } else if constexpr (k_is<T, std::vector>) {
        value.clear();
        bool fits = true;
        for (const auto& item : json)
            fits = fits && read_json(item, value.emplace_back(), field);
        if constexpr (std::integral<typename T::value_type>)  // ports, the first of which is the main one
            fits = fits && !value.empty() && value.size() <= base::k_max_preview_ports &&
                   std::set(value.begin(), value.end()).size() == value.size();
        return fits;
    } else {
        std::size_t at = 0;
        bool fits = true;
        each_field(value, [&](const Field& each, auto& member) {
            if (each.kept != Kept::unlisted)
                fits = fits && at < json.size() && read_json(json[at++], member);
        });
        return fits && at == json.size();
    }
}

template <class T>
std::string json_text(const T& value) {
    std::string text;
    base::JsonWriter out(text);
    write_json(out, value);
    return text;
}

/// The object of the column `rest`.
template <class Record>
std::string rest_text(const Record& record) {
    std::string text;
    base::JsonWriter out(text);
    out.begin_object();
    each_field(record, [&]<class T>(const Field& field, const T& member) {
        bool is_there = field.kept == Kept::rest;
        if constexpr (k_is<T, std::optional>)
            is_there = is_there && member.has_value();
        else if constexpr (!k_is_number<T>)
            is_there = is_there && !member.empty();
        if (is_there)
            write_json(out.key(field.name), member);
    });
    out.end_object();
    return text;
}

/// The fields with columns, and behind them `rest`.
template <class Record>
std::vector<Field> column_fields() {
    std::vector<Field> fields;
    const Record record;
    each_field(record, [&](const Field& field, const auto&) {
        if (field.kept != Kept::rest && field.kept != Kept::in_id)
            fields.push_back(field);
    });
    fields.push_back({"rest", Kept::column});
    return fields;
}

enum class Columns : bool { all, listed };
/// The columns that read_row() reads, from a table with this name in the statement. NULL stands where lists
/// leave a column out.
template <class Record>
std::string select(Columns which = Columns::all, const std::string& table = k_table<Record>) {
    std::string sql = "SELECT " + table + ".key";
    for (const Field& field : column_fields<Record>()) {
        const bool is_left_out = field.kept == Kept::unlisted && which == Columns::listed;
        sql.append(", ").append(is_left_out ? "NULL" : table + '.' + std::string(field.name));
    }
    return sql + " FROM ";
}

/// Adds a row, or changes the one with the same `unique`. An update leaves the indexes alone whose columns do
/// not change.
template <class Record>
std::string put_sql(const std::string& unique) {
    std::string names;
    std::string places;
    std::string changes;
    for (const Field& field : column_fields<Record>()) {
        const std::string name(field.name);
        const char* const comma = names.empty() ? "" : ", ";
        names.append(comma).append(name);
        places.append(comma).append("?");
        if (field.kept != Kept::fixed)
            changes.append(changes.empty() ? "" : ", ").append(name + " = excluded." + name);
    }
    return std::string("INSERT INTO ") + k_table<Record> + " (" + names + ") VALUES (" + places +
           ") ON CONFLICT (" + unique + ") DO UPDATE SET " + changes;
}

template <class T>
void bind_column(SQLite::Statement& statement, int at, const T& value) {
    if constexpr (k_is_number<T>)
        statement.bind(at, number_of(value));
    else if constexpr (k_is<T, std::optional>)
        value ? bind_column(statement, at, *value) : statement.bind(at);
    else if (value.empty())
        statement.bind(at);
    else if constexpr (std::same_as<T, std::string>)
        statement.bindNoCopy(at, value);
    else
        statement.bind(at, json_text(value));
}

/// Runs a statement with these parameters.
template <class... Values>
void run(SQLite::Statement& statement, const Values&... values) {
    int at = 0;
    statement.reset();
    (bind_column(statement, ++at, values), ...);
    statement.exec();
}

/// Gives the next parameter. The record must outlive the next step.
template <class Record>
int bind_columns(SQLite::Statement& statement, int at, const Record& record) {
    each_field(record, [&](const Field& field, const auto& member) {
        if (field.kept != Kept::rest && field.kept != Kept::in_id)
            bind_column(statement, at++, member);
    });
    return at;
}

/// Runs the statement of put_sql().
template <class Record>
void put(SQLite::Statement& statement, const Record& record) {
    statement.reset();
    statement.bind(bind_columns(statement, 1, record), rest_text(record));
    statement.exec();
}

/// Throws SQLite::Exception for the row, whose column 0 is the key.
template <class Record>
[[noreturn]] void refuse(SQLite::Statement& row, std::string_view name, const std::string& value) {
    constexpr std::size_t k_told_bytes = 40;
    throw SQLite::Exception("the row with the key " + row.getColumn(0).getString() + " in " +
                                k_table<Record> + " has a " + std::string(name) + " of " +
                                base::escaped(value, k_told_bytes) +
                                ", which is none that this server writes",
                            SQLITE_MISMATCH);
}

/// Nothing for a text that is too long, and for one that is no JSON.
inline std::optional<nlohmann::json> parsed(const SQLite::Column& column) {
    if (static_cast<std::size_t>(column.getBytes()) > k_max_record_bytes)
        return std::nullopt;
    auto json = base::parse_json(column.getString());
    return json ? std::optional(std::move(*json)) : std::nullopt;
}

template <class T>
bool read_column(const SQLite::Column& column, T& value, const Field& field) {
    if constexpr (k_is_number<T>) {
        return column.isInteger() && read_number(column.getInt64(), value, field);
    } else if (column.isNull()) {
        return true;
    } else if constexpr (std::convertible_to<std::string, T>) {
        if (!column.isText())
            return false;
        value = column.getString();
        return true;
    } else {
        const auto json = parsed(column);
        return json && read_json(*json, value, field);
    }
}

/// Reads the columns behind the key, or from `at` on.
template <class Record>
void read_columns(SQLite::Statement& row, Record& record, int at = 1) {
    each_field(record, [&](const Field& field, auto& member) {
        if (field.kept == Kept::rest || field.kept == Kept::in_id)
            return;
        if (!read_column(row.getColumn(at), member, field))
            refuse<Record>(row, row.getColumnName(at), row.getColumn(at).getString());
        ++at;
    });
}

/// Reads `rest`, which is the last column. A member that is not there keeps its default.
template <class Record>
void read_rest(SQLite::Statement& row, Record& record) {
    const SQLite::Column column = row.getColumn(row.getColumnCount() - 1);
    const auto rest = parsed(column);
    if (!rest || !rest->is_object())
        refuse<Record>(row, "rest", column.getString());
    each_field(record, [&](const Field& field, auto& member) {
        const auto found = field.kept == Kept::rest ? rest->find(field.name) : rest->end();
        if (found != rest->end() && !read_json(*found, member, field))
            refuse<Record>(row, field.name,
                           found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    });
}

template <class Record>
Record read_row(SQLite::Statement& row) {
    Record record;
    read_columns(row, record);
    read_rest(row, record);
    return record;
}

}  // namespace atl::store
