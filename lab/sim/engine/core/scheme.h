/*
 * Schemes by the words that `scheme=` may have. A scheme's header names its own, at its end:
 *
 *	static const Scheme PFABRIC_SCHEME("pfabric", run_as<Run<Pfabric>>);
 *
 * Nobody else lists them: the Makefile puts the headers that may name one ahead of main.cpp.
 */
#ifndef QCLIMB_SIM_SCHEME_H
#define QCLIMB_SIM_SCHEME_H

#include "core/run.h"

namespace sim
{

using Runs = int (*)(const Config &); /* one run, to the program's exit status */

/* What a `Program(config).run()` is, as a Runs. */
template <class Program> int run_as(const Config &config)
{
	return Program(config).run();
}

class Scheme
{
      public:
	Scheme(const char *word, Runs runs)
	{
		if (!named().emplace(word, runs).second)
			refuse(std::string("two headers name a scheme ") + word);
	}

	/* The one that the settings name. */
	static int run(const Config &config)
	{
		std::vector<std::string> words;

		for (const auto &[word, runs] : named())
			words.push_back(word);
		return named()[words[config.choice("scheme", words)]](config);
	}

      private:
	static std::map<std::string, Runs> &named()
	{
		static std::map<std::string, Runs> found; /* made when the first header asks for it */
		return found;
	}
};

} // namespace sim

#endif
