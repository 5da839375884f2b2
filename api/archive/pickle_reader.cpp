// Opcodes: Python's Lib/pickletools.py describes them.
#include <bit>
#include <cstring>

#include "api/archive/pickle.h"

namespace flambeau::api::archive {

namespace {

constexpr uint8_t kNewestProtocol = 5;

}  // namespace

ValueId PickleReader::run() {
  while (true) {
    const auto opcode = number<uint8_t>();
    if (opcode == '.') break;
    const bool is_known = run_constant(opcode) || run_number(opcode) || run_text(opcode) ||
                          run_tuple(opcode) || run_container(opcode) || run_memo(opcode) ||
                          run_name(opcode);
    check(is_known, "load: expected the opcodes of tensors and plain containers, got opcode ",
          opcode, " at byte ", at_ - 1, " of the pickle");
  }
  check(marks_.empty(), "load: the pickle is damaged: it ends within a mark");
  return pop();
}

// --- the bytes -----------------------------------------------------------------------------------

std::string PickleReader::take(uint64_t count) {
  check(count <= text_.size() - at_, "load: pickle data was truncated");
  at_ += count;
  return text_.substr(at_ - count, count);
}

template <typename T>
T PickleReader::number() {
  check(sizeof(T) <= text_.size() - at_, "load: pickle data was truncated");
  T value;
  std::memcpy(&value, text_.data() + at_, sizeof(T));  // little-endian, as this machine
  static_assert(std::endian::native == std::endian::little);
  at_ += sizeof(T);
  return value;
}

std::string PickleReader::line() {
  const size_t end = text_.find('\n', at_);
  check(end != std::string::npos, "load: pickle data was truncated");
  std::string found = take(end - at_);
  ++at_;
  return found;
}

// --- the stack -----------------------------------------------------------------------------------

ValueId PickleReader::top() {
  check(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
        "load: the pickle is damaged: the stack is too short at byte ", at_);
  return stack_.back();
}

ValueId PickleReader::pop() {
  const ValueId id = top();
  stack_.pop_back();
  return id;
}

std::vector<ValueId> PickleReader::pop_mark() {
  check(!marks_.empty(), "load: the pickle is damaged: expected a mark before byte ", at_,
        ", got none");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<ValueId> items(begin, stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

void PickleReader::push_tuple(std::vector<ValueId> items) {
  push(ListValue{std::move(items), true});
}

void PickleReader::append(const std::vector<ValueId>& items) {
  auto* const list = out_.find<ListValue>(top());
  check(list != nullptr && !list->is_tuple, "load: the pickle is damaged: cannot append to ",
        out_.kind(top()));
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void PickleReader::set(const std::vector<ValueId>& items) {
  auto* const dict = out_.find<DictValue>(top());
  check(dict != nullptr && items.size() % 2 == 0,
        "load: the pickle is damaged: cannot set entries of ", out_.kind(top()));
  for (size_t i = 0; i < items.size(); i += 2) dict->entries.emplace_back(items[i], items[i + 1]);
}

const std::vector<ValueId>& PickleReader::tuple(ValueId id) const {
  const auto* const list = out_.find<ListValue>(id);
  check(list != nullptr && list->is_tuple, "load: the pickle is damaged: expected a tuple, got ",
        out_.kind(id));
  return list->items;
}

// --- opcodes -------------------------------------------------------------------------------------

bool PickleReader::run_constant(uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const auto protocol = number<uint8_t>();
      check(protocol <= kNewestProtocol, "load: expected a pickle protocol of at most ",
            kNewestProtocol, ", got unsupported pickle protocol ", protocol);
      return true;
    }
    case 0x95:  // FRAME
      check(number<uint64_t>() <= text_.size() - at_, "load: pickle data was truncated");
      return true;
    case 'N':
      return push(std::monostate{}), true;
    case 0x88:
      return push(true), true;
    case 0x89:
      return push(false), true;
    default:
      return false;
  }
}

bool PickleReader::run_number(uint8_t opcode) {
  switch (opcode) {
    case 'J':
      return push(int64_t{number<int32_t>()}), true;
    case 'K':
      return push(int64_t{number<uint8_t>()}), true;
    case 'M':
      return push(int64_t{number<uint16_t>()}), true;
    case 0x8a: {  // LONG1
      const auto size = number<uint8_t>();
      check(size <= 8, "load: expected integers of 64 bits, got one of ", size, " bytes");
      const std::string bytes = take(size);
      uint64_t value = size > 0 && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
      std::memcpy(&value, bytes.data(), bytes.size());
      return push(static_cast<int64_t>(value)), true;
    }
    case 'G':
      return push(std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()))), true;
    default:
      return false;
  }
}

