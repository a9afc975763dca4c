"""What redis does for switchd in one step: Lua scripts, the same for both backends, and their arguments.

A script is one transaction: nobody sees half of it. SONiC's subscribers get the keyspace notifications of its commands
as those of a MULTI. Every script answers text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row

# ARGV: owner of the lock or "", number of STATE_DB, of the database to change; the commands (`packed`).
# PUT makes a hash exactly this without a DEL, which orchagent would park while the row is referenced.
# EXPECT, which stands before what changes anything, ends it where a hash is not exactly this; READY where CONFIG_DB is
# not whole. Answers '', "holder NAME", "changed KEY", "odd KEY" where that is no hash.
WRITE = """
if ARGV[1] ~= '' then
  redis.call('SELECT', ARGV[2])
  local holder = redis.call('GET', KEYS[1])
  redis.call('SELECT', ARGV[3])
  if holder ~= ARGV[1] then return 'holder ' .. (holder or 'nobody') end
end
for _, words in ipairs(cjson.decode(ARGV[4])) do
  local key = words[2]
  if words[1] == 'PUT' then
    local kept = {}
    for i = 3, #words, 2 do kept[words[i]] = true end
    redis.call('HSET', key, unpack(words, 3))
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if not kept[field] then redis.call('HDEL', key, field) end
    end
  elseif words[1] == 'EXPECT' then
    local count = redis.pcall('HLEN', key)
    if type(count) ~= 'number' then return 'odd ' .. key end
    if count * 2 ~= #words - 2 then return 'changed ' .. key end
    for i = 3, #words, 2 do
      if redis.call('HGET', key, words[i]) ~= words[i + 1] then return 'changed ' .. key end
    end
  elseif words[1] == 'READY' then
    if redis.call('GET', 'CONFIG_DB_INITIALIZED') ~= '1' then return 'changed CONFIG_DB_INITIALIZED' end
  else
    redis.call(unpack(words))
  end
end
return ''
"""
# ARGV: '1' where CONFIG_DB must be whole; a glob that every key of the tables matches, and few others (`glob_over`);
# tables. Answers '' where it is not whole.
READ_TABLES = """
if ARGV[1] == '1' and redis.call('GET', 'CONFIG_DB_INITIALIZED') ~= '1' then return '' end
local wanted, found = {}, {}
for at = 3, #ARGV do wanted[ARGV[at]] = true end
for _, key in ipairs(redis.call('KEYS', ARGV[2])) do
  if wanted[string.match(key, '^[^|]*')] and redis.call('TYPE', key).ok == 'hash' then
    found[#found + 1] = {key, redis.call('HGETALL', key)}
  end
end
return cjson.encode(found)
"""
# ARGV: keys
READ_HASHES = """
local found = {}
for i, key in ipairs(ARGV) do
  found[i] = redis.call('TYPE', key).ok == 'hash' and redis.call('HGETALL', key) or {}
end
return cjson.encode(found)
"""
# ARGV: key. Answers '' where it is not there and CONFIG_DB is not whole.
READ_ENTRY = """
local row = redis.call('TYPE', ARGV[1]).ok == 'hash' and redis.call('HGETALL', ARGV[1]) or {}
if #row == 0 and redis.call('GET', 'CONFIG_DB_INITIALIZED') ~= '1' then return '' end
return cjson.encode(row)
"""
# ARGV: cursor, pattern
SCAN = "return cjson.encode(redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 500))"
# ARGV: owner, milliseconds, whom he may replace. Answers who holds it.
HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return ''"
# ProducerStateTable's protocol (sonic-swss-common, producerstatetable.cpp): a plain HSET would not be noticed.
# KEYS: T_KEY_SET, T_DEL_SET, _T:K. ARGV: channel, K, then field, value, ...
PRODUCE = """
local added = redis.call('SADD', KEYS[1], ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
if added == 1 then redis.call('PUBLISH', ARGV[1], 'G') end
return ''
"""
PRODUCE_DELETE = """
local added = redis.call('SADD', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[3])
if added == 1 then redis.call('PUBLISH', ARGV[1], 'G') end
return ''
"""
# Several of them as one step of the lock's owner. ARGV: owner, number of STATE_DB, of APPL_DB; for each how many words
# follow: table, K, then field, value, ...; without fields a deletion. Answers '', or "holder NAME".
PRODUCE_ALL = """
redis.call('SELECT', ARGV[2])
local holder = redis.call('GET', KEYS[1])
redis.call('SELECT', ARGV[3])
if holder ~= ARGV[1] then return 'holder ' .. (holder or 'nobody') end
local at = 4
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  local t, k = ARGV[at + 1], ARGV[at + 2]
  local added = redis.call('SADD', t .. '_KEY_SET', k)
  if at + 2 == last then
    redis.call('SADD', t .. '_DEL_SET', k)
    redis.call('DEL', '_' .. t .. ':' .. k)
  else
    redis.call('HSET', '_' .. t .. ':' .. k, unpack(ARGV, at + 3, last))
  end
  if added == 1 then redis.call('PUBLISH', t .. '_CHANNEL@' .. ARGV[3], 'G') end
  at = last + 1
end
return ''
"""
# What consumers have not taken yet. ARGV: tables. Answers [table, K, 1 if deleted first, [field, value, ...]].
PRODUCED = """
local found = {}
for _, t in ipairs(ARGV) do
  for _, k in ipairs(redis.call('SMEMBERS', t .. '_KEY_SET')) do
    local gone = redis.call('SISMEMBER', t .. '_DEL_SET', k)
    found[#found + 1] = {t, k, gone, redis.call('HGETALL', '_' .. t .. ':' .. k)}
  end
end
return cjson.encode(found)
"""


def words_of(change: Change) -> list[str]:
    """A change as a command of WRITE."""
    key = f"{change.table}|{change.key}"
    match change:
        case Merge():
            return ["HSET", key, *flat(change.fields or EMPTY)]
        case Put():
            return ["PUT", key, *flat(change.row or EMPTY)]
        case Drop():
            return ["HDEL", key, *change.fields]
        case Delete():
            return ["DEL", key]


def conditions(expected: Mapping[tuple[str, str], Row] | None) -> list[list[str]]:
    """The commands of WRITE that let it go on only while CONFIG_DB is whole and has these rows, by table and key."""
    if expected is None:
        return []
    return [["READY"], *(["EXPECT", f"{table}|{key}", *flat(row)] for (table, key), row in expected.items())]


def packed(commands: Iterable[Sequence[str]]) -> str:
    """Commands as the last argument of WRITE: one text, which costs both ends a tenth of thousands of arguments."""
    return json.dumps(list(commands), ensure_ascii=False)  # bytes that are no UTF-8 go as they are


def counted(commands: Iterable[Sequence[str]]) -> list[str]:
    """Commands as the last arguments of PRODUCE_ALL."""
    return [text for words in commands for text in (str(len(words)), *words)]


def glob_over(tables: Iterable[str]) -> str:
    """A glob for keys of these tables: redis has no index, but leaves a key after its first letters that don't fit.

    A foreign row costs some 0.1 us so, and 0.6 where it is handed to the script to look at.
    """
    names = [*tables]
    letters = zip(*names, strict=False)  # as many as the shortest name has
    return "".join(f"[{''.join(sorted(set(each)))}]" for each in letters) + "*|*"


def flat(row: Mapping[str, str]) -> list[str]:
    """A hash as redis takes it."""
    return [text for pair in row.items() for text in pair]
