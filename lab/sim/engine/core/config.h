/*
 * The settings of one run, as the Python face writes them: `key=value` words. lab/sim/experiment.py is where people
 * meet them, with their meaning, units and defaults; here every key must be known and every number whole.
 */
#ifndef QCLIMB_SIM_CONFIG_H
#define QCLIMB_SIM_CONFIG_H

#include "core/units.h"

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace sim
{

[[noreturn]] inline void refuse(const std::string &sentence)
{
	std::fprintf(stderr, "%s\n", sentence.c_str());
	std::exit(2);
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
			if (at == std::string::npos)
				refuse("expected key=value, got " + word);
			config.values_[word.substr(0, at)] = word.substr(at + 1);
		}
		return config;
	}

	std::string text(const std::string &key) const
	{
		const auto found = values_.find(key);

		if (found == values_.end())
			refuse("the setting " + key + " is missing");
		return found->second;
	}

	int64_t number(const std::string &key) const
	{
		const std::string value = text(key);
		char *end = nullptr;
		const long long found = std::strtoll(value.c_str(), &end, 10);

		if (value.empty() || *end)
			refuse(key + " is " + value + ", expected a whole number");
		return found;
	}

	std::vector<uint64_t> numbers(const std::string &key) const
	{
		std::vector<uint64_t> found;
		std::istringstream in(text(key));

		for (std::string part; std::getline(in, part, ',');)
			found.push_back(std::strtoull(part.c_str(), nullptr, 10));
		return found;
	}

      private:
	std::map<std::string, std::string> values_;
};

} // namespace sim

#endif
