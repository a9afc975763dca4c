/*
 * The loop: flows begin, packets stand at ports or hosts, ports get free, timers go off, until every flow is over or
 * the run's end. A scheme is a class with a Queue, a Flow, and start / at_receiver / at_sender / timeout.
 */
#ifndef QCLIMB_SIM_RUN_H
#define QCLIMB_SIM_RUN_H

#include "core/network.h"
#include "core/stream.h"

#include <sys/resource.h>
#include <type_traits>

namespace sim
{

/* The most memory this program had, KiB. (getrusage's figure would be that of whoever started it, if that was more.) */
inline uint64_t peak_memory_kib()
{
	std::FILE *status = std::fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long kib = 0;

	if (!status)
		return 0;
	while (std::fgets(line, sizeof(line), status))
		if (std::sscanf(line, "VmHWM: %llu", &kib) == 1)
			break;
	std::fclose(status);
	return kib;
}

inline std::string json_list(const uint64_t *values, size_t count)
{
	std::string text = "[";

	for (size_t i = 0; i < count; i++)
		text += (i ? "," : "") + std::to_string(values[i]);
	return text + "]";
}

/* A flow as the list has it. */
inline void fill(FlowBase &flow, const FlowRecord &record, uint64_t index, uint32_t payload)
{
	flow.index = index;
	flow.start = record.start_ps;
	flow.size_bytes = record.size_bytes;
	flow.lower_bytes = record.lower_bytes;
	flow.upper_bytes = record.upper_bytes;
	flow.forecast_bytes = record.forecast_bytes;
	flow.source = record.source;
	flow.target = record.target;
	flow.task = record.task;
	flow.group = uint32_t(std::min<uint64_t>(record.group, UINT32_MAX));
	flow.task_largest_bytes = std::max(record.task_largest_bytes, record.size_bytes);
	flow.due = record.deadline_ps ? record.deadline_ps : NEVER;
	const uint64_t packets = (flow.size_bytes - 1) / payload + 1;
	if (packets > INT32_MAX)
		refuse("flow " + std::to_string(index) + ": size_bytes is " + std::to_string(flow.size_bytes) +
		       ", expected at most 2^31 - 1 packets");
	flow.packets = uint32_t(packets);
	flow.last_bytes = uint32_t(flow.size_bytes - (packets - 1) * payload);
}

/* What a run came to, beside what its network counted. */
struct Totals {
	uint64_t flows, unfinished, events;
	Time end;
	size_t peak_packets, peak_flows;
};

inline std::string json_of(const Counts &n, const Totals &totals, const std::string &watched)
{
	rusage used = {};

	getrusage(RUSAGE_SELF, &used);
	const double cpu = double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
			   1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	std::string text = "{\"flows\":" + std::to_string(totals.flows);
	text += ",\"unfinished\":" + std::to_string(totals.unfinished);
	text += ",\"events\":" + std::to_string(totals.events) + ",\"end_ps\":" + std::to_string(totals.end);
	text += ",\"data_packets\":" + std::to_string(n.data_packets);
	text += ",\"delivered_packets\":" + std::to_string(n.delivered_packets);
	text += ",\"control_packets\":" + std::to_string(n.control_packets);
	text += ",\"drops_at\":" + json_list(n.drops_at, PLACES);
	text += ",\"control_drops\":" + std::to_string(n.control_drops);
	text += ",\"marks\":" + std::to_string(n.marks);
	text += ",\"waiting_sum\":" + std::to_string(n.waiting_sum);
	text += ",\"losses_told\":" + std::to_string(n.losses_told);
	text += ",\"rank_packets\":" + json_list(n.rank_packets, 64);
	text += ",\"rank_drops\":" + json_list(n.rank_drops, 64);
	text += ",\"peak_packets\":" + std::to_string(totals.peak_packets);
	text += ",\"peak_flows\":" + std::to_string(totals.peak_flows);
	text += ",\"peak_rss_kib\":" + std::to_string(peak_memory_kib());
	text += watched.empty() ? "" : ",\"watched\":" + watched;
	return text + ",\"cpu_seconds\":" + std::to_string(cpu) + "}";
}

/* The width at which some ten to twenty events fall into a bucket: twice the time between two packets of all hosts at full
 * load, for each of which there are some ten events, at the loads that are usual. */
inline int bucket_bits(const Config &config, uint32_t hosts)
{
	const Time per_packet = config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE) * 1500 / Time(hosts);
	int bits = 4;

	while (bits < Entry::TIME_BITS && (Time(1) << bits) < 2 * per_packet)
		bits++;
	return bits;
}

/* What a scheme's switches do beyond queueing, where it names any. */
template <class Scheme, class = void> struct LinksOf {
	using Type = NoLinks;
};
template <class Scheme> struct LinksOf<Scheme, std::void_t<typename Scheme::Links>> {
	using Type = typename Scheme::Links;
};

