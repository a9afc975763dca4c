/*
 * The settings of one run, as the Python face writes them: `key=value` words. lab/sim/experiment.py is where people
 * meet them, with their meaning, units and defaults. Here every key must be known, every number whole and in its range,
 * and nothing is taken for 0: what is refused ends the program with exit 2 and one sentence that names key and value.
 */
#ifndef QCLIMB_SIM_CONFIG_H
#define QCLIMB_SIM_CONFIG_H

#include "core/units.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace sim
{

constexpr int64_t MOST_BYTES = int64_t(1) << 50; /* of a buffer or a threshold: sums of them fit into 64 bits */
constexpr int64_t MOST_PS = int64_t(10) << 40; /* of a timeout, eleven seconds, and of a link's delay */
constexpr uint32_t MOST_PAYLOAD = 65'535, MOST_HEADER = 1'000; /* of a packet, bytes */
constexpr uint32_t MOST_PACKETS = 1'000'000; /* of a window */

[[noreturn]] inline void refuse(std::string sentence)
{
	for (char &letter : sentence)
		letter = letter >= 0 && letter < ' ' ? '?' : letter; /* it stays one line, whatever it quotes */
	std::fprintf(stderr, "%s\n", sentence.c_str());
	std::exit(2);
}

/* How many letters must be put in, taken out or changed (Levenshtein). */
inline size_t edits(const std::string &from, const std::string &to)
{
	std::vector<size_t> row(to.size() + 1);

	std::iota(row.begin(), row.end(), 0);
	for (const char letter : from) {
		size_t corner = row[0]++;
		for (size_t i = 0; i < to.size(); i++) {
			const size_t above = row[i + 1];
			row[i + 1] = std::min({ above + 1, row[i] + 1, corner + (letter != to[i]) });
			corner = above;
		}
	}
	return row.back();
}

class Config
{
      public:
	static Config read(int argc, char **argv)
	{
		Config config;

		for (int i = 1; i < argc; i++) {
			const std::string word = argv[i];
			const size_t at = word.find('=');
			if (at == std::string::npos || !at)
				refuse("argument " + std::to_string(i) + " is " + word + ", expected key=value");
			if (!config.values_.emplace(word.substr(0, at), word.substr(at + 1)).second)
				refuse(word.substr(0, at) + " is given twice");
		}
		return config;
	}

	const std::string &text(const std::string &key) const
	{
		const auto found = values_.find(key);

		if (found == values_.end())
			refuse_missing(key);
		asked_.insert(key);
		return found->second;
	}

	int64_t number(const std::string &key, int64_t least, int64_t most) const
	{
		return whole(key, text(key), least, most);
	}
	uint32_t count(const std::string &key, uint32_t least, uint32_t most) const
	{
		return uint32_t(number(key, least, most));
	}
	uint64_t bytes(const std::string &key) const
	{
		return uint64_t(number(key, 0, MOST_BYTES));
	}
	bool flag(const std::string &key) const
	{
		return number(key, 0, 1) != 0;
	}

	/* Which of the words the value is, from 0. */
	size_t choice(const std::string &key, const std::vector<std::string> &words) const
	{
		const std::string &value = text(key);
		const auto found = std::find(words.begin(), words.end(), value);
		std::string known;

		if (found != words.end())
			return size_t(found - words.begin());
		for (const std::string &word : words)
			known += (known.empty() ? "" : ", ") + word;
		refuse(key + " is " + value + ", expected one of " + known);
	}

	/* Whole numbers with commas between them; an empty text has none. */
	std::vector<uint64_t> numbers(const std::string &key, int64_t most) const
	{
		const std::string &value = text(key);
		std::vector<uint64_t> found;

		for (size_t from = 0; from < value.size();) {
			const size_t end = std::min(value.find(',', from), value.size());
			const std::string name = key + "[" + std::to_string(found.size()) + "]";
			found.push_back(uint64_t(whole(name, value.substr(from, end - from), 0, most)));
			from = end + 1;
			if (from == value.size())
				refuse(key + " is " + value + ", expected no comma at its end");
		}
		return found;
	}

	/* `count` numbers above 0, each more than the one before. */
	std::vector<uint64_t> ascending(const std::string &key, size_t count) const
	{
		const std::vector<uint64_t> found = numbers(key, MOST_TIME);

		if (found.size() != count)
			refuse(key + " has " + std::to_string(found.size()) + " numbers, expected " +
			       std::to_string(count));
		for (size_t i = 0; i < count; i++)
			if (found[i] <= (i ? found[i - 1] : 0))
				refuse(key + "[" + std::to_string(i) + "] is " + std::to_string(found[i]) +
				       ", expected more than " + std::to_string(i ? found[i - 1] : 0));
		return found;
	}

	/* After all that know a setting have asked for theirs. */
	void refuse_unknown() const
	{
		for (const auto &[key, value] : values_) {
			if (asked_.count(key))
				continue;
			const auto nearest =
				std::min_element(asked_.begin(), asked_.end(),
						 [&word = key](const std::string &a, const std::string &b) {
							 return edits(word, a) < edits(word, b);
						 });
			refuse(key + " is no setting of this run; did you mean " + *nearest + "?");
		}
	}

      private:
	[[noreturn]] void refuse_missing(const std::string &key) const
	{
		for (const auto &[given, value] : values_)
			if (edits(given, key) <= 2)
				refuse(given + " is no setting of this run; did you mean " + key + "?");
		refuse("the setting " + key + " is missing");
	}

	static int64_t whole(const std::string &name, const std::string &value, int64_t least, int64_t most)
	{
		char *end = nullptr;

		errno = 0;
		const long long found = std::strtoll(value.c_str(), &end, 10);
		const bool is_bare = value[0] == '-' || (value[0] >= '0' && value[0] <= '9');
		if (!is_bare || *end || errno || found < least || found > most)
			refuse(name + " is " + (value.empty() ? "empty" : value) + ", expected a whole number, " +
			       std::to_string(least) + " to " + std::to_string(most));
		return found;
	}

	std::map<std::string, std::string> values_;
	mutable std::set<std::string> asked_;
};

} // namespace sim

#endif