bool PickleReader::run_text(uint8_t opcode) {
  switch (opcode) {
    case 0x8c:  // SHORT_BINUNICODE
      return push(take(number<uint8_t>())), true;
    case 'X':
      return push(take(number<uint32_t>())), true;
    case 0x8d:  // BINUNICODE8
      return push(take(number<uint64_t>())), true;
    default:
      return false;
  }
}

bool PickleReader::run_tuple(uint8_t opcode) {
  if (opcode == ')') return push_tuple({}), true;
  if (opcode == 't') return push_tuple(pop_mark()), true;
  if (opcode < 0x85 || opcode > 0x87) return false;  // TUPLE1 to TUPLE3
  std::vector<ValueId> items(opcode - 0x84u);
  for (size_t i = items.size(); i-- > 0;) items[i] = pop();
  return push_tuple(std::move(items)), true;
}

bool PickleReader::run_container(uint8_t opcode) {
  switch (opcode) {
    case '(':
      return marks_.push_back(stack_.size()), true;
    case ']':
      return push(ListValue{}), true;
    case '}':
      return push(DictValue{}), true;
    case 'a':
      return append({pop()}), true;
    case 'e':
      return append(pop_mark()), true;
    case 's': {
      const ValueId value = pop(), key = pop();
      return set({key, value}), true;
    }
    case 'u':
      return set(pop_mark()), true;
    case 'b':  // BUILD: the attributes of an OrderedDict, such as those of state_dict(), are left
               // out
      pop();
      check(out_.find<DictValue>(top()) != nullptr,
            "load: expected attributes of dicts alone, got those of ", out_.kind(top()));
      return true;
    default:
      return false;
  }
}

bool PickleReader::run_memo(uint8_t opcode) {
  if (opcode == 'q') return put(number<uint8_t>()), true;
  if (opcode == 'r') return put(number<uint32_t>()), true;
  if (opcode == 0x94) return put(static_cast<uint32_t>(memo_.size())), true;  // MEMOIZE
  if (opcode != 'h' && opcode != 'j') return false;
  const uint32_t key = opcode == 'h' ? number<uint8_t>() : number<uint32_t>();
  const auto known = memo_.find(key);
  check(known != memo_.end(), "load: the pickle is damaged: expected a known memo key, got ", key);
  stack_.push_back(known->second);
  return true;
}

bool PickleReader::run_name(uint8_t opcode) {
  switch (opcode) {
    case 'c': {  // GLOBAL
      const std::string module = line();
      return push(NameValue{module + " " + line()}), true;
    }
    case 0x93: {  // STACK_GLOBAL
      const auto* const name = out_.find<std::string>(pop());
      const auto* const module = out_.find<std::string>(pop());
      check(name != nullptr && module != nullptr,
            "load: the pickle is damaged: expected the names of a global as strings, got others");
      return push(NameValue{*module + " " + *name}), true;
    }
    case 'R': {  // REDUCE
      const std::vector<ValueId> args = tuple(pop());
      const auto* const name = out_.find<NameValue>(pop());
      check(name != nullptr,
            "load: the pickle is damaged: expected the name of a callable, got none");
      if (name->text == "torch Size" && args.size() == 1) {
        tuple(args[0]);  // a check: the sizes themselves stand for it
        return stack_.push_back(args[0]), true;
      }
      return push(called(out_, name->text, args)), true;
    }
    case 'Q':  // BINPERSID
      return resolve(pop()), true;
    default:
      return false;
  }
}

void PickleReader::resolve(ValueId id) {
  const std::vector<ValueId>& parts = tuple(id);
  const auto* const tag = parts.size() == 5 ? out_.find<std::string>(parts[0]) : nullptr;
  check(tag != nullptr && *tag == "storage",
        "load: expected ('storage', type, name, place, count), got an unknown persistent id");
  const auto* const type = out_.find<NameValue>(parts[1]);
  const auto* const key = out_.find<std::string>(parts[2]);
  const auto* const count = out_.find<int64_t>(parts[4]);
  check(type != nullptr && key != nullptr && count != nullptr,
        "load: expected a type, a name and a number of elements of a storage, got others");
  const std::optional<c10::ScalarType> dtype = storage_dtype(type->text);
  check(dtype.has_value(), "load: expected the name of a type of storages, got ", type->text);
  StorageValue found{storage_of_(*key, *dtype), *dtype};
  const size_t item = *dtype == c10::ScalarType::Undefined ? 1 : c10::element_size(*dtype);
  const size_t bytes = found.storage->nbytes();
  check(*count >= 0 && static_cast<uint64_t>(*count) == bytes / item, "load: expected ", *count,
        " elements of ", item, " bytes in storage '", *key, "', got ", bytes, " bytes");
  push(std::move(found));
}

}  // namespace flambeau::api::archive
