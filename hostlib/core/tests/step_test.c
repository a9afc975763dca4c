/* What is done at a boundary: the table alone, and in walks over a model of a socket. */
#include "unit.h"

#include <stdbool.h>

#include "boundary/step.h"

#define ALL_LOANS (LEND_LOWAT | LEND_SNDBUF | LEND_CORK)

static const uint8_t loans_of[BOUNDARY_STATES] = { 0, LEND_LOWAT, LEND_SNDBUF, LEND_SNDBUF | LEND_CORK };

/* What is lent after a step. */
static uint8_t loans_after(uint8_t state, struct boundary_step step)
{
	const uint8_t left = step.actions & GIVE ? 0 : loans_of[state];

	return left | (step.actions & ALL_LOANS);
}

static uint8_t state_with(uint8_t loans)
{
	for (uint8_t state = 0; state < BOUNDARY_STATES; state++)
		if (loans_of[state] == loans)
			return state;
	return BOUNDARY_STATES;
}

static void steps__lead_from_state_to_state(void **state)
{
	(void)state;
	for (uint8_t from = 0; from < BOUNDARY_STATES; from++)
		for (uint8_t event = 0; event < BOUNDARY_EVENTS; event++)
			assert_in_range(state_with(loans_after(from, boundary_steps[from][event])), 0,
					BOUNDARY_STATES - 1);
}

static void steps__leave_nothing_lent_where_a_call_goes_on_or_ends(void **state)
{
	(void)state;
	for (uint8_t from = 0; from < BOUNDARY_STATES; from++)
		for (uint8_t event = 0; event < BOUNDARY_EVENTS; event++) {
			const struct boundary_step step = boundary_steps[from][event];

			if (step.then == GO || (step.then == REFUSE && event != FULL))
				assert_int_equal(loans_after(from, step), 0);
		}
}

static void steps__mark_only_what_a_look_allows(void **state)
{
	(void)state;
	for (uint8_t from = 0; from < BOUNDARY_STATES; from++)
		for (uint8_t event = 0; event < BOUNDARY_EVENTS; event++)
			if (boundary_steps[from][event].actions & MARK)
				assert_true(event == PAST || event == AHEAD || event == CLEAR || event == VAIN);
}

static void steps__hold_bytes_back_only_under_a_cork(void **state)
{
	(void)state;
	for (uint8_t from = 0; from < BOUNDARY_STATES; from++)
		for (uint8_t event = 0; event < BOUNDARY_EVENTS; event++) {
			const struct boundary_step step = boundary_steps[from][event];

			assert_int_equal(step.then == HOLD, (step.actions & LEND_CORK) != 0);
			if (step.then == PIECE)
				assert_int_equal(state_with(loans_after(from, step)), LATE);
		}
}

/* A socket's bytes as positions in the stream, and two boundaries: a demotion, and later a climb. */
struct model {
	uint64_t written, sent, acked, held_from; /* held_from: from here on bytes are corked; UINT64_MAX: none */
	uint64_t demotion, climb, kept;
	uint8_t state, priority, top_unacked; /* the priority of the last byte sent */
	bool is_over; /* this call waited long enough */
	bool is_early; /* and marked before all had left: harmless */
	uint32_t seed;
};

static uint32_t draw(struct model *model, uint32_t below)
{
	model->seed = model->seed * 1664525 + 1013904223;
	return (model->seed >> 8) % below;
}

static uint8_t wanted_at(const struct model *model, uint64_t at)
{
	return at >= model->demotion && at < model->climb;
}

/* The network takes and ACKs some of what is there. */
static void network_moves(struct model *model)
{
	const uint64_t end = model->held_from < model->written ? model->held_from : model->written;
	const uint64_t sends = end > model->sent ? draw(model, (uint32_t)(end - model->sent + 1)) : 0;

	/* Never before its boundary, and nothing overtakes: what is served first follows on a path that is empty. */
	for (uint64_t at = model->sent; at < model->sent + sends; at++) {
		if (model->priority == 1 && !model->is_early)
			assert_true(at >= model->demotion);
		if (at == model->sent && model->priority < model->top_unacked)
			assert_int_equal(model->acked, model->sent);
	}
	if (sends)
		model->top_unacked = model->priority;
	model->sent += sends;
	if (model->sent > model->acked)
		model->acked += draw(model, (uint32_t)(model->sent - model->acked + 1));
}

static enum boundary_event model_look(const struct model *model, uint64_t left)
{
	const uint8_t wanted = wanted_at(model, model->written);
	const bool is_clear = model->acked == (model->state == HELD ? model->held_from : model->written);

	if (wanted == model->priority)
		return SAME;
	if (wanted > model->priority)
		return model->is_over || wanted_at(model, model->sent) ? PAST : AHEAD;
	if (is_clear)
		return CLEAR;
	return model->kept > model->written || left <= 2 ? VAIN : WORTH;
}

/* The bytes that may be written now; 0: the call ends. */
static uint64_t model_grant(struct model *model, uint64_t left)
{
	model->is_over = false;
	for (int rounds = 0; rounds < 1000; rounds++) {
		enum boundary_event event = BOUNDARY_EVENTS;
		struct boundary_step step;

		network_moves(model);
		if (model->state != CALM && draw(model, 4) == 0)
			event = (enum boundary_event)(FULL + draw(model, 4));
		if (event == BOUNDARY_EVENTS)
			event = model_look(model, left);
		step = boundary_steps[model->state][event];
		model->is_early |= event == PAST && !wanted_at(model, model->sent);
		if (step.actions & MARK && event != VAIN)
			model->priority = event == AHEAD ? model->priority : wanted_at(model, model->written);
		if (step.actions & GIVE)
			model->held_from = UINT64_MAX;
		if (step.actions & KEEP) {
			model->is_over = true;
			model->kept = UINT64_MAX;
		}
		if (step.actions & LEND_CORK)
			model->held_from = model->written;
		model->state = state_with(loans_after(model->state, step));
		switch (step.then) {
		case AGAIN:
			continue;
		case REFUSE:
			return 0;
		case HOLD:
			return 2;
		case PIECE:
			return left < 5 ? left : 5;
		default:
			if (model->written < model->demotion && left > model->demotion - model->written)
				return model->demotion - model->written;
			if (model->written < model->climb && left > model->climb - model->written)
				return model->climb - model->written;
			return left;
		}
	}
	fail(); /* a call that never ends */
	return 0;
}

static void walks__demote_late_overtake_nothing_and_end(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 3000; seed++) {
		struct model model = { .held_from = UINT64_MAX, .demotion = 20, .climb = 120, .seed = seed };

		while (model.written < 200) {
			uint64_t left = 1 + draw(&model, 60);

			while (left) {
				const uint64_t len = model_grant(&model, left);

				if (!len)
					break;
				model.written += len;
				left -= len;
			}
		}
		assert_true(model.state == CALM || model.written >= 200);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps__lead_from_state_to_state),
		cmocka_unit_test(steps__leave_nothing_lent_where_a_call_goes_on_or_ends),
		cmocka_unit_test(steps__mark_only_what_a_look_allows),
		cmocka_unit_test(steps__hold_bytes_back_only_under_a_cork),
		cmocka_unit_test(walks__demote_late_overtake_nothing_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
