/*
 * A sender's window and clock: NewReno's window (RFC 5681, 6582), DCTCP's reaction to marks (RFC 8257), the
 * retransmission timeout (RFC 6298). In packets, integers throughout. Knows nothing of which packets are lost.
 *
 *   Growth: one packet a packet acknowledged below ssthresh, one a window above; none between a loss and the
 *   acknowledgement of what was out when it was seen, and none by an ACK that echoes a mark (RFC 3168, 6.1.2).
 *   Loss: ssthresh = window = half the window, at least 2, once a window. Timeout: ssthresh likewise, window = 1.
 *   DCTCP: alpha, from `dctcp_alpha` (1: RFC 8257, Linux; 0: ns-2), moves by g = 1/16 a window towards the share of marked
 *   packets, in 1024ths; below 16 of these it falls to 0, as Linux has it, for a sixteenth of them is none and alpha
 *   would never fall further. Then the first mark of a window takes alpha/2 of it.
 *   Timeout: max(least, SRTT + 4 RTTVAR), doubled with each one in a row. One that proves spurious (Eifel, RFC 3522:
 *   what moves the cumulative number afterwards is an ACK of a packet sent before) gives window and ssthresh back.
 */
#ifndef QCLIMB_SIM_SCHEMES_CONGESTION_H
#define QCLIMB_SIM_SCHEMES_CONGESTION_H

#include "core/config.h"

#include <algorithm>

namespace sim
{

struct CongestionSettings {
	uint32_t initial, most;
	bool is_dctcp;
	uint32_t first_alpha; /* 1024ths */
	Time least_timeout, first_timeout;

	explicit CongestionSettings(const Config &config)
	    : initial(config.count("initial_window", 1, MOST_PACKETS)),
	      most(config.count("max_window", 1, MOST_PACKETS)), is_dctcp(config.flag("dctcp")),
	      first_alpha(config.count("dctcp_alpha_1024ths", 0, 1024)),
	      least_timeout(config.number("least_timeout_ps", 1, MOST_PS)),
	      first_timeout(config.number("first_timeout_ps", 1, MOST_PS))
	{
	}
};

class Congestion
{
      public:
	void begin(const CongestionSettings &settings)
	{
		window_ = settings.initial;
		alpha_ = settings.first_alpha;
	}

	uint32_t window() const
	{
		return window_;
	}

	/* `packets` are news in an ACK; `first` packets have been acknowledged so far, `next` is the next new one. */
	void acked(const CongestionSettings &settings, uint32_t packets, bool is_marked, uint32_t first, uint32_t next)
	{
		backoff_ = 0;
		if (settings.is_dctcp)
			weigh_marks(packets, is_marked, first, next);
		if (first >= recovered_at_)
			is_recovering_ = false;
		if (is_recovering_ || is_marked)
			return;
		if (window_ < ssthresh_) {
			window_ += packets;
		} else {
			grown_ += packets;
			if (grown_ >= window_) {
				grown_ = 0;
				window_++;
			}
		}
		window_ = std::min(window_, settings.most);
	}

	void lost(uint32_t next)
	{
		if (is_recovering_)
			return;
		is_recovering_ = true;
		recovered_at_ = next;
		window_ = ssthresh_ = std::max(window_ / 2, 2u);
		grown_ = 0;
	}

	void timed_out()
	{
		if (!backoff_) {
			window_before_ = window_;
			ssthresh_before_ = ssthresh_;
		}
		ssthresh_ = std::max(window_ / 2, 2u);
		window_ = 1;
		grown_ = 0;
		is_recovering_ = false;
		backoff_ = std::min(backoff_ + 1, 10u);
	}

	void was_spurious()
	{
		window_ = std::max(window_, window_before_);
		ssthresh_ = ssthresh_before_;
		backoff_ = 0;
	}

	void measured(Time rtt)
	{
		if (!srtt_) {
			srtt_ = rtt;
			variation_ = rtt / 2;
			return;
		}
		variation_ += ((rtt > srtt_ ? rtt - srtt_ : srtt_ - rtt) - variation_) / 4;
		srtt_ += (rtt - srtt_) / 8;
	}

	Time timeout(const CongestionSettings &settings) const
	{
		const Time once =
			srtt_ ? std::max(settings.least_timeout, srtt_ + 4 * variation_) : settings.first_timeout;

		return std::min(once, MOST_TIMEOUT) << backoff_;
	}

      private:
	static constexpr uint32_t ONE = 1024; /* of alpha */
	static constexpr Time MOST_TIMEOUT = Time(1) << 51; /* 37 minutes; ten doublings of it fit into a Time */

	void weigh_marks(uint32_t packets, bool is_marked, uint32_t first, uint32_t next)
	{
		seen_ += packets;
		marked_ += is_marked ? packets : 0;
		if (first >= window_end_) {
			alpha_ = (alpha_ < 16 ? 0 : alpha_ - alpha_ / 16) +
				 uint32_t(uint64_t(ONE) * marked_ / std::max(seen_, 1u) / 16);
			alpha_ = std::min(alpha_, ONE);
			seen_ = marked_ = 0;
			window_end_ = next;
		}
		if (is_marked && first >= cut_until_ && !is_recovering_) {
			window_ = std::max(window_ - uint32_t(uint64_t(window_) * alpha_ / (2 * ONE)), 2u);
			ssthresh_ = window_;
			grown_ = 0;
			cut_until_ = next;
		}
	}

	uint32_t window_before_ = 0, ssthresh_before_ = UINT32_MAX; /* the timeout */
	uint32_t window_ = 0, ssthresh_ = UINT32_MAX, grown_ = 0, recovered_at_ = 0, backoff_ = 0;
	uint32_t alpha_ = 0, seen_ = 0, marked_ = 0, cut_until_ = 0, window_end_ = 0;
	bool is_recovering_ = false;
	Time srtt_ = 0, variation_ = 0;
};

} // namespace sim

#endif