template <class Scheme> class Run
{
	using Flow = typename Scheme::Flow;
	using Packet = typename Scheme::Packet;
	using Net = Network<typename Scheme::Queue, Packet, typename LinksOf<Scheme>::Type>;

      public:
	explicit Run(const Config &config)
	    : topology_(config), calendar_(bucket_bits(config, topology_.hosts())),
	      network_(config, topology_, calendar_), scheme_(config, network_), reader_(topology_.hosts()),
	      payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)), end_(config.number("end_ps", 1, MOST_TIME))
	{
		config.refuse_unknown();
	}

	int run()
	{
		arrival_.kind = Kind::ARRIVAL;
		next_flow();
		const auto fetch_of = [this](const Event &soon) { fetch(soon); };
		const auto follow_from = [this](const Event &next) { follow(next); };
		while (Event *event = calendar_.take(fetch_of, follow_from)) {
			if (event->time > end_)
				break;
			if (event->kind == Kind::NOTHING) {
				network_.drop(static_cast<Timer *>(event));
				continue;
			}
			network_.now = event->time;
			events_++;
			switch (event->kind) {
			case Kind::PACKET:
				at_packet(static_cast<Packet *>(event));
				break;
			case Kind::PORT:
				network_.serve(event);
				break;
			case Kind::TIMER:
				at_timer(static_cast<Timer *>(event));
				break;
			case Kind::ARRIVAL:
				begin();
				break;
			case Kind::NOTHING:
				break;
			}
			while (network_.over)
				retire();
		}
		finish();
		return 0;
	}

      private:
	/* Brings near what an event that is near will touch. */
	void fetch(const Event &event) const
	{
		if (event.kind == Kind::PACKET) {
			const auto &packet = static_cast<const sim::Packet &>(event);
			if (packet.hop < packet.hops) {
				network_.fetch(packet, topology_.next_port(packet));
				return;
			}
			fetch_flow(packet.flow);
			network_.fetch(packet, topology_.back_port(packet)); /* it will answer */
		} else if (event.kind == Kind::PORT) {
			network_.fetch_queue(event);
		} else if (event.kind == Kind::TIMER) {
			fetch_flow(static_cast<const Timer &>(event).flow);
		}
	}

	/* Brings near what an event that comes next will touch, and what it touches first had to tell. */
	void follow(const Event &event) const
	{
		if (event.kind == Kind::PORT)
			network_.fetch_served(event);
	}

	static void fetch_flow(const FlowBase *flow)
	{
		const char *at = reinterpret_cast<const char *>(flow);
		for (size_t i = 0; i < sizeof(Flow); i += 64)
			__builtin_prefetch(at + i);
	}

	void at_packet(Packet *packet)
	{
		if (packet->hop < packet->hops) {
			network_.forward(packet, topology_.next_port(*packet));
			return;
		}
		Flow &flow = *static_cast<Flow *>(packet->flow);
		if (packet->to_sender) {
			if (flow.is_over)
				network_.release(packet);
			else
				scheme_.at_sender(flow, packet);
		} else {
			network_.counts.delivered_packets += packet->type == Type::DATA;
			network_.counts.marks += packet->is_marked;
			scheme_.at_receiver(flow, packet);
		}
	}

	void at_timer(Timer *timer)
	{
		if (FlowBase *flow = network_.due(timer))
			scheme_.timeout(*static_cast<Flow *>(flow));
	}

	void next_flow()
	{
		if (reader_.read(&record_))
			calendar_.put(&arrival_, record_.start_ps);
	}

	void begin()
	{
		Flow *flow = flows_.make();

		fill(*flow, record_, begun_++, payload_);
		flow->previous = nullptr;
		flow->following = first_;
		if (first_)
			first_->previous = flow;
		first_ = flow;
		next_flow();
		scheme_.start(*flow);
	}

	void retire()
	{
		Flow *flow = static_cast<Flow *>(network_.over);

		network_.over = flow->next_over;
		writer_.write(*flow);
		(flow->previous ? flow->previous->following : first_) = flow->following;
		if (flow->following)
			flow->following->previous = flow->previous;
		flows_.drop(flow);
	}

	void finish()
	{
		uint64_t left = 0;

		for (FlowBase *flow = first_; flow; flow = flow->following, left++)
			writer_.write(*flow);
		SIM_CHECK(left || network_.packets_live() == 0, "no packet outlives all flows");
		const std::string watched = network_.watch.is_on() ? network_.watch.json() : "";
		writer_.close(json_of(network_.counts,
				      { begun_, left, events_, network_.now, network_.packets_peak(), flows_.peak() },
				      watched));
	}

	Topology topology_;
	Calendar calendar_;
	Net network_;
	Scheme scheme_;
	FlowReader reader_;
	ResultWriter writer_;
	Pool<Flow> flows_;
	FlowBase *first_ = nullptr; /* of the flows that are not over */
	FlowRecord record_ = {};
	Event arrival_;
	const uint32_t payload_;
	const Time end_;
	uint64_t begun_ = 0, events_ = 0;
};

} // namespace sim

#endif
